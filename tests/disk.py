"""A disk that loses power: what roxy did to it, and every state in which that may leave it.

The recorder listens at the same door as `ground.Faults`. The model is as harsh as POSIX allows: what
was written to a file lasts when that file was synced, a name when its folder was, and of all that
was not synced any part may be there and any may not, in whatever order it was done. A rename is
done or not done, so one between two folders lasts when either was synced; `Cut.torn` gives up even
that, and each of the two folders has its own half.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import math
import os
import random
import shutil
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ground import Faults

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import TypeVar

    _T = TypeVar("_T")
    Versions = Mapping[int, Sequence[_T]]

FOREIGN = b"value = 3  # my own work\n"
"""What somebody who is not roxy writes."""


# ------------------------------------------------------------------- what is done


@dataclass(frozen=True)
class Dress:
    """What a file or folder has besides its content and its names."""

    mode: int
    owner: tuple[int, int]
    xattrs: tuple[tuple[str, bytes], ...]
    mtime: int

    @classmethod
    def of(cls, thing: int | Path) -> Dress:
        seen = os.stat(thing, **_unfollowed(thing))
        xattrs = ()
        if hasattr(os, "listxattr"):
            names = sorted(os.listxattr(thing, **_unfollowed(thing)))
            xattrs = tuple((name, os.getxattr(thing, name)) for name in names)
        mtime = 0 if stat.S_ISDIR(seen.st_mode) else seen.st_mtime_ns
        return cls(stat.S_IMODE(seen.st_mode), (seen.st_uid, seen.st_gid), xattrs, mtime)

    def put_on(self, path: Path) -> None:
        seen = os.lstat(path)
        if (seen.st_uid, seen.st_gid) != self.owner:
            os.chown(path, *self.owner)
        for name, value in self.xattrs:
            os.setxattr(path, name, value)
        if stat.S_IMODE(seen.st_mode) != self.mode:
            os.chmod(path, self.mode)
        if self.mtime:
            os.utime(path, ns=(self.mtime, self.mtime))


def _unfollowed(thing: int | Path) -> dict[str, bool]:
    return {} if isinstance(thing, int) else {"follow_symlinks": False}


@dataclass(frozen=True)
class Named:
    """Names that came to mean something else, all at once."""

    names: tuple[tuple[Place, int | None], ...]
    """The number of a thing, or None, by folder and name."""


@dataclass(frozen=True)
class Wrote:
    thing: int
    data: bytes
    """All that the file holds from now on."""


@dataclass(frozen=True)
class Dressed:
    thing: int
    dress: Dress


@dataclass(frozen=True)
class Synced:
    thing: int


Op = Named | Wrote | Dressed | Synced
Record = tuple[frozenset[int], bytes, Dress]
"""What tells whether a thing has still the times that it had: what was done to it, and it itself."""
Place = tuple[int, bytes]
"""A folder's number, and a name in it."""
TOP = 0
"""The number of what holds both the tree and roxy's own folder; nothing is ever done to it."""


