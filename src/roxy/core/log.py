"""The log of one run: its first and last 8 MiB, whatever a command prints (S25)."""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

from roxy.core import files
from roxy.core.errors import DiskError

if TYPE_CHECKING:
    from pathlib import Path

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
KEPT_AT_EACH_END = 8 << 20
"""Bytes kept from the beginning, and again from the end."""


@dataclass(frozen=True, slots=True)
class KeptLog:
    """A finished log."""

    path: Path
    size: int
    """Bytes in the file, which is less than was printed when it was cut."""
    sha256: str
    """Lower-case hex of the file."""


class Log:
    """Takes what a command prints. The end waits in memory until it is known to be the end."""

    def __init__(self, path: Path, kept_at_each_end: int = KEPT_AT_EACH_END) -> None:
        self._path = path
        self._fd = files.create(path)
        self._digest = hashlib.sha256()
        self._size = 0
        self._most = kept_at_each_end
        self._room = kept_at_each_end
        self._tail = bytearray()
        self._seen_by_tail = 0

    def add(self, chunk: bytes) -> None:
        """Take the next bytes. Raises `DiskError`."""
        head = chunk[: self._room]
        if head:
            self._room -= len(head)
            self._write(head)
        self._keep_for_the_end(chunk[len(head) :])

    def _keep_for_the_end(self, rest: bytes) -> None:
        """Put bytes into the tail, which is a ring once it is full."""
        start = min(len(rest), self._most - len(self._tail))
        self._tail += rest[:start]
        self._seen_by_tail += start
        while start < len(rest):
            at = self._seen_by_tail % self._most
            piece = rest[start : start + self._most - at]
            self._tail[at : at + len(piece)] = piece
            self._seen_by_tail += len(piece)
            start += len(piece)

    def close(self) -> KeptLog:
        """Write the end, with a mark where bytes were left out. Raises `DiskError`."""
        try:
            left_out = self._seen_by_tail - len(self._tail)
            if left_out:
                self._write(b"\n[roxy left out %d bytes here]\n" % left_out)
            at = self._seen_by_tail % self._most if left_out else 0
            self._write(memoryview(self._tail)[at:])
            self._write(memoryview(self._tail)[:at])
        finally:
            os.close(self._fd)
        return KeptLog(self._path, self._size, self._digest.hexdigest())

    def _write(self, data: bytes | memoryview) -> None:
        try:
            files.write_all(self._fd, data)
        except OSError as error:
            raise DiskError(
                f"cannot write the log `{self._path}`: {error.strerror}", hint="free some space"
            ) from error
        self._digest.update(data)
        self._size += len(data)


def last_lines(path: Path, most: int, window: int = 64 << 10) -> list[bytes] | None:
    """Return the last `most` lines of a log, or None when it is gone; reads `window` bytes.

    A check can put anything in its place, and a FIFO would hold roxy up.
    """
    try:
        fd = os.open(path, _READ)
        try:
            seen = os.fstat(fd)
            if not stat.S_ISREG(seen.st_mode):
                return None
            lines = os.pread(fd, window, max(0, seen.st_size - window)).splitlines()
        finally:
            os.close(fd)
    except OSError:
        return None
    return lines[-most:]
