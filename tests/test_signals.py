"""INT, TERM and HUP: whenever they come, the tree is put back and what was proven is kept (S32)."""

from __future__ import annotations

import contextlib
import os
import pty
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from handshake import Sleeper, hooked, on_linux, running, until, until_there
from project import HANG, Done
from roxy.core.errors import Interrupted
from roxy.core.interrupts import SIGNALS, Interrupts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from project import Project

CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}
SECOND = """
n=$(($(cat "$HOME/count" 2>/dev/null || echo 0) + 1))
echo $n >"$HOME/count"
if [ "$n" = "$HOLD" ]; then {hold}; fi
grep -q hello second/greeting.txt
"""
"""The second check: at its run number $HOLD it does something else."""
CLEAN, MUTATED, RESTORED = "1", "2", "3"


class Stage:
    """A project with two checks; the second can stop on its way for the test to send signals."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.home = Path(os.environ["HOME"])
        self.reached = self.home / "reached"
        self.sleeper = Sleeper()
        self.hold(f': >"{self.reached}"; exec {self.sleeper.command}')
        for name in ("first", "second"):
            project.write(f"{name}/greeting.txt", "one\nhello\nthree\n", mode=0o640)
            project.mutation(f"{name}/greeting.txt", "hello", "howdy", f"mutations/{name}.patch")
            project.check(
                "grep -q hello first/greeting.txt"
                if name == "first"
                else 'ROXY=$PPID sh "$HOME/second.sh"',
                claim=name,
                covers=(f"{name}/**",),
                mutation=f"mutations/{name}.patch",
            )
        self.before = project.snapshot()

    def hold(self, what: str) -> None:
        """Choose what the second check does when it gets to the run where it stops."""
        (self.home / "second.sh").write_text(SECOND.replace("{hold}", what))

    @contextlib.contextmanager
    def verify(self, *arguments: str, at: str) -> Iterator[subprocess.Popen[bytes]]:
        """Start a verify whose second check stops at its run number `at`."""
        os.environ["HOLD"] = at
        try:
            with self.project.started("verify", *arguments) as process:
                yield process
        finally:
            del os.environ["HOLD"]

    def lock(self) -> str:
        with contextlib.suppress(FileNotFoundError):
            return self.project.read("roxy.lock").decode()
        return ""

    def runs(self) -> int:
        """Return how many runs of the second check began."""
        return int((self.home / "count").read_text())

    def assert_put_back(self) -> None:
        """Assert that nothing in the tree, in the process table or in the journal is left."""
        assert self.project.snapshot() == self.before
        assert not self.sleeper.pids()
        journal = self.project.state / "journal"
        assert not [path.name for path in journal.glob("*") if path.name != "run.json"]

    def assert_kept(self, *claims: str) -> None:
        """Assert that roxy.lock has evidence for these claims and no others."""
        assert tomllib.loads(self.lock()).get("claims", {}).keys() == set(claims)


@pytest.fixture
def stage(project: Project) -> Iterator[Stage]:
    stage = Stage(project)
    yield stage
    stage.sleeper.end()


def ended(process: subprocess.Popen[bytes]) -> Done:
    out, err = process.communicate(timeout=HANG)
    return Done(process.returncode, out.decode(), err.decode())


# ------------------------------------------------------------------- in each phase


@pytest.mark.rule("S28", "S32")
@pytest.mark.parametrize("at", [CLEAN, MUTATED, RESTORED], ids=["clean", "mutated", "restored"])
@pytest.mark.parametrize("signum", SIGNALS, ids=lambda signum: signum.name)
def test_a_signal_during_a_run_ends_it_restores_the_tree_and_keeps_what_was_proven(
    stage: Stage, at: str, signum: signal.Signals
) -> None:
    with stage.verify(at=at) as roxy:
        until_there(stage.reached)
        roxy.send_signal(signum)
        done = ended(roxy)
    assert done.code == CODES[signum]
    assert done.out.startswith("verified first/text\n")
    assert signum.name in done.err
    assert stage.runs() == int(at)
    stage.assert_put_back()
    stage.assert_kept("first")


@pytest.mark.rule("S32", "S47")
@pytest.mark.parametrize("at", [CLEAN, MUTATED, RESTORED], ids=["clean", "mutated", "restored"])
def test_json_on_an_interrupt_is_one_document_with_what_was_finished(stage: Stage, at: str) -> None:
    with stage.verify("--json", at=at) as roxy:
        until_there(stage.reached)
        roxy.send_signal(signal.SIGTERM)
        done = ended(roxy)
    assert done.code == 143
    document = done.json
    assert document["schema"] == "roxy.report/1"
    checks = {one["claim"]: one for one in document["checks"]}
    assert (checks["first"]["state"], checks["second"]["state"]) == ("verified", "unverified")
    assert checks["second"]["result"] is None


@pytest.mark.rule("S32", "S36")
def test_a_signal_keeps_the_evidence_of_a_check_that_was_not_finished(stage: Stage) -> None:
    assert stage.project.roxy("verify").code == 0
    lock = stage.lock()
    (stage.home / "count").unlink()
    with stage.verify("--all", at=MUTATED) as roxy:
        until_there(stage.reached)
        roxy.send_signal(signal.SIGINT)
        done = ended(roxy)
    assert done.code == 130
    assert done.out == "verified first/text\n1 verified\n"
    assert done.err == "interrupted by SIGINT in `second/text`, run 2 of 3\n"
    stage.assert_put_back()
    assert stage.lock() == lock


@pytest.mark.rule("S32")
@pytest.mark.parametrize("signum", SIGNALS, ids=lambda signum: signum.name)
def test_a_signal_between_two_checks_keeps_the_first_and_does_not_finish_the_second(
    stage: Stage, signum: signal.Signals
) -> None:
    with stage.verify(at=CLEAN) as roxy:
        until(lambda: "[claims.first]" in stage.lock(), "the first check is recorded")
        roxy.send_signal(signum)
        assert ended(roxy).code == CODES[signum]
    stage.assert_put_back()
    stage.assert_kept("first")


SIGNAL_AT = """
import os, sys
if "SIGNAL_AT" in os.environ:
    event, part, occurrence, signum = os.environ.pop("SIGNAL_AT").split("|")
    occurrence, seen, is_at_work = int(occurrence), 0, False
    def hook(name, arguments):
        global seen, is_at_work
        text = repr(arguments)
        is_at_work = is_at_work or "exclusive.lock" in text
        if is_at_work and name.startswith(event) and part in text and "/proc/" not in text:
            seen += 1
            if seen == occurrence: os.kill(os.getpid(), int(signum))
    sys.addaudithook(hook)
    end = os._exit
    def told(code):
        os.write(1, b"%d" % seen)
        end(code)
    if not occurrence: os._exit = told
