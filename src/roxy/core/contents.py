"""What covered files hold, in columns: as a fingerprint tells it, and as `gate` keeps it (S34, S38).

Of a hundred thousand files hardly any ever changes between two commands. So they are compared and
hashed by the column, and only those that differ are taken up one by one.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import cached_property
from itertools import accumulate, pairwise, repeat
from typing import TYPE_CHECKING

from roxy.core.fingerprint import of_file
from roxy.core.working_tree import NO_STAMP, STAMP_SIZE, cut

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from roxy.core.digests import Digests
    from roxy.core.working_tree import Stamped

DIGEST_SIZE = 32
_UNREAD = bytes(DIGEST_SIZE)
_FIELDS_SIZE = len(of_file(b"", _UNREAD))


class Contents:
    """What some files held when they were read. It never changes."""

    def __init__(
        self,
        paths: tuple[bytes, ...],
        stamps: bytes,
        fields: bytes,
        fresh: Collection[bytes] = (),
    ) -> None:
        self.paths = paths
        """Sorted."""
        self.stamps = stamps
        """The stamp of each file while it was read, one after the other; `NO_STAMP` where it must be
        read again in any case."""
        self.fields = fields
        """What `of_file` makes of each file, one after the other."""
        self.fresh = fresh
        """Files that were read, as it was not known from earlier what they hold."""

    @property
    def is_sound(self) -> bool:
        """Whether the columns are as long as the paths say; a cache may hold anything."""
        fields = _FIELDS_SIZE * len(self.paths) + sum(map(len, self.paths))
        return (len(self.stamps), len(self.fields)) == (STAMP_SIZE * len(self.paths), fields)

    @cached_property
    def _lengths(self) -> list[int]:
        """How long all paths before each are, and at last all of them."""
        return list(accumulate(map(len, self.paths), initial=0))

    def start(self, number: int) -> int:
        """Return where the fields of a file start, or behind the last, where they all end."""
        return self._lengths[number] + _FIELDS_SIZE * number

    @cached_property
    def _by_path(self) -> dict[bytes, bytes]:
        starts = map(self.start, range(len(self.paths) + 1))
        fields = (self.fields[start:end] for start, end in pairwise(starts))
        return dict(zip(self.paths, fields, strict=True))

    def of(self, paths: tuple[bytes, ...]) -> bytes:
        """Return the fields of those of some files that are here, in the order of `paths`."""
        if paths == self.paths:
            return self.fields
        return b"".join(map(self._by_path.get, paths, repeat(b"")))

    def digest(self, path: bytes) -> bytes | None:
        """Return the SHA-256 of what a file held, 32 raw bytes; None if it is not here."""
        number = bisect_left(self.paths, path)
        if self.paths[number : number + 1] != (path,):
            return None
        end = self.start(number + 1)
        return self.fields[end - DIGEST_SIZE : end]

    def digests(self) -> dict[bytes, bytes]:
        """Return the same of all files, by their paths."""
        return {path: fields[-DIGEST_SIZE:] for path, fields in self._by_path.items()}

    def changed_since(self, earlier: Contents) -> set[bytes]:
        """Return which files that are in both held something else.

        `earlier` must be what was known when this was read.
        """
        return {
            path
            for path in self.fresh
            if (then := earlier.digest(path)) is not None and then != self.digest(path)
        }

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
            self.fresh,
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
    changed = {known.paths[number]: number for number in _differing(files.stamps, known.stamps)}
    found = digests.read_stamped({path: files.stamp(changed[path]) for path in changed})
    there = Contents(
        known.paths,
        _patched(
            known.stamps,
            (
                (STAMP_SIZE * changed[path], digests.lasting_stamp(path, digest) or NO_STAMP)
                for path, digest in found.items()
            ),
        ),
        _patched(
            known.fields,
            (
                (known.start(changed[path] + 1) - DIGEST_SIZE, digest)
                for path, digest in found.items()
            ),
        ),
        found.keys(),
    )
    there._lengths = known._lengths  # noqa: SLF001 - as the paths are the same
    gone = changed.keys() - found.keys()
    if not gone:
        return there
    return there.laid_out_for(tuple(path for path in there.paths if path not in gone))


def _patched(column: bytes, patches: Iterable[tuple[int, bytes]]) -> bytes:
    """Return a column with other bytes at some places, in ascending order."""
    parts, at = [], 0
    for start, data in patches:
        parts += [column[at:start], data]
        at = start + len(data)
    return b"".join((*parts, column[at:]))


def _differing(one: bytes, other: bytes) -> Iterator[int]:
    """Give the numbers of the stamps that differ between two columns of as many.

    Halves that are equal are not looked into, so a few among many are found at once.
    """
    left = [(0, len(one) // STAMP_SIZE)]
    while left:
        first, end = left.pop()
        here = slice(first * STAMP_SIZE, end * STAMP_SIZE)
        if one[here] == other[here]:
            continue
        if end - first == 1:
            yield first
        else:
            middle = (first + end) // 2
            left += [(middle, end), (first, middle)]
