"""What lies in roxy's own folder although nothing is at work: edits kept, tries never ended."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from roxy.core.finding import Finding, Severity, counted
from roxy.core.status import name_files
from roxy.core.tries import Archive

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from roxy.core.lockfile import Lockfile
    from roxy.core.model import Check


def look_at_state(state: Path) -> Iterator[Finding]:
    """Give what somebody should look at in roxy's folder of the git directory."""
    if kept := _listed(state / "kept"):
        yield Finding(
            Severity.WARNING,
            "edits-kept",
            f"{counted(len(kept), 'edit')} that roxy took out of the way, "
            f"kept until somebody takes {'it' if len(kept) == 1 else 'them'}: {name_files(kept)}",
            f"`{state / 'kept'}`",
            "compare each with the file of its name, then move it away",
        )
    if crashes := _listed(state / "crashes"):
        yield Finding(
            Severity.INFO,
            "crashes",
            f"{counted(len(crashes), 'traceback')} of a bug in roxy",
            f"`{state / 'crashes'}`",
            "report them, then remove the folder",
        )
    archive = Archive(state)
    ended: dict[str, str] = {}
    for name in archive.names:
        if one := archive.read(name):
            ended.setdefault(one.id, name.stamp)  # the newest comes first
    yield from _started(archive, ended)
    if damaged := sorted(archive.damaged):
        yield Finding(
            Severity.WARNING,
            "receipts-damaged",
            f"{counted(len(damaged), 'receipt')} that roxy did not leave like this: "
            f"{name_files(map(os.fsencode, damaged))}",
            f"`{state / 'receipts'}`",
            "remove them; find out who wrote to that folder",
        )


def look_at_entries(state: Path, checks: Iterable[Check], lock: Lockfile) -> Iterator[Finding]:
    """Give the entries of roxy.lock that this machine did not see proven."""
    archive = Archive(state)
    without = [
        check.id.encode("utf-8", "surrogateescape")
        for check in checks
        if (recorded := lock.fingerprint(check)) is not None
        and archive.evidence(check, recorded) is None
    ]
    if without:
        yield Finding(
            Severity.INFO,
            "entries-without-receipt",
            f"{counted(len(without), 'entry', 'entries')} without a receipt "
            f"here, so proven on another machine or long ago: {name_files(without)}",
            "roxy.lock",
            "`roxy verify --all` proves them here",
        )


def _started(archive: Archive, ended: Mapping[str, str]) -> Iterator[Finding]:
    """Give the tries that died, unless a later one of their check, see `ended`, came to an end."""
    for one in archive.cut_short:
        if ended.get(one.id, "") > one.stamp:
            continue
        yield Finding(
            Severity.WARNING,
            "never-ended",
            f"a try of `{one.id}`, begun at {one.time}, never ended",
            f"`{archive.state / 'receipts' / one.file}`",
            "find out what ended it (a kill, a crash, a power loss), then remove this note",
        )


def _listed(folder: Path) -> list[bytes]:
    try:
        return sorted(os.listdir(os.fsencode(folder)))
    except OSError:
        return []
