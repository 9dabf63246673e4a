"""The whole tool, killed and edited under: the tree comes back, and nobody's bytes go (S28-S36)."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ground import snapshot
from handshake import Sleeper, hooked, until
from project import HANG, LONG_AGO, Project
from roxy.core import processes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ground import Seen

GREETING = b"one\nhello\nthree\n"
MUTATED = b"one\nhowdy\nthree\n"
FOREIGN = b"one\nmy own work\n"
HOLDING = """
n=$(($(cat "$HOME/count" 2>/dev/null || echo 0) + 1))
echo $n >"$HOME/count"
if [ "$n" = "$HOLD" ]; then
  echo $$ >"$HOME/leader"
  {background}
  {sleep}
fi
grep -q hello src/greeting.txt
"""
"""A check that stays in its run number $HOLD until it is ended."""


def tree(project: Project) -> dict[bytes, Seen]:
    """Return everything in the working tree but what git and roxy own."""
    found = snapshot(project.root)
    return {
        path: seen
        for path, seen in found.items()
        if path not in (b".git", b"roxy.lock") and not path.startswith(b".git/")
    }


class Stage:
    """A project whose check can be met in any of its runs."""

    def __init__(self, project: Project, background: str = "") -> None:
        self.project = project
        self.home = Path(os.environ["HOME"])
        self.sleeper = Sleeper()
        self.members = 2 if background else 1
        script = HOLDING.replace("{background}", background.format(self.sleeper.command))
        (self.home / "check.sh").write_text(script.replace("{sleep}", self.sleeper.command))
        project.greet('. "$HOME/check.sh"')
        (project.root / "src/greeting.txt").chmod(0o640)
        project.commit()
        self.before = tree(project)

    def kill_in_run(self, number: int) -> None:
        """Kill roxy, and nothing else, while its check is in a certain run."""
        os.environ["HOLD"] = str(number)
        (self.home / "count").unlink(missing_ok=True)
        try:
            with self.project.started("verify") as process:
                self.sleeper.until_run_by(self.members)
                process.send_signal(signal.SIGKILL)
                process.wait(HANG)
        finally:
            del os.environ["HOLD"]

    @property
    def runs(self) -> int:
        return int((self.home / "count").read_text())

    def copy(self) -> Path:
        """Return the copy of the mutated file."""
        (copy,) = (self.project.state / "journal").glob("copy-*")
        return copy


@pytest.fixture
def stage(project: Project) -> Iterator[Stage]:
    stage = Stage(project)
    yield stage
    stage.sleeper.end()


# ------------------------------------------------------------------- killed


@pytest.mark.rule("S28", "S33")
@pytest.mark.parametrize("run", [1, 2, 3], ids=["clean", "mutated", "restored"])
def test_after_a_kill_in_any_run_status_ends_the_check_and_restores(stage: Stage, run: int) -> None:
    project = stage.project
    stage.kill_in_run(run)
    assert project.read("src/greeting.txt") == (MUTATED if run == 2 else GREETING)
    assert stage.sleeper.pids()
    done = project.roxy("status")
    assert done.code == 0
    assert not stage.sleeper.pids()
    assert tree(project) == stage.before
    assert "ended process group" in done.err
    assert ("restored `src/greeting.txt`" in done.err) == (run == 2)
    assert ("killed at `greeting/text`" in done.err) == (run == 2)
    assert "unverified" in done.out
    assert "killed" not in project.roxy("status").err
    assert b"greeting" not in project.read("roxy.lock")


@pytest.mark.rule("S33")
@pytest.mark.parametrize("command", [["verify"], ["gate"], ["status", "--json"]])
def test_after_a_kill_any_command_restores_before_it_reads_roxy_toml(
    stage: Stage, command: list[str]
) -> None:
    stage.kill_in_run(2)
    stage.project.write("roxy.toml", "not [ toml")
    done = stage.project.roxy(*command)
    assert done.code == 2
    assert "restored `src/greeting.txt`" in done.err
    assert stage.project.read("src/greeting.txt") == GREETING
    assert not stage.sleeper.pids()
    assert stage.runs == 2
    if "--json" in command:
        assert done.json["schema"] == "roxy.error/1"


@pytest.mark.rule("S29", "S33")
def test_an_edit_made_after_a_kill_is_kept_and_named(stage: Stage) -> None:
    stage.kill_in_run(2)
    stage.project.write("src/greeting.txt", FOREIGN)
    done = stage.project.roxy("status", "--json")
    (kept,) = (stage.project.state / "kept").iterdir()
    assert kept.read_bytes() == FOREIGN
    assert f"`{kept}`" in done.err
    assert "`src/greeting.txt` held something else" in done.err
    assert done.json["schema"] == "roxy.report/1"
    assert done.json["kept"] == [{"path": "src/greeting.txt", "place": str(kept)}]
    assert stage.project.roxy("status", "--json").json["kept"] == []
    assert tree(stage.project) == stage.before


@pytest.mark.rule("S29", "S33", "S47")
def test_verify_too_reports_an_edit_that_was_made_after_a_kill(stage: Stage) -> None:
    stage.kill_in_run(2)
    stage.project.write("src/greeting.txt", FOREIGN)
    done = stage.project.roxy("verify", "--json")
    (kept,) = (stage.project.state / "kept").iterdir()
    assert done.json["kept"] == [{"path": "src/greeting.txt", "place": str(kept)}]
    assert [check["kept"] for check in done.json["checks"]] == [[]]


KILL_AT = """
import os, signal, sys
left = int(os.environ["KILL_AT"])
def watch(event, arguments):
    global left
    if event.startswith(("os.", "open")) and any("journal" in str(one) for one in arguments[:2]):
        left -= 1
        if left < 0 and os.getpid() == me:
            os.kill(me, signal.SIGKILL)
