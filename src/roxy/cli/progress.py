"""The live line of `verify` on a terminal (S46). The only file that imports rich.

Nothing is drawn by itself: each event of a verify may draw once, so there is no thread, and what
else roxy prints never meets a half-drawn line.
"""

from __future__ import annotations

import io
import os
import time
from typing import TYPE_CHECKING

from rich.console import Console
from rich.live import Live
from rich.text import Text

from roxy.cli.streams import Stream
from roxy.core.events import (
    CheckFinished,
    CheckStarted,
    EditKept,
    NeedFinished,
    NeedStarted,
    Remarked,
    RunFinished,
    RunOutput,
    RunStarted,
    RunTick,
)
from roxy.reports.text import printable

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from roxy.core.events import Event
    from roxy.core.model import Check

_PAUSE = 0.1
"""Seconds between two drawings, at least."""
_MINUTE = 60


class Progress:
    """One line about the run that is going on, gone without a trace when nothing is.

    Everything that drawing needs is loaded once this exists: a check may rewrite a module that is
    imported later (S51).
    """

    def __init__(self, stream: Stream) -> None:
        _rehearse()
        self._line = _Line(stream)
        self._check: Check | None = None
        self._doing = ""
        self._since: float | None = None
        self._left = 0
        self._end: float | None = None
        self._drawn = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.clear()

    def clear(self) -> None:
        """Take the line away, until the next event draws it again."""
        self._line.clear()
        self._drawn = 0.0

    def hear(self, event: Event) -> None:
        """Take the next event of a verify."""
        match event:
            case CheckStarted():
                self._check, self._left = event.check, event.total - event.number
                known = event.seconds_left
                self._end = None if known is None else time.monotonic() + known
                self._now_doing("preparing")
            case NeedStarted():
                self._now_doing("asking for what it needs", timed=True)
            case NeedFinished():
                self._now_doing("preparing")
            case RunStarted():
                self._now_doing(f"run {event.number} of {event.total}", timed=True)
            case RunTick() | RunOutput():
                if time.monotonic() - self._drawn < _PAUSE:
                    return
            case RunFinished():
                self._now_doing("checking the files")
            case Remarked() | EditKept() | CheckFinished():  # somebody else speaks next
                self.clear()
                return
        self._draw()

    def _now_doing(self, what: str, *, timed: bool = False) -> None:
        self._doing = what
        self._since = time.monotonic() if timed else None

    def _draw(self) -> None:
        self._drawn = time.monotonic()
        elapsed = None if self._since is None else self._drawn - self._since
        name = "" if self._check is None else self._check.id
        remaining = None if self._end is None else max(0.0, self._end - self._drawn)
        self._line.show(name, facts(self._doing, elapsed, self._left, remaining))


def facts(doing: str, elapsed: float | None, left: int, remaining: float | None = None) -> str:
    """Return what the line says after the name of the check."""
    parts = [doing]
    if elapsed is not None:
        parts.append(_duration(elapsed))
    if left:
        parts.append("1 check left" if left == 1 else f"{left} checks left")
    if remaining is not None:
        parts.append(f"about {_duration(remaining, digits=0)} left")
    return "  ".join(parts)


def _duration(seconds: float, digits: int = 1) -> str:
    if seconds < _MINUTE:
        return f"{seconds:.{digits}f}s"
    minutes, rest = divmod(int(seconds), _MINUTE)
    return f"{minutes}m{rest:02}s"


class _Line:
    """One line at the bottom of a terminal."""

    def __init__(self, stream: Stream) -> None:
        self._console = _Console(
            file=_Draft(stream),
            force_terminal=True,
            force_interactive=True,
            force_jupyter=False,
            color_system=None,
            markup=False,
            emoji=False,
            highlight=False,
        )
        self._live: Live | None = None

    def show(self, name: str, facts: str) -> None:
        """Draw the line; a long name is cut so that the facts have room."""
        text = Text(printable(name), no_wrap=True, overflow="crop")
        room = self._console.width - len(facts) - 3
        text.truncate(max(room, 0), overflow="crop")
        text.append(f"  {facts}" if text.plain else facts)
        if self._live is None:
            self._live = Live(
                console=self._console,
                auto_refresh=False,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start()
        self._live.update(text, refresh=True)

    def clear(self) -> None:
        """Wipe the line, if it is there."""
        if self._live is not None:
            self._live.stop()
            self._live = None


class _Console(Console):
    """A console that leaves the cursor alone: a killed roxy could not bring it back."""

    def show_cursor(self, show: bool = True) -> bool:  # noqa: FBT001, FBT002 - as rich has it
        return show


class _Draft(io.StringIO):
    """What rich writes, passed on when it flushes, so that a terminal that is gone never raises."""

    def __init__(self, stream: Stream) -> None:
        super().__init__()
        self._stream = stream

    def flush(self) -> None:
        self._stream.write(self.getvalue())
        self.seek(0)
        self.truncate()


def _rehearse() -> None:
    """Draw every kind of thing once to nowhere, since rich imports some modules on first use."""
    descriptor = os.open(os.devnull, os.O_WRONLY)
    line = _Line(Stream(descriptor, "utf-8"))
    line.show("na\N{LATIN SMALL LETTER I WITH DIAERESIS}ve \N{CJK UNIFIED IDEOGRAPH-540D}" * 99, "")
    line.clear()
    os.close(descriptor)
