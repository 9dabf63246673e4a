"""Columns of what files hold: whatever was known before, they say what the files say (S34, S38)."""

from __future__ import annotations

import errno
import hashlib
import os
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handshake import no_new_child
from roxy.core import child, contents, digests
from roxy.core.child import beside
from roxy.core.contents import NOTHING, Contents
from roxy.core.digests import Digests
from roxy.core.errors import DiskError
from roxy.core.fingerprint import of_file
from roxy.core.interrupts import Interrupts
from roxy.core.working_tree import RACY, STAMP_SIZE, Stamped, Tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
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
        paths,
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
    there = tree.stamps(sorted(map(os.fsencode, os.listdir(tree.root))))
    return contents.read(one, Stamped.of(there), earlier), one.count


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
    files = Stamped.of(tree.stamps([b"a", b"b", b"c"]))
    (tree.root / "b").unlink()
    now = contents.read(Digests(tree, Interrupts()), files)
    assert now.paths == (b"a", b"c")
    assert now.fields == look(tree, NOTHING)[0].fields


# ------------------------------------------------------------------- by two processes


@pytest.fixture
def by_halves(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> Tree:
    """Return a tree in which any two files are looked at by two processes."""
    monkeypatch.setattr(digests, "_MANY", 1)
    monkeypatch.setattr(digests, "_processors", lambda: 2)
    return tree


# Newer Pythons warn of a fork where there are threads; the workers of the test runner have some.
forks = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


@forks
@pytest.mark.rule("S12", "S38")
@pytest.mark.parametrize("names", [["a", "b"], ["a/1", "a/2", "b/1"], ["a/1", "b", "c/1", "c/2"]])
def test_two_processes_see_what_one_sees(by_halves: Tree, names: list[str]) -> None:
    tree = by_halves
    for name in names:
        (tree.root / name).parent.mkdir(exist_ok=True)
        (tree.root / name).write_text(name)
        (tree.root / f"{name} link").symlink_to(name)
    asked = sorted(os.fsencode(name + more) for name in names for more in ("", " link", " gone"))
    found = digests.stamps(tree, asked)
    assert found == tree.stamps(asked)
    assert list(found) == [os.fsencode(name) for name in names]


def die_elsewhere(looks: Callable[..., list[Stamp]]) -> Callable[..., list[Stamp]]:
    """Return what looks at files in this process, and ends any other."""
    here = os.getpid()

    def looked(*arguments: Any) -> list[Stamp]:
        if os.getpid() != here:
            os.kill(os.getpid(), signal.SIGKILL)
        return looks(*arguments)

    return looked


@forks
@pytest.mark.rule("S38", "S48")
def test_what_goes_wrong_in_the_second_process_is_told_or_made_up_for(
    by_halves: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = by_halves
    for name in ("a", "b"):
        (tree.root / name).write_text(name)
    with no_new_child():
        with pytest.raises(DiskError, match="cannot read the covered file `n"):
            digests.stamps(tree, [b"a", b"n" * 300])
        monkeypatch.setattr(Tree, "looks", die_elsewhere(Tree.looks))
        assert digests.stamps(tree, [b"a", b"b"]) == tree.stamps([b"a", b"b"])


@forks
@pytest.mark.rule("S38")
def test_where_the_tree_was_looked_at_before_the_second_process_does_its_half(
    by_halves: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = by_halves
    (tree.root / "deep/er").mkdir(parents=True)
    for name in ("deep/er/a", "deep/er/b", "deep/er/c", "deep/er/d"):
        (tree.root / name).touch()
    paths = [b"deep/er/a", b"deep/er/b", b"deep/er/c", b"deep/er/d"]
    tree.stat(paths[0])  # so that it holds folders open
    asked: list[int] = []
    looks = Tree.looks
    monkeypatch.setattr(
        Tree, "looks", lambda tree, some: asked.append(len(some)) or looks(tree, some)
    )
    assert list(digests.stamps(tree, paths)) == paths
    assert asked == [2]


@forks
@pytest.mark.rule("S2", "S48")
def test_a_machine_that_cannot_fork_or_list_descriptors_is_no_trouble(
    by_halves: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    (by_halves.root / "a").touch()
    (by_halves.root / "b").touch()
    there = by_halves.stamps([b"a", b"b"])
    monkeypatch.setattr(child, "_DESCRIPTORS", "/nowhere")
    with beside(lambda: b"here") as one:
        assert one.answer() == b"here"

    def refuse() -> int:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(os, "fork", refuse)
    assert digests.stamps(by_halves, [b"a", b"b"]) == there


@forks
@pytest.mark.rule("S32")
def test_a_signal_that_is_ignored_stays_ignored_beside() -> None:
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with beside(lambda: str(signal.getsignal(signal.SIGTERM)).encode()) as one:
            assert one.answer() == str(signal.SIG_IGN).encode()
    finally:
        signal.signal(signal.SIGTERM, before)


@forks
@pytest.mark.rule("S8")
def test_a_second_process_holds_nothing_open_but_what_it_needs(tmp_path: Path) -> None:
    with (tmp_path / "lock").open("w") as lock, (tmp_path / "needed").open("w") as needed:
        with beside(lambda: " ".join(os.listdir("/dev/fd")).encode(), needed.fileno()) as one:
            held = {int(name) for name in one.answer().split()}
        assert lock.fileno() not in held
        assert needed.fileno() in held
        assert len(held) <= 6  # the standard ones, this, where it answers, and the listing itself
