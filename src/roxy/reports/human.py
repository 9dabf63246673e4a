"""Reports for people: plain lines that also make sense without colour, and never wrap (S45, S46)."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, NamedTuple

from roxy.core.model import Result, State
from roxy.reports.text import decoded, path_text, printable, printable_output

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from enum import StrEnum

    from roxy.core.errors import Fault
    from roxy.core.model import Entry, Reason, Report
    from roxy.core.outcome import Outcome

QUOTED_LINES = 20
"""Lines of a run's output that are quoted under a rejection, at most."""
_QUOTED_WIDTH = 400
"""Characters of one quoted line, at most; what is left out is counted."""
_DIM = "2"
_STYLES = {
    "verified": "32",
    "stale": "33",
    "unverified": "31",
    "rejected": "31",
    "blocked": "33",
    "error": "1;31",
    "warning": "33",
    "hint": "36",
    "info": "36",
    "cut short": "33",
}
"""SGR codes of the few words that are coloured."""


def standings(report: Report, *, quiet: bool, color: bool) -> str:
    """Return what `status` and `gate` print: a line for each check, and a count.

    With `quiet` only the checks that are not verified, and no count.
    """
    lines = [
        _check_line(entry.state, entry.check.id, entry.reason, color=color)
        for entry in report.entries
        if not quiet or entry.state is not State.VERIFIED
    ]
    if not quiet:
        lines.append(_state_count(report.entries))
    return _text(lines)


def ended(outcome: Outcome, log_lines: Sequence[bytes] | None, *, quiet: bool, color: bool) -> str:
    """Return what `verify` prints when a check ends, with `quiet` only if it is not verified.

    `log_lines` are the last lines of the failed run's log, None when that log is gone.
    """
    if quiet and outcome.result is Result.VERIFIED:
        return ""
    lines = [_check_line(outcome.result, outcome.check.id, outcome.reason, color=color)]
    if outcome.failed_run is not None:
        log = printable(path_text(outcome.failed_run.log))
        lines += _quote(log_lines, color=color)
        lines.append(_styled(f"  log: {log}", _DIM, color=color))
    return _text(lines)


def warnings(outcome: Outcome, *, color: bool) -> str:
    """Return the warnings that `verify` gives on standard error when a check ends."""
    return "".join(warning(f"{outcome.check.id}: {note}", color=color) for note in outcome.notes)


def warning(text: str, *, color: bool) -> str:
    """Return one line about something that changes neither states nor results."""
    return said("warning", text, color=color)


def said(word: str, text: str, *, color: bool) -> str:
    """Return one line that begins with what it is: a warning, an error, an info."""
    return f"{_word(word, color=color)}: {printable(text)}\n"


def closing(report: Report, *, named: bool, quiet: bool, everything: bool = False) -> str:
    """Return what `verify` prints after the last check: how the lock differs, and a count.

    `named` says that the report is about some checks only; with `quiet` there is no count. With
    `everything` no check counts as verified that was not tried.
    """
    lines = [f"roxy.lock: {printable(line)}" for line in report.lock_differences or ()]
    if not quiet:
        lines.append(_result_count(report, named=named, everything=everything))
    return _text(lines)


def standing(entry: Entry, *, color: bool) -> str:
    """Return the line of one check, as `standings` has it."""
    return _check_line(entry.state, entry.check.id, entry.reason, color=color) + "\n"


def output(log_lines: Sequence[bytes] | None, *, color: bool) -> str:
    """Return the last lines of a log, quoted as under a rejection; None when the log is gone."""
    return _text(_quote(log_lines, color=color))


def marked(word: str, *, color: bool) -> str:
    """Return a state, a result or the like in its colour, if it has one."""
    return _styled(printable(word), _STYLES.get(word, ""), color=color and word in _STYLES)


def remark(text: str) -> str:
    """Return one line about something that roxy did, for standard error."""
    return f"{printable(text)}\n"


class AtWork(NamedTuple):
    """The check, and if one was going on the run, at which a signal came."""

    check: str
    run: int | None = None
    runs: int | None = None
    """How many the check has."""


