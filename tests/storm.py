"""A whole roxy in a child of this process, on a machine that fails at one chosen call of it."""

from __future__ import annotations

import contextlib
import errno
import functools
import gc
import io
import itertools
import json
import os
import select
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import tomllib
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

# All that roxy may import late: a child that is forked must not pay for it again.
import roxy.cli.boundary
import roxy.cli.commands
import roxy.cli.stocktaking
import roxy.cli.verifying
import roxy.core.receipts
import roxy.reports.json  # noqa: F401
from ground import _WRITING, CHANGES, READS, Clock, Faults
from project import LONG_AGO, Project
from roxy.cli.main import answer
from roxy.core import exchange, journal, processes, session, tree_writer, workspace
from roxy.core.interrupts import Interrupts
from roxy.core.process import adopt_orphans

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    Snapshot = dict[str, tuple[str, int, bytes]]

ERRORS = {"ENOSPC": errno.ENOSPC, "EIO": errno.EIO, "EACCES": errno.EACCES}
TOO_LONG = 60
"""Seconds after which a roxy is ended that hangs."""
_A_MOMENT = 10
"""Seconds in which a process ends that only has to see that roxy is gone."""
_FAST = "/dev/shm"  # noqa: S108 - each shard makes a folder of its own in it
_MORE_CHANGES = ("rmdir", "pidfd_open")
_SIGNALS = ("kill", "killpg")
_READING = ("open to read", "stat", "fstat", "read ", "listxattr")
_MORE_READS = ("access", "getxattr", "listdir", "lseek", "lstat", "readlink", "scandir")


# ------------------------------------------------------------------- the project


@dataclass(frozen=True)
class Covered:
    """One file that the mutation breaks; a check looks at its first line."""

    path: str
    mode: int
    whole: str
    broken: str
    rest: bytes

    def content(self, first: str) -> bytes:
        return first.encode() + b"\n" + self.rest


FILES = (
    Covered("src/greeting.txt", 0o600, "hello", "howdy", b"two\nthree\n"),
    Covered("src/deep/data.bin", 0o755, "whole", "split", b"\0\xff\n" * 40),
)
WHOLE = " ".join(file.whole for file in FILES)
BROKEN = " ".join(file.broken for file in FILES)
CHECKS = ("claim/one", "claim/two")


def build(top: Path, background: str = "") -> None:
    """Make what every case begins with: a committed project, never verified, and a place for logs.

    Each check looks at all files and says in a log outside the tree what it saw. `background` is
    what it starts and leaves.
    """
    project = Project.make(top / "tree")
    for file in FILES:
        project.write(file.path, file.content(file.broken), file.mode)
    project.git("add", "--all")
    for file in FILES:
        project.write(file.path, file.content(file.whole), file.mode)
    patch = project.git("diff", "--binary", "-R")
    project.write("mutations/it.patch", patch)
    names = [f"v{number}" for number in range(len(FILES))]
    seen = " ".join(f"${name}" for name in names)
    reads = [f"read -r {name} <{file.path}" for name, file in zip(names, FILES, strict=True)]
    for check in CHECKS:
        claim, _, name = check.partition("/")
        look = f'{"; ".join(reads)}; echo "{seen}" >>../log/{name}'
        run = f'{look}; echo "{seen}"; {background} [ "{seen}" = "{WHOLE}" ]'
        project.check(run, claim=claim, name=name)
    project.commit()
    for file in FILES:
        os.utime(project.root / file.path, (LONG_AGO, LONG_AGO))
    shutil.rmtree(project.root / ".git/hooks", ignore_errors=True)
    project.git("gc", "--quiet")
    (top / "log").mkdir()


# ------------------------------------------------------------------- the machine


