"""`roxy show`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from roxy.cli.check_names import check_names
from roxy.cli.options import shared_options

if TYPE_CHECKING:
    from roxy.cli.invocation import Invocation

_HELP = """Show all about a check, or what a receipt tells of a try.

Of a check: its state and why, its command, the files that it covers, what its mutation does to the
code as it is now and how far it moved, the last tries, and the end of what the deciding run
printed. Of a receipt: all that was kept of that try; of two, what differs between them. With -v all
files are named. Nothing is run.

NAME is a claim, a check as claim/check, or a glob over those; without one, all are meant. RECEIPT is a file name in
.git/roxy/receipts, or the beginning of its hash or of its time, as `roxy history` lists them.

\b
Examples:
  roxy show
  roxy show login/web
  roxy show 3fa94c1b              one try
  roxy show 3fa94c1b 9be07d52     what differs between two

\b
Exit codes:
  0  it is shown, whatever it says
  2  roxy could not judge

130, 143 and 129 mean that a signal ended it: INT, TERM, HUP.
"""


@click.command(
    "show", help=_HELP, short_help="Show all about a check or a try.", add_help_option=False
)
@click.argument("words", metavar="[NAME|RECEIPT]...", nargs=-1, shell_complete=check_names)
@shared_options
@click.pass_obj
def show(invocation: Invocation, words: tuple[str, ...]) -> int:
    """Answer with all that is known of some checks, or of one or two tries."""
    from roxy.cli.retelling import tell_about  # noqa: PLC0415 - `--help` loads nothing that works

    return tell_about(invocation, words)
