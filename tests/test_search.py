"""Searching a log, which nothing may hold up (S25, S41)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from handshake import no_new_child
from roxy.core import search
from roxy.core.errors import Interrupted
from roxy.core.interrupts import Interrupts
from roxy.core.log import KEPT_AT_EACH_END, KeptLog, Log
from roxy.core.search import SearchError, is_found, last_number

if TYPE_CHECKING:
    from collections.abc import Iterator

# Newer Pythons warn of a fork where there are threads; the workers of the test runner have some.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


def a_log(folder: Path, *chunks: bytes) -> KeptLog:
    log = Log(folder / "log")
    for chunk in chunks:
        log.add(chunk)
    return log.close()


@pytest.fixture(autouse=True)
def no_child_is_left() -> Iterator[None]:
    with no_new_child():
        yield


@pytest.mark.rule("S25", "S41")
@pytest.mark.parametrize(
    ("pattern", "printed", "is_there"),
    [
        ("FAIL", b"ok\nFAILED\n", True),
        ("FAIL", b"", False),
        ("^FAIL", b"ok FAIL\n", False),
        ("^FAIL$", b"ok\r\nFAIL\r\n", True),
        ("(?s)one.*three", b"one\ntwo\nthree", True),
        ("\u00e9t\u00e9", "l'\u00e9t\u00e9".encode(), True),
        ("a.b", b"a\xffb", True),
        ("a\\x00b", b"a\0b", True),
        ("x", b"X", False),
    ],
)
def test_a_log_is_searched_as_text_line_by_line(
    tmp_path: Path, pattern: str, printed: bytes, *, is_there: bool
) -> None:
    assert is_found(pattern, a_log(tmp_path, printed), Interrupts()) is is_there


@pytest.mark.rule("S25")
def test_both_ends_of_a_log_that_was_cut_are_searched(tmp_path: Path) -> None:
    half = b"." * (KEPT_AT_EACH_END - 1)
    log = a_log(tmp_path, b"A", half, b"lost", half, b"Z")
    assert is_found("A", log, Interrupts())
    assert is_found("Z", log, Interrupts())
    assert not is_found("lost", log, Interrupts())


@pytest.mark.rule("S41")
def test_an_expression_that_blows_up_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "MOST_SECONDS", 0.2)
    with pytest.raises(SearchError, match=r"not searched to its end within 0.2 s of computing"):
        is_found("(a+)+b", a_log(tmp_path, b"a" * 99), Interrupts())


@pytest.mark.rule("S32", "S41")
def test_a_signal_ends_a_search_at_once(tmp_path: Path) -> None:
    interrupts = Interrupts()
    interrupts.install()
    signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGTERM))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(Interrupted):
            is_found("(a+)+b", a_log(tmp_path, b"a" * 99), interrupts)
    finally:
        interrupts.uninstall()
        signal.signal(signal.SIGALRM, signal.SIG_DFL)


@pytest.mark.rule("S25", "S41")
@pytest.mark.parametrize("trick", ["gone", "changed", "grown", "FIFO", "link"])
def test_a_log_that_is_not_what_roxy_wrote_is_not_searched(tmp_path: Path, trick: str) -> None:
    log = a_log(tmp_path, b"ok\n")
    if trick in ("gone", "FIFO", "link"):
        log.path.rename(tmp_path / "other")
    match trick:
        case "changed":
            log.path.write_bytes(b"x\n\n")
        case "grown":
            log.path.write_bytes(b"ok\nx\n")
        case "FIFO":
            os.mkfifo(log.path)
        case "link":
            log.path.symlink_to("other")
    with pytest.raises(SearchError, match="its log is gone, or was changed"):
        is_found("o", log, Interrupts())


@pytest.mark.parametrize(
    ("pattern", "printed", "number"),
    [
        (r"(\d+) passed", b"3 passed\nlater\n12 passed", 12),
        (r"(\d+) passed", b"none", None),
        (r"ran (.*)", b"ran 3\nran all", None),
        (r"ran(?: (\d+))?", b"ran 3\nran", None),
        (r"(\d+)", b"9" * 5000, int("9" * 100)),
        (r"(\d+)", "\u0663".encode(), 3),
        (r"(-\d)", b"-1", -1),
    ],
)
def test_the_last_number_is_what_counts(
    tmp_path: Path, pattern: str, printed: bytes, number: int | None
) -> None:
    assert last_number(pattern, a_log(tmp_path, printed), Interrupts()) == number


SIGNALLED = """
import os, signal, sys
from pathlib import Path
from roxy.core.errors import Interrupted
from roxy.core.interrupts import Interrupts
from roxy.core.log import Log
from roxy.core.search import SearchError, is_found

log = Log(Path(sys.argv[1]))
log.add(b"FAILED")
kept = log.close()
interrupts = Interrupts()
interrupts.install()
fork = os.fork

def forked():
    child = fork()
    if child == 0:
        os.kill(os.getpid(), int(sys.argv[2]))
    return child

os.fork = forked
try:
    is_found("FAIL", kept, interrupts)
except (SearchError, Interrupted):
    pass
os.write(1, b"went on\\n")
"""


@pytest.mark.rule("S32", "S41")
@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_search_that_gets_a_signal_at_once_never_goes_on_as_roxy_does(
    tmp_path: Path, signum: signal.Signals
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SIGNALLED, tmp_path / "log", str(int(signum))],
        check=True,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": str(Path(search.__file__).parents[2])},
    )
    assert done.stdout == b"went on\n"
