"""What covered files hold: the SHA-256 of each, read once while its stamp stands (S26, S38)."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import time
from typing import TYPE_CHECKING, NamedTuple, Self

from roxy.core.child import ChildError, beside
from roxy.core.errors import DiskError
from roxy.core.working_tree import (
    BLOCK,
    GONE,
    NO_STAMP,
    READ,
    STAMP_SIZE,
    Stamp,
    by_path,
    cut,
    is_racy,
    stamp_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from roxy.core.interrupts import Interrupts
    from roxy.core.working_tree import Tree

_MANY = 10_000
"""Paths that are looked at faster by two processes, though the second has to be forked."""
_OPENING = 1 << 14
"""Bytes that are read in about the time that opening a file takes."""


class Digests:
    """Of the files of one working tree; forgotten with this command."""

    def __init__(self, tree: Tree, interrupts: Interrupts) -> None:
        self._tree = tree
        self._interrupts = interrupts
        self._known: dict[bytes, bytes] = {}
        """What may serve again: a stamp, then the digest read while it stood, by path."""
        self.effort = 0
        """About how many bytes more could have been read in the time that it took to learn that."""

    def read(self, paths: Iterable[bytes]) -> dict[bytes, bytes]:
        """Return the 32 raw bytes for each path that is a regular file now.

        Raises `DiskError` when a file is there but cannot be read.
        """
        return self.read_stamped(stamps(self._tree, paths))

    def read_stamped(self, stamps: Mapping[bytes, Stamp]) -> dict[bytes, bytes]:
        """Do the same for regular files whose stamps were taken a moment ago, folder by folder."""
        known = self._known
        found = {}
        self._tree.forget()
        for path, stamp in stamps.items():
            record = known.get(path)
            if record is not None and record.startswith(stamp):
                found[path] = record[STAMP_SIZE:]
                continue
            self._interrupts.check()
            try:
                digest = self._read(path)
            except OSError as error:
                if error.errno in GONE:
                    continue
                raise unreadable(path, error) from error
            if digest is not None:
                found[path] = digest
        return found

    def lasting_stamp(self, path: bytes, digest: bytes) -> Stamp | None:
        """Return a stamp with which a file has this digest for sure; None if none is known (S38)."""
        record = self._known.get(path)
        if record is None or not record.endswith(digest):
            return None
        return Stamp(record[:STAMP_SIZE])

    def _read(self, path: bytes) -> bytes | None:
        """Read a file, and remember what it holds if nobody can have written it meanwhile."""
        folder, _, name = path.rpartition(b"/")
        fd = os.open(name, READ, dir_fd=self._tree.folder(folder))
        try:
            now = time.time_ns()
            seen = os.fstat(fd)
            if not stat.S_ISREG(seen.st_mode):
                return None
            total = hashlib.sha256()
            while block := os.read(fd, BLOCK):
                total.update(block)
            digest = total.digest()
            stamp = stamp_of(seen)
            if stamp == stamp_of(os.fstat(fd)) and not is_racy(stamp, now):
                self._known[path] = stamp + digest
                self.effort += _OPENING + seen.st_size
        finally:
            os.close(fd)
        return digest


class Column(NamedTuple):
    """What some paths have for stamps, one after the other."""

    stamps: bytes
    is_whole: bool
    """Whether all of them are regular files, and so none has `NO_STAMP`."""

    @classmethod
    def of(cls, tree: Tree, paths: Sequence[bytes]) -> Self:
        """Look at the files. Raises `OSError`."""
        looks = tree.looks(paths)
        return cls(b"".join(looks), NO_STAMP not in looks)


def stamps(tree: Tree, paths: Iterable[bytes]) -> dict[bytes, Stamp]:
    """Return the stamp of each path that is a regular file now, in their order.

    Raises `DiskError`.
    """
    all_of_them = tuple(paths)
    return by_path(all_of_them, cut(column(tree, all_of_them).stamps))


def column(tree: Tree, paths: Sequence[bytes]) -> Column:
    """Return the stamp of each path. A second processor looks at half of many.

    Raises `DiskError`.
    """
    middle = len(paths) // 2
    try:
        if len(paths) < _MANY or _processors() == 1:
            return Column.of(tree, paths)
        return _by_two(tree, paths, middle)
    except OSError as error:
        name = error.filename if isinstance(error.filename, bytes) else b"?"
        raise unreadable(name, error) from error


def _by_two(tree: Tree, paths: Sequence[bytes], middle: int) -> Column:
    def look_beside() -> bytes:
        there = Column.of(tree, paths[middle:])
        return bytes([there.is_whole]) + there.stamps

    tree.forget()  # the child closes what it does not need, and then the tree must not do so
    with contextlib.ExitStack() as stack:
        try:
            child = stack.enter_context(beside(look_beside, tree.fd))
        except OSError:  # no process is to be had
            return Column.of(tree, paths)
        here = Column.of(tree, paths[:middle])
        try:
            said = child.answer()
        except ChildError:  # whatever it met is told by who meets it here
            return Column.of(tree, paths)
    return Column(here.stamps + said[1:], here.is_whole and bool(said[0]))


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def unreadable(path: bytes, error: OSError) -> DiskError:
    """Return that a covered file cannot be read."""
    name = path.decode("utf-8", "surrogateescape")
    return DiskError(
        f"cannot read the covered file `{name}`: {error.strerror}",
        hint="mend its permissions or the disk, then run the same command again",
    )
