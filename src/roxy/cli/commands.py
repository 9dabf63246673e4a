"""`roxy` itself: its commands, and the way from arguments to one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from roxy.cli.completion import VARIABLE, completion, is_asked_by_a_shell
from roxy.cli.doctor import doctor
from roxy.cli.gate import gate
from roxy.cli.history import history
from roxy.cli.init import init
from roxy.cli.invocation import Invocation
from roxy.cli.options import shared_options
from roxy.cli.refresh import refresh
from roxy.cli.schema import schema
from roxy.cli.show import show
from roxy.cli.status import status
from roxy.cli.trial import trial
from roxy.cli.usage import no_such_command, usage_error
from roxy.cli.verify import verify
from roxy.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

_HELP = """Decide whether a coding agent's work is done, from checks that roxy ran itself.

The file roxy.toml at the top of a git working tree claims what is true and tells how to check it.
A check counts when it passes, fails once a mutation breaks the code, and passes again.

\b
Examples:
  roxy init              begin in a repository that has no roxy.toml
  roxy status            where every check stands
  roxy verify            run the checks that lack fresh evidence
  roxy gate              is the work done? the exit code answers

\b
Exit codes:
  0  yes
  1  judged, and the answer is no
  2  could not judge

130, 143 and 129 mean that a signal ended it: INT, TERM, HUP.
"""


class _Roxy(click.Group):
    """The group of all commands."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that `args` begin with. Raises `UsageError`."""
        if self.get_command(ctx, args[0]) is None and not ctx.resilient_parsing:
            raise no_such_command(args[0], self.list_commands(ctx))
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order in which people meet them."""
        del ctx
        return list(self.commands)


@click.group(
    "roxy",
    cls=_Roxy,
    help=_HELP,
    add_help_option=False,
    invoke_without_command=True,
    subcommand_metavar="COMMAND [ARGUMENTS]...",
)
@shared_options
@click.pass_context
def roxy(context: click.Context) -> None:
    """Ask for a command when none is given."""
    if context.invoked_subcommand is None:
        context.ensure_object(Invocation).streams.err.write(context.get_help() + "\n\n")
        raise UsageError("no command is given", hint="start with `roxy status`")


for command in (
    *(init, status, verify, gate, show, history),
    *(trial, refresh, doctor, completion, schema),
):
    roxy.add_command(command)


def dispatch(arguments: Sequence[str], invocation: Invocation) -> int:
    """Do what `arguments` ask for and return the exit code. Raises `UsageError` and all else."""
    if not arguments and is_asked_by_a_shell(invocation.environ):
        return _complete(invocation)
    try:
        with roxy.make_context("roxy", list(arguments), obj=invocation) as context:
            code: int = roxy.invoke(context)
    except click.exceptions.Exit as ending:  # after --help or --version
        return ending.exit_code
    except click.ClickException as error:
        raise usage_error(error) from error
    return code


def _complete(invocation: Invocation) -> int:
    from click.shell_completion import shell_complete  # noqa: PLC0415 - only shells ask for it

    try:
        return shell_complete(
            roxy, {"obj": invocation}, "roxy", VARIABLE, invocation.environ[VARIABLE]
        )
    except (ValueError, IndexError) as error:  # no shell asks like that
        raise UsageError(
            "what is to be completed makes no sense", hint=f"unset {VARIABLE} and COMP_CWORD"
        ) from error
