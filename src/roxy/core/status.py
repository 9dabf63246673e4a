"""Manifest, lock and fingerprints → the state of every check, and why (section 1, S34-S37)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from roxy.core.model import Reason, Standing, State

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from roxy.core.model import Check

_NAMED = 3
"""Files that a reason names before it only counts."""
_LISTED = 5
"""Files that a list of names has before it only counts."""


class Basis(NamedTuple):
    """What a fingerprint was made from, kept to tell later what changed since."""

    run: str
    patches: tuple[str, ...]
    """Lower-case hex of the SHA-256 of each patch, in list order."""
    files: Mapping[bytes, str]
    """Lower-case hex of the SHA-256 of each covered file by its path."""


def stand(check: Check, fingerprint: str, recorded: str | None) -> Standing:
    """Return a check's state beside what roxy.lock has recorded of it."""
    if recorded is None:
        reason = Reason("no-evidence", "no evidence yet")
        return Standing(check, State.UNVERIFIED, reason, fingerprint)
    if recorded != fingerprint:
        reason = Reason("changed", "its files, its command or its mutation changed")
        return Standing(check, State.STALE, reason, fingerprint)
    return Standing(check, State.VERIFIED, None, fingerprint)


def what_changed(then: Basis, now: Basis) -> Reason:
    """Return what differs between the evidence and the code as it is."""
    changed = [path for path in now.files if then.files.get(path, "") not in ("", now.files[path])]
    added = [path for path in now.files if path not in then.files]
    gone = [path for path in then.files if path not in now.files]
    parts = [
        "its command changed" if then.run != now.run else "",
        "its mutation changed" if then.patches != now.patches else "",
        _count(changed, "changed"),
        _count(added, "added"),
        _count(gone, "removed"),
    ]
    text = ", ".join(part for part in parts if part)
    return Reason("changed", text or "its files, its command or its mutation changed")


def _count(paths: list[bytes], what: str) -> str:
    if not paths:
        return ""
    if len(paths) > _NAMED:
        return f"{len(paths)} files {what}"
    names = [path.decode("utf-8", "surrogateescape") for path in sorted(paths)]
    return ", ".join(f"`{name}`" for name in names) + f" {what}"


def name_files(paths: Iterable[bytes]) -> str:
    """Return the names of some files in backticks, the first few of many."""
    names = [f"`{path.decode('utf-8', 'surrogateescape')}`" for path in sorted(paths)]
    more = len(names) - _LISTED
    return ", ".join(names[:_LISTED]) + (f" and {more} more" if more > 0 else "")
