"""What a patch says: its sections, one per file, their hunks, and a text that puts hunks elsewhere.

Reads just what `git apply` reads and nothing else; what git would take another way is a
`PatchError`. Names of files are not read here: git's own answer about them counts (S21).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_HUNK = re.compile(rb"@@ -([0-9]{1,15})(?:,([0-9]{1,15}))? \+([0-9]{1,15})(?:,([0-9]{1,15}))? @@")
_INDEX = re.compile(rb"index ([0-9A-Fa-f]{4,64})\.\.[0-9A-Fa-f]{4,64}(?: [0-7]+)?\r?")
_MARKER = b"\\ "
_SHORTEST_MARKER = 12
"""Git takes a shorter line that begins like the marker for damage."""
_SHORTEST_HUNK = 14
_BINARY = b"GIT binary patch\n"


class PatchError(ValueError):
    """Roxy does not read this patch as git does, so nothing can be said about it."""


class Fact(StrEnum):
    """What a section does besides editing content, as its header says it; a verb for people."""

    CREATES = "creates"
    DELETES = "deletes"
    RENAMES = "renames"
    COPIES = "copies"
    CHANGES_MODE = "changes the mode of"


_FACTS = {
    b"--- /dev/null": Fact.CREATES,
    b"+++ /dev/null": Fact.DELETES,
    b"old mode ": Fact.CHANGES_MODE,
    b"new mode ": Fact.CHANGES_MODE,
    b"deleted file mode ": Fact.DELETES,
    b"new file mode ": Fact.CREATES,
    b"copy from ": Fact.COPIES,
    b"copy to ": Fact.COPIES,
    b"rename old ": Fact.RENAMES,
    b"rename new ": Fact.RENAMES,
    b"rename from ": Fact.RENAMES,
    b"rename to ": Fact.RENAMES,
}
_HEADER_LINES = (
    b"--- ",
    b"+++ ",
    b"similarity index ",
    b"dissimilarity index ",
    b"index ",
    *(start for start in _FACTS if not start.startswith((b"---", b"+++"))),
)


@dataclass(frozen=True, slots=True)
class Hunk:
    """One edit: whole lines of a file, and what stands there afterwards."""

    line: int
    """How many lines of the old file stand above it."""
    new_line: int
    """How many lines of the new file do, as the patch says; hand-made patches are often wrong."""
    old: bytes
    """The lines that must be there, context and deleted ones; empty for a bare insertion."""
    old_count: int
    new: bytes
    new_count: int
    body: bytes
    """Its lines as the patch has them."""

    @property
    def ends_file(self) -> bool:
        """Whether one of the sides ends without a newline, which only the end of a file can."""
        return not (self.old or b"\n").endswith(b"\n") or not (self.new or b"\n").endswith(b"\n")


@dataclass(frozen=True, slots=True)
class Section:
    """What a patch does to one file."""

    header: bytes
    """Verbatim, up to the first hunk."""
    facts: tuple[Fact, ...]
    old_id: str | None
    """The blob that its `index` line says it was made from, often abbreviated, lower case. None
    without such a line."""
    hunks: tuple[Hunk, ...]
    binary: bytes | None
    """The binary part, verbatim."""
    lacks_bytes: bool
    """Whether it only says that binary files differ."""
    added: int
    deleted: int

    @property
    def keeps_crlf(self) -> bool:
        """Whether git matches it against the file without converting line ends.

        It does so when a line that must be there ends in CRLF.
        """
        return any(b"\r\n" in hunk.old for hunk in self.hunks)


def parse(patch: bytes) -> tuple[Section, ...]:
    """Return the sections of a patch in order. Raises `PatchError`.

    Like git, passes over everything around them, such as the message of a mail.
    """
    reader = _Reader(patch)
    sections = []
    while reader.peek():
        line = reader.peek()
        section = None
        if line.startswith(b"diff --git "):
            section = _git_section(reader)
        elif line.startswith(b"--- ") and _is_plain_header(reader):
            section = _plain_section(reader)
        elif _HUNK.match(line):
            raise PatchError("a hunk stands without a header")
        else:
            reader.next()
        if section is not None:
            sections.append(section)
    return tuple(sections)


class _Reader:
    """Lines of a patch, with a look ahead."""

    def __init__(self, patch: bytes) -> None:
        self._patch = patch
        self.at = 0
        self._end = self._line_end()

    def _line_end(self) -> int:
        return self._patch.find(b"\n", self.at) + 1 or len(self._patch)

    def peek(self) -> bytes:
        """Return the current line with its newline; empty at the end."""
        return self._patch[self.at : self._end]

    def next(self) -> None:
        self.at = self._end
        self._end = self._line_end()

    def since(self, start: int) -> bytes:
        return self._patch[start : self.at]

    @property
    def left(self) -> int:
        return len(self._patch) - self.at

    def go_back(self, to: int) -> None:
        self.at = to
        self._end = self._line_end()


def _is_plain_header(reader: _Reader) -> bool:
    start = reader.at
    reader.next()
    names = reader.peek().startswith(b"+++ ")
    reader.next()
    found = names and reader.left >= _SHORTEST_HUNK and reader.peek().startswith(b"@@ -")
    reader.go_back(start)
    return found


def _git_section(reader: _Reader) -> Section | None:
    """Read a section; None for a `diff --git` line that no header follows, which git passes over."""
    start = reader.at
    reader.next()
    after_first = reader.at
    while reader.peek().startswith(_HEADER_LINES) and reader.peek().endswith(b"\n"):
        reader.next()
    if reader.at == after_first:
        return None
    return _rest_of_section(reader, start)


def _plain_section(reader: _Reader) -> Section:
    start = reader.at
    reader.next()
    reader.next()
    return _rest_of_section(reader, start)


def _rest_of_section(reader: _Reader, start: int) -> Section:
    header = reader.since(start)
    lines = header.split(b"\n")
    hunks = []
    while reader.peek().startswith(b"@@ -"):
        hunks.append(_hunk(reader))
    binary = None
    lacks_bytes = False
    if not hunks and reader.peek() == _BINARY:
        binary = _binary(reader)
    elif not hunks and reader.peek().endswith(b" differ\n"):
        lacks_bytes = reader.peek().startswith((b"Binary files ", b"Files "))
    found = (_fact(line) for line in lines)
    return Section(
        header=header,
        facts=tuple(dict.fromkeys(fact for fact in found if fact is not None)),
        old_id=_old_id(lines),
        hunks=tuple(hunk for hunk, _, _ in hunks),
        binary=binary,
        lacks_bytes=lacks_bytes,
        added=sum(added for _, added, _ in hunks),
        deleted=sum(deleted for _, _, deleted in hunks),
    )


def _fact(line: bytes) -> Fact | None:
    for start, fact in _FACTS.items():
        if line.startswith(start):
            return fact
    return None


def _old_id(lines: Iterable[bytes]) -> str | None:
    found = None
    for line in lines:
        match = _INDEX.fullmatch(line)
        if match is not None:
            found = match[1].decode("ascii").lower()
    return found if found is not None and found.strip("0") else None


def _hunk(reader: _Reader) -> tuple[Hunk, int, int]:
    """Read a hunk; return it with the numbers of its added and its deleted lines."""
    match = _HUNK.match(reader.peek())
    if match is None:
        raise PatchError("the header of a hunk cannot be read")
    old_start, old_count, new_start, new_count = (
        1 if group is None else int(group) for group in match.groups()
    )
    old_left, new_left = old_count, new_count
    reader.next()
    body = reader.at
    sides = _Sides()
    while old_left or new_left:
        line = reader.peek()
        if not line.endswith(b"\n"):
            raise PatchError("a hunk is cut off")
        in_old, in_new = sides.take(line)
        old_left -= in_old
        new_left -= in_new
        if old_left < 0 or new_left < 0:
            raise PatchError("a hunk has more lines than its header says")
        reader.next()
    if reader.left > _SHORTEST_MARKER and reader.peek().startswith(_MARKER):
        sides.take(reader.peek())
        reader.next()
    hunk = Hunk(
        line=old_start - 1 if old_count else old_start,
        new_line=new_start - 1 if new_count else new_start,
        old=bytes(sides.old.text),
        old_count=old_count,
        new=bytes(sides.new.text),
        new_count=new_count,
        body=reader.since(body),
    )
    if not sides.added and not sides.deleted:
        raise PatchError("a hunk changes nothing")
    return hunk, sides.added, sides.deleted


class _Side:
    """One side of a hunk while its lines come in."""

    def __init__(self) -> None:
        self.text = bytearray()
        self.is_over = False
        """Whether its last line has no newline, so that none can follow."""

    def add(self, line: bytes) -> None:
        if self.is_over:
            raise PatchError("a line follows one that has no newline")
        self.text += line

    def end_without_newline(self) -> None:
        del self.text[-1:]
        self.is_over = True


class _Sides:
    """Both of them."""

    def __init__(self) -> None:
        self.old = _Side()
        self.new = _Side()
        self.added = 0
        self.deleted = 0
        self._last: list[_Side] = []

    def take(self, line: bytes) -> tuple[bool, bool]:
        """Take a line; return whether it counts for the old and for the new side."""
        kind = line[:1]
        if kind == b"\\":
            self._end_without_newline(line)
            return False, False
        if kind not in (b" ", b"\n", b"-", b"+"):
            raise PatchError("a line of a hunk begins with none of ` `, `-` and `+`")
        in_old, in_new = kind != b"+", kind != b"-"
        self.added += not in_old
        self.deleted += not in_new
        self._last = [side for side, has in ((self.old, in_old), (self.new, in_new)) if has]
        for side in self._last:
            side.add(b"\n" if kind == b"\n" else line[1:])
        return in_old, in_new

    def _end_without_newline(self, line: bytes) -> None:
        if len(line) < _SHORTEST_MARKER or not line.startswith(_MARKER) or not self._last:
            raise PatchError("a line of a hunk begins with a backslash")
        for side in self._last:
            side.end_without_newline()
        self._last = []


def _binary(reader: _Reader) -> bytes:
    start = reader.at
    reader.next()
    for _ in range(2):  # forward, and maybe the way back
        if not reader.peek().startswith((b"literal ", b"delta ")):
            break
        while reader.peek() not in (b"\n", b""):
            reader.next()
        reader.next()
    return reader.since(start)


def are_in_order(hunks: Sequence[Hunk]) -> bool:
    """Say whether every hunk stands below the one before it."""
    line = 0
    for hunk in hunks:
        if hunk.line < line:
            return False
        line = hunk.line + hunk.old_count
    return True


def is_consistent(hunks: Iterable[Hunk]) -> bool:
    """Say whether both line numbers of every bare insertion mean one place.

    There is no text to tell which of them is right, and git goes by the one that roxy does not.
    """
    grown = 0
    for hunk in hunks:
        if not hunk.old and hunk.new_line != hunk.line + grown:
            return False
        grown += hunk.new_count - hunk.old_count
    return True


def render(hunks: Iterable[Hunk], shift: int) -> Iterator[bytes]:
    """Yield the text of hunks, each exactly `shift` lines below the place that it states.

    `git apply` looks for a hunk from the line number of its new side on, so that is the one that
    has to be right; for a hunk that leaves nothing, too, where diff writes the line above.
    """
    grown = 0
    for hunk in hunks:
        line = hunk.line + shift
        old_start = line + 1 if hunk.old_count else line
        yield b"@@ -%d,%d +%d,%d @@\n" % (
            old_start,
            hunk.old_count,
            line + grown + 1,
            hunk.new_count,
        )
        yield hunk.body
        if not hunk.body.endswith(b"\n"):
            yield b"\n"
        grown += hunk.new_count - hunk.old_count
