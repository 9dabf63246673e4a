"""roxy.lock: the same entries are the same bytes, and what is damaged is refused (S35-S37)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import strategies
from roxy.core import lockfile
from roxy.core.errors import LockfileError
from roxy.core.lockfile import Lockfile
from roxy.core.model import Check

if TYPE_CHECKING:
    from pathlib import Path
    from random import Random

ONE = "sha256:" + "1" * 64
TWO = "sha256:" + "2" * 64
HINT = "run `roxy verify --all`, which writes it anew"
HEADER = "# Written by `roxy verify` from what it proved. Do not edit it by hand.\nversion = 1\n"


def a_check(claim: str, name: str) -> Check:
    return Check(claim=claim, name=name, run="true", covers=("a",), mutations=("p",))


@pytest.mark.rule("S35")
def test_dump_writes_one_sorted_line_for_each_check() -> None:
    entries = {
        ("b", "x"): ONE,
        ("a", "z"): TWO,
        ("a", "Z"): ONE,
        ("é", "ü"): ONE,
        ("a.b", 'say "hi"'): TWO,
        ("a b", "-"): ONE,
        ("\N{FOX FACE}", "x"): ONE,
        ("\uffee", "x"): ONE,
    }
    assert lockfile.dump(Lockfile(entries)).decode() == HEADER + (
        f'\n[claims.a]\nZ = "{ONE}"\nz = "{TWO}"\n'
        f'\n[claims."a b"]\n- = "{ONE}"\n'
        f'\n[claims."a.b"]\n"say \\"hi\\"" = "{TWO}"\n'
        f'\n[claims.b]\nx = "{ONE}"\n'
        f'\n[claims."é"]\n"ü" = "{ONE}"\n'
        f'\n[claims."\uffee"]\nx = "{ONE}"\n'
        f'\n[claims."\N{FOX FACE}"]\nx = "{ONE}"\n'
    )


@pytest.mark.rule("S35")
def test_dump_of_no_evidence_is_the_header_alone() -> None:
    assert lockfile.dump(Lockfile()).decode() == HEADER
    assert lockfile.parse(HEADER.encode()) == Lockfile()


@pytest.mark.rule("S35")
@settings(max_examples=100)
@given(lock=strategies.lockfiles(), order=st.randoms())
def test_parse_gives_back_what_dump_wrote_and_order_does_not_matter(
    lock: Lockfile, order: Random
) -> None:
    data = lockfile.dump(lock)
    assert lockfile.parse(data) == lock
    assert lockfile.dump(lockfile.parse(data)) == data
    shuffled = list(lock.fingerprints.items())
    order.shuffle(shuffled)
    assert lockfile.dump(Lockfile(dict(shuffled))) == data
    assert data.count(b"sha256:") == len(lock.fingerprints)
    assert b"\r" not in data


@pytest.mark.rule("S35")
@pytest.mark.parametrize("name", ["a\nb", "a\r", "\x00", "\x7f", "'", "\\", "]", "=", "#", ""])
def test_no_name_breaks_a_lockfile(name: str) -> None:
    lock = Lockfile({(name, name): ONE, ("z", "z"): TWO})
    assert lockfile.parse(lockfile.dump(lock)) == lock
    assert len(lockfile.dump(lock).splitlines()) == len(HEADER.splitlines()) + 6


@pytest.mark.rule("S35")
def test_a_checkout_with_crlf_is_the_same_lockfile() -> None:
    lock = Lockfile({("a", "b"): ONE})
    assert lockfile.parse(lockfile.dump(lock).replace(b"\n", b"\r\n")) == lock


@pytest.mark.rule("S36")
def test_entries_come_and_go_one_by_one() -> None:
    here, there = a_check("a", "b"), a_check("a", "c")
    lock = Lockfile().with_entry(here, ONE).with_entry(there, ONE).with_entry(here, TWO)
    assert lock.fingerprints == {("a", "b"): TWO, ("a", "c"): ONE}
    assert lock.fingerprint(here) == TWO
    assert lock.without(here).fingerprints == {("a", "c"): ONE}
    assert lock.without(here).fingerprint(here) is None
    assert lock.without(a_check("b", "a")) == lock


@pytest.mark.rule("S36")
def test_only_drops_the_entries_of_checks_that_no_longer_exist() -> None:
    lock = Lockfile({("a", "b"): ONE, ("b", "a"): TWO, ("gone", "b"): ONE})
    assert lock.only([a_check("a", "b"), a_check("new", "x")]).fingerprints == {("a", "b"): ONE}
    assert lock.only([]) == Lockfile()


GOOD = f'version = 1\n[claims.a]\nb = "{ONE}"\n'


@pytest.mark.rule("S37")
@pytest.mark.parametrize(
    ("text", "what", "where"),
    [
        (
            GOOD.replace("b =", "<<<<<<< HEAD\nb ="),
            "`roxy.lock` holds the markers of a merge that is not finished",
            "roxy.lock:3:1",
        ),
        (
            f'{GOOD}b = "{TWO}"\n',
            "`roxy.lock` is not valid TOML: a key is given twice, or is both a value and a table",
            "roxy.lock:4:78",
        ),
        (
            f"{GOOD}[claims.a]\n",
            "`roxy.lock` is not valid TOML: a table is declared twice",
            "roxy.lock:4:10",
        ),
        ("version", "`roxy.lock` is not valid TOML: a key has no `=` after it", "roxy.lock:1:8"),
        ("", "`roxy.lock` has no `version = 1`", "roxy.lock"),
        ("version = true", "`roxy.lock` has no `version = 1`", "roxy.lock:1:1"),
        ("version = '1'", "`roxy.lock` has no `version = 1`", "roxy.lock:1:1"),
        ("version = 1.0", "`roxy.lock` has no `version = 1`", "roxy.lock:1:1"),
        ("version = 0", "`roxy.lock` has no `version = 1`", "roxy.lock:1:1"),
        (
            "\nversion = 2\nmore = 1\nclaims = 1",
            "`roxy.lock` was written by a newer roxy: its version is 2, this one knows 1",
            "roxy.lock:2:1",
        ),
        ("version = 1\nx = 1", "`roxy.lock` has an unknown key `x`", "roxy.lock:2:1"),
        ("version = 1\n[x]", "`roxy.lock` has an unknown key `x`", "roxy.lock:2:2"),
        (
            "version = 1\nclaims = []",
            "`roxy.lock` is damaged: `claims` is not a table",
            "roxy.lock:2:1",
        ),
        (
            "version = 1\nclaims.a = 3",
            "`roxy.lock` is damaged: `a` is not a table",
            "roxy.lock:2:8",
        ),
        *(
            (
                f"version = 1\n[claims.a]\nb = {value}",
                "`roxy.lock` is damaged: `b` is not `sha256:` and 64 hex digits",
                "roxy.lock:3:1",
            )
            for value in (
                "1",
                "true",
                "{}",
                "['x']",
                "''",
                f"'{ONE[:-1]}'",
                f"'{ONE}1'",
                f"'{ONE.upper()}'",
                f'"{ONE}\\n"',
                f"'sha512{ONE[6:]}'",
                f"'{ONE[:-1]}g'",
                f"'{ONE[:-1]}\u0661'",
            )
        ),
    ],
)
def test_a_damaged_lockfile_is_refused_with_its_place(text: str, what: str, where: str) -> None:
    with pytest.raises(LockfileError) as caught:
        lockfile.parse(text.encode())
    (fault,) = caught.value.faults
    assert (fault.what, fault.where, fault.hint) == (what, where, HINT)


@pytest.mark.rule("S37")
@pytest.mark.parametrize("data", [b"\xff\xfe", b"\xe9", b"\0", b"a = " + b"[" * 100_000])
def test_bytes_that_are_no_toml_are_refused(data: bytes) -> None:
    with pytest.raises(LockfileError) as caught:
        lockfile.parse(data)
    assert caught.value.faults[0].hint == HINT


@pytest.mark.rule("S37")
@settings(max_examples=100)
@given(lock=strategies.lockfiles(), data=st.data())
def test_a_lockfile_cut_off_anywhere_says_nothing_that_was_not_in_it(
    lock: Lockfile, data: st.DataObject
) -> None:
    whole = lockfile.dump(lock)
    cut = whole[: data.draw(st.integers(0, len(whole)))]
    try:
        left = lockfile.parse(cut)
    except LockfileError:
        return
    assert left.fingerprints.items() <= lock.fingerprints.items()


def read(top: Path) -> Lockfile:
    root = os.open(top, os.O_RDONLY | os.O_DIRECTORY)
    try:
        return lockfile.read(root)
    finally:
        os.close(root)


@pytest.mark.rule("S35", "S37")
def test_read_takes_the_file_at_the_top_and_none_is_no_evidence(tmp_path: Path) -> None:
    assert read(tmp_path) == Lockfile()
    (tmp_path / "roxy.lock").write_text(GOOD)
    assert read(tmp_path) == Lockfile({("a", "b"): ONE})


@pytest.mark.rule("S37")
@pytest.mark.parametrize(
    ("kind", "what"),
    [
        ("link", "`roxy.lock` is a symbolic link"),
        ("dangling", "`roxy.lock` is a symbolic link"),
        ("FIFO", "`roxy.lock` is a FIFO"),
        ("directory", "`roxy.lock` is a directory"),
        ("large", "`roxy.lock` is larger than 6 MiB"),
    ],
)
def test_what_is_no_lockfile_is_refused_without_waiting(
    tmp_path: Path, kind: str, what: str
) -> None:
    file = tmp_path / "roxy.lock"
    match kind:
        case "link":
            (tmp_path / "good").write_text(GOOD)
            file.symlink_to("good")
        case "dangling":
            file.symlink_to("nothing")
        case "FIFO":
            os.mkfifo(file)
        case "directory":
            file.mkdir()
        case "large":
            file.write_bytes(b"")
            os.truncate(file, lockfile.MAX_LOCKFILE + 1)
    with pytest.raises(LockfileError) as caught:
        read(tmp_path)
    (fault,) = caught.value.faults
    assert (fault.what, fault.hint) == (what, HINT)
