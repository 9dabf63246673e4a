"""The one truth table: what was seen of a check → what that means (S18, S22, S26, S27)."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING

from roxy.core.model import Reason, Result
from roxy.core.outcome import Phase
from roxy.core.status import name_files

if TYPE_CHECKING:
    from collections.abc import Iterable

    from roxy.core.outcome import Run

_SAYS_LITTLE = {126: "the command could not be executed", 127: "a command was not found"}
_SHELL_SIGNAL = 128
"""What a shell adds to the number of the signal that ended its command."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that was seen of one check during one try."""

    misfit: Reason | None
    """Why a mutation cannot be put in; then nothing ran."""
    runs: tuple[Run, ...]
    """In the order in which they ran: clean, then mutated and restored for each mutation."""
    mutations: int
    """How many mutations the check has."""
    touched: tuple[bytes, ...]
    """Covered files that somebody but roxy wrote, replaced, removed or added meanwhile (S26)."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the evidence means."""

    result: Result
    reason: Reason | None
    failed_run: Run | None
    notes: tuple[str, ...]


def judge(evidence: Evidence) -> Verdict:
    """Decide. Only the full count of runs, each as it must be, on untouched files is verified."""
    notes = tuple(note for run in evidence.runs if (note := _weakness(run)))
    if evidence.misfit is not None:
        return Verdict(Result.REJECTED, evidence.misfit, None, notes)
    for run in evidence.runs:
        if run.phase is not Phase.MUTATED and not run.passed:
            return Verdict(Result.REJECTED, _failed(run), run, notes)
    if evidence.touched:
        return Verdict(Result.REJECTED, _changed(evidence.touched), None, notes)
    for run in evidence.runs:
        if run.phase is Phase.MUTATED and run.passed:
            return Verdict(Result.REJECTED, _not_noticed(run), run, notes)
    if len(evidence.runs) != 1 + 2 * evidence.mutations:
        raise AssertionError("every run passed its look, yet some are missing")
    return Verdict(Result.VERIFIED, None, None, notes)


def is_over(runs: Iterable[Run]) -> bool:
    """Say whether no further run can change a rejection: the last one decided it (S22)."""
    return any(run.passed is (run.phase is Phase.MUTATED) for run in runs)


def _failed(run: Run) -> Reason:
    if run.phase is Phase.CLEAN:
        return Reason("clean-run-failed", f"the clean run {how_it_ended(run)}")
    return Reason(
        "restored-run-failed",
        f"the restored run {how_it_ended(run)}, with the code as it was in the clean run",
    )


def _not_noticed(run: Run) -> Reason:
    return Reason(
        "mutation-not-noticed",
        f"the mutated run passed (exit code 0): `{run.mutation}` was not noticed",
    )


def _changed(paths: Iterable[bytes]) -> Reason:
    return Reason("files-changed", f"covered files changed while it ran: {name_files(paths)}")


def how_it_ended(run: Run) -> str:
    """Return how a run ended, as the end of a sentence that begins with the run."""
    if run.signal is not None:
        return f"was ended by signal {_signal_name(run.signal)}"
    if run.passed:
        return "passed"
    return f"failed with exit code {run.exit}"


def _weakness(run: Run) -> str | None:
    """Return a warning when a mutated run failed in a way that proves little (S27)."""
    if run.phase is not Phase.MUTATED or run.passed:
        return None
    why = None
    if run.signal is not None:
        why = f"signal {_signal_name(run.signal)} ended it"
    elif run.exit in _SAYS_LITTLE:
        why = f"exit code {run.exit}: {_SAYS_LITTLE[run.exit]}"
    elif run.exit is not None and run.exit - _SHELL_SIGNAL in signal.valid_signals():
        why = f"exit code {run.exit}: signal {_signal_name(run.exit - _SHELL_SIGNAL)}"
    if why is None:
        return None
    return f"the mutated run with `{run.mutation}` failed in a way that proves little ({why})"


def _signal_name(number: int) -> str:
    try:
        return f"{number} ({signal.Signals(number).name})"
    except ValueError:
        return str(number)
