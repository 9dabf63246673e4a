"""What can happen during a verify, as values.

`verify` calls a listener with each; the progress line, the recorder of roxy.lock and the receipts
are listeners that `cli` composes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from roxy.core.model import Check
    from roxy.core.outcome import Kept, Outcome, Phase, Run


@dataclass(frozen=True, slots=True)
class Remarked:
    """Something that people should know before any check runs; it changes no result."""

    text: str


@dataclass(frozen=True, slots=True)
class CheckStarted:
    """A check is next; `number` counts from 1 to `total` within this command."""

    check: Check
    number: int
    total: int
    seconds_left: float | None = None
    """Until the last check ends, from past durations; None when one was never tried here."""
    expected: float | None = None
    """Seconds that the runs of this check took the last time; None when not known."""


@dataclass(frozen=True, slots=True)
class NeedStarted:
    """Something that a check needs is asked for, before its first run (S42)."""

    check: Check
    command: str


@dataclass(frozen=True, slots=True)
class NeedFinished:
    """The command that asks for it ended, and nothing that it started is left."""

    check: Check


@dataclass(frozen=True, slots=True)
class RunStarted:
    """One of the runs begins. Roxy alone knows which: nothing tells the command (S23)."""

    check: Check
    phase: Phase
    number: int
    """Counts from 1 within the check, to `total`."""
    total: int


@dataclass(frozen=True, slots=True)
class RunOutput:
    """Bytes that a run or a need printed, in order, soon after they came; `-v` shows them.

    No secret is in them, so a part of one may have to wait for what comes next.
    """

    chunk: bytes


@dataclass(frozen=True, slots=True)
class RunTick:
    """A run or a need is still going; comes about ten times a second while nothing else does."""


@dataclass(frozen=True, slots=True)
class RunFinished:
    """One of the runs ended, and nothing that it started is left."""

    check: Check
    run: Run


@dataclass(frozen=True, slots=True)
class EditKept:
    """Somebody wrote a file while it stood mutated; what they wrote is kept (S29)."""

    kept: Kept


@dataclass(frozen=True, slots=True)
class CheckFinished:
    """A check was judged. Its files are as they were."""

    outcome: Outcome


@dataclass(frozen=True, slots=True)
class PatchShown:
    """A patch that is about to be tried, or to be written, in its own bytes."""

    name: str
    patch: bytes
    instead_of: bytes | None = None
    """The patch that it replaces."""


@dataclass(frozen=True, slots=True)
class EditsKept:
    """Copies were made of files that are about to be put back as the index has them."""

    kept: tuple[Kept, ...]


Event = (
    Remarked
    | CheckStarted
    | NeedStarted
    | NeedFinished
    | RunStarted
    | RunOutput
    | RunTick
    | RunFinished
    | EditKept
    | CheckFinished
    | PatchShown
    | EditsKept
)
if TYPE_CHECKING:
    Emit = Callable[[Event], None]
