"""The only place that decides what number roxy ends with (S43)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roxy.core.model import Result, State

if TYPE_CHECKING:
    from collections.abc import Iterable

    from roxy.core.finding import Finding
    from roxy.core.initiation import Initiation
    from roxy.core.model import Report

YES = 0
NO = 1
CANNOT_JUDGE = 2


def of_status(_report: Report) -> int:
    """Return the code of `status`, which asks nothing."""
    return YES


def of_gate(report: Report) -> int:
    """Return whether every check is verified."""
    return _answer(all(entry.state is State.VERIFIED for entry in report.entries))


def of_verify(report: Report) -> int:
    """Return whether all that was tried is verified, and the lock is as `--locked` wants it."""
    if report.interrupted is not None:
        return of_signal(report.interrupted)
    is_good = all(
        entry.outcome.result is Result.VERIFIED
        for entry in report.entries
        if entry.outcome is not None
    )
    return _answer(is_good and not report.lock_differences)


def of_init(initiation: Initiation) -> int:
    """Return whether all that a project needs to begin is there."""
    return _answer(all(part.did != "left" for part in initiation.parts))


def of_doctor(findings: Iterable[Finding]) -> int:
    """Return whether nothing was found that keeps roxy from working."""
    return _answer(all(finding.severity != "error" for finding in findings))


def of_results(results: Iterable[Result]) -> int:
    """Return whether all that was tried proved itself."""
    return _answer(all(result is Result.VERIFIED for result in results))


def of_signal(signum: int) -> int:
    """Return the code of a command that a signal ended, as shells count it."""
    return 128 + signum


def _answer(is_yes: bool) -> int:  # noqa: FBT001 - the name of the function says what it is
    return YES if is_yes else NO
