"""Where the hunks of one file go, and what becomes of it (S20).

The file that a patch was made from decides, wherever git still has it. Only without it the text of
the hunks has to do.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from roxy.core import files
from roxy.core.conversion import content
from roxy.core.errors import GitError
from roxy.core.misfit import Code, MisfitError, name
from roxy.core.patch import are_in_order, is_consistent
from roxy.core.splice import locate, splice
from roxy.core.working_tree import BLOCK

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from roxy.core.desk import Desk
    from roxy.core.patch import Hunk, Section
    from roxy.core.splice import Found, Span
    from roxy.core.working_tree import Content

_LOOKED_AT = 8000
"""So far into a file git looks for a NUL, to tell text from binary."""
_LARGEST_MERGE = 1023 << 20
_MOST_CONFLICTS = 127
_DIGITS = 12


@dataclass(frozen=True, slots=True)
class Placed:
    """The hunks of one file in their place."""

    base: Path
    """The file that they are applied to."""
    spans: Sequence[Span]
    """Where in `base` the lines are that they replace."""
    shift: int
    """How far below their stated places, in lines."""
    spliced: Path
    """What `base` becomes."""
    content: Content
    """Of `spliced`."""
    outcome: Path
    """What the file becomes: `spliced`, or when `base` is an older file, both edits together."""
    notes: tuple[str, ...] = ()


def blob_ids(path: Path) -> tuple[str, str]:
    """Return the names that git has for a file's bytes, by SHA-1 and by SHA-256."""
    with path.open("rb", buffering=0) as file:
        header = b"blob %d\0" % os.fstat(file.fileno()).st_size
        one, two = hashlib.sha1(header, usedforsecurity=False), hashlib.sha256(header)
        while block := file.read(BLOCK):
            one.update(block)
            two.update(block)
    return one.hexdigest(), two.hexdigest()


def is_blob(path: Path, object_id: str | None) -> bool:
    """Say whether a file holds what an object id, maybe an abbreviated one, stands for."""
    return object_id is not None and any(one.startswith(object_id) for one in blob_ids(path))


def place(desk: Desk, path: bytes, section: Section, stored: Path) -> Placed:
    """Put a section's hunks where they belong in `stored`, the stored form of a file.

    Raises `MisfitError`.
    """
    if not are_in_order(section.hunks):
        raise MisfitError(Code.UNCLEAR, f"has hunks for {name(path)} that are not in order")
    if not is_consistent(section.hunks):
        raise MisfitError(
            Code.UNCLEAR, f"has a hunk for {name(path)} whose line numbers contradict each other"
        )
    return _Placement(desk, path, section, stored).decide()


