"""`roxy refresh`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from roxy.cli.check_names import check_names
from roxy.cli.options import shared_options

if TYPE_CHECKING:
    from roxy.cli.invocation import Invocation

_HELP = """Make patches anew that no longer go exactly where they say.

The old and the new patch are shown; then every check that uses it is run with
the new one. It replaces the old one only if all of them pass, fail with it and
pass; that evidence is recorded in roxy.lock.

NAME is a claim, a check as claim/check, or a glob over those. Without one, all
are meant. `roxy status -v` tells which patches are concerned.

\b
Examples:
  roxy refresh
  roxy refresh login/web
  roxy refresh login/web --no-run   run nothing; the check is stale then

\b
Exit codes:
  0  every patch goes exactly where it says, or was made anew
  1  a patch has no place in the code any more, or did not prove itself
  2  roxy could not judge

130, 143 and 129 mean that a signal ended it: INT, TERM, HUP. No patch is
written before all runs are over.
"""


@click.command(
    "refresh",
    help=_HELP,
    short_help="Make patches anew after the code moved on.",
    add_help_option=False,
)
@click.argument("names", metavar="[NAME]...", nargs=-1, shell_complete=check_names)
@click.option("--no-run", is_flag=True, help="Write the new patches without running a check.")
@shared_options
@click.pass_obj
def refresh(
    invocation: Invocation,
    names: tuple[str, ...],
    no_run: bool,  # noqa: FBT001 - click passes by name
) -> int:
    """Renew patches and answer with what became of them."""
    from roxy.cli.refreshing import answer  # noqa: PLC0415 - `--help` loads nothing that works

    return answer(invocation, names, runs=not no_run)
