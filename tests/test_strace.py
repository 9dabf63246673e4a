"""A real verify that is killed at its system calls, or told that they fail (S28, S32, S33, S36).

Nothing of roxy's is replaced: `strace` answers for the kernel, to roxy alone and not to its checks.
The suite takes a few calls of each kind; `ROXY_STRACE=all` takes every one, and looks closer.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from inside import stock
from project import HANG, LONG_AGO, Project

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CALLS = [
    *("openat", "write", "fsync", "ftruncate", "mkdir", "mkdirat", "rmdir", "rename", "renameat"),
    *("renameat2", "link", "linkat", "unlink", "unlinkat", "chmod", "fchmod", "fchmodat"),
    "utimensat",
]
HOWS = ["signal=KILL", "error=ENOSPC", "error=EIO", "error=EACCES"]
ALL = os.environ.get("ROXY_STRACE") == "all"
NEED_SPACE = {
    "openat",
    "write",
    "fsync",
    "mkdir",
    "mkdirat",
    "rename",
    "renameat",
    "link",
    "linkat",
}


@pytest.fixture(scope="module")
def strace() -> str:
    """Return where strace is; skip where it is not, or may not watch anybody."""
    path = shutil.which("strace")
    if path is None:
        pytest.skip("strace is not installed")
    tried = subprocess.run(
        [path, "--output=/dev/null", "--trace=close", "--inject=close:error=EIO:when=999", "true"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=HANG,
    )
    if tried.returncode:
        pytest.skip(f"strace may not watch a process here: {tried.stderr.decode().strip()}")
    return path


@dataclass(frozen=True)
class Call:
    """One system call of a verify: the number `number` of its name."""

    name: str
    number: int
    line: str


@dataclass
class Traced:
    """A committed project, whose verify runs under strace."""

    project: Project
    strace: str
    trace: Path
    before: dict[str, tuple[str, int, bytes]] = field(default_factory=dict)

    def verify(self, calls: list[str], inject: str | None = None) -> tuple[int, str]:
        """Verify everything; return the exit code, negative for a signal, and what was told."""
        self.age()
        done = subprocess.run(
            [
                *(self.strace, f"--output={self.trace}"),
                f"--trace={','.join(f'?{name}' for name in calls)}",
                *([f"--inject={inject}"] if inject else []),
                *(sys.executable, "-m", "roxy", "verify", "--all"),
            ],
            cwd=self.project.root,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=HANG,
        )
        return done.returncode, done.stderr.decode()

    def age(self) -> None:
        """Let no verify have to wait for the clock before it mutates (S30)."""
        os.utime(self.project.root / "src/greeting.txt", (LONG_AGO, LONG_AGO))

    def calls(self) -> list[Call]:
        """Return the calls from where roxy begins to write, but for code and for processes."""
        code, told = self.verify(CALLS)
        assert code == 0, told
        numbers: Counter[str] = Counter()
        found: list[Call] = []
        for line in self.trace.read_text(errors="replace").splitlines():
            if call := re.match(r"(\w+)\(", line):
                numbers[call[1]] += 1
                if found or "exclusive.lock" in line:
                    found.append(Call(call[1], numbers[call[1]], line))
        others = (".py", "/lib/", '"/proc')
        return [call for call in found if not any(other in call.line for other in others)]


@pytest.fixture
def traced(project: Project, strace: str, tmp_path: Path) -> Traced:
    project.greet()
    (project.root / "src/greeting.txt").chmod(0o640)
    project.write("src/tool", "#!/bin/sh\n", 0o755)
    project.commit()
    traced = Traced(project, strace, tmp_path / "trace", project.snapshot())
    assert project.roxy("verify").code == 0
    return traced


def some(calls: list[Call], how: str) -> Iterator[Call]:
    """Choose a call of each name, another one for each way to fail."""
    named = defaultdict(list)
    for call in calls:
        if how != "error=ENOSPC" or call.name in NEED_SPACE:
            named[call.name].append(call)
    for number, same in enumerate(named.values()):
        if ALL:
            yield from same
        elif how == "signal=KILL" or number % 2 == HOWS.index(how) % 2:
            place = (1 + HOWS.index(how)) / (1 + len(HOWS))
            yield same[int(len(same) * place)]


@pytest.mark.slow
@pytest.mark.rule("S28", "S32", "S33", "S36", "S43")
@pytest.mark.parametrize("how", HOWS)
def test_a_verify_whose_system_calls_end_it_or_fail_loses_nothing(traced: Traced, how: str) -> None:
    project = traced.project
    codes: Counter[int] = Counter()
    for call in some(traced.calls(), how):
        code, told = traced.verify([call.name], f"{call.name}:{how}:when={call.number}")
        at = f"{how} at {call}: {code}\n{told}"
        codes[code] += 1
        # A covered file that cannot be read rejects its check, so the answer may also be no.
        assert code in ([-9, 0] if how == "signal=KILL" else [0, 1, 2]), at
        assert "a bug in roxy" not in told, at
        if ALL:
            assert project.roxy("status").code == 0, at
        (entry,) = stock(project).report.entries
        assert entry.state in ("verified", "unverified")[: 1 if code == 0 else 2], at
        assert project.snapshot() == traced.before, at
        assert project.git("status", "--porcelain").split() in ([], ["??", "roxy.lock"]), at
        assert not list((project.state).glob("kept/*")), at
        if ALL:
            traced.age()
            assert project.roxy("verify", "--all").code == 0, at
    print(f"\nstrace: {how}: {codes.total()} calls, exit codes {dict(codes)}")  # noqa: T201
    assert codes.total() >= 3
    assert project.roxy("verify", "--all").code == 0
    assert project.states() == {"greeting/text": "verified"}
