"""What stands in the tree for a while comes back, whatever happens in between (S28-S30, S33)."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import signal
import socket
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ground import (
    IS_ROOT,
    SECOND,
    Faults,
    Ground,
    Killed,
    Meddler,
    as_nobody,
    disk_error,
    give_to_nobody,
    has_xattrs,
    refuse_flags,
    snapshot,
)
from roxy.core import exchange, tree_writer
from roxy.core.errors import DiskError, Interrupted, ProcessError, RestoreError
from roxy.core.journal import ChangedMeanwhileError, Patched
from roxy.core.processes import Identity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ground import Seen
    from roxy.core.outcome import Kept
    from roxy.core.working_tree import Tree

PATH = b"src/deep/f.py"
OLD, NEW, FOREIGN = b"value = 1\n", b"value = 2\n", b"value = 3  # my own work\n"
OTHER_DEVICE = Path("/dev/shm")  # noqa: S108 - each test makes a folder of its own in it


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    """Return a tree with two files to edit, and with neighbours that nobody touches."""
    return lay(Ground.make(tmp_path / "ground"))


def lay(ground: Ground) -> Ground:
    ground.write(PATH, OLD, 0o640)
    ground.write(b"src/deep/other.py", b"other = 1\n", 0o755)
    ground.write(b"src/neighbour", b"untouched")
    ground.path(b"src/link").symlink_to("deep/f.py")
    ground.path(b"src/deep").chmod(0o2775)
    outside = ground.root.parent / "outside"
    outside.mkdir()
    (outside / "f.py").write_bytes(b"outside\n")
    (outside / "deep").mkdir()
    (outside / "deep/f.py").write_bytes(b"outside too\n")
    return ground


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Return a folder that every user can reach."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


# ------------------------------------------------------------------- disks

DISKS = ["plain", "no exchange", "no links", "another device"]


@contextlib.contextmanager
def on(disk: str) -> Iterator[None]:
    """Be on a disk that lacks something."""
    with pytest.MonkeyPatch.context() as patch:
        if disk == "no exchange":
            for module in (tree_writer, exchange):
                patch.setattr(module, "rename_at", refuse_flags)
        if disk == "no links":
            patch.setattr(tree_writer, "_link", lambda _source, _to: None)
        yield


@contextlib.contextmanager
def workshop(disk: str) -> Iterator[tuple[Path, Path | None]]:
    """Give a fast folder to work in, and where roxy's own is on that disk."""
    with contextlib.ExitStack() as stack:
        fast = str(OTHER_DEVICE) if OTHER_DEVICE.is_dir() else None
        top = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=fast)))
        state = None
        if disk == "another device":
            state = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            if state.stat().st_dev == top.stat().st_dev:
                pytest.skip("needs a second file system")
        stack.enter_context(on(disk))
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setattr(
            os, "fsync", lambda _fd: None
        )  # counted, but too slow to do thousands of times
        yield top, state


# ------------------------------------------------------------------- the law

_NAMES = [
    *b"-rf a b new\nline 'x' \"x\" * \\ \xff\xfe .hidden copy-0 entry.json \x1b[31m".split(b" "),
    *(b" ", b"a b", b"...", b"n" * 255, "漢".encode() * 85, "🦊".encode() * 60),
]


def _is_name(name: bytes) -> bool:
    return name not in (b".", b"..") and not set(name) & {0, ord("/")}


@dataclass(frozen=True)
class Spec:
    """One file, and what the patch makes of it."""

    path: bytes
    old: bytes
    new: bytes | None
    mode: int
    xattrs: dict[str, bytes]
    is_strangers: bool
    is_linked: bool
    dated: int
    """Nanoseconds from now."""


def contents() -> st.SearchStrategy[bytes]:
    large = st.binary(min_size=1, max_size=3).map(lambda some: (some * (1 << 20))[: 1 << 20])
    return st.just(b"") | st.binary(max_size=40) | st.sampled_from([b"\r\n\0\xff"]) | large


@st.composite
def specs(draw: st.DrawFn) -> list[Spec]:
    name = st.sampled_from(_NAMES) | st.binary(min_size=1, max_size=8).filter(_is_name)
    drawn = draw(
        st.lists(st.lists(name, min_size=1, max_size=3).map(b"/".join), min_size=1, max_size=5)
    )
    paths: list[bytes] = []
    for path in drawn:
        if not any(_clash(path, known) for known in paths):
            paths.append(path)
    found = [_spec(draw, path) for path in paths]
    if all(spec.new is None for spec in found):
        found[0] = replace(found[0], new=found[0].old + b"!")
    return found


def _clash(one: bytes, other: bytes) -> bool:
    return one == other or one.startswith(other + b"/") or other.startswith(one + b"/")


def _spec(draw: st.DrawFn, path: bytes) -> Spec:
    old, new = draw(contents()), draw(st.none() | contents())
    value = st.binary(max_size=8)
    return Spec(
        path=path,
        old=old,
        new=None if new == old else new,
        mode=draw(st.integers(0o400, 0o777)) | 0o400 | draw(st.sampled_from([0, 0o2000, 0o6000])),
        xattrs=draw(
            st.dictionaries(st.sampled_from(["user.a", "user.b\udcff"]), value, max_size=2)
        ),
        is_strangers=draw(st.booleans()),
        is_linked=draw(st.booleans()),
        dated=draw(
            st.sampled_from([-86_400 * SECOND, 0, SECOND, 3600 * SECOND])
            | st.integers(-2 * SECOND, 3 * SECOND)
        ),
    )


def _build(ground: Ground, spec: Spec, links: Path, *, with_xattrs: bool) -> None:
    file = ground.write(spec.path, spec.old)
    if spec.is_strangers and IS_ROOT:
        os.chown(file, 12345, 23456)
    for name, value in spec.xattrs.items() if with_xattrs else ():
        os.setxattr(file, name, value)
    file.chmod(spec.mode)
    if spec.is_linked:
        links.mkdir(exist_ok=True)
        os.link(file, links / str(len(list(links.iterdir()))))
    now = ground.clock.time_ns()
    os.utime(file, ns=(now, now + spec.dated))


def _identities(folder: Path) -> dict[bytes, tuple[int, int]]:
    """Return inode and mtime of every file in a folder."""
    return {
        path: (seen.st_ino, seen.st_mtime_ns)
        for path in snapshot(folder)
        if (seen := os.lstat(os.fsencode(folder) + b"/" + path))
    }


