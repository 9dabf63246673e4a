"""One roxy at a time for one working tree (S8)."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from handshake import hooked, listens, on_linux, until, until_there
from project import HANG
from roxy.core import exclusive
from roxy.core.errors import BusyError
from roxy.core.interrupts import SIGNALS, Interrupts

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

    from project import Project

HOLDER = re.compile(
    r"^error: another roxy is at work in this working tree: "
    r"pid (\d+), `roxy verify`, since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d$",
    re.MULTILINE,
)
COMMANDS = ("status", "verify", "gate")


class Held:
    """A project in which a verify is at its clean run, until it is let go."""

    def __init__(self, project: Project) -> None:
        home = Path(os.environ["HOME"])
        self.project = project
        self.running = home / "running"
        self._gate = home / "gate"
        os.mkfifo(self._gate)
        project.greet(
            f"if [ ! -e {self.running} ]; then : >{self.running}; read go <{self._gate}; fi; "
            "grep -q hello src/greeting.txt"
        )

    @contextlib.contextmanager
    def verify(self) -> Iterator[subprocess.Popen[bytes]]:
        with self.project.started("verify") as process:
            until_there(self.running)
            yield process

    def let_go(self) -> None:
        self._gate.write_text("go\n")


@pytest.fixture
def held(project: Project) -> Held:
    return Held(project)


@contextlib.contextmanager
def locked(project: Project) -> Iterator[None]:
    """Hold the lock like a roxy that has not written its note."""
    project.state.mkdir(exist_ok=True)
    fd = os.open(project.state / "exclusive.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


@pytest.mark.rule("S8")
def test_a_second_command_ends_at_once_naming_pid_command_and_start_of_the_first(
    held: Held,
) -> None:
    with held.verify() as first:
        for command in COMMANDS:
            second = held.project.roxy(command)
            assert (second.code, second.out) == (2, "")
            match = HOLDER.search(second.err)
            assert match is not None, second.err
            assert int(match.group(1)) == first.pid
            assert "--wait SECONDS" in second.err
        held.let_go()
        assert first.wait(timeout=HANG) == 0


@pytest.mark.rule("S8", "S47")
def test_a_second_command_with_json_prints_one_error_document_naming_the_first(held: Held) -> None:
    with held.verify() as first:
        second = held.project.roxy("status", "--json")
        assert second.code == 2
        assert second.json["schema"] == "roxy.error/1"
        (error,) = second.json["errors"]
        assert f"pid {first.pid}, `roxy verify`, since " in error["what"]
        assert "--wait" in error["hint"]


TELL_TRIES = """
import os, sys
if "TELL_TRIES" in os.environ:
    tries, marker = 0, os.environ.pop("TELL_TRIES")
    def hook(event, arguments):
        global tries
        if event == "open" and str(arguments[0]).endswith("/exclusive.lock"):
            tries += 1
            if tries == 3: os.mkdir(marker)
    sys.addaudithook(hook)
"""
"""Makes a marker once roxy tries for the third time to take its lock."""


@pytest.mark.rule("S8")
def test_wait_waits_for_the_first_and_then_does_its_work(
    held: Held, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with held.verify() as first:
        for name, value in hooked(tmp_path / "hook", TELL_TRIES).items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("TELL_TRIES", str(tmp_path / "waits"))
        with held.project.started("--wait", "600", "gate") as second:
            until_there(tmp_path / "waits")
            assert second.poll() is None
            held.let_go()
            assert first.wait(timeout=HANG) == 0
            assert second.wait(timeout=HANG) == 0


@pytest.mark.rule("S8")
def test_wait_gives_up_when_its_seconds_are_over(held: Held) -> None:
    with held.verify():
        started = time.monotonic()
        second = held.project.roxy("status", "--wait", "1")
        assert time.monotonic() - started >= 1
        assert second.code == 2
        assert HOLDER.search(second.err)


class Clock(Interrupts):
    """Stands for `time`, too: only sleeping moves it on."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.mark.rule("S8")
@pytest.mark.parametrize("wait", [1.0, 60.0])
def test_wait_gives_up_soon_after_its_seconds_are_over(
    project: Project, monkeypatch: pytest.MonkeyPatch, wait: float
) -> None:
    clock = Clock()
    monkeypatch.setattr(exclusive, "time", clock)
    with (
        locked(project),
        pytest.raises(BusyError),
        exclusive.exclusive(project.state, "roxy status", wait, clock),
    ):
        pytest.fail("it was not alone")
    assert wait <= clock.now < wait + 0.2


@pytest.mark.rule("S8", "S44")
def test_help_and_version_take_no_lock(held: Held) -> None:
    with held.verify():
        assert held.project.roxy("--help").code == 0
        assert held.project.roxy("verify", "--help").code == 0
        assert held.project.roxy("--version").code == 0
        assert held.project.roxy(env={"_ROXY_COMPLETE": "bash_source"}).code == 0


@pytest.mark.rule("S8", "S33")
def test_the_lock_of_a_killed_roxy_is_free(held: Held) -> None:
    with held.verify() as first:
        first.kill()
        assert first.wait(timeout=HANG) == -signal.SIGKILL
    note = json.loads((held.project.state / "holder.json").read_text())
    assert note["process"]["pid"] == first.pid
    assert held.project.roxy("status").code == 0


