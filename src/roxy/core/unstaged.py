"""The unstaged edits of covered files, as a patch, and what the index has in their place.

Only what `git diff` shows counts. It is worked out on copies in roxy's own folder, so no filter,
no textconv and no setting of anybody's has a say in it.
"""

from __future__ import annotations

import stat
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from roxy.core import files, glob
from roxy.core.conversion import attribute_files, content, find_rules
from roxy.core.diff import Change, print_diff
from roxy.core.errors import GitError, UsageError
from roxy.core.hidden_attributes import HiddenAttributes
from roxy.core.misfit import MisfitError, name
from roxy.core.model import LOCKFILE, MANIFEST
from roxy.core.mutation import Edit
from roxy.core.patch import parse
from roxy.core.status import name_files
from roxy.core.working_tree import BLOCK

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from roxy.core.conversion import Rules
    from roxy.core.desk import Desk
    from roxy.core.git import Repository
    from roxy.core.glob import Glob
    from roxy.core.model import Check
    from roxy.core.working_tree import Tree

_MOST_LINES = 20
"""Added and deleted lines that a mutation has at most, unless somebody insists."""
_RAW = ("-z", "--raw", "--no-renames", "--no-abbrev", "--ignore-submodules=all")
_EDITED = (
    *("diff", "-z", "--name-only", "--no-renames", "--ignore-submodules=all"),
    *("--no-ext-diff", "--no-textconv"),
)
_STAGE_FIRST = "stage the good work (`git add`), then break the code and try again"


@dataclass(frozen=True, slots=True)
class Unstaged:
    """Edits of at least one file."""

    patch: bytes
    """From the index to the files as they are."""
    edits: tuple[Edit, ...]
    """From the files as they are back to what the index has."""
    lines: int
    """Added and deleted ones."""
    is_staged: bool
    """Whether the index has anything else than HEAD for a covered file."""

    def refuse_work(self) -> None:
        """Raise `UsageError` when this looks like work that was never staged."""
        if self.is_staged or (len(self.edits) == 1 and self.lines <= _MOST_LINES):
            return
        count = "1 file" if len(self.edits) == 1 else f"{len(self.edits)} files"
        raise UsageError(
            f"nothing is staged, and these edits look like more than a mutation:"
            f" {self.lines} lines in {count}",
            where=name_files(edit.path for edit in self.edits),
            hint=f"{_STAGE_FIRST}; `--force` takes all of it for the mutation",
        )


@dataclass(frozen=True, slots=True)
class _Entry:
    """A line of git's raw diff."""

    path: bytes
    old_mode: int
    new_mode: int
    old_id: str
    status: str


def take(
    repository: Repository, tree: Tree, desk: Desk, check: Check, covered: Sequence[bytes]
) -> Unstaged:
    """Return the unstaged edits of a check's files; nothing is changed.

    What lies on the desk is needed until the edits are made. Raises `UsageError` when there are
    none, or they are nothing that a mutation may do; `GitError` and `DiskError`.
    """
    taker = _Taker(repository, tree, desk, [glob.parse(text) for text in check.covers])
    edited = taker.edited(covered)
    try:
        found = taker.changes(edited)
        if not found:
            raise taker.no_edits(check)
        patch = print_diff(desk, [change for change, _ in found], taker.rules.folder)
    except MisfitError as misfit:
        raise UsageError(f"what was edited {misfit.text}", hint=_STAGE_FIRST) from misfit
    lines = sum(section.added + section.deleted for section in parse(patch))
    edits = tuple(edit for _, edit in found)
    return Unstaged(patch, edits, lines, taker.has_staged)


