"""The working tree, read: reached only from its top's descriptor, one component at a time.

So no symbolic link is ever followed (S28). What only reads needs nothing but this module.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

from roxy.core.attributes import Attributes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BLOCK = 1 << 18
"""Bytes read or written at once; small enough that memory stays flat for any file."""

READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""Flags that open for reading: through no link, and a FIFO or a device without waiting."""
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""Flags that open a folder and nothing else."""


@dataclass(frozen=True, slots=True)
class Content:
    """What some bytes are, without the bytes."""

    sha256: bytes
    """The 32 raw bytes of the digest."""
    size: int


class NotRegularError(OSError):
    """A path in the working tree is there, but is no regular file."""


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

    def look(self, path: bytes) -> os.stat_result | None:
        """Return what stands at `path`, or None when nothing can be reached there."""
        try:
            return self.stat(path)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
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


def content_of(fd: int) -> Content:
    """Read a descriptor to its end and return what came."""
    digest = hashlib.sha256()
    size = 0
    while block := os.read(fd, BLOCK):
        digest.update(block)
        size += len(block)
    return Content(digest.digest(), size)
