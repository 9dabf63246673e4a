"""However roxy ends, nothing of its check's process group is left, at the latest after the next one.

The check of these tests has a leader, a child in the background and one that does not hear TERM.
What a run that ends by itself leaves is in `test_process.py`, what a signal leaves in
`test_signals.py`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from handshake import Sleeper, hooked, on_linux, state, until
from project import HANG

if TYPE_CHECKING:
    from collections.abc import Iterator

    from project import Project

CHECK = """
[ -e "$HOME/once" ] && exec grep -q hello src/greeting.txt
: >"$HOME/once"
{sleeper} &
(trap "" TERM; {sleeper}) &
echo $$ >"$HOME/leader"
{then}
"""
"""Leaves three processes in its first run: itself too, unless it ends there."""
MEMBERS = 2
"""Processes besides the leader; the subshell is one that runs no sleeper itself."""
KILL_IN_GRACE = """
import os, signal, sys
if os.environ.pop("KILL_IN_GRACE", ""):
    has_asked = False
    def hook(event, arguments):
        global has_asked
        if event == "os.kill":
            has_asked = has_asked or arguments[1] == signal.SIGTERM
        elif has_asked:
            os.kill(os.getpid(), signal.SIGKILL)
    sys.addaudithook(hook)
"""
"""Kills roxy once it has asked all of a group to end, before it looks who is left."""


class Stage:
    """A project whose check starts a group and stays, or ends and leaves it."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.home = Path(os.environ["HOME"])
        self.sleeper = Sleeper()
        project.greet('. "$HOME/check.sh"')
        self.check(f"exec {self.sleeper.command}")

    def check(self, then: str) -> None:
        """Choose what the leader does in its first run."""
        text = CHECK.replace("{sleeper}", self.sleeper.command).replace("{then}", then)
        (self.home / "check.sh").write_text(text)

    def group(self) -> list[int]:
        """Return who of the group is at work, whatever it runs."""
        leader = int((self.home / "leader").read_text())
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
        return [pid for pid in pids if _group_of(pid) == leader and state(pid) != "Z"]

    def assert_nothing_is_left(self) -> None:
        assert not self.group()
        assert not self.sleeper.pids()


def _group_of(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return -1


@pytest.fixture
def stage(project: Project) -> Iterator[Stage]:
    stage = Stage(project)
    yield stage
    stage.sleeper.end()


@on_linux
@pytest.mark.rule("S24", "S25")
def test_nothing_of_the_group_is_left_when_roxy_cannot_write_the_log(stage: Stage) -> None:
    stage.check(f"head -c 1000000 /dev/zero; exec {stage.sleeper.command}")
    done = subprocess.run(
        ["sh", "-c", 'ulimit -f 100; exec "$@"', "sh", sys.executable, "-m", "roxy", "verify"],
        cwd=stage.project.root,
        capture_output=True,
        check=False,
        timeout=HANG,
    )
    assert done.returncode == 2
    assert b"File too large" in done.stderr
    stage.assert_nothing_is_left()


@on_linux
@pytest.mark.rule("S24", "S33")
def test_nothing_of_the_group_is_left_by_the_next_command_after_a_kill(stage: Stage) -> None:
    with stage.project.started("verify") as roxy:
        stage.sleeper.until_run_by(1 + MEMBERS)
        roxy.kill()
        roxy.wait(HANG)
    assert len(stage.group()) > MEMBERS
    assert stage.project.roxy("gate").code == 1
    stage.assert_nothing_is_left()


@on_linux
@pytest.mark.rule("S24", "S33")
def test_nothing_of_the_group_is_left_when_roxy_is_killed_while_it_ends_it(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """First verify is killed in the grace that it gives, then so is the command that recovers."""
    for name, value in hooked(stage.home / "hook", KILL_IN_GRACE).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("KILL_IN_GRACE", "1")
    stage.check(f'until [ -e "$HOME/all" ]; do sleep 0.01; done; {stage.sleeper.command} & exit 0')
    for command in ("verify", "status"):
        with stage.project.started(command) as roxy:
            if command == "verify":
                stage.sleeper.until_run_by(MEMBERS)
                (stage.home / "all").touch()
            assert roxy.wait(HANG) == -signal.SIGKILL
        assert stage.group()
    monkeypatch.delenv("KILL_IN_GRACE")
    assert "ended process group" in stage.project.roxy("status").err
    stage.assert_nothing_is_left()


KILL_BEFORE_IT_GOES = """
import os, signal, sys
if "KILL_BEFORE_IT_GOES" in os.environ:
    del os.environ["KILL_BEFORE_IT_GOES"]
    def hook(event, arguments):
        if event == "os.rename" and "run.json" in str(arguments[1]):
            os.kill(os.getpid(), signal.SIGKILL)
    sys.addaudithook(hook)
"""


@on_linux
@pytest.mark.rule("S28", "S33")
def test_a_check_whose_roxy_is_killed_before_it_is_noted_never_begins_and_is_gone(
    stage: Stage,
) -> None:
    env = hooked(stage.home / "hook", KILL_BEFORE_IT_GOES) | {"KILL_BEFORE_IT_GOES": "1"}
    assert stage.project.roxy("verify", env=env).code == -signal.SIGKILL
    note = stage.project.state / "journal/run.json.new"
    pid = int(note.read_text().partition('"pid": ')[2].partition(",")[0])
    until(lambda: state(pid) in "Z-", "the check that was never let go is gone")
    assert not (stage.home / "once").exists()
