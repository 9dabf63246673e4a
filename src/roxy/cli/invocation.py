"""One call of roxy: what it was asked, and where it answers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from roxy.cli.color import wants_color
from roxy.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from roxy.cli.streams import Stream, Streams


class Settings(NamedTuple):
    """What the options that every command has ask for (S44)."""

    directory: str = ""
    wait: float = 0.0
    """Seconds to wait for another roxy, none unless asked to (S8)."""
    json: bool = False
    verbose: bool = False
    quiet: bool = False
    color: str = "auto"

    @property
    def start(self) -> Path:
        """The folder to start in, absolute. Raises `UsageError`."""
        try:
            return Path(self.directory).absolute()
        except FileNotFoundError as error:
            raise UsageError(
                "the folder that roxy was started in is gone", hint="go to one that exists"
            ) from error


class Invocation:
    """What the commands and the boundary share while roxy runs."""

    def __init__(self, streams: Streams, environ: Mapping[str, str], **given: Any) -> None:
        self.streams = streams
        self.environ = environ
        self.given = given
        """Fields of `Settings` by name, as far as options gave them; a later option replaces."""
        self.state: Path | None = None
        """Where roxy keeps its own things, once the repository is known."""

    @property
    def settings(self) -> Settings:
        """The options, wherever they stood. Raises `UsageError` when they contradict."""
        settings = Settings(**self.given)
        if settings.verbose and settings.quiet:
            raise UsageError("`--verbose` and `--quiet` do not go together", hint="leave one out")
        return settings

    def wants_color(self, stream: Stream) -> bool:
        """Return whether text for `stream` is coloured."""
        choice = self.given.get("color", "auto")
        return wants_color(choice, self.environ, is_terminal=stream.is_terminal)
