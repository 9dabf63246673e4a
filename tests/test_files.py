"""The one writer: nothing through a link, nothing by halves, nothing without saying so (S28, S35)."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ground import IS_ROOT, Faults, Killed, content, disk_error, look, refuse_flags, snapshot
from roxy.core import attributes, exchange, files, tree_writer
from roxy.core.attributes import Attributes
from roxy.core.errors import DiskError
from roxy.core.working_tree import Content, NotRegularError, Tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

OTHER_DEVICE = Path("/dev/shm")  # noqa: S108 - each test makes a folder of its own in it


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    (root / "a/b").mkdir(parents=True)
    (root / "a/b/file").write_bytes(b"old")
    (root / "link").symlink_to("a")
    (root / "a/loop").symlink_to("loop")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/file").write_bytes(b"outside")
    (tmp_path / "state").mkdir()
    return root


@pytest.fixture
def tree(root: Path) -> Iterator[Tree]:
    tree = Tree(root)
    yield tree
    tree.close()


@pytest.fixture
def staging(root: Path) -> Path:
    return root.parent / "state/staging"


# ------------------------------------------------------------------- reading the tree


@pytest.mark.rule("S12", "S28")
@pytest.mark.parametrize("path", [b"link/b/file", b"a/loop", b"a/loop/file", b"a/b/file/file"])
def test_no_path_leads_through_a_link_or_a_file(path: bytes, tree: Tree) -> None:
    with pytest.raises(OSError, match="Errno"):
        tree.content(path)
    if path != b"a/loop":
        assert tree.look(path) is None
        with pytest.raises(OSError, match="Errno"):
            tree.folder(path)


@pytest.mark.rule("S28")
@pytest.mark.parametrize("kind", ["folder", "FIFO", "socket"])
def test_what_is_no_regular_file_is_never_read_and_never_blocks(
    kind: str, root: Path, tree: Tree
) -> None:
    odd = root / "odd"
    if kind == "folder":
        odd.mkdir()
    elif kind == "FIFO":
        os.mkfifo(odd)
    else:
        with socket.socket(socket.AF_UNIX) as server, contextlib.chdir(root):
            server.bind("odd")
    with pytest.raises(OSError) as raised, tree.reading(b"odd"):  # noqa: PT011 - of two kinds
        pass
    assert isinstance(raised.value, NotRegularError) == (kind != "socket")


@pytest.mark.rule("S28")
def test_forget_makes_the_tree_see_a_folder_that_took_the_place_of_another(
    root: Path, tree: Tree
) -> None:
    tree.content(b"a/b/file")
    (root / "a").rename(root / "moved")
    (root / "a/b").mkdir(parents=True)
    (root / "a/b/file").write_bytes(b"another")
    tree.forget()
    assert tree.content(b"a/b/file") == content(b"another")
    (root / "a").rename(root / "moved again")
    (root / "a").symlink_to(root.parent / "outside")
    tree.forget()
    assert tree.look(b"a/b/file") is None


# ------------------------------------------------------------------- placing


@contextlib.contextmanager
def without_flags(*, missing: bool) -> Iterator[None]:
    """Be on a file system that knows no flag of rename, or not."""
    with pytest.MonkeyPatch.context() as patch:
        if missing:
            for module in (exchange, tree_writer):
                patch.setattr(module, "rename_at", refuse_flags)
        yield


def put(kind: str, path: Path) -> None:
    match kind:
        case "file":
            path.write_bytes(b"there")
        case "link":
            path.symlink_to("nowhere")
        case "folder":
            path.mkdir()
            (path / "inner").write_bytes(b"there")
        case "FIFO":
            os.mkfifo(path)


@pytest.mark.rule("S28", "S29")
@pytest.mark.parametrize("missing", [False, True], ids=["with flags", "without flags"])
@pytest.mark.parametrize("kind", ["nothing", "file", "link", "folder", "FIFO"])
def test_exchange_puts_into_our_hands_whatever_had_the_name(
    kind: str, root: Path, staging: Path, *, missing: bool
) -> None:
    put(kind, root / "name")
    before = {b"": look(root / "name"), **snapshot(root / "name")} if kind != "nothing" else None
    staging.write_bytes(b"new")
    folder = os.open(root, os.O_RDONLY)
    with without_flags(missing=missing):
        displaced = exchange.exchange(staging, folder, b"name")
    os.close(folder)
    assert (root / "name").read_bytes() == b"new"
    assert displaced == (kind != "nothing")
    if before is not None:
        assert {b"": look(staging), **snapshot(staging)} == before
        staging.rename(root.parent / "seen")
    assert list((root.parent / "state").iterdir()) == []


@pytest.mark.rule("S28", "S29")
def test_exchange_never_replaces_what_appears_in_the_moment_the_name_is_nobodys(
    root: Path, staging: Path
) -> None:
    (root / "name").write_bytes(b"there")
    staging.write_bytes(b"new")
    link = os.link

    def busy(*arguments: Any, **options: Any) -> None:
        (root / "name").write_bytes(b"saved")
        link(*arguments, **options)

    folder = os.open(root, os.O_RDONLY)
    with without_flags(missing=True), pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "link", busy)
        with pytest.raises(FileExistsError):
            exchange.exchange(staging, folder, b"name")
    os.close(folder)
    assert (root / "name").read_bytes() == b"saved"
    assert staging.read_bytes() == b"there"


@pytest.mark.rule("S28", "S29")
def test_exchange_tries_again_when_a_name_appears_and_vanishes(root: Path, staging: Path) -> None:
    staging.write_bytes(b"new")
    rename_at = exchange.rename_at
    seen = []

    def busy(old: Path, folder: int, name: bytes, how: exchange.Rename) -> None:
        if how is exchange.Rename.NO_REPLACE and how.name not in seen:
            (root / "name").write_bytes(b"saved")
        seen.append(how.name)
        rename_at(old, folder, name, how)

    folder = os.open(root, os.O_RDONLY)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exchange, "rename_at", busy)
        assert exchange.exchange(staging, folder, b"name")
    os.close(folder)
    assert seen == ["EXCHANGE", "NO_REPLACE", "EXCHANGE"]
    assert staging.read_bytes() == b"saved"
    assert (root / "name").read_bytes() == b"new"


@pytest.mark.rule("S28")
@pytest.mark.parametrize("device", ["same", "other"])
def test_place_changes_no_other_hard_link_of_a_file(
    device: str, root: Path, tree: Tree, tmp_path: Path
) -> None:
    other = tmp_path / "other name"
    os.link(root / "a/b/file", other)
    before = look(other), other.stat().st_mtime_ns, other.stat().st_ino
    with state_on(device, tmp_path) as state:
        (state / "source").write_bytes(b"new")
        attributes = Attributes(0o600, os.getuid(), os.getgid())
        assert tree_writer.place(
            tree, b"a/b/file", state / "source", attributes, 10**18, state / "staging"
        )
        assert (state / "staging").read_bytes() == b"old"
    assert (root / "a/b/file").read_bytes() == b"new"
    assert (root / "a/b/file").stat().st_mtime_ns == 10**18
    assert (look(other), other.stat().st_mtime_ns, other.stat().st_ino) == before


@contextlib.contextmanager
def state_on(device: str, tmp_path: Path) -> Iterator[Path]:
    """Give a folder of roxy's own on the same or on another device than the tree."""
    if device == "same":
        yield tmp_path / "state"
        return
    if not OTHER_DEVICE.is_dir() or OTHER_DEVICE.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("needs a second file system")
    with tempfile.TemporaryDirectory(dir=OTHER_DEVICE) as name:
        yield Path(name)


