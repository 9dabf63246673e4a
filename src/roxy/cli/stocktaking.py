"""What `status` and `gate` do, which is the same: only their exit codes differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roxy.cli import exit_codes
from roxy.cli.at_work import at_work
from roxy.core.stock import take_stock
from roxy.reports import human

if TYPE_CHECKING:
    from roxy.cli.invocation import Invocation
    from roxy.core.model import Report


COMMANDS = {"status": exit_codes.of_status, "gate": exit_codes.of_gate}
"""The exit code of each, from the report."""


def answer(invocation: Invocation, command: str) -> int:
    """Print where every check stands and return the exit code. The session ends before that."""
    with at_work(invocation, command) as session:
        is_thorough = invocation.settings.verbose and command == "status"
        stock = take_stock(session, with_patches=is_thorough)
    err = invocation.streams.err
    color = invocation.wants_color(err)
    for remark in stock.remarks:
        err.write(human.warning(remark, color=color))
    invocation.streams.out.write(_rendered(invocation, stock.report))
    return COMMANDS[command](stock.report)


def _rendered(invocation: Invocation, report: Report) -> str:
    if invocation.settings.json:
        from roxy.reports import json  # noqa: PLC0415 - most calls do not need it

        return json.document(report)
    return human.standings(
        report,
        quiet=invocation.settings.quiet,
        color=invocation.wants_color(invocation.streams.out),
    )
