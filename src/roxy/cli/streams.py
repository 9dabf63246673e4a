"""Standard output and standard error, and what can go wrong with them (S43, S46).

Nothing is ever left in a buffer, so a stream that fails does it here and not while Python shuts
down. A write never raises: a full disk under standard output must not end a verify half way.
"""

from __future__ import annotations

import os
import select
import sys
from typing import NamedTuple


class Stream:
    """A place for text; after its first failure it takes text and drops it."""

    def __init__(self, descriptor: int, encoding: str) -> None:
        self._descriptor = descriptor
        self._encoding = encoding
        self._is_open = True
        self.failure: OSError | None = None
        """Why text was lost. A reader that went away is no failure."""

    @property
    def is_terminal(self) -> bool:
        """Whether people look at it directly."""
        return os.isatty(self._descriptor)

    @property
    def is_in_front(self) -> bool:
        """Whether roxy has the terminal, and is no background job of the shell."""
        try:
            return os.tcgetpgrp(self._descriptor) == os.getpgrp()
        except OSError:  # not the terminal that this session has
            return True

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows of the terminal at this moment."""
        try:
            columns, rows = os.get_terminal_size(self._descriptor)
        except OSError:
            columns, rows = 0, 0
        return columns or 80, rows or 24

    def can_show(self, text: str) -> bool:
        """Whether its encoding has all of `text`."""
        try:
            text.encode(self._encoding)
        except UnicodeEncodeError:
            return False
        return True

    def write(self, text: str) -> None:
        """Write all of `text`; what the encoding lacks is escaped."""
        data = text.encode(self._encoding, "backslashreplace")
        try:
            while data and self._is_open:
                data = data[self._write_some(data) :]
        except BrokenPipeError:
            self._is_open = False
        except OSError as error:
            self._is_open = False
            self.failure = error

    def _write_some(self, data: bytes) -> int:
        try:
            return os.write(self._descriptor, data)
        except BlockingIOError:  # somebody who shares the pipe or terminal made it so
            select.select([], [self._descriptor], [])
            return 0


class Streams(NamedTuple):
    """Where the answer goes, and where all else goes (S45)."""

    out: Stream
    err: Stream


def standard_streams() -> Streams:
    """Return the streams that roxy was started with, a closed one leading nowhere."""
    _fill_closed_descriptors()
    return Streams(Stream(1, _encoding(sys.stdout)), Stream(2, _encoding(sys.stderr)))


def _fill_closed_descriptors() -> None:
    """Open the null device for each standard stream that was closed by the caller.

    Otherwise the next file to be opened, such as roxy.lock, would take its number and what is
    meant for the stream.
    """
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # takes the lowest free one


def _encoding(stream: object) -> str:
    return getattr(stream, "encoding", None) or "utf-8"