@pytest.mark.rule("S15", "S28", "S30")
@settings(max_examples=60)
@given(specs(), st.sampled_from(["plain", "plain", "no exchange", "another device"]))
def test_a_patch_that_was_put_back_leaves_the_tree_as_it_was(specs: list[Spec], disk: str) -> None:
    with workshop(disk) as (top, state):
        ground = Ground.make(top, state)
        links = ground.root.parent / "links"
        links.mkdir()
        with_xattrs = has_xattrs(ground.state)
        for number, spec in enumerate(specs):
            _build(ground, spec, links, with_xattrs=with_xattrs)
            ground.path(b"link %d" % number).symlink_to(os.fsdecode(spec.path))
        edits = {spec.path: spec.new for spec in specs if spec.new is not None}
        before, linked = ground.snapshot(), snapshot(links)
        identities, link_identities = _identities(ground.root), _identities(links)
        with ground.patched(*(ground.edit(path, new) for path, new in edits.items())) as patched:
            for path, new in edits.items():
                _assert_moved_on(ground, identities[path][1], path)
                before[path] = replace(before[path], content=new)
            assert ground.snapshot() == before
            mutated = _identities(ground.root)
            assert set(patched.stats) == set(edits)
        for spec in specs:
            before[spec.path] = replace(before[spec.path], content=spec.old)
        assert ground.snapshot() == before
        for path, identity in _identities(ground.root).items():
            if path in edits:
                _assert_moved_on(ground, mutated[path][1], path)
            elif ground.path(path).is_file():
                assert identity == identities[path]
        assert snapshot(links) == linked
        assert _identities(links) == link_identities
        assert sorted(patched.restored) == sorted(edits)
        assert ground.leftovers() == []
        assert ground.kept() == {}
        assert list((ground.state / "scratch").iterdir()) == []


def _assert_moved_on(ground: Ground, before: int, path: bytes) -> None:
    now, set_time = ground.clock.time_ns(), ground.mtime(path)
    assert set_time <= now + SECOND
    assert set_time // SECOND != before // SECOND
    if before <= now:
        assert set_time // SECOND > before // SECOND


# ------------------------------------------------------------------- what stands in the way


def _rewrite(ground: Ground) -> None:
    ground.path(PATH).write_bytes(FOREIGN)


def _append(ground: Ground) -> None:
    with ground.path(PATH).open("ab") as file:
        file.write(b"more\n")


def _replace(ground: Ground) -> None:
    new = ground.root.parent / "saved"
    new.write_bytes(FOREIGN)
    new.rename(ground.path(PATH))


def _truncate(ground: Ground) -> None:
    os.truncate(ground.path(PATH), 0)


def _delete(ground: Ground) -> None:
    ground.path(PATH).unlink()


def _link_outside(ground: Ground) -> None:
    _delete(ground)
    ground.path(PATH).symlink_to(ground.root.parent / "outside/f.py")


def _link_nowhere(ground: Ground) -> None:
    _delete(ground)
    ground.path(PATH).symlink_to("nowhere")


def _folder(ground: Ground) -> None:
    _delete(ground)
    ground.write(PATH + b"/inner/file", FOREIGN)
    ground.path(PATH + b"/inner/link").symlink_to("/")


def _closed_folder(ground: Ground) -> None:
    _folder(ground)
    ground.path(PATH).chmod(0o500)


def _fifo(ground: Ground) -> None:
    _delete(ground)
    os.mkfifo(ground.path(PATH))


def _socket(ground: Ground) -> None:
    _delete(ground)
    with socket.socket(socket.AF_UNIX) as server, contextlib.chdir(ground.path(PATH).parent):
        server.bind("f.py")


def _hard_link(ground: Ground) -> None:
    _delete(ground)
    os.link(ground.path(b"src/neighbour"), ground.path(PATH))


def _lock(ground: Ground) -> None:
    ground.path(PATH).chmod(0)


def _rewrite_and_lock(ground: Ground) -> None:
    _rewrite(ground)
    _lock(ground)


def _make_read_only(ground: Ground) -> None:
    ground.path(PATH).chmod(0o400)


def _chmod(ground: Ground) -> None:
    ground.path(PATH).chmod(0o7777)


def _add_xattr(ground: Ground) -> None:
    if has_xattrs(ground.root.parent):
        os.setxattr(ground.path(PATH), "user.left", b"over")


def _remove_parent(ground: Ground) -> None:
    shutil.move(ground.path(b"src/deep/other.py"), ground.root.parent / "other.py")
    shutil.rmtree(ground.path(b"src/deep"))


def _remove_grandparent(ground: Ground) -> None:
    shutil.move(ground.path(b"src"), ground.root.parent / "moved")


def _parent_is_link(ground: Ground) -> None:
    _remove_parent(ground)
    ground.path(b"src/deep").symlink_to(ground.root.parent / "outside")


def _grandparent_is_link(ground: Ground) -> None:
    _remove_grandparent(ground)
    ground.path(b"src").symlink_to(ground.root.parent / "outside")


def _parent_is_file(ground: Ground) -> None:
    _remove_parent(ground)
    ground.write(b"src/deep", FOREIGN)


def _lock_parent(ground: Ground) -> None:
    ground.path(b"src/deep").chmod(0)


def _make_parent_read_only(ground: Ground) -> None:
    ground.path(b"src/deep").chmod(0o555)


def _lock_all_parents(ground: Ground) -> None:
    _lock_parent(ground)
    ground.path(b"src").chmod(0)


def _write_original(ground: Ground) -> None:
    ground.path(PATH).write_bytes(OLD)


def _replace_by_original(ground: Ground) -> None:
    _replace(ground)
    _write_original(ground)


def _nothing(_: Ground) -> None:
    pass


