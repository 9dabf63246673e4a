"""Reading one regular file, whatever else lies there (S11, S37)."""

from __future__ import annotations

import contextlib
import os
import socket
from functools import partial
from typing import TYPE_CHECKING

import pytest

from roxy.core import regular_file
from roxy.core.regular_file import MissingFileError, UnreadableFileError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LIMIT = regular_file.MEBIBYTE


@pytest.fixture
def top(tmp_path: Path) -> Path:
    top = tmp_path / "top"
    (top / "sub" / "deep").mkdir(parents=True)
    (top / "file").write_bytes(b"content")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_bytes(b"secret")
    return top


@pytest.fixture
def root(top: Path) -> Iterator[int]:
    descriptor = os.open(top, os.O_RDONLY | os.O_DIRECTORY)
    yield descriptor
    os.close(descriptor)


def lay(top: Path, kind: str) -> None:
    """Put something that is no regular file at `top/odd`."""
    odd = top / "odd"
    match kind:
        case "directory":
            odd.mkdir()
        case "FIFO":
            os.mkfifo(odd)
        case "socket":
            with socket.socket(socket.AF_UNIX) as server, contextlib.chdir(top):
                server.bind("odd")  # a socket takes only a short path
        case "link":
            odd.symlink_to("file")
        case "loop":
            odd.symlink_to("odd")
        case "dangling":
            odd.symlink_to("nothing")
        case "device":
            odd.symlink_to("/dev/zero")


@pytest.mark.rule("S11", "S37")
@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("directory", "is a directory"),
        ("FIFO", "is a FIFO"),
        ("socket", "is a socket"),
        ("loop", "cannot be read: too many levels of symbolic links"),
        ("dangling", "does not exist"),
        ("device", "is a device"),
        ("missing", "does not exist"),
    ],
)
def test_what_is_no_regular_file_is_called_by_its_kind_without_waiting(
    top: Path, root: int, kind: str, words: str
) -> None:
    lay(top, kind)
    with pytest.raises(UnreadableFileError) as caught:
        regular_file.read(root, b"odd", LIMIT, follow_links=True)
    assert str(caught.value) == words
    assert isinstance(caught.value, MissingFileError) is (words == "does not exist")


@pytest.mark.rule("S37")
@pytest.mark.parametrize("kind", ["link", "loop", "dangling", "device"])
def test_a_link_is_not_followed_unless_asked_to(top: Path, root: int, kind: str) -> None:
    lay(top, kind)
    with pytest.raises(UnreadableFileError, match="is a symbolic link"):
        regular_file.read(root, b"odd", LIMIT, follow_links=False)


@pytest.mark.rule("S11", "S37")
def test_a_file_of_the_limit_is_read_and_one_byte_more_is_too_large(top: Path, root: int) -> None:
    (top / "file").write_bytes(b"x" * LIMIT)
    assert len(regular_file.read(root, b"file", LIMIT, follow_links=False)) == LIMIT
    os.truncate(top / "file", LIMIT + 1)
    with pytest.raises(UnreadableFileError, match="is larger than 1 MiB"):
        regular_file.read(root, b"file", LIMIT, follow_links=False)


def inside(root: int, path: bytes) -> bytes:
    """Read a file alone, then twice through folders that are looked at once; all must agree."""
    outcomes: list[bytes | UnreadableFileError] = []
    with regular_file.Folders(root) as folders:
        for read in (partial(regular_file.read_inside, root), folders.read, folders.read):
            try:
                outcomes.append(read(path, LIMIT))
            except UnreadableFileError as error:
                outcomes.append(error)
    first, *others = outcomes
    assert {(type(one), str(one)) for one in others} == {(type(first), str(first))}
    if isinstance(first, UnreadableFileError):
        raise first
    return first


@pytest.mark.rule("S11")
@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_says_so(top: Path, root: int) -> None:
    (top / "file").chmod(0)
    with pytest.raises(UnreadableFileError, match="cannot be read: permission denied"):
        regular_file.read(root, b"file", LIMIT, follow_links=False)