"""
"""Lets roxy get a signal at one step of its work, a call that Python's audit hooks tell of.

Steps count from the moment at which roxy takes its lock, and looks into /proc are none, since how
many there are depends on the machine. Without a step it prints how many there were.
"""


def signal_at(
    project: Project,
    event: str = "",
    part: str = "",
    occurrence: int = 0,
    signum: signal.Signals = signal.SIGINT,
) -> Done:
    """Verify, and have a signal come at some occurrence of an event with `part` in its arguments."""
    env = hooked(Path(os.environ["HOME"], "hook"), SIGNAL_AT)
    return project.roxy(
        "verify", "--all", env=env | {"SIGNAL_AT": f"{event}|{part}|{occurrence}|{signum:d}"}
    )


@pytest.mark.rule("S28", "S32")
@pytest.mark.parametrize("signum", SIGNALS, ids=lambda signum: signum.name)
def test_a_signal_while_a_file_is_put_back_lets_that_finish_and_then_stops(
    stage: Stage, signum: signal.Signals
) -> None:
    done = signal_at(stage.project, "os.link", "/journal/copy-0", 2, signum)
    assert done.code == CODES[signum]
    assert stage.runs() == 2
    stage.assert_put_back()
    stage.assert_kept("first")


@pytest.mark.rule("S30", "S32")
@pytest.mark.parametrize("signum", SIGNALS, ids=lambda signum: signum.name)
def test_a_signal_after_the_last_check_keeps_everything_and_counts(
    stage: Stage, signum: signal.Signals
) -> None:
    done = signal_at(stage.project, "os.remove", "/receipts/started-", 2, signum)
    assert done.code == CODES[signum]
    assert signum.name in done.err
    stage.assert_put_back()
    stage.assert_kept("first", "second")


@pytest.mark.slow
@pytest.mark.rule("S28", "S32", "S43")
def test_a_signal_at_any_step_leaves_the_tree_as_it_was_and_no_false_evidence(
    project: Project,
) -> None:
    project.greet()
    before = project.snapshot()
    steps = int(signal_at(project).out.split()[-1])
    assert steps > 100
    for step in range(1, steps * 9 // 10, steps // 12):
        done = signal_at(project, occurrence=step)
        assert done.code == 130, (step, done)
        assert project.snapshot() == before
        assert not list((project.state / "journal").glob("[!r]*"))
        is_recorded = "greeting" in project.read("roxy.lock").decode()
        assert is_recorded or "verified greeting/text" not in done.out
        project.write("roxy.lock", "version = 1\n")


# ------------------------------------------------------------------- more than one


@pytest.mark.rule("S28", "S32")
def test_no_number_of_further_signals_skips_the_restoring_or_changes_the_exit_code(
    stage: Stage,
) -> None:
    stage.hold(f'trap "" INT TERM HUP; : >"{stage.reached}"; {stage.sleeper.command}')
    entry = stage.project.state / "journal" / "entry.json"
    with stage.verify(at=MUTATED) as roxy:
        until_there(stage.reached)
        assert entry.exists()
        roxy.send_signal(signal.SIGTERM)
        until(lambda: not entry.exists() or _storm(roxy), "the tree is put back")
        assert ended(roxy).code in CODES.values()  # which came first is a race
    stage.assert_put_back()
    stage.assert_kept("first")


def _storm(process: subprocess.Popen[bytes]) -> None:
    for signum in SIGNALS:
        process.send_signal(signum)


@pytest.mark.rule("S28", "S32")
@pytest.mark.parametrize("signum", SIGNALS, ids=lambda signum: signum.name)
def test_a_signal_to_the_whole_process_group_of_roxy_is_one_to_roxy(
    stage: Stage, signum: signal.Signals
) -> None:
    with stage.verify(at=MUTATED) as roxy:
        until_there(stage.reached)
        os.killpg(roxy.pid, signum)
        assert ended(roxy).code == CODES[signum]
    stage.assert_put_back()
    stage.assert_kept("first")


@pytest.mark.rule("S24", "S32")
def test_a_check_that_stopped_itself_is_ended_by_a_signal_without_a_kill(stage: Stage) -> None:
    stage.hold(f': >"{stage.reached}"; {stage.sleeper.command} & kill -STOP $$')
    with stage.verify(at=MUTATED) as roxy:
        until_there(stage.reached)
        roxy.send_signal(signal.SIGINT)
        assert ended(roxy).code == 130
    stage.assert_put_back()


@pytest.mark.rule("S24", "S32")
def test_a_check_that_signals_roxy_and_passes_has_proven_nothing(stage: Stage) -> None:
    stage.hold("kill -TERM $ROXY")
    with stage.verify(at=RESTORED) as roxy:
        assert ended(roxy).code == 143
    assert stage.runs() == 3
    stage.assert_put_back()
    stage.assert_kept("first")


@on_linux
@pytest.mark.rule("S32")
@pytest.mark.parametrize("command", ["status", "verify"])
def test_a_signal_ends_roxy_while_git_hangs_and_git_with_it(project: Project, command: str) -> None:
    project.greet()
    os.mkfifo(project.root / ".gitignore")
    with project.started(command) as roxy:
        until(lambda: is_listing(project), "git lists the files")
        roxy.send_signal(signal.SIGINT)
        assert ended(roxy).code == 130
    assert not is_listing(project)


SIGNAL_AT_BIRTH = """
import os, signal, subprocess
fork_exec = subprocess._fork_exec
def forked(arguments, *rest):
    pid = fork_exec(arguments, *rest)
    if "AT_BIRTH" in os.environ and "ls-files" in arguments:
        os.kill(os.getpid(), signal.SIGINT)
    return pid
