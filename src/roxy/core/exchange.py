"""A file and whatever has a certain name change places, as far as the file system can do that."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from enum import Enum
from typing import TYPE_CHECKING

from roxy.core.files import NO_LINKS, sync_above

if TYPE_CHECKING:
    from pathlib import Path

_NO_SUCH_RENAME = frozenset({errno.EINVAL, errno.ENOSYS, errno.ENOTSUP})


class Rename(Enum):
    """The flags of rename that Python does not know, as Linux and as macOS number them."""

    EXCHANGE = (2, 2)
    NO_REPLACE = (1, 4)


def exchange(staging: Path, folder: int, name: bytes) -> bool:
    """Give the file at `staging` a name in a folder; say whether something had that name.

    That is then at `staging`. Nothing is ever lost, whoever else writes there. Raises `OSError`;
    then either may be at `staging`, and the name may be nobody's.
    """
    while True:
        try:
            rename_at(staging, folder, name, Rename.EXCHANGE)
        except FileNotFoundError:
            pass
        except OSError as error:
            if error.errno not in _NO_SUCH_RENAME:
                raise
            return _in_steps(staging, folder, name)
        else:
            return True
        try:
            rename_at(staging, folder, name, Rename.NO_REPLACE)
        except FileExistsError:
            continue  # it came back between the two
        except OSError as error:
            if error.errno not in _NO_SUCH_RENAME:
                raise
            return _in_steps(staging, folder, name)
        return False


def _in_steps(staging: Path, folder: int, name: bytes) -> bool:
    """Do the same on a file system that cannot exchange: the name is nobody's for a moment."""
    new = partial(staging)
    os.rename(staging, new)
    try:
        os.rename(name, staging, src_dir_fd=folder)
    except FileNotFoundError:
        displaced = False
    else:
        displaced = True
        sync_above(staging)  # or a power cut could leave the new file's name without the old one's
    try:
        os.link(new, name, dst_dir_fd=folder)  # not over what somebody saves there right now
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        if _is_there(folder, name):  # as near to the rename as can be
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name) from error
        os.rename(new, name, dst_dir_fd=folder)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(new)
    return displaced


def _is_there(folder: int, name: bytes) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def partial(staging: Path) -> Path:
    """Return where a file waits that is not finished, or not in place; nobody ever reads it."""
    return staging.with_name(staging.name + ".partial")


def rename_at(old: Path, folder: int, name: bytes, how: Rename) -> None:
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
