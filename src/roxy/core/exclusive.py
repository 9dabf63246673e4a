"""One roxy command at a time for one working tree (S8).

The kernel holds the lock and frees it however its holder ends. A note beside it says who holds it;
the note is for people and decides nothing.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import time
from typing import TYPE_CHECKING, NamedTuple

from roxy.core import files, processes, regular_file
from roxy.core.errors import BusyError, DiskError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from roxy.core.interrupts import Interrupts
    from roxy.core.processes import Identity

_EVERY = 0.05
"""Seconds between two tries to take the lock."""
_NOTE_AFTER = 1.0
"""Seconds that a holder gets to write its note before it is reported without one."""

_MOST = regular_file.MEBIBYTE
"""Bytes of the note."""


@contextlib.contextmanager
def exclusive(state: Path, command: str, wait: float, interrupts: Interrupts) -> Iterator[None]:
    """Be the only roxy at work in this working tree.

    `command` is what people are told about this one; `wait` is for how many seconds to wait for
    another. Raises `BusyError` naming the holder, `DiskError` when there can be no lock.
    """
    files.make_folder(state)
    note = state / "holder.json"
    fd = _take(state / "exclusive.lock", note, wait, interrupts)
    try:
        with contextlib.suppress(DiskError):  # a full disk must not keep a restore from happening
            files.write(note, _note(command))
        yield
    finally:
        # It may take a while yet until this process has printed its answer and is gone.
        with contextlib.suppress(DiskError):  # it must not hide what else went wrong
            files.remove(note)
        os.close(fd)


def _take(path: Path, note: Path, wait: float, interrupts: Interrupts) -> int:
    fd = _try(path, note)
    if fd is not None:
        return fd
    _refuse_descendants_of_holder(note)
    started = time.monotonic()
    while (fd := _try(path, note)) is None:
        waited = time.monotonic() - started
        if waited >= wait:
            holder = _holder(note)
            if holder is not None or waited >= _NOTE_AFTER:
                raise BusyError(
                    "another roxy is at work in this working tree"
                    + (f": {holder.words}" if holder else ", and has not said which"),
                    hint="wait for it to end, or give --wait SECONDS",
                )
        interrupts.sleep(_EVERY)
    return fd


def _try(path: Path, note: Path) -> int | None:
    """Return the locked file, or None while somebody else has it.

    Also when that one's lock was removed from under it: then its note is about a living process.
    """
    fd = _open(path)
    if _lock(fd, path) and _is_file_at(fd, path):
        holder = _holder(note)
        if holder is None or holder.who.pid == os.getpid():
            return fd
    os.close(fd)
    return None


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise _lock_error(path, error) from error


def _lock_error(path: Path, error: OSError) -> DiskError:
    return DiskError(
        f"cannot open the lock `{path}`: {error.strerror}",
        hint="roxy needs to write in the git directory; mend its permissions or the disk",
    )


def _is_file_at(fd: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), os.lstat(path))
    except FileNotFoundError:
        return False
    except OSError as error:
        raise _lock_error(path, error) from error


def _refuse_descendants_of_holder(note: Path) -> None:
    """Raise `BusyError` where waiting is no use: the holder waits for the check that started us."""
    holder = _holder(note)
    if holder is not None and processes.descends_from(holder.who):
        raise BusyError(
            f"this roxy was started by the one at work in this working tree: {holder.words}",
            hint="a check cannot ask roxy about the working tree that it runs in",
        )


def _lock(fd: int, path: Path) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return False
        raise _lock_error(path, error) from error
    return True


def _note(command: str) -> bytes:
    me = processes.identity(os.getpid())
    since = time.strftime("%Y-%m-%d %H:%M:%S")
    value = {"process": me.to_json() if me else None, "command": command, "since": since}
    return json.dumps(value).encode()


class _Holder(NamedTuple):
    """Whoever holds the lock."""

    who: Identity
    words: str


def _holder(note: Path) -> _Holder | None:
    """Return who holds the lock, if its note is there and about a living process."""
    try:
        value = json.loads(regular_file.read(None, os.fsencode(note), _MOST, follow_links=False))
        who = processes.Identity.from_json(value["process"])
        words = f"pid {who.pid}, `{value['command']}`, since {value['since']}"
    except regular_file.UNUSABLE:
        return None
    return _Holder(who, words) if processes.is_running(who) else None
