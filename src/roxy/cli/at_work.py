"""The surroundings in which a command works: signals caught, the repository found and held."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from roxy.core.interrupts import Interrupts
from roxy.core.session import open_session
from roxy.reports import human

if TYPE_CHECKING:
    from collections.abc import Iterator

    from roxy.cli.invocation import Invocation
    from roxy.core.session import Session


@contextmanager
def at_work(
    invocation: Invocation, command: str, *, needs_manifest: bool = True
) -> Iterator[Session]:
    """Open a session for `command` in the folder that the options name (S4, S8, S32).

    What had to be put back first is told on standard error (S33).
    """
    settings = invocation.settings

    def tell(line: str) -> None:
        invocation.streams.err.write(human.remark(line))

    interrupts = Interrupts()
    interrupts.install()
    try:
        with open_session(
            settings.start,
            invocation.environ,
            interrupts,
            f"roxy {command}",
            settings.wait,
            tell,
            needs_manifest=needs_manifest,
        ) as session:
            invocation.state = session.repository.state
            yield session
    finally:
        interrupts.uninstall()
