"""Somebody edits meanwhile, in every moment of a verify: nothing is lost, nothing proven by chance.

Roxy is met in the middle of a run by its check, and between two runs by an audit hook; in both cases
it stands still while the editor acts. Or it is killed there first. For more of it:

    ROXY_EDITOR_EXAMPLES=100 .venv/bin/python -m pytest -q tests/test_editor.py
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
import time
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import Phase, event, given, settings
from hypothesis import strategies as st

from editor import ACTS, Act, Editor
from handshake import hooked, running
from project import HANG, LONG_AGO, Done, Project
from recompute import recomputed, regular_files
from roxy.core.interrupts import Interrupts
from roxy.core.session import open_session

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator, Mapping, Sequence

EXAMPLES = int(os.environ.get("ROXY_EDITOR_EXAMPLES", "3"))
FILE, OTHER = "src/deep/greeting.txt", "src/other.txt"
COMMITTED = b"one\nhello\nthree\n"
UNSAVED = b"one\nhello\nthree\nwhat nobody committed\n"
PHASES = {
    "the clean run": ["run 1"],
    "mutating": [f"step {number}" for number in range(1, 16)],
    "the mutated run": ["run 2"],
    "restoring": [f"step {number}" for number in range(18, 36)],
    "the restored run": ["run 3", "step 32", "step 34", "step 35"],
}
"""Moments to choose from. Steps are calls to the disk after the clean run, a few more or less."""
CHECK = """
n=$(($(cat ../count 2>/dev/null || echo 0) + 1))
echo $n >../count
cp -a src ../run-$n-begin
case " $HOLD " in
  *" $n "*) echo "run $n" >../here.new; mv ../here.new ../here; read go <../go ;;
esac
cp -a src ../run-$n-end
grep -q hello src/deep/greeting.txt
"""
"""Notes what stands there in each run, and waits in those that $HOLD names."""
HOOK = """
import os, sys
if "STEPS" in os.environ:
    steps = os.environ.pop("STEPS").split()
    count, is_busy = None, False
    def is_step(event, arguments):
        if event == "ctypes.dlsym":
            return "renameat" in repr(arguments)
        words = ("/journal/", "/kept/", "greeting.txt")
        return event.startswith(("os.", "open")) and any(
            word in repr(one) for word in words for one in arguments[:2]
        )
    def watch(event, arguments):
        global count, is_busy
        if is_busy or not is_step(event, arguments):
            return
        if count is None:  # until the clean run is over
            if event == "os.remove" and "run.json" in repr(arguments):
                count = 0
            return
        count += 1
        if str(count) in steps:
            is_busy = True
            with open("../here.new", "w") as file:
                file.write(f"step {count}\\n")
            os.rename("../here.new", "../here")
            go = os.open("../go", os.O_RDONLY)
            os.read(go, 3)
            os.close(go)
            is_busy = False
    sys.addaudithook(watch)
