"""A real repository to try roxy on, and roxy as a real process."""

from __future__ import annotations

import contextlib
import difflib
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import warm

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

HANG = 120
"""Seconds after which a process is taken for hung; nothing waits that long when all is well."""
MEASURE = """
import os, subprocess, sys
process = subprocess.Popen([sys.executable, "-m", "roxy", *sys.argv[1:]])
_, status, usage = os.wait4(process.pid, 0)
print(os.waitstatus_to_exitcode(status), usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024))
"""
"""Prints roxy's exit code and peak memory; small, since a child's peak begins at its parent's."""
LONG_AGO = 1_000_000_000
"""A time that every file system can hold and that is in nobody's way."""


@dataclass(frozen=True)
class Done:
    """How one roxy ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        value: dict[str, Any] = json.loads(self.out)
        return value


@dataclass(frozen=True)
class Project:
    """One working tree."""

    root: Path

    @classmethod
    def make(cls, root: Path) -> Project:
        root.mkdir(parents=True)
        made = cls(root)
        made.git("init", "--quiet")
        return made

    # ---------------------------------------------------------------- files

    def write(self, path: str, content: str | bytes, mode: int | None = None) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        if mode is not None:
            file.chmod(mode)
        return file

    def read(self, path: str) -> bytes:
        return (self.root / path).read_bytes()

    def mutation(self, path: str, old: str, new: str, patch: str = "mutations/it.patch") -> str:
        """Write the patch that turns `old` into `new` in one file, and return its path."""
        before = self.read(path).decode()
        assert old in before
        after = before.replace(old, new, 1)
        body = difflib.unified_diff(
            before.splitlines(keepends=True),
            after.splitlines(keepends=True),
            f"a/{path}",
            f"b/{path}",
        )
        lines = "".join(
            line if line.endswith("\n") else line + "\n\\ No newline at end of file\n"
            for line in body
        )
        self.write(patch, f"diff --git a/{path} b/{path}\n{lines}")
        return patch

    def check(
        self,
        run: str,
        *,
        claim: str = "greeting",
        name: str = "text",
        covers: tuple[str, ...] = ("src/**",),
        mutation: str | tuple[str, ...] = "mutations/it.patch",
        keys: str = "",
    ) -> None:
        """Add one check to roxy.toml; `keys` are further lines of it."""
        text = self.read("roxy.toml").decode() if (self.root / "roxy.toml").exists() else ""
        patches = quoted(mutation if isinstance(mutation, str) else list(mutation))
        text += (
            f"[claims.{quoted(claim)}.checks.{quoted(name)}]\n"
            f"run = {quoted(run)}\ncovers = {quoted(list(covers))}\n"
            f"mutation = {patches}\n{keys}\n"
        )
        self.write("roxy.toml", text)

    def greet(self, run: str = "grep -q hello src/greeting.txt", keys: str = "") -> None:
        """Make the smallest project that can be verified: one file, one check."""
        file = self.write("src/greeting.txt", "one\nhello\nthree\n")
        self.mutation("src/greeting.txt", "hello", "howdy")
        self.check(run, keys=keys)
        os.utime(file, (LONG_AGO, LONG_AGO))  # so that no verify has to wait for the clock (S30)

    # ---------------------------------------------------------------- git

    def git(self, *arguments: str) -> str:
        done = subprocess.run(
            ["git", *arguments], cwd=self.root, capture_output=True, check=True, timeout=HANG
        )
        return done.stdout.decode()

    def commit(self, message: str = "change") -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", message)

    @property
    def state(self) -> Path:
        """roxy's own folder."""
        return self.root / self.git("rev-parse", "--git-path", "roxy").strip()

    # ---------------------------------------------------------------- roxy

    def roxy(
        self, *arguments: str, env: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> Done:
        """Run roxy to its end."""
        where, environment = cwd or self.root, os.environ | dict(env or {})
        ended = warm.command(arguments, where, environment, HANG)
        if ended is None:
            return self.roxy_anew(*arguments, env=env, cwd=cwd)
        code, out, err = ended
        return Done(code, out.decode(), err.decode())

    def roxy_anew(
        self, *arguments: str, env: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> Done:
        """Run roxy to its end as the system starts it."""
        done = subprocess.run(
            [sys.executable, "-m", "roxy", *arguments],
            cwd=cwd or self.root,
            env=os.environ | dict(env or {}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=HANG,
        )
        return Done(done.returncode, done.stdout.decode(), done.stderr.decode())

    def measured(self, *arguments: str) -> tuple[Done, int]:
        """Run roxy to its end, and return the most bytes of memory that it took, too."""
        done = subprocess.run(
            [sys.executable, "-c", MEASURE, *arguments],
            cwd=self.root,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
            timeout=HANG,
        )
        *lines, last = done.stdout.decode().splitlines(keepends=True)
        code, peak = map(int, last.split())
        return Done(code, "".join(lines), done.stderr.decode()), peak

    @contextlib.contextmanager
    def started(self, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
        """Start roxy in a session of its own and leave it to the test, at whose end all is ended."""
        process = subprocess.Popen(
            [sys.executable, "-m", "roxy", *arguments],
            cwd=self.root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            left = descendants(process.pid)
            process.kill()
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            process.communicate(timeout=HANG)

    def states(self) -> dict[str, str]:
        """Return each check's state, as `status --json` tells it."""
        report = self.roxy("status", "--json").json
        return {f"{one['claim']}/{one['check']}": one["state"] for one in report["checks"]}

    def snapshot(self) -> dict[str, tuple[str, int, bytes]]:
        """Return kind, mode and content of everything in the tree but `.git` and roxy.lock."""
        found = {}
        for folder, names, files in os.walk(self.root):
            if folder == str(self.root) and ".git" in names:  # a file in a linked worktree
                names.remove(".git")
            for name in (*names, *files):
                path = Path(folder, name)
                relative = str(path.relative_to(self.root))
                mode = path.lstat().st_mode
                if path.is_symlink():
                    found[relative] = ("link", 0, os.fsencode(path.readlink()))
                elif path.is_dir():
                    found[relative] = ("folder", mode, b"")
                elif path.is_file():
                    found[relative] = ("file", mode, path.read_bytes())
                else:
                    found[relative] = ("special", mode, b"")
        found.pop("roxy.lock", None)
        return found


def quoted(value: str | list[str]) -> str:
    """Return a value as TOML has it, which is as JSON has it."""
    return json.dumps(value, ensure_ascii=False)


def descendants(pid: int) -> list[int]:
    """Return who was started by a process, and by those; on Linux, elsewhere nobody."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [one for child in map(int, children) for one in (child, *descendants(child))]


def until(happens: Callable[[], bool]) -> None:
    """Wait for something that another process brings about, however long that takes it."""
    end = time.monotonic() + HANG
    while not happens():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.005)


@contextlib.contextmanager
def in_zone(name: str) -> Iterator[None]:
    """Let this process live in another time zone for a while."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", name)
        time.tzset()
        yield
    time.tzset()
