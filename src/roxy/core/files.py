"""The disk, and the only place that writes to it.

Two kinds of places: the working tree, reached only from its top's descriptor and one component at
a time, so that no symbolic link is ever followed (S28); and roxy's own folder in the git directory,
reached by ordinary paths. Callers decide what to write; this module makes it atomic and lasting.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
import stat
import sys
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Self

from roxy.core.errors import DiskError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

BLOCK = 1 << 18
"""Bytes read or written at once; small enough that memory stays flat for any file."""

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NOT_BY_RENAME = frozenset(
    {errno.EXDEV, errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY, errno.ETXTBSY}
)
_HAS_XATTRS = hasattr(os, "listxattr")


@dataclass(frozen=True, slots=True)
class Content:
    """What some bytes are, without the bytes."""

    sha256: bytes
    """The 32 raw bytes of the digest."""
    size: int


@dataclass(frozen=True, slots=True)
class Attributes:
    """What a file has besides its content and its times, to be given back with it (S28)."""

    mode: int
    """Permission bits only."""
    uid: int
    gid: int
    xattrs: Mapping[str, bytes] = field(default_factory=dict)


class NotRegularError(OSError):
    """A path in the working tree is there, but is no regular file."""


# ------------------------------------------------------------------- the working tree, reading


class Tree:
    """The working tree, held open by its top's descriptor.

    Paths are bytes relative to the top. A path that leads through anything but real folders raises
    `OSError`, whatever it was a moment before.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.fd = os.open(root, _FOLDER & ~os.O_NOFOLLOW)
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
            self._chain.append((name, os.open(name, _FOLDER, dir_fd=above)))
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
        fd = os.open(name, _READ, dir_fd=self.folder(folder))
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
            seen = os.fstat(fd)
            return Attributes(stat.S_IMODE(seen.st_mode), seen.st_uid, seen.st_gid, _xattrs(fd))


def content_of(fd: int) -> Content:
    """Read a descriptor to its end and return what came."""
    digest = hashlib.sha256()
    size = 0
    while block := os.read(fd, BLOCK):
        digest.update(block)
        size += len(block)
    return Content(digest.digest(), size)


def _xattrs(fd: int) -> dict[str, bytes]:
    if not _HAS_XATTRS:
        return {}
    try:
        return {name: os.getxattr(fd, name) for name in os.listxattr(fd)}
    except OSError as error:
        if error.errno in (errno.ENOTSUP, errno.ENODATA):
            return {}
        raise


# ------------------------------------------------------------------- the working tree, writing


def place(
    tree: Tree,
    path: bytes,
    source: Path,
    attributes: Attributes,
    mtime: int,
    staging: Path,
) -> bool:
    """Put the bytes of `source` at `path`; say whether what was there is now at `staging`.

    A finished file is exchanged into place from `staging`, a path in roxy's own folder: nobody sees
    half of it, no other hard link changes, no temporary file shows in the tree, and what stood at
    `path` at that very moment, file, link or folder, is then at `staging`. Where that cannot work
    (another device, a folder or an owner that is not ours) a file that has no other name is
    overwritten. The file becomes a hard link of `source` where that can be, which costs no space;
    it gets these attributes and this time. The folders on the way must exist. Lasting when it
    returns. Raises `OSError`.
    """
    folder_path, name = os.path.split(path)
    folder = tree.folder(folder_path)
    try:
        _stage(source, staging, attributes, mtime)
        displaced = _exchange(staging, folder, name)
    except OSError as error:
        remove(_partial(staging))
        remove(staging)
        if error.errno not in _NOT_BY_RENAME:
            raise
        _overwrite(folder, name, source, attributes, mtime)
        displaced = False
    os.fsync(folder)
    return displaced


def put_back(tree: Tree, path: bytes, staging: Path) -> None:
    """Exchange `staging` and `path` once more, after `place` turned out to be in somebody's way."""
    folder_path, name = os.path.split(path)
    folder = tree.folder(folder_path)
    _exchange(staging, folder, name)
    os.fsync(folder)


def _exchange(staging: Path, folder: int, name: bytes) -> bool:
    """Rename to a name in a folder; say whether what had the name is now at `staging`."""
    while True:
        try:
            rename_at(staging, folder, name, _Rename.EXCHANGE)
        except FileNotFoundError:
            pass
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP):
                raise
            os.rename(staging, name, dst_dir_fd=folder)  # this file system cannot exchange
            return False
        else:
            return True
        try:
            rename_at(staging, folder, name, _Rename.NO_REPLACE)
        except FileExistsError:
            continue  # it came back between the two
        return False


