"""`roxy completion`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from roxy.cli.options import shared_options
from roxy.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from roxy.cli.invocation import Invocation

VARIABLE = "_ROXY_COMPLETE"
"""The variable through which a shell asks for completions."""
SHELLS = ("bash", "zsh", "fish")
SCHEMA = "roxy.completion/1"
_HELP = """Print a script with which a shell completes roxy's commands, options and names.

SHELL is bash (4.4 or newer), zsh or fish. Without one, $SHELL decides. Claims and checks are
completed from the roxy.toml of the working tree.

\b
Examples:
  roxy completion
  roxy completion bash > ~/.local/share/bash-completion/completions/roxy
  roxy completion fish > ~/.config/fish/completions/roxy.fish
  eval "$(roxy completion zsh)"    in ~/.zshrc, below compinit

\b
Exit codes:
  0  the script is printed
  2  roxy has none for this shell

130, 143 and 129 mean that a signal ended it: INT, TERM, HUP.
"""


@click.command(
    "completion",
    help=_HELP,
    short_help="Print a completion script for a shell.",
    add_help_option=False,
)
@click.argument("shell", required=False, type=click.Choice(SHELLS), metavar="[SHELL]")
@shared_options
@click.pass_context
def completion(context: click.Context, shell: str | None) -> int:
    """Print the script of one shell. No lock is taken (S8)."""
    invocation: Invocation = context.obj
    shell = shell or os.path.basename(invocation.environ.get("SHELL", ""))
    if shell not in SHELLS:
        raise UsageError(
            f"$SHELL is `{shell}`, which is no shell that roxy can complete in"
            if shell
            else "no shell is given, and $SHELL is not set",
            hint="`roxy completion bash`, `zsh` or `fish`",
        )
    script = _script(context.find_root().command, shell)
    invocation.streams.out.write(_document(shell, script) if invocation.settings.json else script)
    return 0


def is_asked_by_a_shell(environ: Mapping[str, str]) -> bool:
    """Say whether a shell that completes a line asks, or somebody for its script, as click has it.

    Whoever names a command gets that command, whatever the environment holds (S43).
    """
    shell, _, what = environ.get(VARIABLE, "").partition("_")
    is_whole = what == "source" or (
        what == "complete" and "COMP_WORDS" in environ and "COMP_CWORD" in environ
    )
    return shell in SHELLS and is_whole


def _script(roxy: click.Command, shell: str) -> str:
    from click import shell_completion  # noqa: PLC0415 - only needed here

    kind = shell_completion.get_completion_class(shell)
    if kind is None:
        raise UsageError(f"click has no completion for `{shell}`")
    one = kind(roxy, {}, "roxy", VARIABLE)
    # Not `source()`, which for bash starts a bash to ask for its version.
    return (one.source_template % one.source_vars()).rstrip("\n") + "\n"


def _document(shell: str, script: str) -> str:
    from roxy.reports import json  # noqa: PLC0415 - most calls do not need it

    return json.dump({"schema": SCHEMA, "shell": shell, "script": script})
