"""Trouble, as exceptions: what happened, where, and what to do about it (S48).

Bad news about a check is a value (`roxy.core.verdict`); an exception means that roxy could not
judge. The command line turns each of these into one exit code, in one place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roxy.core.model import Report


class Fault(NamedTuple):
    """One thing that is wrong.

    Each text is one line of plain words with names in backticks. Names from the repository stand in
    it raw: whoever shows a fault escapes it (S46).
    """

    what: str
    where: str | None = None
    hint: str | None = None


class RoxyError(Exception):
    """Roxy could not judge; carries at least one `Fault`, all that could be found in one go."""

    def __init__(self, what: str, where: str | None = None, hint: str | None = None) -> None:
        super().__init__(what)
        self.faults: tuple[Fault, ...] = (Fault(what, where, hint),)

    @classmethod
    def of(cls, faults: Sequence[Fault]) -> RoxyError:
        """Return one error for several faults. `faults` must not be empty."""
        first = faults[0]
        error = cls(first.what, first.where, first.hint)
        error.faults = tuple(faults)
        return error


class UsageError(RoxyError):
    """The command line asks for something that does not exist or does not go together (S43)."""


class PlatformError(RoxyError):
    """This machine lacks something that roxy cannot work without (S2, S3)."""


class ConfigError(RoxyError):
    """roxy.toml, or a file that it names, cannot be used (S9-S14)."""


class LockfileError(RoxyError):
    """roxy.lock cannot be read or written (S37)."""


class GitError(RoxyError):
    """Git is missing, refuses, or says that this is no place to work in (S4, S7)."""


class BusyError(RoxyError):
    """Another roxy command is at work in this working tree (S8)."""


class DiskError(RoxyError):
    """A file could not be read or written."""


class ProcessError(RoxyError):
    """A process that roxy started could not be ended."""


class RestoreError(RoxyError):
    """Files could not be put back; their copies stay where the fault says (S33)."""


class Interrupted(Exception):  # noqa: N818 - not an error of anybody's
    """A signal asked roxy to stop; raised only where everything can be put back (S32)."""

    def __init__(self, signum: int) -> None:
        super().__init__(signum)
        self.signum = signum
        self.report: Report | None = None
        """What was finished before, when something was."""
