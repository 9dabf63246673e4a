"""Old receipts and logs go at the end of a verify, by one rule.

A receipt goes when it is older than 90 days, 50 of its check are newer, and roxy.lock does not have
its fingerprint: that of evidence in use stays. A log goes when it is a week older than that and no
receipt that is left names it. Notes of a start stay until somebody deletes them, and so does all
that is in `kept/`.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import Counter
from typing import TYPE_CHECKING

from roxy.core import files
from roxy.core.errors import DiskError
from roxy.core.receipts import stamp
from roxy.core.tries import LOG_NAME, Archive, check_digits, fingerprint_digits

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from roxy.core.lockfile import Lockfile
    from roxy.core.tries import Name

KEPT_OF_A_CHECK = 50
KEPT_DAYS = 90
_LONGER_FOR_LOGS = 7
"""Days. A receipt is newer than its logs, by less than this."""
_DAY = 86400
_SECOND = 1_000_000_000


def prune(state: Path, lock: Lockfile, now: float) -> None:
    """Remove what is old. What cannot be removed stays: nobody's verify fails for it."""
    archive = Archive(state)
    oldest = stamp(round((now - KEPT_DAYS * _DAY) * _SECOND))
    in_use = {fingerprint_digits(one) for one in lock.fingerprints.values()}
    gone = {name for name in _superfluous(archive, oldest) if name.fingerprint not in in_use}
    for name in gone:
        with contextlib.suppress(DiskError):
            files.remove(state / "receipts" / name.file)
    old = [name for name in archive.names if name.stamp < oldest and name not in gone]
    _prune_logs(archive, old, now - (KEPT_DAYS + _LONGER_FOR_LOGS) * _DAY)


def _superfluous(archive: Archive, oldest: str) -> Iterator[Name]:
    """Give the receipts that are old and not among the newest of their check."""
    newer: Counter[str] = Counter()
    for name in archive.names:
        digits = name.check
        if not digits and name.stamp < oldest:  # an older roxy wrote it
            one = archive.read(name)
            digits = check_digits(one.id) if one else ""
        if name.stamp < oldest and digits and newer[digits] >= KEPT_OF_A_CHECK:
            yield name
        newer[digits] += 1


def _prune_logs(archive: Archive, old: list[Name], before: float) -> None:
    """Remove the logs from before some moment that no receipt names; `old` are all that may."""
    folder = archive.state / "logs"
    candidates = _logs_before(folder, before)
    if not candidates:
        return
    for name in old:
        named = archive.logs_named_in(name)
        if named is None:
            return
        candidates -= named
    for log in candidates:
        with contextlib.suppress(DiskError):
            files.remove(folder / log)


def _logs_before(folder: Path, before: float) -> set[str]:
    """Return the logs that are older by their name as well as by their time."""
    begun = time.strftime("%Y%m%dT%H%M%S", time.localtime(before))
    found = set()
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            match = LOG_NAME.fullmatch(entry.name)
            if match and match["stamp"] < begun and entry.is_file(follow_symlinks=False):
                with contextlib.suppress(FileNotFoundError):
                    if entry.stat(follow_symlinks=False).st_mtime < before:
                        found.add(entry.name)
    return found