class Recorder(Faults):
    """Does to the disk what roxy wants, and notes it. Dies at step `at`, as `Faults` does."""

    def __init__(self, top: Path) -> None:
        super().__init__()
        self.ops: list[Op] = []
        self.kinds = {TOP: stat.S_IFDIR}
        self.names: dict[Place, int] = {}
        self.data: dict[int, bytes] = {}
        self.dress: dict[int, Dress] = {}
        self._numbers: dict[tuple[int, int], int] = {}
        self.known: dict[int, dict[int, Record]] = {}
        """What each written file could know of every thing that was there at that time."""
        self._moves: dict[int, set[int]] = {}
        seen = os.lstat(top)
        self._numbers[seen.st_dev, seen.st_ino] = TOP
        for path in top.iterdir():
            self._find(TOP, path)
        self._now: dict[Place, int | None] = dict(self.names)
        self._held, self._worn = dict(self.data), dict(self.dress)

    def _find(self, folder: int, path: Path) -> None:
        """Note what is there at the beginning, all of which has long been synced."""
        seen, name = os.lstat(path), os.fsencode(path.name)
        number = self._numbers.get((seen.st_dev, seen.st_ino)) or self._new(seen)
        self.names[folder, name] = number
        self.dress[number] = Dress.of(path)
        if stat.S_ISDIR(seen.st_mode):
            for below in path.iterdir():
                self._find(number, below)
        elif stat.S_ISLNK(seen.st_mode):
            self.data[number] = os.fsencode(path.readlink())
        else:
            self.data[number] = path.read_bytes()

    def _new(self, seen: os.stat_result) -> int:
        """Number something that has just been made; its inode may have been another's before."""
        number = len(self.kinds)
        self._numbers[seen.st_dev, seen.st_ino] = number
        self.kinds[number] = stat.S_IFMT(seen.st_mode)
        return number

    @contextlib.contextmanager
    def at_work(self) -> Iterator[Faults]:
        with super().at_work(), pytest.MonkeyPatch.context() as patch:
            # The seam for faults takes a copy for one step, here it is many.
            patch.setattr(shutil, "copy2", self.wrap("copy2", shutil.copy2))
            yield self

    def dropped(self, name: bytes) -> int:
        """Return which operation was the last that removed a name."""
        return max(
            at
            for at, op in enumerate(self.ops)
            if isinstance(op, Named) and any(one[1] == name and not two for one, two in op.names)
        )

    def revive(self) -> None:
        """Let the next process work after one that was killed; the disk goes on as it is."""
        self.at, self.fired = None, False

    def save(self, path: Path, data: bytes) -> None:
        """Be a careful editor: write a file beside the old one, sync it, rename it, sync the folder."""
        new = path.with_name(path.name + "~")
        fd = self._open(os.open, new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        self._write(os.write, fd, data)
        self._fsync(None, fd)
        os.close(fd)
        self._rename(os.rename, new, path)
        self.ops.append(Synced(self._number(path.parent)))

    def overwrite(self, path: Path, data: bytes) -> None:
        """Write a file where it stands, as a shell does, and sync it."""
        fd = self._open(os.open, path, os.O_WRONLY | os.O_TRUNC)
        self._write(os.write, fd, data)
        self._fsync(None, fd)
        os.close(fd)

    def chmod(self, path: Path, mode: int) -> None:
        """Give something a mode, lastingly."""
        self._chmod(os.chmod, path, mode)
        self.ops.append(Synced(self._number(path)))

    def replace(self, path: Path, target: str | None) -> None:
        """Put a link or, without a target, a folder with a file in a file's place, lastingly."""
        self._unlink(os.unlink, path)
        if target is not None:
            self._symlink(os.symlink, target, path)
        else:
            self._mkdir(os.mkdir, path)
            self.save(path / "work", FOREIGN)
        self.ops.append(Synced(self._number(path.parent)))

    def remove(self, path: Path) -> None:
        """Remove a folder with all that is in it, lastingly."""
        self._rmtree(None, path)
        self.ops.append(Synced(self._number(path.parent)))

    # --------------------------------------------------------------- noting

    def step(self, name: str, do: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        noted = functools.partial(getattr(self, f"_{name}"), do)
        return super().step(name, noted, *arguments, **options)

    def _number(self, thing: int | Path | str, **options: Any) -> int:
        seen = os.stat(thing, **options)
        return self._numbers[seen.st_dev, seen.st_ino]

    def _place(self, path: Any, folder: int | None = None) -> Place:
        above, name = os.path.split(os.fsencode(path))
        seen = os.stat(above or b".", dir_fd=folder)
        return self._numbers[seen.st_dev, seen.st_ino], name

    def _at(self, path: Any, folder: int | None = None) -> int | None:
        try:
            seen = os.stat(path, dir_fd=folder, follow_symlinks=False)
        except OSError:
            return None
        return self._numbers[seen.st_dev, seen.st_ino]

    def _note(self, *names: tuple[Place, int | None]) -> None:
        for place, number in names:
            for moved in {self._now.get(place), number} - {None}:
                self._moves.setdefault(moved, set()).add(len(self.ops))
        self._now |= dict(names)
        self.ops.append(Named(names))

    def _open(self, do: Any, path: Any, flags: int, *mode: int, dir_fd: int | None = None) -> int:
        there = os.path.lexists(path) if dir_fd is None else _exists(path, dir_fd)
        fd: int = do(path, flags, *mode, dir_fd=dir_fd)
        if not there:
            number = self._new(os.fstat(fd))
            self.dress[number] = self._worn[number] = Dress.of(fd)
            self.data[number] = self._held[number] = b""
            self._note((self._place(path, dir_fd), number))
        elif flags & os.O_TRUNC:
            self._wrote(fd)
        return fd

    def _wrote(self, fd: int) -> None:
        number = self._number(fd)
        with open(f"/proc/self/fd/{fd}", "rb") as file:
            self._held[number] = file.read()
        self.ops.append(Wrote(number, self._held[number]))
        self.known[number] = {
            one: (frozenset(self._moves.get(one, ())), self._held[one], self._worn[one])
            for one in self._held
        }

    def _write(self, do: Any, fd: int, data: Any) -> int:
        written: int = do(fd, data)
        self._wrote(fd)
        return written

    def _ftruncate(self, do: Any, fd: int, size: int) -> None:
        do(fd, size)
        self._wrote(fd)

    def _dressing(self, do: Any, thing: Any, *arguments: Any, **options: Any) -> None:
        do(thing, *arguments, **options)
        self._dressed(self._number(thing), Dress.of(thing))

    def _dressed(self, number: int, dress: Dress) -> None:
        self._worn[number] = dress
        self.ops.append(Dressed(number, dress))

    _fchmod = _fchown = _setxattr = _removexattr = _utime = _dressing

    def _chmod(self, do: Any, path: Any, mode: int) -> None:
        do(path, mode)
        self._dressed(self._number(path), Dress.of(Path(os.path.realpath(path))))

    def _fsync(self, _do: Any, fd: int) -> None:
        self.ops.append(Synced(self._number(fd)))

    def _mkdir(self, do: Any, path: Any, *arguments: Any, **options: Any) -> None:
        folder = options.get("dir_fd")
        there = os.path.lexists(path) if folder is None else _exists(path, folder)
        do(path, *arguments, **options)
        if not there:
            number = self._new(os.stat(path, dir_fd=folder))
            self.dress[number] = Dress(
                stat.S_IMODE(os.stat(path, dir_fd=folder).st_mode),
                (os.geteuid(), os.getegid()),
                (),
                0,
            )
            self._note((self._place(path, folder), number))

    def _unlink(self, do: Any, path: Any, *, dir_fd: int | None = None) -> None:
        place = self._place(path, dir_fd)
        do(path, dir_fd=dir_fd)
        self._note((place, None))

    def _link(self, do: Any, old: Any, new: Any, *, dst_dir_fd: int | None = None) -> None:
        do(old, new, dst_dir_fd=dst_dir_fd)
        self._note((self._place(new, dst_dir_fd), self._number(old, follow_symlinks=False)))

    def _rename(
        self,
        do: Any,
        old: Any,
        new: Any,
        *,
        src_dir_fd: int | None = None,
        dst_dir_fd: int | None = None,
    ) -> None:
        seen = os.stat(old, dir_fd=src_dir_fd, follow_symlinks=False)
        places = self._place(old, src_dir_fd), self._place(new, dst_dir_fd)
        do(old, new, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
        self._note((places[0], None), (places[1], self._numbers[seen.st_dev, seen.st_ino]))

    def _rename_at(self, do: Any, old: Path, folder: int, name: bytes, how: Any) -> None:
        do(old, folder, name, how)
        here, there = self._place(old), self._place(name, folder)
        came = self._at(name, folder)
        self._note((here, self._at(old)), (there, came))

    def _symlink(self, do: Any, target: Any, path: Path) -> None:
        do(target, path)
        seen = os.lstat(path)
        number = self._new(seen)
        self.dress[number] = self._worn[number] = Dress.of(path)
        self.data[number] = self._held[number] = os.fsencode(target)
        self._note((self._place(path), number))

    def _copy2(self, do: Any, old: Path, new: Path) -> None:
        fd = self._open(os.open, new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        os.close(fd)
        do(old, new)
        number = self._number(new)
        self._held[number] = new.read_bytes()
        self.ops.append(Wrote(number, self._held[number]))
        self._dressed(number, Dress.of(new))

    def _rmtree(self, _do: Any, path: Path) -> None:
        for below in sorted(path.iterdir()):
            if below.is_dir() and not below.is_symlink():
                self._rmtree(_do, below)
            else:
                self._unlink(os.unlink, below)
        place = self._place(path)
        path.rmdir()
        self._note((place, None))


def _exists(name: Any, folder: int) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _stamp(seen: os.stat_result) -> tuple[int, int, int]:
    return seen.st_ino, seen.st_mtime_ns, seen.st_ctime_ns


# ------------------------------------------------------------------- what is left


@dataclass(frozen=True)
class Thing:
    """One thing on a disk after a power cut, whatever its names."""

    number: int
    kind: int
    data: bytes
    dress: Dress
    is_untouched: bool
    """Whether nothing was done to it since the entry that is there was written."""


ENTRY = b"entry.json"
State = tuple[tuple[bytes, Thing], ...]
"""All that can be found on a disk by its path, and equal when nobody could tell the difference."""


@dataclass(frozen=True)
class Choice:
    """What of the things that were not synced is on the disk."""

    parts: frozenset[Part]
    data: dict[int, bytes]
    dress: dict[int, Dress]


Part = tuple[int, int]
"""Names that came to be at once: an operation, and which half of it, -1 for the whole."""


@dataclass
class Cut:
    """The power goes after the first `at` things that were done."""

    disk: Recorder
    at: int
    torn: bool = False
    """Whether one half of a rename between two folders can be there without the other."""

    def __post_init__(self) -> None:
        self._synced: dict[int, int] = {}
        self._data = {number: [held] for number, held in self.disk.data.items()}
        self._dress = {number: [worn] for number, worn in self.disk.dress.items()}
        for index, op in enumerate(self.disk.ops[: self.at]):
            if isinstance(op, Wrote):
                self._data[op.thing].append(op.data)
            elif isinstance(op, Dressed):
                self._dress[op.thing].append(op.dress)
            elif isinstance(op, Synced):
                self._synced[op.thing] = index
                del self._data.get(op.thing, [])[:-1]
                del self._dress.get(op.thing, [])[:-1]
        for held in self._data.values():
            if len(held) > 1:
                held[:] = dict.fromkeys([*held, *_torn(held[-1])])
        for worn in self._dress.values():
            worn[:] = dict.fromkeys(worn)
        self._loose = list(self._find_loose())

    def _find_loose(self) -> Iterator[Part]:
        """Give the names that no sync has made last."""
        for index, op in enumerate(self.disk.ops[: self.at]):
            if isinstance(op, Named):
                folders = [place[0] for place, _ in op.names]
                late = [n for n, one in enumerate(folders) if self._synced.get(one, -1) < index]
                if self.torn and len(set(folders)) > 1:
                    yield from ((index, half) for half in late)
                elif len(late) == len(folders):
                    yield index, -1

    def states(self, limit: int, *, only_new: bool = False) -> Iterator[State]:
        """Give states that the disk may be in: all, or if there are more than `limit`, a choice.

        If `only_new`, none that the power could have left one operation earlier.
        """
        data = {number: held for number, held in self._data.items() if len(held) > 1}
        dress = {number: worn for number, worn in self._dress.items() if len(worn) > 1}
        new: list[Part] = []
        if only_new:
            latest = self.disk.ops[self.at - 1]
            if isinstance(latest, Synced):
                return
            if isinstance(latest, Wrote):
                data[latest.thing] = _torn(latest.data)
            elif isinstance(latest, Dressed):
                dress[latest.thing] = [latest.dress]
            else:
                new = [part for part in self._loose if part[0] == self.at - 1]
        count = 2 ** len(self._loose)
        count *= math.prod(map(len, [*data.values(), *dress.values()]))
        choices = self._all if count <= limit else self._some
        for choice in choices(data, dress, new, limit):
            yield self._state(choice)

    def _all(
        self, data: Versions[bytes], dress: Versions[Dress], new: list[Part], _limit: int
    ) -> Iterator[Choice]:
        for size in range(len(self._loose) + 1):
            for parts in itertools.combinations(self._loose, size):
                if new and not set(new) & set(parts):
                    continue
                for held in itertools.product(*data.values()):
                    for worn in itertools.product(*dress.values()):
                        yield Choice(
                            frozenset(parts),
                            dict(zip(data, held, strict=True)),
                            dict(zip(dress, worn, strict=True)),
                        )

    def _some(
        self, data: Versions[bytes], dress: Versions[Dress], new: list[Part], limit: int
    ) -> Iterator[Choice]:
        """Give none and all, all but each, each alone, and others by chance; with what is new."""
        old = [part for part in self._loose if part not in new]
        telling = [[], old]
        telling += [[two for two in old if two != one] for one in reversed(old)]
        telling += [[one] for one in reversed(old)]
        chance = random.Random(self.at)  # noqa: S311 - the same ones each time
        by_chance = ([one for one in old if chance.getrandbits(1)] for _ in itertools.count())
        for parts in itertools.islice(itertools.chain(telling, by_chance), limit):
            yield Choice(
                frozenset([*parts, *chance.sample(new, chance.randint(1, len(new)) if new else 0)]),
                {number: chance.choice(held) for number, held in data.items()},
                {number: chance.choice(worn) for number, worn in dress.items()},
            )

    def _state(self, choice: Choice) -> State:
        missing = set(self._loose) - choice.parts
        names: dict[Place, int | None] = dict(self.disk.names)
        moves: dict[int | None, set[int]] = {}
        for index, op in enumerate(self.disk.ops[: self.at]):
            if not isinstance(op, Named) or (index, -1) in missing:
                continue
            for half, (place, number) in enumerate(op.names):
                if (index, half) not in missing:
                    moves.setdefault(names.get(place), set()).add(index)
                    moves.setdefault(number, set()).add(index)
                    names[place] = number
        below: dict[int, list[tuple[bytes, int]]] = {}
        for (folder, name), number in names.items():
            if number is not None:
                below.setdefault(folder, []).append((name, number))
        records = {
            number: (
                frozenset(moves.get(number, ())),
                choice.data.get(number, self._data.get(number, [b""])[0]),
                choice.dress.get(number, worn[0]),
            )
            for number, worn in self._dress.items()
        }
        return self._found(below, records)

    def _found(
        self, below: Mapping[int, Sequence[tuple[bytes, int]]], records: Mapping[int, Record]
    ) -> State:
        """Walk the disk from its top, the journal first."""
        found: list[tuple[bytes, Thing]] = []
        numbers: dict[int, int] = {}
        known: dict[int, Record] = {}

        def walk(folder: int, path: bytes) -> None:
            for name, number in sorted(below.get(folder, [])):
                if name == ENTRY:
                    known.update(self.disk.known.get(number, {}))
                here = path + b"/" + name if path else name
                _, data, dress = records[number]
                is_untouched = here.startswith(b"tree/") and known.get(number) == records[number]
                first = numbers.setdefault(number, len(numbers))
                found.append(
                    (here, Thing(first, self.disk.kinds[number], data, dress, is_untouched))
                )
                walk(number, here)

        walk(TOP, b"")
        return tuple(found)


def _torn(data: bytes) -> list[bytes]:
    """Return what may be there of data that was not synced: all, half, or the size alone."""
    return list(dict.fromkeys([data, data[: len(data) // 2], b"\0" * len(data)]))


def lay_out(state: State, folder: Path) -> None:
    """Make a disk as it is in some state. An untouched file keeps the stamp that the entry knows."""
    first: dict[int, Path] = {}
    folders = []
    stamps = {}
    for name, thing in state:
        path = folder / os.fsdecode(name)
        if thing.kind == stat.S_IFDIR:
            path.mkdir()
            folders.append((path, thing.dress))
            continue
        if thing.number in first:
            os.link(first[thing.number], path, follow_symlinks=False)
            continue
        first[thing.number] = path
        if thing.kind == stat.S_IFLNK:
            path.symlink_to(os.fsdecode(thing.data))
            continue
        path.write_bytes(thing.data)
        thing.dress.put_on(path)
    for path, dress in reversed(folders):
        dress.put_on(path)
    for name, thing in state:
        if thing.is_untouched and thing.kind == stat.S_IFREG:
            stamps[name] = _stamp(os.lstat(folder / os.fsdecode(name)))
    _restamp(folder / "state/journal/entry.json", stamps)


def _restamp(entry: Path, stamps: Mapping[bytes, tuple[int, int, int]]) -> None:
    """Let the entry know the files that nobody touched; a copied disk has other inodes and times."""
    if not entry.is_file():
        return
    try:
        value = json.loads(entry.read_bytes())
    except ValueError:
        return
    for one in value["files"]:
        path = b"tree/" + one["path"].encode("utf-8", "surrogateescape")
        one["stamp"] = stamps.get(path, (0, 0, 0))
    entry.write_text(json.dumps(value))
