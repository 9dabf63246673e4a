"""What comes of trying a check: its runs, and what they mean. `status` and `gate` need none of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from roxy.core.model import Check, Reason, Result


class Phase(StrEnum):
    """Which of the three runs one execution is (S22)."""

    CLEAN = "clean"
    MUTATED = "mutated"
    RESTORED = "restored"


@dataclass(frozen=True, slots=True)
class Run:
    """One execution of a check's command.

    Exactly one of `exit` and `signal` is set: the exit code of `sh`, or the signal that ended `sh`
    itself. A signal that ended a command *below* `sh` shows as `exit` 128 + n.
    """

    phase: Phase
    mutation: str | None
    """The patch that this run is about; None for the clean run."""
    exit: int | None
    signal: int | None
    seconds: float
    log: Path
    log_size: int
    """Bytes kept in the log (S25)."""
    log_sha256: str
    """Lower-case hex of the kept log."""
    timed_out: bool = False
    """Whether roxy ended it at the check's timeout (S40); then `exit` and `signal` tell how `sh`
    took that."""
    matched: bool | None = None
    """Whether what a mutated run printed matches `fails-with` (S41); None when that is not known."""
    ran: int | None = None
    """How many tests it says that it ran, by the check's `ran`; None when not asked or not found."""
    unsearched: str | None = None
    """Why what it printed could not be searched."""

    @property
    def passed(self) -> bool:
        """Whether the command ended by itself, with exit code 0."""
        return self.exit == 0 and not self.timed_out


@dataclass(frozen=True, slots=True)
class Unmet:
    """Something that a check needs and that is not there: the first of its `needs` that failed."""

    command: str
    exit: int | None
    signal: int | None
    timed_out: bool
    last_line: str | None
    """The last line that it printed with anything on it, raw; None when there was none."""


@dataclass(frozen=True, slots=True)
class Kept:
    """Something that was in the way when a file was put back, and where it is now (S29)."""

    path: bytes
    place: Path


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one try of one check."""

    check: Check
    result: Result
    reason: Reason | None
    """None exactly when verified."""
    runs: tuple[Run, ...]
    fingerprint: str | None
    """`sha256:` and 64 hex digits of what was tried; recorded in roxy.lock only when verified.
    None when it could not be taken."""
    digests: Mapping[bytes, bytes] = field(default_factory=dict)
    """The raw SHA-256 of every covered file that the fingerprint was taken from."""
    failed_run: Run | None = None
    """The run whose output explains a rejection."""
    notes: tuple[str, ...] = ()
    """Warnings that change nothing: how a mutated run failed, a changed ctime, a moved patch."""
    kept: tuple[Kept, ...] = ()