@dataclass
class _Placement:
    desk: Desk
    path: bytes
    section: Section
    stored: Path
    lost: str = ""
    """What is said of a blob that git does not have."""

    def decide(self) -> Placed:
        old_id = self.section.old_id
        if old_id is None:
            return self._by_text()
        if is_blob(self.stored, old_id):
            return self._splice(self.stored, 0) or self._by_text()
        blob = self._blob(old_id)
        if blob is not None:
            placed = self._splice(blob, 0)
            if placed is not None and all(
                _is_mergeable(file) for file in (self.stored, blob, placed.spliced)
            ):
                return self._merge(placed)
        return self._by_text()

    def _splice(self, base: Path, shift: int) -> Placed | None:
        made = self.desk.fresh()
        with base.open("rb", buffering=0) as source, files.Output(made) as output:
            spans = splice(source, self.section.hunks, shift, output.write)
        if spans is None:
            files.remove(made)
            return None
        return Placed(base, spans, shift, made, output.content, made)

    def _blob(self, object_id: str) -> Path | None:
        """Return a copy of the blob, if git has it. An id may be abbreviated, or a tag's name."""
        repository = self.desk.repository
        to = self.desk.fresh()
        with os.fdopen(files.create(to), "wb") as file:
            has_it = repository.copy_blob(object_id, file)
        if has_it and is_blob(to, object_id):
            return to
        if not has_it and not repository.ask("cat-file", "-e", f"{object_id}^{{blob}}").code:
            raise GitError(f"git has blob `{object_id}`, but cannot give it to roxy")
        files.remove(to)
        self.lost = (
            f", and git no longer has blob {object_id[:_DIGITS]} that it was made from"
            " (a shallow clone?)"
        )
        return None

    def _merge(self, placed: Placed) -> Placed:
        """Return both edits together: somebody's, and the mutation's. A conflict is a misfit."""
        merged = self.desk.fresh()
        arguments = ["merge-file", "-p", "-q", self.stored, placed.base, placed.spliced]
        with os.fdopen(files.create(merged), "wb") as file:
            answer = self.desk.git.call(
                [str(one) for one in arguments], self.desk.empty_tree, stdout=file
            )
        if 0 < answer.code <= _MOST_CONFLICTS:
            raise self._misfit(
                Code.EDITED, f"the lines it breaks were edited since, in {name(self.path)}"
            )
        if answer.code:
            raise GitError(f"git cannot merge {name(self.path)}: {answer.complaint}")
        return replace(placed, outcome=merged, notes=self._distance_of(merged))

    def _distance_of(self, merged: Path) -> tuple[str, ...]:
        """Tell how far the hunks moved, if the merge did nothing else to them."""
        if not all(hunk.old for hunk in self.section.hunks):
            return ()
        shift = _common_shift(self.section.hunks, self._locate())
        moved = self._splice(self.stored, shift) if shift else None
        if moved is None or moved.content != content(merged):
            return ()
        return moved_note(self.path, moved.shift)

    def _by_text(self) -> Placed:
        """Put the hunks at their stated lines; or all of them as far away as their only place is."""
        hunks = self.section.hunks
        if self.stored.stat().st_size and not all(hunk.old for hunk in hunks):
            raise self._misfit(
                Code.NO_LINES,
                f"a part of it names no line of {name(self.path)}, so nothing says where that goes",
            )
        placed = self._splice(self.stored, 0)
        if placed is not None:
            return placed
        found = self._locate()
        self._refuse_doubt(found)
        shift = _common_shift(hunks, found)
        placed = None if shift is None else self._splice(self.stored, shift)
        if placed is None:
            raise self._misfit(
                Code.SCATTERED, f"its parts moved by different distances in {name(self.path)}"
            )
        return replace(placed, notes=moved_note(self.path, placed.shift))

    def _locate(self) -> list[Found]:
        with self.stored.open("rb", buffering=0) as source:
            return locate(source, os.fstat(source.fileno()).st_size, self.section.hunks)

    def _refuse_doubt(self, found: Sequence[Found]) -> None:
        """Raise unless every hunk has exactly one place."""
        if any(one.count == 0 for one in found):
            raise self._misfit(Code.GONE, f"its lines are not in {name(self.path)} any more")
        for one in found:
            if one.count > 1:
                raise self._misfit(
                    Code.REPEATED, f"its lines occur {one.count} times in {name(self.path)}"
                )

    def _misfit(self, code: Code, text: str) -> MisfitError:
        return MisfitError(code, f"does not fit: {text}{self.lost}")


def _common_shift(hunks: Sequence[Hunk], found: Sequence[Found]) -> int | None:
    """Return the distance that all hunks moved, if each has one place and they agree."""
    shifts = {
        one.line - hunk.line if one.count == 1 else None
        for hunk, one in zip(hunks, found, strict=True)
    }
    return shifts.pop() if len(shifts) == 1 else None


def moved_note(path: bytes, shift: int) -> tuple[str, ...]:
    """Return what people are told of a mutation that is not at its stated lines."""
    lines = "1 line" if abs(shift) == 1 else f"{abs(shift)} lines"
    return (f"moved {lines} {'down' if shift > 0 else 'up'} in {name(path)}",)


def is_as_stated(desk: Desk, section: Section, stored: Path, placed: Placed) -> bool:
    """Say whether the hunks go exactly where the patch says, and all around them is as it says."""
    if placed.base == stored:
        return not placed.shift
    made = desk.fresh()
    with stored.open("rb", buffering=0) as source, files.Output(made) as output:
        spans = splice(source, section.hunks, 0, output.write)
    return spans is not None and output.content == content(placed.outcome)


def _is_mergeable(path: Path) -> bool:
    """Say whether `git merge-file` takes a file for text."""
    with path.open("rb", buffering=0) as file:
        return (
            b"\0" not in file.read(_LOOKED_AT) and os.fstat(file.fileno()).st_size <= _LARGEST_MERGE
        )
