"""What `verify` does on the command line: the core works, this tells what it hears.

All that roxy may need once the first check runs is imported at the top of this module, since a
check may rewrite a module that is imported later (S51).
"""

from __future__ import annotations

import gc
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import roxy.cli.crash  # noqa: F401 - for the boundary, when something breaks (S51)
from roxy.cli import exit_codes
from roxy.cli.announcer import Announcer
from roxy.cli.at_work import at_work
from roxy.cli.run_output import RunOutputPrinter
from roxy.core.errors import Interrupted
from roxy.core.verify import verify
from roxy.reports import human, json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from roxy.cli.invocation import Invocation
    from roxy.cli.progress import Progress
    from roxy.core.events import Emit, Event
    from roxy.core.model import Report


def answer(
    invocation: Invocation, names: tuple[str, ...], *, everything: bool, locked: bool
) -> int:
    """Verify, tell the results as they come, and return the exit code."""
    announcer = Announcer(invocation)
    try:
        report = _verified(invocation, announcer, names, everything=everything, locked=locked)
    except Interrupted as interruption:
        if interruption.report is None:
            raise
        report = interruption.report
    _conclude(invocation, report, announcer, named=bool(names), everything=everything)
    return exit_codes.of_verify(report)


def _verified(
    invocation: Invocation,
    announcer: Announcer,
    names: tuple[str, ...],
    *,
    everything: bool,
    locked: bool,
) -> Report:
    with watched(invocation, announcer) as emit, at_work(invocation, "verify") as session:
        report = verify(session, names, everything=everything, locked=locked, emit=emit)
    # A signal in the last wait for the clock: all is done and back, and yet it counts (S32).
    return report._replace(interrupted=session.interrupts.pending)


@contextmanager
def watched(invocation: Invocation, *announcers: Announcer) -> Iterator[Emit]:
    """Give what shows the progress of runs and lets announcers speak."""
    gc.enable()  # unlike the other commands, one that runs checks may go on for hours
    err = invocation.streams.err
    with ExitStack() as stack:
        progress = stack.enter_context(_progress(invocation)) if _draws(invocation) else None
        printer = RunOutputPrinter(err) if invocation.settings.verbose else None
        # The announcers last: the live line is gone by then.
        listeners = [listener for listener in (progress, printer, *announcers) if listener]

        def emit(event: Event) -> None:
            for listener in listeners:
                listener.hear(event)

        yield emit


def _progress(invocation: Invocation) -> Progress:
    """Return what draws; rich takes as long to load as all the rest, and pipes do without."""
    from roxy.cli.progress import Progress  # noqa: PLC0415 - as above, and before any check

    err = invocation.streams.err
    return Progress(err, color=invocation.wants_color(err))


def _draws(invocation: Invocation) -> bool:
    """Return whether a live line can be drawn, and nobody asked for something else there."""
    settings = invocation.settings
    is_asked_for = not settings.quiet and not settings.verbose
    can_redraw = invocation.environ.get("TERM", "dumb") != "dumb"
    return is_asked_for and can_redraw and invocation.streams.err.is_terminal


def _conclude(
    invocation: Invocation, report: Report, announcer: Announcer, *, named: bool, everything: bool
) -> None:
    settings = invocation.settings
    invocation.streams.out.write(
        json.document(report)
        if settings.json
        else human.closing(report, named=named, quiet=settings.quiet, everything=everything)
    )
    if report.interrupted is not None:
        invocation.streams.err.write(
            human.interruption(report.interrupted, announcer.unreached, announcer.at_work)
        )
