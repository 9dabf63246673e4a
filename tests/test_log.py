"""The log of one run: both ends of whatever a command prints (S25)."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handshake import on_linux
from roxy.core import files
from roxy.core.errors import DiskError
from roxy.core.log import KEPT_AT_EACH_END, KeptLog, Log, last_lines

if TYPE_CHECKING:
    from collections.abc import Iterable

MIB = 1 << 20


def logged(path: Path, chunks: Iterable[bytes], kept: int = KEPT_AT_EACH_END) -> KeptLog:
    log = Log(path, kept)
    for chunk in chunks:
        log.add(chunk)
    return log.close()


def pattern(size: int) -> bytes:
    """Return bytes of which no two long pieces are alike."""
    return hashlib.shake_128().digest(size)


def simple_model(data: bytes, kept: int) -> bytes:
    left_out = len(data) - 2 * kept
    if left_out <= 0:
        return data
    return data[:kept] + b"\n[roxy left out %d bytes here]\n" % left_out + data[-kept:]


@pytest.mark.rule("S25")
@given(st.lists(st.binary(max_size=12), max_size=12), st.integers(1, 9))
def test_log_keeps_what_a_simple_model_keeps_however_the_bytes_come(
    chunks: list[bytes], kept: int
) -> None:
    with TemporaryDirectory() as folder:
        log = logged(Path(folder, "log"), chunks, kept)
        data = log.path.read_bytes()
    assert data == simple_model(b"".join(chunks), kept)
    assert (log.size, log.sha256) == (len(data), hashlib.sha256(data).hexdigest())


@pytest.mark.rule("S25")
@pytest.mark.parametrize("more", [-1, 0, 1, 12_345, 9 * MIB])
def test_log_keeps_exactly_the_first_and_last_8_mib_and_says_how_many_bytes_it_left_out(
    tmp_path: Path, more: int
) -> None:
    assert KEPT_AT_EACH_END == 8 * MIB
    data = pattern(16 * MIB + more)
    chunks = [data[at : at + 65_536] for at in range(0, len(data), 65_536)]
    log = logged(tmp_path / "log", chunks)
    kept = log.path.read_bytes()
    if more <= 0:
        assert kept == data
    else:
        mark = b"\n[roxy left out %d bytes here]\n" % more
        assert kept[: 8 * MIB] == data[: 8 * MIB]
        assert kept[8 * MIB : -8 * MIB] == mark
        assert kept[-8 * MIB :] == data[-8 * MIB :]
    assert (log.size, log.sha256) == (len(kept), hashlib.sha256(kept).hexdigest())


@pytest.mark.rule("S25")
def test_log_takes_one_byte_at_a_time(tmp_path: Path) -> None:
    data = pattern(5_000)
    log = logged(tmp_path / "log", (data[at : at + 1] for at in range(len(data))), 1_000)
    assert log.path.read_bytes() == simple_model(data, 1_000)


@pytest.mark.rule("S25")
def test_log_takes_one_chunk_that_is_larger_than_all_it_keeps(tmp_path: Path) -> None:
    data = pattern(5_000)
    assert logged(tmp_path / "log", [data], 300).path.read_bytes() == simple_model(data, 300)


@pytest.mark.rule("S25")
def test_log_of_nothing_is_empty(tmp_path: Path) -> None:
    log = logged(tmp_path / "log", [])
    assert (log.path.read_bytes(), log.size) == (b"", 0)
    assert log.sha256 == hashlib.sha256().hexdigest()


@pytest.mark.rule("S25")
def test_log_takes_no_more_room_on_the_disk_while_a_command_prints(tmp_path: Path) -> None:
    log = Log(tmp_path / "log", 1_000)
    for _ in range(100):
        log.add(pattern(100))
        assert (tmp_path / "log").stat().st_size <= 1_000
    log.close()


@on_linux
@pytest.mark.rule("S25", "S48")
def test_a_full_disk_while_a_command_prints_is_an_error_that_names_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "create", lambda _path: os.open("/dev/full", os.O_WRONLY))
    log = Log(tmp_path / "log")
    with pytest.raises(DiskError, match="log`: No space left"):
        log.add(b"first")
    log.close()


@pytest.mark.rule("S25", "S45")
def test_last_lines_returns_the_last_few_however_they_end(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"one\ntwo\r\n\xff\0three\nfour")
    assert last_lines(path, 3) == [b"two", b"\xff\0three", b"four"]
    assert last_lines(path, 9) == [b"one", b"two", b"\xff\0three", b"four"]


@pytest.mark.rule("S25", "S45")
def test_last_lines_reads_only_the_end_of_a_log(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x" * 100_000 + b"\nlast\n")
    found = last_lines(path, 5, window=20)
    assert found == [b"x" * 14, b"last"]


@pytest.mark.rule("S25", "S45")
def test_last_lines_of_a_log_that_is_gone_are_none(tmp_path: Path) -> None:
    assert last_lines(tmp_path / "log", 5) is None


@pytest.mark.rule("S23", "S25")
@pytest.mark.parametrize("kind", ["FIFO", "folder", "link"])
def test_last_lines_of_what_stands_in_the_place_of_a_log_are_none(
    tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "log"
    match kind:
        case "FIFO":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "link":
            path.symlink_to(__file__)
    assert last_lines(path, 5) is None
