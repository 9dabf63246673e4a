"""Patches as people see them: every line as it is, but for what could upset a terminal (S46)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roxy.reports.text import decoded, printable, printable_output

if TYPE_CHECKING:
    from collections.abc import Iterator

    from roxy.core.events import PatchShown

_MOST_LINES = 400
_WIDTH = 400
"""Characters of a line that are shown; what is left out is counted."""
_BOLD = "1"
_STYLES = {
    b"diff ": _BOLD,
    b"index ": _BOLD,
    b"--- ": _BOLD,
    b"+++ ": _BOLD,
    b"@@ ": "36",
    b"-": "31",
    b"+": "32",
}
"""SGR codes by how a line begins; the first that fits counts."""


def shown(event: PatchShown, *, color: bool) -> str:
    """Return a patch with its name above, and before it the one that it replaces."""
    parts = [("new ", event.patch)]
    if event.instead_of is not None:
        parts.insert(0, ("old ", event.instead_of))
    else:
        parts = [("", event.patch)]
    lines = []
    for which, patch in parts:
        lines.append(_styled(f"{which}{printable(event.name)}", _BOLD, color=color))
        lines += _lines(patch, color=color)
    return "".join(f"{line}\n" for line in lines)


def _lines(patch: bytes, *, color: bool) -> Iterator[str]:
    lines = patch.removesuffix(b"\n").split(b"\n")
    for line in lines[:_MOST_LINES]:
        text = printable_output(decoded(line[:_WIDTH]))
        if len(line) > _WIDTH:
            text += f" ... ({len(line) - _WIDTH} more bytes)"
        codes = next((codes for start, codes in _STYLES.items() if line.startswith(start)), "")
        yield f"  {_styled(text, codes, color=color)}".rstrip(" ")
    if len(lines) > _MOST_LINES:
        yield f"  ... ({len(lines) - _MOST_LINES} more lines)"


def _styled(text: str, codes: str, *, color: bool) -> str:
    return f"\x1b[{codes}m{text}\x1b[0m" if color and codes and text else text
