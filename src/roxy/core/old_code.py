"""The code of an earlier commit, which can stand for a mutation: `reproduces`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roxy.core import git_history, glob
from roxy.core.errors import ConfigError, Fault, GitError
from roxy.core.model import LOCKFILE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from roxy.core.git import Repository
    from roxy.core.model import Check

_REGULAR = (b"100644", b"100755")


def find(repository: Repository, checks: Iterable[Check]) -> dict[str, bytes]:
    """Return, for each check that `reproduces` a commit, that commit's files that it covers.

    Listed as `git ls-tree -r -z` lists them, in byte order of the paths, regular files only. This
    says which bytes break the code, and so it stands for a patch in the fingerprint. Raises
    `ConfigError` for each commit that the repository does not have.
    """
    found, faults = {}, []
    for check in checks:
        if check.reproduces is None:
            continue
        globs = [glob.parse(text) for text in check.covers]
        prefixes = glob.outermost(prefix for one in globs for prefix in one.prefixes)
        listed = git_history.commit_files(repository, check.reproduces, prefixes)
        if listed is None:
            faults.append(_missing(repository, check))
            continue
        lines = {line.partition(b"\t")[2]: line for line in listed if line.startswith(_REGULAR)}
        lines.pop(LOCKFILE, None)
        paths = sorted(lines)
        covered = sorted({path for one in globs for path in one.matching(paths)})
        found[check.id] = b"".join(lines[path] + b"\0" for path in covered)
    if faults:
        raise ConfigError.of(faults)
    return found


def parse(listing: bytes) -> Mapping[bytes, str]:
    """Return the object id of each file of such a listing by its path."""
    lines = (line.partition(b"\t") for line in listing.split(b"\0")[:-1])
    return {path: facts.split()[2].decode("ascii") for facts, _, path in lines}


def missing_blob(commit: str, path: bytes) -> GitError:
    """Return that git lacks what a file held, as it does in a partial clone."""
    name = path.decode("utf-8", "surrogateescape")
    return GitError(
        f"git does not have what `{name}` held in the commit `{commit}`",
        hint="this clone is partial: `git fetch --refetch --no-filter` gets all of it",
    )


def _missing(repository: Repository, check: Check) -> Fault:
    deepen = "`git fetch --unshallow`" if git_history.is_shallow(repository) else "`git fetch`"
    return Fault(
        f"git does not have the commit `{check.reproduces}`",
        where=f"roxy.toml, check `{check.id}`",
        hint=f"{deepen} may get it; in CI, clone with the whole history",
    )
