"""Digests that an earlier `status` or `gate` read, so that unchanged files need not be read (S38).

A digest counts while its file has the very stamp that it had when it was read. A cache that is
damaged, cut off or from another roxy is no cache: that costs time, never truth. It is no evidence
either: `verify` never looks at it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import struct
from typing import TYPE_CHECKING

from roxy.core import files, regular_file
from roxy.core.contents import NOTHING, Contents
from roxy.core.errors import DiskError
from roxy.core.working_tree import STAMP_SIZE

if TYPE_CHECKING:
    from pathlib import Path

_HEADER = b"roxy digests 2\n"
"""To be changed with what follows it: the SHA-256 of the rest, two numbers (how many files, and the
size of their names), each path and a NUL, then the two columns of `Contents`."""
_CHECKSUM = 32
_NUMBERS = struct.Struct("<QQ")
_MOST = 512 * regular_file.MEBIBYTE
"""Bytes of a cache; one of a million covered files has fewer."""
_WRITING = 256
"""Bytes that can be read in about the time that it takes to keep one file's digest."""


def load(state: Path) -> Contents:
    """Return what was kept; nothing without a sound cache."""
    try:
        data = regular_file.read(None, os.fsencode(_path(state)), _MOST, follow_links=False)
    except regular_file.UnreadableFileError:
        return NOTHING
    start = len(_HEADER) + _CHECKSUM
    with memoryview(data) as view:
        checksum = hashlib.sha256(view[start:]).digest()
    if data[:start] != _HEADER + checksum or len(data) < start + _NUMBERS.size:
        return NOTHING
    count, size = _NUMBERS.unpack_from(data, start)
    names = start + _NUMBERS.size
    stamps = names + size
    fields = stamps + count * STAMP_SIZE
    kept = Contents(tuple(data[names:stamps].split(b"\0")[:-1]), data[stamps:fields], data[fields:])
    return kept if len(kept.paths) == count and kept.is_sound else NOTHING


def keep(state: Path, now: Contents, before: Contents, effort: int, *, is_proven: bool) -> None:
    """Keep what was read for the next command; where that cannot be, nothing is lost.

    A little that is new among much is left to be read again, which takes less time than to write
    all of it: unless there is evidence for it, since later that tells what changed. `effort` is
    what reading it took, in bytes; none where nothing can serve again.
    """
    is_other = now.paths != before.paths and (effort or before.paths)
    is_evidence = is_proven and effort and now.fields != before.fields
    if is_other or is_evidence or effort > _WRITING * len(now.paths):
        save(state, now)


def save(state: Path, contents: Contents) -> None:
    """Write the cache, whatever is in it; where that cannot be, nothing is lost."""
    names = b"".join([path + b"\0" for path in contents.paths])
    numbers = _NUMBERS.pack(len(contents.paths), len(names))
    rest = b"".join((numbers, names, contents.stamps, contents.fields))
    with contextlib.suppress(DiskError):
        files.write(_path(state), _HEADER + hashlib.sha256(rest).digest() + rest)


def _path(state: Path) -> Path:
    return state / "digests"