class _Taker:
    def __init__(
        self, repository: Repository, tree: Tree, desk: Desk, globs: Sequence[Glob]
    ) -> None:
        self._repository = repository
        self._tree = tree
        self._desk = desk
        self._globs = globs
        self._prefixes = glob.outermost(prefix for one in globs for prefix in one.prefixes)
        self.rules: Rules

    # --------------------------------------------------------------- what git says

    def edited(self, covered: Sequence[bytes]) -> list[_Entry]:
        """Return the covered files that may have edits, if all of it may be a mutation."""
        entries = [entry for entry in self._ask("diff-files") if _may_count(entry)]
        for status, what in _NEVER.items():
            if paths := {entry.path for entry in entries if entry.status == status}:
                raise UsageError(f"{name_files(paths)} {what}", hint=_STAGE_FIRST)
        if paths := {one.path for one in entries if one.old_mode != one.new_mode}:
            raise UsageError(
                f"the mode of {name_files(paths)} was changed, which no mutation may do",
                hint="`chmod` it back, or stage it with `git add`",
            )
        known = set(covered)
        with self._repository.untracked(self._prefixes) as listing:
            if new := known.intersection(listing.paths()):
                raise UsageError(
                    f"{name_files(new)} {_NEVER['A']}",
                    hint="stage what belongs to the good work with `git add`",
                )
        edited = [entry for entry in entries if entry.path in known]
        self._refuse_attributes([entry.path for entry in edited])
        return edited

    @cached_property
    def has_staged(self) -> bool:
        """Whether something of a covered file is staged; before the first commit all is."""
        return self._repository.commit() is None or bool(self._staged())

    def _staged(self) -> list[_Entry]:
        return [one for one in self._ask("diff-index", "--cached", "HEAD") if _may_count(one)]

    def no_edits(self, check: Check) -> UsageError:
        """Return that there are none, and where else there are some."""
        what = f"no file that `{check.id}` covers has unstaged edits"
        if self._repository.commit() is not None and (staged := self._staged()):
            return UsageError(
                f"{what}, only staged ones: {name_files(entry.path for entry in staged)}",
                hint="`git restore --staged FILE` makes them unstaged",
            )
        if others := self._edited_anywhere():
            return UsageError(
                f"{what}; edited is {name_files(others)}",
                hint="break a file that it covers, or add that one to `covers`",
            )
        return UsageError(
            what, hint="break the code in the working tree first, or name a patch with `--patch`"
        )

    def _edited_anywhere(self) -> list[bytes]:
        """Return all files that have unstaged edits; what was only touched has none."""
        answer = self._repository.ask(*_EDITED, settings=self._repository.filters_off())
        return [path for path in answer.stdout.split(b"\0")[:-1] if path != LOCKFILE]

    def _ask(self, command: str, *arguments: str) -> list[_Entry]:
        answer = self._repository.ask(
            command,
            *_RAW,
            *arguments,
            "--",
            *(() if b"" in self._prefixes else self._prefixes),
            settings=self._repository.filters_off(),
        )
        if answer.code:
            raise GitError(f"git cannot say what was edited: {answer.complaint}")
        entries = _entries(answer.stdout)
        return [one for one in entries if any(some.matches(one.path) for some in self._globs)]

    def _refuse_attributes(self, paths: Sequence[bytes]) -> None:
        if not paths:
            return
        for path, value in self._repository.attribute("filter", paths).items():
            if value not in {"unspecified", "unset"}:
                raise UsageError(
                    f"git has the filter `{value}` in force for {name(path)},"
                    " and no filter is ever run here"
                )
        if MANIFEST in paths:
            raise UsageError(
                "roxy.toml has unstaged edits, and it cannot be a part of a mutation",
                hint=_STAGE_FIRST,
            )
        if attributes := [path for path in paths if path in attribute_files([path])]:
            raise UsageError(
                f"{name_files(attributes)} says how git stores other files, so no edit of it"
                " can be taken as a mutation",
                hint="write the patch with `git diff`, then name it with `--patch`",
            )

    # --------------------------------------------------------------- what the files hold

    def changes(self, edited: Sequence[_Entry]) -> list[tuple[Change, Edit]]:
        """Return what git would show of each file, and what takes it back."""
        paths = [entry.path for entry in edited]
        self.rules = find_rules(self._desk, self._tree, paths)
        if paths and HiddenAttributes(self._desk).may_be_about(paths):
            self._refuse_hidden(paths)
        self._tree.forget()
        return [one for entry in edited if (one := self._change(entry))]

    def _refuse_hidden(self, paths: Sequence[bytes]) -> None:
        """Raise when git goes by attributes that no file on the disk shows."""
        for path, key, value in self.rules.differing(self._repository, paths):
            raise UsageError(
                f"git has the attribute `{key}` as `{value}` for {name(path)}, from somewhere"
                " else than the `.gitattributes` on the disk",
                hint="write the patch with `git diff`, then name it with `--patch`",
            )

    def _change(self, entry: _Entry) -> tuple[Change, Edit] | None:
        path = entry.path
        blob, raw = self._desk.fresh(), self._desk.fresh()
        with blob.open("wb") as file:
            if not self._repository.copy_blob(entry.old_id, file):
                raise GitError(f"git cannot give what the index has for {name(path)}")
        try:
            held = files.copy_out(self._tree, path, raw)
        except OSError as error:
            raise UsageError(f"{name(path)} cannot be read: {error.strerror}") from error
        written, edited = self._forms(path, blob, raw)
        if content(edited) == content(blob):
            return None
        change = Change(path, bool(entry.old_mode & stat.S_IXUSR), blob, edited)
        return change, Edit(path, held, written, content(written))

    def _forms(self, path: bytes, blob: Path, raw: Path) -> tuple[Path, Path]:
        """Return the blob as git would write it to the disk, and the file as git would store it."""
        keeps_crlf = _holds(blob, b"\r\n")
        conversion = self.rules.find(path, has_cr=True, keeps_crlf=False)
        if conversion is not None and keeps_crlf:
            self._expect_same(path, conversion.checked_out(blob), blob)
            conversion = self.rules.find(path, has_cr=True, keeps_crlf=True)
        if conversion is None:
            return blob, raw
        written = conversion.checked_out(blob)
        self._expect_same(path, conversion.to_git(written), blob)
        return written, conversion.to_git(raw)

    def _expect_same(self, path: bytes, one: Path, other: Path) -> None:
        if content(one) != content(other):
            raise UsageError(
                f"the index has {name(path)} with other line ends than git would give it",
                hint="`git add --renormalize` it, commit that, and try again",
            )


_NEVER = {
    "U": "has conflicts in the index, so there is no good code to go back to",
    "D": "was deleted, which no mutation may do",
    "A": "is new, which no mutation may do",
    "T": "is of another kind than in the index, which no mutation may do",
}


def _may_count(entry: _Entry) -> bool:
    """Say whether an entry is about a regular file, before or after."""
    is_file = stat.S_ISREG(entry.old_mode) or stat.S_ISREG(entry.new_mode)
    return entry.path != LOCKFILE and (is_file or entry.status == "U")


def _entries(raw: bytes) -> Iterator[_Entry]:
    fields = raw.split(b"\0")
    for facts, path in zip(fields[0::2], fields[1::2], strict=False):
        old_mode, new_mode, old_id, _, status = facts.decode("ascii").lstrip(":").split(" ")
        yield _Entry(path, int(old_mode, 8), int(new_mode, 8), old_id, status[:1])


def _holds(path: Path, some: bytes) -> bool:
    before = b""
    with path.open("rb", buffering=0) as file:
        while block := file.read(BLOCK):
            if some in before + block:
                return True
            before = block[-len(some) :]
    return False
