"""Eight processes at once, and a hand that kills them: one working tree, then four linked ones.

What a command may say, how it may end and what may be on the disk does not depend on who was first,
so all of it is asserted; only how often each thing happened is chance. To see the figures, and for
the full length:

    ROXY_HAMMER_SECONDS=60 .venv/bin/python -m pytest -q -s tests/test_hammer.py
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
import tomllib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from handshake import Sleeper, listens, on_linux
from project import HANG, Done, Project
from recompute import recomputed, regular_files

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SECONDS = float(os.environ.get("ROXY_HAMMER_SECONDS", "2"))
PROCESSES = 8
LOSER = re.compile(
    r"another roxy is at work in this working tree: "
    r"pid (\d+), `roxy (status|gate|verify)`, since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d"
)
SILENT = "another roxy is at work in this working tree, and has not said which"
COMMANDS = (
    ("status",),
    ("status", "--json"),
    ("gate",),
    ("verify",),
    ("verify", "--json"),
    ("verify", "--all"),
)
CODES = {"status": {0}, "gate": {1}, "verify": {1}}
"""How a command ends that has the tree to itself: one check is rejected every time."""
ENDED_BY = {
    signal.SIGKILL: {-signal.SIGKILL},
    signal.SIGTERM: {143, -signal.SIGTERM},  # the latter when the answer was on its way already
    signal.SIGHUP: {129, -signal.SIGHUP},
}
NEVER = "greeting/unnoticed"
HAPPENS = ("losers", "ended by SIGKILL")
"""What a hammer goes on for until it has been, on however slow a machine."""


# ------------------------------------------------------------------- the ground


@dataclass(frozen=True)
class Anvil:
    """A repository with checks that roxy can verify, and one that it never can."""

    project: Project
    sleeper: Sleeper

    @classmethod
    def make(cls, project: Project) -> Anvil:
        sleeper = Sleeper()
        left = f"{sleeper.command} & "
        project.write("src/greeting.txt", "one\nhello\nthree\n", 0o640)
        project.write("src/tool.sh", "#!/bin/sh\necho hello\n", 0o755)
        project.write("lib/other.txt", "four\nfive\n", 0o604)
        greeting = project.mutation("src/greeting.txt", "hello", "howdy", "mutations/greeting")
        tool = project.mutation("src/tool.sh", "hello", "howdy", "mutations/tool")
        other = project.mutation("lib/other.txt", "five", "six", "mutations/other")
        both = project.mutation("src/greeting.txt", "three", "3", "mutations/both")
        project.check(f"{left}grep -q hello src/greeting.txt", mutation=greeting)
        project.check(
            f"{left}test $(src/tool.sh) = hello && grep -q three src/greeting.txt",
            name="tool",
            mutation=(tool, both),
        )
        project.check(
            f"{left}grep -q four lib/other.txt",
            name=NEVER.partition("/")[2],
            covers=("lib/*",),
            mutation=other,
        )
        project.commit()
        return cls(project, sleeper)

    def evidence(self) -> dict[str, str]:
        """Return all that roxy.lock may ever have."""
        manifest = tomllib.loads(self.project.read("roxy.toml").decode())
        checks = manifest["claims"]["greeting"]["checks"]
        found = {}
        for name, check in checks.items():
            patches = check["mutation"]
            patches = [patches] if isinstance(patches, str) else patches
            files = regular_files(self.project.root, check["covers"][0].partition("/")[0])
            found[name] = recomputed(check["run"], list(map(self.project.read, patches)), files)
        del found[NEVER.partition("/")[2]]
        return found


@pytest.fixture
def anvil(project: Project) -> Iterator[Anvil]:
    anvil = Anvil.make(project)
    yield anvil
    anvil.sleeper.end()


# ------------------------------------------------------------------- the hammers


@dataclass
class Hammer:
    """Starts commands in some working trees, kills some of them, and judges every end."""

    trees: list[Project]
    until: float
    evidence: dict[str, str]
    started: set[int] = field(default_factory=set)
    count: Counter[str] = field(default_factory=Counter)

    def strike(self, seed: int) -> None:
        """Start one command after the other until the time is over and all has happened."""
        chance = random.Random(seed)  # noqa: S311 - so that a run can be had again
        while time.monotonic() < self.until or not all(map(self.count.get, HAPPENS)):
            wait = () if chance.random() < 0.4 else ("--wait", str(HANG))
            tree, command = chance.choice(self.trees), chance.choice(COMMANDS)
            kill = chance.choice((signal.SIGKILL,) * 3 + (signal.SIGTERM, signal.SIGHUP))
            after = chance.uniform(0.05, 2) if chance.random() < 0.5 else None
            with tree.started(*wait, *command) as process:
                self.started.add(process.pid)
                self.count["commands"] += 1
                done, sent = self._end_of(process, kill, after)
            self.judge(command, done, sent)

    def _end_of(
        self, process: subprocess.Popen[bytes], kill: signal.Signals, after: float | None
    ) -> tuple[Done, signal.Signals | None]:
        """Take what a command prints; send it a signal if it is not done soon enough."""
        sent = None
        try:
            out, err = process.communicate(timeout=HANG if after is None else after)
        except subprocess.TimeoutExpired:
            assert after is not None, "a command hangs"
            if kill is signal.SIGKILL or listens(process.pid, kill):
                process.send_signal(kill)
                sent = kill
            out, err = process.communicate(timeout=HANG)
        return Done(process.returncode, out.decode(), err.decode()), sent

    def judge(
        self, command: tuple[str, ...], done: Done, sent: signal.Signals | None = None
    ) -> None:
        """Assert that a command ended as one may."""
        assert "Traceback" not in done.err, done
        assert "bug in roxy" not in done.err, done
        assert f"verified {NEVER}" not in re.findall(r"^verified .*", done.out, re.MULTILINE), done
        if sent is not None and done.code in ENDED_BY[sent]:
            self.count[f"ended by {sent.name}"] += 1
            return
        if done.code == 2:
            holder = LOSER.search(done.err)
            # A holder that has no turn for a second after it took the lock is told of like that.
            assert holder is not None or SILENT in done.err, done
            if holder is not None:
                self.count["losers"] += 1
                assert int(holder.group(1)) in self.started, done
        else:
            assert done.code in CODES[command[0]], (command, done)
            self.count[f"answers of {command[0]}"] += 1
        if "--json" in command:
            self._judge_document(done.json, done.code)

    def _judge_document(self, document: dict[str, Any], code: int) -> None:
        assert document["schema"] == ("roxy.error/1" if code == 2 else "roxy.report/1")
        for check in document.get("checks", ()):
            assert check["state"] != "verified" or check["check"] in self.evidence

    def watch(self, stop: threading.Event) -> None:
        """Read roxy.lock over and over: it always says something, and nothing that is not so."""
        while not stop.wait(0.002):
            for tree in self.trees:
                self.read_lock(tree)

    def read_lock(self, tree: Project) -> dict[str, str]:
        """Return the entries of a lock, which are right."""
        try:
            data = tree.read("roxy.lock")
        except FileNotFoundError:
            return {}
        self.count["reads of roxy.lock"] += 1
        entries: dict[str, str] = tomllib.loads(data.decode()).get("claims", {}).get("greeting", {})
        assert entries.items() <= self.evidence.items()
        return entries

    def conclude(self, tree: Project, before: object) -> None:
        """Assert that nothing is left of all this, and that the checks can be verified."""
        assert tree.roxy("status").code == 0
        assert tree.snapshot() == before
        assert tree.git("status", "--porcelain") in ("?? roxy.lock\n", "")
        assert not (tree.state / "kept").exists()
        self.judge(("verify",), tree.roxy("verify"))
        assert self.read_lock(tree) == self.evidence
        assert tree.snapshot() == before


def hammer(anvil: Anvil, trees: list[Project], seed: int) -> None:
    """Hammer on some working trees, then look at all that is left of it."""
    before = [tree.snapshot() for tree in trees]
    hammer = Hammer(trees, time.monotonic() + SECONDS, anvil.evidence())
    stop = threading.Event()
    with ThreadPoolExecutor(PROCESSES + 1) as pool:
        watching = pool.submit(hammer.watch, stop)
        try:
            for one in [pool.submit(hammer.strike, seed + number) for number in range(PROCESSES)]:
                one.result()
        finally:
            stop.set()
        watching.result()
        list(pool.map(hammer.conclude, trees, before))
    assert not anvil.sleeper.pids()
    assert hammer.count["answers of verify"]
    figures = ", ".join(f"{hammer.count[what]} {what}" for what in sorted(hammer.count))
    sys.stdout.write(f"\n{len(trees)} trees, {SECONDS:g} s: {figures}\n")


# ------------------------------------------------------------------- the tests


@on_linux
@pytest.mark.slow
@pytest.mark.rule("S8", "S28", "S33", "S35", "S43", "S48")
def test_eight_processes_and_kills_on_one_working_tree_break_nothing(anvil: Anvil) -> None:
    hammer(anvil, [anvil.project], seed=1)


@on_linux
@pytest.mark.slow
@pytest.mark.rule("S5", "S8", "S28", "S33", "S35", "S43", "S48")
def test_eight_processes_and_kills_on_four_linked_worktrees_break_nothing(
    anvil: Anvil, tmp_path: Path
) -> None:
    trees = [Project(tmp_path / f"linked-{number}") for number in range(4)]
    for tree in trees:
        anvil.project.git("worktree", "add", "--quiet", "--detach", str(tree.root))
        for path in ("src/greeting.txt", "lib/other.txt"):
            mode = (anvil.project.root / path).stat().st_mode
            (tree.root / path).chmod(mode)
    hammer(anvil, trees, seed=100)