_FOLDER = [
    ("f.py", "d", b""),
    ("f.py/inner", "d", b""),
    ("f.py/inner/file", "-", FOREIGN),
    ("f.py/inner/link", "l", b"/"),
]
OBSTACLES: dict[str, tuple[Callable[[Ground], None], list[tuple[str, str, bytes]]]] = {
    "nothing": (_nothing, []),
    "other bytes": (_rewrite, [("f.py", "-", FOREIGN)]),
    "more bytes": (_append, [("f.py", "-", NEW + b"more\n")]),
    "another file": (_replace, [("f.py", "-", FOREIGN)]),
    "no bytes": (_truncate, [("f.py", "-", b"")]),
    "no file": (_delete, []),
    "a link to the outside": (_link_outside, [("f.py", "l", b"outside/f.py")]),
    "a dangling link": (_link_nowhere, [("f.py", "l", b"nowhere")]),
    "a folder": (_folder, _FOLDER),
    "a folder that may not be written": (_closed_folder, _FOLDER),
    "a FIFO": (_fifo, [("f.py", "p", b"")]),
    "a socket": (_socket, [("f.py", "s", b"")]),
    "a hard link": (_hard_link, [("f.py", "-", b"untouched")]),
    "a file that may not be read": (_lock, []),
    "an edit that may not be read": (_rewrite_and_lock, [("f.py", "-", FOREIGN)]),
    "a file that may not be written": (_make_read_only, []),
    "another mode": (_chmod, []),
    "another attribute": (_add_xattr, []),
    "no folder": (_remove_parent, []),
    "no folders": (_remove_grandparent, []),
    "a link for its folder": (_parent_is_link, [("deep", "l", b"outside")]),
    "a link for a folder above": (_grandparent_is_link, [("src", "l", b"outside")]),
    "a file for its folder": (_parent_is_file, [("deep", "-", FOREIGN)]),
    "a folder that may not be entered": (_lock_parent, []),
    "a folder that may only be read": (_make_parent_read_only, []),
    "folders that may not be entered": (_lock_all_parents, []),
    "the old bytes": (_write_original, []),
    "another file with the old bytes": (_replace_by_original, []),
}
"""What somebody does while a file stands mutated, and what has to be kept of it."""

USERS = [
    pytest.param("root", marks=pytest.mark.skipif(not IS_ROOT, reason="needs root")),
    "nobody",
]


@contextlib.contextmanager
def ground_for(user: str, disk: str, top: Path) -> Iterator[Ground]:
    """Make the tree of `lay` and be its owner."""
    with contextlib.ExitStack() as stack:
        state = None
        if disk == "another device":
            if not OTHER_DEVICE.is_dir() or OTHER_DEVICE.stat().st_dev == top.stat().st_dev:
                pytest.skip("needs a second file system")
            state = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=OTHER_DEVICE)))
        ground = lay(Ground.make(top / "ground", state))
        # What others write later than roxy did must not look as if they wrote at the same moment.
        ground.clock.ahead = -100 * SECOND
        if user == "nobody":
            give_to_nobody(top / "ground")
            give_to_nobody(ground.state)
            # Only root may restore what root owns, so the folder's own bits must not be in the way.
            stack.callback(shutil.rmtree, top / "ground")
            stack.enter_context(as_nobody())
        stack.enter_context(on(disk))
        yield ground


def kept_things(ground: Ground) -> list[tuple[str, str, bytes]]:
    """Return name in the tree, kind and content of what is kept."""
    found = []
    for path, seen in ground.kept().items():
        content = seen.content
        if content.startswith(os.fsencode(ground.root.parent)):
            content = os.path.relpath(content, os.fsencode(ground.root.parent))
        found.append((os.fsdecode(path).split("-", 2)[2], seen.kind, content))
    return sorted(found)


@pytest.mark.rule("S28", "S29", "S33")
@pytest.mark.parametrize("way", ["in time", "after a kill"])
@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("disk", ["plain", "no exchange", "another device"])
@pytest.mark.parametrize("obstacle", OBSTACLES)
def test_a_file_comes_back_whatever_stands_in_its_place(
    obstacle: str, disk: str, user: str, way: str, open_folder: Path
) -> None:
    act, expected = OBSTACLES[obstacle]
    with ground_for(user, disk, open_folder) as ground:
        before, outside = ground.snapshot(), snapshot(ground.root.parent / "outside")
        kept = put_back(ground, way, act)
        after = ground.snapshot()
        if "no folder" in obstacle or "folder above" in obstacle or "its folder" in obstacle:
            before = {path: seen for path, seen in before.items() if path in after}
        assert after == before
        assert after[PATH].content == OLD
        assert snapshot(ground.root.parent / "outside") == outside
        assert kept_things(ground) == sorted(expected)
        top_names = [name for name, _, _ in expected if "/" not in name]
        assert [os.fsdecode(os.path.basename(one.path)) for one in kept] == top_names
        assert all(one.place.parent == ground.state / "kept" for one in kept)
        assert ground.leftovers() == []


def put_back(ground: Ground, way: str, act: Callable[[Ground], None]) -> Sequence[Kept]:
    """Mutate, do something, restore; return what was kept."""
    edit = ground.edit(PATH, NEW)
    if way == "in time":
        with ground.patched(edit) as patched:
            assert ground.path(PATH).read_bytes() == NEW
            act(ground)
        return patched.kept
    ground.kill(edit)
    assert ground.path(PATH).read_bytes() == NEW
    act(ground)
    recovery = ground.recover()
    assert recovery is not None
    assert recovery.check == "claim/check"
    assert recovery.restored == (PATH,)
    return recovery.kept


# ------------------------------------------------------------------- between copy and exchange

_MEDDLING: dict[str, tuple[Callable[[Ground], None], bytes | None]] = {
    "write in place": (_rewrite, FOREIGN),
    "append": (_append, None),
    "save by rename": (_replace, FOREIGN),
    "truncate": (_truncate, b""),
    "delete": (_delete, None),
    "replace by a link": (_link_outside, None),
    "replace by a folder": (_folder, FOREIGN),
}
"""What somebody does right before roxy exchanges a file, and the bytes that must not be lost."""


def everything_on_disk(ground: Ground) -> set[bytes]:
    """Return what every file holds, in the tree and in what is kept."""
    return {seen.content for seen in (*ground.snapshot().values(), *ground.kept().values())}


@pytest.mark.rule("S28", "S29")
@pytest.mark.parametrize("disk", DISKS)
@pytest.mark.parametrize("meddling", _MEDDLING)
def test_an_edit_made_right_before_a_file_is_mutated_is_not_lost_and_ends_the_try(
    meddling: str, disk: str, tmp_path: Path
) -> None:
    act, written = _MEDDLING[meddling]
    with ground_for("me", disk, tmp_path) as ground:
        before = ground.snapshot()
        edit = ground.edit(PATH, NEW)
        with (
            Meddler(lambda: act(ground)).at_work(),
            pytest.raises(ChangedMeanwhileError) as raised,
            ground.patched(edit),
        ):
            pytest.fail("the edit stands")
        assert raised.value.paths == (PATH,)
        assert written is None or written in everything_on_disk(ground)
        assert NEW not in everything_on_disk(ground)
        assert ground.leftovers() == []
        if meddling == "delete":
            assert ground.snapshot() == before
        elif disk in ("plain", "no links"):
            assert ground.kept() == {}  # the edit stands where it was made
        else:
            assert ground.snapshot() == before
            assert len(ground.kept()) >= 1


