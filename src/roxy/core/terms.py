"""The optional keys of a check: what their values mean, and which values mean nothing (S40-S42)."""

from __future__ import annotations

import math
import re
import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

A_DURATION = "write a number above 0 and its unit: `90s`, `10m`, `1.5h`"
A_LITERAL = "between single quotes a backslash stands for itself, as `re` needs it"

_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?) *([smh])")
_LONGEST = 1_000
"""Characters of a pattern: compiling takes time by its length, and `gate` does it each time."""
_SECONDS = {"s": 1, "m": 60, "h": 3600}


def seconds(text: str) -> float | None:
    """Return how long a `timeout` is, None when the text says no such thing (S40)."""
    match = _DURATION.fullmatch(text)
    if match is None:
        return None
    value = float(match[1]) * _SECONDS[match[2]]
    return value if 0 < value < math.inf else None


def compiled(pattern: str) -> re.Pattern[str]:
    """Return the regular expression that a pattern is, as roxy searches with it (S41).

    Raises `ValueError`, whose text goes on after the pattern's name.
    """
    if len(pattern) > _LONGEST:
        raise ValueError(f"is longer than {_LONGEST:,} characters")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about what may mean something else one day
            return re.compile(pattern, re.MULTILINE)
    except re.error as error:
        raise ValueError(f"is no regular expression: {error}") from error
    except (RecursionError, OverflowError, MemoryError) as error:
        raise ValueError("is a regular expression without measure") from error


def variable_fault(name: str) -> str | None:
    """Return what is wrong with the name of an environment variable (S41)."""
    if not name:
        return "is empty"
    if "=" in name:
        return f"holds a `=`: `{name}`"
    if "\0" in name:
        return f"holds a NUL character: `{name}`"
    return None


def in_order(env: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return variables as a check has them, which is also their order in a fingerprint (S34)."""
    return tuple(sorted(env.items(), key=lambda pair: pair[0].encode()))


def is_commit(text: str) -> bool:
    """Say whether a text is the whole id of an object of git."""
    return re.fullmatch("[0-9a-f]{40}|[0-9a-f]{64}", text) is not None
