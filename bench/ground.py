"""Repositories to measure on, a clock, and a row of the table."""

from __future__ import annotations

import argparse
import contextlib
import functools
import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from subprocess import PIPE
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

BIN = Path(sys.executable).parent
ROXY = str(BIN / "roxy")
ENV = {
    **{name: value for name, value in os.environ.items() if name[:4] not in ("GIT_", "PYTH")},
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
}
"""For roxy and its references alike: nothing of the user's makes one of them faster or slower."""
CONTENT = b"hello\n" + (b"-" * 53 + b"\n") * 111
"""Of every file: 6,000 bytes, and a line that mutations break."""
LOCK = """\
# Written by `roxy verify` from what it proved. Do not edit it by hand.
version = 1

[claims.bench]
"""
"""How `roxy.lock` begins; byte for byte what verify writes, or gate would remark on it."""
AGE = 3
"""Seconds after which roxy and git trust the times of a file."""


# ------------------------------------------------------------------- repositories


@dataclass(frozen=True)
class Check:
    """A check of some files, the first of which its mutation breaks."""

    covers: Sequence[str]
    files: Sequence[str]
    before: str = ""
    """A command that the check runs before it looks at its file."""

    @property
    def run(self) -> str:
        return f"{self.before}grep -q hello {self.files[0]}"

    @property
    def patch(self) -> bytes:
        path, line = self.files[0], CONTENT.split(b"\n")[1].decode()
        return (
            f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n"
            f"@@ -1,2 +1,2 @@\n-hello\n+howdy\n {line}\n"
        ).encode()

    @property
    def fingerprint(self) -> str:
        """Computed from the contract alone, so roxy's own answer is put to the test as well."""
        total = hashlib.sha256(b"roxy fingerprint 1\n")
        total.update(_field(b"run", self.run.encode()) + _field(b"mutation", self.patch))
        content = _field(b"content", hashlib.sha256(CONTENT).digest())
        for path in sorted(self.files):
            total.update(_field(b"path", path.encode()) + content)
        return f"sha256:{total.hexdigest()}"


def _field(name: bytes, value: bytes) -> bytes:
    return name + b"\0" + len(value).to_bytes(8, "big") + value


def names(count: int) -> list[str]:
    """Return paths of so many files, a hundred of them in each folder."""
    return [f"src/{i // 100:03}/{i % 100:02}.txt" for i in range(count)]


def everything(count: int) -> Check:
    """Return one check over so many files."""
    return Check(["src/**"], names(count))


def one_each(count: int, files: Sequence[str], before: str) -> list[Check]:
    """Return so many checks that cover one file each, taking the files in turn."""
    return [Check([path], [path], before) for i in range(count) for path in [files[i % len(files)]]]


@contextlib.contextmanager
def repository(
    files: Sequence[str], checks: Sequence[Check], more: Mapping[str, bytes] | None = None
) -> Iterator[Path]:
    """Make a repository in which all is committed, verified and old enough to be trusted."""
    committed = dict.fromkeys(files, CONTENT) | dict(more or {})
    manifest, lock = [], [LOCK]
    for i, check in enumerate(checks):
        name = f"c{i:04}"
        manifest.append(
            f"[claims.bench.checks.{name}]\nrun = {json.dumps(check.run)}\n"
            f'covers = {json.dumps(check.covers)}\nmutation = "mutations/{name}.patch"\n'
        )
        lock.append(f'{name} = "{check.fingerprint}"\n')
        committed[f"mutations/{name}.patch"] = check.patch
    committed["roxy.toml"] = "".join(manifest).encode()
    committed["roxy.lock"] = "".join(lock).encode()
    with tempfile.TemporaryDirectory(prefix="roxy-bench-") as folder:
        git = functools.partial(subprocess.run, cwd=folder, env=ENV, check=True)
        git(["git", "init", "--quiet", "--initial-branch=main"])
        git(["git", "fast-import", "--quiet"], input=_import_stream(committed))
        git(["git", "reset", "--quiet", "--hard"])
        time.sleep(AGE)
        git(["git", "status"], stdout=subprocess.DEVNULL)  # or the next one refreshes the index
        yield Path(folder)