@pytest.mark.rule("S28", "S29", "S30")
@pytest.mark.parametrize("ahead", [0, SECOND], ids=["dated now", "dated in a second"])
@pytest.mark.parametrize("way", ["in time", "after a kill"])
@pytest.mark.parametrize("disk", DISKS)
@pytest.mark.parametrize("meddling", _MEDDLING)
def test_an_edit_made_right_before_a_file_is_put_back_is_kept(
    meddling: str, disk: str, way: str, ahead: int, tmp_path: Path
) -> None:
    act, written = _MEDDLING[meddling]
    with ground_for("me", disk, tmp_path) as ground:
        before = ground.snapshot()
        edit = ground.edit(PATH, NEW)
        dated = 0

        def meddle() -> None:
            nonlocal dated
            act(ground)
            if ground.path(PATH).is_file() and not ground.path(PATH).is_symlink():
                dated = ground.clock.time_ns() + ahead
                os.utime(ground.path(PATH), ns=(dated, dated))

        if way == "in time":
            with Meddler(meddle, at=1).at_work(), contextlib.ExitStack() as stack:
                if meddling == "delete":
                    stack.enter_context(pytest.raises(ChangedMeanwhileError))
                with ground.patched(edit) as patched:
                    ground.clock.sleep(60)
            kept = patched.kept
        else:
            ground.kill(edit)
            ground.clock.sleep(60)
            with Meddler(meddle).at_work():
                recovery = ground.recover()
            assert recovery is not None
            kept = list(recovery.kept)
        assert ground.snapshot() == before
        assert written is None or written in everything_on_disk(ground)
        assert [one.path for one in kept] == [PATH] * (meddling != "delete")
        assert ground.mtime(PATH) // SECOND > dated // SECOND
        assert ground.leftovers() == []


@pytest.mark.rule("S28", "S29")
def test_an_edit_made_right_after_a_file_is_mutated_is_kept_and_ends_the_try(
    ground: Ground,
) -> None:
    before = ground.snapshot()
    edit = ground.edit(PATH, NEW)
    rename_at = exchange.rename_at
    left = [FOREIGN]

    def meddled(*arguments: Any) -> None:
        rename_at(*arguments)
        while left:
            ground.path(PATH).write_bytes(left.pop())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exchange, "rename_at", meddled)
        with pytest.raises(ChangedMeanwhileError), ground.patched(edit):
            pytest.fail("the edit stands")
    assert ground.snapshot() == before
    assert kept_things(ground) == [("f.py", "-", FOREIGN)]


@pytest.mark.rule("S28")
def test_a_file_is_mutated_where_its_path_leads_now_and_not_where_it_led_before(
    ground: Ground,
) -> None:
    folder, moved = ground.path(b"src/deep"), ground.root.parent / "moved"
    place, placed = tree_writer.place, []

    def meddled(tree: Tree, path: bytes, *arguments: Any) -> bool:
        if placed == [PATH]:
            folder.rename(moved)
            shutil.copytree(moved, folder)
        placed.append(path)
        return place(tree, path, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tree_writer, "place", meddled)
        with ground.patched(*two_edits(ground)):
            assert (folder / "other.py").read_bytes() == b"other = 2\n"
            assert (moved / "other.py").read_bytes() == b"other = 1\n"
    assert (folder / "f.py").read_bytes() == OLD


@pytest.mark.rule("S28", "S29")
def test_a_file_that_is_saved_again_and_again_is_an_error_and_every_save_is_kept(
    ground: Ground,
) -> None:
    saved: list[bytes] = []
    ground.kill(ground.edit(PATH, NEW))
    rename_at = exchange.rename_at

    def meddled(*arguments: Any) -> None:
        rename_at(*arguments)
        saved.append(b"saved %d" % len(saved))
        new = ground.root.parent / "saved"
        new.write_bytes(saved[-1])
        new.rename(ground.path(PATH))

    with pytest.MonkeyPatch.context() as patch:
        for module in (tree_writer, exchange):
            patch.setattr(module, "rename_at", meddled)
        with pytest.raises(RestoreError) as raised:
            ground.recover()
    assert "keeps writing" in raised.value.faults[0].what
    assert len(saved) > 1
    assert set(saved) <= everything_on_disk(ground)
    assert {fault.where for fault in raised.value.faults[1:]} == {
        f"that is kept as `{ground.state / 'kept' / os.fsdecode(name)}`" for name in ground.kept()
    }
    ground.recover()
    assert ground.path(PATH).read_bytes() == OLD


# ------------------------------------------------------------------- a kill at every step


def two_files(top: Path, state: Path | None = None) -> Ground:
    """Make a tree in which a patch of two files makes roxy do all that it ever does."""
    ground = lay(Ground.make(top, state))
    file = ground.path(PATH)
    if IS_ROOT:
        os.chown(file, 12345, 23456)
        file.chmod(0o640)
    if has_xattrs(ground.root):
        os.setxattr(file, "user.note", b"kept")
    ground.path(b"src/deep/other.py").write_bytes(b"")
    return ground


EDITED = (PATH, b"src/deep/other.py")


def two_edits(ground: Ground) -> tuple[Any, Any]:
    return ground.edit(EDITED[0], NEW), ground.edit(EDITED[1], b"other = 2\n")


def crashes(
    run: Callable[[Faults], bool],
    step: int = 1,
    first: int = 0,
    moments: Sequence[bool] = (False, True),
) -> int:
    """Let something go wrong before and after each thing that it does to the disk; say how often.

    `run` does it with a fault, checks what came of it, and says whether the fault came to pass.
    """
    tried = 0
    for after in moments:
        number = first
        while run(Faults(at=number, after=after)):
            number += step
            tried += 1
    return tried


def kill_at(ground: Ground, crash: Faults) -> None:
    """Mutate two files and put them back, and be killed on the way."""
    edits = two_edits(ground)
    with crash.at_work(), contextlib.suppress(Killed), ground.patched(*edits):
        pass


def assert_back(ground: Ground, before: dict[bytes, Seen], disk: str) -> None:
    """Check that recovery brings everything back and leaves nothing behind."""
    times = {path: ground.mtime(path) for path in EDITED if ground.path(path).exists()}
    contents = {path: ground.path(path).read_bytes() for path in times}
    ground.recover()
    assert ground.snapshot() == before
    assert ground.leftovers() == []
    for path, mtime in times.items():
        if ground.path(path).read_bytes() != contents[path]:
            assert ground.mtime(path) // SECOND > mtime // SECOND
    if disk != "another device":  # there, a file that is half written looks like an edit
        assert ground.kept() == {}


