"""What `verify` says about each check at the moment it ends (S45)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roxy.core.events import (
    CheckFinished,
    CheckStarted,
    EditKept,
    EditsKept,
    PatchShown,
    Remarked,
    RunFinished,
    RunStarted,
)
from roxy.core.log import last_lines
from roxy.core.session import describe_copy, describe_kept
from roxy.reports import human, patches

if TYPE_CHECKING:
    from roxy.cli.invocation import Invocation
    from roxy.core.events import Event
    from roxy.core.outcome import Outcome


class Announcer:
    """Prints results and warnings as they come, and notes what an interruption would cut off."""

    def __init__(self, invocation: Invocation) -> None:
        self._streams = invocation.streams
        self._settings = invocation.settings
        self._colors_out = invocation.wants_color(self._streams.out)
        self._colors_err = invocation.wants_color(self._streams.err)
        self.unreached: int | None = None
        """Checks that were not begun yet; None before the first one starts."""
        self.at_work: human.AtWork | None = None
        """What goes on, between the start and the end of a check."""

    def hear(self, event: Event) -> None:
        """Take the next event of a verify."""
        match event:
            case CheckStarted():
                self.unreached = event.total - event.number
                self.at_work = human.AtWork(event.check.id)
            case RunStarted() | RunFinished():
                self.at_work = _at_work(event)
            case Remarked():
                self._warn(event.text)
            case EditKept():
                self._warn(describe_kept(event.kept))
            case EditsKept():
                for kept in event.kept:
                    self._streams.err.write(human.remark(describe_copy(kept)))
            case PatchShown():
                if not (self._settings.json or self._settings.quiet):
                    self._streams.out.write(patches.shown(event, color=self._colors_out))
            case CheckFinished():
                self.at_work = None
                self._announce(event.outcome)
            case _:
                pass

    def _warn(self, text: str) -> None:
        self._streams.err.write(human.warning(text, color=self._colors_err))

    def _announce(self, outcome: Outcome) -> None:
        self._streams.err.write(human.warnings(outcome, color=self._colors_err))
        if self._settings.json:
            return
        run = outcome.failed_run
        lines = None if run is None else last_lines(run.log, human.QUOTED_LINES)
        self._streams.out.write(
            human.ended(outcome, lines, quiet=self._settings.quiet, color=self._colors_out)
        )


def _at_work(event: RunStarted | RunFinished) -> human.AtWork:
    if isinstance(event, RunStarted):
        return human.AtWork(event.check.id, event.number, event.total)
    return human.AtWork(event.check.id)
