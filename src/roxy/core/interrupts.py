"""Signals, turned into a flag that work looks at where it can stop (S32).

A file that is being put back is put back, however many signals come: a handler raises only inside
`breakable`, where nothing but reading goes on.
"""

from __future__ import annotations

import os
import select
import signal
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from roxy.core.errors import Interrupted

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class _Hold:
    """A moment in which no signal raises; there is one, as there is one handler of signals."""

    is_on = False
    signum: int | None = None
    """The signal that would have raised meanwhile."""


_hold = _Hold()


@contextmanager
def held() -> Iterator[None]:
    """Do what is within to its end; a signal that comes meanwhile raises right after it (S32).

    For what starts something that somebody has to end: who starts it must get to know of it.
    """
    _hold.is_on, _hold.signum = True, None
    try:
        yield
    finally:
        _hold.is_on = False
    if _hold.signum is not None:
        raise Interrupted(_hold.signum)


class Interrupts:
    """The first of INT, TERM and HUP that came since `install`; the later ones change nothing."""

    def __init__(self) -> None:
        self._pending: int | None = None
        self._is_breakable = False
        self._before: dict[signal.Signals, Any] = {}
        self._awake, self._wake = os.pipe()  # not inherited by anybody
        os.set_blocking(self._awake, False)
        os.set_blocking(self._wake, False)

    def install(self) -> None:
        """Listen from now on. A signal that the caller ignores (nohup) stays ignored.

        Not so the one about children: while it is ignored, the kernel forgets how they ended.
        """
        if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        for signum in SIGNALS:
            if signal.getsignal(signum) is not signal.SIG_IGN:
                self._before[signum] = signal.signal(signum, self._note)

    def uninstall(self) -> None:
        """Listen no more; what was there before `install` is there again."""
        for signum, handler in self._before.items():
            signal.signal(signum, handler)
        self._before.clear()
        signal.set_wakeup_fd(-1)

    def _note(self, signum: int, _frame: FrameType | None) -> None:
        if self._pending is None:
            self._pending = signum
            if not self._is_breakable:
                return
            if _hold.is_on:
                _hold.signum = signum
            else:
                raise Interrupted(signum)

    @contextmanager
    def breakable(self) -> Iterator[None]:
        """Let a signal raise `Interrupted` at once, in work that may take long or hang (S32).

        For reading and asking git only: whatever is cut off must need no undoing.
        """
        self._is_breakable = True
        try:
            self.check()
            yield
        finally:
            self._is_breakable = False

    @property
    def pending(self) -> int | None:
        """The signal that asked roxy to stop, if one did."""
        return self._pending

    def fileno(self) -> int:
        """Return a descriptor that becomes readable when a signal comes."""
        return self._awake

    def drain(self) -> None:
        """Make `fileno` unreadable until the next signal."""
        try:
            while os.read(self._awake, 1024):
                pass
        except BlockingIOError:
            pass

    def check(self) -> None:
        """Raise `Interrupted` if a signal asked roxy to stop."""
        if self._pending is not None:
            raise Interrupted(self._pending)

    def sleep(self, seconds: float) -> None:
        """Wait, but raise `Interrupted` at once when a signal asks roxy to stop."""
        end = time.monotonic() + seconds
        self.check()
        poll = select.poll()  # has no limit on the number of a descriptor, as `select` has
        poll.register(self._awake, select.POLLIN)
        while (left := end - time.monotonic()) > 0:
            poll.poll(left * 1000)
            self.drain()
            self.check()