me = os.getpid()
sys.addaudithook(watch)
"""


@pytest.mark.slow
@pytest.mark.rule("S33")
def test_recovery_that_is_killed_at_every_step_goes_on_where_it_was(stage: Stage) -> None:
    stage.kill_in_run(2)
    stage.project.write("src/greeting.txt", FOREIGN)
    env = hooked(stage.home / "hook", KILL_AT)
    for step in itertools.count():
        done = stage.project.roxy("status", env=env | {"KILL_AT": str(step)})
        if done.code != -signal.SIGKILL:
            break
    assert done.code == 0
    assert step > 8
    assert tree(stage.project) == stage.before
    assert not stage.sleeper.pids()
    kept = [path.read_bytes() for path in (stage.project.state / "kept").iterdir()]
    assert kept == [FOREIGN]


@pytest.mark.slow
@pytest.mark.rule("S28", "S33", "S36")
def test_a_verify_that_is_killed_at_any_step_loses_nothing(project: Project) -> None:
    project.greet()
    project.commit()
    before = project.snapshot()
    env = hooked(Path(os.environ["HOME"], "hook"), KILL_AT)
    killed_mutated = 0
    for step in range(3, 1000, 9):
        done = project.roxy("verify", "--all", env=env | {"KILL_AT": str(step)})
        if done.code != -signal.SIGKILL:
            break
        assert project.snapshot().keys() == before.keys()
        killed_mutated += project.read("src/greeting.txt") == MUTATED
        assert project.roxy("status").code == 0
        assert project.snapshot() == before
    assert done.code == 0
    assert killed_mutated >= 1
    assert not (project.state / "kept").exists()


# ------------------------------------------------------------------- whom it ends


@pytest.mark.rule("S33")
def test_members_of_the_group_are_ended_also_when_their_leader_is_gone(project: Project) -> None:
    stage = Stage(project, background="{} &")
    try:
        stage.kill_in_run(2)
        leader = int((stage.home / "leader").read_text())
        who = processes.identity(leader)
        assert who is not None
        os.kill(leader, signal.SIGKILL)
        until(lambda: not processes.is_running(who), "the leader is gone")
        assert stage.sleeper.pids()
        done = project.roxy("status")
        assert done.code == 0
        assert f"ended process group {leader}" in done.err
        assert not stage.sleeper.pids()
        assert tree(project) == stage.before
    finally:
        stage.sleeper.end()


@pytest.mark.rule("S33")
@pytest.mark.parametrize("other", ["start time", "boot", "pid"])
def test_a_process_that_only_has_the_number_of_a_check_is_never_ended(
    verified: Project, other: str
) -> None:
    with subprocess.Popen(["sleep", "1000"], start_new_session=True) as stranger:
        try:
            who = processes.identity(stranger.pid)
            assert who is not None
            note = who.to_json()
            if other == "start time":
                note["started"] = "17"
            elif other == "boot":
                note["boot"] = "another"
            else:
                note |= {"pid": os.getpid(), "started": "17"}
            journal = verified.state / "journal"
            journal.mkdir(exist_ok=True)
            (journal / "run.json").write_text(json.dumps(note))
            done = verified.roxy("gate")
            assert done.code == 0
            assert "ended" not in done.err
            assert stranger.poll() is None
            assert not (journal / "run.json").exists()
        finally:
            stranger.kill()


@pytest.mark.rule("S33")
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere times cannot be put in order")
def test_a_group_that_is_older_than_the_check_is_never_ended(verified: Project) -> None:
    sleeper = Sleeper()
    code = f"{sleeper.command} >/dev/null 2>&1 & echo $$"
    done = subprocess.run(
        ["sh", "-c", code], stdout=subprocess.PIPE, start_new_session=True, check=True
    )
    try:
        sleeper.until_run_by(1)
        (verified.state / "journal").mkdir(exist_ok=True)
        note = {"pid": int(done.stdout), "started": "9" * 15, "boot": processes.boot()}
        (verified.state / "journal/run.json").write_text(json.dumps(note))
        assert "ended" not in verified.roxy("gate").err
        assert sleeper.pids()
    finally:
        sleeper.end()


# ------------------------------------------------------------------- a restore that cannot succeed


@pytest.mark.rule("S33", "S48")
def test_without_a_readable_copy_every_command_stops_until_it_is_mended(stage: Stage) -> None:
    stage.kill_in_run(2)
    copy, aside = stage.copy(), stage.home / "aside"
    copy.rename(aside)
    for command in (["verify", "--all"], ["gate"], ["status"]):
        done = stage.project.roxy(*command)
        assert done.code == 2
        assert "cannot put `src/greeting.txt` back" in done.err
        assert str(copy) in done.err
        assert done.out == ""
    assert stage.runs == 2
    assert stage.project.read("src/greeting.txt") == MUTATED
    aside.rename(copy)
    assert "restored `src/greeting.txt`" in stage.project.roxy("status").err
    assert tree(stage.project) == stage.before


@contextlib.contextmanager
def immutable(path: Path) -> Iterator[None]:
    """Let nobody change a file, root neither."""
    if (
        shutil.which("chattr") is None
        or subprocess.run(["chattr", "+i", path], capture_output=True, check=False).returncode
    ):
        pytest.skip("cannot make a file immutable here")
    try:
        yield
    finally:
        subprocess.run(["chattr", "-i", path], check=True)


@pytest.mark.rule("S33", "S48")
def test_a_file_that_cannot_be_written_stops_every_command_until_it_is_mended(
    stage: Stage,
) -> None:
    stage.kill_in_run(2)
    with immutable(stage.project.root / "src/greeting.txt"):
        for command in (["verify", "--all"], ["status"]):
            done = stage.project.roxy(*command)
            assert done.code == 2
            assert "cannot put `src/greeting.txt` back: Operation not permitted" in done.err
            assert str(stage.copy()) in done.err
            assert stage.copy().read_bytes() == GREETING
        assert stage.runs == 2
    done = stage.project.roxy("verify", "--all")
    assert done.code == 0
    assert "restored `src/greeting.txt`" in done.err
    assert tree(stage.project) == stage.before


@pytest.mark.rule("S33", "S36", "S48")
def test_a_verify_that_cannot_restore_stops_at_once_and_keeps_the_copy(verified: Project) -> None:
    file = verified.root / "src/greeting.txt"
    lock = verified.read("roxy.lock")
    with immutable(file):  # only to learn whether that is possible
        pass
    before = verified.snapshot()
    verified.write("roxy.toml", verified.read("roxy.toml").replace(b"grep -q", b"sh ../check.sh"))
    check = f"grep -q hello '{file}' && exit 0; chattr +i '{file}'; exit 1\n"
    (verified.root.parent / "check.sh").write_text(check)
    verified.write("roxy.toml", verified.read("roxy.toml").replace(b" hello src", b" # src"))
    try:
        done = verified.roxy("verify")
        assert done.code == 2
        assert "cannot put `src/greeting.txt` back" in done.err
        (copy,) = (verified.state / "journal").glob("copy-*")
        assert str(copy) in done.err
        assert copy.read_bytes() == GREETING
        assert verified.read("roxy.lock") == lock
    finally:
        subprocess.run(["chattr", "-i", file], check=True)
    assert "restored `src/greeting.txt`" in verified.roxy("status").err
    before["roxy.toml"] = verified.snapshot()["roxy.toml"]
    assert verified.snapshot() == before


# ------------------------------------------------------------------- an edit at the worst moment

MEDDLING = """
import os, sys
from roxy.core import exchange, tree_writer
from roxy.cli.main import main
rename_at, count = exchange.rename_at, int(os.environ["AT"])
def meddled(*arguments):
    global count
    count -= 1
    if count == -1:
        exec(os.environ["ACT"])
    rename_at(*arguments)
