"""A check may rewrite roxy itself, so nothing of roxy is loaded once the first check runs (S51)."""

from __future__ import annotations

import contextlib
import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from handshake import hooked
from project import HANG, Done

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from project import Project

    Verify = Callable[[Project, tuple[str, ...], Mapping[str, str]], Done]

SOURCE = Path(__file__).resolve().parent.parent / "src"
LATE = """
import os, sys
if "LATE" in os.environ:
    record, marker = os.environ.pop("LATE").split("|")
    record = os.open(record, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    def hook(event, arguments):
        if event == "import":
            what = arguments[0]
        elif event == "open" and str(arguments[0]).endswith((".py", ".pyc", ".json", ".so")):
            what = str(arguments[0])
            if not what.startswith(tuple(sys.path[1:])) or "/.git/" in what: return
        else:
            return
        if os.access(marker, os.F_OK): os.write(record, f"{event} {what}\\n".encode())
    sys.addaudithook(hook)
"""
"""Writes down each module that is imported, or read from where modules are, once a marker is there.

The audit event comes only for a module that is not loaded yet.
"""


class Case(NamedTuple):
    """One way for a verify to go."""

    code: int
    run: str
    """The check's command, after it has made the marker."""
    says: str
    """Part of what roxy tells people."""
    keys: str = ""
    """Optional keys of the check, as roxy.toml has them; `%s` is the marker."""


NAME = "gr\u00fc\u00dfe \u540d\u524d \U0001f388\ufe0f e\u0301"
"""A claim whose width on a terminal is not to be had from ASCII."""
IN_MUTATED_RUN = "if grep -q howdy src/greeting.txt; then %s; exit 1; fi"
FAILING = "failing because the lock cannot be written"
CASES = {
    "verified": Case(0, "grep -q hello src/greeting.txt", "verified"),
    "rejected because it was not noticed": Case(1, "true", "was not noticed"),
    "rejected with output": Case(
        1, r"printf 'na\303\257ve \345\220\215 \377\n\033[31m'; exit 3", "exit code 3"
    ),
    "rejected by a signal": Case(1, "kill -SEGV $$", "SIGSEGV"),
    "with a warning": Case(0, IN_MUTATED_RUN % "exit 127", "proves little"),
    "rejected because a file was edited": Case(
        1, IN_MUTATED_RUN % "echo more >>src/greeting.txt", "is kept as"
    ),
    "blocked": Case(1, "true", "no response", "needs = [': >%s; echo no response; exit 1']"),
    "searched": Case(
        0,
        "echo 3 ran; " + IN_MUTATED_RUN % "exit 1",
        "verified",
        "fails-with = 'ran'\nran = '(.) ran'\nrepeat = 2\nneeds = [': >%s']\ntimeout = '1h'",
    ),
    "not found": Case(
        1, IN_MUTATED_RUN % "exit 1", "as expected", "fails-with = 'x'\nstrict = true"
    ),
    "timed out": Case(1, "sleep 86400", "its timeout", "timeout = '2s'"),
    "interrupted": Case(130, "kill -INT $PPID; sleep 86400", "interrupted by SIGINT"),
    "hung up while mutated": Case(
        129, IN_MUTATED_RUN % "kill -HUP $PPID; sleep 86400", "interrupted by SIGHUP"
    ),
    FAILING: Case(
        2, "rm -rf roxy.lock; mkdir roxy.lock; grep -q hello src/greeting.txt", "roxy.lock"
    ),
    "failing because there is no room for a log": Case(2, "rm -rf .git/roxy/logs", "cannot write"),
    "failing because a copy is damaged": Case(
        2, IN_MUTATED_RUN % ": >.git/roxy/journal/copy-0", "cannot put"
    ),
}


def on_a_pipe(project: Project, arguments: tuple[str, ...], env: Mapping[str, str]) -> Done:
    return project.roxy("verify", *arguments, env=env)


def on_a_terminal(project: Project, arguments: tuple[str, ...], env: Mapping[str, str]) -> Done:
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "roxy", "verify", *arguments],
        cwd=project.root,
        env=os.environ | env | {"TERM": "xterm-256color"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    ) as process:
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):  # what Linux gives at the end of a terminal
            while some := os.read(ours, 4096):
                shown += some
        os.close(ours)
        return Done(process.wait(timeout=HANG), shown.decode(), "")


