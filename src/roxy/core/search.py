"""Searching what a run printed, so that no expression and no output can hold roxy up (S25, S41).

Python's `re` can take longer than anybody lives, and nothing stops it from within. So a child of
this very process searches, which may compute only so long and take only so much memory. It is
forked, not started anew: nothing is loaded that a check could have rewritten (S51).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import resource
import signal
from typing import TYPE_CHECKING

from roxy.core import regular_file, terms
from roxy.core.interrupts import SIGNALS
from roxy.core.log import KEPT_AT_EACH_END
from roxy.core.regular_file import MEBIBYTE, UnreadableFileError

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    from roxy.core.interrupts import Interrupts
    from roxy.core.log import KeptLog

MOST_SECONDS = 10.0
"""Computing time that a search may take; a plain one of a full log takes less than one."""
_MOST_MEMORY = 4 << 30
_LARGEST_LOG = 2 * KEPT_AT_EACH_END + MEBIBYTE
_LONGEST_NUMBER = 100
_OUT_OF_MEMORY = 3
_CHANGED = 4


class SearchError(Exception):
    """An output that could not be searched. The text goes on after its name."""


def is_found(pattern: str, log: KeptLog, interrupts: Interrupts) -> bool:
    """Say whether a regular expression matches anywhere in a log, line by line or across.

    `^` and `$` match at each line; bytes that are not UTF-8 read as U+FFFD, CRLF reads as LF.
    Raises `SearchError`, and `Interrupted`.
    """
    found = _in_child(
        lambda text: b"x" * bool(terms.compiled(pattern).search(text)), log, interrupts
    )
    return bool(found)


def last_number(pattern: str, log: KeptLog, interrupts: Interrupts) -> int | None:
    """Return what the one group of a regular expression holds where it matches last.

    None when it matches nowhere, or there is no number in the group. Raises as `is_found` does.
    """

    def look(text: str) -> bytes:
        last = None
        for match in terms.compiled(pattern).finditer(text):
            last = match
        return b"" if last is None else (last[1] or "")[:_LONGEST_NUMBER].encode()

    found = _in_child(look, log, interrupts)
    try:
        return int(found.decode())
    except ValueError:
        return None


def _in_child(look: Callable[[str], bytes], log: KeptLog, interrupts: Interrupts) -> bytes:
    """Return what `look` says of the text of a log."""
    answer, tell = os.pipe()
    child = None
    with interrupts.breakable():
        try:
            # A signal that reached the child before it has forgotten the parent would make it go on
            # as the parent does: put files back, write roxy.lock.
            before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
            try:
                child = os.fork()
                if child == 0:
                    _look_and_exit(look, log, tell)
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
            os.close(tell)
            tell = -1
            found = bytearray()
            while some := os.read(answer, 4096):
                found += some
            status = os.waitpid(child, 0)[1]
            child = None
        finally:
            os.close(answer)
            if tell >= 0:
                os.close(tell)
            if child:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
    _refuse(os.waitstatus_to_exitcode(status))
    return bytes(found)


def _refuse(code: int) -> None:
    """Raise for every end of the child but the good one."""
    if code == -signal.SIGPROF:
        raise SearchError(f"was not searched to its end within {MOST_SECONDS:g} s of computing")
    if code == _CHANGED:
        raise SearchError("could not be searched: its log is gone, or was changed")
    if code == _OUT_OF_MEMORY:
        raise SearchError("was not searched to its end: it took too much memory")
    if code:
        raise SearchError(f"could not be searched: the search ended with {code}")


def _look_and_exit(look: Callable[[str], bytes], log: KeptLog, tell: int) -> NoReturn:
    """Be the child: say what is found, and never return into what the parent was doing."""
    code = 1
    try:
        _forget_the_parent()
        found = look(_text(log))
        while found:
            found = found[os.write(tell, found) :]
        code = 0
    except UnreadableFileError:
        code = _CHANGED
    except MemoryError:
        code = _OUT_OF_MEMORY
    except BaseException:  # noqa: BLE001, S110 - whatever it is, the parent goes on from here
        pass
    finally:
        os._exit(code)


def _forget_the_parent() -> None:
    """Listen to signals no more as the parent does, and take on the limits."""
    signal.set_wakeup_fd(-1)
    for signum in (signal.SIGINT, signal.SIGHUP):
        signal.signal(signum, signal.SIG_IGN)  # the parent hears them, and ends this
    for signum in (signal.SIGTERM, signal.SIGPROF):
        signal.signal(signum, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGPROF, *SIGNALS])
    # SIGPROF ends a process without a core dump, which a limit of CPU time would leave.
    signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)
    with contextlib.suppress(ValueError, OSError):  # not everywhere, and perhaps less already
        resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))


def _text(log: KeptLog) -> str:
    """Return what a log holds. Raises `UnreadableFileError` when that is not what roxy wrote."""
    folder = os.open(log.path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    data = regular_file.read(folder, os.fsencode(log.path.name), _LARGEST_LOG, follow_links=False)
    if hashlib.sha256(data).hexdigest() != log.sha256:
        raise UnreadableFileError("was changed")
    return data.decode("utf-8", "replace").replace("\r\n", "\n")
