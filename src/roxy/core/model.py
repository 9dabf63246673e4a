"""The nouns that every part of roxy shares, all frozen.

Paths inside the working tree are bytes, relative to its top, with `/` between components: that is
what git and the kernel use, and not every name is UTF-8 (S15).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

MANIFEST = b"roxy.toml"
LOCKFILE = b"roxy.lock"


class State(StrEnum):
    """What roxy.lock says of a check; there is no fourth (section 1 of the contract)."""

    VERIFIED = "verified"
    STALE = "stale"
    UNVERIFIED = "unverified"


class Result(StrEnum):
    """What came of trying a check."""

    VERIFIED = "verified"
    REJECTED = "rejected"


class Phase(StrEnum):
    """Which of the three runs one execution is (S22)."""

    CLEAN = "clean"
    MUTATED = "mutated"
    RESTORED = "restored"


@dataclass(frozen=True, slots=True)
class Check:
    """How one claim is tested on one platform or entry point (S9)."""

    claim: str
    name: str
    run: str
    covers: tuple[str, ...]
    mutations: tuple[str, ...]
    """Paths of patches as roxy.toml gives them, never empty (S31)."""

    @property
    def id(self) -> str:
        """The name that people use: `claim/check`."""
        return f"{self.claim}/{self.name}"


@dataclass(frozen=True, slots=True)
class Claim:
    """A sentence that the project says is true, with at least one check."""

    name: str
    description: str | None
    checks: tuple[Check, ...]


@dataclass(frozen=True, slots=True)
class Manifest:
    """roxy.toml, in its own order, with the bytes of every patch that it names (S9-S11)."""

    claims: tuple[Claim, ...]
    patches: Mapping[str, bytes]
    """Patch bytes by the path that roxy.toml gives; complete for every check's `mutations`."""

    @property
    def checks(self) -> tuple[Check, ...]:
        """Every check, in manifest order."""
        return tuple(check for claim in self.claims for check in claim.checks)


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

    @property
    def passed(self) -> bool:
        """Whether the command ended with exit code 0."""
        return self.exit == 0


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a check is in its state, or got its result.

    `code` is stable and meant for programs; `text` is one line for people, which never uses the
    words verified, stale or unverified for anything but a name. Names in it are raw (S46).
    """

    code: str
    text: str


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


@dataclass(frozen=True, slots=True)
class Standing:
    """One check beside roxy.lock: its state, why, and the fingerprint it has now."""

    check: Check
    state: State
    reason: Reason | None
    """None exactly when verified."""
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Entry:
    """One check in a `Report`. Without an outcome it was not tried by this command."""

    check: Check
    state: State
    """After this command."""
    reason: Reason | None
    outcome: Outcome | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """The answer of one command, in manifest order; renderers turn it into text."""

    entries: tuple[Entry, ...]
    descriptions: Mapping[str, str | None]
    """Each claim's description by its name, in manifest order."""
    interrupted: int | None = None
    """The signal that ended the command early."""
    lock_differences: tuple[str, ...] | None = None
    """`--locked` only: what roxy.lock has missing, extra or other (S50), one line each."""
