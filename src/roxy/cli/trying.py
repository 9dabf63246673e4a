"""What `try` does on the command line.

As for `verify`, all that may be needed once the check runs is imported at the top (S51).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from roxy.cli import exit_codes
from roxy.cli.announcer import Announcer
from roxy.cli.at_work import at_work
from roxy.cli.verifying import watched
from roxy.core.model import Result
from roxy.core.trial import run_trial
from roxy.reports import human, json

if TYPE_CHECKING:
    from roxy.cli.invocation import Invocation
    from roxy.core.trial import Asked, Trial


def answer(invocation: Invocation, asked: Asked) -> int:
    """Try a mutation, tell what comes of it, and return the exit code."""
    with (
        watched(invocation, Announcer(invocation)) as emit,
        at_work(invocation, "try") as session,
    ):
        trial = run_trial(session, asked, emit)
    if invocation.settings.json:
        invocation.streams.out.write(json.trial_document(trial))
    elif not invocation.settings.quiet:
        invocation.streams.out.write(human.remark(_closing(trial, asked)))
    pending = session.interrupts.pending
    if pending is not None:  # it came when all was done, and yet it counts (S32)
        invocation.streams.err.write(human.interruption(pending, None))
        return exit_codes.of_signal(pending)
    return exit_codes.of_results([trial.outcome.result])


def _closing(trial: Trial, asked: Asked) -> str:
    """Return how a try ends, for people."""
    if trial.is_pointed:
        return f"saved as `{trial.saved}`, which roxy.toml names now; `roxy verify` is next"
    if trial.saved is not None:
        return f"saved as `{trial.saved}`; `roxy verify` is next"
    if asked.save is not None and trial.outcome.result is not Result.VERIFIED:
        return "only a try: nothing is recorded or saved"
    return "only a try: nothing is recorded"
