"""Which checks a command is about (S44), and in which order they are best tried (S30)."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from roxy.core import glob
from roxy.core.errors import Fault, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from roxy.core.model import Check, Manifest

Job = TypeVar("Job")


def select(manifest: Manifest, names: Sequence[str]) -> tuple[Check, ...]:
    """Return the checks that any of `names` means, in manifest order; all without names.

    A name is a claim, `claim/check`, or a glob over those. Raises `UsageError` for each name that
    selects nothing.
    """
    if not names:
        return manifest.checks
    chosen: set[str] = set()
    faults = []
    for name in names:
        found = {check.id for check in manifest.checks if name in (check.claim, check.id)}
        found = found or _matching(manifest, name)
        if not found:
            faults.append(_selects_nothing(manifest, name))
        chosen |= found
    if faults:
        raise UsageError.of(faults)
    return tuple(check for check in manifest.checks if check.id in chosen)


def _matching(manifest: Manifest, name: str) -> set[str]:
    try:
        pattern = glob.parse(name)
    except glob.GlobError:
        return set()
    return {
        check.id
        for check in manifest.checks
        if pattern.matches(check.claim.encode()) or pattern.matches(check.id.encode())
    }


def _selects_nothing(manifest: Manifest, name: str) -> Fault:
    import difflib  # noqa: PLC0415 - only for this hint

    known = [claim.name for claim in manifest.claims] + [check.id for check in manifest.checks]
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean `{near[0]}`?" if near else "`roxy status` lists every check"
    return Fault(f"no claim or check is called `{name}`", hint=hint)


def next_job(jobs: Sequence[Job], is_rested: Callable[[Job], bool]) -> Job | None:
    """Return the first job whose files can be changed without waiting, or else the first."""
    return next((job for job in jobs if is_rested(job)), next(iter(jobs), None))