@pytest.mark.rule("S28", "S30", "S33")
@pytest.mark.parametrize("disk", DISKS)
def test_whenever_roxy_is_killed_recover_brings_the_whole_tree_back(
    disk: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(crash: Faults) -> bool:
        with workshop(disk) as (top, state):
            ground = two_files(top / "ground", state)
            before = ground.snapshot()
            kill_at(ground, crash)
            now = ground.snapshot()
            assert now.keys() <= before.keys(), "a stray file"
            if disk != "no exchange":
                assert now.keys() == before.keys()
            assert {path for path in now if now[path] != before[path]} <= set(EDITED)
            assert_back(ground, before, disk)
        return crash.fired

    tried = crashes(run)
    with capsys.disabled():
        print(f"\n{disk}: {tried} kills ", end="")  # noqa: T201
    assert tried > 80


@pytest.mark.slow
@pytest.mark.rule("S28", "S30", "S33")
@pytest.mark.parametrize("disk", DISKS)
def test_whenever_roxy_is_killed_in_recover_too_the_next_one_brings_the_whole_tree_back(
    disk: str, capsys: pytest.CaptureFixture[str]
) -> None:
    tried = 0

    def run(first: Faults) -> bool:
        def run_again(second: Faults) -> bool:
            with workshop(disk) as (top, state):
                ground = two_files(top / "ground", state)
                before = ground.snapshot()
                kill_at(ground, replace(first, steps=[], fired=False))
                with second.at_work(), contextlib.suppress(Killed):
                    ground.recover()
                assert ground.snapshot().keys() <= before.keys(), "a stray file"
                assert_back(ground, before, disk)
            return second.fired

        nonlocal tried
        with workshop(disk) as (top, state):
            kill_at(two_files(top / "ground", state), first)
        if first.fired:
            assert first.at is not None
            step = 97 if disk == "another device" else 19
            tried += crashes(run_again, step, first=first.at % step)
        return first.fired

    crashes(run)
    with capsys.disabled():
        print(f"\n{disk}: {tried} pairs of kills ", end="")  # noqa: T201
    assert tried > 20


@pytest.mark.rule("S28", "S33")
@pytest.mark.parametrize(
    ("obstacle", "disk"),
    [
        *((obstacle, disk) for obstacle in OBSTACLES for disk in ("plain", "no exchange")),
        *((obstacle, "another device") for obstacle in list(OBSTACLES)[::5]),
    ],
)
def test_whenever_roxy_is_killed_while_it_clears_the_way_nothing_is_lost(
    obstacle: str, disk: str
) -> None:
    act, expected = OBSTACLES[obstacle]

    def run(crash: Faults) -> bool:
        with workshop(disk) as (top, state):
            ground = lay(Ground.make(top / "ground", state))
            before = ground.snapshot()
            ground.kill(ground.edit(PATH, NEW))
            act(ground)
            with crash.at_work(), contextlib.suppress(Killed):
                ground.recover()
            if crash.fired:
                ground.recover()
            now = ground.snapshot()
            for path in (PATH, b"src/deep", b"src"):
                assert now[path] == before[path]
            if disk == "another device":  # a file that is half written looks like an edit
                assert set(kept_things(ground)) >= set(expected)
            else:
                assert kept_things(ground) == sorted(expected)
            assert ground.leftovers() == []
        return crash.fired

    assert crashes(run) > 10


# ------------------------------------------------------------------- a disk that fails


def failures(run: Callable[[Faults], bool], number: int, *, lasting: bool) -> int:
    """Let each thing that is done to the disk fail, without or after being done."""

    def fail(fault: Faults) -> bool:
        return run(replace(fault, error=disk_error(number), lasting=lasting, with_reads=True))

    # What is refused is never done.
    return crashes(fail, moments=[False] if number == errno.EACCES else [False, True])


def fail_at(ground: Ground, fault: Faults) -> bool:
    """Mutate two files and put them back on a failing disk; say whether roxy called it a failure."""
    edits = two_edits(ground)
    with ground.journal() as one, fault.at_work():
        try:
            with one.patched("claim/check", edits, Patched(), ground.clock.sleep):
                pass
        except (ChangedMeanwhileError, DiskError, RestoreError):
            return True
    return False


@pytest.mark.rule("S28", "S33", "S48")
@pytest.mark.parametrize(
    ("disk", "number", "lasting"),
    [
        ("plain", errno.ENOSPC, True),
        ("plain", errno.EIO, False),
        ("plain", errno.EACCES, False),
        ("plain", errno.EACCES, True),
        ("no exchange", errno.EIO, False),
        ("no links", errno.ENOSPC, True),
    ],
)
def test_whatever_fails_roxy_says_so_or_all_is_well_and_recover_brings_the_tree_back(
    disk: str,
    number: int,
    lasting: bool,  # noqa: FBT001 - a column of the table
) -> None:
    reported = 0

    def run(fault: Faults) -> bool:
        nonlocal reported
        with workshop(disk) as (top, state):
            ground = two_files(top / "ground", state)
            before = ground.snapshot()
            is_failure = fail_at(ground, fault)
            assert ground.snapshot().keys() <= before.keys(), "a stray file"
            if not is_failure:
                assert ground.snapshot() == before
            assert_back(ground, before, "another device" if number == errno.EACCES else disk)
            reported += is_failure
        return fault.fired

    assert failures(run, number, lasting=lasting) > 100
    assert reported > 50


@pytest.mark.rule("S28", "S33", "S48")
@pytest.mark.parametrize("lasting", [False, True], ids=["once", "from then on"])
@pytest.mark.parametrize(
    ("obstacle", "number"),
    [
        ("nothing", errno.ENOSPC),
        ("other bytes", errno.EIO),
        ("other bytes", errno.EACCES),
        ("no folders", errno.EIO),
        ("a folder", errno.EACCES),
    ],
)
def test_whatever_fails_in_recover_roxy_says_so_and_the_next_one_brings_the_tree_back(
    obstacle: str, number: int, *, lasting: bool
) -> None:
    act, expected = OBSTACLES[obstacle]

    def run(fault: Faults) -> bool:
        with workshop("plain") as (top, state):
            ground = lay(Ground.make(top / "ground", state))
            before = ground.snapshot()
            ground.kill(ground.edit(PATH, NEW))
            act(ground)
            with (
                ground.journal() as one,
                fault.at_work(),
                contextlib.suppress(DiskError, RestoreError),
            ):
                one.recover(lambda _who: False)
            ground.recover()
            assert ground.snapshot()[PATH] == before[PATH]
            assert set(kept_things(ground)) >= set(expected)
            assert ground.leftovers() == []
        return fault.fired

    assert failures(run, number, lasting=lasting) > 10


@pytest.mark.rule("S28", "S30")
@pytest.mark.skipif(not IS_ROOT, reason="needs a file of another user's")
def test_a_file_of_somebody_elses_is_mutated_and_put_back_where_it_stands(
    open_folder: Path,
) -> None:
    ground = lay(Ground.make(open_folder / "ground"))
    give_to_nobody(open_folder / "ground")
    file = ground.path(PATH)
    os.chown(file, 0, 0)
    file.chmod(0o666)
    before, inode, dated = ground.snapshot(), file.stat().st_ino, ground.mtime(PATH)
    edit = ground.edit(PATH, NEW)
    edit.source.chmod(0o644)
    with as_nobody():
        with ground.patched(edit):
            assert file.read_bytes() == NEW
            assert file.stat().st_uid == 0
            mutated = ground.mtime(PATH)
        assert ground.snapshot() == before
        assert file.stat().st_ino == inode
        assert dated // SECOND < mutated // SECOND < ground.mtime(PATH) // SECOND
        ground.kill(ground.edit(PATH, NEW))
        _rewrite(ground)
        recovery = ground.recover()
        assert recovery is not None
        assert [one.place.read_bytes() for one in recovery.kept] == [FOREIGN]
        assert ground.snapshot() == before
    shutil.rmtree(open_folder / "ground")


@pytest.mark.rule("S33", "S48")
def test_one_file_that_cannot_be_put_back_does_not_keep_the_others_from_it(ground: Ground) -> None:
    before = ground.snapshot()
    ground.kill(*two_edits(ground))
    _rewrite(ground)
    copy = ground.state / "journal/copy-1"
    whole = copy.read_bytes()
    copy.write_bytes(b"rotten")
    with pytest.raises(RestoreError) as raised:
        ground.recover()
    fault, kept = raised.value.faults
    assert fault.what == "cannot put `src/deep/other.py` back: its copy is damaged"
    assert fault.where is not None
    assert f"`{copy}`" in fault.where
    assert kept.what.startswith("`src/deep/f.py` held something else")
    assert kept.where is not None
    assert Path(kept.where.split("`")[1]).read_bytes() == FOREIGN
    assert ground.path(PATH).read_bytes() == OLD
    assert copy.read_bytes() == b"rotten"
    copy.write_bytes(whole)
    recovery = ground.recover()
    assert recovery is not None
    assert b"src/deep/other.py" in recovery.restored
    assert ground.snapshot() == before


@pytest.mark.rule("S33", "S48")
def test_without_its_copy_a_file_is_left_as_it_is_and_nothing_is_forgotten(ground: Ground) -> None:
    ground.kill(ground.edit(PATH, NEW))
    copy = ground.state / "journal/copy-0"
    copy.rename(ground.root.parent / "aside")
    for act in (_nothing, _rewrite, _delete):
        act(ground)
        before = ground.snapshot()
        with pytest.raises(RestoreError, match="its copy cannot be read"):
            ground.recover()
        assert ground.snapshot() == before
    (ground.root.parent / "aside").rename(copy)
    ground.recover()
    assert ground.path(PATH).read_bytes() == OLD


@pytest.mark.rule("S33", "S48")
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("mode", -1),
        ("mode", 1 << 40),
        ("uid", 1 << 40),
        ("mtime", -1),
        ("path", 7),
        ("path", "src/../../outside/f.py"),
        ("path", "/etc/passwd"),
        ("path", ""),
        ("copy", None),
        ("copy", "../copy-0"),
    ],
)
def test_an_entry_with_a_value_that_cannot_be_is_never_followed(
    key: str, value: object, ground: Ground
) -> None:
    ground.kill(ground.edit(PATH, NEW))
    entry = ground.state / "journal/entry.json"
    whole = entry.read_bytes()
    damaged = json.loads(whole)
    damaged["files"][0][key] = value
    entry.write_text(json.dumps(damaged))
    before = ground.snapshot()
    with pytest.raises(RestoreError, match="cannot be read"):
        ground.recover()
    assert ground.snapshot() == before
    entry.write_bytes(whole)
    ground.recover()
    assert ground.path(PATH).read_bytes() == OLD


