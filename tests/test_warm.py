"""What the suite takes for `python -m roxy` says and does what that does."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import warm
from project import HANG, Done, Project

if TYPE_CHECKING:
    from collections.abc import Callable


def forked(_: Project, *arguments: str, cwd: Path) -> Done:
    ended = warm.command(arguments, cwd, os.environ, HANG)
    assert ended is not None
    return Done(ended[0], ended[1].decode(), ended[2].decode())


@pytest.mark.parametrize(
    ("run", "arguments"),
    [
        ("grep -q hello src/greeting.txt", ("verify", "--color", "always")),
        ('{ env | sort; pwd; umask; } >>"$HOME/told"; grep -q hello src/*', ("verify", "-v")),
        ("kill -TERM $PPID; sleep 86400", ("verify", "--json")),
        ("kill -KILL $PPID", ("verify",)),
        ("exit", ("status", "--no-such-option")),
        ("exit", ("--help",)),
        ("exit", ("-C", "/", "gate")),
    ],
)
def test_a_forked_roxy_says_and_does_what_a_started_one_does(
    make_project: Callable[[str], Project],
    monkeypatch: pytest.MonkeyPatch,
    run: str,
    arguments: tuple[str, ...],
) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    told = Path(os.environ["HOME"], "told")
    seen = []
    for way in (Project.roxy_anew, forked):
        project = make_project(way.__name__)
        project.greet(run)
        old_mask = os.umask(0o027)
        try:
            done = way(project, *arguments, cwd=project.root / "src")
        finally:
            os.umask(old_mask)
        said = f"{done}\n{told.read_text() if told.exists() else ''}"
        told.unlink(missing_ok=True)
        seen.append(
            (
                done.code,
                said.replace(str(project.root), "TOP").splitlines(),
                list(project.snapshot()),
            )
        )
    assert seen[0] == seen[1]


@pytest.mark.parametrize("name", ["PYTHONPATH", "PYTHONHASHSEED", "LANG", "LC_ALL"])
def test_no_process_is_forked_for_what_only_a_start_can_do(project: Project, name: str) -> None:
    assert warm.command(["--version"], project.root, os.environ, HANG) is not None
    assert warm.command(["--version"], project.root, os.environ | {name: "1"}, HANG) is None