def _import_stream(files: Mapping[str, bytes]) -> bytes:
    """Return one commit for `git fast-import`; adding 100,000 files one by one takes a minute."""
    marks = {content: i for i, content in enumerate(dict.fromkeys(files.values()), start=1)}
    blobs = (
        b"blob\nmark :%d\ndata %d\n%b\n" % (i, len(content), content)
        for content, i in marks.items()
    )
    paths = (b"M 100644 :%d %b\n" % (marks[data], path.encode()) for path, data in files.items())
    commit = b"commit refs/heads/main\ncommitter bench <> 0 +0000\ndata 0\n"
    return b"".join((*blobs, commit, *paths))


# ------------------------------------------------------------------- the clock


@dataclass
class Took:
    """How long a command took, and when it said what."""

    seconds: float = 0
    lines: list[float] = field(default_factory=list)
    """Seconds from its start to each line that it printed on its pipe."""

    @property
    def last_wait(self) -> float:
        """How long a verify waits for the clock: until it prints its last line, the count."""
        return self.lines[-1] - self.lines[-2]

    @property
    def waits_between(self) -> float:
        """What some checks of a verify took longer than the others, where it is more than twice."""
        each = [after - before for before, after in pairwise(self.lines[:-1])]
        usual = statistics.median(each)
        return sum(one - usual for one in each if one > 2 * usual)


def run(argv: Sequence[str], cwd: Path, stdin: Path | None = None, *, code: int = 0) -> Took:
    """Run a command to its end, its output read from a pipe."""
    took = Took()
    with contextlib.ExitStack() as stack:
        source = stack.enter_context(stdin.open("rb")) if stdin else subprocess.DEVNULL
        started = time.perf_counter()
        with subprocess.Popen(argv, cwd=cwd, env=ENV, stdin=source, stdout=PIPE) as process:
            assert process.stdout is not None
            took.lines = [time.perf_counter() - started for _ in process.stdout]
        took.seconds = time.perf_counter() - started
    assert process.returncode == code, f"{argv} ended with {process.returncode}"
    return took


def seconds(argv: Sequence[str], cwd: Path, stdin: Path | None = None) -> Callable[[], float]:
    """Return what runs a command and returns how long it took."""
    return lambda: run(argv, cwd, stdin).seconds


def verify(root: Path) -> Took:
    """Try every check, with no evidence to begin with."""
    (root / "roxy.lock").unlink(missing_ok=True)
    return run([ROXY, "verify"], root)


def loop(commands: Sequence[str], cwd: Path) -> float:
    """Return how long commands take, one after the other, with nothing around them."""
    started = time.perf_counter()
    for command in commands:
        subprocess.run(["sh", "-c", command], cwd=cwd, env=ENV, check=True)
    return time.perf_counter() - started


def medians(rounds: int, *works: Callable[[], float]) -> list[float]:
    """Return the median of what each work returns, all of them in turn in each round."""
    for work in works:  # to warm up
        work()
    taken = [[work() for work in works] for _ in range(rounds)]
    return [statistics.median(column) for column in zip(*taken, strict=True)]


def rounds(default: int) -> int:
    """Return what `--rounds` says."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=default, help=f"default: {default}")
    value: int = parser.parse_args().rounds
    return value


# ------------------------------------------------------------------- the table

HEAD = """\
| work | reference | roxy | reference's | ratio | aim | |
|---|---|--:|--:|--:|---|---|"""


def row(
    work: str, reference: str, mine: str, other: str, ratio: str, aim: str, *, ok: bool
) -> None:
    reached = "reached" if ok else "NOT reached"
    cells = (work, reference, mine, other, ratio, aim, reached)
    print(f"| {' | '.join(cells)} |", flush=True)


def ratio_row(work: str, reference: str, mine: float, other: float, at_most: float) -> None:
    """Print a row about two times in seconds."""
    ratio, aim = mine / other, f"at most {at_most:g} times"
    row(work, reference, ms(mine), ms(other), f"{ratio:.2f}", aim, ok=ratio <= at_most)


def ms(value: float) -> str:
    return f"{value * 1000:,.0f} ms" if value < 10 else f"{value:,.1f} s"
