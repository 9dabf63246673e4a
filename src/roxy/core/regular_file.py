"""Reading a regular file of bounded size, and never anything else: a FIFO would hold roxy up.

Anything may lie under a name. So the name is looked at before it is opened, opening never blocks,
and what was opened is looked at again.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Iterator

MEBIBYTE = 1024 * 1024

_MAX_LINKS = 40
_MOST_FOLDERS = 100
# With O_PATH a folder can be passed through that cannot be listed; macOS has no such thing.
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
}


class UnreadableFileError(Exception):
    """A file that cannot be used. The text goes on after the file's name: "is a directory"."""


class MissingFileError(UnreadableFileError):
    """There is nothing of that name."""


def read(folder: int | None, name: bytes, limit: int, *, follow_links: bool) -> bytes:
    """Return what the file `name` holds; `folder` is the descriptor of its directory.

    Without a `folder`, `name` is a whole path, of which only the last name is looked at like this.

    Raises `UnreadableFileError` for anything but a regular file of at most `limit` bytes.
    """
    flags = _FILE if follow_links else _FILE | os.O_NOFOLLOW
    with _in_words():
        _refuse_kind(os.stat(name, dir_fd=folder, follow_symlinks=follow_links))
        fd = os.open(name, flags, dir_fd=folder)
        try:
            status = os.fstat(fd)
            _refuse_kind(status)
            content = os.read(fd, min(status.st_size, limit) + 1)  # not `limit`: room is made first
            while len(content) != status.st_size and len(content) <= limit:  # it grew, or shrank
                more = os.read(fd, MEBIBYTE)
                if not more:
                    break
                content += more
        finally:
            os.close(fd)
    if len(content) > limit:
        raise UnreadableFileError(f"is larger than {limit // MEBIBYTE} MiB")
    return content


def read_inside(root: int, path: bytes, limit: int) -> bytes:
    """Return what the file at `path` below the directory `root` holds, links followed (S11).

    Raises `UnreadableFileError` as `read` does, and for a file that really lies outside `root`.
    """
    with inside(root, path) as (folder, name):
        return read(folder, name, limit, follow_links=False)


@contextmanager
def inside(root: int, path: bytes) -> Iterator[tuple[int, bytes]]:
    """Give the folder in which a file really lies, as a descriptor, and the file's name there.

    Links are followed, but not out of the directory `root`. Raises `UnreadableFileError`, also for
    what the system refuses within the `with` block.
    """
    with _in_words(), _real_folder(root, path) as (folder, name):
        if not _is_within(folder, root):
            raise UnreadableFileError("is outside the working tree")
        yield folder, name


class Folders:
    """Folders below one directory, each looked at once, however many files are read in it."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._inside: dict[bytes, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        for folder in self._inside.values():
            os.close(folder)

    def read(self, path: bytes, limit: int) -> bytes:
        """Do what `read_inside` does."""
        head, name = os.path.split(path)
        with _in_words():
            folder = self._inside.get(head) or self._open(head)
            if folder is not None and _link_target(folder, name) is None:
                return read(folder, name, limit, follow_links=False)
        return read_inside(self._root, path, limit)

    def _open(self, head: bytes) -> int | None:
        """Open a folder that is within the root, and keep it; None for any other."""
        if len(self._inside) == _MOST_FOLDERS:
            return None
        folder = os.open(head or b".", _FOLDER, dir_fd=self._root)
        if not _is_within(folder, self._root):
            os.close(folder)
            return None
        self._inside[head] = folder
        return folder


UNUSABLE = (
    *(OSError, UnreadableFileError),
    *(ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError),
)
"""What a JSON file of roxy's own that is damaged, or that roxy did not write, can lead to."""


@contextmanager
def _in_words() -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise MissingFileError("does not exist") from error
    except OSError as error:
        raise UnreadableFileError(f"cannot be read: {(error.strerror or '?').lower()}") from error


def _refuse_kind(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise UnreadableFileError(f"is {_KINDS.get(stat.S_IFMT(status.st_mode), 'a device')}")


@contextmanager
def _real_folder(root: int, path: bytes) -> Iterator[tuple[int, bytes]]:
    """Give the folder in which the file at `path` really lies, and the file's name there."""
    folder = os.open(b".", _FOLDER, dir_fd=root)
    try:
        for _ in range(_MAX_LINKS):
            head, name = os.path.split(path)
            inner = os.open(head or b".", _FOLDER, dir_fd=folder)
            os.close(folder)
            folder = inner
            target = _link_target(folder, name)
            if target is None:
                break
            path = target
        else:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        yield folder, name
    finally:
        os.close(folder)


def _link_target(folder: int, name: bytes) -> bytes | None:
    if name in (b"", b".", b".."):
        raise UnreadableFileError("is a directory")
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.EINVAL:  # not a link
            return None
        raise


def _is_within(folder: int, root: int) -> bool:
    """Whether `folder` is `root` or lies below it. No path is compared, so none can mislead."""
    top = os.fstat(root)
    here = os.open(b".", _FOLDER, dir_fd=folder)
    try:
        while not os.path.samestat(os.fstat(here), top):
            above = os.open(b"..", _FOLDER, dir_fd=here)
            is_highest = os.path.samestat(os.fstat(above), os.fstat(here))
            os.close(here)
            here = above
            if is_highest:
                return False
    except PermissionError:
        return False  # only above the working tree may roxy not look
    finally:
        os.close(here)
    return True
