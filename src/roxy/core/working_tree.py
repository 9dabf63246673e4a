"""The working tree, read: reached only from its top's descriptor, one component at a time.

So no symbolic link is ever followed (S28). What only reads needs nothing but this module.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
import struct
from typing import TYPE_CHECKING, NamedTuple, NewType, Self, cast

from roxy.core.attributes import Attributes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

Stamp = NewType("Stamp", bytes)
"""What changes when anybody writes, replaces or touches a file: device, inode, size, mtime, ctime."""

_STAMP = struct.Struct("=QQqqq")
STAMP_SIZE = _STAMP.size
NO_STAMP = Stamp(bytes(STAMP_SIZE))
"""What no file on any disk has."""
_CTIME_SIZE = 8

BLOCK = 1 << 18
"""Bytes read or written at once; small enough that memory stays flat for any file."""

GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
"""What the system answers when nothing can be reached at a path."""
_ABOUT_PATHS = frozenset({errno.ELOOP, errno.ENAMETOOLONG, errno.ENXIO})

RACY = 2_000_000_000
"""Nanoseconds that must lie between a file's times and the moment it is read, or what was read is
not used again: within one tick of a file system's clock a change can leave no trace."""

READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""Flags that open for reading: through no link, and a FIFO or a device without waiting."""
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""Flags that open a folder and nothing else."""


class Content(NamedTuple):
    """What some bytes are, without the bytes."""

    sha256: bytes
    """The 32 raw bytes of the digest."""
    size: int

    @classmethod
    def of(cls, data: bytes) -> Content:
        """Say it of some bytes."""
        return cls(hashlib.sha256(data).digest(), len(data))


def stamp_of(seen: os.stat_result) -> Stamp:
    """Take a stamp from a stat."""
    return Stamp(
        _STAMP.pack(seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns)
    )


def same_but_ctime(one: Stamp, other: Stamp) -> bool:
    """Say whether only the ctime may differ, as chmod or a new hard link leaves it."""
    return one[:-_CTIME_SIZE] == other[:-_CTIME_SIZE]


def is_racy(stamp: Stamp, now: int) -> bool:
    """Say whether a file's times are so near to `now` that a change could leave no trace (S38)."""
    *_, mtime, ctime = _STAMP.unpack(stamp)
    return bool(max(mtime, ctime) + RACY >= now)


class Stamped(NamedTuple):
    """Regular files and the stamps that they had a moment ago, in columns."""

    paths: tuple[bytes, ...]
    """Sorted."""
    stamps: bytes
    """One after the other; none is `NO_STAMP`."""

    @classmethod
    def of(cls, stamps: Mapping[bytes, Stamp]) -> Self:
        """Return the columns of what is in the order of paths already."""
        return cls(tuple(stamps), b"".join(stamps.values()))

    def stamp(self, number: int) -> Stamp:
        """Return the stamp of one file."""
        return Stamp(self.stamps[number * STAMP_SIZE : (number + 1) * STAMP_SIZE])


def cut(column: bytes) -> Iterator[Stamp]:
    """Give the stamps of a column."""
    return (Stamp(column[at : at + STAMP_SIZE]) for at in range(0, len(column), STAMP_SIZE))


class NotRegularError(OSError):
    """A path in the working tree is there, but is no regular file."""


def is_about_path(error: OSError) -> bool:
    """Say whether an error tells what stands at a path: nothing, another kind, or closed to us.

    All others tell of a machine that fails, and then nobody knows what stands there.
    """
    kinds = (FileNotFoundError, NotADirectoryError, PermissionError, NotRegularError)
    return isinstance(error, kinds) or error.errno in _ABOUT_PATHS


