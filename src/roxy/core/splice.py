"""Where the hunks of one file go in a stream of bytes, and what they make of it (S20).

Nothing here holds more of the stream than a few blocks, or the longest hunk, at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from roxy.core.patch import Hunk

_BLOCK = 1 << 18
_FEW = 8
"""So many different texts are looked for one by one, in a pass of the file each."""
_KEY_LINES = 8
_STRIDE = 256
_GROUP_BYTES = 1 << 20
_GROUP_HUNKS = 100


@dataclass(frozen=True, slots=True)
class Span:
    """Where the old lines of a hunk are, in bytes from the beginning of the file."""

    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Group:
    """Some hunks in a row, and the part of the file that holds them all."""

    span: Span
    hunks: Sequence[Hunk]
    shift: int
    """How far below their stated places they are in that part."""


@dataclass(frozen=True, slots=True)
class Found:
    """How often some lines occur, and how many lines stand above the first occurrence."""

    count: int
    line: int


# ------------------------------------------------------------------- putting hunks in


def splice(
    source: BinaryIO, hunks: Iterable[Hunk], shift: int, write: Callable[[bytes], object]
) -> list[Span] | None:
    """Write the file with every hunk applied exactly `shift` lines below its stated place.

    Returns where the old lines of each were, or None when one of them is not there; what was
    written until then means nothing.
    """
    cursor = _Cursor(source, write)
    spans = []
    line = 0
    for hunk in hunks:
        gap = hunk.line + shift - line
        if gap < 0 or not cursor.copy_lines(gap):
            return None
        begin = cursor.offset
        if not cursor.pass_over(hunk.old) or (hunk.ends_file and not cursor.is_at_end()):
            return None
        spans.append(Span(begin, cursor.offset))
        write(hunk.new)
        line += gap + hunk.old_count
    cursor.copy_rest()
    return spans


class _Cursor:
    """A place in a stream, which only moves forward and stops at beginnings of lines."""

    def __init__(self, source: BinaryIO, write: Callable[[bytes], object]) -> None:
        source.seek(0)
        self._source = source
        self._write = write
        self._block = b""
        self._at = 0
        self._before = 0

    @property
    def offset(self) -> int:
        return self._before + self._at

    def is_at_end(self) -> bool:
        if self._at < len(self._block):
            return False
        self._before += len(self._block)
        self._block, self._at = self._source.read(_BLOCK), 0
        return not self._block

    def copy_lines(self, count: int) -> bool:
        """Write so many whole lines; say whether there were as many."""
        while count:
            if self.is_at_end():
                return False
            end, count = _after_lines(self._block, self._at, count)
            self._write(self._block[self._at : end])
            self._at = end
        return True

    def pass_over(self, expected: bytes) -> bool:
        """Say whether exactly these bytes come next, and leave them out."""
        done = 0
        while done < len(expected):
            if self.is_at_end():
                return False
            size = min(len(expected) - done, len(self._block) - self._at)
            if self._block[self._at : self._at + size] != expected[done : done + size]:
                return False
            self._at += size
            done += size
        return True

    def copy_rest(self) -> None:
        while not self.is_at_end():
            self._write(self._block[self._at :] if self._at else self._block)
            self._at = len(self._block)


def _after_lines(block: bytes, at: int, count: int) -> tuple[int, int]:
    """Return where the line `count` lines below `at` begins, and 0; or the end, and how many lack.

    Takes time for the distance, not for the block: there may be a thousand hunks in one block.
    """
    stride = _STRIDE
    is_near = False
    while at < len(block):
        end = min(at + stride, len(block))
        newlines = block.count(b"\n", at, end)
        if newlines < count:
            at, count = end, count - newlines
            stride *= 1 if is_near else 2
        elif stride > _STRIDE:
            is_near = True
            stride = max(_STRIDE, stride // 4)
        else:
            for _ in range(count):
                at = block.find(b"\n", at) + 1
            return at, 0
    return at, count


# ------------------------------------------------------------------- looking for hunks


def locate(source: BinaryIO, size: int, hunks: Sequence[Hunk]) -> list[Found]:
    """Count where the old lines of each hunk occur as whole lines. None of them may be empty."""
    texts = [(hunk.old, hunk.ends_file) for hunk in hunks]
    unique = list(dict.fromkeys(texts))
    if len(unique) <= _FEW:
        found = [_search(source, size, old, ends_file=last) for old, last in unique]
    else:
        found = _census(source, size, unique)
    by_text = dict(zip(unique, found, strict=True))
    return [by_text[text] for text in texts]


def _search(source: BinaryIO, size: int, old: bytes, *, ends_file: bool) -> Found:
    """Look for one text, at the speed of the C library."""
    needle = b"\n" + old
    source.seek(0)
    window, offset = b"\n", -1  # as if a line ended where the file begins
    at = lines = count = 0
    line = -1
    while block := source.read(max(_BLOCK, 2 * len(needle))):
        window += block
        while (found := window.find(needle, at)) >= 0:
            at = found + 1
            if ends_file and offset + found + len(needle) != size:
                continue
            count += 1
            if count == 1:
                line = lines + window.count(b"\n", 0, found)
        drop = max(len(window) - len(needle) + 1, 0)
        lines += window.count(b"\n", 0, drop)
        window, offset, at = window[drop:], offset + drop, max(at - drop, 0)
    return Found(count, line)


def _census(source: BinaryIO, size: int, texts: Sequence[tuple[bytes, bool]]) -> list[Found]:
    """Look for many texts in one pass, by their first lines."""
    tables = _tables(texts)
    counts, first = [0] * len(texts), [-1] * len(texts)
    longest = max(len(old) for old, _ in texts)
    source.seek(0)
    window, offset, line = b"", 0, 0
    inside = False  # of a line that is longer than every text
    block = b"\n"
    while block:
        block = source.read(max(4 * _BLOCK, 2 * longest))
        window += block
        starts = _line_starts(window, inside=inside)
        keep = len(window)
        for index, at in enumerate(starts[:-1]):
            if block and at + longest > len(window):
                keep = at
                break
            for number in _candidates(tables, window, starts, index):
                old, ends_file = texts[number]
                at_end = offset + at + len(old) == size
                if window.startswith(old, at) and (at_end or not ends_file):
                    counts[number] += 1
                    if counts[number] == 1:
                        first[number] = line + index + inside
        inside = keep == len(window) and not window.endswith(b"\n")
        line += window.count(b"\n", 0, keep)
        window, offset = window[keep:], offset + keep
    return [Found(count, line) for count, line in zip(counts, first, strict=True)]


def _tables(texts: Sequence[tuple[bytes, bool]]) -> dict[int, dict[bytes, list[int]]]:
    """Return the numbers of the texts by how many lines a key has, and by those first lines."""
    tables: dict[int, dict[bytes, list[int]]] = {}
    for number, (old, _) in enumerate(texts):
        count = end = 0
        while count < _KEY_LINES and end < len(old):
            end = old.find(b"\n", end) + 1 or len(old)
            count += 1
        tables.setdefault(count, {}).setdefault(old[:end], []).append(number)
    return tables


def _line_starts(window: bytes, *, inside: bool) -> list[int]:
    """Return where lines begin, and the end."""
    starts = [] if inside else [0]
    at = window.find(b"\n") + 1
    while at:
        starts.append(at)
        at = window.find(b"\n", at) + 1
    if not starts or starts[-1] != len(window):
        starts.append(len(window))
    return starts


def _candidates(
    tables: dict[int, dict[bytes, list[int]]], window: bytes, starts: Sequence[int], index: int
) -> Iterable[int]:
    for count, table in tables.items():
        if index + count < len(starts):
            yield from table.get(window[starts[index] : starts[index + count]], ())


# ------------------------------------------------------------------- hunks in portions


def group(hunks: Sequence[Hunk], spans: Sequence[Span], shift: int, size: int) -> list[Group]:
    """Cut hunks into portions that git can take at once.

    For every hunk `git apply` copies all of what it was given. So a large file, or one with many
    hunks, is shown to git only around its hunks, in portions.
    """
    if size <= _GROUP_BYTES and len(hunks) <= _GROUP_HUNKS:
        return [Group(Span(0, size), hunks, shift)]
    groups = []
    first = 0
    for last in range(1, len(hunks) + 1):
        if (
            last == len(hunks)
            or last - first >= _GROUP_HUNKS
            or spans[last].end - spans[first].begin > _GROUP_BYTES
        ):
            span = Span(spans[first].begin, spans[last - 1].end)
            groups.append(Group(span, hunks[first:last], -hunks[first].line))
            first = last
    return groups