@pytest.mark.rule("S28", "S29")
def test_a_file_written_while_it_is_copied_is_copied_again_before_it_is_overwritten(
    root: Path, tree: Tree, tmp_path: Path
) -> None:
    copy_in = files.copy_in
    saved = [b"saved once", b"saved twice"]

    def busy(source: int, to: Path) -> Content:
        copied = copy_in(source, to)
        if saved:
            (root / "a/b/file").write_bytes(saved.pop(0))
        return copied

    with state_on("other", tmp_path) as state, pytest.MonkeyPatch.context() as patch:
        patch.setattr(tree_writer, "copy_in", busy)
        (state / "source").write_bytes(b"new")
        attributes = Attributes(0o600, os.getuid(), os.getgid())
        assert tree_writer.place(
            tree, b"a/b/file", state / "source", attributes, 0, state / "staging"
        )
        assert (state / "staging").read_bytes() == b"saved twice"
    assert (root / "a/b/file").read_bytes() == b"new"


@pytest.mark.rule("S28", "S29")
def test_a_file_that_is_written_all_the_time_is_never_overwritten(
    root: Path, tree: Tree, tmp_path: Path
) -> None:
    copy_in = files.copy_in
    times = iter(range(100))

    def busy(source: int, to: Path) -> Content:
        copied = copy_in(source, to)
        (root / "a/b/file").write_bytes(b"saved %d" % next(times))
        return copied

    with state_on("other", tmp_path) as state, pytest.MonkeyPatch.context() as patch:
        patch.setattr(tree_writer, "copy_in", busy)
        (state / "source").write_bytes(b"new")
        attributes = Attributes(0o600, os.getuid(), os.getgid())
        with pytest.raises(OSError, match="keeps writing"):
            tree_writer.place(tree, b"a/b/file", state / "source", attributes, 0, state / "staging")
    assert (root / "a/b/file").read_bytes() == b"saved %d" % (next(times) - 1)


