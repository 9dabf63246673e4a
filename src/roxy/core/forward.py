"""Time only moves forward (S30): which modification time new content gets.

CPython and others trust a compiled file when the source has the recorded whole second and size,
and make trusts an object that is newer than its source. So content must never change without its
time moving to a later whole second, and an old time must never come back.
"""

from __future__ import annotations

SECOND = 1_000_000_000
"""Nanoseconds in a second; all times here are nanoseconds since the epoch."""


def next_mtime(previous: int, now: int) -> int | None:
    """Return the time for content that replaces content dated `previous`, or None: wait first.

    It is now, or the start of the second after `previous`, and never more than one second ahead of
    the clock. A file dated further ahead than roxy ever sets gets now.
    """
    before, current = previous // SECOND, now // SECOND
    if before == current:
        return (current + 1) * SECOND
    if before == current + 1:
        return None
    return now


def seconds_to_wait(previous: int, now: int) -> float:
    """Return for how long `next_mtime` would answer None."""
    if next_mtime(previous, now) is not None:
        return 0.0
    return (previous // SECOND * SECOND - now) / SECOND


def is_rested(previous: int, now: int) -> bool:
    """Say whether content dated `previous` can be replaced twice in a row without waiting."""
    return previous // SECOND not in (now // SECOND, now // SECOND + 1)


def seconds_to_pass(latest: int, now: int) -> float:
    """Return how long it takes until the clock is in a later whole second than `latest`."""
    return max(0.0, ((latest // SECOND + 1) * SECOND - now) / SECOND)
