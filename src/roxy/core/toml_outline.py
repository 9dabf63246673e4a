"""Where each key of a TOML text stands, which the standard library's parser does not tell.

Asked only once something is wrong. It judges nothing: of a text that is not TOML it knows the keys
up to about the place where the trouble begins.
"""

from __future__ import annotations

import re
import tomllib
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from roxy.core.toml_text import Lines, normal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from roxy.core.toml_text import Place

Key = tuple[str | int, ...]
"""The way to a value from the top of the document: names in tables, numbers in lists."""

_GAP = re.compile(r"(?:[ \t\n]++|#[^\n]*+)*+")
_LINE_END = re.compile(r"[ \t]*+(?:#[^\n]*+)?(?:\n|\Z)")
_OPENING = re.compile(r"\[\[?")
_CLOSING = re.compile(r"\]\]?")
_NAME = re.compile(r"""[ \t]*+([A-Za-z0-9_-]+|"(?:\\.|[^"\\\n])*+"|'[^'\n]*')[ \t]*+""")
_EQUALS = re.compile(r"=[ \t]*+")
_COMMA = re.compile(r",?")
_SCALAR = re.compile(r"[^\s,\]}#][^\n,\]}#]*")
_QUOTES = re.compile(r"\"\"\"|'''|\"|'")
_STRING_STOPS = {
    '"': re.compile(r'\\.|"|\n'),
    "'": re.compile(r"'|\n"),
    '"""': re.compile(r'\\.|"""', re.DOTALL),
    "'''": re.compile(r"'''"),
}
_QUOTES_BEFORE_END = re.compile(r"\"{1,2}|'{0,2}")
_MOST_PARTS = 2_000_000
"""Names and numbers in all keys that are noted, more than any sound file has; it bounds memory."""


@dataclass(frozen=True, slots=True)
class Repeat:
    """A key that is given, or a table that is declared, once more than TOML allows."""

    key: Key
    place: Place
    first: Place
    is_table: bool
    start: int
    end: int
    """Offsets of all that has to go for the text to be without it."""


@dataclass(frozen=True, slots=True)
class Outline:
    """The keys of one text. Made by `outline`."""

    text: str
    repeats: tuple[Repeat, ...]
    _offsets: Mapping[Key, int]
    _lines: Lines
    _values: Mapping[Key, tuple[int, int]]

    def value(self, key: Key) -> tuple[int, int] | None:
        """Return the offsets in `text` of the value that `key` is given, where it has one."""
        return self._values.get(key)

    def place(self, key: Key) -> Place | None:
        """Return where the last name of `key` stands, or else what it would stand in."""
        while key and key not in self._offsets:
            key = key[:-1]
        return self._lines.place(self._offsets[key]) if key else None

    def text_without_repeats(self) -> str:
        """Return the text with blanks for each repeat, so that nothing else changes its place."""
        kept: list[str] = []
        at = 0
        for repeat in self.repeats:
            kept.append(self.text[at : repeat.start])
            kept.append(re.sub(r"[^\n]", " ", self.text[repeat.start : repeat.end]))
            at = repeat.end
        return "".join((*kept, self.text[at:]))


def outline(text: str) -> Outline:
    """Return where the keys of `text` stand; for one that is repeated, where it stands first."""
    scanner = _Scanner(normal(text))
    scanner.scan()
    offsets = scanner.implied | scanner.declared
    return Outline(scanner.text, tuple(scanner.repeats), offsets, scanner.lines, scanner.values)


class _LostError(Exception):
    """What comes next is not TOML."""


