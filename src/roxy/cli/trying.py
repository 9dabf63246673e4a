"""What `try` does on the command line.

As for `verify`, all that may be needed once the check runs is imported at the top (S51).
"""

from __future__ import annotations

import os
import shlex
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from roxy.cli import exit_codes
from roxy.cli.announcer import Announcer
from roxy.cli.at_work import at_work
from roxy.cli.verifying import watched
from roxy.core.events import EditsKept
from roxy.core.model import Result
from roxy.core.trial import run_trial
from roxy.reports import human, json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from roxy.cli.invocation import Invocation
    from roxy.core.events import Event
    from roxy.core.trial import Asked, Trial


def answer(invocation: Invocation, asked: Asked) -> int:
    """Try a mutation, tell what comes of it, and return the exit code."""
    with (
        _ways_back(invocation) as copies,
        watched(invocation, Announcer(invocation)) as emit,
        at_work(invocation, "try") as session,
    ):

        def note(event: Event) -> None:
            if isinstance(event, EditsKept):
                for kept in event.kept:
                    copies[kept.place] = session.repository.root / os.fsdecode(kept.path)
            emit(event)

        trial = run_trial(session, asked, note)
    if invocation.settings.json:
        invocation.streams.out.write(json.trial_document(trial))
    elif not invocation.settings.quiet:
        invocation.streams.out.write(human.remark(_closing(trial, asked)))
    pending = session.interrupts.pending
    if pending is not None:  # it came when all was done, and yet it counts (S32)
        invocation.streams.err.write(human.interruption(pending, None))
        return exit_codes.of_signal(pending)
    return exit_codes.of_results([trial.outcome.result])


@contextmanager
def _ways_back(invocation: Invocation) -> Iterator[dict[Path, Path]]:
    """Give a place for copies and their files; in the end, however it comes, tell how to copy back.

    Only what is still there is told.
    """
    copies: dict[Path, Path] = {}
    try:
        yield copies
    finally:
        start = Path.cwd() / invocation.settings.start
        for copy, file in copies.items():
            if copy.exists():
                name = os.path.relpath(file, start)
                name = f"./{name}" if name.startswith("-") else name
                way = shlex.join(["cp", str(copy), name])
                invocation.streams.err.write(human.remark(f"`{way}` brings it back"))


def _closing(trial: Trial, asked: Asked) -> str:
    """Return how a try ends, for people."""
    if trial.saved is not None:
        named = ", which roxy.toml names now" if trial.is_pointed else ""
        return f"saved as `{trial.saved}`{named}; `roxy verify` is next"
    if asked.save is not None and trial.outcome.result is not Result.VERIFIED:
        return "only a try: nothing is recorded or saved"
    return "only a try: nothing is recorded"
