"""Roxy's answer taken in this very process, which spares starting another for each question."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from roxy.core.interrupts import Interrupts
from roxy.core.session import open_session
from roxy.core.stock import Stock, take_stock

if TYPE_CHECKING:
    from project import Project
    from roxy.core.model import State


def stock(project: Project) -> Stock:
    """Return what `status` would answer."""
    with open_session(
        project.root, os.environ, Interrupts(), "roxy status", 0, lambda _line: None
    ) as session:
        return take_stock(session)


def standing(project: Project) -> tuple[State, str | None]:
    """Return the state of the only check, and the reason."""
    (entry,) = stock(project).report.entries
    return entry.state, entry.reason and entry.reason.text
