"""The nouns that every part of roxy shares, all frozen.

Paths inside the working tree are bytes, relative to its top, with `/` between components: that is
what git and the kernel use, and not every name is UTF-8 (S15).
"""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from roxy.core.outcome import Kept, Outcome

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
    BLOCKED = "blocked"
    """It could not be tried here: something that it needs is missing (S42)."""


class Check(NamedTuple):
    """How one claim is tested on one platform or entry point (S9)."""

    claim: str
    name: str
    run: str
    covers: tuple[str, ...]
    mutations: tuple[str, ...]
    """Paths of patches as roxy.toml gives them (S31), empty only with `reproduces`."""
    timeout: float | None = None
    """Seconds that one run may take (S40); None for as long as it takes."""
    fails_with: str | None = None
    """A regular expression that matches what a mutated run prints (S41)."""
    env: tuple[tuple[str, str], ...] = ()
    """What is set in the environment of the runs (S41), in byte order of the names."""
    inputs: tuple[str, ...] = ()
    """Globs of files that the outcome depends on too, and that no mutation may touch (S41)."""
    needs: tuple[str, ...] = ()
    """Shell commands that must exit 0 before anything is run (S42)."""
    repeat: int = 1
    """How often the clean run is run; it must pass each time (S42)."""
    strict: bool = False
    """Whether a mutated run that failed in a way that proves little is a rejection (S27)."""
    ran: str | None = None
    """A regular expression whose one group is how many tests ran, in what a run prints."""
    at_least: int = 1
    """How many tests a clean or restored run must say it ran; means nothing without `ran`."""
    reproduces: str | None = None
    """Id of a commit whose code is the broken one, instead of any mutation."""

    @property
    def breakages(self) -> tuple[str, ...]:
        """The name of each thing that breaks the code: the patches, or the one commit."""
        return self.mutations if self.reproduces is None else (self.reproduces,)

    @property
    def globs(self) -> tuple[str, ...]:
        """Every glob that means files of this check."""
        return self.covers + self.inputs

    @property
    def id(self) -> str:
        """The name that people use: `claim/check`."""
        return f"{self.claim}/{self.name}"


class Claim(NamedTuple):
    """A sentence that the project says is true, with at least one check."""

    name: str
    description: str | None
    checks: tuple[Check, ...]


class Manifest(NamedTuple):
    """roxy.toml, in its own order, with the bytes of every patch that it names (S9-S11)."""

    claims: tuple[Claim, ...]
    patches: Mapping[str, bytes]
    """Patch bytes by the path that roxy.toml gives; complete for every check's `mutations`."""
    secrets: tuple[str, ...] = ()
    """Names of environment variables whose values nobody may see in what checks print."""
    old_code: Mapping[str, bytes] = MappingProxyType({})
    """The files of the commit that a check `reproduces`, as `old_code` lists them, by check id."""

    @property
    def checks(self) -> tuple[Check, ...]:
        """Every check, in manifest order."""
        return tuple(check for claim in self.claims for check in claim.checks)

    def patches_of(self, check: Check) -> list[bytes]:
        """Return the bytes of a check's patches, in list order, or the files that it reproduces."""
        if check.reproduces is not None:
            return [self.old_code[check.id]]
        return [self.patches[path] for path in check.mutations]


class Details(NamedTuple):
    """What a `Reason` found, for programs: how the code now differs from the code then."""

    command_changed: bool = False
    mutation_changed: bool = False
    keys_changed: tuple[str, ...] = ()
    """Optional keys of roxy.toml that are part of the fingerprint."""
    changed: tuple[bytes, ...] = ()
    """Covered files with other content; sorted, as the next two."""
    added: tuple[bytes, ...] = ()
    removed: tuple[bytes, ...] = ()
    commit: str | None = None
    """Since which commit, where git told it and no receipt did."""
    receipt: str | None = None
    """The file name of the receipt, or of the note of a start, of the try that it is about."""
    time: str | None = None
    """When that try was: UTC, RFC 3339."""


class Reason(NamedTuple):
    """Why a check is in its state, or got its result.

    `code` is stable and meant for programs; `text` is one line for people, which never uses the
    words verified, stale or unverified for anything but a name. Names in it are raw (S46).
    """

    code: str
    text: str
    details: Details | None = None
    """None where it is not about what happened before."""


class Standing(NamedTuple):
    """One check beside roxy.lock: its state, why, and the fingerprint it has now."""

    check: Check
    state: State
    reason: Reason | None
    """None exactly when verified."""
    fingerprint: str


class Entry(NamedTuple):
    """One check in a `Report`. Without an outcome it was not tried by this command."""

    check: Check
    state: State
    """After this command."""
    reason: Reason | None
    outcome: Outcome | None = None


class Report(NamedTuple):
    """The answer of one command, in manifest order; renderers turn it into text."""

    entries: tuple[Entry, ...]
    descriptions: Mapping[str, str | None]
    """Each claim's description by its name, in manifest order."""
    interrupted: int | None = None
    """The signal that ended the command early."""
    lock_differences: tuple[str, ...] | None = None
    """`--locked` only: what roxy.lock has missing, extra or other (S50), one line each."""
    kept: tuple[Kept, ...] = ()
    """What was in the way when the files of a roxy that was killed were put back first (S33)."""
