"""Manifest, lock and fingerprints → the state of every check, and why (section 1, S34-S37)."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from roxy.core.model import Details, Reason, Standing, State

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from roxy.core.model import Check

_NAMED = 3
"""Files that a reason names before it only counts."""
_LISTED = 5
"""Files that a list of names has before it only counts."""


CHANGED = "its files, its command or its mutation changed"
"""What is said when nothing tells which of them."""


_IN_THE_FINGERPRINT = ("fails-with", "env", "ran", "at-least", "strict")
"""The optional keys that are part of it, besides `inputs`, which are files (S34)."""


class Basis(NamedTuple):
    """What a fingerprint was made from, kept to tell later what changed since."""

    run: str
    patches: tuple[str, ...]
    """Lower-case hex of the SHA-256 of each patch, in list order."""
    files: Mapping[bytes, str]
    """Lower-case hex of the SHA-256 of each covered file by its path."""
    keys: Mapping[str, Any] = MappingProxyType({})
    """What is set of the optional keys, by name, as JSON has it."""


def optional_keys(check: Check) -> dict[str, Any]:
    """Return what a check has of the keys that it need not have, by name, as JSON has it."""
    keys: dict[str, Any] = {}
    for name, default in check._field_defaults.items():
        value = getattr(check, name)
        if value != default:
            keys[name.replace("_", "-")] = list(value) if isinstance(value, tuple) else value
    return keys | ({"env": dict(check.env)} if check.env else {})


def stand(check: Check, fingerprint: str, recorded: str | None) -> Standing:
    """Return a check's state beside what roxy.lock has recorded of it.

    The reason says no more than that; `why` knows what happened before.
    """
    if recorded is None:
        reason = Reason("no-evidence", "no evidence yet")
        return Standing(check, State.UNVERIFIED, reason, fingerprint)
    if recorded != fingerprint:
        reason = Reason("changed", CHANGED)
        return Standing(check, State.STALE, reason, fingerprint)
    return Standing(check, State.VERIFIED, None, fingerprint)


def compare(then: Basis, now: Basis) -> Details:
    """Return how the code now differs from that of an earlier try."""
    return Details(
        command_changed=then.run != now.run,
        mutation_changed=then.patches != now.patches,
        keys_changed=tuple(
            name for name in _IN_THE_FINGERPRINT if then.keys.get(name) != now.keys.get(name)
        ),
        changed=tuple(
            sorted(
                path
                for path, digest in now.files.items()
                if path in then.files and then.files[path] != digest
            )
        ),
        added=tuple(sorted(now.files.keys() - then.files.keys())),
        removed=tuple(sorted(then.files.keys() - now.files.keys())),
    )


def in_words(details: Details) -> str:
    """Return what changed as the end of a sentence; empty when it is not known that anything did."""
    parts = [
        "its command changed" if details.command_changed else "",
        "its mutation changed" if details.mutation_changed else "",
        *(f"its `{name}` changed" for name in details.keys_changed),
        _count(details.changed, "changed"),
        _count(details.added, "added"),
        _count(details.removed, "removed"),
    ]
    return ", ".join(part for part in parts if part)


def _count(paths: Sequence[bytes], what: str) -> str:
    if not paths:
        return ""
    if len(paths) > _NAMED:
        return f"{len(paths)} files {what}"
    names = [path.decode("utf-8", "surrogateescape") for path in paths]
    return ", ".join(f"`{name}`" for name in names) + f" {what}"


def name_files(paths: Iterable[bytes]) -> str:
    """Return the names of some files in backticks, the first few of many."""
    names = [f"`{path.decode('utf-8', 'surrogateescape')}`" for path in sorted(paths)]
    more = len(names) - _LISTED
    return ", ".join(names[:_LISTED]) + (f" and {more} more" if more > 0 else "")
