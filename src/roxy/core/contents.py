"""What covered files hold, in columns: as a fingerprint tells it, and as `gate` keeps it (S34, S38).

Of a hundred thousand files hardly any ever changes between two commands. So they are compared and
hashed by the column, and only those that differ are taken up one by one.
"""

from __future__ import annotations

from functools import cached_property
from itertools import accumulate, pairwise, repeat
from typing import TYPE_CHECKING

from roxy.core.fingerprint import of_file
from roxy.core.working_tree import NO_STAMP, STAMP_SIZE, Stamp, cut

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from roxy.core.digests import Digests
    from roxy.core.working_tree import Stamped

DIGEST_SIZE = 32
_UNREAD = bytes(DIGEST_SIZE)
_FIELDS_SIZE = len(of_file(b"", _UNREAD))


class Contents:
    """What some files held when they were read. It never changes."""

    def __init__(self, paths: tuple[bytes, ...], stamps: bytes, fields: bytes) -> None:
        self.paths = paths
        """Sorted."""
        self.stamps = stamps
        """The stamp of each file while it was read, one after the other; `NO_STAMP` where it must be
        read again in any case."""
        self.fields = fields
        """What `of_file` makes of each file, one after the other."""

    @property
    def is_sound(self) -> bool:
        """Whether the columns are as long as the paths say; a cache may hold anything."""
        fields = _FIELDS_SIZE * len(self.paths) + sum(map(len, self.paths))
        return (len(self.stamps), len(self.fields)) == (STAMP_SIZE * len(self.paths), fields)

    @cached_property
    def starts(self) -> list[int]:
        """Where the fields of each file start, and at last where they all end."""
        return list(accumulate((_FIELDS_SIZE + len(path) for path in self.paths), initial=0))

    @cached_property
    def _by_path(self) -> dict[bytes, bytes]:
        fields = (self.fields[start:end] for start, end in pairwise(self.starts))
        return dict(zip(self.paths, fields, strict=True))

    def of(self, paths: tuple[bytes, ...]) -> bytes:
        """Return the fields of those of some files that are here, in the order of `paths`."""
        if paths == self.paths:
            return self.fields
        return b"".join(map(self._by_path.get, paths, repeat(b"")))

    def digest(self, path: bytes) -> bytes | None:
        """Return the SHA-256 of what a file held, 32 raw bytes; None if it is not here."""
        fields = self._by_path.get(path)
        return None if fields is None else fields[-DIGEST_SIZE:]

    def changed_since(self, earlier: Contents) -> set[bytes]:
        """Return which files that are in both held something else earlier."""
        if self.paths == earlier.paths:
            numbers = _differing(self.fields, earlier.fields, self.starts)
            return {self.paths[number] for number in numbers}
        then = earlier._by_path
        return {path for path, fields in self._by_path.items() if then.get(path, fields) != fields}

    def laid_out_for(self, paths: tuple[bytes, ...]) -> Contents:
        """Return the same of other files; of those that are not here nothing is known."""
        if paths == self.paths:
            return self
        stamps = dict(zip(self.paths, cut(self.stamps), strict=True))
        fields = self._by_path
        return Contents(
            paths,
            b"".join([stamps.get(path, NO_STAMP) for path in paths]),
            b"".join([fields.get(path) or of_file(path, _UNREAD) for path in paths]),
        )


NOTHING = Contents((), b"", b"")


def read(digests: Digests, files: Stamped, earlier: Contents = NOTHING) -> Contents:
    """Return what files hold whose stamps were taken a moment ago.

    Those that have the stamp that they had `earlier` are not read. One that is gone by now is left
    out. Raises `DiskError` when a file is there but cannot be read.
    """
    known = earlier.laid_out_for(files.paths)
    if files.stamps == known.stamps:
        return known
    ends = range(0, len(files.stamps) + 1, STAMP_SIZE)
    changed = {
        known.paths[number]: number for number in _differing(files.stamps, known.stamps, ends)
    }
    found = digests.read_stamped(
        {
            path: Stamp(files.stamps[ends[number] : ends[number + 1]])
            for path, number in changed.items()
        }
    )
    lasting, fields = bytearray(known.stamps), bytearray(known.fields)
    for path, digest in found.items():
        number = changed[path]
        lasting[ends[number] : ends[number + 1]] = digests.lasting_stamp(path, digest) or NO_STAMP
        end = known.starts[number + 1]
        fields[end - DIGEST_SIZE : end] = digest
    there = Contents(known.paths, bytes(lasting), bytes(fields))
    there.starts = known.starts  # as the paths are the same
    gone = changed.keys() - found.keys()
    if not gone:
        return there
    return there.laid_out_for(tuple(path for path in there.paths if path not in gone))


def _differing(one: bytes, other: bytes, starts: Sequence[int]) -> Iterator[int]:
    """Give the numbers of the parts, equally long in both, that differ between two columns.

    Halves that are equal are not looked into, so a few among many are found at once.
    """
    left = [(0, len(starts) - 1)]
    while left:
        first, end = left.pop()
        here = slice(starts[first], starts[end])
        if one[here] == other[here]:
            continue
        if end - first == 1:
            yield first
        else:
            middle = (first + end) // 2
            left += [(middle, end), (first, middle)]
