"""Every reader takes any bytes: a value comes of them, or the documented error, never another."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import strategies
from roxy.core import glob, journal_entry, lockfile, manifest, patch, receipts, splice, toml_text
from roxy.core.attributes import Attributes
from roxy.core.errors import ConfigError, LockfileError
from roxy.core.journal_entry import JournalEntry, Original
from roxy.core.model import Check
from roxy.core.toml_outline import outline
from roxy.core.tries import Archive

if TYPE_CHECKING:
    from pathlib import Path

MANIFEST = b'[claims.c.checks.k]\nrun = "x"\ncovers = ["src/**"]\nmutation = ["a.patch", \'b\']\n'
LOCK = b'version = 1\n[claims.c]\nk = "sha256:%s"\n' % (b"a" * 64)
PATCH = (
    b"diff --git a/f b/f\nindex 1234567..89abcde 100644\n--- a/f\n+++ b/f\n"
    b"@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n@@ -9 +9 @@ x\n-a\n+b\n\\ No newline at end of file\n"
)
ENTRY = journal_entry.dump(
    JournalEntry(
        "c/k",
        (
            Original(
                path=b"src/\xff",
                copy="copy-0",
                attributes=Attributes(0o644, 1, 2, {"user.x": b"y"}),
                original=b"1" * 32,
                mutated=b"2" * 32,
                stamp=(3, 4, 5),
                mtime=6,
            ),
        ),
        {b"src": 0o755},
    )
)
CHECK = Check(claim="c", name="k", run="x", covers=("a",), mutations=("m",))
RECEIPT = {
    "schema": receipts.SCHEMA,
    "fingerprint": f"sha256:{'0' * 64}",
    "check": {"claim": "c", "check": "k", "run": "x", "mutations": [{"sha256": "a"}]},
    "files": {"a": "b"},
    "runs": [{"seconds": 1.5}],
    "result": "verified",
}
TOKENS = (
    b'"',
    b"'",
    b'"""',
    b"[",
    b"]",
    b"{",
    b"}",
    b",",
    b"=",
    b".",
    b"\n",
    b"\r\n",
    b"\\",
    b"\0",
)
TOKENS += (
    b"\xff",
    b"\xef\xbb\xbf",
    b"\xe2\x80\xa8",
    b"**",
    b"-",
    b"+",
    b" ",
    b"#",
    b"1e999",
    b"null",
)
TOKENS += (
    b"@@ -1 +1 @@\n",
    b"@@ -0,0 +1 @@\n",
    b"\\ No newline at end of file\n",
    b"nan",
    b"9" * 30,
)
TOKENS += (b"GIT binary patch\n", b"literal 0\n", b"--- a/x\n+++ b/x\n", b"diff --git a/x b/x\n")


@st.composite
def damaged(draw: st.DrawFn, whole: bytes) -> bytes:
    """Return a sound file, some pieces of which are left out, doubled or replaced."""
    for _ in range(draw(st.integers(1, 4))):
        begin = draw(st.integers(0, len(whole)))
        end = draw(st.integers(begin, min(len(whole), begin + 20)))
        piece = draw(st.sampled_from((*TOKENS, b"", whole[begin:end] * 2)) | st.binary(max_size=3))
        whole = whole[:begin] + piece + whole[end:]
    return whole


def anything(whole: bytes) -> st.SearchStrategy[bytes]:
    """Any bytes, most of them nearly those of a sound file."""
    tokens = st.lists(st.sampled_from(TOKENS), max_size=12).map(b"".join)
    return damaged(whole) | damaged(whole) | tokens | st.binary(max_size=40)


