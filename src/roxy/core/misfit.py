"""Why a mutation does not fit the code as it is: the codes, all of them, and how work ends there."""

from __future__ import annotations

from enum import StrEnum

from roxy.core.errors import DiskError
from roxy.core.patch import Fact
from roxy.core.working_tree import is_about_path


class Code(StrEnum):
    """Stable names for programs (S18-S21)."""

    UNCLEAR = "patch-unclear"
    """Git and roxy do not read the same in it, or its hunks contradict each other."""
    CREATES = "creates-file"
    DELETES = "deletes-file"
    RENAMES = "renames-file"
    COPIES = "copies-file"
    CHANGES_MODE = "changes-mode"
    CHANGES_NOTHING = "changes-nothing"
    OTHER_FILES = "other-files"
    """The commit to be reproduced has not the same covered files."""
    NOT_COVERED = "not-covered"
    EDITS_TWICE = "edits-file-twice"
    """Two sections for one file."""
    FILTERED = "filter-in-force"
    CANNOT_READ = "cannot-read-file"
    CANNOT_CONVERT = "cannot-convert-file"
    """Line ends or encoding on the disk are not those that git would write, or git fails at it."""
    NO_BYTES = "binary-without-bytes"
    """The patch says that binary files differ, not how."""
    OTHER_BINARY = "binary-differs"
    """A binary patch fits one content only, and this is another."""
    EDITED = "edited-since"
    """A three-way merge ends in a conflict."""
    GONE = "lines-gone"
    REPEATED = "lines-repeated"
    SCATTERED = "lines-scattered"
    """Each hunk has one place, but they did not all move by the same distance."""
    NO_LINES = "lines-unknown"
    """A hunk without a single old line, where only such lines could tell its place."""
    GIT_REFUSES = "git-refuses"
    GIT_DIFFERS = "git-differs"
    """Git makes other bytes of it than roxy."""


FACTS = {
    Fact.CREATES: Code.CREATES,
    Fact.DELETES: Code.DELETES,
    Fact.RENAMES: Code.RENAMES,
    Fact.COPIES: Code.COPIES,
    Fact.CHANGES_MODE: Code.CHANGES_MODE,
}


class MisfitError(Exception):
    """Ends the fitting of one mutation; never leaves `roxy.core.mutation`."""

    def __init__(self, code: Code, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
        """What the mutation does or is, as it goes on after its name: one plain line."""


def name(path: bytes) -> str:
    """Return a path for a text, in backticks, raw (S46)."""
    return f"`{path.decode('utf-8', 'surrogateescape')}`"


def unreadable(path: bytes, error: OSError) -> Exception:
    """Return what it means that a file of the tree cannot be read.

    One that vanished, changed its kind or is closed to us can have no mutation; a disk that fails
    leaves that open.
    """
    why = error.strerror or error
    if is_about_path(error):
        return MisfitError(Code.CANNOT_READ, f"is for {name(path)}, which cannot be read: {why}")
    return DiskError(
        f"cannot read {name(path)}: {why}", hint="mend the disk, then run the same command again"
    )