def interruption(signum: int, unreached: int | None, at_work: AtWork | None = None) -> str:
    """Return how `verify` says that a signal ended it; `unreached` is None when not known.

    The check of `at_work` was reached.
    """
    text = f"interrupted by {signal_name(signum)}"
    if at_work is not None:
        text += f" in `{printable(at_work.check)}`"
        if at_work.run is not None:
            text += f", run {at_work.run} of {at_work.runs}"
    if unreached or (unreached == 0 and at_work is None):
        were = "was" if unreached == 1 else "were"
        text += f"; {_checks(unreached)} {were} not reached"
    return f"{text}\n"


def signal_name(signum: int) -> str:
    """Return a signal's name, such as SIGINT."""
    try:
        return signal.Signals(signum).name
    except ValueError:
        return f"signal {signum}"


def errors(faults: Iterable[Fault], *, color: bool) -> str:
    """Return faults as errors: what happened, where, what to do; a blank line between two (S48)."""
    return "\n".join(_fault(fault, color=color) for fault in faults)


def _fault(fault: Fault, *, color: bool) -> str:
    lines = [f"{_word('error', color=color)}: {printable(fault.what)}"]
    if fault.where is not None:
        lines.append(f"  at {printable(fault.where)}")
    if fault.hint is not None:
        lines.append(f"{_word('hint', color=color)}: {printable(fault.hint)}")
    return _text(lines)


def _check_line(word: State | Result, name: str, reason: Reason | None, *, color: bool) -> str:
    line = f"{_word(word, color=color)} {printable(name)}"
    if reason is not None:
        line += ": " + _styled(printable(reason.text), _DIM, color=color)
    return line


def _quote(log_lines: Sequence[bytes] | None, *, color: bool) -> list[str]:
    if log_lines is None:
        return ["  (its log is gone)"]
    if not log_lines:
        return ["  (it printed nothing)"]
    shown = [_quoted(decoded(line)) for line in log_lines[-QUOTED_LINES:]]
    return [f"  | {_styled(line, _DIM, color=color)}" if line else "  |" for line in shown]


def _quoted(line: str) -> str:
    left_out = len(line) - _QUOTED_WIDTH
    shown = printable_output(line[:_QUOTED_WIDTH])
    return f"{shown} ... ({left_out} more characters)" if left_out > 0 else shown


def _state_count(entries: Sequence[Entry]) -> str:
    states = [entry.state for entry in entries]
    return f"{_checks(len(states))}: {_listed(_counted(State, states))}"


def _result_count(report: Report, *, named: bool, everything: bool) -> str:
    tried = [entry.outcome.result for entry in report.entries if entry.outcome is not None]
    rest = [entry.state for entry in report.entries if entry.outcome is None]
    if not tried and report.interrupted is None and all(state is State.VERIFIED for state in rest):
        return _nothing_to_do(len(rest), named=named)
    left = ", ".join(
        f"{count} {'already' if state is State.VERIFIED else 'still'} {state}"
        for state, count in _counted(State, rest)
        if not (everything and state is State.VERIFIED)
    )
    done = _listed(_counted(Result, tried)) or "nothing was finished"
    return f"{done}; {left}" if left else done


def _nothing_to_do(count: int, *, named: bool) -> str:
    if count == 1:
        return f"nothing to do: the {'named' if named else 'only'} check is verified"
    return f"nothing to do: all {count}{' named' if named else ''} checks are verified"


def _listed(counts: Iterable[tuple[StrEnum, int]]) -> str:
    return ", ".join(f"{count} {word}" for word, count in counts)


def _counted(words: type[StrEnum], found: Sequence[StrEnum]) -> list[tuple[StrEnum, int]]:
    """Count what was found, in the order of `words`, leaving out what was not."""
    return [(word, count) for word in words if (count := found.count(word))]


def _checks(count: int) -> str:
    return "1 check" if count == 1 else f"{count} checks"


def _word(word: str, *, color: bool) -> str:
    return _styled(str(word), _STYLES[str(word)], color=color)


def _styled(text: str, codes: str, *, color: bool) -> str:
    return f"\x1b[{codes}m{text}\x1b[0m" if color and text else text


def _text(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