@pytest.mark.rule("S28")
@pytest.mark.skipif(not IS_ROOT, reason="only root can mount a small disk")
def test_a_full_disk_does_not_keep_a_file_from_being_put_back(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "none", disk]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("may not mount")
    try:
        (disk / "tree").mkdir()
        (disk / "state").mkdir()
        (disk / "tree/file").write_bytes(b"mutated")
        (disk / "state/copy").write_bytes(b"the original\n" * 5000)
        with (disk / "hog").open("wb", buffering=0) as hog, contextlib.suppress(OSError):
            while True:
                hog.write(bytes(4096))
        tree = Tree(disk / "tree")
        attributes = Attributes(0o640, 0, 0)
        tree_writer.place(tree, b"file", disk / "state/copy", attributes, 0, disk / "state/staging")
        tree.close()
        assert (disk / "tree/file").read_bytes() == b"the original\n" * 5000
    finally:
        subprocess.run(["umount", disk], check=True)


# ------------------------------------------------------------------- extended attributes


@pytest.mark.rule("S28")
@pytest.mark.parametrize(
    ("name", "number", "is_error"),
    [
        ("user.note", errno.EPERM, True),
        ("user.note", errno.ENOSPC, True),
        ("user.note", errno.ENOTSUP, False),
        ("security.selinux", errno.EPERM, False),
        ("security.selinux", errno.EACCES, False),
        ("trusted.x", errno.EPERM, False),
    ],
)
@pytest.mark.skipif(not hasattr(os, "setxattr"), reason="needs extended attributes")
def test_an_extended_attribute_of_the_users_is_given_back_or_roxy_says_so(
    name: str,
    number: int,
    is_error: bool,  # noqa: FBT001 - a column of the table
    root: Path,
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    fd = os.open(root / "a/b/file", os.O_RDWR)
    wanted = Attributes(0o600, os.getuid(), os.getgid(), {name: b"value"})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attributes.os, "setxattr", refuse)
        with pytest.raises(OSError, match="Errno") if is_error else contextlib.nullcontext():
            wanted.give(fd, 0)
    os.close(fd)


# ------------------------------------------------------------------- roxy.lock


def write_lock(tree: Tree, data: bytes, staging: Path) -> None:
    tree_writer.write_into_tree(tree, b"roxy.lock", data, staging)


@pytest.mark.rule("S35")
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_lock_is_the_old_one_or_the_new_one_whenever_roxy_is_killed(
    root: Path, tree: Tree, staging: Path, *, after: bool
) -> None:
    lock = root / "roxy.lock"
    tried = 0
    while True:
        lock.write_bytes(b"old lock\n")
        lock.chmod(0o664)
        names = snapshot(root).keys()
        crash = Faults(at=tried, after=after)
        with crash.at_work(), contextlib.suppress(Killed):
            write_lock(tree, b"new lock\n", staging)
        assert lock.read_bytes() in (b"old lock\n", b"new lock\n")
        assert lock.stat().st_mode & 0o777 == 0o664
        assert snapshot(root).keys() == names
        if not crash.fired:
            break
        tried += 1
    assert lock.read_bytes() == b"new lock\n"
    assert tried >= 5
    assert not staging.exists()


@pytest.mark.rule("S35")
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_a_lock_that_cannot_be_written_is_the_old_one(
    number: int, root: Path, tree: Tree, staging: Path
) -> None:
    lock = root / "roxy.lock"
    for at in range(100):
        lock.write_bytes(b"old lock\n")
        fault = Faults(at=at, error=disk_error(number), lasting=False)
        with fault.at_work(), contextlib.suppress(OSError):
            write_lock(tree, b"new lock\n", staging)
        if "rename" in fault.steps[: at - 1] or not fault.fired:
            break
        assert lock.read_bytes() == b"old lock\n" or fault.steps[at - 1] == "rename"
    assert at > 4


@pytest.mark.rule("S35")
@pytest.mark.parametrize("target", ["file", "nowhere", "folder"])
def test_a_link_for_a_lock_is_replaced_and_what_it_leads_to_stays(
    target: str, root: Path, tree: Tree, staging: Path
) -> None:
    outside = root.parent / "outside"
    lock = root / "roxy.lock"
    lock.symlink_to({"file": outside / "file", "nowhere": "nowhere", "folder": outside}[target])
    before = snapshot(outside)
    write_lock(tree, b"new lock\n", staging)
    assert not lock.is_symlink()
    assert lock.read_bytes() == b"new lock\n"
    assert snapshot(outside) == before
    assert not (root / "nowhere").exists()


