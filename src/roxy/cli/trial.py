"""`roxy try`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from roxy.cli.check_names import check_names
from roxy.cli.options import shared_options
from roxy.core.errors import UsageError

if TYPE_CHECKING:
    from roxy.cli.invocation import Invocation

_HELP = """Run one check with another mutation, and record nothing of it.

The mutation is a patch, or with --edits what was edited and not staged in the
files that the check covers: roxy takes those edits out of the files, keeps a
copy of each file, and puts them in only for the mutated run.

NAME is a check as claim/check, or the claim if that has only one. It may be
left out where there is only one check at all.

\b
Examples:
  roxy try login/web --patch skip-the-password.patch
  roxy try login/web --edits
  roxy try login/web --edits --save mutations/skip-the-password.patch

\b
Exit codes:
  0  the mutation proved itself: the check passes, fails with it, and passes
  1  it was rejected; nothing is saved
  2  roxy could not judge, or nothing was there to try

130, 143 and 129 mean that a signal ended it: INT, TERM, HUP. What was edited
is kept where standard error says, unless it was saved as a patch.
"""


@click.command(
    "try",
    help=_HELP,
    short_help="Run one check with another mutation.",
    add_help_option=False,
)
@click.argument("name", metavar="[NAME]", required=False, shell_complete=check_names)
@click.option("--patch", metavar="FILE", help="Try the patch in FILE.")
@click.option("--edits", is_flag=True, help="Try the unstaged edits of the covered files.")
@click.option(
    "--save",
    metavar="FILE",
    help="If it proves itself, write it to FILE and let roxy.toml name that.",
)
@click.option(
    "--force",
    is_flag=True,
    help="Overwrite FILE, and take any edits for a mutation, however many.",
)
@shared_options
@click.pass_obj
def trial(
    invocation: Invocation,
    name: str | None,
    patch: str | None,
    edits: bool,  # noqa: FBT001 - click passes by name
    save: str | None,
    force: bool,  # noqa: FBT001 - click passes by name
) -> int:
    """Try a mutation and answer with the result."""
    if (patch is not None) == edits:
        raise UsageError(
            "a try needs `--patch FILE` or `--edits`, and not both",
            hint="`roxy try NAME --edits` takes what was edited and not staged",
        )
    from roxy.cli.trying import answer  # noqa: PLC0415 - `--help` loads nothing that works
    from roxy.core.trial import Asked  # noqa: PLC0415 - as above

    start = invocation.settings.start
    return answer(invocation, Asked(name, start, patch, save, force))
