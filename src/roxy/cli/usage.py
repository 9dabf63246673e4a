"""Mistakes on the command line, in the shape of every other error (S43, S48)."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING

import click

from roxy.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

_QUOTED = re.compile(r"'([^']*)'")


def usage_error(error: click.ClickException) -> UsageError:
    """Return what click found wrong, with a hint."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    page = f"`{context.command_path if context else 'roxy'} --help` tells what there is"
    if isinstance(error, click.NoSuchOption):
        meant = error.possibilities or []
        return UsageError(
            f"there is no option `{error.option_name}`", hint=_suggestion(meant) or page
        )
    what = _QUOTED.sub(r"`\1`", error.message).rstrip(".")
    if isinstance(error, click.BadParameter) and error.param is not None:
        return UsageError(f"`{error.param.opts[-1]}`: {what}", hint=page)
    return UsageError(what[:1].lower() + what[1:], hint=page)


def no_such_command(name: str, commands: Iterable[str]) -> UsageError:
    """Return that no command has this name, with the nearest that has."""
    meant = difflib.get_close_matches(name, commands, n=1)
    return UsageError(
        f"there is no command `{name}`",
        hint=_suggestion(meant) or f"the commands are {', '.join(f'`{one}`' for one in commands)}",
    )


def _suggestion(meant: Iterable[str]) -> str | None:
    names = " or ".join(f"`{name}`" for name in meant)
    return f"did you mean {names}?" if names else None
