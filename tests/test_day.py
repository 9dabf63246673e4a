"""The walk-through of the README is a real day with the example, and what it prints is true."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from handshake import hooked
from project import HANG, Project

if TYPE_CHECKING:
    from collections.abc import Iterator

TOP = Path(__file__).resolve().parent.parent
README = (TOP / "README.md").read_text()
_STEP = re.compile(
    r"^```console\n(?P<console>.*?)^```$|^<!-- test: (?P<note>.*?) -->$", re.MULTILINE | re.DOTALL
)


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Return the example in a fresh repository, with `roxy` on PATH."""
    tools = tmp_path / "bin"
    tools.mkdir()
    roxy = tools / "roxy"
    roxy.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m roxy "$@"\n')
    roxy.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    shutil.copytree(
        TOP / "examples/image-upload",
        tmp_path / "image-upload",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    project = Project(tmp_path / "image-upload")
    project.git("init", "--quiet")
    project.commit("Start")
    return project


def steps() -> Iterator[tuple[str, str]]:
    """Give each command of the README with what it should print, and each note to this test."""
    for found in _STEP.finditer(README):
        if found["note"]:
            yield "note", found["note"]
            continue
        for part in re.split(r"^\$ ", found["console"], flags=re.MULTILINE)[1:]:
            command, _, expected = part.partition("\n")
            yield command, expected


KILL_IN_MUTATED_RUN = """
import os, signal, sys
if os.environ.pop("KILL_IN_MUTATED_RUN", ""):
    runs = 0
    def hook(event, arguments):
        global runs
        if event == "os.rename" and str(arguments[1]).endswith("/run.json"):
            runs += 1
            if runs == 2: os.kill(os.getpid(), signal.SIGKILL)
    sys.addaudithook(hook)
"""


def kill_in_mutated_run(project: Project, folder: Path) -> None:
    """Kill roxy, as a power loss would, while the mutated client stands in the tree."""
    clean = project.read("upload/client.py")
    project.git("checkout", "--quiet", "roxy.toml")
    env = hooked(folder, KILL_IN_MUTATED_RUN) | {"KILL_IN_MUTATED_RUN": "1"}
    assert project.roxy("verify", "image-upload/cli", env=env).code == -signal.SIGKILL
    assert project.read("upload/client.py") != clean


def matches(expected: str, printed: str) -> bool:
    """Compare line by line; `...` stands for anything within a line."""
    pattern = re.escape(expected).replace(re.escape("..."), "[^\n]*")
    return re.fullmatch(pattern, printed) is not None


@pytest.mark.slow
@pytest.mark.rule("S22", "S28", "S33", "S34", "S43", "S45")
def test_the_walk_through_of_the_readme_is_what_really_happens(
    example: Project, tmp_path: Path
) -> None:
    last = 0
    seen = 0
    for command, expected in steps():
        if command == "note":
            kill_in_mutated_run(example, tmp_path / "hook")
            continue
        done = subprocess.run(
            ["sh", "-c", command.replace("$?", str(last))],
            cwd=example.root,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=HANG,
            check=False,
        )
        last = done.returncode
        printed = re.sub(r"[ \t]+$", "", done.stdout.decode(), flags=re.MULTILINE)
        assert matches(expected, printed), f"$ {command}\n{printed}\n--- expected\n{expected}"
        seen += 1
    assert seen > 10
    assert example.git("status", "--porcelain") == ""


@pytest.mark.rule("S9")
def test_the_manifest_in_the_readme_is_the_one_of_the_example() -> None:
    shown = README.partition("```toml\n")[2].partition("```")[0]
    assert shown == (TOP / "examples/image-upload/roxy.toml").read_text()
