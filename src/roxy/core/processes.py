"""Who a process is: a number that the system will use again, and when that process started.

Linux answers from /proc; elsewhere POSIX `ps` does.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from typing import Any, NamedTuple

_LINUX = sys.platform == "linux"


class Identity(NamedTuple):
    """One process, told apart from every other that has or had its number."""

    pid: int
    started: str
    """When it started: clock ticks since boot on Linux, a date elsewhere. Compare for equality."""
    boot: str
    """In which boot of the machine, and in which container; empty where the system does not say."""

    def to_json(self) -> dict[str, Any]:
        """Return the same as plain values."""
        return {"pid": self.pid, "started": self.started, "boot": self.boot}

    @classmethod
    def from_json(cls, value: Any) -> Identity:
        """Read what `to_json` gave. Raises `TypeError`, `KeyError` or `ValueError`."""
        return cls(int(value["pid"]), str(value["started"]), str(value["boot"]))


class Process(NamedTuple):
    """One line of the system's table of processes."""

    pid: int
    parent: int
    group: int
    session: int
    started: str
    is_zombie: bool
    """Whether it has ended with all its threads, and only waits for its parent to notice."""


@cache
def boot() -> str:
    """Return what tells the time and place in which process numbers mean what they mean now.

    That is this boot of the machine and, since containers count on their own, the namespace.
    """
    if not _LINUX:
        return ""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return f"{file.read().strip()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def sees_itself() -> bool:
    """Say whether the table of processes has this process under the number that it knows."""
    try:
        return not _LINUX or os.readlink("/proc/self") == str(os.getpid())
    except OSError:
        return False


def identity(pid: int) -> Identity | None:
    """Return who has this number now, or None when nobody has."""
    process = _linux_process(pid) if _LINUX else _ps_process(pid)
    return None if process is None else Identity(pid, process.started, boot())


def is_same(who: Identity) -> bool:
    """Say whether that very process is still there, running or not yet waited for."""
    return identity(who.pid) == who


def is_running(who: Identity) -> bool:
    """Say whether that very process is still at work."""
    process = _linux_process(who.pid) if _LINUX else _ps_process(who.pid)
    return process is not None and not process.is_zombie and is_same(who)


def descends_from(who: Identity) -> bool:
    """Say whether this process was started by that one, or by something that it started."""
    parents = {process.pid: process.parent for process in table()}
    pid = os.getpid()
    while pid != who.pid and parents.get(pid, 0) > 0:
        pid = parents[pid]
    return pid == who.pid and is_same(who)


def table() -> list[Process]:
    """Return every process that can be seen."""
    return _linux_table() if _LINUX else _ps_table()


def members(who: Identity) -> list[Process]:
    """Return what is left of the group that `who` led, zombies left out (S33).

    Empty when the number belongs to another process now, or the machine was started anew. Where the
    leader is gone, members count only when they started no earlier than it.
    """
    leader = identity(who.pid)
    if who.boot != boot() or (leader is not None and leader != who):
        return []
    return [
        process
        for process in table()
        if process.group == who.pid
        and not process.is_zombie
        and _not_before(process.started, who.started)
    ]


def _not_before(started: str, leader: str) -> bool:
    if started.isdigit() and leader.isdigit():
        return int(started) >= int(leader)
    return True


def _linux_process(pid: int) -> Process | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            line = file.read()
    except OSError:
        return None
    # The command's name stands in parentheses and may hold any byte, so count from its end.
    fields = line[line.rfind(b")") + 2 :].split()
    return Process(
        pid=pid,
        parent=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        started=fields[19].decode("ascii"),
        # A main thread that ended before the others looks like a zombie, too.
        is_zombie=fields[0] in (b"Z", b"X") and int(fields[17]) <= 1,
    )


def _linux_table() -> list[Process]:
    found = (_linux_process(int(name)) for name in os.listdir("/proc") if name.isdigit())
    return [process for process in found if process is not None]


_PS = ("ps", "-o", "pid=,ppid=,pgid=,sess=,stat=,lstart=")
_PS_NUMBERS = 5


def _ps_process(pid: int) -> Process | None:
    found = _ps("-p", str(pid))
    return found[0] if found else None


def _ps_table() -> list[Process]:
    return _ps("-A")


def _ps(*which: str) -> list[Process]:
    done = subprocess.run(
        [*_PS, *which], env=os.environ | {"LC_ALL": "C"}, capture_output=True, check=False
    )
    found = []
    for line in done.stdout.decode("ascii", "replace").splitlines():
        fields = line.split(None, _PS_NUMBERS)
        if len(fields) > _PS_NUMBERS:
            pid, parent, group = (int(text) for text in fields[:3])
            is_zombie = fields[4].startswith("Z")
            # `sess` is an address on macOS; nothing there relies on it.
            found.append(Process(pid, parent, group, 0, fields[5].strip(), is_zombie))
    return found
