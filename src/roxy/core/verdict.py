"""The one truth table: what was seen of a check → what that means (S18, S22, S26, S27, S40)."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING

from roxy.core.model import Reason, Result
from roxy.core.outcome import Phase
from roxy.core.status import name_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from roxy.core.model import Check
    from roxy.core.outcome import Run, Unmet
    from roxy.core.tries import PastRun

_SAYS_LITTLE = {126: "the command could not be executed", 127: "a command was not found"}
_LONGEST_LINE = 200
"""Characters of the last line of output that a reason quotes."""
_SHELL_SIGNAL = 128
"""What a shell adds to the number of the signal that ended its command."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that was seen of one check during one try."""

    check: Check
    misfit: Reason | None
    """Why a mutation cannot be put in; then nothing ran."""
    unmet: Unmet | None
    """What the check needs and does not find here; then nothing ran (S42)."""
    runs: tuple[Run, ...]
    """In the order in which they ran: clean, as often as it is repeated, then mutated and restored
    for each mutation."""
    touched: tuple[bytes, ...]
    """Covered files and inputs that somebody but roxy wrote, replaced, removed or added meanwhile
    (S26)."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the evidence means."""

    result: Result
    reason: Reason | None
    failed_run: Run | None
    notes: tuple[str, ...]


def judge(evidence: Evidence) -> Verdict:
    """Decide. Only the full count of runs, each as it must be, on untouched files is verified."""
    check, runs = evidence.check, evidence.runs
    weak = (_weakness(check, run) for run in runs if not check.strict)
    notes = tuple(weakness.text for weakness in weak if weakness is not None)
    if evidence.misfit is not None:
        return Verdict(Result.REJECTED, evidence.misfit, None, notes)
    if evidence.unmet is not None:
        return Verdict(Result.BLOCKED, _blocked(check, evidence.unmet), None, notes)
    faults = list(_faults(check, runs))
    not_passed = [(run, reason) for run, reason in faults if run.phase is not Phase.MUTATED]
    if evidence.touched and not not_passed:
        return Verdict(Result.REJECTED, _changed(check, evidence.touched), None, notes)
    for run, reason in (*not_passed, *faults):
        return Verdict(Result.REJECTED, reason, run, notes)
    if len(runs) != run_count(check):
        raise AssertionError("every run passed its look, yet some are missing")
    return Verdict(Result.VERIFIED, None, None, notes)


def run_count(check: Check) -> int:
    """Return how many runs it takes to prove a check (S22, S31, S42)."""
    return check.repeat + 2 * len(check.breakages)


def is_over(check: Check, runs: Iterable[Run]) -> bool:
    """Say whether no further run can change a rejection: one of these decided it (S22)."""
    return any(_fault(check, run) for run in runs)


def _blocked(check: Check, unmet: Unmet) -> Reason:
    last = "it printed nothing"
    if unmet.last_line is not None:
        cut = unmet.last_line[:_LONGEST_LINE]
        last = f"it last printed: {cut}{'...' if cut != unmet.last_line else ''}"
    how = how_it_ended(unmet, check)
    return Reason("need-not-met", f"it needs `{unmet.command}`, which {how}; {last}")


def _faults(check: Check, runs: Iterable[Run]) -> Iterator[tuple[Run, Reason]]:
    """Give each run that did not go as it must, with the reason that this makes."""
    for number, run in enumerate(runs, 1):
        reason = _fault(check, run)
        if reason is not None and run.phase is Phase.CLEAN and number > 1:
            reason = _only_sometimes(check, run, number, reason)
        if reason is not None:
            yield run, reason


def _fault(check: Check, run: Run) -> Reason | None:
    """Return why a check is rejected for one of its runs, or None when that went as it must."""
    if run.phase is Phase.MUTATED:
        if run.passed:
            return _not_noticed(run)
        return _other_failure(check, run) or _too_weak(check, run)
    return _too_few(check, run) if run.passed else _not_passed(check, run)


def _not_passed(check: Check, run: Run) -> Reason:
    how = "timed-out" if run.timed_out else "failed"
    with_what = "" if run.phase is Phase.CLEAN else ", with the code as it was in the clean run"
    text = f"the {run.phase} run {how_it_ended(run, check)}{with_what}"
    return Reason(f"{run.phase}-run-{how}", text)


