"""A terminal for roxy to draw on: a real one for the kernel, and what a person would see on it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from typing import TYPE_CHECKING

from project import HANG

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

_PIECE = re.compile(r"\x1b\[(?P<number>\d*)(?:;\d+)*(?P<what>[A-Za-z])|\r|\n|[^\x1b\r\n]")


class Screen:
    """What stands on a terminal that wraps, and that wraps anew when its width changes."""

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self._lines = [""]
        """As they were written, each as many rows high as it needs."""
        self._line, self._at = 0, 0

    def feed(self, text: str) -> None:
        for piece in _PIECE.finditer(text):
            match piece["what"]:
                case None:
                    self._put(piece[0])
                case "A":
                    self._go_up(int(piece["number"] or 1))
                case "J":
                    del self._lines[self._line + 1 :]
                    self._lines[self._line] = self._lines[self._line][: self._at]
                case "m":
                    pass
                case _:
                    raise AssertionError(f"this terminal does not know {piece[0]!r}")
        rest = _PIECE.sub("", text)
        assert not rest, f"this terminal does not know {rest!r}"

    def _put(self, character: str) -> None:
        if character == "\r":
            self._at -= self._at % self.columns
        elif character == "\n":
            self._line += 1
            self._at = 0  # the kernel has put a CR before it
            if self._line == len(self._lines):
                self._lines.append("")
        else:
            line = self._lines[self._line].ljust(self._at)
            self._lines[self._line] = line[: self._at] + character + line[self._at + 1 :]
            self._at += 1

    def _go_up(self, rows: int) -> None:
        column = self._at % self.columns
        assert column == 0, "roxy goes to the begin of a line first"
        row = self._at // self.columns - rows
        while row < 0 and self._line:
            self._line -= 1
            row += max(len(self._lines[self._line]) - 1, 0) // self.columns + 1
        assert row >= 0, "that is above all that was written"
        self._at = row * self.columns

    @property
    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self._lines)


class Terminal:
    """A pseudo-terminal, its other end, and the screen that shows it."""

    def __init__(self, columns: int = 80) -> None:
        self._ours, self.theirs = pty.openpty()
        self.screen = Screen(columns)
        self.raw = b""
        self.resize(columns)

    def resize(self, columns: int) -> None:
        """Change the width; whoever is in the foreground gets SIGWINCH."""
        self.show()
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self.screen.columns = columns

    def type(self, keys: bytes) -> None:
        os.write(self._ours, keys)

    def show(self) -> str:
        """Take what was written until now, and return what the screen shows."""
        while select.select([self._ours], [], [], 0)[0]:
            try:
                data = os.read(self._ours, 1 << 16)
            except OSError:  # what Linux gives once nobody has the other end
                break
            self.raw += data
            self.screen.feed(data.decode())
        return self.screen.text

    def until(self, is_so: Callable[[], object]) -> None:
        """Show until something is so."""
        end = time.monotonic() + HANG
        while not is_so():
            assert time.monotonic() < end, f"it never happened:\n{self.show()}"
            self.show()
            time.sleep(0.005)

    def close(self) -> None:
        os.close(self._ours)
        if self.theirs >= 0:
            os.close(self.theirs)

    @contextlib.contextmanager
    def started(
        self, arguments: Sequence[str], cwd: Path, env: Mapping[str, str]
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Start a program that this terminal controls."""
        with subprocess.Popen(
            arguments,
            cwd=cwd,
            env=os.environ | {"TERM": "xterm-256color"} | dict(env),
            stdin=self.theirs,
            stdout=self.theirs,
            stderr=self.theirs,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - no threads here
        ) as process:
            os.close(self.theirs)
            self.theirs = -1
            try:
                yield process
            finally:
                process.kill()
