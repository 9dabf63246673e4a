"""What `roxy doctor` finds: something wrong, weak or worth knowing, and what to do about it."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Severity(StrEnum):
    """How much a finding matters."""

    ERROR = "error"
    """Roxy cannot do its work with this."""
    WARNING = "warning"
    """What roxy proves is weaker for this, or somebody has to look at it."""
    INFO = "info"


class Finding(NamedTuple):
    """One thing that was found.

    `code` is stable and meant for programs; the texts are one line each for people. Names in them
    are raw (S46).
    """

    severity: Severity
    code: str
    what: str
    where: str | None = None
    hint: str | None = None


def counted(count: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun: `1 file`, `2 files`."""
    return f"{count} {noun if count == 1 else plural or noun + 's'}"
