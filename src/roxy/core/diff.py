"""What `git diff` prints of changes in contents, with nobody's settings and no command of anybody's.

Git prints it in a repository of roxy's own, which holds nothing but both versions of the files.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from roxy.core import files
from roxy.core.errors import GitError, UsageError
from roxy.core.manifest import MAX_PATCH
from roxy.core.placement import blob_ids
from roxy.core.regular_file import MEBIBYTE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from roxy.core.desk import Desk

_OPTIONS = ("--cached", "-p", "--binary", "--no-renames", "--no-color", "--no-ext-diff")
_AT_ONCE = 100
"""Files that are named in one call."""


@dataclass(frozen=True, slots=True)
class Change:
    """Two versions of one file, in the form that git stores."""

    path: bytes
    executable: bool
    old: Path
    new: Path


def print_diff(desk: Desk, changes: Sequence[Change], folder: Path) -> bytes:
    """Return the patch that leads from the old versions to the new ones, in order of paths.

    `folder` holds the `.gitattributes` that are in force. Raises `GitError`, and `UsageError` for a
    patch that could not be read again.
    """
    printer = _Printer(desk, folder)
    ids = printer.store([one.old for one in changes] + [one.new for one in changes])
    printer.ask("read-tree", "--empty")
    printer.index(changes, ids[: len(changes)])
    tree = printer.ask("write-tree").strip().decode("ascii")
    printer.index(changes, ids[len(changes) :])
    digits = _digits(desk, [one.old for one in changes])
    made = desk.fresh()
    with os.fdopen(files.create(made), "wb") as file:
        printer.ask("diff-index", *_OPTIONS, f"--abbrev={digits}", tree, "--", stdout=file)
    if made.stat().st_size > MAX_PATCH:
        raise UsageError(
            f"the patch would be larger than {MAX_PATCH // MEBIBYTE} MiB, which no mutation may be",
            hint="break the code in a smaller file",
        )
    return made.read_bytes()


@dataclass(frozen=True, slots=True)
class _Printer:
    desk: Desk
    folder: Path

    def ask(
        self, *arguments: str, stdin: bytes | None = None, stdout: IO[bytes] | None = None
    ) -> bytes:
        answer = self.desk.git.call(
            arguments,
            self.folder,
            object_format=self.desk.object_format,
            stdin=stdin,
            stdout=stdout,
        )
        if answer.code:
            raise GitError(f"git cannot compare files in roxy's own folder: {answer.complaint}")
        return answer.stdout

    def store(self, some: Sequence[Path]) -> list[str]:
        ids: list[str] = []
        for at in range(0, len(some), _AT_ONCE):
            names = map(str, some[at : at + _AT_ONCE])
            printed = self.ask("hash-object", "-w", "--no-filters", "--", *names)
            ids += printed.decode("ascii").split()
        return ids

    def index(self, changes: Sequence[Change], ids: Sequence[str]) -> None:
        lines = (
            b"%s %s\t%s\0" % (b"100755" if one.executable else b"100644", id_.encode(), one.path)
            for one, id_ in zip(changes, ids, strict=True)
        )
        self.ask("update-index", "-z", "--index-info", stdin=b"".join(lines))


def _digits(desk: Desk, some: Sequence[Path]) -> int:
    """Return to how many digits git would shorten the names of some blobs in the user's repository."""
    number = ("sha1", "sha256").index(desk.object_format)
    asked = (
        desk.repository.ask("-c", "core.abbrev=auto", "rev-parse", "--short", blob_ids(one)[number])
        for one in some
    )
    return max((len(answer.stdout.strip()) for answer in asked if not answer.code), default=0) or 40
