"""The working tree, written: the only place that does it.

It is reached only through a `Tree`, so that no symbolic link is ever followed (S28). Callers decide
what to write; this module makes it atomic and lasting.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from typing import TYPE_CHECKING

from roxy.core.exchange import Rename, exchange, partial, rename_at
from roxy.core.files import (
    NEW,
    NO_LINKS,
    copy_in,
    drop,
    make_folder,
    sync_above,
    sync_folder,
    sync_names,
    write_all,
)
from roxy.core.working_tree import BLOCK, FOLDER, READ, NotRegularError

if TYPE_CHECKING:
    from pathlib import Path

    from roxy.core.attributes import Attributes
    from roxy.core.working_tree import Tree

_WRITE = os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NOT_BY_RENAME = frozenset(
    {errno.EXDEV, errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY, errno.ETXTBSY}
)
OFTEN_ENOUGH = 3
"""Times that a file is written anew when somebody else writes to it at the very same moment."""


def place(
    tree: Tree,
    path: bytes,
    source: Path,
    attributes: Attributes,
    mtime: int,
    staging: Path,
) -> bool:
    """Put the bytes of `source` at `path`; say whether something was there, which is now `staging`.

    A finished file is exchanged into place from `staging`, a path in roxy's own folder: nobody sees
    half of it, no other hard link changes, no temporary file shows in the tree, and what stood at
    `path` at that very moment, file, link or folder, is then at `staging`. Where that cannot work
    (another device, a folder or an owner that is not ours) what a file holds is copied to `staging`
    and the file is overwritten right after. The file becomes a hard link of `source` where that can
    be, which costs no space; it gets these attributes and this time. The folders on the way must
    exist. Lasting when it returns. Raises `OSError`; then `staging` may be there too. It is
    `FileExistsError` or `NotRegularError` when somebody put something there at this very moment.
    """
    folder_path, name = os.path.split(path)
    folder = tree.folder(folder_path)
    try:
        _stage(source, staging, attributes, mtime)
        displaced = exchange(staging, folder, name)
    except OSError as error:
        drop(partial(staging))
        if error.errno not in _NOT_BY_RENAME:
            raise
        displaced = _overwrite(folder, name, source, attributes, mtime, staging)
    sync_names(folder)
    return displaced


def sync_folder_in(tree: Tree, folder: bytes) -> None:
    """Make the names in a folder of the tree last. Raises `OSError`."""
    sync_names(tree.folder(folder))


def put_back(tree: Tree, path: bytes, staging: Path) -> bool:
    """Exchange `staging` and `path` once more, after `place` turned out to be in somebody's way.

    Says whether that could be done, lastingly.
    """
    folder_path, name = os.path.split(path)
    try:
        folder = tree.folder(folder_path)
        rename_at(staging, folder, name, Rename.EXCHANGE)
        sync_names(folder)
    except OSError:
        return False
    return True


def _stage(source: Path, staging: Path, attributes: Attributes, mtime: int) -> None:
    """Make `staging`, which is a whole file whenever it is there."""
    unfinished = partial(staging)
    drop(unfinished)
    fd = _link(source, unfinished)
    if fd is None:
        fd = os.open(unfinished, NEW, 0o600)
    try:
        if os.fstat(fd).st_size == 0:
            _pour(source, fd)
        attributes.give(fd, mtime)
        os.fsync(fd)
    finally:
        os.close(fd)
    os.rename(unfinished, staging)


def _link(source: Path, to: Path) -> int | None:
    """Make a hard link and open it, or return None where the file system has none."""
    try:
        os.link(source, to)
    except OSError as error:
        if error.errno in NO_LINKS:
            return None
        raise
    return os.open(to, READ)


def _overwrite(
    folder: int, name: bytes, source: Path, attributes: Attributes, mtime: int, staging: Path
) -> bool:
    """Write a file where it stands, or create it there, if need be with us as its owner.

    What it holds goes to `staging` first; says whether there was anything.
    """
    displaced, is_new = False, True
    try:
        fd = os.open(name, NEW, 0o600, dir_fd=folder)
    except FileExistsError:
        displaced, is_new = True, False
        fd = _open_copied(folder, name, staging)
        if os.fstat(fd).st_nlink > 1:
            os.close(fd)
            fd, is_new = _create_instead(folder, name), True
    try:
        os.ftruncate(fd, _pour(source, fd))
        attributes.give(fd, mtime, owner_matters=not is_new)
        os.fsync(fd)
    finally:
        os.close(fd)
    return displaced


def _open_copied(folder: int, name: bytes, staging: Path) -> int:
    """Open a file for writing whose content is at `staging`, all of it."""
    for _ in range(OFTEN_ENOUGH):
        seen = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if not stat.S_ISREG(seen.st_mode):
            raise NotRegularError(errno.EINVAL, "not a regular file", name)
        _copy_aside(folder, name, seen, staging)
        fd = _open_anyway(folder, name, _WRITE)
        if _is_unwritten(os.fstat(fd), seen):
            return fd
        os.close(fd)
    raise OSError(0, "somebody keeps writing to it")


def _is_unwritten(now: os.stat_result, then: os.stat_result) -> bool:
    return os.path.samestat(now, then) and (now.st_size, now.st_mtime_ns) == (
        then.st_size,
        then.st_mtime_ns,
    )


def _copy_aside(folder: int, name: bytes, seen: os.stat_result, staging: Path) -> None:
    source = _open_anyway(folder, name, READ)
    try:
        copy_in(source, partial(staging))
    finally:
        os.close(source)
    os.utime(partial(staging), ns=(seen.st_atime_ns, seen.st_mtime_ns))
    os.rename(partial(staging), staging)
    sync_above(staging)  # the only copy there is, should somebody have saved something


def _create_instead(folder: int, name: bytes) -> int:
    """Make a new file in the place of one that has other hard links, which stay what they are."""
    try:
        os.unlink(name, dir_fd=folder)
    except PermissionError as error:
        raise PermissionError(
            errno.EPERM, "it has other hard links and its folder cannot be written", name
        ) from error
    return os.open(name, NEW, 0o600, dir_fd=folder)


def _open_anyway(folder: int, name: bytes, flags: int) -> int:
    try:
        return os.open(name, flags, dir_fd=folder)
    except PermissionError:
        _open_up(folder, name)
        return os.open(name, flags, dir_fd=folder)


def _pour(source: Path, fd: int) -> int:
    size = 0
    with source.open("rb", buffering=0) as file:
        while block := file.read(BLOCK):
            write_all(fd, block)
            size += len(block)
    return size


def make_folder_in(tree: Tree, folder: bytes, mode: int = stat.S_IRWXU) -> None:
    """Make a folder of the tree, for its owner alone, in one that is there. Raises `OSError`."""
    above, name = os.path.split(folder)
    fd = tree.folder(above)
    os.mkdir(name, mode, dir_fd=fd)
    sync_names(fd)


def set_folder_mode(tree: Tree, folder: bytes, mode: int) -> None:
    """Change the permission bits of a folder of the tree, whatever they are, lastingly.

    Raises `OSError`.
    """
    above, name = os.path.split(folder)
    fd = tree.folder(above)
    with contextlib.ExitStack() as stack:
        # A folder has to be readable to be synced, which it may be only before or only after.
        opened = _open_folder(fd, name, stack)
        _chmod(fd, name, mode)
        if opened is None:
            opened = _open_folder(fd, name, stack)
        if opened is not None:
            sync_names(opened)


def _open_folder(above: int, name: bytes, stack: contextlib.ExitStack) -> int | None:
    try:
        fd = os.open(name, FOLDER, dir_fd=above)
    except PermissionError:
        return None
    stack.callback(os.close, fd)
    return fd


def open_up(tree: Tree, path: bytes) -> None:
    """Let the owner do everything with what stands at `path`, a folder or a file.

    Raises `OSError`, also when the file has other hard links, which share its mode.
    """
    folder, name = os.path.split(path)
    _open_up(tree.folder(folder), name)


def _open_up(folder: int, name: bytes) -> None:
    seen = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if stat.S_ISDIR(seen.st_mode):
        _chmod(folder, name, stat.S_IMODE(seen.st_mode) | stat.S_IRWXU)
    elif stat.S_ISREG(seen.st_mode) and seen.st_nlink == 1:
        _chmod(folder, name, stat.S_IMODE(seen.st_mode) | stat.S_IRUSR | stat.S_IWUSR)
    else:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), name)


def _chmod(folder: int, name: bytes, mode: int) -> None:
    if not hasattr(os, "O_PATH"):
        os.chmod(name, mode, dir_fd=folder, follow_symlinks=False)
        return
    # What may not be opened can still be named this way, and a link is not followed.
    there = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        if not stat.S_ISLNK(os.fstat(there).st_mode):
            os.chmod(f"/proc/self/fd/{there}", mode)
    finally:
        os.close(there)


def move_aside(tree: Tree, path: bytes, to: Path) -> None:
    """Move whatever stands at `path` (a file, a link, a whole folder) out of the tree, lastingly."""
    folder_path, name = os.path.split(path)
    folder = tree.folder(folder_path)
    make_folder(to.parent, lasting=True)
    try:
        _move(folder, name, to)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        _carry_aside(tree.root / os.fsdecode(path), to)
    tree.forget()
    sync_folder(to.parent)


def _move(folder: int, name: bytes, to: Path) -> None:
    try:
        os.rename(name, to, src_dir_fd=folder)
    except PermissionError:
        _open_up(folder, name)  # a folder has to be written to be moved: its `..` changes
        os.rename(name, to, src_dir_fd=folder)


def _carry_aside(path: Path, to: Path) -> None:
    """Move across devices: the copy is there to stay before the first byte of the original goes."""
    _copy(path, to)
    sync_above(to)
    if stat.S_ISDIR(path.lstat().st_mode):
        shutil.rmtree(path)
    else:
        os.unlink(path)


def _copy(path: Path, to: Path) -> None:
    """Copy whatever stands at `path`, lastingly; it is made readable where that takes nothing."""
    seen = path.lstat()
    kind, mode = stat.S_IFMT(seen.st_mode), stat.S_IMODE(seen.st_mode)
    if kind == stat.S_IFDIR:
        if mode & stat.S_IRWXU != stat.S_IRWXU:
            os.chmod(path, mode | stat.S_IRWXU)
        os.mkdir(to)
        for name in os.listdir(path):
            _copy(path / name, to / name)
        shutil.copystat(path, to)
        sync_folder(to)
    elif kind == stat.S_IFREG:
        if not mode & stat.S_IRUSR and seen.st_nlink == 1:
            os.chmod(path, mode | stat.S_IRUSR)
        shutil.copy2(path, to)
        with to.open("rb") as file:
            os.fsync(file.fileno())
    elif kind == stat.S_IFLNK:
        os.symlink(os.readlink(path), to)
    else:
        os.mknod(to, seen.st_mode, seen.st_rdev)


def write_into_tree(tree: Tree, name: bytes, data: bytes, staging: Path) -> None:
    """Write a file at the top of the tree, whole or not at all. Raises `OSError`.

    A file that was there keeps its mode; anything else that was there is replaced.
    """
    seen = tree.look(name)
    old = tree.attributes(name) if seen is not None and stat.S_ISREG(seen.st_mode) else None
    drop(staging)
    fd = os.open(staging, NEW, 0o666)
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
        drop(staging)
    sync_names(tree.fd)


def write_new(tree: Tree, path: bytes, data: bytes, staging: Path) -> None:
    """Make a file of the tree, whole or not at all, in a folder that is there.

    Raises `OSError`; it is `FileExistsError` when anything has that name.
    """
    above, name = os.path.split(path)
    folder = tree.folder(above)
    drop(staging)
    _write_to(os.open(staging, NEW, 0o666), data)
    try:
        os.link(staging, name, dst_dir_fd=folder)
    except OSError as error:
        if error.errno not in NO_LINKS | _NOT_BY_RENAME:
            raise
        _write_to(os.open(name, NEW, 0o666, dir_fd=folder), data)
    finally:
        drop(staging)
    sync_names(folder)


def _write_to(fd: int, data: bytes) -> None:
    try:
        write_all(fd, data)
        os.fsync(fd)
    finally:
        os.close(fd)


def _write_where_it_stands(folder: int, name: bytes, data: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    fd = os.open(name, flags, 0o666, dir_fd=folder)
    try:
        write_all(fd, data)
        os.ftruncate(fd, len(data))
        os.fsync(fd)
    finally:
        os.close(fd)


def create_in_tree(tree: Tree, path: bytes, data: bytes) -> None:
    """Make a new file whose folder exists. Raises `OSError`: `FileExistsError` for any old one."""
    folder_path, name = os.path.split(path)
    folder = tree.folder(folder_path)
    fd = os.open(name, NEW, 0o666, dir_fd=folder)
    try:
        write_all(fd, data)
        os.fsync(fd)
    except OSError:
        os.unlink(name, dir_fd=folder)
        raise
    finally:
        os.close(fd)
    sync_names(folder)


def append_to(folder: int, name: bytes, data: bytes) -> None:
    """Add to the end of a regular file, all of `data` or nothing. Raises `OSError`."""
    fd = os.open(name, _WRITE | os.O_APPEND, dir_fd=folder)
    try:
        size = os.fstat(fd).st_size
        try:
            write_all(fd, data)
        except OSError:
            os.ftruncate(fd, size)
            raise
        os.fsync(fd)
    finally:
        os.close(fd)