exchange.rename_at = tree_writer.rename_at = meddled
sys.argv = ["roxy", "verify"]
main()
"""
ACTS = {
    "write in place": "open('src/greeting.txt', 'w').write('one\\nmy own work\\n')",
    "save by rename": "os.rename('../saved', 'src/greeting.txt')",
    "delete": "os.unlink('src/greeting.txt')",
    "delete the folder": "import shutil; shutil.rmtree('src')",
}


@pytest.mark.rule("S26", "S28", "S29")
@pytest.mark.parametrize("at", [0, 1], ids=["mutated", "restored"])
@pytest.mark.parametrize("act", ACTS)
def test_an_edit_right_before_a_file_is_exchanged_is_on_the_disk_and_ends_the_try(
    project: Project, act: str, at: int
) -> None:
    project.greet()
    before = project.snapshot()
    (project.root.parent / "saved").write_bytes(FOREIGN)
    done = subprocess.run(
        [sys.executable, "-c", MEDDLING],
        cwd=project.root,
        env=os.environ | {"AT": str(at), "ACT": ACTS[act]},
        capture_output=True,
        check=False,
        timeout=HANG,
    )
    assert done.returncode == 1, done.stderr
    assert b"covered files changed while it ran: `src/greeting.txt`" in done.stdout
    assert "verified" not in project.read("roxy.lock").decode().partition("version")[2]
    if act.startswith("delete"):
        assert project.snapshot() == before
    elif at == 0:
        assert project.read("src/greeting.txt") == FOREIGN
    else:
        assert project.snapshot() == before
        (kept,) = (project.state / "kept").iterdir()
        assert kept.read_bytes() == FOREIGN
        assert os.fsencode(kept) in done.stderr
    assert not list((project.state / "journal").glob("*"))


# ------------------------------------------------------------------- another device


@pytest.mark.rule("S28", "S33")
def test_a_git_directory_on_another_device_changes_nothing_of_all_this(tmp_path: Path) -> None:
    other = Path("/dev/shm")  # noqa: S108 - a folder of its own in it
    if not other.is_dir() or other.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("needs a second file system")
    with tempfile.TemporaryDirectory(dir=other) as git:
        root = tmp_path / "project"
        subprocess.run(["git", "init", "-q", f"--separate-git-dir={git}/git", root], check=True)
        stage = Stage(Project(root))
        try:
            stage.kill_in_run(2)
            assert root.joinpath("src/greeting.txt").read_bytes() == MUTATED
            assert "restored `src/greeting.txt`" in stage.project.roxy("status").err
            assert tree(stage.project) == stage.before
            assert stage.project.roxy("verify").code == 0
            assert tree(stage.project) == stage.before
        finally:
            stage.sleeper.end()


# ------------------------------------------------------------------- time

DATES = {"now": 0, "one second ahead": 1, "an hour ahead": 3600, "long ago": None}


def date(file: Path, ahead: float | None) -> None:
    now = LONG_AGO if ahead is None else time.time() + ahead
    os.utime(file, (now, now))


@pytest.mark.rule("S30")
@pytest.mark.parametrize("dated", DATES)
def test_a_mutation_of_the_same_size_and_the_users_next_edit_are_not_hidden_by_bytecode(
    project: Project, dated: str
) -> None:
    module = project.write("src/answer.py", "VALUE = 1\n")
    project.write(".gitignore", "__pycache__\n")
    project.mutation("src/answer.py", "1", "2")
    run = "import sys; sys.path.insert(0, 'src'); import answer; print(answer.VALUE)"
    project.check(f'[ "$(python -c "{run}")" = 1 ]', covers=("src/*.py",))
    date(module, DATES[dated])
    done = project.roxy("verify")
    assert done.code == 0, done.out
    assert list(project.root.glob("src/__pycache__/answer.*.pyc"))
    module.write_text("VALUE = 3\n")
    answer = subprocess.run(
        [sys.executable, "-c", run], cwd=project.root, capture_output=True, check=True
    )
    assert answer.stdout == b"3\n"


@pytest.mark.rule("S30")
@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
@pytest.mark.parametrize("dated", DATES)
def test_a_mutation_and_the_users_next_edit_are_not_hidden_by_make(
    project: Project, dated: str
) -> None:
    project.greet("make -s program && grep -q hello program")
    project.write("Makefile", "program: src/greeting.txt\n\tcp src/greeting.txt program\n")
    project.write(".gitignore", "program\n")
    date(project.root / "src/greeting.txt", DATES[dated])
    done = project.roxy("verify")
    assert done.code == 0, done.out
    assert make(project) == GREETING
    project.write("src/greeting.txt", FOREIGN)
    assert make(project) == FOREIGN


def make(project: Project) -> bytes:
    subprocess.run(["make", "-s", "program"], cwd=project.root, capture_output=True, check=True)
    return project.read("program")


@pytest.mark.rule("S30")
@pytest.mark.parametrize("dated", DATES)
def test_times_only_move_forward_and_verify_ends_in_a_later_second(
    project: Project, dated: str
) -> None:
    project.greet("stat -c %Y src/greeting.txt >>../times; grep -q hello src/greeting.txt")
    file = project.root / "src/greeting.txt"
    date(file, DATES[dated])
    assert project.roxy("verify").code == 0
    assert int(time.time()) > int(file.stat().st_mtime)
    clean, mutated, restored = map(int, (project.root.parent / "times").read_text().split())
    assert clean != mutated
    assert clean < mutated or dated == "an hour ahead"
    assert mutated < restored
    assert restored == int(file.stat().st_mtime)


@pytest.mark.rule("S30", "S33")
def test_status_that_restores_waits_too(stage: Stage) -> None:
    stage.kill_in_run(2)
    mutated = int((stage.project.root / "src/greeting.txt").stat().st_mtime)
    assert stage.project.roxy("status").code == 0
    restored = int((stage.project.root / "src/greeting.txt").stat().st_mtime)
    assert mutated < restored < int(time.time())


# ------------------------------------------------------------------- roxy.lock


@pytest.mark.rule("S35")
def test_verify_all_that_proves_the_same_leaves_the_lock_alone(verified: Project) -> None:
    lock = verified.root / "roxy.lock"
    before = lock.stat()
    assert verified.roxy("verify", "--all").code == 0
    after = lock.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


@pytest.mark.rule("S35", "S36")
def test_a_rejected_check_loses_its_entry_by_a_new_file_in_the_place_of_the_old(
    verified: Project,
) -> None:
    lock = verified.root / "roxy.lock"
    other_name = verified.root.parent / "other name"
    os.link(lock, other_name)
    before = lock.read_bytes()
    verified.write("src/greeting.txt", "one\nhello\nfour\n")
    verified.mutation("src/greeting.txt", "one", "two")
    done = verified.roxy("verify")
    assert done.code == 1
    assert b"greeting" in before
    assert b"greeting" not in lock.read_bytes()
    assert other_name.read_bytes() == before
    assert not os.path.samefile(lock, other_name)
