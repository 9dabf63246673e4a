"""Roxy's own folder for fitting mutations: `scratch/` in its state, and git in it."""

from __future__ import annotations

import itertools
from functools import cached_property
from typing import TYPE_CHECKING

from roxy.core import files
from roxy.core.private_git import PrivateGit

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from roxy.core.git import Repository


class Desk:
    """A place for copies and small work trees. What lies on it lasts until it is wiped."""

    def __init__(self, repository: Repository) -> None:
        self.repository = repository
        self._path = repository.state / "scratch"
        self._numbers = itertools.count()

    @cached_property
    def _folder(self) -> Path:
        self.clear()  # of what an earlier roxy left
        files.make_folder(self._path)
        return self._path

    @cached_property
    def git(self) -> PrivateGit:
        """Git for this desk."""
        return PrivateGit(self._folder, self.repository.environ)

    @cached_property
    def settings(self) -> Mapping[str, str]:
        """The effective `core.autocrlf`, `core.eol` and `attr.tree`, where set; asked once."""
        return self.repository.conversion_settings()

    @cached_property
    def object_format(self) -> str:
        """How the repository names its objects: `sha1` or `sha256`."""
        answer = self.repository.ask("rev-parse", "--show-object-format")
        return answer.stdout.decode("ascii", "replace").strip() or "sha1"

    @cached_property
    def empty_tree(self) -> Path:
        """A work tree without a file."""
        return self.made_folder("empty")

    def wipe(self) -> None:
        """Remove every file and every tree, and nothing that has a name of its own."""
        files.remove_folder(self._folder / "work")
        vars(self).pop("_work", None)

    @cached_property
    def _work(self) -> Path:
        return self.made_folder("work")

    def fresh(self) -> Path:
        """Return a path for a new file."""
        return self._work / str(next(self._numbers))

    def new_tree(self) -> Path:
        """Return a new empty folder."""
        folder = self.fresh()
        files.make_folder(folder)
        return folder

    def made_folder(self, name: str) -> Path:
        """Return a folder by its name, made if it is missing."""
        files.make_folder(self._folder / name)
        return self._folder / name

    def clear(self) -> None:
        """Remove the folder with all in it; it is made anew when it is needed again."""
        files.remove_folder(self._path)
        for name in ("_folder", "_work", "git", "empty_tree"):
            vars(self).pop(name, None)
