"""Columns of what files hold: whatever was known before, they say what the files say (S34, S38)."""

from __future__ import annotations

import hashlib
import os
import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roxy.core import contents, digests
from roxy.core.contents import NOTHING, Contents
from roxy.core.digests import Digests
from roxy.core.fingerprint import of_file
from roxy.core.interrupts import Interrupts
from roxy.core.working_tree import RACY, STAMP_SIZE, Tree

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from roxy.core.working_tree import Stamp

files = st.dictionaries(st.binary(min_size=1, max_size=12), st.binary(max_size=2), max_size=40)
"""What each file holds, by its path."""


def columns(held: Mapping[bytes, bytes]) -> Contents:
    """Return what somebody who read such files would know."""
    paths = tuple(sorted(held))
    return Contents(
        paths,
        b"".join(hashlib.sha256(held[path]).digest() + bytes(STAMP_SIZE - 32) for path in paths),
        b"".join(of_file(path, hashlib.sha256(held[path]).digest()) for path in paths),
    )


@pytest.mark.rule("S34")
@given(files, files)
def test_columns_tell_what_the_files_tell(
    before: dict[bytes, bytes], now: dict[bytes, bytes]
) -> None:
    then, there = columns(before), columns(now)
    assert there.changed_since(then) == {
        path for path in before.keys() & now.keys() if before[path] != now[path]
    }
    assert [then.digest(path) for path in now] == [
        hashlib.sha256(before[path]).digest() if path in before else None for path in now
    ]
    assert then.of(there.paths) == columns({p: before[p] for p in now if p in before}).fields
    again = there.laid_out_for(then.paths).laid_out_for(there.paths)
    both = before.keys() & now.keys()
    assert {p for p in now if again.digest(p) == there.digest(p)} >= both
    assert again.paths == there.paths


class Counting(Digests):
    """Digests that count the files that they are asked to read."""

    count = 0

    def read_stamped(self, stamps: Mapping[bytes, Stamp]) -> dict[bytes, bytes]:
        self.count += len(stamps)
        return super().read_stamped(stamps)


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tree]:
    """Return a tree that was at rest for a while, as the clock of what reads it has it."""
    monkeypatch.setattr(digests, "time", Later())
    tree = Tree(tmp_path)
    yield tree
    tree.close()


class Later:
    """A clock that is ahead."""

    def time_ns(self) -> int:
        return time.time_ns() + 2 * RACY


def look(tree: Tree, earlier: Contents) -> tuple[Contents, int]:
    """Return what all files hold, and how many were read for it."""
    one = Counting(tree, Interrupts())
    now = contents.read(one, tree.stamps(sorted(map(os.fsencode, os.listdir(tree.root)))), earlier)
    return now, one.count


@pytest.mark.rule("S38")
def test_only_what_is_new_or_differs_is_read(tree: Tree) -> None:
    for number in range(20):
        (tree.root / f"file {number}").write_text("one")
    first, count = look(tree, NOTHING)
    assert count == 20
    assert look(tree, first) == (first, 0)
    (tree.root / "file 3").write_text("two")
    (tree.root / "file 7").unlink()
    (tree.root / "a new one").write_text("three")
    (tree.root / "file 9").chmod(0o600)  # a new ctime
    now, count = look(tree, first)
    assert count == 3
    assert now.fields == look(tree, NOTHING)[0].fields
    assert now.changed_since(first) == {b"file 3"}
    assert look(tree, now) == (now, 0)


@pytest.mark.rule("S38")
def test_a_file_that_goes_before_it_is_read_is_left_out(tree: Tree) -> None:
    for name in ("a", "b", "c"):
        (tree.root / name).write_text(name)
    stamps = tree.stamps([b"a", b"b", b"c"])
    (tree.root / "b").unlink()
    now = contents.read(Digests(tree, Interrupts()), stamps)
    assert now.paths == (b"a", b"c")
    assert now.fields == look(tree, NOTHING)[0].fields