@pytest.mark.rule("S11")
@pytest.mark.parametrize(
    ("target", "path"),
    [
        ("../file", b"sub/link"),
        ("deep/../../file", b"sub/link"),
        ("{top}/file", b"sub/link"),
        ("../../top/file", b"sub/link"),
        ("../../outside/back", b"sub/link"),
        ("..", b"sub/link/file"),
        ("{top}", b"sub/link/file"),
        ("../../outside/up", b"sub/link/top/file"),
    ],
)
def test_a_link_to_a_file_within_the_tree_is_followed(
    top: Path, root: int, target: str, path: bytes
) -> None:
    (top / "../outside/back").symlink_to("../top/file")
    (top / "../outside/up").symlink_to("..")
    (top / "sub" / "link").symlink_to(target.format(top=top))
    assert inside(root, path) == b"content"


@pytest.mark.rule("S11")
@pytest.mark.parametrize(
    ("target", "path"),
    [
        ("../../outside/file", b"sub/link"),
        ("{top}/../outside/file", b"sub/link"),
        ("../../outside", b"sub/link/file"),
        ("{top}/../outside", b"sub/link/file"),
        ("../chain", b"sub/link"),
        ("/dev/zero", b"sub/link"),
        ("/etc/passwd", b"sub/link"),
        ("/", b"sub/link/etc/passwd"),
        ("../../top2/file", b"sub/link"),
    ],
)
def test_a_link_that_leads_out_of_the_tree_is_refused(
    top: Path, root: int, target: str, path: bytes
) -> None:
    (top / "chain").symlink_to("sub/deep/chain")
    (top / "sub/deep/chain").symlink_to("../../../outside/file")
    (top / "../top2").mkdir()
    (top / "../top2/file").write_bytes(b"")
    (top / "sub" / "link").symlink_to(target.format(top=top))
    with pytest.raises(UnreadableFileError, match=r"^is outside the working tree$"):
        inside(root, path)


@pytest.mark.rule("S11")
@pytest.mark.parametrize(
    ("path", "words"),
    [
        (b"sub", "is a directory"),
        (b"sub/", "is a directory"),
        (b"sub/.", "is a directory"),
        (b".", "is a directory"),
        (b"sub/nothing", "does not exist"),
        (b"nothing/file", "does not exist"),
        (b"file/x", "cannot be read: not a directory"),
        (b"x" * 300, "cannot be read: file name too long"),
    ],
)
def test_a_path_that_leads_to_no_file_says_why(root: int, path: bytes, words: str) -> None:
    with pytest.raises(UnreadableFileError) as caught:
        inside(root, path)
    assert str(caught.value) == words


@pytest.mark.rule("S11")
@pytest.mark.parametrize("kind", ["FIFO", "loop", "socket", "directory"])
def test_an_odd_file_within_the_tree_is_refused_without_waiting(
    top: Path, root: int, kind: str
) -> None:
    lay(top, kind)
    with pytest.raises(UnreadableFileError, match=r"is a |too many levels"):
        inside(root, b"odd")


@pytest.mark.rule("S11")
def test_reading_leaves_no_descriptor_open(top: Path, root: int) -> None:
    (top / "out").symlink_to("../outside/file")
    before = len(os.listdir("/dev/fd"))
    for path in (b"file", b"sub/../file", b"out", b"nothing", b"sub", b"nothing/x"):
        with contextlib.suppress(UnreadableFileError):
            inside(root, path)
    assert len(os.listdir("/dev/fd")) == before


@pytest.mark.rule("S11")
def test_a_tree_that_was_moved_is_still_the_same_tree(top: Path, root: int) -> None:
    (top / "sub/link").symlink_to("../file")
    top.rename(top.parent / "elsewhere")
    assert inside(root, b"sub/link") == b"content"