@pytest.mark.rule("S46", "S51")
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.parametrize("verify", [on_a_pipe, on_a_terminal])
def test_nothing_is_loaded_once_the_first_check_has_started(
    project: Project, tmp_path: Path, case: Case, verify: Verify
) -> None:
    assert loaded_late(project, tmp_path, case, verify) == ""


@pytest.mark.rule("S47", "S51")
@pytest.mark.parametrize("name", ["rejected with output", "interrupted", FAILING])
def test_nothing_is_loaded_late_with_json_and_verbose_either(
    project: Project, tmp_path: Path, name: str
) -> None:
    assert loaded_late(project, tmp_path, CASES[name], on_a_pipe, "--json", "-v") == ""


def loaded_late(
    project: Project, tmp_path: Path, case: Case, verify: Verify, *arguments: str
) -> str:
    """Verify, assert that it went as the case says, and return the record."""
    marker, record = tmp_path / "marker", tmp_path / "record"
    project.greet(f": >{marker}; {case.run}", case.keys.replace("%s", str(marker)))
    manifest = project.read("roxy.toml").decode()
    project.write("roxy.toml", manifest.replace('claims."greeting', f'claims."{NAME}'))
    env = hooked(tmp_path / "hook", LATE) | {"LATE": f"{record}|{marker}"}
    done = verify(project, arguments, env)
    assert done.code == case.code, done
    assert case.says in done.out + done.err
    assert marker.exists()
    return record.read_text()


BREAK = """
import os, sys
if "BREAK" in os.environ:
    part = os.environ.pop("BREAK")
    def hook(event, arguments):
        if event == "os.remove" and part in str(arguments[0]): raise RuntimeError("broken on purpose")
    sys.addaudithook(hook)
"""


@pytest.mark.rule("S43", "S51")
@pytest.mark.parametrize(
    ("verify", "arguments"),
    [(on_a_pipe, ()), (on_a_terminal, ()), (on_a_pipe, ("--json",))],
    ids=["on a pipe", "on a terminal", "with --json"],
)
def test_nothing_is_loaded_to_report_a_bug_in_roxy_either(
    project: Project,
    tmp_path: Path,
    verify: Verify,
    arguments: tuple[str, ...],
) -> None:
    marker, record = tmp_path / "marker", tmp_path / "record"
    project.greet(f": >{marker}; grep -q hello src/greeting.txt")
    env = hooked(tmp_path / "hook", LATE + BREAK) | {"LATE": f"{record}|{marker}"}
    done = verify(project, arguments, env | {"BREAK": "/receipts/started-"})
    assert done.code == 2
    assert "this is a bug in roxy, RuntimeError" in done.out + done.err
    assert not [line for line in record.read_text().splitlines() if line.startswith("import")]


@pytest.mark.rule("S51")
def test_the_record_of_what_is_loaded_late_would_not_be_empty(
    project: Project, tmp_path: Path
) -> None:
    """Without this, a hook that never ran would make every test above pass."""
    marker, record = tmp_path / "marker", tmp_path / "record"
    marker.touch()
    project.greet()
    env = hooked(tmp_path / "hook", LATE) | {"LATE": f"{record}|{marker}"}
    assert project.roxy("verify", env=env).code == 0
    loaded = record.read_text()
    assert "import roxy.core.verdict\n" in loaded
    assert f"open {SOURCE}/roxy/core/" in loaded


TAKEOVER = "import os\nos._exit(0)\n"
"""What a cheating check would like roxy to do."""


@pytest.mark.rule("S1", "S51")
@pytest.mark.parametrize(
    ("verify", "arguments"),
    [(on_a_pipe, ()), (on_a_terminal, ()), (on_a_pipe, ("--json",)), (on_a_pipe, ("-v",))],
    ids=["on a pipe", "on a terminal", "with --json", "with -v"],
)
def test_a_check_that_rewrites_all_of_roxy_is_rejected_all_the_same(
    project: Project,
    tmp_path: Path,
    verify: Verify,
    arguments: tuple[str, ...],
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "takeover.py").write_text(TAKEOVER)
    project.greet(
        f"find {copy} -name '*.py' -exec cp {tmp_path}/takeover.py {{}} ';'; "
        f"find {copy} -name '*.pyc' -exec rm {{}} ';'; find {copy} -name '*.json' -exec rm {{}} ';'"
    )
    done = verify(project, arguments, {"PYTHONPATH": str(copy)})
    assert (copy / "roxy" / "core" / "verdict.py").read_text() == TAKEOVER
    assert done.code == 1, done
    assert "was not noticed" in done.out
    assert "greeting" not in project.read("roxy.lock").decode()
