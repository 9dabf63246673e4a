"""Which files the globs mean, what those hold, and whether anybody touched them (S12-S16, S26)."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
from bisect import bisect_left
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING

from roxy.core import glob
from roxy.core.errors import ConfigError, DiskError, Fault
from roxy.core.model import LOCKFILE
from roxy.core.working_tree import NotRegularError, content_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from roxy.core.git import Repository
    from roxy.core.glob import Glob
    from roxy.core.interrupts import Interrupts
    from roxy.core.model import Check
    from roxy.core.working_tree import Tree

_GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
_RACY = 2_000_000_000
"""Nanoseconds that must lie between a file's times and the moment it is read, or what was read is
not used again: within one tick of a file system's clock a change can leave no trace."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """The covered files of some checks, as git and the disk list them now."""

    files: Mapping[str, tuple[bytes, ...]]
    """Sorted paths by check id; never empty for a check."""
    absent: tuple[bytes, ...]
    """Tracked files that a glob matches but the disk does not have (S52)."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """What changes when anybody writes, replaces or touches a file."""

    inode: int
    size: int
    mtime: int
    ctime: int

    @classmethod
    def of(cls, seen: os.stat_result) -> Stamp:
        """Take it from a stat."""
        return cls(seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns)

    def same_but_ctime(self, other: Stamp) -> bool:
        """Say whether only the ctime differs, as chmod or a new hard link leaves it."""
        return (self.inode, self.size, self.mtime) == (other.inode, other.size, other.mtime)


def find_covered(
    repository: Repository, tree: Tree, checks: Sequence[Check], *, strict: bool = True
) -> Coverage:
    """List what every check covers.

    If `strict`, raises `ConfigError` for each glob that matches no file (S14). Raises `DiskError`.
    """
    globs = {check.id: [glob.parse(text) for text in check.covers] for check in checks}
    listed = repository.files(
        glob.outermost(_prefixes(each for some in globs.values() for each in some))
    )
    everything = glob.one_pattern(each for some in globs.values() for each in some)
    candidates = [
        path for path in listed if path != LOCKFILE and everything.match(glob.decode(path))
    ]
    present, absent = _on_disk(tree, candidates)
    found: dict[str, tuple[bytes, ...]] = {}
    faults: list[Fault] = []
    for check in checks:
        mine = globs[check.id]
        found[check.id] = _matching(mine, present)
        faults += [
            _no_match(repository, tree, check, one)
            for one in (glob.without_match(mine, found[check.id]) if strict else ())
        ]
    if faults:
        raise ConfigError.of(faults)
    return Coverage(found, tuple(absent))


def _prefixes(globs: Iterable[Glob]) -> set[bytes]:
    return {prefix for each in globs for prefix in each.prefixes}


def _matching(globs: Sequence[Glob], paths: Sequence[bytes]) -> tuple[bytes, ...]:
    """Return which of some sorted paths any of the globs matches."""
    pattern = glob.one_pattern(globs)
    found = []
    for prefix in glob.outermost(_prefixes(globs)):
        for index in range(bisect_left(paths, prefix), len(paths)):
            path = paths[index]
            if not path.startswith(prefix):
                break
            if pattern.match(glob.decode(path)):
                found.append(path)
    return tuple(sorted(set(found)))


def _on_disk(tree: Tree, paths: Iterable[bytes]) -> tuple[list[bytes], list[bytes]]:
    """Part paths into regular files and those that the disk does not have; drop the rest (S12)."""
    present, absent = [], []
    for path in paths:
        try:
            seen = tree.stat(path)
        except OSError as error:
            if error.errno not in _GONE:
                raise _unreadable(path, error) from error
            absent.append(path)
            continue
        if stat.S_ISREG(seen.st_mode):
            present.append(path)
    return present, absent


def _no_match(repository: Repository, tree: Tree, check: Check, one: Glob) -> Fault:
    """Say that a glob matches nothing, and why as far as that can be told."""
    why, hint = _why_no_match(repository, tree, one)
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
    return "", near or "mend the glob, or take it out"


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


def _unreadable(path: bytes, error: OSError) -> DiskError:
    name = path.decode("utf-8", "surrogateescape")
    return DiskError(
        f"cannot read the covered file `{name}`: {error.strerror}", hint="mend its permissions"
    )


def stamps(tree: Tree, paths: Iterable[bytes]) -> dict[bytes, Stamp]:
    """Return the stamp of each path that is a regular file now."""
    tree.forget()
    found = {}
    for path in paths:
        try:
            seen = tree.stat(path)
        except OSError:
            continue
        if stat.S_ISREG(seen.st_mode):
            found[path] = Stamp.of(seen)
    return found


def folder_stamps(tree: Tree, paths: Iterable[bytes]) -> dict[bytes, Stamp]:
    """Return the stamps of all folders that some files are in, up to the top."""
    tree.forget()
    folders: set[bytes] = set()
    for path in paths:
        folder = os.path.dirname(path)
        while folder and folder not in folders:
            folders.add(folder)
            folder = os.path.dirname(folder)
    found = {}
    for folder in sorted(folders):
        with contextlib.suppress(OSError):
            found[folder] = Stamp.of(tree.stat(folder))
    return found


class Digests:
    """SHA-256 of files, each read once while its stamp stands; forgotten with this command (S26)."""

    def __init__(self, tree: Tree, interrupts: Interrupts) -> None:
        self._tree = tree
        self._interrupts = interrupts
        self._known: dict[bytes, tuple[Stamp, bytes]] = {}

    def read(self, paths: Iterable[bytes]) -> dict[bytes, bytes]:
        """Return the 32 raw bytes for each path that is a regular file now.

        Raises `DiskError` when a file is there but cannot be read.
        """
        self._tree.forget()
        found = {}
        for path in paths:
            self._interrupts.check()
            try:
                found[path] = self._digest(path)
            except NotRegularError:
                continue
            except OSError as error:
                if error.errno not in _GONE:
                    raise _unreadable(path, error) from error
        return found

    def _digest(self, path: bytes) -> bytes:
        known = self._known.get(path)
        if known is not None and Stamp.of(self._tree.stat(path)) == known[0]:
            return known[1]
        with self._tree.reading(path) as fd:
            now = time.time_ns()
            before = Stamp.of(os.fstat(fd))
            digest = content_of(fd).sha256
            after = Stamp.of(os.fstat(fd))
        if before == after and max(before.mtime, before.ctime) + _RACY < now:
            self._known[path] = (before, digest)
        return digest
