"""Waiting until a process has done something, and looking for what it left: no sleeps, no guesses."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from project import HANG
from roxy.core import processes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


def until(is_so: Callable[[], object], what: str) -> None:
    """Wait until something is so; fail when it never is."""
    end = time.monotonic() + HANG
    while not is_so():
        if time.monotonic() > end:
            pytest.fail(f"never came about: {what}")
        time.sleep(0.005)


def until_there(path: Path) -> None:
    """Wait until somebody has made a file."""
    until(path.exists, f"{path} is there")


class Sleeper:
    """A command that does nothing for a day, and that can be told from every other."""

    def __init__(self) -> None:
        self.command = f"sleep 86400.{secrets.randbelow(10**9):09}"

    def pids(self) -> list[int]:
        """Return who runs it now."""
        return running(self.command.partition(" ")[2])

    def until_run_by(self, number: int) -> None:
        """Wait until so many run it.

        A shell that says so says it too early: it starts the command only afterwards.
        """
        until(lambda: len(self.pids()) == number, f"{number} run `{self.command}`")

    def end(self) -> None:
        """End those that are meant to be left."""
        for pid in self.pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def running(argument: str) -> list[int]:
    """Return the processes that have `argument` among theirs; zombies have none."""
    if sys.platform == "linux":
        everybody = [
            (int(name), _arguments(name)) for name in os.listdir("/proc") if name.isdigit()
        ]
    else:
        lines = subprocess.check_output(["ps", "-A", "-o", "pid=,args="], text=True).splitlines()
        everybody = [(int(line.split()[0]), line.split()[1:]) for line in lines]
    return [pid for pid, arguments in everybody if argument in arguments]


def _arguments(pid: str) -> list[str]:
    try:
        return Path("/proc", pid, "cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return []


def state(pid: int) -> str:
    """Return the letter for what a process is at, `-` when it is gone (Linux)."""
    try:
        line = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return "-"
    return chr(line[line.rfind(b")") + 2])


def hooked(folder: Path, script: str) -> dict[str, str]:
    """Return the environment in which every Python first runs `script`, for audit hooks."""
    folder.mkdir(exist_ok=True)
    (folder / "sitecustomize.py").write_text(script)
    return {"PYTHONPATH": f"{folder}{os.pathsep}{os.environ['PYTHONPATH']}"}


def listens(pid: int, signum: int) -> bool:
    """Say whether a process has a handler for a signal (Linux)."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("SigCgt:"):
            return bool(int(line.split()[1], 16) >> (signum - 1) & 1)
    return False


@contextlib.contextmanager
def no_new_child() -> Iterator[None]:
    """Assert that what is within leaves no process of this one, nor what is left of one."""

    def children() -> set[int]:
        looks = [processes.table() for _ in range(2)]  # each may be by a child of its own
        first, second = ({one.pid for one in look if one.parent == os.getpid()} for look in looks)
        return first & second

    before = children()
    yield
    assert children() <= before
