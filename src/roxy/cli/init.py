"""`roxy init`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from roxy.cli.options import shared_options

if TYPE_CHECKING:
    from roxy.cli.invocation import Invocation

_HELP = """Start a roxy.toml with all that belongs to it.

That is roxy.schema.json, by which editors check it, the folder mutations/ with mutations/README.md,
and a paragraph in AGENTS.md. Whatever of these is missing is written, also later; what is there
stays as it is, and only the paragraph is added, once, to an AGENTS.md that lacks it. The new
roxy.toml claims nothing. Its example names commands and folders that were found here.

\b
Examples:
  roxy init
  roxy -C ../other-project init

\b
Exit codes:
  0  all of it is there now
  1  something could not be written; its line says why
  2  roxy could not begin: this is no git working tree, say

130, 143 and 129 mean that a signal ended it: INT, TERM, HUP.
"""


@click.command(
    "init", help=_HELP, short_help="Start a roxy.toml in this repository.", add_help_option=False
)
@shared_options
@click.pass_obj
def init(invocation: Invocation) -> int:
    """Write what is missing, and tell what to do next."""
    from roxy.cli.initiating import answer  # noqa: PLC0415 - `--help` loads nothing that works

    return answer(invocation)
