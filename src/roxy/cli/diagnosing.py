"""What `doctor` does on the command line: looks at everything, then tells it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roxy.cli import exit_codes
from roxy.cli.at_work import at_work
from roxy.core.checkup import examine, look_at_tools
from roxy.reports import doctor

if TYPE_CHECKING:
    from roxy.cli.invocation import Invocation


def answer(invocation: Invocation) -> int:
    """Print every finding and return the exit code."""
    settings = invocation.settings
    findings = look_at_tools(invocation.environ)
    if not findings:
        with at_work(invocation, "doctor", needs_manifest=False) as session:
            findings = examine(session, verbose=settings.verbose)
    out = invocation.streams.out
    out.write(
        doctor.document(findings)
        if settings.json
        else doctor.lines(findings, quiet=settings.quiet, color=invocation.wants_color(out))
    )
    return exit_codes.of_doctor(findings)