class _Scanner:
    """One pass over a text. Each method but `scan` moves on behind what its name says."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lines = Lines(text)
        self.repeats: list[Repeat] = []
        self.declared: dict[Key, int] = {}
        self.implied: dict[Key, int] = {}
        """Tables that are only named on the way to something in them."""
        self.values: dict[Key, tuple[int, int]] = {}
        """Where the values of keys begin and end, those in lists too."""
        self._at = 0
        self._room = _MOST_PARTS
        self._lengths: dict[Key, int] = {}
        """Of each list of tables, as `[[name]]` makes them, so far."""
        self._is_repeat = False
        """Whether what is read belongs to a repeat, so that nothing of it is noted."""

    def scan(self) -> None:
        try:
            self._pairs(())
            while self._at < len(self.text):
                self._section()
        except (_LostError, RecursionError):
            return

    def _section(self) -> None:
        start = self._at
        is_list = len(self._take(_OPENING)[0]) > 1
        key, offset = self._key(())
        self._take(_CLOSING)
        self._take(_LINE_END)
        if is_list:
            self._note(self.implied, key, offset)
            self._lengths[key] = self._lengths.get(key, 0) + 1
            key = self._latest(key)
        with self._noted(key, offset, start, is_table=True):
            self._pairs(key)

    def _pairs(self, table: Key) -> None:
        self._take(_GAP)
        while self._at < len(self.text) and self.text[self._at] != "[":
            self._pair(table, self._at)
            self._take(_LINE_END)
            self._take(_GAP)

    def _pair(self, table: Key, start: int) -> None:
        key, offset = self._key(table)
        self._take(_EQUALS)
        with self._noted(key, offset, start, is_table=False):
            self._value(key)

    def _key(self, table: Key) -> tuple[Key, int]:
        """Return the key within `table` that is spelled here, and where its last name begins."""
        key = table
        while True:
            name = self._take(_NAME)
            key = (*key, _unquoted(name[1]))
            if not self.text.startswith(".", self._at):
                return key, name.start(1)
            self._at += 1
            self._note(self.implied, key, name.start(1))
            key = self._latest(key)

    def _value(self, key: Key) -> None:
        start = self._at
        self._skip_value(key)
        if not self._is_repeat:
            self.values[key] = (start, self._at)

    def _skip_value(self, key: Key) -> None:
        opening = self.text[self._at : self._at + 1]
        if opening == "[":
            self._list(key)
        elif opening == "{":
            self._inline_table(key)
        elif opening in ('"', "'"):
            self._string()
        else:
            self._take(_SCALAR)

    def _list(self, key: Key) -> None:
        self._at += 1
        self._take(_GAP)
        number = 0
        while not self.text.startswith("]", self._at):
            self._note(self.declared, (*key, number), self._at)
            self._value((*key, number))
            self._take(_GAP)
            self._take(_COMMA)
            self._take(_GAP)
            number += 1
        self._at += 1

    def _inline_table(self, key: Key) -> None:
        self._at += 1
        self._take(_GAP)
        start = self._at
        while not self.text.startswith("}", self._at):
            self._pair(key, start)
            self._take(_GAP)
            start = self._at  # a repeat goes with the comma before it
            self._take(_COMMA)
            self._take(_GAP)
        self._at += 1

    def _string(self) -> None:
        quotes = self._take(_QUOTES)[0]
        for stop in _STRING_STOPS[quotes].finditer(self.text, self._at):
            self._at = stop.end()
            if stop[0] == "\n":
                break
            if stop[0] == quotes:
                if len(quotes) > 1:
                    self._take(_QUOTES_BEFORE_END)
                return
        raise _LostError

    @contextmanager
    def _noted(self, key: Key, offset: int, start: int, *, is_table: bool) -> Iterator[None]:
        """Note a key that is declared at `offset`, and that what follows is its value."""
        first = self._note(self.declared, key, offset)
        if first == offset:
            yield
            return
        self._is_repeat = True
        yield
        self._is_repeat = False
        places = self.lines.place(offset), self.lines.place(first)
        self.repeats.append(Repeat(key, *places, is_table, start, self._at))

    def _note(self, notes: dict[Key, int], key: Key, offset: int) -> int:
        """Note where a key stands, unless it is noted or within a repeat; return what then holds."""
        if self._is_repeat:
            return offset
        if key not in notes:
            self._room -= len(key)
            if self._room < 0:
                raise _LostError
            notes[key] = offset
        return notes[key]

    def _latest(self, key: Key) -> Key:
        """Return the key of the table that a name means: in a list of tables, the last so far."""
        return (*key, self._lengths[key] - 1) if key in self._lengths else key

    def _take(self, pattern: re.Pattern[str]) -> re.Match[str]:
        match = pattern.match(self.text, self._at)
        if match is None:
            raise _LostError
        self._at = match.end()
        return match


def _unquoted(name: str) -> str:
    if name[0] not in ('"', "'"):
        return name
    try:
        return str(tomllib.loads(f"name = {name}")["name"])
    except tomllib.TOMLDecodeError as error:
        raise _LostError from error
