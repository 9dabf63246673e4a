"""Searching what a run printed, so that no expression and no output can hold roxy up (S25, S41).

Python's `re` can take longer than anybody lives, and nothing stops it from within. So a child of
this very process searches, which may compute only so long and take only so much memory.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import resource
import signal
from typing import TYPE_CHECKING

from roxy.core import regular_file, terms
from roxy.core.child import ChildError, beside
from roxy.core.log import KEPT_AT_EACH_END
from roxy.core.regular_file import MEBIBYTE, UnreadableFileError

if TYPE_CHECKING:
    from collections.abc import Callable

    from roxy.core.interrupts import Interrupts
    from roxy.core.log import KeptLog

MOST_SECONDS = 10.0
"""Computing time that a search may take; a plain one of a full log takes less than one."""
_MOST_MEMORY = 4 << 30
_LARGEST_LOG = 2 * KEPT_AT_EACH_END + MEBIBYTE
_LONGEST_NUMBER = 100
_FOUND, _FAILED = b"+", b"-"


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
    """Return what `look` says of the text of a log. Raises `SearchError`, and `Interrupted`."""
    try:
        with interrupts.breakable(), beside(lambda: _looked(look, log)) as child:
            said = child.answer()
    except ChildError as error:
        if error.code == -signal.SIGPROF:
            raise SearchError(
                f"was not searched to its end within {MOST_SECONDS:g} s of computing"
            ) from error
        raise SearchError(f"could not be searched: the search {error}") from error
    if said[:1] == _FAILED:
        raise SearchError(said[1:].decode())
    return said[1:]


def _looked(look: Callable[[str], bytes], log: KeptLog) -> bytes:
    """Be the child: return what is found, after a byte that says whether it went well."""
    _take_on_limits()
    try:
        return _FOUND + look(_text(log))
    except UnreadableFileError:
        return _FAILED + b"could not be searched: its log is gone, or was changed"
    except MemoryError:
        return _FAILED + b"was not searched to its end: it took too much memory"


def _take_on_limits() -> None:
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGPROF])
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
