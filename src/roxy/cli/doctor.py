"""`roxy doctor`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from roxy.cli.options import shared_options

if TYPE_CHECKING:
    from roxy.cli.invocation import Invocation

_HELP = """Tell what is wrong or weak about roxy in this repository, and what to do.

\b
No check is run. Each line has what, where and a hint:
  error    roxy cannot do its work with this
  warning  what roxy proves is weaker for this, or somebody has to look
  info     worth knowing

It looks at git and sh, at hooks that call roxy, at what roxy keeps in the git directory, at
roxy.toml and roxy.lock, at patches that no longer fit as they were written, at files that a run
names but no glob covers, and at files that no claim covers.

\b
Examples:
  roxy doctor
  roxy doctor --quiet      without what is only worth knowing
  roxy doctor --verbose    with the name of each file that no claim covers

\b
Exit codes:
  0  there is no error
  1  there is at least one
  2  roxy could not judge

130, 143 and 129 mean that a signal ended it: INT, TERM, HUP.
"""


@click.command(
    "doctor", help=_HELP, short_help="Tell what is wrong or weak.", add_help_option=False
)
@shared_options
@click.pass_obj
def doctor(invocation: Invocation) -> int:
    """Answer with everything that is found."""
    from roxy.cli.diagnosing import answer  # noqa: PLC0415 - `--help` loads nothing that works

    return answer(invocation)