subprocess._fork_exec = forked
"""


@on_linux
@pytest.mark.rule("S32")
def test_a_signal_that_comes_while_git_is_started_leaves_no_git_behind(
    project: Project, tmp_path: Path
) -> None:
    project.greet()
    os.mkfifo(project.root / ".gitignore")  # git hangs there until it is ended
    env = hooked(tmp_path / "hook", SIGNAL_AT_BIRTH) | {"AT_BIRTH": "1"}
    assert project.roxy("status", env=env).code == 130
    assert not is_listing(project)


def is_listing(project: Project) -> bool:
    """Say whether a `git ls-files` is at work in a project (Linux)."""
    with contextlib.suppress(OSError):
        return any(
            Path(f"/proc/{pid}/cwd").readlink() == project.root for pid in running("ls-files")
        )
    return False


# ------------------------------------------------------------------- ignored, and on a terminal


@pytest.mark.rule("S32")
@pytest.mark.parametrize("name", ["HUP", "INT", "TERM"])
def test_a_signal_that_was_ignored_when_roxy_started_stays_ignored(stage: Stage, name: str) -> None:
    gate = stage.home / "gate"
    os.mkfifo(gate)
    stage.hold(f': >"{stage.reached}"; read go <"{gate}"; exit 1')
    with subprocess.Popen(
        ["sh", "-c", f"trap '' {name}; exec \"$0\" -m roxy verify", sys.executable],
        cwd=stage.project.root,
        env=os.environ | {"HOLD": MUTATED},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as roxy:
        until_there(stage.reached)
        roxy.send_signal(getattr(signal, f"SIG{name}"))
        gate.write_text("go\n")
        assert ended(roxy).code == 0
    stage.assert_put_back()
    stage.assert_kept("first", "second")


@pytest.mark.rule("S32")
def test_the_other_signals_still_count_when_one_is_ignored(stage: Stage) -> None:
    with subprocess.Popen(
        ["sh", "-c", "trap '' HUP; exec \"$0\" -m roxy verify", sys.executable],
        cwd=stage.project.root,
        env=os.environ | {"HOLD": MUTATED},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as roxy:
        until_there(stage.reached)
        roxy.send_signal(signal.SIGHUP)
        roxy.send_signal(signal.SIGTERM)
        assert ended(roxy).code == 143
    stage.assert_put_back()


ON_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, "-m", "roxy", "verify"])
"""


