"""What a check may do as a process, and that nothing of it is left afterwards (S6, S22-S25, S33)."""

from __future__ import annotations

import json
import os
import platform
import resource
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from handshake import Sleeper, on_linux, running, state, until_there
from project import HANG
from roxy.core import processes
from roxy.core.process import GRACE, end_group
from roxy.core.processes import Identity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from project import Project

RUN = """
import json, os, sys
from pathlib import Path
from roxy.core.interrupts import Interrupts
from roxy.core.process import Runner, adopt_orphans

interrupts = Interrupts()
interrupts.install()
adopt_orphans()
runner = Runner(Path.cwd(), dict(os.environ), interrupts, note=lambda who: None)
ended = runner.run(sys.argv[1], Path("log"), on_output=lambda chunk: None, on_tick=lambda: None)
print(json.dumps([ended.exit, ended.signal, ended.seconds]))
"""
"""Runs its first argument as roxy runs a check, in a process of its own, once."""


@dataclass(frozen=True)
class Ran:
    """How one command ended, and what its log holds."""

    exit: int | None
    signal: int | None
    seconds: float
    log: bytes


@dataclass(frozen=True)
class Commands:
    """Runs commands in a folder, the way roxy does."""

    folder: Path

    def run(
        self, command: str, before: str = "", after_start: Callable[[], None] | None = None
    ) -> Ran:
        """Run a command to its end; `before` is Python that comes first in its roxy."""
        with subprocess.Popen(
            [sys.executable, "-c", before + RUN, command],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        ) as process:
            if after_start is not None:
                after_start()
            out, _ = process.communicate(timeout=HANG)
        assert process.returncode == 0
        return Ran(*json.loads(out), (self.folder / "log").read_bytes())

    def script(self, name: str, text: str) -> str:
        """Write a Python script and return the command that runs it."""
        (self.folder / name).write_text(text)
        return f"python3 {name}"


@pytest.fixture
def commands(tmp_path: Path) -> Commands:
    return Commands(tmp_path)


@pytest.fixture
def sleeper() -> Iterator[Sleeper]:
    sleeper = Sleeper()
    yield sleeper
    sleeper.end()


# ------------------------------------------------------------------- nothing is left


DAEMON = """
import os, sys
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
os.closerange(0, 3)
open("ready", "w").close()
os.execvp("sleep", ["sleep", sys.argv[1]])
"""
READY = "until [ -e ready ]; do sleep 0.01; done"


@on_linux
@pytest.mark.rule("S24")
def test_a_daemon_of_a_check_does_not_outlive_the_run(commands: Commands, sleeper: Sleeper) -> None:
    daemon = commands.script("daemon.py", DAEMON) + sleeper.command.removeprefix("sleep")
    ran = commands.run(f"{daemon}; {READY}; echo done")
    assert (ran.exit, ran.log) == (0, b"done\n")
    assert not sleeper.pids()


@pytest.mark.rule("S24")
def test_a_background_child_that_holds_the_output_open_neither_delays_roxy_nor_stays(
    commands: Commands, sleeper: Sleeper
) -> None:
    ran = commands.run(f"{sleeper.command} & echo printed before")
    assert (ran.exit, ran.log) == (0, b"printed before\n")
    assert not sleeper.pids()


@pytest.mark.rule("S24")
def test_what_ignores_term_is_killed_after_a_grace_of_two_seconds(
    commands: Commands, sleeper: Sleeper
) -> None:
    ran = commands.run(f"(trap '' TERM; : >ready; exec {sleeper.command}) & {READY}; exit 7")
    assert ran.exit == 7
    assert ran.seconds >= GRACE
    assert not sleeper.pids()


@on_linux
@pytest.mark.rule("S24")
def test_a_stopped_process_is_woken_to_hear_term(commands: Commands) -> None:
    (commands.folder / "stops.sh").write_text(
        "trap ': >heard; exit' TERM\nkill -STOP $$\nexec cat\n"
    )
    commands.run("sh stops.sh & until grep -q ' T ' /proc/$!/stat; do sleep 0.01; done")
    assert (commands.folder / "heard").exists()


