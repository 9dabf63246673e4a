"""The live view of `verify`, on a real pseudo-terminal (S46)."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from rich.cells import cell_len

from handshake import on_linux, until_there
from roxy.cli.progress import Progress, facts, first_line, second_line
from roxy.cli.streams import Stream
from roxy.core.events import (
    CheckFinished,
    CheckStarted,
    RunFinished,
    RunOutput,
    RunStarted,
    RunTick,
)
from roxy.core.model import Result
from roxy.core.outcome import Phase
from terminal import Terminal
from test_cli_output import HOSTILE, a_check, a_run, an_outcome, heard_by

if TYPE_CHECKING:
    from collections.abc import Iterator

    from project import Project

WIDTHS = [1, 4, 5, 10, 20, 39, 40, 80, 300]


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    terminal = Terminal()
    yield terminal
    terminal.close()


# ------------------------------------------------------------------- what it says


@pytest.mark.rule("S46")
@pytest.mark.parametrize(
    ("room", "text"),
    [
        (77, "login/web  run 2 of 3  12.3s of about 40s  PASSED tests/test_login.py"),
        (50, "login/web  run 2 of 3  12.3s of about 40s"),
        (58, "login/web  run 2 of 3  12.3s of about 40s  PASSED tests/te"),
        (37, "login/web  run 2 of 3  12.3s"),
        (21, "login/web  2/3  12.3s"),
        (20, "login/web  2/3"),
        (10, "login  2/3"),
        (4, "2/3"),
    ],
)
def test_the_first_line_says_less_where_there_is_less_room(room: int, text: str) -> None:
    said = facts("run 2 of 3", 12.34, 40.4)
    shown = first_line(room, "login/web", said, "PASSED tests/test_login.py").plain
    assert shown == text


@pytest.mark.rule("S46")
@pytest.mark.parametrize(
    ("remaining", "room", "text"),
    [
        (40.4, 60, "===============---------------  3 of 12 done  about 40s left"),
        (754.0, 40, "====---  3 of 12 done  about 12m34s left"),
        (None, 60, "===============---------------  3 of 12 done"),
        (40.4, 20, "===---  3 of 12 done"),
        (40.4, 18, "3 of 12 done"),
        (40.4, 5, "3 of "),
    ],
)
def test_the_second_line_has_a_bar_a_count_and_the_time_that_is_left(
    remaining: float | None, room: int, text: str
) -> None:
    assert second_line(room, 0.5, 3, 12, remaining, "=-").plain == text


@pytest.mark.rule("S46")
@pytest.mark.parametrize(
    ("doing", "elapsed", "expected", "said"),
    [
        ("run 2 of 3", 3.21, None, "run 2 of 3  3.2s"),
        ("run 2 of 3", 59.96, 61.0, "run 2 of 3  60.0s of about 1m01s"),
        ("checking the files", 754.2, None, "checking the files  12m34s"),
        ("preparing", None, None, "preparing"),
    ],
)
def test_the_facts_are_the_run_how_long_it_took_and_how_long_it_should(
    doing: str, elapsed: float | None, expected: float | None, said: str
) -> None:
    assert facts(doing, elapsed, expected)[0] == said
    assert len(facts(doing, elapsed, expected)[-1]) < 10


@pytest.mark.rule("S46")
@pytest.mark.parametrize("room", WIDTHS)
def test_no_line_is_wider_than_its_room(room: int) -> None:
    wide = "\u540d\u524d\U0001f388 e\u0301" * 40
    for name in ("", "a", wide):
        for said in (facts("run 11 of 13", 754.2, 4000), facts("preparing", None, None)):
            assert first_line(room, name, said, wide).cell_len <= room
    for remaining in (None, 0.0, 4000.0):
        assert second_line(room, 7.5, 999, 1000, remaining, "=-").cell_len <= room


# ------------------------------------------------------------------- on a terminal


@pytest.mark.rule("S46")
@pytest.mark.parametrize("columns", WIDTHS[1:])
def test_a_whole_check_leaves_nothing_and_never_wraps(terminal: Terminal, columns: int) -> None:
    terminal.resize(columns)
    stream = Stream(terminal.theirs, "utf-8")
    stream.write("above\n")
    with Progress(stream, color=True) as progress:
        for event in [
            CheckStarted(HOSTILE, 1, 3, 10.0, 5.0),
            RunStarted(HOSTILE, Phase.CLEAN, 1, 3),
            RunOutput(b"\x1b[31m" + "\u540d".encode() * 99),
            RunTick(),
            RunFinished(HOSTILE, a_run()),
        ]:
            progress.hear(event)
            shown = terminal.show().split("\n")
            assert shown[0] == "above"
            assert len(shown) == 3
            assert all(cell_len(line) <= columns for line in shown[1:])
        progress.hear(CheckFinished(an_outcome(Result.VERIFIED)))
        assert terminal.show() == "above\n"
    assert b"\x1b[?25l" not in terminal.raw


@pytest.mark.rule("S46")
def test_the_view_shows_the_last_line_of_the_output_escaped_and_dimmed(terminal: Terminal) -> None:
    with Progress(Stream(terminal.theirs, "utf-8"), color=True) as progress:
        heard_by(
            progress, [CheckStarted(a_check(), 2, 3), RunStarted(a_check(), Phase.CLEAN, 1, 3)]
        )
        heard_by(progress, [RunOutput(b"one\r\n\x1b[2Jtw"), RunOutput(b"o\n\n")])
        progress.clear()
        heard_by(progress, [RunTick()])
        first, second = terminal.show().split("\n")
        assert re.fullmatch(r"login/web  run 1 of 3  \d+\.\ds  \\u001b\[2Jtwo", first)
        assert second == "\u2501" * 10 + "\u2500" * 20 + "  1 of 3 done"
        assert b"\x1b[2m  \\u001b[2Jtwo\x1b[0m" in terminal.raw


@pytest.mark.rule("S46")
def test_lines_that_a_narrower_terminal_has_wrapped_are_wiped(terminal: Terminal) -> None:
    stream = Stream(terminal.theirs, "utf-8")
    stream.write("above\n")
    with Progress(stream) as progress:
        heard_by(progress, [CheckStarted(a_check(), 1, 3, 9.0, 3.0)])
        for columns in (20, 60, 7, 80):
            heard_by(progress, [RunStarted(a_check(), Phase.CLEAN, 1, 3), RunOutput(b"x" * 99)])
            progress.hear(RunFinished(a_check(), a_run()))
            terminal.resize(columns)
            progress.hear(RunFinished(a_check(), a_run()))
            shown = terminal.show().split("\n")
            assert (shown[0], len(shown)) == ("above", 3)
    assert terminal.show() == "above\n"


@pytest.mark.rule("S46")
def test_without_colour_and_with_a_poor_encoding_the_view_is_plain(terminal: Terminal) -> None:
    with Progress(Stream(terminal.theirs, "ascii")) as progress:
        heard_by(progress, [CheckStarted(a_check(), 2, 3, 0.0)])
        assert terminal.show().endswith("=" * 30 + "  1 of 3 done  about 0s left")
        assert b"\x1b" not in terminal.raw


# ------------------------------------------------------------------- signals from the terminal

ROXY = [sys.executable, "-m", "roxy", "verify"]
SHELL = """
"$0" -m roxy verify
: >"$HOME/stopped"
read go <"$HOME/resume"
fg
echo "code $?"
"""


@pytest.fixture
def held(project: Project, sealed: Path) -> Path:
    """Make a project whose check says something in its clean run and waits to be let go."""
    os.mkfifo(sealed / "gate")
    project.greet(
        'if [ ! -e "$HOME/held" ]; then echo "half way"; : >"$HOME/held"; read go <"$HOME/gate"; fi; '
        "grep -q hello src/greeting.txt"
    )
    return sealed


@pytest.mark.rule("S32", "S46")
def test_ctrl_c_leaves_a_clean_terminal(project: Project, held: Path, terminal: Terminal) -> None:
    terminal.resize(40)
    with terminal.started(ROXY, project.root, {}) as roxy:
        until_there(held / "held")
        terminal.until(lambda: "run 1 of 3" in terminal.screen.text)
        terminal.type(b"\x03")
        terminal.until(lambda: roxy.poll() is not None)
        assert roxy.returncode == 130
    assert terminal.show() == (
        "nothing was finished; 1 still unverified\n"
        "interrupted by SIGINT in `greeting/text`, run 1 of 3\n"
    )


@pytest.mark.rule("S46")
def test_the_view_follows_the_width_of_the_terminal(
    project: Project, held: Path, terminal: Terminal
) -> None:
    with terminal.started(ROXY, project.root, {"COLUMNS": "80", "NO_COLOR": "1"}) as roxy:
        terminal.until(lambda: "half way" in terminal.screen.text)
        terminal.resize(20)
        terminal.until(lambda: "half" not in terminal.screen.text)
        first, second = terminal.show().split("\n")
        assert len(first) <= 20
        assert second == "0 of 1 done"
        (held / "gate").write_text("go\n")
        terminal.until(lambda: roxy.poll() is not None)
    assert terminal.show() == "verified greeting/text\n1 verified\n"


@on_linux  # where the kernel lets us have a shell with job control
@pytest.mark.rule("S46")
def test_a_suspended_verify_leaves_a_clean_terminal_and_goes_on(
    project: Project, held: Path, terminal: Terminal
) -> None:
    os.mkfifo(held / "resume")
    with terminal.started(["sh", "-mc", SHELL, sys.executable], project.root, {}) as shell:
        terminal.until(lambda: "run 1 of 3" in terminal.screen.text)
        terminal.type(b"\x1a")
        terminal.until((held / "stopped").exists)
        assert "run 1 of 3" not in terminal.show()
        before = terminal.screen.text
        (held / "resume").write_text("go\n")
        terminal.until(lambda: "run 1 of 3" in terminal.screen.text)
        (held / "gate").write_text("go\n")
        terminal.until(lambda: shell.poll() is not None)
    shown = terminal.show()
    assert shown.startswith(before.rstrip("\n"))
    assert "of 3" not in shown
    assert shown.endswith("verified greeting/text\n1 verified\ncode 0\n")


@on_linux
@pytest.mark.rule("S46")
def test_a_verify_in_the_background_draws_nothing(
    project: Project, held: Path, terminal: Terminal
) -> None:
    shell = ["sh", "-mc", '"$0" -m roxy verify & wait', sys.executable]
    with terminal.started(shell, project.root, {}) as process:
        terminal.until((held / "held").exists)
        (held / "gate").write_text("go\n")
        terminal.until(lambda: process.poll() is not None)
    assert terminal.show() == "verified greeting/text\n1 verified\n"
    assert b"\x1b[J" not in terminal.raw


DRAWS_WHILE_STOPPED = """
import os, signal, sys
from roxy.cli.progress import Progress
from roxy.cli.streams import Stream
from roxy.core.events import CheckStarted
from test_cli_output import a_check

class StoppedAtWriting(Stream):
    def write(self, text):
        super().write(text[:9])
        os.kill(os.getpid(), signal.SIGTSTP)
        super().write(text[9:])

with Progress(StoppedAtWriting(2, "utf-8")) as progress:
    progress.hear(CheckStarted(a_check(), 1, 1))
"""


@on_linux
@pytest.mark.rule("S46")
def test_a_stop_in_the_middle_of_a_line_waits_for_its_end(sealed: Path, terminal: Terminal) -> None:
    (sealed / "draw.py").write_text(DRAWS_WHILE_STOPPED)
    path = f"{os.environ['PYTHONPATH']}{os.pathsep}{Path(__file__).parent}"
    shell = ["sh", "-mc", '"$0" draw.py; : >stopped; fg; fg; fg', sys.executable]
    with terminal.started(shell, sealed, {"PYTHONPATH": path}) as process:
        terminal.until((sealed / "stopped").exists)
        assert "login" not in terminal.show()
        terminal.until(lambda: process.poll() is not None)
    assert "login" not in terminal.show()
