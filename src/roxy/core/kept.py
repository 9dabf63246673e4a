"""`kept/` in roxy's own folder: what somebody wrote and would be in the way (S29)."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from roxy.core import files
from roxy.core.outcome import Kept

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from roxy.core.working_tree import Content, Tree


def new_place(folder: Path, path: bytes) -> Path:
    """Return a path in `folder` that nothing has, which tells the time and the file."""
    stamp = time.strftime("%Y%m%dT%H%M%S")
    # Short enough to be a name with all that is added, at four bytes a character.
    name = os.path.basename(path).decode("utf-8", "surrogateescape")[:50]
    text = os.fsdecode(name.encode("utf-8", "surrogateescape"))
    number = 0
    while files.is_there(place := folder / f"{stamp}-{number}-{text}"):
        number += 1
    return place


def keep_copies(
    tree: Tree, folder: Path, paths: Sequence[bytes]
) -> tuple[tuple[Kept, ...], tuple[Content, ...]]:
    """Copy files of the tree into `folder` so that the copies last; the files stay as they are.

    Returns where each copy is, and what it holds. Raises `OSError` when a file cannot be read, and
    `DiskError` when a copy cannot be written; then there is none.
    """
    files.make_folder(folder, lasting=True)
    tree.forget()
    kept: list[Kept] = []
    held = []
    try:
        for path in paths:
            kept.append(Kept(path, new_place(folder, path)))
            held.append(files.copy_out(tree, path, kept[-1].place))
        files.sync_folder(folder)
    except BaseException:
        drop(kept)
        raise
    return tuple(kept), tuple(held)


def drop(kept: Sequence[Kept]) -> None:
    """Remove copies whose files were left as they are after all. Raises `DiskError`."""
    for one in kept:
        files.remove(one.place)
