"""The plain ways to ask `gate` and `status`, understood without click.

Importing click takes longer than either command does, and agents ask often. What is not spelled
exactly as below, every mistake included, is click's to read. A test holds that both agree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from roxy.cli.color import CHOICES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from roxy.cli.invocation import Invocation

_COMMANDS = ("gate", "status")
_FLAGS = {
    "--json": "json",
    "-q": "quiet",
    "--quiet": "quiet",
    "-v": "verbose",
    "--verbose": "verbose",
}
_COLORS = {f"--color={choice}": choice for choice in CHOICES}


def read(arguments: Sequence[str]) -> tuple[str, dict[str, Any]] | None:
    """Return the command and the options that were given, or None where click has to read."""
    commands: list[str] = []
    given: dict[str, Any] = {}
    left = iter(arguments)
    for argument in left:
        if argument in _COMMANDS:
            commands.append(argument)
        elif argument in _FLAGS:
            given[_FLAGS[argument]] = True
        elif argument in _COLORS:
            given["color"] = _COLORS[argument]
        elif argument == "-C" and (directory := next(left, "-")) and directory[0] != "-":
            given["directory"] = directory
        else:
            return None
    return (commands[0], given) if len(commands) == 1 else None


def dispatch(arguments: Sequence[str], invocation: Invocation) -> int | None:
    """Do what plain arguments ask for and return the exit code; None where click has to read."""
    plain = read(arguments)
    if plain is None:
        return None
    from roxy.cli.stocktaking import answer  # noqa: PLC0415 - nothing that works before that

    command, given = plain
    invocation.given.update(given)
    return answer(invocation, command)
