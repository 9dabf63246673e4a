"""How roxy writes, and what it says while checks run."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from roxy.cli.announcer import Announcer
from roxy.cli.invocation import Invocation
from roxy.cli.progress import Progress
from roxy.cli.run_output import RunOutputPrinter
from roxy.cli.streams import Stream, Streams
from roxy.core.events import (
    CheckFinished,
    CheckStarted,
    EditKept,
    NeedFinished,
    NeedStarted,
    RunFinished,
    RunOutput,
    RunStarted,
    RunTick,
)
from roxy.core.model import Check, Reason, Result
from roxy.core.outcome import Kept, Outcome, Phase, Run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from roxy.core.events import Event

SOURCES = Path(__file__).parent.parent / "src"


class Pipe:
    """A stream to write to, and what has come out at its other end."""

    def __init__(self) -> None:
        self._reading, self.writing = os.pipe()
        self.stream = Stream(self.writing, "utf-8")
        self._taken: list[bytes] = []
        self._taker = threading.Thread(target=self._take)
        self._taker.start()

    def _take(self) -> None:
        while data := os.read(self._reading, 1 << 16):
            self._taken.append(data)

    def text(self) -> str:
        """Close the pipe and return all that went through."""
        os.close(self.writing)
        self._taker.join()
        os.close(self._reading)
        return b"".join(self._taken).decode("utf-8")


@pytest.fixture
def pipes() -> Iterator[Callable[[], Pipe]]:
    made: list[Pipe] = []

    def make() -> Pipe:
        made.append(Pipe())
        return made[-1]

    yield make
    for pipe in made:
        if pipe._taker.is_alive():  # noqa: SLF001 - the test ended before it read
            pipe.text()


def a_check(name: str = "web") -> Check:
    return Check(
        claim="login", name=name, run="bun test", covers=("src/**",), mutations=("m/a.patch",)
    )


def a_run(log: Path = Path("/log")) -> Run:
    return Run(
        phase=Phase.CLEAN,
        mutation=None,
        exit=1,
        signal=None,
        seconds=1.0,
        log=log,
        log_size=0,
        log_sha256="",
    )


def an_outcome(
    result: Result, failed_run: Run | None = None, notes: tuple[str, ...] = ()
) -> Outcome:
    reason = None if result is Result.VERIFIED else Reason("clean-run-failed", "the clean run")
    return Outcome(
        check=a_check(),
        result=result,
        reason=reason,
        runs=(),
        fingerprint=None,
        failed_run=failed_run,
        notes=notes,
    )


@pytest.mark.rule("S46")
def test_a_stream_escapes_what_its_encoding_lacks() -> None:
    reading, writing = os.pipe()
    Stream(writing, "latin-1").write("\u00e9 \u540d")
    assert os.read(reading, 99) == b"\xe9 \\u540d"
    os.close(reading)
    os.close(writing)


@pytest.mark.rule("S46")
def test_a_stream_waits_where_writing_would_block(pipes: Callable[[], Pipe]) -> None:
    pipe = pipes()
    os.set_blocking(pipe.writing, False)
    text = "0123456789" * 100_000
    pipe.stream.write(text)
    assert pipe.stream.failure is None
    assert pipe.text() == text


@pytest.mark.rule("S43", "S46")
def test_a_stream_remembers_a_failure_but_not_that_its_reader_left() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    stream = Stream(writing, "utf-8")
    stream.write("lost")
    os.close(writing)
    stream.write("not even tried")
    assert stream.failure is None
    closed = Stream(writing, "utf-8")
    closed.write("lost")
    assert closed.failure is not None


# What is told while checks run.


def heard_by(listener: Any, events: Sequence[Event]) -> None:
    for event in events:
        listener.hear(event)


@pytest.mark.rule("S46")
@pytest.mark.parametrize(
    ("chunks", "lines"),
    [
        ([b"one\ntwo\n"], ["one", "two"]),
        ([b"o", b"ne\n\n", b"half"], ["one", "", "half"]),
        ([b"a\r", b"\nb\rc\r\n"], ["a", "b", "c"]),
        ([b"a\r"], ["a"]),
        ([b"\xe5\x90", b"\x8d\n"], ["\u540d"]),
        ([b"\xe5\x90"], ["\\xe5\\x90"]),
        ([b"\ta\x1b[2J\x00\xff\n"], ["        a\\u001b[2J\\u0000\\xff"]),
        ([], []),
    ],
)
def test_verbose_streams_output_line_by_line_escaped(
    chunks: list[bytes], lines: list[str], pipes: Callable[[], Pipe]
) -> None:
    pipe = pipes()
    one_run: list[Event] = [
        RunStarted(a_check(), Phase.CLEAN, 1, 3),
        *map(RunOutput, chunks),
        RunFinished(a_check(), a_run()),
    ]
    heard_by(RunOutputPrinter(pipe.stream), one_run * 2)
    expected = ["login/web: clean run, 1 of 3", *lines]
    assert pipe.text() == "".join(f"{line}\n" for line in expected * 2)


@pytest.mark.rule("S25", "S46")
def test_verbose_does_not_wait_for_the_end_of_an_endless_line(pipes: Callable[[], Pipe]) -> None:
    pipe = pipes()
    heard_by(RunOutputPrinter(pipe.stream), [RunOutput(b"x" * 1000)] * 100)
    assert len(pipe.text().replace("\n", "")) > 100_000 - 2 * 8192


def a_whole_check(check: Check) -> list[Event]:
    return [
        CheckStarted(check, 1, 3),
        NeedStarted(check, "true"),
        RunTick(),
        NeedFinished(check),
        RunStarted(check, Phase.CLEAN, 1, 3),
        RunTick(),
        RunFinished(check, a_run()),
        EditKept(Kept(b"src/a.py", Path("/kept/1"))),
        RunTick(),
        CheckFinished(an_outcome(Result.VERIFIED)),
    ]


HOSTILE = Check(
    claim="[red]\u202e\x1b]0;x\x07", name="\u540d" * 99, run="r", covers=(), mutations=()
)


@pytest.mark.rule("S46")
def test_progress_shows_names_escaped_and_never_as_markup(pipes: Callable[[], Pipe]) -> None:
    pipe = pipes()
    with Progress(pipe.stream) as progress:
        heard_by(progress, a_whole_check(HOSTILE))
    text = pipe.text()
    assert "[red]\\u202e\\u001b]0;x\\u0007" in text
    assert "\u202e" not in text
    assert "\x1b]" not in text


@pytest.mark.rule("S46")
def test_progress_leaves_neither_a_line_nor_a_hidden_cursor(pipes: Callable[[], Pipe]) -> None:
    for count in range(len(a_whole_check(HOSTILE)) + 1):
        pipe = pipes()
        with Progress(pipe.stream) as progress:
            heard_by(progress, a_whole_check(HOSTILE)[:count])
        text = pipe.text()
        assert "\x1b[?25l" not in text
        assert text == "" or text.endswith("\x1b[J")


@pytest.mark.rule("S46")
def test_progress_starts_no_thread(pipes: Callable[[], Pipe]) -> None:
    pipe = pipes()
    before = threading.active_count()
    with Progress(pipe.stream) as progress:
        heard_by(progress, a_whole_check(a_check())[:3])
        assert threading.active_count() == before


@pytest.mark.rule("S46")
def test_progress_outlives_its_terminal() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with Progress(Stream(writing, "utf-8")) as progress:
        heard_by(progress, a_whole_check(a_check()))
    os.close(writing)


@pytest.mark.rule("S51")
def test_progress_loads_nothing_once_it_exists() -> None:
    script = (
        "import sys, test_cli_output\n"
        "from roxy.cli.progress import Progress\n"
        "from roxy.cli.streams import Stream\n"
        "with Progress(Stream(2, 'utf-8')) as progress:\n"
        "    before = set(sys.modules)\n"
        "    test_cli_output.heard_by(progress, test_cli_output.a_whole_check(test_cli_output.HOSTILE))\n"
        "print(set(sys.modules) - before)\n"
    )
    env = os.environ | {"PYTHONPATH": f"{SOURCES}{os.pathsep}{Path(__file__).parent}"}
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, check=True)
    assert done.stdout == b"set()\n"


def announced(
    pipes: Callable[[], Pipe], events: Sequence[Event], **given: Any
) -> tuple[str, str, int | None]:
    out, err = pipes(), pipes()
    announcer = Announcer(Invocation(Streams(out.stream, err.stream), {}, **given))
    heard_by(announcer, events)
    return out.text(), err.text(), announcer.unreached


@pytest.mark.rule("S45")
def test_a_rejection_quotes_its_log(pipes: Callable[[], Pipe], tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"first\nlast \xff\n")
    finished = CheckFinished(an_outcome(Result.REJECTED, a_run(log), ("a note",)))
    assert announced(pipes, [CheckStarted(a_check(), 1, 3), finished]) == (
        f"rejected login/web: the clean run\n  | first\n  | last \\xff\n  log: {log}\n",
        "warning: login/web: a note\n",
        2,
    )


@pytest.mark.rule("S45")
def test_a_rejection_says_that_its_log_is_gone(pipes: Callable[[], Pipe], tmp_path: Path) -> None:
    finished = CheckFinished(an_outcome(Result.REJECTED, a_run(tmp_path / "log")))
    assert "  (its log is gone)\n" in announced(pipes, [finished])[0]


@pytest.mark.rule("S29")
def test_a_kept_edit_is_told_at_once(pipes: Callable[[], Pipe]) -> None:
    kept = EditKept(Kept(b"src/a\xff.py", Path("/repo/.git/roxy/kept/1")))
    out, err, _ = announced(pipes, [CheckStarted(a_check(), 1, 1), kept])
    assert out == ""
    assert err.startswith("warning: `src/a\\xff.py` ")
    assert "`/repo/.git/roxy/kept/1`" in err


@pytest.mark.rule("S46", "S47")
def test_json_and_quiet_keep_standard_output_free(pipes: Callable[[], Pipe]) -> None:
    finished = CheckFinished(an_outcome(Result.VERIFIED, notes=("a note",)))
    for given in ({"json": True}, {"quiet": True}):
        assert announced(pipes, [finished], **given)[:2] == ("", "warning: login/web: a note\n")


@pytest.mark.rule("S32")
def test_unreached_does_not_count_the_check_that_was_interrupted(pipes: Callable[[], Pipe]) -> None:
    first, second = a_check("first"), a_check("second")
    finished = CheckFinished(an_outcome(Result.VERIFIED))
    events: list[Event] = [CheckStarted(first, 1, 3), finished, CheckStarted(second, 2, 3)]
    assert announced(pipes, events)[2] == 1
    assert announced(pipes, [])[2] is None
