"""What a file has besides its content: owner, mode, extended attributes and time (S28, S30)."""

from __future__ import annotations

import errno
import os
import stat
import time
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_HAS_XATTRS = hasattr(os, "listxattr")


class Attributes(NamedTuple):
    """What a file has besides its content and its times, to be given back with it (S28)."""

    mode: int
    """Permission bits only."""
    uid: int
    gid: int
    xattrs: Mapping[str, bytes] = MappingProxyType({})

    @classmethod
    def of(cls, fd: int) -> Attributes:
        """Take them from an open file. Raises `OSError`."""
        seen = os.fstat(fd)
        return cls(stat.S_IMODE(seen.st_mode), seen.st_uid, seen.st_gid, _xattrs(fd))

    def give(self, fd: int, mtime: int, *, owner_matters: bool = True) -> None:
        """Give an open file its owner, extended attributes, mode and time, in that order.

        Raises `OSError`, but not for an owner that cannot be given and does not matter.
        """
        seen = os.fstat(fd)
        if (seen.st_uid, seen.st_gid) != (self.uid, self.gid):
            try:
                os.fchown(fd, self.uid, self.gid)
            except PermissionError:
                if owner_matters:
                    raise
        self._give_xattrs(fd)
        if stat.S_IMODE(os.fstat(fd).st_mode) != self.mode:
            os.fchmod(fd, self.mode)
        _date(fd, mtime)

    def _give_xattrs(self, fd: int) -> None:
        present = _xattrs(fd)
        for name in present.keys() - self.xattrs.keys():
            _try_xattr(os.removexattr, fd, name)
        for name, value in self.xattrs.items():
            if present.get(name) != value:
                _try_xattr(os.setxattr, fd, name, value)


def _xattrs(fd: int) -> dict[str, bytes]:
    if not _HAS_XATTRS:
        return {}
    try:
        return {name: os.getxattr(fd, name) for name in os.listxattr(fd)}
    except OSError as error:
        if error.errno in (errno.ENOTSUP, errno.ENODATA):
            return {}
        raise


def _try_xattr(change: Callable[..., None], fd: int, name: str, *value: bytes) -> None:
    """Change an extended attribute, unless only the system may (a security label, say)."""
    try:
        change(fd, name, *value)
    except PermissionError:
        if name.startswith("user."):
            raise
    except OSError as error:
        if error.errno not in (errno.ENOTSUP, errno.ENODATA):
            raise


def _date(fd: int, mtime: int) -> None:
    """Give an open file its time; where it is somebody else's, which only takes the present, wait."""
    try:
        os.utime(fd, ns=(mtime, mtime))
    except PermissionError:
        os.utime(fd)
        while (left := mtime - os.fstat(fd).st_mtime_ns) > 0:
            time.sleep(left / 1e9)
            os.utime(fd)