FORKS_OVER_AND_OVER = """
trap '' TERM
: >ready
sh "$0" "$1" &
"""


@on_linux
@pytest.mark.rule("S24")
def test_what_forks_and_exits_over_and_over_is_met_at_last(
    commands: Commands, sleeper: Sleeper
) -> None:
    (commands.folder / "forks.sh").write_text(FORKS_OVER_AND_OVER)
    name = sleeper.command.partition(" ")[2]
    ran = commands.run(f"sh forks.sh {name} & {READY}")
    assert ran.seconds >= GRACE
    assert not running(name)


MANY = """
import os, sys
open("ready", "w").close()
while True:
    if not os.fork(): os.execvp("sleep", ["sleep", sys.argv[1]])
    os.wait3(os.WNOHANG)
    os.sched_yield()
"""


@on_linux
@pytest.mark.rule("S24")
def test_what_starts_ever_more_children_is_ended_with_them_all(
    commands: Commands, sleeper: Sleeper
) -> None:
    script = commands.script("many.py", MANY)
    name = sleeper.command.partition(" ")[2]
    commands.run(f"{script} {name} & {READY}")
    assert not running(name)


CALL_TO_EXIT_ONE_THREAD = {"x86_64": 60, "aarch64": 93}
MAIN_THREAD_ENDS = f"""
import ctypes, os, threading, time
def stay():
    while open("/proc/self/stat").read().rpartition(")")[2].split()[0] != "Z": time.sleep(0.01)
    with open("pid", "w") as file: file.write(str(os.getpid()))
    os.rename("pid", "ready")
    time.sleep(86400)
threading.Thread(target=stay).start()
ctypes.CDLL(None).syscall({CALL_TO_EXIT_ONE_THREAD.get(platform.machine())}, 0)
"""
knows_calls = pytest.mark.skipif(
    platform.machine() not in CALL_TO_EXIT_ONE_THREAD, reason="numbers of calls are not known"
)


@on_linux
@knows_calls
@pytest.mark.rule("S24")
def test_a_process_whose_main_thread_ended_first_is_no_zombie_and_is_ended(
    commands: Commands,
) -> None:
    commands.run(f"{commands.script('threads.py', MAIN_THREAD_ENDS)} & {READY}")
    assert state(int((commands.folder / "ready").read_text())) == "-"


@on_linux
@knows_calls
@pytest.mark.rule("S33")
def test_end_group_ends_a_process_whose_main_thread_ended_first(commands: Commands) -> None:
    script = commands.script("threads.py", MAIN_THREAD_ENDS)
    with subprocess.Popen(script.split(), cwd=commands.folder, start_new_session=True) as process:
        until_there(commands.folder / "ready")
        who = processes.identity(process.pid)
        assert who is not None
        assert end_group(who)


@on_linux
@pytest.mark.rule("S24")
def test_a_process_with_the_oddest_name_is_ended_too(commands: Commands) -> None:
    odd = commands.folder / "x) Z 1 (\n"
    shutil.copy2(shutil.which("sleep") or "", odd)
    (commands.folder / "odd.sh").write_text('exec "./x) Z 1 (\n" 86400')
    commands.run(
        "sh odd.sh & echo $! >pid; until [ $(readlink /proc/$!/exe | wc -l) = 2 ]; do :; done"
    )
    assert state(int((commands.folder / "pid").read_text())) == "-"


PRINTS_WHILE_IT_ENDS = """
import signal, sys, time
def end(*_):
    sys.stdout.write("x" * 100_000)
    sys.stdout.flush()
    open("ended by itself", "w").close()
    sys.exit()
signal.signal(signal.SIGTERM, end)
open("ready", "w").close()
time.sleep(86400)
"""


