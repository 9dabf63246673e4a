"""Somebody who works on the files while roxy does, and a list of all that must not be lost of it."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from project import Project

Item = tuple[str, bytes]
"""What can stand at a path: a file with its content, a link with its target."""


@dataclass(frozen=True)
class Act:
    """One thing that the editor does."""

    what: str
    path: str
    is_good: bool
    """Whether the check passes with what is written."""


@dataclass
class Editor:
    """Works in one tree; what is written is never written twice."""

    project: Project
    mutated: bytes
    """What roxy writes; nobody wants that back."""
    wanted: set[Item] = field(default_factory=set)
    """What was there or was written, and was taken away by nobody but roxy."""
    written: int = 0

    def __post_init__(self) -> None:
        self.wanted |= set(items(self.project.root).values())

    def do(self, act: Act) -> None:
        """Do one thing, which may fail like everything, and keep the list."""
        before = set(items(self.project.root).values())
        with contextlib.suppress(OSError, subprocess.CalledProcessError):
            ACTS[act.what](self.project, self.project.root / act.path, self._text(act))
        after = set(items(self.project.root).values())
        if "stash" not in act.what:  # which git has then
            self.wanted -= before - after
        self.wanted |= after - before - {("file", self.mutated)}

    def _text(self, act: Act) -> bytes:
        """Return something new."""
        self.written += 1
        return b"%s\nedit %d\n" % (b"hello" if act.is_good else b"bye", self.written)

    def lost(self) -> set[Item]:
        """Return what is neither in the tree, nor kept, nor in git."""
        there = set(items(self.project.root).values())
        there |= set(items(self.project.state / "kept").values())
        missing = self.wanted - there
        if not missing:
            return set()
        objects = subprocess.check_output(
            ["git", "cat-file", "--batch-all-objects", "--batch"], cwd=self.project.root
        )
        return {one for one in missing if one[1] not in objects}


def items(top: Path) -> dict[str, Item]:
    """Return all files and links below a folder but git's and roxy's, by their paths."""
    found = {}
    for folder, names, files in os.walk(top):
        if Path(folder) == top and ".git" in names:
            names.remove(".git")
        for name in (*names, *files):
            path = Path(folder, name)
            if path.is_symlink():
                found[str(path.relative_to(top))] = ("link", os.fsencode(path.readlink()))
            elif path.is_file():
                found[str(path.relative_to(top))] = ("file", path.read_bytes())
    found.pop("roxy.lock", None)
    return found


# ------------------------------------------------------------------- what there is to do


def _save_in_place(_: Project, path: Path, new: bytes) -> None:
    path.write_bytes(new)


def _save_by_rename(_: Project, path: Path, new: bytes) -> None:
    beside = path.with_name(f".{path.name}.new")
    beside.write_bytes(new)
    try:
        beside.rename(path)
    finally:
        beside.unlink(missing_ok=True)


def _append(_: Project, path: Path, new: bytes) -> None:
    with path.open("ab") as file:
        file.write(new)


def _delete(_: Project, path: Path, _new: bytes) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _delete_folder(project: Project, path: Path, new: bytes) -> None:
    _delete(project, path.parent, new)


def _recreate(project: Project, path: Path, new: bytes) -> None:
    _delete(project, path, new)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(new)


def _replace_by_link(project: Project, path: Path, new: bytes) -> None:
    _delete(project, path, new)
    path.symlink_to(b"-".join(new.split()).decode())


def _replace_by_folder(project: Project, path: Path, new: bytes) -> None:
    _delete(project, path, new)
    path.mkdir()
    (path / "within").write_bytes(new)


def _open_up(_: Project, path: Path, _new: bytes) -> None:
    path.chmod(0o755)


def _lock_up(_: Project, path: Path, _new: bytes) -> None:
    path.chmod(0o400)


def _checkout(project: Project, path: Path, _new: bytes) -> None:
    project.git("checkout", "--quiet", "--", str(path))


def _stash(project: Project, _path: Path, _new: bytes) -> None:
    project.git("stash", "--quiet")


def _stash_pop(project: Project, _path: Path, _new: bytes) -> None:
    project.git("stash", "pop", "--quiet")


def _stash_and_pop(project: Project, path: Path, new: bytes) -> None:
    _stash(project, path, new)
    _stash_pop(project, path, new)


def _switch(project: Project, _path: Path, _new: bytes) -> None:
    project.git("checkout", "--quiet", "other")


def _switch_anyway(project: Project, _path: Path, _new: bytes) -> None:
    project.git("checkout", "--quiet", "--force", "other")


def _switch_away_from_the_folder(project: Project, _path: Path, _new: bytes) -> None:
    project.git("checkout", "--quiet", "--force", "bare")


ACTS: dict[str, Callable[[Project, Path, bytes], None]] = {
    "save in place": _save_in_place,
    "save by rename": _save_by_rename,
    "append": _append,
    "delete": _delete,
    "delete the folder": _delete_folder,
    "delete and recreate": _recreate,
    "replace by a link": _replace_by_link,
    "replace by a folder": _replace_by_folder,
    "chmod 755": _open_up,
    "chmod 400": _lock_up,
    "git checkout FILE": _checkout,
    "git stash": _stash,
    "git stash pop": _stash_pop,
    "git stash and pop": _stash_and_pop,
    "switch the branch": _switch,
    "switch the branch by force": _switch_anyway,
    "switch to a branch without the folder": _switch_away_from_the_folder,
}