"""
"""Lets roxy stop where its journal or the mutated file is about to be touched."""


# ------------------------------------------------------------------- what is drawn


@dataclass(frozen=True)
class Plan:
    """What the editor does at which moment, and where roxy is killed first."""

    acts: Mapping[str, list[Act]]
    killed_at: str | None
    is_unsaved: bool
    """Whether the file holds something that is not committed."""


def acts() -> st.SearchStrategy[list[Act]]:
    paths = st.sampled_from((FILE, FILE, FILE, OTHER))
    return st.lists(
        st.builds(Act, st.sampled_from(tuple(ACTS)), paths, st.booleans()), min_size=1, max_size=2
    )


@st.composite
def plans(draw: st.DrawFn, moments: Sequence[str], *, killed: bool) -> Plan:
    """Act at one of these moments, and perhaps at another."""
    moment = draw(st.sampled_from(moments))
    chosen = {moment: draw(acts())}
    others = sorted({one for some in PHASES.values() for one in some} - {moment})
    chosen |= draw(st.dictionaries(st.sampled_from(others), acts(), max_size=1))
    return Plan(chosen, moment if killed else None, draw(st.booleans()))


# ------------------------------------------------------------------- the stage


@dataclass
class Stage:
    """A project whose verify can be stopped, and the editor of it."""

    project: Project
    plan: Plan
    editor: Editor
    before: dict[str, tuple[str, int, bytes]]
    kept_by_the_killed: list[Path] = field(default_factory=list)
    met: list[str] = field(default_factory=list)
    """The moments that came about."""

    @classmethod
    @contextlib.contextmanager
    def make(cls, template: Path, plan: Plan) -> Iterator[Stage]:
        with tempfile.TemporaryDirectory() as folder:
            top = Path(folder)
            shutil.copytree(template, top / "project", symlinks=True)
            project = Project(top / "project")
            (top / "check.sh").write_text(CHECK)
            os.mkfifo(top / "go")
            original = UNSAVED if plan.is_unsaved else COMMITTED
            project.write(FILE, original)
            os.utime(project.root / FILE, (LONG_AGO, LONG_AGO))
            editor = Editor(project, original.replace(b"hello", b"howdy"))
            yield cls(project, plan, editor, project.snapshot())
            for pid in running(str(top / "check.sh")):
                os.kill(pid, signal.SIGKILL)

    @property
    def top(self) -> Path:
        return self.project.root.parent

    def verify(self) -> Done:
        """Verify while the editor is at work."""
        numbers: dict[str, list[str]] = {"run": [], "step": []}
        for moment in self.plan.acts:
            word, _, number = moment.partition(" ")
            numbers[word].append(number)
        env = hooked(self.top / "hook", HOOK) | {
            "HOLD": " ".join(numbers["run"]),
            "STEPS": " ".join(numbers["step"]),
        }
        go = os.open(self.top / "go", os.O_RDWR)
        try:
            with pytest.MonkeyPatch.context() as patch:
                for name, value in env.items():
                    patch.setenv(name, value)
                with self.project.started("verify", "--json") as process:
                    self._meet(process, go)
                    out, err = process.communicate(timeout=HANG)
        finally:
            os.close(go)
        return Done(process.returncode, out.decode(), err.decode())

    def _meet(self, process: subprocess.Popen[bytes], go: int) -> None:
        here = self.top / "here"
        end = time.monotonic() + HANG
        while process.poll() is None:
            if here.exists():
                moment = here.read_text().strip()
                here.unlink()
                self.met.append(moment)
                if moment == self.plan.killed_at:
                    process.kill()
                    process.wait(HANG)
                    self.kept_by_the_killed = self.kept()
                for act in self.plan.acts[moment]:
                    self.editor.do(act)
                os.write(go, b"go\n")
            assert time.monotonic() < end, "a verify hangs"
            time.sleep(0.002)

    @property
    def is_killed(self) -> bool:
        return self.plan.killed_at in self.met

    def kept(self) -> list[Path]:
        """Return the places where something is kept."""
        folder = self.project.state / "kept"
        return sorted(folder.iterdir()) if folder.exists() else []

    def proven(self) -> str | None:
        """Return the evidence in roxy.lock."""
        try:
            lock = tomllib.loads(self.project.read("roxy.lock").decode())
        except FileNotFoundError:
            return None
        found: str | None = lock.get("claims", {}).get("greeting", {}).get("text")
        return found

    def ran(self) -> set[str]:
        """Return the evidence for what stood there when the clean and the restored run ran."""
        tops = [f"run-{number}-{when}" for number in (1, 3) for when in ("begin", "end")]
        return {self.evidence(self.top / name, "") for name in tops}

    def evidence(self, top: Path, prefix: str = "src") -> str:
        manifest = tomllib.loads(self.project.read("roxy.toml").decode())
        check = manifest["claims"]["greeting"]["checks"]["text"]
        files = regular_files(top, prefix)
        if not prefix:
            files = {b"src/" + path: data for path, data in files.items()}
        return recomputed(check["run"], [self.project.read(check["mutation"])], files)

    def set_right(self) -> None:
        """Make the tree what it was before somebody edited it."""
        self.project.git("checkout", "--quiet", "--force", "main")
        shutil.rmtree(self.project.root / "src", ignore_errors=True)
        self.project.git("checkout", "--quiet", "--", "src")
        for path, (kind, mode, data) in self.before.items():
            if kind == "file":
                self.project.write(path, data, mode & 0o7777)
        os.utime(self.project.root / FILE, (LONG_AGO, LONG_AGO))


@pytest.fixture
def template(tmp_path: Path) -> Path:
    """Return a repository to copy, with two more branches."""
    project = Project.make(tmp_path / "template")
    shutil.rmtree(project.root / ".git/hooks", ignore_errors=True)
    project.write(FILE, COMMITTED)
    project.mutation(FILE, "hello", "howdy")
    project.write(OTHER, "other\n")
    project.check("sh ../check.sh")
    project.commit()
    project.git("checkout", "--quiet", "-b", "other")
    project.write(FILE, "one\nhello\nthree\non another branch\n")
    project.commit()
    project.git("checkout", "--quiet", "-b", "bare", "main")
    shutil.rmtree(project.root / "src/deep")
    project.commit()
    project.git("checkout", "--quiet", "main")
    return project.root


# ------------------------------------------------------------------- the law


def assert_nothing_is_lost(template: Path, plan: Plan) -> None:
    with Stage.make(template, plan) as stage:
        project = stage.project
        done = stage.verify()
        if stage.is_killed:
            done = project.roxy("status", "--json")
        event(f"met {len(stage.met)} of {len(plan.acts)}, kept {len(stage.kept())}")
        event(f"{'killed, then' if stage.is_killed else 'verify'} {done.code}")
        assert "Traceback" not in done.err
        assert "bug in roxy" not in done.err
        assert done.code in ((0, 2) if stage.is_killed else (0, 1)), done
        if done.code == 2:  # the editor took the covered files away
            assert "matches no file" in done.err
        assert stage.editor.lost() == set()
        assert_kept_is_named(stage, done)
        proven = stage.proven()
        assert proven is None or {proven} == stage.ran()
        if not stage.is_killed:
            assert (proven is None) == (done.code == 1)
        if is_undone_by_a_restore(stage):
            assert project.snapshot() == stage.before
        assert_at_rest(stage)
        stage.set_right()
        assert project.roxy("verify").code == 0
        assert stage.proven() == stage.evidence(project.root)
        assert project.snapshot() == stage.before


def assert_kept_is_named(stage: Stage, done: Done) -> None:
    early = stage.kept_by_the_killed
    late = [place for place in stage.kept() if place not in early]
    for place in late:
        assert f"`{place}`" in done.err
    document = done.json
    if document["schema"] == "roxy.error/1":
        return
    for place in early:  # named among all that is kept
        assert place.name in done.err
        assert str(place.parent) in done.err
    (check,) = document["checks"]
    kept = document["kept"] if stage.is_killed else check["kept"]
    assert sorted(one["place"] for one in kept) == [str(place) for place in late]


def is_undone_by_a_restore(stage: Stage) -> bool:
    """Say whether the editor touched the mutated file, while it was mutated, and nothing else."""
    acts = stage.plan.acts.get("run 2", [])
    return stage.met == ["run 2"] and all(
        act.path == FILE and not act.what.startswith(("git stash", "switch")) for act in acts
    )


def assert_at_rest(stage: Stage) -> None:
    """Assert that roxy finds nothing more to put back, and nothing that still runs."""
    before, kept, lines = stage.project.snapshot(), stage.kept(), list[str]()
    with open_session(stage.project.root, os.environ, Interrupts(), "roxy status", 0, lines.append):
        pass
    assert lines == []
    assert (stage.project.snapshot(), stage.kept()) == (before, kept)


SETTINGS = settings(
    max_examples=EXAMPLES,
    derandomize=True,
    database=None,
    phases=[Phase.generate],  # the shortest way to a failure would take many minutes to find
)


@pytest.mark.slow
@pytest.mark.rule("S26", "S28", "S29", "S33", "S34")
@pytest.mark.parametrize("phase", [*PHASES, "killed in any of these"])
def test_whoever_edits_meanwhile_loses_nothing_and_proves_nothing(
    template: Path, phase: str
) -> None:
    moments = PHASES.get(phase) or [one for some in PHASES.values() for one in some]

    @SETTINGS
    @given(plan=plans(moments, killed=phase not in PHASES))
    def holds(plan: Plan) -> None:
        assert_nothing_is_lost(template, plan)

    holds()
