"""Attributes that no `.gitattributes` on the disk shows: git has them elsewhere (S21)."""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING

from roxy.core import files
from roxy.core.conversion import attribute_files
from roxy.core.working_tree import stamp_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from roxy.core.desk import Desk
    from roxy.core.working_tree import Stamp


class HiddenAttributes:
    """What `info/attributes` and the index may say of paths; asked once while the index stands."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._repository = desk.repository
        self._index: Stamp | None = None
        self._asked: set[bytes] = set()
        self._tracked: set[bytes] = set()

    def may_be_about(self, paths: Sequence[bytes]) -> bool:
        """Say whether git may have attributes for any of some paths. Raises `GitError`."""
        if "attr.tree" in self._desk.settings or files.is_there(self._info):
            return True
        self.ask(paths)
        return not self._tracked.isdisjoint(attribute_files(paths))

    def ask(self, paths: Sequence[bytes]) -> None:
        """Look into the index for all that is about some paths, unless that is known."""
        index = self._stamp()
        if index != self._index:
            self._asked, self._tracked, self._index = set(), set(), index
        new = [file for file in attribute_files(paths) if file not in self._asked]
        self._tracked |= self._repository.tracked(new)
        self._asked.update(new)

    @cached_property
    def _info(self) -> Path:
        return self._repository.place_of("info/attributes")

    def _stamp(self) -> Stamp | None:
        try:
            return stamp_of(os.lstat(self._repository.git_dir / "index"))
        except FileNotFoundError:
            return None
