"""Whether to colour (S46)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

CHOICES = ("auto", "always", "never")


def wants_color(choice: str, environ: Mapping[str, str], *, is_terminal: bool) -> bool:
    """Return the first opinion there is: the option's, NO_COLOR's, FORCE_COLOR's, the terminal's."""
    if choice != "auto":
        return choice == "always"
    if environ.get("NO_COLOR"):
        return False
    if environ.get("FORCE_COLOR"):
        return True
    return is_terminal and environ.get("TERM") != "dumb"
