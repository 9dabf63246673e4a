"""Which files the globs mean, and in which folders they are (S12-S16, S41)."""

from __future__ import annotations

import contextlib
import os
import stat
from enum import Enum, auto
from itertools import chain, pairwise
from typing import TYPE_CHECKING, NamedTuple

from roxy.core import digests, glob
from roxy.core.errors import ConfigError, Fault
from roxy.core.model import LOCKFILE
from roxy.core.working_tree import Stamped, by_path, cut, is_about_path, stamp_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from roxy.core.git import Listing, Repository
    from roxy.core.glob import Glob
    from roxy.core.model import Check
    from roxy.core.working_tree import Stamp, Tree

_EXPLAINED = 100
"""Globs without a file of which is told why, since git is asked about each."""
_NO_HINT = "mend the glob, or take it out"


class Coverage(NamedTuple):
    """The covered files of some checks, as git and the disk list them now."""

    files: Mapping[str, tuple[bytes, ...]]
    """Sorted paths by check id, inputs among them; never empty for a check, unless nothing strict
    was asked for."""
    stamped: Stamped
    """Every covered file with its stamp."""
    absent: tuple[bytes, ...]
    """Tracked files that a glob matches but the disk does not have (S52)."""
    idle: frozenset[str]
    """Ids of the checks that have a glob without a file; none if that is an error (S14)."""
    covered: Mapping[str, tuple[bytes, ...]]
    """The same as `files` without what is only an input: what a mutation may edit (S18, S41)."""


def find_covered(
    repository: Repository, tree: Tree, checks: Sequence[Check], *, strict: bool = True
) -> Coverage:
    """List what every check covers, and what else its outcome depends on; see `Asked.answer`."""
    with asked(repository, checks) as question:
        return question.answer(tree, strict=strict)


@contextlib.contextmanager
def asked(repository: Repository, checks: Sequence[Check]) -> Iterator[Asked]:
    """Ask git for what some checks cover; it is at work from the start of the `with` block on."""
    globs = {text: glob.parse(text) for check in checks for text in check.globs}
    prefixes = glob.outermost(prefix for one in globs.values() for prefix in one.prefixes)
    with repository.listing(prefixes) as listing:
        yield Asked(repository, checks, globs, listing)


class Asked:
    """A question to git about what some checks cover."""

    def __init__(
        self,
        repository: Repository,
        checks: Sequence[Check],
        globs: Mapping[str, Glob],
        listing: Listing,
    ) -> None:
        self._repository = repository
        self._checks = checks
        self._globs = globs
        self._listing = listing

    def answer(
        self, tree: Tree, *, strict: bool = True, expected: Sequence[bytes] = ()
    ) -> Coverage:
        """Return what is covered.

        If `strict`, raises `ConfigError` for each glob that matches no file (S14). Raises
        `DiskError`. Those of the `expected` paths, sorted, that the globs mean are looked at while
        git is still at work; only time depends on it.
        """
        matching = self._matching(expected)
        looked_at = _union(list(matching.values()))
        column = digests.column(tree, looked_at)
        listed = [path for path in self._listing.paths() if path != LOCKFILE]
        if listed != list(expected):
            matching = self._matching(listed)
        candidates = _union(list(matching.values()))
        stamped = Stamped(looked_at, column.stamps)
        absent: tuple[bytes, ...] = ()
        if candidates != looked_at or not column.is_whole:
            seen = by_path(looked_at, cut(column.stamps))
            seen |= digests.stamps(tree, [path for path in candidates if path not in seen])
            there = {path: seen[path] for path in candidates if path in seen}
            stamped = Stamped.of(there)
            matching = {
                text: tuple(path for path in some if path in there)
                for text, some in matching.items()
            }
            lost = (path for path in candidates if path not in there)
            absent = tuple(path for path in lost if tree.look(path) is None)
        idle = [check for check in self._checks if not all(matching[one] for one in check.globs)]
        if idle and strict:
            _refuse_idle(self._repository, tree, idle, matching)
        found = {
            check.id: _union([matching[text] for text in check.globs]) for check in self._checks
        }
        covered = found | {
            check.id: _union([matching[text] for text in check.covers])
            for check in self._checks
            if check.inputs
        }
        return Coverage(found, stamped, absent, frozenset(check.id for check in idle), covered)

    def _matching(self, paths: Sequence[bytes]) -> dict[str, tuple[bytes, ...]]:
        return {text: tuple(one.matching(paths)) for text, one in self._globs.items()}


