"""`roxy schema`."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

import click

from roxy.cli.options import shared_options
from roxy.core.errors import UsageError

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    from click.shell_completion import CompletionItem

    from roxy.cli.invocation import Invocation

SCHEMA = "roxy.schemas/1"
_ENDING = ".json"
_HELP = """Print the JSON Schema of roxy.toml, or of something that roxy prints with --json.

NAME is one of those that are listed without it.

\b
Examples:
  roxy schema
  roxy schema roxy.toml > roxy.schema.json
  roxy schema report

\b
Exit codes:
  0  it is printed
  2  there is none of that name

130, 143 and 129 mean that a signal ended it: INT, TERM, HUP.
"""


def _folder() -> Traversable:
    from importlib import resources  # noqa: PLC0415 - slow to load, and only asked for here

    return resources.files("roxy").joinpath("schemas")


def _completed(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the schemas that begin with `incomplete`."""
    from click.shell_completion import CompletionItem  # noqa: PLC0415 - only shells ask for it

    return [CompletionItem(name) for name in names() if name.startswith(incomplete)]


@click.command("schema", help=_HELP, short_help="Print a JSON Schema.", add_help_option=False)
@click.argument("name", required=False, shell_complete=_completed, metavar="[NAME]")
@shared_options
@click.pass_obj
def schema(invocation: Invocation, name: str | None) -> int:
    """Print one schema, or what there is."""
    out = invocation.streams.out
    if name is not None:
        out.write(text(name))
    elif invocation.settings.json:
        from roxy.reports import json  # noqa: PLC0415 - most calls do not need it

        out.write(json.dump({"schema": SCHEMA, "names": names()}))
    else:
        out.write("".join(f"{one}\n" for one in names()))
    return 0


def names() -> list[str]:
    """Return the name of each schema in the package."""
    found = (file.name for file in _folder().iterdir())
    return sorted(name.removesuffix(_ENDING) for name in found if name.endswith(_ENDING))


def text(name: str) -> str:
    """Return the schema of that name. Raises `UsageError`."""
    known = names()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        listed = ", ".join(f"`{one}`" for one in known)
        raise UsageError(
            f"there is no schema `{name}`",
            hint=f"did you mean `{near[0]}`?" if near else f"the schemas are {listed}",
        )
    file = _folder().joinpath(name + _ENDING)
    return file.read_text(encoding="utf-8")
