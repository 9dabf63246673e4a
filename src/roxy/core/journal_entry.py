"""What the journal writes down of one patch before it damages anything, so that it all comes back.

Version 1 of a file in JSON. Whoever reads it must be able to trust it, so nothing in it is guessed.
Beside it is a note of the process that a check runs in.
"""

from __future__ import annotations

import base64
import json
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from roxy.core import regular_file
from roxy.core.attributes import Attributes
from roxy.core.errors import RestoreError
from roxy.core.processes import Identity

if TYPE_CHECKING:
    from pathlib import Path

_VERSION = 1
_COPY = re.compile(r"copy-[0-9]+")
_MODES = 0o7777
_OWNERS = 2**32 - 1
_TIMES = 2**62
_MOST = 512 * regular_file.MEBIBYTE
"""Bytes of an entry or a note; one about every file that a patch can name has fewer."""


@dataclass(frozen=True, slots=True)
class Original:
    """One file as it was, and what stands in its place for a while."""

    path: bytes
    copy: str
    """Name of the copy, in the journal's folder."""
    attributes: Attributes
    original: bytes
    """SHA-256 of what it held."""
    mutated: bytes
    """SHA-256 of what roxy puts there."""
    stamp: tuple[int, int, int]
    """Inode, mtime and ctime before anything was changed."""
    mtime: int
    """Time that the mutated file gets."""


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """All that is needed to put one patch's files back."""

    check: str
    files: tuple[Original, ...]
    folders: dict[bytes, int]
    """Permission bits of the folders that they are in."""


def read(path: Path) -> JournalEntry | None:
    """Return the entry, or None when there is none. Raises `RestoreError`."""
    data = _read(path)
    if data is None:
        return None
    try:
        return parse(data)
    except regular_file.UNUSABLE as error:
        raise _unreadable(path, f"{type(error).__name__}: {error}") from error


def read_run(path: Path) -> Identity | None:
    """Return whose note is there, or None when there is no whole one. Raises `RestoreError`."""
    data = _read(path)
    try:
        return None if data is None else Identity.from_json(json.loads(data))
    except regular_file.UNUSABLE:
        return None  # written whole or not at all: then no command was let go


def _read(path: Path) -> bytes | None:
    try:
        return regular_file.read(None, os.fsencode(path), _MOST, follow_links=False)
    except regular_file.MissingFileError:
        return None
    except regular_file.UnreadableFileError as error:
        raise _unreadable(path, f"it {error}") from error


def _unreadable(path: Path, why: str) -> RestoreError:
    return RestoreError(
        f"the journal of an earlier roxy cannot be read: {why}",
        where=f"`{path}`",
        hint="the copies of the files it changed are beside it as `copy-0`, `copy-1`, ...: "
        "put them back by hand, then remove the folder",
    )


def dump(entry: JournalEntry) -> bytes:
    """Return the bytes that `parse` reads."""
    value = {
        "version": _VERSION,
        "check": entry.check,
        "files": [
            {
                "path": _text(one.path),
                "copy": one.copy,
                "mode": one.attributes.mode,
                "uid": one.attributes.uid,
                "gid": one.attributes.gid,
                "xattrs": {
                    name: base64.b64encode(data).decode("ascii")
                    for name, data in one.attributes.xattrs.items()
                },
                "original": one.original.hex(),
                "mutated": one.mutated.hex(),
                "stamp": one.stamp,
                "mtime": one.mtime,
            }
            for one in entry.files
        ],
        "folders": {_text(path): mode for path, mode in entry.folders.items()},
    }
    return json.dumps(value, indent=1).encode("ascii")


def parse(data: bytes) -> JournalEntry:
    """Read an entry.

    Raises `ValueError`, `TypeError`, `KeyError`, `AttributeError`, `OverflowError` or
    `RecursionError` for anything that `dump` did not write.
    """
    value: dict[str, Any] = json.loads(data)
    if value["version"] != _VERSION:
        raise ValueError(f"it has version {value['version']}, from another roxy")
    originals = tuple(
        Original(
            path=_path(one["path"]),
            copy=_copy(one["copy"]),
            attributes=Attributes(
                _within(one["mode"], _MODES),
                _within(one["uid"], _OWNERS),
                _within(one["gid"], _OWNERS),
                {name: base64.b64decode(text) for name, text in one["xattrs"].items()},
            ),
            original=bytes.fromhex(one["original"]),
            mutated=bytes.fromhex(one["mutated"]),
            stamp=tuple(one["stamp"]),
            mtime=_within(one["mtime"], _TIMES),
        )
        for one in value["files"]
    )
    folders = {_path(path): _within(mode, _MODES) for path, mode in value["folders"].items()}
    return JournalEntry(value["check"], originals, folders)


def _within(value: int, limit: int) -> int:
    if not 0 <= value <= limit:
        raise ValueError(f"{value} is out of range")
    return value


def _text(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")


def _path(text: str) -> bytes:
    path = text.encode("utf-8", "surrogateescape")
    if any(name in (b"", b".", b"..") for name in path.split(b"/")):
        raise ValueError(f"`{text}` is no path in the working tree")
    return path


def _copy(name: str) -> str:
    if not _COPY.fullmatch(name):
        raise ValueError(f"`{name}` is no name of a copy")
    return name
