"""The options that every command has, before or after the command's name (S44)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeVar

import click

from roxy import __version__
from roxy.cli.color import CHOICES
from roxy.cli.invocation import Invocation

if TYPE_CHECKING:
    from collections.abc import Callable

    F = TypeVar("F", bound=Callable[..., Any])


def shared_options(command: F) -> F:
    """Give a command the options that all of them have."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def _note(context: click.Context, parameter: click.Parameter, value: object) -> None:
    """Remember an option that was given; the command's options come after the group's."""
    if value is not None and value is not False and parameter.name is not None:
        _invocation(context).given[parameter.name] = value


def _show_version(context: click.Context, _parameter: click.Parameter, value: object) -> None:
    if not value or context.resilient_parsing:
        return
    _invocation(context).streams.out.write(f"roxy {__version__}\n")
    context.exit()


def _show_help(context: click.Context, _parameter: click.Parameter, value: object) -> None:
    if not value or context.resilient_parsing:
        return
    _invocation(context).streams.out.write(context.get_help() + "\n")
    context.exit()


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not math.isfinite(seconds) or seconds < 0:
        raise click.BadParameter(f"{text!r} is not a number of seconds, 0 or more")
    return seconds


def _invocation(context: click.Context) -> Invocation:
    invocation = context.find_object(Invocation)
    if invocation is None:
        raise TypeError("roxy's commands are started through roxy.cli.main")
    return invocation


def _shared(*declarations: str, **attributes: Any) -> Callable[[F], F]:
    return click.option(*declarations, expose_value=False, **({"callback": _note} | attributes))


_OPTIONS = (
    _shared("-C", "directory", metavar="DIR", help="Start in DIR instead of here."),
    _shared(
        "--wait",
        type=_seconds,
        metavar="SECONDS",
        help="Wait this long for another roxy in this working tree; otherwise do not wait.",
    ),
    _shared("--json", is_flag=True, help="Print one JSON document instead of lines."),
    _shared(
        "-v",
        "--verbose",
        is_flag=True,
        help="Tell more: what the runs print, names of files, patches that no longer fit.",
    ),
    _shared("-q", "--quiet", is_flag=True, help="Print only what is not verified."),
    _shared(
        "--color",
        type=click.Choice(CHOICES),
        help="Colour the answer; auto asks NO_COLOR, FORCE_COLOR, then the terminal.",
    ),
    _shared(
        "--version",
        is_flag=True,
        is_eager=True,
        callback=_show_version,
        help="Show the version and exit.",
    ),
    _shared(
        "-h",
        "--help",
        is_flag=True,
        is_eager=True,
        callback=_show_help,
        help="Show this message and exit.",
    ),
)