@dataclass
class Machine(Faults):
    """The disk and the processes that a whole roxy sees, with one fault at most."""

    number: int | None = None
    """Of the error; None for a kill."""
    counts_all: bool = False
    """Whether a kill is counted, and may come, at every call that could change something.

    Else only at calls that did, and right after them: the others leave nothing else behind.
    """
    lasting: bool = False
    taken: str | None = None
    """The call that went wrong."""

    @property
    def reads(self) -> bool:
        """Whether calls that only read the disk can go wrong, too."""
        return self.number not in (None, errno.ENOSPC)

    def step(self, name: str, do: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        if self.number is None and not self.counts_all:
            result = do(*arguments, **options)
            if _makes_a_change(name, arguments):
                self._step(name, lambda *_: result, *arguments)
            return result
        if self.number is None or _can_fail(name, arguments):
            return self._step(name, do, *arguments, **options)
        return do(*arguments, **options)

    def _step(self, name: str, do: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        what = f"{name} {_subject(arguments)}"
        if len(self.steps) == self.at:
            self.taken = what
        self.error = functools.partial(_fail, self.number, arguments)
        return super().step(what, do, *arguments, **options)

    def blow(self) -> None:
        """Be the machine of this process from now on, for good."""
        names = [*CHANGES, *_MORE_CHANGES]
        if self.number is None:
            names += _SIGNALS
        if self.reads:
            names += [*READS, *_MORE_READS]
        for name in names:
            if hasattr(os, name):
                setattr(os, name, self.wrap(name, _REAL[name]))
        os.open = self._open
        os.fdopen = self._fdopen
        if self.reads:
            io.open = self.wrap("open to read", _REAL["io.open"])
        rename_at = self.wrap("rename_at", exchange.rename_at)
        exchange.rename_at = tree_writer.rename_at = rename_at
        subprocess._fork_exec = self.wrap("start", _REAL["start"])  # noqa: SLF001

    def _open(self, path: Any, flags: int, *arguments: Any, **options: Any) -> int:
        do = _REAL["open"]
        if flags & _WRITING:
            descriptor: int = self.step("open", do, path, flags, *arguments, **options)
        elif self.reads:
            descriptor = self.step("open to read", do, path, flags, *arguments, **options)
        else:
            descriptor = do(path, flags, *arguments, **options)
        return descriptor

    def _fdopen(self, fd: int, mode: str = "r", buffering: int = -1) -> Any:
        if mode != "wb":
            return _REAL["fdopen"](fd, mode, buffering)
        raw = _Raw(fd, "wb")
        raw.machine = self
        return io.BufferedWriter(raw, buffering if buffering > 0 else io.DEFAULT_BUFFER_SIZE)


class _Raw(io.FileIO):
    """A file whose writes are counted, as those of `os.write` are."""

    machine: Machine

    def write(self, data: Any) -> int:
        written: int = self.machine.step("write", self._write, self.fileno(), data)
        return written

    def _write(self, _fd: int, data: Any) -> int:
        return super().write(data)


_REAL: Mapping[str, Any] = {
    **{name: getattr(os, name) for name in dir(os)},
    "io.open": io.open,
    "start": subprocess._fork_exec,  # noqa: SLF001
}


def _fail(number: int | None, arguments: tuple[Any, ...]) -> BaseException:
    if number is None:
        _REAL["kill"](os.getpid(), signal.SIGKILL)
    path = arguments[:1] if arguments and _is_path(arguments[0]) else ()
    assert number is not None
    return OSError(number, os.strerror(number), *map(os.fspath, path))


def _makes_a_change(name: str, arguments: tuple[Any, ...]) -> bool:
    """Say whether a call that succeeded left anything else than was there before."""
    if name == "fsync":  # that is for a loss of power
        return False
    if name == "write" and _is_pipe(arguments[0]):
        return bool(arguments[1] == b"\n")  # lets a check go
    return name != "open" or arguments[0] != os.devnull


def _can_fail(name: str, arguments: tuple[Any, ...]) -> bool:
    """Say whether a call is about the disk, or starts a process, and people can hear that it fails."""
    subject = arguments[0] if arguments else None
    if _is_path(subject):
        return not os.fsencode(subject).startswith(b"/proc/")
    if isinstance(subject, int):
        return name != "pidfd_open" and subject != 2 and not _is_pipe(subject)
    return True


def _is_pipe(descriptor: int) -> bool:
    return stat.S_ISFIFO(_REAL["fstat"](descriptor).st_mode)


def _is_path(value: object) -> bool:
    return isinstance(value, (str, bytes, os.PathLike))


def _subject(arguments: tuple[Any, ...]) -> str:
    """Return what a call is about, for people."""
    subject = arguments[0] if arguments else ""
    if isinstance(subject, int):
        with contextlib.suppress(OSError):
            subject = _REAL["readlink"](f"/proc/self/fd/{subject}")
    if isinstance(subject, (list, tuple)):  # of a new process
        subject = " ".join(os.fsdecode(word) for word in subject if _is_path(word))[-150:]
    return os.fsdecode(subject) if _is_path(subject) else str(subject)


# ------------------------------------------------------------------- one case


@dataclass(frozen=True)
class Ended:
    """How a roxy ended."""

    code: int
    """Negative for a signal."""
    out: str
    err: str
    steps: list[str]
    taken: str | None


class Broken(Exception):  # noqa: N818 - what roxy broke
    """Something that roxy promises is not so."""


@dataclass
class Case:
    """One project, and all that happens to it."""

    top: Path
    before: Snapshot
    proven: set[str] = field(default_factory=set)
    """The checks whose three runs were seen, within one command that recorded it."""
    ahead: int = 0
    """What the clock is ahead; nobody waits for it here."""

    @property
    def root(self) -> Path:
        return self.top / "tree"

    @property
    def state(self) -> Path:
        return self.root / ".git/roxy"

    def roxy(self, *arguments: str, machine: Machine | None = None) -> Ended:
        """Run roxy to its end, whatever that is, and hold it to what it may never do."""
        recorded = self.recorded()
        for log in (self.top / "log").iterdir():
            log.unlink()
        pid = os.fork()
        if pid == 0:
            self._be_roxy(arguments, machine)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        told = self.top / "told"
        told_steps = json.loads(told.read_bytes()) if told.exists() else {}
        told.unlink(missing_ok=True)
        ended = Ended(
            code,
            (self.top / "out").read_text(),
            (self.top / "err").read_text(),
            told_steps.get("steps", []),
            told_steps.get("taken"),
        )
        self.ahead = told_steps.get("ahead", self.ahead)
        self._look_at_evidence(recorded)
        for bad in ("Traceback", "this is a bug in roxy"):
            expect(bad not in ended.err, f"{arguments} said: {ended.err}")
        return ended

    def _be_roxy(self, arguments: tuple[str, ...], machine: Machine | None) -> None:
        code: Any = 70
        clock = Clock(self.ahead)
        try:
            signal.alarm(TOO_LONG)
            os.chdir(self.root)
            for number, name in enumerate(("/dev/null", "../out", "../err")):
                flags = os.O_RDWR | (os.O_CREAT | os.O_TRUNC) * bool(number)
                os.dup2(os.open(name, flags, 0o600), number)
            for module in (journal, session, workspace):
                module.time = clock
            Interrupts.sleep = lambda _self, seconds: clock.sleep(seconds)
            sys.argv = ["roxy", *arguments]
            if machine is not None:
                machine.blow()
            code = answer()
        except BaseException:  # noqa: BLE001 - whatever it is, the parent has to see it
            _REAL["write"](2, traceback.format_exc().encode())
        finally:
            told = {"ahead": clock.ahead}
            if machine is not None:
                told |= {"steps": machine.steps, "taken": machine.taken}
            with _REAL["io.open"](self.top / "told", "w") as file:
                json.dump(told, file)
            os._exit(code)

    # ---------------------------------------------------------------- what has to hold

    def recorded(self) -> dict[str, str]:
        """Return the entries of roxy.lock by check."""
        try:
            lock = tomllib.loads((self.root / "roxy.lock").read_text())
        except FileNotFoundError:
            return {}
        return {
            f"{claim}/{check}": fingerprint
            for claim, checks in lock.get("claims", {}).items()
            for check, fingerprint in checks.items()
        }

    def _look_at_evidence(self, before: Mapping[str, str]) -> None:
        now = self.recorded()
        for check in now.keys() - before.keys():
            log = self.top / "log" / check.partition("/")[2]
            seen = log.read_text().splitlines() if log.exists() else []
            expect(seen[-3:] == [WHOLE, BROKEN, WHOLE], f"{check} is recorded, its runs saw {seen}")
            self.proven.add(check)
        self.proven &= now.keys()

    def expect_mutated_at_most(self) -> list[str]:
        """Check what may stand in the tree while roxy is not done; return what stands mutated."""
        now = Project(self.root).snapshot()
        expect(now.keys() == self.before.keys(), f"other files: {now.keys() ^ self.before.keys()}")
        broken = {file.path: file.content(file.broken) for file in FILES}
        changed = [path for path in now if now[path] != self.before[path]]
        for path in changed:
            kind, mode, _ = self.before[path]
            expect(now[path] == (kind, mode, broken.get(path)), f"{path} is {now[path]}")
        return changed

    def expect_whole(self) -> None:
        """Check that everything is as it was, and that nothing but roxy.lock is new."""
        now = Project(self.root).snapshot()
        expect(now == self.before, f"changed: {[p for p in now if now[p] != self.before.get(p)]}")
        dirty = Project(self.root).git("--no-optional-locks", "status", "--porcelain")
        expect(dirty in ("", "?? roxy.lock\n"), f"git status says {dirty}")

    def expect_nothing_runs(self) -> None:
        """Check that no process of a check is left; what git still does may end."""
        me = os.getpid()
        mine = os.getsid(0)
        left = [one for one in processes.table() if one.parent == me and not one.is_zombie]
        of_checks = [one.pid for one in left if one.session != mine and not _ends(one.pid)]
        for pid in of_checks:
            os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while True:
                os.waitpid(-1, 0)
        expect(not of_checks, f"left of a check: {of_checks}")

    def expect_status(self) -> Ended:
        """Ask where everything stands; only what was proven may be called verified."""
        status = self.roxy("status", "--json")
        expect(status.code == 0, f"status ended with {status.code}: {status.err}")
        for one in json.loads(status.out)["checks"]:
            check = f"{one['claim']}/{one['check']}"
            is_right = (one["state"] == "verified") == (check in self.proven)
            expect(is_right, f"{check} is called {one['state']}, proven are {self.proven}")
        return status

    def expect_recovered(self, mutated: Iterable[str]) -> Ended:
        """Check that one status puts everything back, and says so."""
        status = self.expect_status()
        self.expect_nothing_runs()
        self.expect_whole()
        for path in mutated:
            expect(
                f"restored `{path}`" in status.err, f"{path} was put back silently: {status.err}"
            )
        expect("is kept as" not in status.err, f"roxy took its own bytes for an edit: {status.err}")
        expect(not (self.state / "journal").exists(), "the journal is still there")
        return status

    def expect_to_go_on(self) -> None:
        """Check that the next verify is as if nothing had happened."""
        verify = self.roxy("verify")
        expect(verify.code == 0, f"the next verify ended with {verify.code}: {verify.err}")
        expect(self.proven == set(CHECKS), f"the next verify proved {self.proven}")
        self.expect_status()
        self.expect_nothing_runs()
        self.expect_whole()
        left = {path.name for path in self.state.iterdir()}
        # What is removed before its next use may wait for that.
        expected = {"digests", "exclusive.lock", "logs", "receipts", "scratch"}
        expected |= {"digests.new", "roxy.lock.new", "unnamed"}
        expect(left <= expected, f"left in roxy's folder: {left - expected}")


def _ends(pid: int) -> bool:
    """Say whether a child ends by itself, as one does that roxy's death never let go."""
    descriptor = os.pidfd_open(pid)
    try:
        return bool(select.select([descriptor], [], [], _A_MOMENT)[0])
    finally:
        os.close(descriptor)


def expect(is_so: object, otherwise: str) -> None:
    if not is_so:
        raise Broken(otherwise)


# ------------------------------------------------------------------- many cases


@dataclass(frozen=True)
class Fault:
    """What goes wrong in a verify, and what in the recovery after it."""

    error: str
    """`kill`, or the name of an error."""
    at: int
    after: bool = False
    """Whether the call is done all the same."""
    lasting: bool = False
    """Whether everything after it goes wrong, too."""
    second: Fault | None = None

    def machine(self, *, counts_all: bool) -> Machine:
        return Machine(
            self.at,
            number=ERRORS.get(self.error),
            counts_all=counts_all,
            after=self.after,
            lasting=self.lasting,
        )


@dataclass
class Weather:
    """Makes cases, in one process that every orphan of theirs comes to."""

    template: Path
    work: Path
    counts_all: bool = False
    groups_ended: int = 0
    """Process groups of checks that a recovery ended."""
    numbers: Iterator[int] = field(default_factory=itertools.count)

    @contextlib.contextmanager
    def case(self) -> Iterator[Case]:
        top = self.work / str(next(self.numbers))
        shutil.copytree(self.template, top)
        try:
            yield Case(top, Project(top / "tree").snapshot())
        finally:
            shutil.rmtree(top)

    def steps(self, error: str) -> list[str]:
        """Return all calls of an undisturbed verify that are counted for one kind of fault."""
        with self.case() as case:
            ended = self._struck(case, "verify", Fault(error, -1))
            expect(ended.code == 0, f"an undisturbed verify ended with {ended.code}: {ended.err}")
            return ended.steps

    def strike(self, fault: Fault, *, whole: bool) -> bool:
        """Let things go wrong and look at what comes of it; say whether they all did go wrong."""
        with self.case() as case:
            mutated = self._strike_once(case, "verify", fault)
            if mutated is not None and fault.second is not None:
                mutated = self._strike_once(case, "status", fault.second)
            if mutated is None:
                return False
            status = case.expect_recovered(mutated)
            self.groups_ended += "ended process group" in status.err
            if whole:
                case.expect_to_go_on()
        return True

    def _struck(self, case: Case, command: str, fault: Fault) -> Ended:
        return case.roxy(command, machine=fault.machine(counts_all=self.counts_all))

    def _strike_once(self, case: Case, command: str, fault: Fault) -> list[str] | None:
        """Return what one command leaves mutated, None when it never came to the fault."""
        ended = self._struck(case, command, fault)
        if fault.error == "kill":
            if ended.code == 0:
                return None
            expect(ended.code == -signal.SIGKILL, f"ended with {ended.code}: {ended.err}")
            return case.expect_mutated_at_most()
        if ended.taken is None:
            return None
        try:
            return self._look_at_failure(case, command, ended, fault)
        except Broken as broken:
            raise Broken(f"[{command}: {ended.taken}] {broken}") from None

    def _look_at_failure(self, case: Case, command: str, ended: Ended, fault: Fault) -> list[str]:
        """Hold a command that met an error to the truth, or to saying what is wrong."""
        mutated = case.expect_mutated_at_most()
        if ended.code == 0:
            expect(not mutated, f"exit 0, and left mutated: {mutated}")
            if command == "verify":
                expect(case.proven == set(CHECKS), f"exit 0, but proven are {case.proven}")
                expect("2 verified" in ended.out, f"exit 0 with {ended.out}")
            return mutated
        # A file that is closed to roxy may have been closed by somebody: then that is an answer.
        if fault.error == "EACCES" and command == "verify" and ended.taken.startswith(_READING):
            expect(ended.code in {1, 2}, f"ended with {ended.code}")
            if ended.code == 1:
                expect("rejected claim/" in ended.out, f"exit 1 with {ended.out}")
                return mutated
        expect(ended.code == 2, f"ended with {ended.code}: {ended.out}{ended.err}")
        told = ended.err.partition("error: ")[2]
        expect(told, f"said only {ended.err}")
        expect("hint: " in told, f"does not say what to do: {told}")
        named = "`" in told or "\n  at " in told or "standard output" in told
        expect(named, f"names nothing: {told}")
        if command == "verify":
            expect(not mutated or "cannot put" in told, f"left mutated: {mutated}, {told}")
        return mutated


def in_own_process(do: Callable[[Path], Any]) -> Any:
    """Do something with a fast folder in a process of its own; return what it returned, as JSON.

    All orphans come to that process, so it knows what is left of a roxy that was killed.
    """
    fast = _FAST if os.path.isdir(_FAST) else None
    with tempfile.TemporaryDirectory(dir=fast) as work:
        answer = Path(work, "answer")
        pid = os.fork()
        if pid == 0:
            told: dict[str, Any] = {"failure": "it did not end"}
            try:
                adopt_orphans()
                gc.freeze()  # so that no child copies all of this memory to look for garbage in it
                told = {"value": do(Path(work))}
            except BaseException:  # noqa: BLE001 - the parent tells it
                told = {"failure": traceback.format_exc()}
            finally:
                answer.write_text(json.dumps(told))
                os._exit(0)
        os.waitpid(pid, 0)
        told = json.loads(answer.read_bytes())
    assert "failure" not in told, told["failure"]
    return told["value"]