@pytest.mark.rule("S24", "S25")
def test_what_prints_while_it_ends_is_listened_to(commands: Commands) -> None:
    ran = commands.run(f"{commands.script('prints.py', PRINTS_WHILE_IT_ENDS)} & {READY}")
    assert (commands.folder / "ended by itself").exists()
    assert ran.log == b"x" * 100_000


@pytest.mark.rule("S22", "S24")
def test_a_check_that_kills_its_own_group_is_rejected_by_that_signal(
    project: Project, sleeper: Sleeper
) -> None:
    project.greet(f"{sleeper.command} & kill -KILL 0")
    done = project.roxy("verify")
    assert done.code == 1
    assert "the clean run was ended by signal 9 (SIGKILL)" in done.out
    assert not sleeper.pids()


@pytest.mark.rule("S24")
@pytest.mark.parametrize("how", ["", pytest.param("setsid ", marks=on_linux)])
def test_a_background_job_of_the_shell_that_became_roxy_is_left_alone(
    project: Project, sleeper: Sleeper, how: str
) -> None:
    project.greet()
    done = subprocess.run(
        [
            "sh",
            "-c",
            f'{how}{sleeper.command} >/dev/null 2>&1 & exec "$0" -m roxy verify',
            sys.executable,
        ],
        cwd=project.root,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=HANG,
    )
    assert done.returncode == 0
    sleeper.until_run_by(1)


@pytest.mark.rule("S24")
def test_children_of_an_earlier_run_cannot_answer_the_next_one(
    project: Project, sleeper: Sleeper
) -> None:
    # The restored run would find the sleeper of the mutated one, and fail.
    name = sleeper.command.partition(" ")[2]
    look = f"! tr '\\0' ' ' 2>/dev/null </proc/$(cat $HOME/pid)/cmdline | grep -q {name}"
    if sys.platform != "linux":
        look = "! kill -0 $(cat $HOME/pid) 2>/dev/null"
    project.greet(
        f"if [ -e $HOME/pid ]; then {look} || exit 1; fi; "
        f"{sleeper.command} & echo $! >$HOME/pid; grep -q hello src/greeting.txt"
    )
    assert project.roxy("verify").code == 0
    assert not sleeper.pids()


# ------------------------------------------------------------------- where the system is different


@pytest.mark.skipif(shutil.which("ps") is None, reason="there is no ps")
@pytest.mark.rule("S3", "S24")
def test_without_proc_the_group_is_found_through_ps_and_ended(
    commands: Commands, sleeper: Sleeper
) -> None:
    another_system = "import sys; sys.platform = 'darwin'\n"
    ran = commands.run(f"{sleeper.command} & echo done; exit 3", before=another_system)
    assert (ran.exit, ran.log) == (3, b"done\n")
    assert not sleeper.pids()


REFUSE_PIDFD = """
import ctypes, errno, struct
class Filter(ctypes.Structure):
    _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_char_p)]
program = b"".join(struct.pack("HBBI", *one) for one in [
    (0x20, 0, 0, 0),                       # load the number of the call
    (0x15, 0, 1, 434),                     # pidfd_open?
    (0x06, 0, 0, 0x50000 | errno.EPERM),   # refused
    (0x06, 0, 0, 0x7FFF0000),              # anything else is allowed
])
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.byref(Filter(4, program)), 0, 0) == 0, ctypes.get_errno()
"""


@on_linux
@knows_calls
@pytest.mark.rule("S24")
def test_a_sandbox_that_refuses_pidfd_open_changes_nothing(
    commands: Commands, sleeper: Sleeper
) -> None:
    ran = commands.run(f"{sleeper.command} & exec >&- 2>&-; exit 5", before=REFUSE_PIDFD)
    assert ran.exit == 5
    assert not sleeper.pids()


