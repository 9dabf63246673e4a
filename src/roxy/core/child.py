"""A child of this very process, which works something out beside it and says what came of it.

It is forked, not started anew: nothing is loaded that a check could have rewritten (S51).
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from typing import TYPE_CHECKING

from roxy.core.interrupts import SIGNALS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from typing import NoReturn

_BLOCK = 1 << 20
_DESCRIPTORS = "/proc/self/fd" if sys.platform == "linux" else "/dev/fd"


class ChildError(Exception):
    """A child that came to no good end. `code` is its exit code, or a signal's number below 0."""

    def __init__(self, code: int) -> None:
        super().__init__(f"ended with {code}")
        self.code = code


class Child:
    """One child, from `beside`."""

    def __init__(self) -> None:
        self._pid = 0
        """Nought where there is none to wait for."""
        self._answer, self._tell = os.pipe()

    def answer(self) -> bytes:
        """Wait for what it says. Raises `ChildError`."""
        said = bytearray()
        while some := os.read(self._answer, _BLOCK):
            said += some
        code = self._wait()
        if code:
            raise ChildError(code)
        return bytes(said)

    def _start(self, work: Callable[[], bytes], descriptors: Collection[int]) -> None:
        # A signal that reached the child before it has forgotten the parent would make it go on
        # as the parent does: put files back, write roxy.lock.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        try:
            self._pid = os.fork()
            if self._pid == 0:
                _work_and_exit(work, self._tell, descriptors)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(self._tell)
        self._tell = -1

    def _wait(self) -> int:
        _, status = os.waitpid(self._pid, 0)
        self._pid = 0
        return os.waitstatus_to_exitcode(status)

    def _end(self) -> None:
        os.close(self._answer)
        if self._tell >= 0:
            os.close(self._tell)
        if self._pid:
            # A signal may have come between the end of the wait and the note of it.
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(self._pid, signal.SIGKILL)
                self._wait()


@contextlib.contextmanager
def beside(work: Callable[[], bytes], *descriptors: int) -> Iterator[Child]:
    """Let a child do some work, with these descriptors and the standard ones open.

    It is ended with the `with` block. A signal may raise from within (`Interrupts.breakable`).
    """
    child = Child()
    try:
        child._start(work, descriptors)  # noqa: SLF001 - the class is this function's
        yield child
    finally:
        child._end()  # noqa: SLF001


def _work_and_exit(work: Callable[[], bytes], tell: int, descriptors: Collection[int]) -> NoReturn:
    """Be the child, and never return into what the parent was doing."""
    code = 1
    try:
        _forget_the_parent({0, 1, 2, tell, *descriptors})
        left = memoryview(work())
        while left:
            left = left[os.write(tell, left) :]
        code = 0
    except BaseException:  # noqa: BLE001, S110 - whatever it is, the parent goes on from here
        pass
    finally:
        os._exit(code)


def _forget_the_parent(kept: Collection[int]) -> None:
    """Listen to signals as the parent does no more, and hold nothing open of it, its lock least."""
    signal.set_wakeup_fd(-1)
    for signum in (signal.SIGINT, signal.SIGHUP):
        signal.signal(signum, signal.SIG_IGN)  # the parent hears them, and ends this
    if signal.getsignal(signal.SIGTERM) is not signal.SIG_IGN:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    with contextlib.suppress(OSError):  # some container has no such folder
        for descriptor in set(map(int, os.listdir(_DESCRIPTORS))).difference(kept):
            with contextlib.suppress(OSError):  # it was that of this very listing
                os.close(descriptor)
