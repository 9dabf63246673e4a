"""From a patch to the bytes that it makes of each file, or why it does not fit (S17-S21).

Works on copies in a folder of roxy's own; the tree is only read. A file goes through these stages:
its copy; the form of it that git stores; the place of the hunks in that, and the outcome; the
proof, in which git applies the same patch to the same bytes; the outcome as it goes on the disk.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from roxy.core import files, old_code, proof
from roxy.core.conversion import content, find_rules
from roxy.core.desk import Desk
from roxy.core.diff import Change, print_diff
from roxy.core.hidden_attributes import HiddenAttributes
from roxy.core.misfit import FACTS, Code, MisfitError, name, unreadable
from roxy.core.model import Reason
from roxy.core.patch import PatchError, parse
from roxy.core.placement import is_as_stated, is_blob, place
from roxy.core.proof import Part, prove
from roxy.core.status import name_files
from roxy.core.working_tree import BLOCK

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

    from roxy.core.conversion import Conversion, Rules
    from roxy.core.git import Repository
    from roxy.core.patch import Section
    from roxy.core.proof import Summary
    from roxy.core.working_tree import Content, Tree


@dataclass(frozen=True, slots=True)
class Edit:
    """One file of the tree, before and after."""

    path: bytes
    old: Content
    """What it held when it was copied; the edit is for nothing else."""
    source: Path
    """A file of roxy's own with the new bytes."""
    new: Content


@dataclass(frozen=True, slots=True)
class Fit:
    """A mutation that fits the code as it is."""

    edits: tuple[Edit, ...]
    """Only files whose content changes, at least one, in the patch's order."""
    notes: tuple[str, ...]
    """What people should know: how far it moved."""


@dataclass(frozen=True, slots=True)
class Renewal:
    """What a mutation that fits looks like on the code as it is."""

    patch: bytes | None
    """None when the old one goes exactly where it says."""
    notes: tuple[str, ...]
    """How far it moved."""


@dataclass(frozen=True, slots=True)
class Misfit:
    """A mutation that cannot be used on the code as it is (S18)."""

    reason: Reason