@on_linux
@pytest.mark.rule("S24", "S43")
def test_a_proc_of_another_namespace_is_an_error_before_anything_runs(project: Project) -> None:
    alone = ["unshare", "--user", "--map-root-user", "--pid", "--fork"]
    if shutil.which("unshare") is None or subprocess.run([*alone, "true"], check=False).returncode:
        pytest.skip("namespaces cannot be made here")
    project.greet("touch $HOME/ran")
    done = subprocess.run(
        [*alone, sys.executable, "-m", "roxy", "verify"],
        cwd=project.root,
        capture_output=True,
        check=False,
        timeout=HANG,
    )
    assert done.returncode == 2
    assert b"/proc does not show the processes that roxy starts" in done.stderr
    assert not Path(os.environ["HOME"], "ran").exists()


@pytest.mark.rule("S22", "S24")
def test_a_caller_that_ignores_sigchld_changes_nothing(project: Project) -> None:
    project.greet()
    ignore = (
        "import os, signal, sys\n"
        "signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
        "os.execv(sys.argv[1], sys.argv[1:])"
    )
    done = subprocess.run(
        [sys.executable, "-c", ignore, sys.executable, "-m", "roxy", "verify"],
        cwd=project.root,
        capture_output=True,
        check=False,
        timeout=HANG,
    )
    assert (done.returncode, done.stderr) == (0, b"")


@on_linux
@pytest.mark.rule("S22", "S24")
def test_a_caller_that_leaves_a_thousand_files_open_changes_nothing(project: Project) -> None:
    project.greet()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if most < 1_200:
        pytest.skip("so many files cannot be open here")
    leave_open = (
        "import os, resource, sys\n"
        f"resource.setrlimit(resource.RLIMIT_NOFILE, ({most}, {most}))\n"
        "for _ in range(1_100): os.set_inheritable(os.open('/dev/null', os.O_RDONLY), True)\n"
        "os.execv(sys.argv[1], sys.argv[1:])"
    )
    done = subprocess.run(
        [sys.executable, "-c", leave_open, sys.executable, "-m", "roxy", "verify"],
        cwd=project.root,
        capture_output=True,
        check=False,
        timeout=HANG,
    )
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.rule("S2", "S43")
@pytest.mark.parametrize(("there", "missing"), [("git", "sh"), ("sh", "git")])
@pytest.mark.parametrize("command", ["status", "verify", "gate"])
def test_a_path_without_sh_or_git_is_an_error_that_names_it(
    project: Project, tmp_path: Path, there: str, missing: str, command: str
) -> None:
    project.greet()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / there).symlink_to(shutil.which(there) or "")
    done = project.roxy(command, env={"PATH": str(tmp_path / "bin")})
    assert done.code == 2
    assert done.err.startswith(f"error: `{missing}` is not on PATH\n")
    assert done.out == ""


# ------------------------------------------------------------------- what it prints


@pytest.mark.rule("S25")
def test_a_check_that_closes_its_output_and_goes_on_is_waited_for(commands: Commands) -> None:
    fifo = commands.folder / "fifo"
    os.mkfifo(fifo)

    def let_go() -> None:
        until_there(commands.folder / "closed")
        fifo.write_text("go\n")

    ran = commands.run(
        "echo first; exec >&- 2>&-; : >closed; read go <fifo; exit 3", after_start=let_go
    )
    assert (ran.exit, ran.log) == (3, b"first\n")


@pytest.mark.rule("S25")
def test_standard_output_and_error_share_one_log_in_order(commands: Commands) -> None:
    ran = commands.run("echo one; echo two >&2; echo three; echo four >&2")
    assert ran.log == b"one\ntwo\nthree\nfour\n"


@pytest.mark.rule("S25")
def test_every_byte_that_was_printed_before_the_end_is_in_the_log(commands: Commands) -> None:
    ran = commands.run("head -c 3000000 /dev/zero; echo end; exit 1")
    assert ran.exit == 1
    assert ran.log == bytes(3_000_000) + b"end\n"


