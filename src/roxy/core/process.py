"""One command, run to its end with all that it started (S22-S25, S28).

The command leads a session of its own. It waits for one byte before its first instruction, so that
who it is can be noted before it can do anything. What is left when it ends is ended too.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import selectors
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from roxy.core import processes
from roxy.core.errors import ProcessError
from roxy.core.log import Log
from roxy.core.scrubber import Scrubber, Secrets

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
    from pathlib import Path

    from roxy.core.interrupts import Interrupts
    from roxy.core.log import KeptLog
    from roxy.core.processes import Identity, Process

GRACE = 2.0
"""Seconds between TERM and KILL (S24)."""
_KILL_WITHIN = 10.0
"""Seconds after which a process that KILL did not end is trouble."""
_TICK = 0.1
_POLL = 0.005
_CHUNK = 1 << 16
_LAST_AT_MOST = 4 << 20
"""Bytes taken after the command has ended: a process outside our reach may go on printing."""
_NOTHING: Mapping[str, str] = MappingProxyType({})
_LINUX = sys.platform == "linux"
_PR_SET_CHILD_SUBREAPER = 36
# `read` takes the byte that lets the command go, byte for byte, so nothing else of it is read.
_WAIT_THEN_RUN = 'read -r roxy_go && exec sh -c "$1" </dev/null'


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended: exactly one of `exit` and `signal` is set."""

    exit: int | None
    signal: int | None
    seconds: float
    log: KeptLog
    timed_out: bool = False
    """Whether it was ended because it took too long."""


def adopt_orphans() -> None:
    """Make this process the parent of every orphan below it, where the system can (S24)."""
    if not _LINUX:
        return
    if not processes.sees_itself():
        raise ProcessError(
            "/proc does not show the processes that roxy starts",
            hint="mount the /proc of this process namespace",
        )
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        reason = os.strerror(ctypes.get_errno())
        raise ProcessError(f"cannot become the parent of orphaned processes: {reason}")


@dataclass(frozen=True)
class Runner:
    """How commands are run here; the same for every run (S23)."""

    root: Path
    """Top of the working tree, where commands start."""
    env: Mapping[str, str]
    interrupts: Interrupts
    note: Callable[[Identity], None]
    """Called with who a command is before its first instruction; what it raises stops the run."""
    secrets: Secrets = field(default_factory=Secrets)
    """What is kept out of the log and out of what `on_output` gets."""
    spared: frozenset[int] = field(default_factory=lambda: _sessions(_descendants()))
    """Sessions of what ran below this process before any command, and is not ours to end."""

    def run(
        self,
        command: str,
        log: Path,
        on_output: Callable[[bytes], None],
        on_tick: Callable[[], None],
        timeout: float | None = None,
        env: Mapping[str, str] = _NOTHING,
    ) -> Ended:
        """Run `sh -c command` to its end and end what it leaves; `env` is set for it besides.

        With `timeout` it is ended too when it has taken that many seconds (S40). Raises
        `Interrupted` when a signal asks roxy to stop, `ProcessError` when something of the command
        cannot be started or ended; nothing that can be ended is left in any case.
        """
        kept = Log(log)
        try:
            started = time.monotonic()
            code, in_time = self._run(command, kept, on_output, on_tick, timeout, env)
            seconds = time.monotonic() - started
        finally:
            closed = kept.close()
        if code < 0:
            return Ended(None, -code, seconds, closed, not in_time)
        return Ended(code, None, seconds, closed, not in_time)

    def _run(
        self,
        command: str,
        log: Log,
        on_output: Callable[[bytes], None],
        on_tick: Callable[[], None],
        timeout: float | None,
        env: Mapping[str, str],
    ) -> tuple[int, bool]:
        """Return how it ended, and whether it did so in time."""
        started = _start(command, self.root, {**self.env, **env})

        scrubber = Scrubber(self.secrets)

        def take(chunk: bytes, *, is_last: bool = False) -> None:
            if told := scrubber.scrub(chunk, is_last=is_last):
                log.add(told)
                on_output(told)

        try:
            who = processes.identity(started.process.pid)
            if who is None:
                raise ProcessError("the process of a check cannot be seen in the process table")
            self.note(who)
            started.let_go()
            in_time = started.watch(self.interrupts, take, on_tick, timeout)
        finally:
            with contextlib.closing(started):
                last = started.end(self.spared)
            take(last, is_last=True)
        # A signal that came after the last look must not pass for a verdict.
        self.interrupts.check()
        return started.process.returncode, in_time


@dataclass
class _Started:
    """A command on its way."""

    process: subprocess.Popen[bytes]
    gate: int | None
    """Writing here lets the command go; closing it without ends the command unrun."""
    output: int

    def let_go(self) -> None:
        if self.gate is not None:
            with contextlib.suppress(BrokenPipeError):
                os.write(self.gate, b"\n")
            self._close_gate()

    def _close_gate(self) -> None:
        if self.gate is not None:
            os.close(self.gate)
            self.gate = None

    def watch(
        self,
        interrupts: Interrupts,
        take: Callable[[bytes], None],
        on_tick: Callable[[], None],
        timeout: float | None,
    ) -> bool:
        """Take output until the command itself has ended; what holds its output open may go on.

        Says whether it ended before it had taken `timeout` seconds.
        """
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        with selectors.DefaultSelector() as selector, _end_of(self.process.pid) as ended:
            selector.register(self.output, selectors.EVENT_READ)
            selector.register(interrupts.fileno(), selectors.EVENT_READ)
            if ended is not None:
                selector.register(ended, selectors.EVENT_READ)
            while not _has_ended(self.process):
                interrupts.check()
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                ready = selector.select(min(_TICK if ended is not None else _POLL, left))
                for key, _ in ready:
                    if key.fd == self.output:
                        self._take_once(selector, take)
                    elif key.fd == interrupts.fileno():
                        interrupts.drain()
                if not ready:
                    on_tick()
        return True

    def _take_once(self, selector: selectors.BaseSelector, take: Callable[[bytes], None]) -> None:
        chunk = os.read(self.output, _CHUNK)
        if chunk:
            take(chunk)
        else:
            selector.unregister(self.output)  # closed early; the command goes on all the same

    def end(self, spared: frozenset[int]) -> bytes:
        """End the command and what it left (S24), and return what was printed until then.

        Whoever prints while it ends is listened to, or it would wait for us. Raises `ProcessError`.
        """
        self._close_gate()
        os.set_blocking(self.output, False)
        last = bytearray()

        def find() -> list[Process]:
            self._read_into(last)
            return _left_of(self.process, spared)

        _end(find, _kill_with_group)
        self._read_into(last)
        return bytes(last)

    def _read_into(self, last: bytearray) -> None:
        with contextlib.suppress(BlockingIOError):
            while len(last) < _LAST_AT_MOST and (chunk := os.read(self.output, _CHUNK)):
                last += chunk

    def close(self) -> None:
        os.close(self.output)