class _Rename(Enum):
    """The flags of rename that Python does not know, as Linux and as macOS number them."""

    EXCHANGE = (2, 2)
    NO_REPLACE = (1, 4)


def rename_at(old: Path, folder: int, name: bytes, how: _Rename) -> None:
    """Rename with one of the kernel's own flags. Raises `OSError`, `ENOSYS` where there is none."""
    import ctypes  # noqa: PLC0415 - slow to load, and `gate` hardly ever needs it

    libc = ctypes.CDLL(None, use_errno=True)
    function = getattr(libc, "renameat2" if sys.platform == "linux" else "renameatx_np", None)
    if function is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    flag = how.value[0 if sys.platform == "linux" else 1]
    if function(folder, os.fsencode(old.absolute()), folder, name, flag):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), os.fsdecode(name))


def _stage(source: Path, staging: Path, attributes: Attributes, mtime: int) -> None:
    """Make `staging`, which is a whole file whenever it is there."""
    partial = _partial(staging)
    remove(partial)
    fd = _link(source, partial)
    if fd is None:
        fd = os.open(partial, _CREATE, 0o600)
    try:
        if os.fstat(fd).st_size == 0:
            _pour(source, fd)
        _dress(fd, attributes, mtime)
        os.fsync(fd)
    finally:
        os.close(fd)
    os.rename(partial, staging)


def _partial(staging: Path) -> Path:
    return staging.with_name(staging.name + ".partial")


def _link(source: Path, to: Path) -> int | None:
    """Make a hard link and open it, or return None where the file system has none."""
    try:
        os.link(source, to)
    except OSError as error:
        if error.errno in (errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS):
            return None
        raise
    return os.open(to, _READ)


def _overwrite(folder: int, name: bytes, source: Path, attributes: Attributes, mtime: int) -> None:
    """Write a file where it stands, or create it there, if need be with us as its owner."""
    try:
        fd = os.open(name, _CREATE, 0o600, dir_fd=folder)
        owner_matters = False
    except FileExistsError:
        fd = os.open(
            name, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder
        )
        owner_matters = True
    try:
        seen = os.fstat(fd)
        if not stat.S_ISREG(seen.st_mode):
            raise NotRegularError(errno.EINVAL, "not a regular file", name)
        if seen.st_nlink > 1:
            raise PermissionError(
                errno.EPERM, "it has other hard links and its folder cannot be written", name
            )
        os.ftruncate(fd, _pour(source, fd))
        _dress(fd, attributes, mtime, owner_matters=owner_matters)
        os.fsync(fd)
    finally:
        os.close(fd)


def _pour(source: Path, fd: int) -> int:
    size = 0
    with source.open("rb", buffering=0) as file:
        while block := file.read(BLOCK):
            write_all(fd, block)
            size += len(block)
    return size


