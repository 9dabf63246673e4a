"""From the bytes of a TOML file to its values, with every way it can fail put in roxy's words.

The standard library's parser says what is wrong in sentences that change between versions of
Python. Known ones are replaced here, others are passed on.
"""

from __future__ import annotations

import codecs
import re
import tomllib
from bisect import bisect_right
from typing import Any, NamedTuple

_COMPLAINT = r"(?s)(.*) \(at (?:line (\d+), column (\d+)|end of document)\)"
_IN_OUR_WORDS = {
    "Cannot declare": "a table is declared twice",
    "Cannot overwrite": "a key is given twice, or is both a value and a table",
    "Duplicate": "an inline table has a key twice",
    "Cannot mutate": "something is added to a table or list that was complete",
    "Cannot redefine": "something is added to a table that was complete",
    "Unterminated string": "a string is not closed",
    "Expected \"'": "a string is not closed",
    "Illegal character '\\n'": "a string is not closed on its line",
    "Found invalid character '\\n'": "a string is not closed on its line",
    "Illegal character": "a string holds a control character",
    "Found invalid character": "a control character stands where none may",
    "Unescaped": "a backslash in a string begins no escape",
    "Invalid hex": "an escape in a string lacks hex digits",
    "Escaped character": "an escape in a string stands for no character",
    "Unclosed array": "a list lacks a `,` or its `]`",
    "Unclosed inline": "an inline table lacks a `,` or its `}`",
    "Expected '='": "a key has no `=` after it",
    "Expected ']": "the name of a table lacks its closing bracket",
    "Expected newline": "more stands on the line than may",
    "Invalid initial": "a key is missing, or needs quotes",
    "Invalid statement": "a line is neither a key with its value nor the name of a table",
    "Invalid value": "a value is missing, or needs quotes",
    "Invalid date": "a date or time does not exist",
}
_HINTS = {
    "Unescaped": "write it twice, or put the string between single quotes",
}
_MERGE_MARKERS = ("<<<<<<<", "|||||||", "=======", ">>>>>>>")
_WIDE_ENCODINGS = {
    codecs.BOM_UTF32_LE: "UTF-32",  # before UTF-16, whose mark it begins with
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}


class Place(NamedTuple):
    """A character of a text: its line, and its number in that line, both counted from 1."""

    line: int
    column: int


_BITS = 64
"""Of a number, more than TOML promises to hold."""
_DOTS = 100
"""In one key, more than anybody writes: the parser takes time by their number squared."""
_ENDLESS_KEY = re.compile(rf"(?<![\w-])(?:[\w-]++[ \t]*+\.[ \t]*+){{{_DOTS}}}")
_OPAQUE = re.compile(
    r"""
    "{3} (?: \\. | [^\\] )*? (?: "{3,5} | \\?\Z ) | '{3} .*? (?: '{3,5} | \Z )
    | " (?: \\. | [^"\\\n] )*+ "? | ' [^'\n]*+ '?
    | \# [^\n]*+
    """,
    re.DOTALL | re.VERBOSE,
)
"""A string, of any kind and perhaps without its end, or a comment: no dot in it parts a key."""


class TomlError(ValueError):
    """Bytes that are no TOML. The text goes on after the file's name: "is not UTF-8"."""

    def __init__(self, what: str, place: Place | None = None, hint: str | None = None) -> None:
        super().__init__(what)
        self.place = place
        self.hint = hint


def decode(data: bytes) -> str:
    """Return the text of a file, without a byte order mark. Raises `TomlError` (S10)."""
    for mark, encoding in _WIDE_ENCODINGS.items():
        if data.startswith(mark):
            raise TomlError(f"is {encoding}, not UTF-8", hint="save it as UTF-8")
    try:
        text = normal(data.decode())
    except UnicodeDecodeError as error:
        before = normal(data[: error.start].decode())
        what = f"is not UTF-8: byte {data[error.start]:#04x} at offset {error.start}"
        place = place_of(before, len(before))
        raise TomlError(what, place, "save it as UTF-8") from error
    if "\0" in text:  # as every other byte is in UTF-16 without a mark
        place = place_of(text, text.index("\0"))
        raise TomlError("holds a NUL byte", place, "save it as UTF-8")
    return text


def normal(text: str) -> str:
    """Return `text` without a byte order mark and with plain line feeds, as TOML sees it."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n")


def place_of(text: str, offset: int) -> Place:
    """Return the place of the character at `offset` in `text`, which is `normal`."""
    return Place(text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset))


class Lines:
    """The lines of one `normal` text, which tell the place of any character at once."""

    def __init__(self, text: str) -> None:
        self._starts = [0, *(match.end() for match in re.finditer("\n", text))]

    def place(self, offset: int) -> Place:
        """Return the place of the character at `offset`."""
        line = bisect_right(self._starts, offset)
        return Place(line, offset - self._starts[line - 1] + 1)


def parse(text: str) -> dict[str, Any]:
    """Return the values of a TOML document. Raises `TomlError`."""
    text = normal(text)
    if any(line.count(".") >= _DOTS for line in text.split("\n")):
        _refuse_endless_keys(text)
    try:
        values = tomllib.loads(text)
    except RecursionError as error:
        raise TomlError("is nested too deeply") from error
    except tomllib.TOMLDecodeError as error:
        raise _translated(str(error), text) from error
    except ValueError as error:  # a number with thousands of digits
        raise TomlError("holds a number that is too long") from error
    if _has_long_number(values):  # in hexadecimal, say, which the parser takes at any length
        raise TomlError("holds a number that is too long")
    return values


def _refuse_endless_keys(text: str) -> None:
    """Raise for a key with too many dots. What is quoted can be a part of one, a comment cannot."""

    def blank(match: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " " if match[0][0] == "#" else "_", match[0])

    if match := _ENDLESS_KEY.search(_OPAQUE.sub(blank, text)):
        raise TomlError("holds a key with too many dots", place_of(text, match.start()))


def _has_long_number(value: object) -> bool:
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, dict):
            left += one.values()
        elif isinstance(one, list):
            left += one
        elif isinstance(one, int) and one.bit_length() > _BITS:
            return True
    return False


def _translated(message: str, text: str) -> TomlError:
    complaint, place = message, place_of(text, len(text.rstrip()))
    if match := re.fullmatch(_COMPLAINT, message):
        complaint = match[1]
        if match[2]:
            place = Place(int(match[2]), int(match[3]))
    line = text.split("\n")[place.line - 1]
    if line.startswith(_MERGE_MARKERS):
        return TomlError("holds the markers of a merge that is not finished", place)
    for start, words in _IN_OUR_WORDS.items():
        if complaint.startswith(start):
            return TomlError(f"is not valid TOML: {words}", place, _HINTS.get(start))
    words = complaint[:1].lower() + complaint[1:]
    return TomlError(f"is not valid TOML: {words}", place)
