"""`roxy verify`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from roxy.cli.check_names import check_names
from roxy.cli.options import shared_options
from roxy.core.errors import UsageError

if TYPE_CHECKING:
    from roxy.cli.invocation import Invocation

_HELP = """Run the checks that lack fresh evidence, and record in roxy.lock what they prove.

A check is run on the code as it is, then with its mutation in the code, then on the code as it was.
It is verified when it passes, fails and passes; else it is rejected, with the reason. It is blocked
when something that it needs is not there.

NAME is a claim, a check as claim/check, or a glob over those. Without one, all are meant.

\b
Examples:
  roxy verify
  roxy verify login              the checks of one claim
  roxy verify login/web
  roxy verify '*/ios'            the checks with this name, of every claim
  roxy verify --all              run every check, whatever roxy.lock says
  roxy verify --all login        the same for one claim
  roxy verify --all --locked     the same for CI: roxy.lock must agree

\b
Exit codes:
  0  all that was run is verified, or nothing had to be run
  1  a check was rejected or blocked, or --locked found roxy.lock to differ
  2  roxy could not judge

130, 143 and 129 mean that a signal ended it: INT, TERM, HUP. The files are put back first.
"""


@click.command(
    "verify",
    help=_HELP,
    short_help="Run the checks that lack fresh evidence.",
    add_help_option=False,
)
@click.argument("names", metavar="[NAME]...", nargs=-1, shell_complete=check_names)
@click.option("--all", "everything", is_flag=True, help="Run also what is verified already.")
@click.option(
    "--locked",
    is_flag=True,
    help="With --all: leave roxy.lock as it is, and fail if it differs from the results.",
)
@shared_options
@click.pass_obj
def verify(
    invocation: Invocation,
    names: tuple[str, ...],
    everything: bool,  # noqa: FBT001 - click passes by name
    locked: bool,  # noqa: FBT001 - click passes by name
) -> int:
    """Run checks and answer with their results."""
    if locked and (names or not everything):
        raise UsageError(
            "`--locked` compares the whole of roxy.lock, so it needs `--all` and takes no NAME",
            hint="`roxy verify --all --locked`",
        )
    from roxy.cli.verifying import answer  # noqa: PLC0415 - `--help` loads nothing that works

    return answer(invocation, names, everything=everything, locked=locked)