class Scratch:
    """Fits mutations, in `roxy/scratch/` of the git directory."""

    def __init__(self, repository: Repository, tree: Tree) -> None:
        self._repository = repository
        self._tree = tree
        self._desk = Desk(repository)
        self._hidden = HiddenAttributes(self._desk)
        self._summaries: dict[bytes, tuple[Summary, ...] | None] = {}
        self._shelves: dict[str, int] = {}

    def prepare(self, patches: Sequence[bytes]) -> None:
        """Ask git at once what it would else be asked for each patch on its own."""
        summaries = proof.summarise_all(self._desk, patches)
        for patch, summary in zip(patches, summaries or (), strict=False):
            self._summaries[hashlib.sha256(patch).digest()] = summary
        plain = filter(proof.is_plain, summaries or ())
        self._hidden.ask([one.path for some in plain for one in some])
        self._desk.wipe()

    def unreadable(self, patch: bytes) -> str | None:
        """Return what git complains of when it cannot read a patch at all (S19), else None."""
        if proof.is_plain(self._summary(patch)):
            return None
        return proof.unreadable(self._desk, patch)

    def touched(self, patch: bytes) -> tuple[bytes, ...]:
        """Return the paths that git says a patch names; none when it cannot read it."""
        return tuple(summary.path for summary in self._summary(patch) or ())

    def _summary(self, patch: bytes) -> tuple[Summary, ...] | None:
        """Ask git once for each patch."""
        key = hashlib.sha256(patch).digest()
        if key not in self._summaries:
            self._summaries[key] = proof.summarise(self._desk, patch)
        return self._summaries[key]

    def fit(self, mutation: str, patch: bytes, covered: Collection[bytes]) -> Fit | Misfit:
        """Return what a mutation makes of the covered files as they are now.

        The sources of its edits stay until `clear`, or the next fit of the same `mutation`. Raises
        `GitError` and `DiskError`, when it cannot be told.
        """
        shelf = self._shelf(mutation)
        self._tree.forget()
        try:
            return self._fit(self._sections(patch, covered), shelf)
        except MisfitError as misfit:
            return Misfit(Reason(str(misfit.code), f"`{mutation}` {misfit.text}"))
        finally:
            self._desk.wipe()

    def diff(self, edit: Edit) -> bytes:
        """Return what an edit of the last fit does to the tree: hunks, none of a binary file.

        Raises `OSError` when the file cannot be read any more.
        """
        old = self._desk.fresh()
        self._tree.forget()
        try:
            files.copy_out(self._tree, edit.path, old)
            options = ["--no-index", "--no-color", "--no-ext-diff", "--no-textconv", "-U3", "--"]
            answer = self._desk.git.call(
                ["diff", *options, str(old), str(edit.source)], self._desk.empty_tree
            )
        finally:
            self._desk.wipe()
        _, at, hunks = answer.stdout.partition(b"\n@@")
        return at[1:] + hunks

    def renew(self, mutation: str, patch: bytes, covered: Collection[bytes]) -> Renewal | Misfit:
        """Return the patch that does the same to the files as they are now.

        Where a mutation goes is decided as `fit` does. Raises `GitError` and `DiskError`.
        """
        self._tree.forget()
        try:
            named = self._sections(patch, covered)
            begun, rules = self._placed(named)
            notes = _notes(begun)
            if self._are_as_stated(begun):
                return Renewal(None, notes)
            tree = prove(self._desk, [file.part for file in begun])
            changes = [
                Change(file.part.path, file.part.executable, file.part.stored, file.outcome(tree))
                for file in begun
            ]
            header = patch[: patch.find(named[0][1].header)]
            return Renewal(header + print_diff(self._desk, changes, rules.folder), notes)
        except MisfitError as misfit:
            return Misfit(Reason(str(misfit.code), f"`{mutation}` {misfit.text}"))
        finally:
            self._desk.wipe()

    def drift(self, patch: bytes, covered: Collection[bytes]) -> tuple[str, bool] | None:
        """Say in what way a patch does not go exactly where it states, and whether it fits at all.

        None when it goes there. The text goes on after the patch's name.

        This only looks, so a patch that git would refuse may pass.
        """
        self._tree.forget()
        try:
            begun, _ = self._placed(self._sections(patch, covered))
            if self._are_as_stated(begun):
                return None
            return "; ".join(_notes(begun)) or "meets other lines around its own", True
        except MisfitError as misfit:
            return misfit.text, False
        finally:
            self._desk.wipe()

    def fit_old_code(self, commit: str, listing: bytes, covered: Collection[bytes]) -> Fit | Misfit:
        """Return what the covered files as a commit has them make of those that are there now.

        As `fit` does; also raises `GitError` when git lacks what a file held.
        """
        shelf = self._shelf(commit)
        self._tree.forget()
        try:
            old_files = old_code.parse(listing)
            _refuse_other_files(old_files.keys(), covered)
            return self._fit_old_code(commit, old_files, shelf)
        except MisfitError as misfit:
            return Misfit(Reason(str(misfit.code), f"`{commit}` {misfit.text}"))
        finally:
            self._desk.wipe()

    def _fit_old_code(self, commit: str, old_files: Mapping[bytes, str], shelf: Path) -> Fit:
        paths = sorted(old_files)
        rules = find_rules(self._desk, self._tree, paths)
        if rules.has_attributes or self._hidden.may_be_about(paths):
            self._refuse_filters(paths)
        edits = [
            self._old_content(commit, path, old_files[path], rules, shelf / str(number))
            for number, path in enumerate(paths)
        ]
        changes = tuple(edit for edit in edits if edit is not None)
        if not changes:
            raise MisfitError(Code.CHANGES_NOTHING, "has the very same code")
        return Fit(changes, ())

    def _old_content(
        self, commit: str, path: bytes, object_id: str, rules: Rules, to: Path
    ) -> Edit | None:
        """Return the edit that gives a file what it held in a commit, if that is another content."""
        raw = self._desk.fresh()
        copy = self._copy(path, raw)
        if is_blob(raw, object_id):
            return None
        conversion = rules.find(path, has_cr=copy.has_cr, keeps_crlf=False)
        stored = raw if conversion is None else conversion.to_git(raw)
        if is_blob(stored, object_id):
            return None
        outcome = self._desk.fresh()
        with os.fdopen(files.create(outcome), "wb") as file:
            if not self._repository.copy_blob(object_id, file):
                raise old_code.missing_blob(commit, path)
        if conversion is not None:
            outcome = conversion.to_disk(outcome, stored, raw)
        new = content(outcome)
        if new == copy.content:
            return None
        files.rename(outcome, to)
        return Edit(path, copy.content, to, new)

    def clear(self) -> None:
        """Remove the folder with all in it."""
        self._desk.clear()
        self._shelves.clear()

    def _shelf(self, mutation: str) -> Path:
        """Return an empty folder for the sources of a mutation's edits."""
        number = self._shelves.setdefault(mutation, len(self._shelves))
        files.remove_folder(self._desk.made_folder(f"edits-{number}"))
        return self._desk.made_folder(f"edits-{number}")

    # --------------------------------------------------------------- the stages

    def _sections(self, patch: bytes, covered: Collection[bytes]) -> list[tuple[bytes, Section]]:
        """Return what the patch does to which file, if it is nothing that a mutation may not do."""
        summaries = self._summary(patch)
        if summaries is None:
            raise MisfitError(Code.UNCLEAR, "cannot be read by git")
        named = [(one.path, section) for one, section in _paired(summaries, patch)]
        known = frozenset(covered)
        for path, section in named:
            _refuse_section(path, section, known)
        for path, count in Counter(path for path, _ in named).items():
            if count > 1:
                raise MisfitError(Code.EDITS_TWICE, f"has {count} sections for {name(path)}")
        return named

    def _refuse_filters(self, paths: Sequence[bytes]) -> None:
        for path, value in self._repository.attribute("filter", paths).items():
            if value not in {"unspecified", "unset"}:
                raise MisfitError(
                    Code.FILTERED,
                    f"edits {name(path)}, for which git has the filter `{value}` in force",
                )

    def _begin(self, path: bytes, section: Section, rules: Rules) -> _File:
        """Copy a file and put the hunks where they go."""
        raw = self._desk.fresh()
        copy = self._copy(path, raw)
        conversion = rules.find(path, has_cr=copy.has_cr, keeps_crlf=section.keeps_crlf)
        if conversion is None or is_blob(raw, section.old_id):
            stored = raw
        else:
            stored = conversion.to_git(raw)
        if section.binary is None:
            placed = place(self._desk, path, section, stored)
        elif is_blob(stored, section.old_id):
            placed = None
        else:
            raise MisfitError(
                Code.OTHER_BINARY, f"is a binary patch for another content than {name(path)} has"
            )
        part = Part(path, section, stored, copy.executable, placed)
        return _File(part, raw, copy.content, conversion)

    def _copy(self, path: bytes, to: Path) -> _Copy:
        has_cr = False
        try:
            with self._tree.reading(path) as fd, files.Output(to) as output:
                mode = os.fstat(fd).st_mode
                while block := os.read(fd, BLOCK):
                    has_cr = has_cr or b"\r" in block
                    output.write(block)
        except OSError as error:
            raise unreadable(path, error) from error
        return _Copy(output.content, bool(mode & stat.S_IXUSR), has_cr)

    def _placed(self, named: Sequence[tuple[bytes, Section]]) -> tuple[list[_File], Rules]:
        paths = [path for path, _ in named]
        rules = find_rules(self._desk, self._tree, paths)
        if rules.has_attributes or self._hidden.may_be_about(paths):
            self._refuse_filters(paths)
        return [self._begin(path, section, rules) for path, section in named], rules

    def _are_as_stated(self, begun: Sequence[_File]) -> bool:
        """Say whether every hunk stands where it goes; a binary section fits so or not at all."""
        return all(
            is_as_stated(self._desk, part.section, part.stored, part.placed)
            for part in (file.part for file in begun)
            if part.placed is not None
        )

    def _fit(self, named: Sequence[tuple[bytes, Section]], shelf: Path) -> Fit:
        begun, _ = self._placed(named)
        tree = prove(self._desk, [file.part for file in begun])
        edits = [_finish(file, tree, shelf / str(number)) for number, file in enumerate(begun)]
        changes = tuple(edit for edit in edits if edit is not None)
        if not changes:
            where = f" in {name(named[0][0])}" if len(named) == 1 else ""
            raise MisfitError(Code.CHANGES_NOTHING, f"changes nothing{where}")
        return Fit(changes, _notes(begun))


