"""Roxy's own files, below its folder in the git directory: the only place that writes them.

They are reached by ordinary paths. Callers decide what to write; this module makes it atomic and,
where asked to, lasting. `tree_writer` does the same for the working tree.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
from typing import IO, TYPE_CHECKING, Self

from roxy.core.errors import DiskError
from roxy.core.working_tree import BLOCK, FOLDER, READ, Content

if TYPE_CHECKING:
    from pathlib import Path

    from roxy.core.working_tree import Tree

NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
"""Flags that make a file, and never open one that is there."""
NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS})
"""What a file system answers that cannot give a file one more name."""


def write_all(fd: int, data: bytes | memoryview) -> None:
    """Write every byte, however many calls it takes."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def make_folder(path: Path, *, lasting: bool = False, parents: bool = True) -> None:
    """Make a folder of roxy's own if it is missing, and those above it unless `parents` is false.

    If `lasting`, past a power loss. Raises `DiskError`.
    """
    if not lasting and _is_folder(path):  # nearly always
        return
    try:
        path.mkdir(parents=parents, exist_ok=True)
    except OSError as error:
        raise _disk_error("make the folder", path, error) from error
    if path.is_symlink():
        raise DiskError(
            f"`{path}` is a symbolic link, and roxy writes only into folders of its own",
            hint="remove that link, then run the same command again",
        )
    if lasting:
        sync_folder(path.parent)


def _is_folder(path: Path) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def write(path: Path, data: bytes, *, lasting: bool = False) -> None:
    """Write one of roxy's own files, whole or not at all; if `lasting`, past a power loss.

    Raises `DiskError`.
    """
    staging = path.with_name(path.name + ".new")
    try:
        fd = _open_new(staging)
        try:
            write_all(fd, data)
            if lasting:
                os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(staging, path)
        if lasting:
            sync_folder(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(staging)
        raise _disk_error("write", path, error) from error


def copy_out(tree: Tree, path: bytes, to: Path) -> Content:
    """Copy a file of the tree to a new file of roxy's own, synced; return what was copied.

    Raises `OSError` when the file cannot be read, `DiskError` when the copy cannot be written.
    """
    with tree.reading(path) as source:
        return copy_in(source, to)


def copy_in(source: int, to: Path) -> Content:
    """Copy what is left to read of `source` to a new file of roxy's own, synced."""
    digest = hashlib.sha256()
    size = 0
    try:
        fd = _open_new(to)
        try:
            while block := os.read(source, BLOCK):
                write_all(fd, block)
                digest.update(block)
                size += len(block)
            os.fsync(fd)
        finally:
            os.close(fd)
    except OSError as error:
        raise _disk_error("copy to", to, error) from error
    return Content(digest.digest(), size)


def open_own(path: Path) -> int:
    """Open one of roxy's own files for reading. Raises `DiskError`."""
    try:
        return os.open(path, READ)
    except OSError as error:
        raise _disk_error("read", path, error) from error


def _open_new(path: Path, mode: int = 0o600, flags: int = NEW) -> int:
    """Make a file of roxy's own, in place of whatever has its name, and open it for writing.

    That could be another name of a file in the tree, or a FIFO; and its folder a link elsewhere.
    """
    folder = os.open(path.parent, FOLDER)
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path.name, dir_fd=folder)
        return os.open(path.name, flags, mode, dir_fd=folder)
    finally:
        os.close(folder)


def create(path: Path) -> int:
    """Open a new file of roxy's own for writing. Raises `DiskError`."""
    try:
        return _open_new(path)
    except OSError as error:
        raise _disk_error("write", path, error) from error


def unnamed(folder: Path) -> IO[bytes]:
    """Return a new file that has no name any more, to be written and read. Raises `DiskError`."""
    make_folder(folder)
    path = folder / "unnamed"
    try:
        fd = _open_new(path, flags=NEW & ~os.O_WRONLY | os.O_RDWR)
        os.unlink(path)
    except OSError as error:
        raise _disk_error("write", path, error) from error
    return os.fdopen(fd, "w+b", buffering=0)


class Output:
    """A new file of roxy's own, digested while it is written; not synced."""

    def __init__(self, path: Path, mode: int = 0o600) -> None:
        self._path = path
        self._digest = hashlib.sha256()
        self._size = 0
        try:
            fd = _open_new(path, mode)
        except OSError as error:
            raise _disk_error("write", path, error) from error
        self._file = os.fdopen(fd, "wb", buffering=BLOCK)

    def write(self, data: bytes) -> None:
        """Add some bytes. Raises `DiskError`."""
        self._digest.update(data)
        self._size += len(data)
        try:
            self._file.write(data)
        except OSError as error:
            raise _disk_error("write", self._path, error) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        """Finish the file. Raises `DiskError`."""
        try:
            self._file.close()
        except OSError as error:
            raise _disk_error("write", self._path, error) from error

    @property
    def content(self) -> Content:
        """What was written until now; it is in the file once the `with` block has ended."""
        return Content(self._digest.digest(), self._size)


def rename(old: Path, new: Path) -> None:
    """Give one of roxy's own files another name. Raises `DiskError`."""
    try:
        os.rename(old, new)
    except OSError as error:
        raise _disk_error("rename", old, error) from error


def keep_as(path: Path, kept: Path) -> None:
    """Give one of roxy's own files a second name, lastingly; only that, where it can have one.

    Raises `DiskError`.
    """
    try:
        try:
            os.link(path, kept)
        except OSError as error:
            if error.errno not in NO_LINKS:
                raise
            os.rename(path, kept)
    except OSError as error:
        raise _disk_error("keep", path, error) from error
    sync_folder(kept.parent)


def sync_folder(path: Path) -> None:
    """Make the names in a folder last. Raises `DiskError`."""
    try:
        fd = os.open(path, FOLDER)
        try:
            sync_names(fd)
        finally:
            os.close(fd)
    except OSError as error:
        raise _disk_error("sync the folder", path, error) from error


def sync_above(path: Path) -> None:
    """Make the names last in the folder that `path` is in. Raises `OSError`."""
    fd = os.open(path.parent, FOLDER)
    try:
        sync_names(fd)
    finally:
        os.close(fd)


def sync_names(folder: int) -> None:
    """Make the names in an open folder last, and its mode. Raises `OSError`."""
    try:
        os.fsync(folder)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some network file systems do without
            raise


def remove(path: Path) -> None:
    """Remove one of roxy's own files, if it is there. Raises `DiskError`."""
    try:
        drop(path)
    except OSError as error:
        raise _disk_error("remove", path, error) from error


def drop(path: Path) -> None:
    """Remove a file of roxy's own, if it is there. Raises `OSError`, as `remove` does in words."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def remove_folder(path: Path) -> None:
    """Remove one of roxy's own folders with all in it, if it is there. Raises `DiskError`."""
    import shutil  # noqa: PLC0415 - `gate` does without; `tree_writer` has loaded it for the rest

    try:
        if path.is_symlink():
            os.unlink(path)
            return
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(path)
    except OSError as error:
        raise _disk_error("remove the folder", path, error) from error


def is_there(path: Path) -> bool:
    """Say whether roxy's own folder has anything at a path. Raises `DiskError`."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise _disk_error("look at", path, error) from error
    return True


def _disk_error(what: str, path: Path, error: OSError) -> DiskError:
    return DiskError(
        f"cannot {what} `{path}`: {error.strerror or error}",
        hint="free space or mend the permissions, then run the same command again",
    )
