"""The cache of digests: what it may spare, and that it never costs the truth (S38)."""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from roxy.core import contents, digest_cache, digests
from roxy.core.contents import NOTHING, Contents
from roxy.core.digests import Digests
from roxy.core.interrupts import Interrupts
from roxy.core.working_tree import RACY, Stamped, Tree

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from project import Project
    from roxy.core.working_tree import Stamp

SECOND = 1_000_000_000
OLD = b"one"
NEW = b"two"


class Listening(Digests):
    """Digests that remember what was asked of them."""

    def __init__(self, tree: Tree) -> None:
        super().__init__(tree, Interrupts())
        self.heard: list[bytes] = []

    def read_stamped(self, stamps: Mapping[bytes, Stamp]) -> dict[bytes, bytes]:
        self.heard = [*stamps]
        return super().read_stamped(stamps)


@dataclass
class Place:
    """A tree with one file, and what successive commands read of it."""

    tree: Path
    state: Path
    ahead: int = 2 * RACY
    """Nanoseconds that the clock of the next command is ahead of that of the file system."""
    is_proven: bool = False
    """Whether there is evidence for what the next command reads."""
    read: list[bytes] = field(default_factory=list)
    """What the last command did not get from the cache."""

    @property
    def file(self) -> Path:
        return self.tree / "src/file"

    @property
    def cache(self) -> Path:
        return self.state / "digests"

    def time_ns(self) -> int:
        return time.time_ns() + self.ahead

    def look(self, *paths: bytes) -> dict[bytes, bytes]:
        """Do with the cache what `status` and `gate` do."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(digests, "time", self)
            tree = Tree(self.tree)
            before = digest_cache.load(self.state)
            one = Listening(tree)
            files = Stamped.of(tree.stamps(paths or [b"src/file"]))
            now = contents.read(one, files, before)
            self.read = one.heard
            digest_cache.keep(self.state, now, before, one.effort, is_proven=self.is_proven)
            tree.close()
        return {path: now.digest(path) or b"" for path in now.paths}

    def content(self) -> bytes:
        """Say which content a command takes the file to have."""
        digest = self.look()[b"src/file"]
        return next(data for data in (OLD, NEW) if hashlib.sha256(data).digest() == digest)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path / "tree", tmp_path / "state")
    made.file.parent.mkdir(parents=True)
    made.state.mkdir()
    made.file.write_bytes(OLD)
    return made


def forge(place: Place, data: bytes) -> None:
    """Make the cache say that the file, as it stands, holds something else."""
    known = digest_cache.load(place.state)
    fields = known.fields[:-32] + hashlib.sha256(data).digest()
    digest_cache.save(place.state, Contents(known.paths, known.stamps, fields))


@pytest.mark.rule("S38")
def test_an_unchanged_file_is_not_read_again(place: Place) -> None:
    assert place.content() == OLD
    assert place.read == [b"src/file"]
    forge(place, NEW)
    assert place.content() == NEW  # taken from the cache, as nothing about the file has changed


@pytest.mark.rule("S38")
@pytest.mark.parametrize("ahead", [0, RACY // 2, -10 * SECOND, -(10**6) * SECOND])
def test_a_file_that_was_just_written_is_not_trusted_nor_one_from_the_future(
    place: Place, ahead: int
) -> None:
    place.ahead = ahead  # below nought: the clock was put back since
    assert place.content() == OLD
    assert not place.cache.exists()


def in_place(file: Path) -> None:
    with file.open("r+b") as written:
        written.write(NEW)


def by_rename(file: Path) -> None:
    new = file.with_name("new")
    new.write_bytes(NEW)
    shutil.copystat(file, new)
    new.replace(file)


def by_an_older_file(file: Path) -> None:
    """Move a file there that was made earlier, with the same times and size."""
    other = file.with_name("other")
    other.write_bytes(NEW)
    shutil.copystat(file, other)
    file.unlink()
    other.rename(file)


def through_another_name(file: Path) -> None:
    os.link(file, file.with_name("link"))
    in_place(file.with_name("link"))
    file.with_name("link").unlink()


@pytest.mark.rule("S38")
@pytest.mark.parametrize("write", [in_place, by_rename, by_an_older_file, through_another_name])
def test_an_edit_of_the_same_size_whose_old_time_is_put_back_is_seen(
    place: Place, write: Callable[[Path], None]
) -> None:
    assert place.content() == OLD
    seen = place.file.stat()
    write(place.file)
    os.utime(place.file, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    assert (place.file.stat().st_size, place.file.stat().st_mtime_ns) == (3, seen.st_mtime_ns)
    assert place.content() == NEW


@pytest.mark.rule("S38")
def test_edits_within_one_tick_of_the_clock_are_seen(place: Place) -> None:
    place.ahead = 0
    for number in range(50):
        data = (OLD, NEW)[number % 2]
        in_place(place.file) if data == NEW else place.file.write_bytes(OLD)
        assert place.content() == data


@pytest.mark.rule("S38")
def test_what_is_no_regular_file_any_more_counts_no_more(place: Place) -> None:
    place.look()
    place.file.rename(place.file.with_name("other"))
    place.file.symlink_to("other")
    assert place.look() == {}


def damages(sound: bytes) -> list[bytes]:
    """Return the cache with each of its bytes changed, and cut off at each."""
    flipped = [
        sound[:at] + bytes([sound[at] ^ 1]) + sound[at + 1 :] for at in range(0, len(sound), 3)
    ]
    cut = [sound[:at] for at in range(0, len(sound), 3)]
    return [*flipped, *cut, sound + b"\0", b"\0" * 200, sound.replace(b"digests 2", b"digests 1")]


@pytest.mark.rule("S38")
def test_a_cache_that_is_damaged_or_from_another_roxy_is_none(place: Place) -> None:
    place.look()
    forge(place, NEW)
    sound = place.cache.read_bytes()
    for data in damages(sound):
        place.cache.write_bytes(data)
        assert digest_cache.load(place.state) is NOTHING
        place.ahead = 0  # so that it is not written anew
        assert place.content() == OLD


@pytest.mark.rule("S38")
@pytest.mark.parametrize("column", ["paths", "stamps", "fields"])
def test_a_cache_whose_columns_are_not_equally_long_is_none(place: Place, column: str) -> None:
    place.look()
    sound = digest_cache.load(place.state)
    columns = {name: getattr(sound, name) for name in ("paths", "stamps", "fields")}
    columns[column] = columns[column][:-1]
    digest_cache.save(place.state, Contents(**columns))
    assert digest_cache.load(place.state) is NOTHING


@pytest.mark.rule("S38")
@pytest.mark.parametrize(
    "make",
    [
        lambda path: path.mkdir(),
        os.mkfifo,
        lambda path: path.symlink_to("/dev/zero"),
        lambda path: path.symlink_to(path),
    ],
)
def test_whatever_stands_in_the_place_of_the_cache_is_in_nobodys_way(
    place: Place, make: Callable[[Path], None]
) -> None:
    make(place.cache)
    assert place.content() == OLD


@pytest.mark.rule("S38")
def test_names_of_any_bytes_come_back_from_the_cache(place: Place) -> None:
    names = [b"src/a b", b"src/\xff", b"src/new\nline", b"src/file"]
    for name in names:
        (place.tree / os.fsdecode(name)).write_bytes(name)
    place.file.write_bytes(OLD)
    found = place.look(*sorted(names))
    assert sorted(place.read) == sorted(names)
    assert place.look(*sorted(names)) == found
    assert place.read == []


@pytest.mark.rule("S38")
@pytest.mark.parametrize("words", [("verify",), ("verify", "--all")])
def test_verify_takes_nothing_from_the_cache(project: Project, words: tuple[str, ...]) -> None:
    project.greet()
    place = Place(project.root, project.root / ".git/roxy")
    place.state.mkdir()
    place.look(b"src/greeting.txt")
    forge(place, NEW)
    assert project.roxy(*words).code == 0
    place.cache.unlink()
    assert project.roxy("gate").out == "verified greeting/text\n1 check: 1 verified\n"


@pytest.mark.rule("S38", "S49")
def test_gate_keeps_the_cache_beside_its_other_things_and_says_the_same_without(
    project: Project,
) -> None:
    project.greet()
    project.roxy("verify")
    os.utime(project.root / "src/greeting.txt", (1, 1))
    first = project.roxy("gate")
    assert project.roxy("gate") == first
    (project.root / ".git/roxy/digests").write_bytes(b"garbage")
    assert project.roxy("gate") == first


@pytest.mark.rule("S38")
def test_a_little_that_is_new_among_much_is_kept_only_if_there_is_evidence_for_it(
    place: Place,
) -> None:
    names = sorted(b"src/%03d" % number for number in range(200))
    for name in names:
        (place.tree / os.fsdecode(name)).write_bytes(OLD)
    place.look(*names)
    kept = place.cache.read_bytes()
    (place.tree / "src/007").write_bytes(NEW)
    for _ in range(2):
        assert place.look(*names)[b"src/007"] == hashlib.sha256(NEW).digest()
        assert place.read == [b"src/007"]
    assert place.cache.read_bytes() == kept
    place.is_proven = True
    place.look(*names)
    assert place.cache.read_bytes() != kept
    place.is_proven = False
    place.look(*names)
    assert place.read == []
    for name in names[:50]:
        (place.tree / os.fsdecode(name)).write_bytes(NEW)
    place.look(*names)
    assert place.read == names[:50]
    place.look(*names)
    assert place.read == []