@dataclass(frozen=True, slots=True)
class _Copy:
    content: Content
    executable: bool
    has_cr: bool


@dataclass(frozen=True, slots=True)
class _File:
    """A file with its hunks in place."""

    part: Part
    raw: Path
    """The copy of it."""
    old: Content
    conversion: Conversion | None

    def outcome(self, tree: Path) -> Path:
        """Return what the stored form becomes; git has applied the patch in `tree`."""
        part = self.part
        return part.placed.outcome if part.placed else tree / os.fsdecode(part.path)


def _notes(begun: Sequence[_File]) -> tuple[str, ...]:
    placed = (file.part.placed for file in begun)
    return tuple(note for one in placed if one is not None for note in one.notes)


def _paired(summaries: Sequence[Summary], patch: bytes) -> list[tuple[Summary, Section]]:
    """Return each of git's summaries with the section that roxy reads; they have to agree."""
    try:
        sections = parse(patch)
    except PatchError as error:
        raise MisfitError(Code.UNCLEAR, f"cannot be followed: {error}") from error
    ours = [
        (None, None) if one.binary or one.lacks_bytes else (one.added, one.deleted)
        for one in sections
    ]
    if ours != [(one.added, one.deleted) for one in summaries]:
        raise MisfitError(Code.UNCLEAR, "cannot be followed: git reads something else in it")
    return list(zip(summaries, sections, strict=True))