@pytest.mark.rule("S33", "S48")
@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"version": 2}', '{"version": 1, "check": "x", "files": [{}]}']
)
def test_an_entry_that_cannot_be_read_stops_roxy_and_costs_nothing(
    text: str, ground: Ground
) -> None:
    ground.kill(ground.edit(PATH, NEW))
    entry = ground.state / "journal/entry.json"
    whole = entry.read_bytes()
    entry.write_text(text)
    with pytest.raises(RestoreError, match="cannot be read") as raised:
        ground.recover()
    assert raised.value.faults[0].where == f"`{entry}`"
    assert (ground.state / "journal/copy-0").read_bytes() == OLD
    entry.write_bytes(whole)
    ground.recover()
    assert ground.path(PATH).read_bytes() == OLD


@pytest.mark.rule("S33", "S48")
def test_a_note_of_a_run_that_cannot_be_read_stops_roxy_before_it_restores(ground: Ground) -> None:
    ground.kill(ground.edit(PATH, NEW))
    note = ground.state / "journal/run.json"
    note.mkdir()
    with pytest.raises(RestoreError, match="cannot be read") as raised:
        ground.recover()
    assert raised.value.faults[0].where == f"`{note}`"
    assert ground.path(PATH).read_bytes() == NEW  # what still runs could write to it
    note.rmdir()
    ground.recover()
    assert ground.path(PATH).read_bytes() == OLD


@pytest.mark.rule("S29", "S33")
def test_a_recovery_that_cannot_remove_the_journal_names_what_it_kept(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)

    ground.kill(ground.edit(PATH, NEW))
    ground.path(PATH).write_bytes(FOREIGN)
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", refuse)
        with pytest.raises(DiskError) as raised:
            ground.recover()
    assert "journal" in raised.value.faults[0].what
    (name,) = ground.kept()
    place = ground.state / "kept" / os.fsdecode(name)
    assert raised.value.faults[1].where == f"that is kept as `{place}`"
    assert ground.path(PATH).read_bytes() == OLD
    assert ground.recover() is None


# ------------------------------------------------------------------- the order of things


