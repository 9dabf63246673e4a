"""Another user, who owns nothing here unless it is given to them. Only root can be one."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from project import HANG, Done

if TYPE_CHECKING:
    from collections.abc import Iterator

NUMBER = 4321
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")


@contextlib.contextmanager
def a_public_folder() -> Iterator[Path]:
    """Give a folder that every user can reach."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def give_away(root: Path) -> None:
    """Make the other user own a folder and all below it."""
    for folder, _, files in os.walk(root):
        for path in (folder, *(os.path.join(folder, name) for name in files)):
            os.chown(path, NUMBER, NUMBER, follow_symlinks=False)


def roxy(root: Path, *arguments: str) -> Done:
    """Run roxy as the other user."""
    return python(root, "-m", "roxy", *arguments)


def python(cwd: Path, *arguments: str) -> Done:
    """Run Python as the other user; skip the test where roxy cannot be reached like that."""
    if shutil.which("setpriv") is None or _run(cwd, "-m", "roxy", "--version").code:
        pytest.skip("another user cannot run roxy from here")
    return _run(cwd, *arguments)


def _run(cwd: Path, *arguments: str) -> Done:
    who = (f"--reuid={NUMBER}", f"--regid={NUMBER}", "--clear-groups")
    done = subprocess.run(
        ["setpriv", *who, sys.executable, *arguments],
        cwd=cwd,
        env=os.environ | {"HOME": "/"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG,
    )
    return Done(done.returncode, done.stdout, done.stderr)
