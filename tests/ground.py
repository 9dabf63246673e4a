"""A folder that a journal works on, a clock that only sleeping moves, and a disk that fails."""

from __future__ import annotations

import contextlib
import ctypes  # noqa: F401 - before anybody becomes a user who may not read the standard library
import errno
import hashlib
import os
import shutil
import stat
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from roxy.core import (
    attributes,
    digests,
    exchange,
    files,
    journal,
    regular_file,
    tree_writer,
    working_tree,
)
from roxy.core.journal import Journal, Patched
from roxy.core.mutation import Edit
from roxy.core.working_tree import Content, Tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

IS_ROOT = os.geteuid() == 0
NOBODY = 65534
SECOND = 1_000_000_000


# ------------------------------------------------------------------- the clock


@dataclass
class Clock:
    """Stands for `time` in the journal: sleeping moves it on at once."""

    ahead: int = 0
    """Nanoseconds that it is ahead of the real one."""

    def time_ns(self) -> int:
        return time.time_ns() + self.ahead

    def sleep(self, seconds: float) -> None:
        self.ahead += round(seconds * SECOND)

    strftime = staticmethod(time.strftime)


# ------------------------------------------------------------------- the ground


@dataclass(frozen=True)
class Seen:
    """One thing in a folder, with all that has to survive."""

    kind: str
    mode: int
    owner: tuple[int, int]
    xattrs: tuple[tuple[str, bytes], ...]
    content: bytes