@contextlib.contextmanager
def on_a_terminal(stage: Stage) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Start a verify that a terminal controls, and give the other end of that terminal."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", ON_TERMINAL],
        cwd=stage.project.root,
        env=os.environ | {"HOLD": MUTATED, "TERM": "xterm"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    ) as process:
        os.close(theirs)
        yield process, ours


@pytest.mark.rule("S32", "S46")
def test_ctrl_c_on_the_terminal_reaches_roxy_alone_and_restores_the_tree(stage: Stage) -> None:
    with on_a_terminal(stage) as (roxy, terminal):
        until_there(stage.reached)
        os.write(terminal, b"\x03")
        with contextlib.suppress(OSError):  # what Linux gives at the end of a terminal
            while os.read(terminal, 4096):
                pass
        assert roxy.wait(timeout=HANG) == 130
        os.close(terminal)
    stage.assert_put_back()
    stage.assert_kept("first")


@pytest.mark.rule("S32", "S46")
def test_a_terminal_that_is_closed_hangs_roxy_up_and_restores_the_tree(stage: Stage) -> None:
    with on_a_terminal(stage) as (roxy, terminal):
        until_there(stage.reached)
        os.close(terminal)
        assert roxy.wait(timeout=HANG) == 129
    stage.assert_put_back()
    stage.assert_kept("first")