@pytest.mark.rule("S28")
@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs names for descriptors")
def test_all_that_recovery_needs_is_synced_before_it_is_needed(tmp_path: Path) -> None:
    ground = lay(Ground.make(tmp_path / "ground"))
    log = Log()
    with log.at_work(), ground.patched(*two_edits(ground)):
        _rewrite(ground)
        log.note("run")
    journal, tree, kept = "state/journal", "tree/src/deep", "state/kept"
    log.has_in_order(f"sync {journal}/copy-0", "first exchange")
    log.has_in_order(f"sync {journal}/copy-1", "first exchange")
    log.has_in_order(f"sync {journal}/entry.json.new", f"rename {journal}/entry.json")
    log.has_in_order(f"rename {journal}/entry.json", f"sync {journal}", "first exchange")
    log.has_in_order("sync state", "first exchange")
    for number in (0, 1):
        staged = f"sync {journal}/staging-{number}.partial"
        log.has_in_order(staged, f"rename {journal}/staging-{number}", "run")
        log.has_in_order("run", staged, f"rename {journal}/staging-{number}", f"sync {tree}")
    log.has_in_order("first exchange", f"sync {tree}", "run")
    gone = f"unlink {journal}/entry.json"
    log.has_in_order("run", f"sync {tree}", gone)
    log.has_in_order("run", "sync state", f"rename {kept}/*", f"sync {kept}", gone)
    log.has_in_order(gone, f"sync {journal}", f"unlink {journal}/copy-0")


