"""What git knows of evidence without a receipt: when roxy.lock recorded it, and what changed since.

It is looked for some way back, not to the beginning of history.
"""

from __future__ import annotations

import contextlib
import posixpath
from typing import TYPE_CHECKING

from roxy.core import git_history, glob, lockfile, manifest, toml_text
from roxy.core.errors import RoxyError
from roxy.core.model import LOCKFILE, MANIFEST, Details
from roxy.core.toml_text import TomlError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from roxy.core.git import Repository
    from roxy.core.lockfile import Lockfile
    from roxy.core.model import Check

_COMMITS = 64
"""Versions of roxy.lock that are looked at, the newest."""
_DEPTH = 5000
"""Commits that are looked at to find them."""


def lock_in_head(repository: Repository) -> Lockfile:
    """Return what roxy.lock records in HEAD; nothing when that cannot be told."""
    data = repository.blob(f"HEAD:{LOCKFILE.decode()}", lockfile.MAX_LOCKFILE)
    with contextlib.suppress(RoxyError):
        return lockfile.parse(data or b"version = 1\n")
    return lockfile.Lockfile()


def find_commits(repository: Repository, fingerprints: Collection[str]) -> dict[str, str]:
    """Return the commit that brought each fingerprint into roxy.lock, as far as it is found.

    Where a fingerprint stands in the file does not matter: the same one means the same code.
    """
    commits = git_history.recent_commits(repository, LOCKFILE, _COMMITS, _DEPTH)
    found: dict[str, str] = {}
    for commit, data in zip(commits, _locks(repository, commits), strict=False):
        found |= {one: commit for one in fingerprints if one.encode() in data}
    return found


def _locks(repository: Repository, commits: Sequence[str]) -> list[bytes]:
    """Return what roxy.lock was in each commit; empty where there was none."""
    if not commits:
        return []
    names = "".join(f"{commit}:{LOCKFILE.decode()}\n" for commit in commits)
    rest = repository.ask("cat-file", "--batch", stdin=names.encode()).stdout
    locks = []
    for _ in commits:
        header, _, rest = rest.partition(b"\n")
        words = header.split()
        size = int(words[2]) if words[1:2] == [b"blob"] else None
        locks.append(rest[: size or 0])
        rest = rest if size is None else rest[size + 1 :]
    return locks


def changes_since(
    repository: Repository,
    commit: str,
    checks: Collection[Check],
    covered: Mapping[str, Sequence[bytes]],
) -> dict[str, Details]:
    """Return how each check differs from what it was in a commit, by its id, as git tells it."""
    globs = {text: glob.parse(text) for check in checks for text in check.covers}
    patches = {check.id: [_normal(path) for path in check.mutations] for check in checks}
    prefixes = glob.outermost(
        [
            *(prefix for one in globs.values() for prefix in one.prefixes),
            *(path for some in patches.values() for path in some),
        ]
    )
    then = git_history.files_in(repository, commit, prefixes)
    changed = git_history.changed_since(repository, commit, prefixes)
    checks_then = _checks_in(repository, commit)
    details = {}
    for check in checks:
        now = set(covered[check.id])
        was = {path for path in then if any(globs[text].matches(path) for text in check.covers)}
        known = checks_then.get(check.id)
        details[check.id] = Details(
            command_changed=known is not None and known.run != check.run,
            mutation_changed=(known is not None and known.mutations != check.mutations)
            or not changed.isdisjoint(patches[check.id]),
            changed=tuple(sorted(now & then & changed)),
            added=tuple(sorted(now - then)),
            removed=tuple(sorted(was - now - {LOCKFILE})),
            commit=commit,
        )
    return details


def _normal(path: str) -> bytes:
    return posixpath.normpath(path).encode()


def _checks_in(repository: Repository, commit: str) -> dict[str, Check]:
    """Return the checks that roxy.toml had in a commit; none when it cannot be read."""
    data = repository.blob(f"{commit}:{MANIFEST.decode()}", manifest.MAX_MANIFEST)
    with contextlib.suppress(RoxyError, TomlError):
        claims = manifest.parse(toml_text.decode(data or b""))
        return {check.id: check for claim in claims for check in claim.checks}
    return {}