@pytest.mark.rule("S25", "S47")
def test_nul_bytes_and_invalid_utf8_are_kept_in_the_log_and_break_no_answer(
    project: Project,
) -> None:
    project.greet(r"printf 'a\000b\377\376\303\n\033[31mred\n'; exit 1")
    plain, document = project.roxy("verify"), project.roxy("verify", "--json")
    assert plain.code == document.code == 1
    assert "red" in plain.out
    assert not set("\0\x1b") & set(plain.out + plain.err)
    assert document.json["checks"][0]["result"] == "rejected"
    for log in (project.state / "logs").iterdir():
        assert log.read_bytes() == b"a\0b\xff\xfe\xc3\n\x1b[31mred\n"


@pytest.mark.rule("S25")
def test_a_check_may_print_nothing(commands: Commands) -> None:
    ran = commands.run("exit 4")
    assert (ran.exit, ran.log) == (4, b"")


@pytest.mark.slow
@pytest.mark.rule("S25")
def test_two_gigabytes_of_output_leave_memory_flat_and_a_log_of_both_ends(project: Project) -> None:
    size = 2 << 30
    project.greet(f"echo begin; head -c {size} /dev/zero; echo end; exit 1")
    done, peak = project.measured("verify", "--quiet")
    assert done.code == 1
    assert peak < 60 << 20
    (log,) = (project.state / "logs").iterdir()
    with log.open("rb") as file:
        assert file.read(7) == b"begin\n\0"
        file.seek(8 << 20)
        assert file.readline() == b"\n"
        assert file.readline() == b"[roxy left out %d bytes here]\n" % (size + 10 - (16 << 20))
        assert len(file.read()) == 8 << 20
        file.seek(-5, os.SEEK_END)
        assert file.read() == b"\0end\n"


# ------------------------------------------------------------------- what it is given


@pytest.mark.rule("S23")
def test_standard_input_of_a_check_is_empty(commands: Commands) -> None:
    assert commands.run('cat; read line; echo "read said $?"').log == b"read said 1\n"


PROBE = """
import json, os, pathlib, resource, signal
def leads_to(name):
    try: return os.readlink("/proc/self/fd/" + name).split(":")[0]
    except OSError: return None
seen = {
    "environment": sorted(f"{name}={value}" for name, value in os.environ.items()),
    "arguments": pathlib.Path(f"/proc/{os.getppid()}/cmdline").read_text(),
    "folder": os.getcwd(),
    "files": {name: leads_to(name) for name in os.listdir("/proc/self/fd") if leads_to(name)},
    "one output": os.fstat(1).st_ino == os.fstat(2).st_ino,
    "mask": os.umask(0),
    "nice": os.nice(0),
    "blocked": [int(one) for one in signal.pthread_sigmask(signal.SIG_BLOCK, [])],
    "ignored": [line for line in open("/proc/self/status") if line.startswith("SigIgn")],
    "leads": os.getsid(0) == os.getpgid(0) == os.getppid(),
    "roxy": os.stat(f"/proc/{os.getppid()}").st_uid,
    "limits": [resource.getrlimit(one) for one in range(10)],
}
with open(os.path.join(os.environ["HOME"], "seen"), "a") as file:
    file.write(json.dumps(seen) + chr(10))
"""


def probed(project: Project, run: str, **options: Any) -> list[dict[str, Any]]:
    """Verify a project whose check writes down what it is given, and return that for each run."""
    home = Path(os.environ["HOME"])
    (home / "probe.py").write_text(PROBE)
    project.greet(run)
    done = subprocess.run(
        [sys.executable, "-m", "roxy", "verify"],
        cwd=options.pop("cwd", project.root),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=HANG,
        **options,
    )
    assert done.returncode == 0, done
    return [json.loads(line) for line in (home / "seen").read_text().splitlines()]


PROBING = "python3 $HOME/probe.py; grep -q hello src/greeting.txt"


