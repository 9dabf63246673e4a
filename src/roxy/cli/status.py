"""`roxy status`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from roxy.cli.options import shared_options

if TYPE_CHECKING:
    from roxy.cli.invocation import Invocation

_HELP = """Show every check as verified, stale or unverified, with the reason.

\b
Nothing is run. Reasons stand after the colon:
  verified login/web
  stale login/ios: `src/session.ts` changed, 4 files added

\b
Examples:
  roxy status
  roxy status --json
  roxy -C ../other-project status

\b
Exit codes:
  0  the states are shown, whatever they are
  2  roxy could not judge

130, 143 and 129 mean that a signal ended it: INT, TERM, HUP.
"""


@click.command(
    "status", help=_HELP, short_help="Show where every check stands.", add_help_option=False
)
@shared_options
@click.pass_obj
def status(invocation: Invocation) -> int:
    """Answer with every check's state."""
    from roxy.cli.stocktaking import answer  # noqa: PLC0415 - `--help` loads nothing that works

    return answer(invocation, "status")