def _start(command: str, root: Path, env: Mapping[str, str]) -> _Started:
    go, gate = os.pipe()
    output, printed = os.pipe()
    try:
        process = subprocess.Popen(
            ["sh", "-c", _WAIT_THEN_RUN, "sh", command],
            cwd=root,
            env=env,
            stdin=go,
            stdout=printed,
            stderr=printed,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        os.close(gate)
        os.close(output)
        why = isinstance(error, OSError) and error.strerror
        raise ProcessError(
            f"cannot start `sh`: {why or error}",
            hint="see to permissions and limits (`ulimit -a`), then run the same command again",
        ) from error
    finally:
        os.close(go)
        os.close(printed)
    return _Started(process, gate, output)


@contextlib.contextmanager
def _end_of(pid: int) -> Iterator[int | None]:
    """Give a descriptor that is readable once the process has ended, where the system has one."""
    try:
        fd = os.pidfd_open(pid)
    except (AttributeError, OSError):  # not on this system, or not in this sandbox
        yield None
        return
    try:
        yield fd
    finally:
        os.close(fd)


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Say whether a child has ended.

    It stays waitable where the system can do that: then its number is nobody else's until all that
    it left has been ended.
    """
    if hasattr(os, "waitid"):
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    _reap(process)
    return process.returncode is not None


# ------------------------------------------------------------------- ending what is left


def end_group(who: Identity) -> bool:
    """End what is left of the group that a killed roxy's check led (S33); say if there was any.

    Raises `ProcessError` when it cannot be ended.
    """
    return _end(lambda: processes.members(who), _kill)


def _end(find: Callable[[], list[Process]], kill: Callable[[Process], None]) -> bool:
    """End whatever `find` finds until it finds nothing: TERM, a grace, KILL (S24)."""
    asked: set[tuple[int, str]] = set()
    started = time.monotonic()
    while left := find():
        waited = time.monotonic() - started
        if waited > GRACE + _KILL_WITHIN:
            pids = ", ".join(str(victim.pid) for victim in left)
            raise ProcessError(
                f"processes of a check cannot be ended: pid {pids}",
                hint="end them by hand, then run the same command again",
            )
        for victim in left:
            if waited > GRACE:
                kill(victim)
            elif (victim.pid, victim.started) not in asked:
                asked.add((victim.pid, victim.started))
                _send(victim.pid, signal.SIGTERM)
                _send(victim.pid, signal.SIGCONT)  # a stopped process hears TERM only then
        time.sleep(_POLL)
    return bool(asked)


def _kill(victim: Process) -> None:
    _send(victim.pid, signal.SIGKILL)


def _kill_with_group(victim: Process) -> None:
    """Kill a process, and with it what its group has become since it was seen.

    Whoever forks and exits over and over is never met by its number.
    """
    _kill(victim)
    if victim.group > 1:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(victim.group, signal.SIGKILL)


def _send(pid: int, signum: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signum)


def _left_of(process: subprocess.Popen[bytes], spared: frozenset[int]) -> list[Process]:
    """Reap what has ended and return what is left of a command.

    On Linux that includes zombies, whose last child may not have been there yet when the table was
    read. Elsewhere the command itself is reaped last: until then nobody else gets its number.
    """
    if _LINUX:
        return [] if _reap(process) else _descendants(spared)
    left = [one for one in processes.table() if one.group == process.pid and not one.is_zombie]
    if not left:
        _reap(process)
    return left


def _reap(process: subprocess.Popen[bytes]) -> bool:
    """Wait for every child that has ended; say whether it is plain that nothing is left."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return _LINUX  # orphans come to us there, so no children means nothing at all
        if pid == 0:
            return False
        if pid == process.pid:
            process.returncode = os.waitstatus_to_exitcode(status)


def _descendants(spared: Collection[int] = ()) -> list[Process]:
    """Return what descends from this process, without children in the sessions to spare.

    Everything that a check starts is in a session of its own; what is in one that was there before,
    a background job of the shell that became roxy, is not ours to end.
    """
    children: dict[int, list[Process]] = {}
    for one in processes.table():
        children.setdefault(one.parent, []).append(one)
    found: list[Process] = []
    below = [one for one in children.get(os.getpid(), []) if one.session not in spared]
    while below:
        one = below.pop()
        found.append(one)
        below += children.get(one.pid, [])
    return found


def _sessions(below: Iterable[Process]) -> frozenset[int]:
    """Return the sessions of some processes and of this one."""
    return frozenset({os.getsid(0), *(one.session for one in below)})