@on_linux
@pytest.mark.rule("S23", "S24")
def test_nothing_that_a_check_is_given_differs_between_the_three_runs(project: Project) -> None:
    ours, theirs = os.pipe()
    try:
        clean, mutated, restored = probed(project, PROBING, pass_fds=(ours, theirs))
    finally:
        os.close(ours)
        os.close(theirs)
    assert clean == mutated == restored
    assert clean["files"] == {"0": "/dev/null", "1": "pipe", "2": "pipe"}
    assert clean["one output"]
    assert clean["folder"] == str(project.root)
    assert clean["arguments"] == f"sh\0-c\0{PROBING}\0"
    assert clean["leads"]


@on_linux
@pytest.mark.rule("S4", "S23")
def test_a_check_starts_at_the_top_wherever_roxy_was_started(project: Project) -> None:
    project.write("src/deep/file", "")
    clean, *_ = probed(project, PROBING, cwd=project.root / "src" / "deep")
    assert clean["folder"] == str(project.root)


REMOVED = (
    *("BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "PS4", "CDPATH", "BASH_FUNC_x%%"),
    *("GITHUB_ENV", "GITHUB_PATH", "GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY"),
    *("ACTIONS_ID_TOKEN_REQUEST_TOKEN", "ACTIONS_RUNTIME_TOKEN"),
    *("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_OBJECT_DIRECTORY"),
    *("GIT_CONFIG_PARAMETERS", "GIT_COMMON_DIR", "GIT_ALTERNATE_OBJECT_DIRECTORIES"),
)
KEPT = (
    *("ENVIRONMENT", "MY_BASH_ENV", "PS1", "GITHUB_ACTIONS", "GITHUB_TOKEN", "ACTIONS_CACHE_URL"),
    *("GIT_AUTHOR_NAME", "GIT_EDITOR", "GIT_CONFIG_GLOBAL", "VIRTUAL_ENV", "TERM", "SHLVL"),
)


@on_linux
@pytest.mark.rule("S6", "S23")
def test_a_check_inherits_the_environment_but_for_what_steers_git_shells_and_ci(
    project: Project,
) -> None:
    before = dict(os.environ)
    odd = {"NOT_UTF8": os.fsdecode(b"\xff\n="), "EMPTY": ""}
    steering = dict.fromkeys(REMOVED, "/dev/null") | {"GIT_CONFIG_PARAMETERS": "'a.b=c'"}
    kept = dict.fromkeys(KEPT, "/dev/null") | {"SHLVL": "3"}
    clean, *_ = probed(project, PROBING, env=before | steering | kept | odd)
    seen = dict(one.split("=", 1) for one in clean["environment"])
    for name in ("_", "PWD", "OLDPWD", "SHLVL"):  # a shell keeps these itself
        seen.pop(name, None)
        kept.pop(name, None)
    assert seen == before | kept | odd


@on_linux
@pytest.mark.rule("S6")
@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_a_function_in_the_environment_cannot_stand_in_for_a_command_of_a_check(
    project: Project, tmp_path: Path
) -> None:
    project.greet()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "sh").symlink_to(shutil.which("bash") or "")
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    done = project.roxy("verify", env={"PATH": path, "BASH_FUNC_grep%%": "() { true; }"})
    assert done.code == 0, done


@pytest.mark.rule("S6", "S23")
def test_git_in_a_check_finds_the_repository_that_is_verified_also_below_a_hook(
    project: Project,
) -> None:
    project.greet('test "$(git rev-parse --show-toplevel)" = "$PWD" && grep -q hello src/*')
    env = {"GIT_DIR": "/nowhere", "GIT_INDEX_FILE": "/nowhere/index", "GIT_WORK_TREE": "/"}
    assert project.roxy("verify", env=env).code == 0


@pytest.mark.rule("S22")
def test_each_check_gets_three_runs_of_its_own_also_with_the_same_command(project: Project) -> None:
    run = "echo x >>$HOME/runs; grep -q hello src/greeting.txt"
    project.greet(run)
    project.check(run, name="again")
    assert project.roxy("verify").code == 0
    assert (Path(os.environ["HOME"]) / "runs").read_text() == "x\n" * 6