class Log:
    """What is done to the disk, in order, with the names it is done to."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def note(self, line: str) -> None:
        self.lines.append(line)

    def name(self, thing: Any) -> str:
        path = f"/proc/self/fd/{thing}" if isinstance(thing, int) else os.fspath(thing)
        path = os.path.realpath(path)
        path = path.partition("/ground/")[2]
        return "state/kept/*" if path.startswith("state/kept/") else path

    @contextlib.contextmanager
    def at_work(self) -> Iterator[None]:
        fsync, rename, unlink, rename_at = os.fsync, os.rename, os.unlink, exchange.rename_at

        def noted_rename(old: Any, new: Any, **options: Any) -> None:
            rename(old, new, **options)
            self.note(f"rename {self.name(new)}")

        def noted_rename_at(*arguments: Any) -> None:
            if not any("exchange" in line for line in self.lines):
                self.note("first exchange")
            rename_at(*arguments)
            self.note(f"exchange {self.name(arguments[1])}")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "fsync", lambda fd: (fsync(fd), self.note(f"sync {self.name(fd)}")))
            patch.setattr(os, "rename", noted_rename)
            patch.setattr(
                os,
                "unlink",
                lambda path, **rest: (self.note(f"unlink {self.name(path)}"), unlink(path, **rest)),
            )
            for module in (tree_writer, exchange):
                patch.setattr(module, "rename_at", noted_rename_at)
            yield

    def has_in_order(self, *wanted: str) -> None:
        lines = iter(self.lines)
        missing = [line for line in wanted if line not in lines]
        assert missing == [], "\n".join(self.lines)


# ------------------------------------------------------------------- what is refused


@pytest.mark.rule("S28", "S29")
@pytest.mark.parametrize(
    "act", [_rewrite, _append, _truncate, _delete, _link_outside, _folder, _fifo]
)
def test_patched_changes_nothing_when_a_file_is_not_what_the_edit_was_made_from(
    act: Callable[[Ground], None], ground: Ground
) -> None:
    edits = (ground.edit(b"src/deep/other.py", NEW), ground.edit(PATH, NEW))
    act(ground)
    before, identities = ground.snapshot(), _identities(ground.root)
    with pytest.raises(ChangedMeanwhileError) as raised, ground.patched(*edits):
        pytest.fail("the edit stands")
    assert raised.value.paths == (PATH,)
    assert ground.snapshot() == before
    assert _identities(ground.root) == identities
    assert ground.recover() is None


@pytest.mark.rule("S28", "S32")
def test_patched_changes_nothing_when_it_is_interrupted_while_it_waits(ground: Ground) -> None:
    ahead = ground.clock.time_ns() + SECOND
    os.utime(ground.path(PATH), ns=(ahead, ahead))
    edit = ground.edit(PATH, NEW)
    asked: list[float] = []

    def sleep(seconds: float) -> None:
        asked.append(seconds)
        raise Interrupted(signal.SIGINT)

    identities = _identities(ground.root)
    with (
        ground.journal() as one,
        pytest.raises(Interrupted),
        one.patched("claim/check", [edit], Patched(), sleep),
    ):
        pytest.fail("the edit stands")
    assert 0 < asked[0] <= 1
    assert _identities(ground.root) == identities
    assert ground.recover() is None


@pytest.mark.rule("S28", "S32")
def test_patched_puts_back_when_the_run_ends_in_an_exception(ground: Ground) -> None:
    before = ground.snapshot()
    with pytest.raises(KeyError), ground.patched(*two_edits(ground)):
        raise KeyError
    assert ground.snapshot() == before
    assert ground.leftovers() == []


@pytest.mark.rule("S28")
@pytest.mark.parametrize("name", ["copy-0", "entry.json", ""])
def test_a_check_that_removes_the_journal_does_not_keep_the_file_from_coming_back(
    name: str, ground: Ground
) -> None:
    before = ground.snapshot()
    with ground.patched(*two_edits(ground)):
        gone = ground.state / "journal" / name
        if gone.is_dir():
            shutil.rmtree(gone)
        else:
            gone.unlink()
    assert ground.snapshot() == before
    assert ground.leftovers() == []


@pytest.mark.rule("S28")
def test_patched_makes_no_git_directory_where_there_is_none_any_more(tmp_path: Path) -> None:
    git = tmp_path / "git"
    git.mkdir()
    ground = lay(Ground.make(tmp_path / "ground", git / "roxy"))
    edit = ground.edit(PATH, NEW)
    git.rename(tmp_path / "moved")
    with pytest.raises(DiskError), ground.patched(edit):
        pytest.fail("the edit stands")
    assert not git.exists()
    assert ground.path(PATH).read_bytes() == OLD


# ------------------------------------------------------------------- after a kill


@pytest.mark.rule("S33")
def test_recover_says_nothing_when_there_is_nothing_to_do(ground: Ground) -> None:
    assert ground.recover() is None
    (ground.state / "journal").mkdir()
    (ground.state / "journal/copy-0").write_bytes(OLD)
    assert ground.recover() is None
    assert not (ground.state / "journal").exists()


def put_back_and_die(ground: Ground) -> None:
    """Leave the tree as a roxy does that is killed when all is back but its entry still there."""

    class Kill(Faults):
        def step(self, name: str, do: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
            if name == "unlink" and str(arguments[0]).endswith("entry.json"):
                self.fired = True
            return super().step(name, do, *arguments, **options)

    edits = two_edits(ground)
    with Kill().at_work(), contextlib.suppress(Killed), ground.patched(*edits):
        pass
    assert ground.path(PATH).read_bytes() == OLD
    assert "entry.json" in ground.leftovers()


@pytest.mark.rule("S29", "S33")
@pytest.mark.parametrize(
    "acts", [[_rewrite], [_replace], [_append, _replace], [_replace, _append], [_append, _append]]
)
def test_an_edit_made_after_a_file_was_put_back_and_roxy_killed_is_not_lost(
    acts: list[Callable[[Ground], None]], ground: Ground
) -> None:
    put_back_and_die(ground)
    for act in acts:
        act(ground)
    last = ground.path(PATH).read_bytes()
    copied = (ground.state / "journal/copy-0").read_bytes()
    ground.recover()
    assert {last, copied} <= everything_on_disk(ground)
    assert ground.path(PATH).read_bytes() in (OLD, last)
    assert ground.leftovers() == []


@pytest.mark.rule("S29", "S33")
def test_whenever_recover_is_killed_over_such_edits_the_next_one_still_ends_well() -> None:
    def run(crash: Faults) -> bool:
        with workshop("plain") as (top, _):
            ground = lay(Ground.make(top / "ground"))
            put_back_and_die(ground)
            _append(ground)
            _replace(ground)
            last = ground.path(PATH).read_bytes()
            copied = (ground.state / "journal/copy-0").read_bytes()
            with crash.at_work(), contextlib.suppress(Killed):
                ground.recover()
            if crash.fired:
                ground.recover()
            assert {last, copied} <= everything_on_disk(ground)
            assert ground.path(PATH).read_bytes() == last
            assert ground.leftovers() == []
        return crash.fired

    assert crashes(run) > 10


@pytest.mark.rule("S33")
def test_recover_ends_what_still_runs_before_it_puts_anything_back(ground: Ground) -> None:
    who = Identity(12345, "678", "boot")
    with ground.journal() as one:
        one.note_run(who)
    ground.kill(ground.edit(PATH, NEW))
    ended = []

    def end(identity: Identity) -> bool:
        assert ground.path(PATH).read_bytes() == NEW
        ended.append(identity)
        return True

    with ground.journal() as one:
        recovery = one.recover(end)
    assert ended == [who]
    assert recovery is not None
    assert recovery.ended_group == 12345
    assert ground.path(PATH).read_bytes() == OLD


@pytest.mark.rule("S33")
def test_recover_that_cannot_end_what_runs_puts_nothing_back_yet(ground: Ground) -> None:
    with ground.journal() as one:
        one.note_run(Identity(12345, "678", "boot"))
    ground.kill(ground.edit(PATH, NEW))

    def fail(_: Identity) -> bool:
        raise ProcessError("it does not end")

    with ground.journal() as one, pytest.raises(ProcessError):
        one.recover(fail)
    assert ground.path(PATH).read_bytes() == NEW
    with ground.journal() as one:
        recovery = one.recover(lambda _who: True)
    assert recovery is not None
    assert recovery.ended_group == 12345
    assert ground.path(PATH).read_bytes() == OLD


@pytest.mark.rule("S33")
@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"pid": "x", "started": 1, "boot": 2}', "\0"]
)
def test_a_note_of_a_run_that_cannot_be_read_is_about_nobody(text: str, ground: Ground) -> None:
    ground.kill(ground.edit(PATH, NEW))
    (ground.state / "journal/run.json").write_text(text)
    recovery = ground.recover()
    assert recovery is not None
    assert recovery.ended_group is None
    assert ground.path(PATH).read_bytes() == OLD


# ------------------------------------------------------------------- what is kept


@pytest.mark.rule("S15", "S29")
@pytest.mark.parametrize("name", [b"n" * 255, "漢".encode() * 85, "🦊".encode() * 63, b"\xff\n'\""])
def test_what_is_kept_has_a_name_whatever_the_file_is_called(name: bytes, ground: Ground) -> None:
    path = b"src/" + name
    ground.write(path, OLD)
    edit = ground.edit(path, NEW)
    with ground.patched(edit) as patched:
        ground.path(path).write_bytes(FOREIGN)
    (kept,) = patched.kept
    assert kept.place.read_bytes() == FOREIGN
    assert name[:40] in os.fsencode(kept.place)
    assert ground.path(path).read_bytes() == OLD


@pytest.mark.rule("S29")
def test_what_is_kept_is_never_overwritten_by_what_is_kept_later(ground: Ground) -> None:
    saved = [b"save %d" % number for number in range(5)]
    for data in saved:
        with ground.patched(ground.edit(PATH, NEW)):
            ground.path(PATH).write_bytes(data)
    assert [seen.content for _, seen in sorted(ground.kept().items())] == saved


@pytest.mark.rule("S29", "S30")
def test_an_edit_of_this_second_makes_way_for_content_of_a_later_one(ground: Ground) -> None:
    with ground.patched(ground.edit(PATH, NEW)):
        ground.clock.sleep(60)
        _rewrite(ground)
        now = ground.clock.time_ns()
        os.utime(ground.path(PATH), ns=(now, now))
    assert ground.mtime(PATH) // SECOND > now // SECOND


@pytest.mark.rule("S30")
def test_a_mutated_file_that_was_touched_this_second_makes_way_for_content_of_a_later_one(
    ground: Ground,
) -> None:
    with ground.patched(ground.edit(PATH, NEW)):
        ground.clock.sleep(60)
        now = ground.clock.time_ns()
        os.utime(ground.path(PATH), ns=(now, now))
    assert ground.mtime(PATH) // SECOND > now // SECOND


@pytest.mark.rule("S30")
def test_seconds_to_rest_last_until_the_clock_has_passed_every_time_that_was_set(
    ground: Ground,
) -> None:
    edit = ground.edit(PATH, NEW)
    with ground.journal() as one:
        assert one.seconds_to_rest() == 0
        with one.patched("claim/check", [edit], Patched(), ground.clock.sleep):
            pass
        seconds = one.seconds_to_rest()
        assert 0 < seconds <= 2
        ground.clock.sleep(seconds)
        assert ground.clock.time_ns() // SECOND > ground.mtime(PATH) // SECOND
        assert one.seconds_to_rest() == 0
