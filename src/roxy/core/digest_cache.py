"""Digests that an earlier `status` or `gate` read, so that unchanged files need not be read (S38).

A digest counts while its file has the very stamp that it had when it was read. A cache that is
damaged, cut off or from another roxy is no cache: that costs time, never truth. It is no evidence
either: `verify` never looks at it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from typing import TYPE_CHECKING

from roxy.core import files, regular_file
from roxy.core.errors import DiskError
from roxy.core.working_tree import STAMP_SIZE

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_HEADER = b"roxy digests 1\n"
"""To be changed with what follows it: the SHA-256 of the rest, how many names there are, each
name and a NUL, then for each in the same order the stamp and the digest."""
_DIGEST = 32
_COUNT = 8
_RECORD = STAMP_SIZE + _DIGEST
_MOST = 512 * regular_file.MEBIBYTE
"""Bytes of a cache; one of a million covered files has fewer."""


def load(state: Path) -> dict[bytes, bytes]:
    """Return stamp and digest by path, as `Digests.known` has them; empty without a sound cache."""
    try:
        data = regular_file.read(None, os.fsencode(_path(state)), _MOST, follow_links=False)
    except regular_file.UnreadableFileError:
        return {}
    rest = data[len(_HEADER) + _DIGEST :]
    if data[: len(_HEADER) + _DIGEST] != _HEADER + hashlib.sha256(rest).digest():
        return {}
    count = int.from_bytes(rest[:_COUNT], "big")
    at = len(rest) - count * _RECORD
    names = rest[_COUNT:at].split(b"\0")
    return dict(
        zip(names, (rest[i : i + _RECORD] for i in range(at, len(rest), _RECORD)), strict=False)
    )


def save(state: Path, known: dict[bytes, bytes], paths: Iterable[bytes]) -> None:
    """Keep what is known of `paths` for the next command; where that cannot be, nothing is lost."""
    kept = [path for path in paths if path in known]
    rest = b"".join(
        (
            len(kept).to_bytes(_COUNT, "big"),
            *(path + b"\0" for path in kept),
            *(known[path] for path in kept),
        )
    )
    with contextlib.suppress(DiskError):
        files.write(_path(state), _HEADER + hashlib.sha256(rest).digest() + rest)


def _path(state: Path) -> Path:
    return state / "digests"