# ------------------------------------------------------------------- who a process is


@dataclass(frozen=True)
class Group:
    """A process group with one member beside its leader."""

    leader: subprocess.Popen[bytes]
    who: Identity
    sleeper: Sleeper

    def lose_leader(self) -> None:
        self.leader.kill()
        self.leader.wait(timeout=HANG)


@pytest.fixture
def group(sleeper: Sleeper) -> Iterator[Group]:
    with subprocess.Popen(
        ["sh", "-c", f"{sleeper.command} & wait"], start_new_session=True
    ) as leader:
        sleeper.until_run_by(1)
        who = processes.identity(leader.pid)
        assert who is not None
        yield Group(leader, who, sleeper)
        leader.kill()


def members(group: Group) -> set[int]:
    return {one.pid for one in processes.members(group.who)}


@pytest.mark.rule("S33")
def test_members_of_a_group_are_its_leader_and_all_others(group: Group) -> None:
    assert processes.is_same(group.who)
    assert members(group) == {group.leader.pid, *group.sleeper.pids()}


@pytest.mark.rule("S33")
def test_end_group_ends_what_is_left_of_a_group_whose_leader_is_gone(group: Group) -> None:
    group.lose_leader()
    assert not processes.is_same(group.who)
    assert end_group(group.who)
    assert not group.sleeper.pids()
    assert not end_group(group.who)


@on_linux
@pytest.mark.rule("S33")
@pytest.mark.parametrize("leader", ["alive", "gone"])
@pytest.mark.parametrize("other", ["boot", "started"])
def test_end_group_leaves_a_group_alone_that_only_has_the_same_number(
    group: Group, leader: str, other: str
) -> None:
    if leader == "gone":
        group.lose_leader()
    who = {
        "boot": Identity(group.who.pid, group.who.started, "another boot"),
        "started": Identity(group.who.pid, str(int(group.who.started) + 1_000), group.who.boot),
    }[other]
    assert not end_group(who)
    assert len(group.sleeper.pids()) == 1


@pytest.mark.rule("S33")
def test_identity_survives_json_and_is_nobody_once_the_process_is_gone(group: Group) -> None:
    assert Identity.from_json(json.loads(json.dumps(group.who.to_json()))) == group.who
    group.lose_leader()
    assert processes.identity(group.who.pid) is None


@on_linux
@pytest.mark.rule("S33")
def test_an_identity_is_good_only_within_one_boot_and_one_container() -> None:
    boot, _, namespace = processes.boot().partition(" ")
    assert boot == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert namespace == str(Path("/proc/self/ns/pid").readlink())


@pytest.mark.skipif(shutil.which("ps") is None, reason="there is no ps")
@pytest.mark.rule("S3", "S33")
def test_ps_tells_of_a_process_what_proc_tells(group: Group) -> None:
    script = (
        "import sys; sys.platform = 'darwin'\n"
        "from roxy.core import processes\n"
        "pid = int(sys.argv[1])\n"
        "(one,) = [one for one in processes.table() if one.pid == pid]\n"
        "assert processes.identity(pid).started == one.started\n"
        "print(one.pid, one.parent, one.group, one.is_zombie)"
    )
    out = subprocess.check_output([sys.executable, "-c", script, str(group.leader.pid)], text=True)
    assert out.split() == [str(group.leader.pid), str(os.getpid()), str(group.leader.pid), "False"]


@pytest.mark.rule("S8")
def test_descends_from_knows_parents_and_nobody_else(group: Group) -> None:
    me, parent = processes.identity(os.getpid()), processes.identity(os.getppid())
    assert me is not None
    assert parent is not None
    assert processes.descends_from(parent)
    assert processes.descends_from(me)
    assert not processes.descends_from(group.who)
    assert not processes.descends_from(Identity(parent.pid, "0", parent.boot))