# ------------------------------------------------------------------- the flag itself


@pytest.fixture
def interrupts() -> Iterator[Interrupts]:
    before = {signum: signal.getsignal(signum) for signum in (*SIGNALS, signal.SIGCHLD)}
    interrupts = Interrupts()
    interrupts.install()
    yield interrupts
    interrupts.uninstall()
    for signum, handler in before.items():
        assert signal.getsignal(signum) is handler


def send(signum: signal.Signals) -> None:
    os.kill(os.getpid(), signum)


@pytest.mark.rule("S32")
def test_interrupts_note_the_first_signal_and_no_other(interrupts: Interrupts) -> None:
    interrupts.check()
    assert interrupts.pending is None
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        send(signum)
    assert interrupts.pending == signal.SIGTERM
    for _ in range(2):
        with pytest.raises(Interrupted) as raised:
            interrupts.check()
        assert raised.value.signum == signal.SIGTERM


@pytest.mark.rule("S32")
@pytest.mark.parametrize(
    "wait", [lambda interrupts: interrupts.sleep(HANG), lambda interrupts: interrupts.sleep(0)]
)
def test_interrupts_end_a_sleep_at_once(
    interrupts: Interrupts, wait: Callable[[Interrupts], Any]
) -> None:
    started = time.monotonic()
    send(signal.SIGHUP)
    with pytest.raises(Interrupted):
        wait(interrupts)
    assert time.monotonic() - started < HANG / 2


@pytest.mark.rule("S32")
def test_a_signal_in_the_middle_of_a_sleep_ends_it(interrupts: Interrupts) -> None:
    me = os.getpid()
    with subprocess.Popen(["sh", "-c", f"kill -TERM {me}"]), pytest.raises(Interrupted):
        interrupts.sleep(HANG)


@pytest.mark.rule("S32")
def test_a_sleep_that_nobody_interrupts_takes_its_time(interrupts: Interrupts) -> None:
    started = time.monotonic()
    interrupts.sleep(0.05)
    assert time.monotonic() - started >= 0.05


@pytest.mark.rule("S32")
def test_breakable_work_is_cut_off_by_the_first_signal_and_no_other(
    interrupts: Interrupts,
) -> None:
    tidied_up = False

    def work() -> None:
        nonlocal tidied_up
        with interrupts.breakable():
            try:
                send(signal.SIGTERM)
                time.sleep(HANG)
            finally:
                send(signal.SIGINT)
                tidied_up = True

    with pytest.raises(Interrupted):
        work()
    assert tidied_up
    assert interrupts.pending == signal.SIGTERM


@pytest.mark.rule("S32")
def test_breakable_work_is_not_begun_after_a_signal(interrupts: Interrupts) -> None:
    send(signal.SIGINT)
    with pytest.raises(Interrupted), interrupts.breakable():
        pytest.fail("it was begun")


@pytest.mark.rule("S32")
def test_work_that_is_not_breakable_is_not_cut_off(interrupts: Interrupts) -> None:
    with interrupts.breakable():
        pass
    send(signal.SIGINT)
    assert interrupts.pending == signal.SIGINT


@pytest.mark.rule("S32")
def test_any_number_of_signals_leaves_the_descriptor_readable_once(interrupts: Interrupts) -> None:
    for _ in range(100_000):
        send(signal.SIGINT)
    interrupts.drain()
    with pytest.raises(BlockingIOError):
        os.read(interrupts.fileno(), 1)
