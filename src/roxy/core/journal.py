"""What stands in the working tree only for a while, and how it comes back (S28-S30, S33).

Before the first mutated byte, the journal holds copies of what will be changed, and an entry that
names them; the entry is the commit point. It goes last, when everything is back. Whoever finds an
entry puts things back, as often as it takes. The journal knows bytes, not mutations.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from roxy.core import files, journal_entry, tree_writer
from roxy.core.errors import DiskError, Fault, RestoreError
from roxy.core.forward import next_mtime, seconds_to_pass, seconds_to_wait
from roxy.core.journal_entry import JournalEntry, Original
from roxy.core.kept import new_place
from roxy.core.outcome import Kept
from roxy.core.working_tree import NotRegularError, content_of, is_about_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from roxy.core.attributes import Attributes
    from roxy.core.mutation import Edit
    from roxy.core.processes import Identity
    from roxy.core.working_tree import Tree

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_GONE = (FileNotFoundError, NotADirectoryError)


class ChangedMeanwhileError(Exception):
    """Files are not what they were when the check began, so nothing of them was changed."""

    def __init__(self, paths: Sequence[bytes]) -> None:
        super().__init__(paths)
        self.paths = tuple(paths)


@dataclass
class Patched:
    """Files that stand mutated, and after that what was in their way back."""

    stats: dict[bytes, os.stat_result] = field(default_factory=dict)
    """What roxy wrote, by path: mutated files first, then the restored ones."""
    restored: list[bytes] = field(default_factory=list)
    kept: list[Kept] = field(default_factory=list)
    deleted: list[bytes] = field(default_factory=list)
    """What was there when putting it back began, and gone a moment later."""
    stays: bool = False
    """Set while all of it stands, it is there for good, and nothing is put back."""


@dataclass(frozen=True, slots=True)
class Recovery:
    """What an earlier roxy that was killed had left, and what became of it."""

    check: str | None
    """The check it was at; None when no file had to be looked at."""
    restored: tuple[bytes, ...]
    kept: tuple[Kept, ...]
    ended_group: int | None
    """The process group of its check, when something of that was still running."""


class Journal:
    """`journal/` and `kept/` in roxy's own folder, for one working tree."""

    def __init__(self, state: Path, tree: Tree) -> None:
        self._tree = tree
        self._state = state
        self._folder = state / "journal"
        self._kept = state / "kept"
        self._entry = self._folder / "entry.json"
        self._run = self._folder / "run.json"
        self._latest = 0
        self._made: os.stat_result | None = None
        """The journal's folder, once it is known to last."""

    # --------------------------------------------------------------- mutating and putting back

    @contextlib.contextmanager
    def patched(
        self,
        check: str,
        edits: Sequence[Edit],
        patched: Patched,
        sleep: Callable[[float], None],
    ) -> Iterator[None]:
        """Let the edited files stand in the tree, and put the old ones back on every way out.

        What was done is noted in `patched`, also on the way out of an exception.

        `sleep` waits for the clock before anything is changed, and may raise. Raises
        `ChangedMeanwhileError` when a file no longer is what the edit was made from, or somebody
        deletes one while it is put back; `DiskError` when the edit cannot be written;
        `RestoreError` when a file cannot be put back.
        """
        entry = self._record(check, edits, sleep)
        standing: list[Original] = []
        with self._spares(entry) as spares:
            try:
                for original, edit in zip(entry.files, edits, strict=True):
                    standing.append(original)
                    patched.stats[original.path] = self._mutate(original, edit, standing, patched)
                yield
            finally:
                self._revive(entry, spares)
                self._restore(entry, [] if patched.stays else standing, patched)
                self._look_at_restored(patched)
        if patched.deleted:
            raise ChangedMeanwhileError(patched.deleted)

    def _record(
        self, check: str, edits: Sequence[Edit], sleep: Callable[[float], None]
    ) -> JournalEntry:
        """Copy the files and write the entry, so that it all lasts."""
        self._make_folder()
        self._tree.forget()
        sleep(max(map(self._seconds_to_wait, edits)))
        originals = []
        folders: dict[bytes, int] = {}
        for number, edit in enumerate(edits):
            try:
                originals.append(self._copied(edit, f"copy-{number}"))
                self._note_folders(edit.path, folders)
            except OSError as error:
                raise _not_read(edit.path, error) from error
        files.sync_folder(self._folder)  # the copies have names that last before the entry has
        entry = JournalEntry(check, tuple(originals), folders)
        files.write(self._entry, journal_entry.dump(entry), lasting=True)
        return entry

    def _make_folder(self) -> None:
        """Make the journal's folder, but no git directory where there is none any more."""
        with contextlib.suppress(FileNotFoundError):
            if self._made and os.path.samestat(self._made, os.lstat(self._folder)):
                return
        for folder in (self._state, self._folder):
            files.make_folder(folder, lasting=True, parents=False)
        self._made = os.lstat(self._folder)

    @contextlib.contextmanager
    def _spares(self, entry: JournalEntry) -> Iterator[dict[str, int]]:
        """Hold the copies open: their bytes outlive their names, should a check remove those."""
        with contextlib.ExitStack() as stack:
            spares = {}
            for original in entry.files:
                fd = files.open_own(self._folder / original.copy)
                stack.callback(os.close, fd)
                spares[original.copy] = fd
            yield spares

    def _revive(self, entry: JournalEntry, spares: dict[str, int]) -> None:
        """Write copies anew that a check removed or changed, from their open descriptors."""
        for original in entry.files:
            with contextlib.suppress(OSError, DiskError):  # the restore says what is missing
                self._revive_copy(original, spares[original.copy])

    def _revive_copy(self, original: Original, spare: int) -> None:
        copy = self._folder / original.copy
        if _holds(copy) == original.original or _read_again(spare) != original.original:
            return
        self._make_folder()
        files.remove(copy)
        os.lseek(spare, 0, os.SEEK_SET)
        files.copy_in(spare, copy)

    def _seconds_to_wait(self, edit: Edit) -> float:
        try:
            return seconds_to_wait(self._mtime(edit.path), time.time_ns())
        except OSError as error:
            raise _not_read(edit.path, error) from error

    def _copied(self, edit: Edit, copy: str) -> Original:
        seen = self._tree.stat(edit.path)
        attributes = self._tree.attributes(edit.path)
        _refuse_what_cannot_come_back(edit.path, attributes)
        if files.copy_out(self._tree, edit.path, self._folder / copy) != edit.old:
            raise ChangedMeanwhileError([edit.path])
        return Original(
            path=edit.path,
            copy=copy,
            attributes=attributes,
            original=edit.old.sha256,
            mutated=edit.new.sha256,
            stamp=_stamp(seen),
            mtime=self._forward(seen.st_mtime_ns),
        )

    def _note_folders(self, path: bytes, modes: dict[bytes, int]) -> None:
        folder = os.path.dirname(path)
        while folder and folder not in modes:
            modes[folder] = stat.S_IMODE(self._tree.stat(folder).st_mode)
            folder = os.path.dirname(folder)

    def _mutate(
        self, original: Original, edit: Edit, standing: list[Original], patched: Patched
    ) -> os.stat_result:
        staging = self._staging(original)
        self._tree.forget()
        try:
            displaced = tree_writer.place(
                self._tree,
                original.path,
                edit.source,
                original.attributes,
                original.mtime,
                staging,
            )
            is_expected = displaced and not self._is_foreign(original, staging)
        except (FileExistsError, NotRegularError) as error:
            raise ChangedMeanwhileError([original.path]) from error
        except OSError as error:
            if isinstance(error, _GONE) and self._tree.look(original.path) is None:
                raise ChangedMeanwhileError([original.path]) from error
            raise DiskError(
                f"cannot write `{_text(original.path)}`: {error.strerror}",
                hint="roxy puts a mutation into the file itself and needs to write it",
            ) from error
        if not is_expected:
            if displaced and tree_writer.put_back(self._tree, original.path, staging):
                self._keep_displaced(original, staging, patched)
                standing.remove(original)  # the file is somebody else's again
            raise ChangedMeanwhileError([original.path])
        files.remove(staging)
        files.remove(edit.source)
        return self._look_at_placed(original)

    def _look_at_placed(self, original: Original) -> os.stat_result:
        """Return the stat of a mutated file, which holds what it should at this moment."""
        try:
            seen = self._tree.stat(original.path)
            held = self._tree.content(original.path).sha256
        except OSError as error:
            raise _not_read(original.path, error) from error
        if held != original.mutated:
            raise ChangedMeanwhileError([original.path])
        self._latest = max(self._latest, seen.st_mtime_ns)
        return seen

    def _staging(self, original: Original) -> Path:
        """Return where a file stands right before, and what it displaced right after, a place."""
        return self._folder / original.copy.replace("copy", "staging")

    def _is_foreign(self, original: Original, staging: Path) -> bool:
        return _holds(staging) not in (original.original, original.mutated)

    def _keep_displaced(self, original: Original, staging: Path, patched: Patched) -> int:
        """Keep what stands at `staging` if roxy did not write it, drop it otherwise.

        Return the modification time of what is kept, else 0.
        """
        if not files.is_there(staging):
            return 0
        if not self._is_foreign(original, staging):
            files.remove(staging)
            return 0
        mtime = os.lstat(staging).st_mtime_ns
        kept = Kept(original.path, new_place(self._kept, original.path))
        files.make_folder(self._kept, lasting=True)
        files.rename(staging, kept.place)
        files.sync_folder(self._kept)
        patched.kept.append(kept)
        return mtime

    def _restore(
        self, entry: JournalEntry, originals: Sequence[Original], patched: Patched
    ) -> None:
        """Put files of an entry back, then drop the entry. Raises `RestoreError`."""
        faults = []
        for original in originals:
            self._tree.forget()
            try:
                self._put_back(original, entry.folders, patched)
            except (OSError, DiskError) as error:
                faults.append(self._fault(original, error))
        if faults:
            raise RestoreError.of(faults)
        files.remove(self._entry)
        files.sync_folder(self._folder)
        for original in entry.files:
            files.remove(self._folder / original.copy)

    def _look_at_restored(self, patched: Patched) -> None:
        for path in patched.restored:
            try:
                patched.stats[path] = self._tree.stat(path)
            except OSError as error:
                if not is_about_path(error):
                    raise _not_read(path, error) from error

    def _fault(self, original: Original, error: OSError | DiskError) -> Fault:
        reason = (isinstance(error, OSError) and error.strerror) or error
        return Fault(
            f"cannot put `{_text(original.path)}` back: {reason}",
            where=f"the copy of what it held is `{self._folder / original.copy}`",
            hint="mend what is in the way (permissions, space on the disk), then run `roxy status`",
        )

    def _put_back(self, original: Original, folders: dict[bytes, int], patched: Patched) -> None:
        """Make one file what it was, whatever stands in its place now."""
        folder = os.path.dirname(original.path)
        try:
            for left in reversed(range(tree_writer.OFTEN_ENOUGH)):
                try:
                    self._clear_the_way(folder, folders, patched)
                    self._exchange_back(original, patched)
                except (*_GONE, FileExistsError):  # a folder on the way, at this very moment
                    if not left:
                        raise
                    patched.deleted.append(original.path)
                    self._tree.forget()
                else:
                    return
        finally:
            self._settle_folders(folder, folders)

    def _exchange_back(self, original: Original, patched: Patched) -> None:
        path, copy, staging = original.path, self._folder / original.copy, self._staging(original)
        self._keep_displaced(original, staging, patched)
        previous = original.mtime
        for _ in range(tree_writer.OFTEN_ENOUGH):
            held = self._held(path)
            if held == original.original and self._is_as_it_was(original):
                return
            if (copied := _holds(copy)) != original.original:
                self._leave_as_put_back(original, held, copied, patched)
                return
            previous = max(previous, self._mtime(path))
            if isinstance(held, str):
                patched.kept.append(self._keep(path))
            mtime = self._forward(previous)
            try:
                displaced = tree_writer.place(
                    self._tree, path, copy, original.attributes, mtime, staging
                )
            except (FileExistsError, NotRegularError):  # put there at this very moment
                self._keep_displaced(original, staging, patched)
                continue
            self._latest = max(self._latest, mtime, self._mtime(path))
            patched.restored.append(path)
            if isinstance(held, bytes) and not displaced:
                patched.deleted.append(path)
            saved = self._keep_displaced(original, staging, patched)
            if saved <= previous and self._held(path) == original.original:
                return
            previous = max(mtime, saved)
        raise OSError(0, "somebody keeps writing to it")

    def _leave_as_put_back(
        self,
        original: Original,
        held: bytes | str | None,
        copied: bytes | None,
        patched: Patched,
    ) -> None:
        """Accept a file that was put back before a kill and edited since.

        What was put back is a hard link of its copy, so such an edit shows in the copy too.
        """
        copy = self._folder / original.copy
        if copied is None:
            raise OSError(0, "its copy cannot be read")
        if held == original.mutated and copy.stat().st_nlink == 1:
            raise OSError(0, "its copy is damaged")
        if held != copied:
            kept = Kept(original.path, new_place(self._kept, original.path))
            files.make_folder(self._kept, lasting=True)
            files.keep_as(copy, kept.place)  # it stays: who is killed now gets here again
            patched.kept.append(kept)
        tree_writer.sync_folder_in(self._tree, os.path.dirname(original.path))

    def _is_as_it_was(self, original: Original) -> bool:
        """Say whether a file was never touched, which is so after a kill before the first write."""
        seen = self._tree.stat(original.path)
        return (
            _stamp(seen) == original.stamp
            and self._tree.attributes(original.path) == original.attributes
        )

    def _clear_the_way(self, folder: bytes, modes: dict[bytes, int], patched: Patched) -> None:
        """Make the folders down to a file real folders that can be written again."""
        names = folder.split(b"/") if folder else []
        for depth in range(1, len(names) + 1):
            here = b"/".join(names[:depth])
            seen = self._tree.look(here)
            if seen is None:
                tree_writer.make_folder_in(self._tree, here)
            elif not stat.S_ISDIR(seen.st_mode):
                patched.kept.append(self._keep(here))
                tree_writer.make_folder_in(self._tree, here)
            elif seen.st_mode & stat.S_IRWXU != stat.S_IRWXU:
                self._set_mode(here, modes[here] | stat.S_IRWXU)

    def _set_mode(self, folder: bytes, mode: int) -> None:
        with contextlib.suppress(PermissionError):  # not ours; it may do as it is
            tree_writer.set_folder_mode(self._tree, folder, mode)

    def _settle_folders(self, folder: bytes, modes: dict[bytes, int]) -> None:
        """Give the folders down to a file the modes that they had, the innermost first."""
        while folder:
            seen = self._tree.look(folder)
            is_folder = seen is not None and stat.S_ISDIR(seen.st_mode)
            if seen is not None and is_folder and stat.S_IMODE(seen.st_mode) != modes[folder]:
                self._set_mode(folder, modes[folder])
            folder = os.path.dirname(folder)

    def _held(self, path: bytes) -> bytes | str | None:
        """Return the SHA-256 of a regular file, None for nothing, a word for anything else."""
        seen = self._tree.look(path)
        if seen is None:
            return None
        if not stat.S_ISREG(seen.st_mode):
            return "no regular file"
        try:
            return self._tree.content(path).sha256
        except FileNotFoundError:
            return None
        except PermissionError:
            with contextlib.suppress(PermissionError):
                tree_writer.open_up(self._tree, path)
                return self._tree.content(path).sha256
            return "no readable file"

    def _keep(self, path: bytes) -> Kept:
        kept = Kept(path, new_place(self._kept, path))
        tree_writer.move_aside(self._tree, path, kept.place)
        return kept

    def _mtime(self, path: bytes) -> int:
        seen = self._tree.look(path)
        return 0 if seen is None else seen.st_mtime_ns

    def _forward(self, previous: int) -> int:
        while (mtime := next_mtime(previous, time.time_ns())) is None:
            time.sleep(seconds_to_wait(previous, time.time_ns()))
        return mtime

    def seconds_to_rest(self) -> float:
        """Return how long it takes until the clock has passed every time that was set (S30)."""
        return seconds_to_pass(self._latest, time.time_ns()) if self._latest else 0.0

    # --------------------------------------------------------------- who is running

    def note_run(self, who: Identity) -> None:
        """Note a check's process so that it lasts, before its first instruction (S28)."""
        self._make_folder()
        files.write(self._run, json.dumps(who.to_json()).encode(), lasting=True)

    def forget_run(self) -> None:
        """Drop the note when nothing of the process is left."""
        files.remove(self._run)

    # --------------------------------------------------------------- after a kill

    def recover(self, end_group: Callable[[Identity], bool]) -> Recovery | None:
        """Put back whatever a roxy that was killed left, and end its check first (S33).

        None when there was nothing. Raises `RestoreError`, `DiskError` when all is back but the
        journal cannot be removed, or what `end_group` raises.
        """
        if not files.is_there(self._folder):
            return None
        who = journal_entry.read_run(self._run)
        ended = who.pid if who is not None and end_group(who) else None
        self.forget_run()
        entry = journal_entry.read(self._entry)
        patched = Patched()
        try:
            if entry is not None:
                self._restore(entry, entry.files, patched)
            files.remove_folder(self._folder)
        except (DiskError, RestoreError) as error:
            error.faults += tuple(map(_kept_fault, patched.kept))
            raise
        if entry is None and ended is None:
            return None
        return Recovery(
            check=entry.check if entry else None,
            restored=tuple(sorted(set(patched.restored))),
            kept=tuple(patched.kept),
            ended_group=ended,
        )