@pytest.mark.rule("S35")
def test_another_hard_link_of_a_lock_stays_what_it_was(
    root: Path, tree: Tree, staging: Path
) -> None:
    lock = root / "roxy.lock"
    lock.write_bytes(b"old lock\n")
    os.link(lock, root.parent / "other name")
    write_lock(tree, b"new lock\n", staging)
    assert lock.read_bytes() == b"new lock\n"
    assert (root.parent / "other name").read_bytes() == b"old lock\n"


@pytest.mark.rule("S35")
def test_a_folder_for_a_lock_is_an_error_and_stays(root: Path, tree: Tree, staging: Path) -> None:
    (root / "roxy.lock").mkdir()
    (root / "roxy.lock/file").write_bytes(b"there")
    with pytest.raises(IsADirectoryError):
        write_lock(tree, b"new lock\n", staging)
    assert (root / "roxy.lock/file").read_bytes() == b"there"
    assert not staging.exists()


@pytest.mark.rule("S35")
def test_a_lock_is_written_where_it_stands_when_roxys_folder_is_on_another_device(
    root: Path, tree: Tree, tmp_path: Path
) -> None:
    with state_on("other", tmp_path) as state:
        write_lock(tree, b"a long lock\n", state / "staging")
        write_lock(tree, b"lock\n", state / "staging")
        assert list(state.iterdir()) == []
    assert (root / "roxy.lock").read_bytes() == b"lock\n"


# ------------------------------------------------------------------- roxy's own folder


@pytest.mark.rule("S33")
@pytest.mark.parametrize("lasting", [False, True])
def test_write_leaves_the_old_file_or_the_new_one_whenever_roxy_is_killed(
    tmp_path: Path, *, lasting: bool
) -> None:
    file = tmp_path / "entry.json"
    for after in (False, True):
        for number in range(100):
            file.write_bytes(b"old")
            crash = Faults(at=number, after=after)
            with crash.at_work(), contextlib.suppress(Killed):
                files.write(file, b"new", lasting=lasting)
            assert file.read_bytes() in (b"old", b"new")
            if not crash.fired:
                break
        assert number >= 2
        assert file.read_bytes() == b"new"


FAILING: dict[str, Callable[[Path], object]] = {
    "write": lambda path: files.write(path / "file/inner", b""),
    "copy": lambda path: files.copy_in(0, path / "file/inner"),
    "make the folder": lambda path: files.make_folder(path / "file"),
    "rename": lambda path: files.rename(path / "file", path / "file/inner"),
    "remove": lambda path: files.remove(path / "folder"),
    "remove the folder": lambda path: files.remove_folder(path / "file"),
    "sync the folder": lambda path: files.sync_folder(path / "file"),
}


@pytest.mark.rule("S48")
@pytest.mark.parametrize("what", FAILING)
def test_each_failure_says_what_and_where_and_what_to_do(what: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    with pytest.raises(DiskError) as raised:
        FAILING[what](tmp_path)
    (fault,) = raised.value.faults
    assert fault.what.startswith(f"cannot {what} ")
    assert f"`{tmp_path}" in fault.what
    assert fault.hint


@pytest.mark.rule("S28")
def test_a_copy_is_never_written_into_what_has_its_name_already(root: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy-0"
    os.link(root / "a/b/file", copy)
    source = os.open(tmp_path / "outside/file", os.O_RDONLY)
    assert files.copy_in(source, copy) == content(b"outside")
    os.close(source)
    assert copy.read_bytes() == b"outside"
    assert (root / "a/b/file").read_bytes() == b"old"


@pytest.mark.rule("S28")
def test_remove_folder_follows_no_link(root: Path, tmp_path: Path) -> None:
    before = snapshot(root)
    (tmp_path / "state/journal").symlink_to(root)
    files.remove_folder(tmp_path / "state/journal")
    files.remove_folder(tmp_path / "state/journal")
    (tmp_path / "state/journal/inner").mkdir(parents=True)
    (tmp_path / "state/journal/inner/link").symlink_to(root)
    files.remove_folder(tmp_path / "state/journal")
    assert snapshot(root) == before
    assert list((tmp_path / "state").iterdir()) == []


@pytest.mark.rule("S28")
@pytest.mark.parametrize(("number", "is_error"), [(errno.EINVAL, False), (errno.EIO, True)])
def test_a_folder_is_synced_where_the_file_system_can(
    number: int,
    is_error: bool,  # noqa: FBT001 - a column of the table
    tmp_path: Path,
) -> None:
    fault = Faults(at=0, error=disk_error(number))
    with fault.at_work(), pytest.raises(DiskError) if is_error else contextlib.nullcontext():
        files.sync_folder(tmp_path)
    assert fault.steps == ["fsync"]