def files_of(check: Check, paths: Sequence[bytes]) -> tuple[bytes, ...]:
    """Return those of some sorted paths that the globs of a check mean, its inputs among them."""
    return _union([tuple(glob.parse(text).matching(paths)) for text in check.globs])


def _union(some: Sequence[tuple[bytes, ...]]) -> tuple[bytes, ...]:
    """Merge sorted paths; those of folders beside one another, as is usual, need no comparing."""
    if len(some) == 1:
        return some[0]
    runs = sorted(paths for paths in some if paths)
    if all(before[-1] < after[0] for before, after in pairwise(runs)):
        return tuple(chain.from_iterable(runs))
    return tuple(sorted(set().union(*runs)))


def _refuse_idle(
    repository: Repository,
    tree: Tree,
    checks: Sequence[Check],
    matching: Mapping[str, Sequence[bytes]],
) -> None:
    """Raise for each glob of each check that matches nothing (S14)."""
    idle = [
        (check, glob.parse(text)) for check in checks for text in check.globs if not matching[text]
    ]
    if idle:
        raise ConfigError.of(
            [
                _no_match(check, one, *_why_no_match(repository, tree, one))
                if number < _EXPLAINED
                else _no_match(check, one)
                for number, (check, one) in enumerate(idle)
            ]
        )


def _no_match(check: Check, one: Glob, why: str = "", hint: str = _NO_HINT) -> Fault:
    """Say that a glob matches nothing, and why as far as that can be told."""
    return Fault(
        f"the glob `{one.text}` matches no file{why}",
        where=f"roxy.toml, check `{check.id}`",
        hint=hint,
    )


def _why_no_match(repository: Repository, tree: Tree, one: Glob) -> tuple[str, str]:
    matched = [path for path in repository.files(one.prefixes) if one.matches(path)]
    if LOCKFILE in matched:
        return " that can count: roxy.lock never does", "name the files that the check is about"
    ways = [path.removesuffix(b"/") for path in matched or one.prefixes if path]
    there = {_what_is_at(tree, way) for way in ways}
    for what, why in _NEVER_COUNT.items():
        if what in there and (matched or what.is_in_the_way):
            return why
    if any(one.matches(path) for path in repository.ignored_files(one.prefixes)):
        return ", only files that git ignores", "cover the sources that they are made from"
    near = glob.near_miss(one, repository.files([b""]))
    return "", near or _NO_HINT


class _There(Enum):
    """What the disk has at a path, or on the way there, that keeps it from counting."""

    LINK = auto()
    REPOSITORY = auto()
    """Another one: a submodule, or one that only lies within."""
    NOTHING = auto()
    SOMETHING = auto()
    """A folder, or a file that is not a regular one."""

    @property
    def is_in_the_way(self) -> bool:
        """Whether nothing below it can count either."""
        return self in (_There.LINK, _There.REPOSITORY)


_NEVER_COUNT = {
    _There.LINK: (", only symbolic links, which never count", "name the files that they lead to"),
    _There.REPOSITORY: (
        ", only what belongs to a repository within this one",
        "let that repository have a `roxy.toml` of its own",
    ),
    _There.NOTHING: (", only files that the disk does not have", "restore them, or mend the glob"),
    _There.SOMETHING: (", only what is no regular file", "name regular files"),
}
"""Why a glob matches nothing, and a hint."""


def _what_is_at(tree: Tree, path: bytes) -> _There:
    names = path.split(b"/")
    for depth in range(1, len(names) + 1):
        here = b"/".join(names[:depth])
        try:
            mode = tree.stat(here).st_mode
            is_top = stat.S_ISDIR(mode) and tree.look(here + b"/.git") is not None
        except OSError:
            return _There.NOTHING
        if stat.S_ISLNK(mode):
            return _There.LINK
        if is_top:
            return _There.REPOSITORY
    return _There.SOMETHING


def folder_stamps(tree: Tree, paths: Iterable[bytes]) -> dict[bytes, Stamp]:
    """Return the stamps of all folders that some files are in, up to the top.

    Raises `DiskError`.
    """
    tree.forget()
    folders: set[bytes] = set()
    for path in paths:
        folder = os.path.dirname(path)
        while folder and folder not in folders:
            folders.add(folder)
            folder = os.path.dirname(folder)
    found = {}
    for folder in sorted(folders):
        try:
            found[folder] = stamp_of(tree.stat(folder))
        except OSError as error:
            if not is_about_path(error):
                raise digests.unreadable(folder, error) from error
    return found