fuzzed = settings(
    max_examples=100,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.mark.rule("S10", "S48")
@fuzzed
@given(data=anything(MANIFEST))
def test_any_bytes_are_a_manifest_or_have_faults(data: bytes) -> None:
    try:
        text = toml_text.decode(data)
    except toml_text.TomlError:
        return
    keys = outline(text)
    assert len(keys.text_without_repeats()) == len(keys.text)
    assert all(repeat.first < repeat.place for repeat in keys.repeats)
    with contextlib.suppress(ConfigError):
        assert manifest.parse(text)


@pytest.mark.rule("S35", "S37")
@fuzzed
@given(data=anything(LOCK))
def test_any_bytes_are_a_lockfile_that_is_written_as_it_is_read_or_refused(data: bytes) -> None:
    with contextlib.suppress(LockfileError):
        found = lockfile.parse(data)
        assert lockfile.parse(lockfile.dump(found)) == found


@pytest.mark.rule("S13", "S16")
@fuzzed
@given(text=strategies.globs() | st.text(max_size=30), path=strategies.paths())
def test_any_text_is_a_glob_whose_prefixes_hold_what_it_matches_or_refused(
    text: str, path: bytes
) -> None:
    with contextlib.suppress(glob.GlobError):
        found = glob.parse(text)
        glob.near_miss(found, [path])
        folders = [prefix for prefix in found.prefixes if not prefix or prefix.endswith(b"/")]
        if found.matches(path):
            assert path in found.prefixes or path.startswith(tuple(folders))


@pytest.mark.rule("S19", "S21")
@fuzzed
@given(data=anything(PATCH))
def test_any_bytes_are_sections_whose_hunks_are_printed_as_they_are_read_or_refused(
    data: bytes,
) -> None:
    with contextlib.suppress(patch.PatchError):
        for section in patch.parse(data):
            hunks = section.hunks
            # A last line that is empty and has no newline is a line for a header, and no bytes.
            plain = all(b"\n\\" not in hunk.body and b"\r" not in hunk.body for hunk in hunks)
            if not (plain and patch.are_in_order(hunks)):
                continue
            text = b"--- a/f\n+++ b/f\n" + b"".join(patch.render(hunks, 0))
            again = [hunk for one in patch.parse(text) for hunk in one.hunks]
            assert [(one.line, one.old, one.new) for one in again] == [
                (one.line, one.old, one.new) for one in hunks
            ]
            _assert_spliced(hunks)


def _assert_spliced(hunks: tuple[patch.Hunk, ...]) -> None:
    """Hold that hunks fit a file that has their lines where they say, and are found in it."""
    if not hunks or hunks[-1].line > 1_000:
        return
    before: list[bytes] = []
    count = 0
    for hunk in hunks:
        before += [b"between\n"] * (hunk.line - count) + [hunk.old]
        count = hunk.line + hunk.old_count
    source = io.BytesIO(b"".join(before))
    written: list[bytes] = []
    assert splice.splice(source, hunks, 0, written.append) is not None
    if all(hunk.old for hunk in hunks):
        found = splice.locate(source, len(source.getvalue()), hunks)
        assert all(one.count for one in found)


@pytest.mark.rule("S33", "S48")
@fuzzed
@given(data=anything(ENTRY))
def test_any_bytes_are_an_entry_that_is_written_as_it_is_read_or_refused(data: bytes) -> None:
    known = (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError)
    with contextlib.suppress(*known):
        found = journal_entry.parse(data)
        again = journal_entry.parse(journal_entry.dump(found))
        assert again == found


def values() -> st.SearchStrategy[Any]:
    """What JSON can hold."""
    plain = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
    return (
        plain
        | st.lists(plain, max_size=2)
        | st.dictionaries(st.text(max_size=5), plain, max_size=2)
    )


@pytest.mark.rule("S39")
@fuzzed
@given(
    key=st.sampled_from(sorted(RECEIPT)), value=values(), data=st.none() | st.binary(max_size=20)
)
def test_any_receipt_is_read_or_passed_over(
    tmp_path: Path, key: str, value: object, data: bytes | None
) -> None:
    data = json.dumps({**RECEIPT, key: value}).encode() if data is None else data
    folder = tmp_path / "receipts"
    folder.mkdir(exist_ok=True)
    sha256 = hashlib.sha256(data).hexdigest()
    file = folder / f"20260101T000000.000000Z-{'0' * 12}-{sha256}.json"
    file.write_bytes(data)
    Archive(tmp_path).evidence(CHECK, f"sha256:{'0' * 64}")
    assert all(
        seconds < float("inf") for seconds in receipts.past_seconds(tmp_path, [CHECK]).values()
    )
    file.unlink()
