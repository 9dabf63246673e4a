"""Text from the repository, made safe to show (S15, S46).

Names, reasons and output come from whoever wrote the code under test. Shown raw, an escape sequence
could repaint the terminal and U+202E could make one name look like another.
"""

from __future__ import annotations

import os
import re
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_RAW_BYTES = range(0xDC80, 0xDD00)
"""Surrogates that stand for bytes which were not UTF-8."""
_SURROGATE = re.compile("[\ud800-\udfff]")
_UNSAFE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode categories: control, format, surrogate, line and paragraph separators."""


def printable(text: str) -> str:
    r"""Return `text` as one line that does what it shows.

    A byte that was not UTF-8 becomes `\xNN`, every other unsafe character `\uNNNN` or `\UNNNNNNNN`.
    """
    if text.isprintable():
        return text
    return "".join(
        _escaped(char) if unicodedata.category(char) in _UNSAFE else char for char in text
    )


def printable_output(line: str) -> str:
    """Return one line that a command printed, as `printable` does, its tabs as spaces."""
    return printable(line.expandtabs())


def without_surrogates(text: str) -> str:
    r"""Return `text` as something that UTF-8 can carry; a byte that was not becomes `\xNN`."""
    return _SURROGATE.sub(lambda match: _escaped(match[0]), text)


def decoded(raw: bytes) -> str:
    """Return the characters of `raw`, bytes that are not UTF-8 as lone surrogates."""
    return raw.decode("utf-8", "surrogateescape")


def path_text(path: bytes | Path) -> str:
    """Return the characters of a path, decoded as `decoded` does whatever the locale."""
    return decoded(os.fsencode(path))


def _escaped(char: str) -> str:
    point = ord(char)
    if point in _RAW_BYTES:
        return f"\\x{point - 0xDC00:02x}"
    return f"\\u{point:04x}" if point < 1 << 16 else f"\\U{point:08x}"
