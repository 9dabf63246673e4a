"""Roxy as a process of its own that need not load Python and roxy first.

Most of the time of a short command goes into that, and the suite runs thousands of them. So one
process per worker loads all of roxy, does nothing with it, and forks for each command; what it forks
does from there on what `python -m roxy` does. `test_warm.py` compares the two. Whatever needs another
start gets a real one: `command` says no to it, and `Project.started` never asks.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SOURCE = Path(__file__).resolve().parent.parent / "src"
_ENV = {"PYTHONPATH": str(SOURCE), "LANG": "C.UTF-8"}
"""What Python looks at when it starts."""
_NUMBER = struct.Struct("i")
_SERVER = """
import gc, importlib, json, os, pkgutil, runpy, socket, struct, sys, time
import roxy

channel = socket.socket(fileno=int(sys.argv[1]))
for module in pkgutil.walk_packages(roxy.__path__, "roxy."):
    if module.name != "roxy.__main__":
        importlib.import_module(module.name)
gc.collect()
gc.freeze()

def command():
    "Fork for each command; return only in the process that is to be it."
    while True:
        size, descriptors, _, _ = socket.recv_fds(channel, 4, 2)
        if not size:
            sys.exit()
        text = b""
        while len(text) < int.from_bytes(size, sys.byteorder):
            text += channel.recv(1 << 20)
        pid = os.fork()
        if pid == 0:
            return json.loads(text), descriptors
        for one in descriptors:
            os.close(one)
        channel.sendall(struct.pack("i", pid))
        channel.sendall(struct.pack("i", os.waitpid(pid, 0)[1]))

(sys.argv[1:], cwd, environment, mask), (out, err) = command()
channel.close()
os.dup2(out, 1)
os.dup2(err, 2)
os.close(out)
os.close(err)
os.environ.clear()
os.environ.update(environment)
time.tzset()
os.chdir(cwd)
os.umask(mask)
sys.path[0] = os.getcwd()
runpy.run_module("roxy", run_name="__main__", alter_sys=True)
"""


@dataclass(frozen=True)
class _Server:
    """A process that has all of roxy loaded."""

    process: subprocess.Popen[bytes]
    channel: socket.socket

    @classmethod
    def start(cls) -> _Server:
        ours, theirs = socket.socketpair()
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-c", _SERVER, str(theirs.fileno())],
                env={"PATH": os.environ["PATH"], **_ENV},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
            )
        return cls(process, ours)

    def end(self) -> None:
        self.channel.close()
        self.process.wait()

    def command(
        self, arguments: Sequence[str], cwd: Path, env: Mapping[str, str], timeout: float
    ) -> tuple[int, bytes, bytes]:
        mask = os.umask(0)
        os.umask(mask)
        text = json.dumps([arguments, str(cwd), dict(env), mask]).encode()
        with contextlib.ExitStack() as stack:
            readers, writers = [], []
            for _ in ("out", "err"):
                reader, writer = os.pipe()
                readers.append(stack.enter_context(os.fdopen(reader, "rb", 0)))
                writers.append(writer)
            try:
                socket.send_fds(self.channel, [_NUMBER.pack(len(text))], writers)
            finally:
                for writer in writers:
                    os.close(writer)
            self.channel.sendall(text)
            pid = self._number()
            try:
                out, err = _read_all(readers, time.monotonic() + timeout, pid)
            finally:
                status = self._number()
            return os.waitstatus_to_exitcode(status), out, err

    def _number(self) -> int:
        data = b""
        while len(data) < _NUMBER.size:
            some = self.channel.recv(_NUMBER.size - len(data))
            assert some, "the process that has roxy loaded is gone"
            data += some
        (number,) = _NUMBER.unpack(data)
        return int(number)


def _read_all(readers: list[Any], end: float, pid: int) -> list[bytes]:
    """Return all that comes out of some pipes; kill the process that does not end."""
    found = dict.fromkeys(readers, b"")
    with selectors.DefaultSelector() as selector:
        for reader in readers:
            selector.register(reader, selectors.EVENT_READ)
        while selector.get_map():
            if time.monotonic() > end:
                os.kill(pid, signal.SIGKILL)
                raise AssertionError("roxy hangs")
            for key, _ in selector.select(1):
                some = os.read(key.fd, 1 << 16)
                found[key.fileobj] += some
                if not some:
                    selector.unregister(key.fileobj)
    return list(found.values())


_servers: list[_Server] = []


def command(
    arguments: Sequence[str], cwd: Path, env: Mapping[str, str], timeout: float
) -> tuple[int, bytes, bytes] | None:
    """Run roxy to its end; return its code and what it printed, None when it needs a real start."""
    matters = {name: one for name, one in env.items() if name.startswith(("PYTHON", "LANG", "LC_"))}
    if (
        matters != _ENV
        or os.geteuid() != os.getuid()
        or threading.current_thread() is not threading.main_thread()
    ):
        return None
    if not _servers:
        _servers.append(_Server.start())
    return _servers[0].command(arguments, cwd, env, timeout)


def end() -> None:
    """End what was started for this."""
    while _servers:
        _servers.pop().end()