def write_all(fd: int, data: bytes | memoryview) -> None:
    """Write every byte, however many calls it takes."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def _dress(fd: int, attributes: Attributes, mtime: int, *, owner_matters: bool = True) -> None:
    """Give an open file its owner, extended attributes, mode and time, in that order."""
    seen = os.fstat(fd)
    if (seen.st_uid, seen.st_gid) != (attributes.uid, attributes.gid):
        try:
            os.fchown(fd, attributes.uid, attributes.gid)
        except PermissionError:
            if owner_matters:
                raise
    if _HAS_XATTRS:
        present = _xattrs(fd)
        for name in present.keys() - attributes.xattrs.keys():
            _try_xattr(os.removexattr, fd, name)
        for name, value in attributes.xattrs.items():
            if present.get(name) != value:
                _try_xattr(os.setxattr, fd, name, value)
    os.fchmod(fd, attributes.mode)
    os.utime(fd, ns=(mtime, mtime))


def _try_xattr(change: object, *arguments: object) -> None:
    """Change an extended attribute, unless only the system may (a security label, say)."""
    assert callable(change)  # noqa: S101
    try:
        change(*arguments)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EACCES, errno.ENOTSUP, errno.ENODATA):
            raise


def make_folders(tree: Tree, folder: bytes, modes: Mapping[bytes, int]) -> None:
    """Make a folder of the tree and those above it where they are missing, with these modes."""
    names = folder.split(b"/") if folder else []
    for depth in range(1, len(names) + 1):
        above, name = b"/".join(names[: depth - 1]), names[depth - 1]
        here = b"/".join(names[:depth])
        fd = tree.folder(above)
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=fd)
            os.chmod(name, modes.get(here, 0o755), dir_fd=fd)
            os.fsync(fd)


def set_folder_mode(tree: Tree, folder: bytes, mode: int) -> None:
    """Change the permission bits of a folder of the tree, whatever they are. Raises `OSError`."""
    above, name = os.path.split(folder)
    fd = tree.folder(above)
    if not hasattr(os, "O_PATH"):
        os.chmod(name, mode, dir_fd=fd, follow_symlinks=False)
        return
    # A folder that may not be opened can still be named this way, and a link is not followed.
    there = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
    try:
        os.chmod(f"/proc/self/fd/{there}", mode)
    finally:
        os.close(there)


def move_aside(tree: Tree, path: bytes, to: Path) -> None:
    """Move whatever stands at `path` (a file, a link, a whole folder) out of the tree, lastingly."""
    folder_path, name = os.path.split(path)
    folder = tree.folder(folder_path)
    make_folder(to.parent)
    try:
        os.rename(name, to, src_dir_fd=folder)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        _carry_aside(tree.root / os.fsdecode(path), to)
    tree.forget()
    sync_folder(to.parent)


def _carry_aside(path: Path, to: Path) -> None:
    """Move across devices: the copy is whole before the first byte of the original goes."""
    if path.is_dir() and not path.is_symlink():
        shutil.copytree(path, to, symlinks=True)
        shutil.rmtree(path)
        return
    shutil.copy2(path, to, follow_symlinks=False)
    path.unlink()


def write_into_tree(tree: Tree, name: bytes, data: bytes, staging: Path) -> None:
    """Write a file at the top of the tree, whole or not at all. Raises `OSError`.

    A file that was there keeps its mode; anything else that was there is replaced.
    """
    seen = tree.look(name)
    old = tree.attributes(name) if seen is not None and stat.S_ISREG(seen.st_mode) else None
    remove(staging)
    fd = os.open(staging, _CREATE, 0o666)
    try:
        write_all(fd, data)
        if old is not None:
            os.fchmod(fd, old.mode)
        os.fsync(fd)
    finally:
        os.close(fd)
    try:
        os.rename(staging, name, dst_dir_fd=tree.fd)
    except OSError as error:
        if error.errno not in _NOT_BY_RENAME:
            raise
        _write_where_it_stands(tree.fd, name, data)
    finally:
        remove(staging)
    os.fsync(tree.fd)


def _write_where_it_stands(folder: int, name: bytes, data: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    fd = os.open(name, flags, 0o666, dir_fd=folder)
    try:
        write_all(fd, data)
        os.ftruncate(fd, len(data))
        os.fsync(fd)
    finally:
        os.close(fd)


# ------------------------------------------------------------------- roxy's own folder


def make_folder(path: Path) -> None:
    """Make a folder of roxy's own and those above it, if missing. Raises `DiskError`."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _disk_error("make the folder", path, error) from error


def write(path: Path, data: bytes, *, lasting: bool = False) -> None:
    """Write one of roxy's own files, whole or not at all; if `lasting`, past a power loss.

    Raises `DiskError`.
    """
    staging = path.with_name(path.name + ".new")
    try:
        fd = os.open(staging, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
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
        fd = os.open(to, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
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


def create(path: Path) -> int:
    """Open a new file of roxy's own for writing. Raises `DiskError`."""
    try:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise _disk_error("write", path, error) from error


class Output:
    """A new file of roxy's own, digested while it is written; not synced."""

    def __init__(self, path: Path, mode: int = 0o600) -> None:
        self._path = path
        self._digest = hashlib.sha256()
        self._size = 0
        try:
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
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


def sync_folder(path: Path) -> None:
    """Make the names in a folder last."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def remove(path: Path) -> None:
    """Remove one of roxy's own files, if it is there."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def remove_folder(path: Path) -> None:
    """Remove one of roxy's own folders with all in it, if it is there."""
    if path.is_symlink():
        os.unlink(path)
        return
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(path)


def _disk_error(what: str, path: Path, error: OSError) -> DiskError:
    return DiskError(
        f"cannot {what} `{path}`: {error.strerror or error}",
        hint="free space or mend the permissions, then run the same command again",
    )