class Tree:
    """The working tree, held open by its top's descriptor.

    Paths are bytes relative to the top. A path that leads through anything but real folders raises
    `OSError`, whatever it was a moment before.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.fd = os.open(root, FOLDER & ~os.O_NOFOLLOW)
        self._chain: list[tuple[bytes, int]] = []

    def close(self) -> None:
        """Close every descriptor; the tree cannot be used afterwards."""
        self.forget()
        os.close(self.fd)

    def forget(self) -> None:
        """Look at every folder anew from now on; what a check did to them may matter."""
        while self._chain:
            os.close(self._chain.pop()[1])

    def folder(self, folder: bytes) -> int:
        """Return a descriptor of a folder, owned by this tree and good until the next call.

        Asked in sorted order, each folder is opened about once.
        """
        names = folder.split(b"/") if folder else []
        depth = 0
        while depth < min(len(names), len(self._chain)) and self._chain[depth][0] == names[depth]:
            depth += 1
        while len(self._chain) > depth:
            os.close(self._chain.pop()[1])
        for name in names[depth:]:
            above = self._chain[-1][1] if self._chain else self.fd
            self._chain.append((name, os.open(name, FOLDER, dir_fd=above)))
        return self._chain[-1][1] if self._chain else self.fd

    def stat(self, path: bytes) -> os.stat_result:
        """Return what stands at `path` itself, never what a link points to. Raises `OSError`."""
        folder, name = os.path.split(path)
        return os.stat(name, dir_fd=self.folder(folder), follow_symlinks=False)

    def stamps(self, paths: Iterable[bytes]) -> dict[bytes, Stamp]:
        """Return the stamp of each path that is a regular file now, in the order of `paths`.

        Raises as `looks` does.
        """
        all_of_them = tuple(paths)
        return by_path(all_of_them, self.looks(all_of_them))

    def looks(self, paths: Iterable[bytes]) -> list[Stamp]:
        """Return the stamp that each path has now, `NO_STAMP` for all but regular files.

        Paths of one folder should follow one another. Raises `OSError` for a folder that is there
        and may not be entered.
        """
        self.forget()
        # Most of what `gate` does is this loop, so it spares itself some calls.
        look, kind, regular = os.stat, stat.S_IFMT, stat.S_IFREG
        pack = cast("Callable[..., Stamp]", _STAMP.pack)
        found: list[Stamp] = []
        here, fd = None, None
        for path in paths:
            folder, _, name = path.rpartition(b"/")
            if folder != here:
                here, fd = folder, self._folder_or_none(folder)
            if fd is None:
                found.append(NO_STAMP)
                continue
            try:
                one = look(name, dir_fd=fd, follow_symlinks=False)
            except OSError as error:
                if error.errno not in GONE:
                    raise
                found.append(NO_STAMP)
                continue
            found.append(
                pack(one.st_dev, one.st_ino, one.st_size, one.st_mtime_ns, one.st_ctime_ns)
                if kind(one.st_mode) == regular
                else NO_STAMP
            )
        return found

    def _folder_or_none(self, folder: bytes) -> int | None:
        try:
            return self.folder(folder)
        except OSError as error:
            if error.errno not in GONE:
                raise
            return None

    def look(self, path: bytes) -> os.stat_result | None:
        """Return what stands at `path`, or None when nothing can be reached there."""
        try:
            return self.stat(path)
        except OSError as error:
            if error.errno in GONE:
                return None
            raise

    @contextlib.contextmanager
    def reading(self, path: bytes) -> Iterator[int]:
        """Open a regular file; never blocks on a FIFO or a device. Raises `OSError`."""
        folder, name = os.path.split(path)
        fd = os.open(name, READ, dir_fd=self.folder(folder))
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise NotRegularError(errno.EINVAL, "not a regular file", path)
            yield fd
        finally:
            os.close(fd)

    def content(self, path: bytes) -> Content:
        """Read a regular file and return what it holds. Raises `OSError`."""
        with self.reading(path) as fd:
            return content_of(fd)

    def attributes(self, path: bytes) -> Attributes:
        """Return a regular file's attributes. Raises `OSError`."""
        with self.reading(path) as fd:
            return Attributes.of(fd)


def by_path(paths: Sequence[bytes], stamps: Iterable[Stamp]) -> dict[bytes, Stamp]:
    """Return the stamps of regular files by their paths."""
    return {path: stamp for path, stamp in zip(paths, stamps, strict=True) if stamp != NO_STAMP}


def content_of(fd: int) -> Content:
    """Read a descriptor to its end and return what came."""
    digest = hashlib.sha256()
    size = 0
    while block := os.read(fd, BLOCK):
        digest.update(block)
        size += len(block)
    return Content(digest.digest(), size)
