"""What `refresh` does on the command line.

As for `verify`, all that may be needed once a check runs is imported at the top (S51).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from roxy.cli import exit_codes
from roxy.cli.announcer import Announcer
from roxy.cli.at_work import at_work
from roxy.cli.verifying import watched
from roxy.core.refresh import refresh
from roxy.reports import human, json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roxy.cli.invocation import Invocation
    from roxy.core.refresh import Renewed


def answer(invocation: Invocation, names: Sequence[str], *, runs: bool) -> int:
    """Renew patches, tell what becomes of them, and return the exit code."""
    with (
        watched(invocation, Announcer(invocation)) as emit,
        at_work(invocation, "refresh") as session,
    ):
        done = refresh(session, names, emit, runs=runs)
    if invocation.settings.json:
        invocation.streams.out.write(json.refresh_document(done))
    else:
        for one in done.patches:
            if one.is_written or not invocation.settings.quiet:
                invocation.streams.out.write(human.remark(_line(one)))
    pending = session.interrupts.pending
    if pending is not None:  # it came when all was done, and yet it counts (S32)
        invocation.streams.err.write(human.interruption(pending, None))
        return exit_codes.of_signal(pending)
    return exit_codes.of_results(outcome.result for outcome in done.outcomes)


def _line(one: Renewed) -> str:
    """Return what became of one patch, for people."""
    if one.is_written:
        notes = "".join(f", {note}" for note in one.notes)
        return f"`{one.path}` is made anew{notes}"
    if one.new is None and one.misfit is None:
        return f"`{one.path}` goes exactly where it says"
    return f"`{one.path}` stays as it was"
