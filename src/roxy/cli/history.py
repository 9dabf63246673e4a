"""`roxy history`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from roxy.cli.check_names import check_names
from roxy.cli.options import shared_options

if TYPE_CHECKING:
    from roxy.cli.invocation import Invocation

_HELP = """List past tries of checks on this machine, newest first.

A line tells when it ended, the first digits of its receipt and of the commit (with a + when tracked
files differed from it), the result, the check, the seconds of each run, and the reason. A try whose
verify was killed or interrupted is listed as cut short. The last line counts.

A verify prunes the receipts of more than 90 days ago, but for the newest 50 of each check and those
of evidence that roxy.lock has.

NAME is a claim, a check as claim/check, or a glob over those; checks that roxy.toml does not have
any more count too.

\b
Examples:
  roxy history
  roxy history login/web
  roxy history -n 100 '*/ios'
  roxy history --quiet           only those that were not verified

\b
Exit codes:
  0  the tries are listed, whatever came of them
  2  roxy could not judge

130, 143 and 129 mean that a signal ended it: INT, TERM, HUP.
"""


@click.command(
    "history", help=_HELP, short_help="List past tries of checks.", add_help_option=False
)
@click.argument("names", metavar="[NAME]...", nargs=-1, shell_complete=check_names)
@click.option(
    "-n",
    "most",
    type=click.IntRange(min=1),
    default=20,
    metavar="N",
    help="List N tries at most; 20 without it.",
)
@shared_options
@click.pass_obj
def history(invocation: Invocation, names: tuple[str, ...], most: int) -> int:
    """Answer with past tries."""
    from roxy.cli.retelling import tell_history  # noqa: PLC0415 - `--help` loads nothing that works

    return tell_history(invocation, names, most)
