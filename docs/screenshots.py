"""Draws docs/screenshots/*.svg from what roxy really prints on the example (`make docs`).

The same roxy gives the same bytes: what differs from run to run, durations and paths, is masked.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterator

TOP = Path(__file__).resolve().parent.parent
COLUMNS = 124
WEAKER = (
    'tests.test_cli"',
    'tests.test_cli.CliTest.test_an_image_is_stored_and_its_path_printed"',
)
"""What the walk-through of the README does to the check, so that it notices nothing any more."""


def scenes(folder: Path) -> Iterator[tuple[str, str]]:
    """Give each picture's name, and what roxy printed; all in one repository."""
    yield "gate-closed", roxy(folder, "gate")
    manifest = folder / "roxy.toml"
    text = manifest.read_text()
    manifest.write_text(text.replace(*WEAKER))
    yield "verify-rejected", roxy(folder, "verify")
    manifest.write_text(text)
    verified = roxy(folder, "verify")
    git(folder, "add", "roxy.lock")
    git(folder, "commit", "--quiet", "--message", "Prove the upload")
    yield "gate-open", f"{verified}\n{roxy(folder, 'gate')}"


def roxy(folder: Path, command: str) -> str:
    """Return a command line and what roxy prints for it, coloured."""
    done = subprocess.run(
        [sys.executable, "-m", "roxy", command, "--color=always"],
        cwd=folder,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    return f"\x1b[1m$ roxy {command}\x1b[0m\n{masked(done.stdout.decode(), folder)}"


def masked(printed: str, folder: Path) -> str:
    """Return the same without what no two runs have in common."""
    printed = printed.replace(str(folder), "~/image-upload")
    printed = re.sub(r"\d{8}T\d{6}-[0-9a-f]{8}\.log", "20260101T120000-0a1b2c3d.log", printed)
    return re.sub(r"\d+\.\d+s\b", "0.1s", printed)


def git(folder: Path, *arguments: str) -> None:
    """Run git, as nobody in particular."""
    subprocess.run(["git", *arguments], cwd=folder, env=environment(), check=True)


def environment() -> dict[str, str]:
    """Return an environment with nothing of whoever draws."""
    author = {"GIT_AUTHOR_NAME": "Roxy", "GIT_AUTHOR_EMAIL": "roxy@example.org"}
    committer = {name.replace("AUTHOR", "COMMITTER"): value for name, value in author.items()}
    nothing = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "LANG": "C.UTF-8"}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {"PATH": path, "PYTHONPATH": str(TOP / "src"), **author, **committer, **nothing}


def picture(name: str, printed: str) -> str:
    """Return what a terminal shows as SVG."""
    console = Console(
        record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="standard"
    )
    console.print(Text.from_ansi(printed), soft_wrap=False)
    drawn = console.export_svg(title="roxy", theme=MONOKAI, unique_id=f"roxy-{name}")
    return re.sub(r"@font-face {.*?}\s*", "", drawn, flags=re.DOTALL)  # nothing from the network


def draw(to: Path) -> list[Path]:
    """Draw every picture into a folder, and return where they are."""
    drawn = []
    to.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary).resolve() / "image-upload"
        shutil.copytree(
            TOP / "examples/image-upload", folder, ignore=shutil.ignore_patterns("__pycache__")
        )
        git(folder, "init", "--quiet")
        git(folder, "add", "--all")
        git(folder, "commit", "--quiet", "--message", "Start")
        for name, printed in scenes(folder):
            drawn.append(to / f"{name}.svg")
            drawn[-1].write_text(picture(name, printed), encoding="utf-8")
    return drawn


if __name__ == "__main__":
    draw(TOP / "docs/screenshots")
