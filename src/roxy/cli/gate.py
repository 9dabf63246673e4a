"""`roxy gate`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from roxy.cli.options import shared_options

if TYPE_CHECKING:
    from roxy.cli.invocation import Invocation

_HELP = """Decide whether the work is done: whether every check is verified.

Nothing is run. The answer is the exit code; what is printed is what `roxy status` prints.

\b
Examples:
  roxy gate
  roxy gate --quiet        print nothing when the work is done
  roxy gate --wait 60      when another roxy may be at work

\b
Exit codes:
  0  every check is verified
  1  at least one is not
  2  roxy could not judge

130, 143 and 129 mean that a signal ended it: INT, TERM, HUP.
"""


@click.command(
    "gate", help=_HELP, short_help="Decide whether the work is done.", add_help_option=False
)
@shared_options
@click.pass_obj
def gate(invocation: Invocation) -> int:
    """Answer with every check's state, and say yes only if all are verified."""
    from roxy.cli.stocktaking import answer  # noqa: PLC0415 - `--help` loads nothing that works

    return answer(invocation, "gate")