def _too_few(check: Check, run: Run) -> Reason | None:
    """Return that a run passed, but does not say that it ran as many tests as it must."""
    if check.ran is None or (run.ran is not None and run.ran >= check.at_least):
        return None
    passed = f"the {run.phase} run passed, but"
    if run.unsearched is not None:
        return Reason("output-not-searched", f"{passed} its output {run.unsearched}")
    if run.ran is None:
        what = f"nothing in its output says how many tests ran: no number by `{check.ran}`"
    else:
        what = f"by its output {run.ran} tests ran, and it must be {check.at_least} or more"
    return Reason("too-few-ran", f"{passed} {what}")


def _only_sometimes(check: Check, run: Run, number: int, reason: Reason) -> Reason:
    """Return that a clean run did not do what others did with the very same code (S42)."""
    how = reason.text if run.passed else f"clean run {number} of {check.repeat}"
    how += "" if run.passed else f" {how_it_ended(run, check)}"
    return Reason("passes-only-sometimes", f"it passes only sometimes: {how}")


def _not_noticed(run: Run) -> Reason:
    return Reason(
        "mutation-not-noticed",
        f"the mutated run passed (exit code 0): `{run.mutation}` was not noticed",
    )


def _other_failure(check: Check, run: Run) -> Reason | None:
    """Return how a mutated run failed, where it had to fail in another way (S41)."""
    if check.fails_with is None or run.matched:
        return None
    what = f"the mutated run with `{run.mutation}` {how_it_ended(run, check)}"
    if run.unsearched is not None:
        return Reason("output-not-searched", f"{what}, but its output {run.unsearched}")
    return Reason(
        "failed-otherwise",
        f"{what}: it failed, but not as expected, for nothing in its output matches"
        f" `{check.fails_with}`",
    )


def _too_weak(check: Check, run: Run) -> Reason | None:
    """Return that a mutated run failed in a way that proves little, where that is not enough."""
    weakness = _weakness(check, run) if check.strict else None
    if weakness is None:
        return None
    return Reason(weakness.code, f"{weakness.text}, and `strict` wants more than that")


def _changed(check: Check, paths: Iterable[bytes]) -> Reason:
    what = "covered files or inputs" if check.inputs else "covered files"
    return Reason("files-changed", f"{what} changed while it ran: {name_files(paths)}")


def how_it_ended(run: Run | Unmet | PastRun, check: Check | None = None) -> str:
    """Return how a run ended, as the end of a sentence that begins with the run."""
    if run.timed_out:
        return "took longer than its timeout" + (f" of {_seconds(check)}" if check else "")
    if run.signal is not None:
        return f"was ended by signal {_signal_name(run.signal)}"
    if run.exit == 0:
        return "passed"
    return f"failed with exit code {run.exit}"


def _seconds(check: Check) -> str:
    return f"{check.timeout:g} s"


def _weakness(check: Check, run: Run) -> Reason | None:
    """Return what there is to warn about when a mutated run failed in a way that proves little (S27).

    One that printed what it must, by `fails-with`, failed as it must, however it ended.
    """
    if run.phase is not Phase.MUTATED or run.passed or run.matched:
        return None
    code = why = None
    if run.timed_out:
        code, why = "timed-out", f"it took longer than its timeout of {_seconds(check)}"
    elif run.signal is not None:
        code, why = "killed", f"signal {_signal_name(run.signal)} ended it"
    elif run.exit in _SAYS_LITTLE:
        code, why = "not-started", f"exit code {run.exit}: {_SAYS_LITTLE[run.exit]}"
    elif run.exit is not None and run.exit - _SHELL_SIGNAL in signal.valid_signals():
        signal_name = _signal_name(run.exit - _SHELL_SIGNAL)
        code, why = "killed", f"exit code {run.exit}: signal {signal_name}"
    if why is None:
        return None
    text = f"the mutated run with `{run.mutation}` failed in a way that proves little ({why})"
    return Reason(f"mutated-run-{code}", text)


def _signal_name(number: int) -> str:
    try:
        return f"{number} ({signal.Signals(number).name})"
    except ValueError:
        return str(number)