@dataclass
class Ground:
    """A working tree and roxy's own folder, as the journal needs them; no git."""

    root: Path
    state: Path
    clock: Clock = field(default_factory=Clock)
    sources: int = 0

    @classmethod
    def make(cls, top: Path, state: Path | None = None) -> Ground:
        ground = cls(top / "tree", state or top / "state")
        ground.root.mkdir(parents=True)
        ground.state.mkdir(exist_ok=True)
        (ground.state / "scratch").mkdir()
        return ground

    def path(self, path: bytes) -> Path:
        return self.root / os.fsdecode(path)

    def write(self, path: bytes, content: bytes, mode: int = 0o644) -> Path:
        file = self.path(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        file.chmod(mode)
        return file

    def edit(self, path: bytes, new: bytes) -> Edit:
        """Make the edit that turns a file into `new`."""
        self.sources += 1
        source = self.state / "scratch" / str(self.sources)
        source.write_bytes(new)
        return Edit(path, content(self.path(path).read_bytes()), source, content(new))

    def snapshot(self) -> dict[bytes, Seen]:
        return snapshot(self.root)

    def mtime(self, path: bytes) -> int:
        return self.path(path).lstat().st_mtime_ns

    @contextlib.contextmanager
    def journal(self) -> Iterator[Journal]:
        """Give a journal as a new process has it; all that it knows is what is on the disk."""
        tree = Tree(self.root)
        try:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(journal, "time", self.clock)
                yield Journal(self.state, tree)
        finally:
            tree.close()

    @contextlib.contextmanager
    def patched(self, *edits: Edit) -> Iterator[Patched]:
        """Let edits stand for a while."""
        patched = Patched()
        with self.journal() as one, one.patched("claim/check", edits, patched, self.clock.sleep):
            yield patched

    def kill(self, *edits: Edit) -> None:
        """Leave the tree as a roxy does that is killed in the mutated run."""
        disk = Faults()
        with disk.at_work(), contextlib.suppress(Killed), self.patched(*edits):
            disk.fired = True
            raise Killed

    def recover(self) -> journal.Recovery | None:
        """Do what the next roxy does first, and check that it leaves nothing to do."""
        with self.journal() as one:
            recovery = one.recover(lambda _who: False)
        with self.journal() as one:
            assert one.recover(lambda _who: False) is None
        return recovery

    def leftovers(self) -> list[str]:
        """Return what is in the journal's folder."""
        folder = self.state / "journal"
        return sorted(os.listdir(folder)) if folder.exists() else []

    def kept(self) -> dict[bytes, Seen]:
        """Return what is kept, by the name that the place gives it."""
        folder = self.state / "kept"
        return snapshot(folder) if folder.exists() else {}


def content(data: bytes) -> Content:
    return Content(hashlib.sha256(data).digest(), len(data))


def snapshot(top: Path) -> dict[bytes, Seen]:
    """Return everything below a folder, by its path."""
    found = {}
    for folder, names, file_names in os.walk(os.fsencode(top)):
        for name in (*names, *file_names):
            path = os.path.join(folder, name)
            found[os.path.relpath(path, os.fsencode(top))] = look(path)
    return found


def look(path: bytes | Path) -> Seen:
    """Return one thing, whatever it is."""
    seen = os.lstat(path)
    kind = stat.S_IFMT(seen.st_mode)
    data = b""
    if stat.S_ISLNK(kind):
        data = os.fsencode(os.readlink(path))
    elif stat.S_ISREG(kind):
        with open(path, "rb") as file:
            data = file.read()
    xattrs = {} if stat.S_ISLNK(kind) else xattrs_of(path)
    return Seen(
        stat.filemode(kind)[0],
        stat.S_IMODE(seen.st_mode),
        (seen.st_uid, seen.st_gid),
        tuple(sorted(xattrs.items())),
        data,
    )


def xattrs_of(path: bytes | Path) -> dict[str, bytes]:
    if not hasattr(os, "listxattr"):
        return {}
    return {name: os.getxattr(path, name) for name in os.listxattr(path)}


def has_xattrs(folder: Path) -> bool:
    """Say whether files in a folder can have extended attributes."""
    probe = folder / "probe"
    probe.touch()
    try:
        os.setxattr(probe, "user.probe", b"")
    except (AttributeError, OSError):
        return False
    finally:
        probe.unlink()
    return True


@contextlib.contextmanager
def as_nobody() -> Iterator[None]:
    """Be a user who may not do everything, for a while; where we already are one, nothing changes."""
    if not IS_ROOT:
        yield
        return
    groups = os.getgroups()
    os.setgroups([])
    os.setegid(NOBODY)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(groups)


def give_to_nobody(top: Path) -> None:
    """Make a folder with all in it that user's own, where that is not us."""
    if IS_ROOT:
        for folder, names, file_names in os.walk(top):
            os.chown(folder, NOBODY, NOBODY)
            for name in (*names, *file_names):
                os.chown(os.path.join(folder, name), NOBODY, NOBODY, follow_symlinks=False)


# ------------------------------------------------------------------- a disk that fails


class Killed(BaseException):
    """The process is gone. Nothing that it would still do to the disk is done."""


CHANGES = [
    "chmod",
    "fchmod",
    "fchown",
    "fsync",
    "ftruncate",
    "link",
    "mkdir",
    "mknod",
    "removexattr",
    "rename",
    "setxattr",
    "symlink",
    "unlink",
    "utime",
    "write",
]
READS = ["read", "stat", "fstat", "listxattr"]
DISK = (attributes, digests, exchange, files, journal, regular_file, tree_writer, working_tree)
"""The modules that do something to the disk, or read it, while files are mutated and put back."""
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


@dataclass
class Faults:
    """Counts what roxy does to the disk, and lets one of these things go wrong."""

    at: int | None = None
    """Which of them, from 0; None for none."""
    error: Callable[[], BaseException] = Killed
    after: bool = False
    """Whether it is done all the same."""
    lasting: bool = True
    """Whether everything after it goes wrong too, without being done."""
    with_reads: bool = False
    steps: list[str] = field(default_factory=list)
    fired: bool = False

    def step(self, name: str, do: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        number = len(self.steps)
        self.steps.append(name)
        if self.fired and self.lasting:
            raise self.error()
        if number != self.at:
            return do(*arguments, **options)
        self.fired = True
        if self.after:
            do(*arguments, **options)
        raise self.error()

    def wrap(self, name: str, do: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*arguments: Any, **options: Any) -> Any:
            return self.step(name, do, *arguments, **options)

        return wrapped

    def wrap_open(self, path: Any, flags: int, *arguments: Any, **options: Any) -> int:
        if flags & _WRITING:
            descriptor: int = self.step("open", os.open, path, flags, *arguments, **options)
        elif self.with_reads:
            descriptor = self.step("open to read", os.open, path, flags, *arguments, **options)
        else:
            descriptor = os.open(path, flags, *arguments, **options)
        return descriptor

    @contextlib.contextmanager
    def at_work(self) -> Iterator[Faults]:
        """Be the disk that the writer sees."""
        with pytest.MonkeyPatch.context() as patch:
            seen = _Os(self)
            rename_at = self.wrap("rename_at", exchange.rename_at)
            for module in DISK:
                patch.setattr(module, "os", seen)
            for module in (exchange, tree_writer):
                patch.setattr(module, "rename_at", rename_at)
            patch.setattr(shutil, "rmtree", self.wrap("rmtree", shutil.rmtree))
            patch.setattr(Path, "mkdir", self.wrap("mkdir", Path.mkdir))
            yield self


class _Os:
    """`os`, but for what changes the disk."""

    def __init__(self, faults: Faults) -> None:
        self.open = faults.wrap_open
        names = CHANGES + READS * faults.with_reads
        self._wrapped: Mapping[str, Any] = {
            name: faults.wrap(name, getattr(os, name)) for name in names if hasattr(os, name)
        }

    def __getattr__(self, name: str) -> Any:
        return self._wrapped.get(name) or getattr(os, name)


def disk_error(number: int) -> Callable[[], OSError]:
    return lambda: OSError(number, os.strerror(number))


@dataclass
class Meddler:
    """Somebody who acts right before roxy puts a file in place."""

    act: Callable[[], None]
    at: int = 0
    """Before which exchange, from 0."""
    seen: int = 0
    acted: bool = False

    @contextlib.contextmanager
    def at_work(self) -> Iterator[Meddler]:
        rename_at = exchange.rename_at

        def meddled(*arguments: Any) -> None:
            if self.seen == self.at and not self.acted:
                self.acted = True
                self.act()
            self.seen += not self.acted
            rename_at(*arguments)

        with pytest.MonkeyPatch.context() as patch:
            for module in (exchange, tree_writer):
                patch.setattr(module, "rename_at", meddled)
            yield self


def refuse_flags(old: Path, folder: int, name: bytes, how: Any) -> None:
    """Answer as Linux does for a file system that knows no flag of rename, NFS for one."""
    if how.name == "EXCHANGE":
        os.stat(name, dir_fd=folder, follow_symlinks=False)  # a missing name is found out before
    elif how.name == "NO_REPLACE":
        with contextlib.suppress(FileNotFoundError):
            os.stat(name, dir_fd=folder, follow_symlinks=False)
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
    os.stat(old)
    raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