def _refuse_other_files(then: Collection[bytes], now: Collection[bytes]) -> None:
    """Only contents can be put back to what they were."""
    added, removed = set(now) - set(then), set(then) - set(now)
    parts = [f"has no {name_files(added)}"] if added else []
    parts += [f"has {name_files(removed)} besides"] if removed else []
    if parts:
        text = f"{', and '.join(parts)}: only contents can be mutated, so write a patch instead"
        raise MisfitError(Code.OTHER_FILES, text)


def _refuse_section(path: bytes, section: Section, covered: Collection[bytes]) -> None:
    for fact in section.facts:
        raise MisfitError(FACTS[fact], f"{fact} {name(path)}")
    if path not in covered:
        raise MisfitError(Code.NOT_COVERED, f"edits {name(path)}, which the check does not cover")
    if section.lacks_bytes:
        raise MisfitError(
            Code.NO_BYTES,
            f"says that the binary file {name(path)} differs, but not how;"
            " `git diff --binary` would say it",
        )
    if not section.hunks and section.binary is None:
        raise MisfitError(Code.CHANGES_NOTHING, f"changes nothing in {name(path)}")


def _finish(file: _File, tree: Path, to: Path) -> Edit | None:
    """Return the edit of one file, with its source at `to`; None when it stays as it is."""
    part = file.part
    outcome = file.outcome(tree)
    if file.conversion is not None:
        outcome = file.conversion.to_disk(outcome, part.stored, file.raw)
    new = content(outcome)
    if new == file.old:
        return None
    files.rename(outcome, to)
    return Edit(part.path, file.old, to, new)