def _not_read(path: bytes, error: OSError) -> Exception:
    """Return what it means that a file which was read before cannot be read now."""
    if is_about_path(error):
        return ChangedMeanwhileError([path])
    return DiskError(
        f"cannot read `{_text(path)}`: {error.strerror}",
        hint="mend the disk, then run the same command again",
    )


def _kept_fault(kept: Kept) -> Fault:
    """Tell beside a failure what was kept before it, since nobody else will (S29)."""
    return Fault(
        f"`{_text(kept.path)}` held something else when it was put back",
        where=f"that is kept as `{kept.place}`",
    )


def _holds(path: Path) -> bytes | None:
    """Return the SHA-256 of one of roxy's own regular files, None for anything else.

    Raises `OSError` when the disk fails.
    """
    try:
        fd = os.open(path, _READ)
    except OSError as error:
        if is_about_path(error):
            return None
        raise
    try:
        return content_of(fd).sha256 if stat.S_ISREG(os.fstat(fd).st_mode) else None
    finally:
        os.close(fd)


def _read_again(fd: int) -> bytes:
    """Return the SHA-256 of an open file from its beginning."""
    os.lseek(fd, 0, os.SEEK_SET)
    return content_of(fd).sha256


def _refuse_what_cannot_come_back(path: bytes, attributes: Attributes) -> None:
    """Raise `DiskError` for a file that could not be given back just as it is (S28, S30)."""
    if os.geteuid() == 0:
        return
    why = None
    if attributes.mode & stat.S_ISGID and attributes.gid not in (os.getegid(), *os.getgroups()):
        why = "it has the setgid bit, for a group that you are not in"
    elif "security.capability" in attributes.xattrs:
        why = "it has capabilities, which only root can give back"
    if why is not None:
        raise DiskError(
            f"cannot put a mutation into `{_text(path)}`: {why}",
            hint="make the file yours, or run roxy as its owner",
        )


def _stamp(seen: os.stat_result) -> tuple[int, int, int]:
    return seen.st_ino, seen.st_mtime_ns, seen.st_ctime_ns


def _text(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")
