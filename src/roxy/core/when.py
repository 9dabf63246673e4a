"""Moments of past tries: kept in UTC as RFC 3339 has it, told in local time."""

from __future__ import annotations

import calendar
import datetime as dt
import time

_MONTH = 30
"""Days after which a date says more than a number of days."""


def epoch(moment: str) -> int | None:
    """Return the seconds of a moment such as 2026-01-31T23:59:59Z; None when it is none."""
    try:
        parsed = dt.datetime.fromisoformat(moment)
        return calendar.timegm(parsed.utctimetuple())
    except (ValueError, OverflowError):
        return None


def local(moment: str) -> str:
    """Return a moment as the clock on the wall showed it; what is none stays as it is."""
    seconds = epoch(moment)
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds)) if seconds else moment
    except (ValueError, OverflowError, OSError):
        return moment


def day(moment: str, now: float) -> str:
    """Return on which day a moment was, seen from `now`: today, yesterday, or further back."""
    then = local(moment)
    try:
        date = dt.date.fromisoformat(then[:10])
    except ValueError:
        return f"at {moment}"
    days = (dt.date(*time.localtime(now)[:3]) - date).days
    if days == 0:
        return "today"
    if days == 1:
        return "yesterday"
    return f"{days} days ago" if 0 < days < _MONTH else f"on {date}"