@pytest.mark.rule("S8", "S33")
def test_a_lock_file_that_was_removed_or_replaced_is_held_as_long_as_its_holder_lives(
    held: Held,
) -> None:
    lock = held.project.state / "exclusive.lock"
    with held.verify() as first:
        lock.unlink()
        for _ in range(2):  # the second time there is a file again
            second = held.project.roxy("status")
            assert second.code == 2
            assert HOLDER.search(second.err)
        held.let_go()
        assert first.wait(timeout=HANG) == 0
    assert held.project.roxy("gate").code == 0


@pytest.mark.rule("S8")
@pytest.mark.parametrize("arguments", [*COMMANDS, f"--wait {2 * HANG} status"])
def test_a_check_that_calls_roxy_in_the_same_working_tree_gets_2_and_never_waits(
    project: Project, arguments: str
) -> None:
    project.greet(f"python3 -m roxy {arguments} 2>$HOME/err; test $? = 2 && exit 33")
    done = project.roxy("verify")
    assert "the clean run failed with exit code 33" in done.out
    error = (Path(os.environ["HOME"]) / "err").read_text()
    assert "this roxy was started by the one at work in this working tree: pid " in error


@pytest.mark.rule("S8")
def test_a_check_may_call_roxy_in_another_working_tree(project: Project, tmp_path: Path) -> None:
    other = type(project).make(tmp_path / "other")
    other.greet()
    project.greet(f"python3 -m roxy -C {other.root} status && exit 33")
    assert "the clean run failed with exit code 33" in project.roxy("verify").out


@pytest.mark.rule("S5", "S8")
def test_linked_worktrees_do_not_block_each_other(held: Held, tmp_path: Path) -> None:
    held.project.commit()
    held.project.git("worktree", "add", "--quiet", str(tmp_path / "linked"))
    linked = type(held.project)(tmp_path / "linked")
    with held.verify() as first:
        assert held.project.roxy("status").code == 2
        assert linked.roxy("status").code == 0
        assert first.poll() is None


NOTES = {
    "missing": None,
    "damaged": b'{"process": {"pid": 1',
    "without a process": b'{"process": null, "command": "roxy verify", "since": "now"}',
    "about a number that somebody else has": json.dumps(
        {
            "process": {"pid": os.getpid(), "started": "1", "boot": ""},
            "command": "roxy verify",
            "since": "2026-01-01 00:00:00",
        }
    ).encode(),
    "about a dead process": json.dumps(
        {
            "process": {"pid": 2**30, "started": "1", "boot": ""},
            "command": "roxy verify",
            "since": "2026-01-01 00:00:00",
        }
    ).encode(),
    "not text": b"\xff\xfe\0",
}


@pytest.mark.rule("S8", "S48")
@pytest.mark.parametrize("note", NOTES.values(), ids=NOTES)
def test_a_lock_whose_note_is_no_use_is_still_a_lock(project: Project, note: bytes | None) -> None:
    project.greet()
    with locked(project):
        if note is not None:
            (project.state / "holder.json").write_bytes(note)
        done = project.roxy("status")
    assert done.code == 2
    assert done.err.startswith(
        "error: another roxy is at work in this working tree, and has not said which\n"
    )


@pytest.mark.rule("S8", "S48")
def test_a_note_that_is_no_use_does_not_keep_a_free_lock_from_being_taken(
    project: Project,
) -> None:
    project.greet()
    project.state.mkdir()
    (project.state / "holder.json").write_bytes(b"\xff")
    assert project.roxy("status").code == 0


@pytest.mark.rule("S8")
def test_the_lock_is_free_again_while_the_answer_is_still_being_printed(project: Project) -> None:
    project.greet()
    more_than_a_pipe_holds = "x" * 300_000
    project.write(
        "roxy.toml",
        f"[claims.greeting]\ndescription = '{more_than_a_pipe_holds}'\n".encode()
        + project.read("roxy.toml"),
    )
    with project.started("status", "--json") as printing:
        assert printing.stdout is not None
        printing.stdout.read(1)
        assert project.roxy("status").code == 0
        assert printing.poll() is None


@pytest.mark.rule("S8", "S48")
@pytest.mark.parametrize("kind", ["folder", "link"])
def test_something_else_in_place_of_the_lock_is_an_error_that_names_it(
    project: Project, tmp_path: Path, kind: str
) -> None:
    project.greet()
    project.state.mkdir()
    lock = project.state / "exclusive.lock"
    if kind == "folder":
        lock.mkdir()
    else:
        lock.symlink_to(tmp_path / "elsewhere")
    done = project.roxy("status")
    assert done.code == 2
    assert f"cannot open the lock `{lock}`" in done.err
    assert not (tmp_path / "elsewhere").exists()


@on_linux
@pytest.mark.rule("S8", "S32")
@pytest.mark.parametrize(
    ("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_ends_the_wait_for_the_lock(
    project: Project, signum: signal.Signals, code: int
) -> None:
    project.greet()
    with locked(project), project.started("--wait", "600", "verify", "--json") as waiting:
        until(lambda: all(listens(waiting.pid, one) for one in SIGNALS), "roxy has its handlers")
        waiting.send_signal(signum)
        out, _ = waiting.communicate(timeout=HANG)
    assert waiting.returncode == code
    assert json.loads(out)["schema"] == "roxy.error/1"
    assert not (project.root / "roxy.lock").exists()


@pytest.mark.rule("S8")
def test_many_at_once_take_turns(project: Project) -> None:
    project.greet()
    with contextlib.ExitStack() as stack:
        all_of_them = [
            stack.enter_context(project.started("--wait", "600", "status")) for _ in range(4)
        ]
        assert [one.wait(timeout=HANG) for one in all_of_them] == [0, 0, 0, 0]
