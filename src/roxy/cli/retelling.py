"""What `show` and `history` do: look, and tell what was found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roxy.cli import exit_codes
from roxy.cli.at_work import at_work
from roxy.core import about, lookup
from roxy.reports import human, json, past

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from roxy.cli.invocation import Invocation
    from roxy.core.tries import Try


def tell_history(invocation: Invocation, names: Sequence[str], most: int) -> int:
    """Print past tries and return the exit code. The session ends before that."""
    with at_work(invocation, "history") as session:
        found = lookup.look_back(session, names, most)
        state = session.repository.state
    err, out = invocation.streams.err, invocation.streams.out
    for name, what in found.damaged.items():
        err.write(human.warning(f"`{name}` {what}", color=invocation.wants_color(err)))
    out.write(
        json.history_document(found, state)
        if invocation.settings.json
        else past.history(found, quiet=invocation.settings.quiet, color=invocation.wants_color(out))
    )
    return exit_codes.YES


def tell_about(invocation: Invocation, words: Sequence[str]) -> int:
    """Print all about some checks or tries and return the exit code."""
    settings = invocation.settings
    out = invocation.streams.out
    color = invocation.wants_color(out)
    with at_work(invocation, "show") as session:
        state = session.repository.state
        checks, tries = lookup.find(session, words)
        abouts = about.tell_about(session, checks) if checks else []
    contrast = lookup.contrast(*tries) if len(tries) > 1 else None
    if settings.json:
        out.write(json.show_document(abouts, tries, contrast, state))
    elif contrast is not None:
        out.write(past.contrast(contrast, verbose=settings.verbose, color=color))
    elif tries:
        out.write(_receipt(tries[0], state, verbose=settings.verbose, color=color))
    else:
        out.write(past.about(abouts, verbose=settings.verbose, quiet=settings.quiet, color=color))
    return exit_codes.YES


def _receipt(one: Try, state: Path, *, verbose: bool, color: bool) -> str:
    run = about.deciding_run(one)
    excerpt = None if run is None else about.excerpt(state, run)
    return past.receipt(one, excerpt, verbose=verbose, color=color)
