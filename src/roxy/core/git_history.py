"""Questions to git about earlier commits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roxy.core.git import portions

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from roxy.core.git import Repository


def commit_files(
    repository: Repository, commit: str, prefixes: Iterable[bytes]
) -> list[bytes] | None:
    """Return a line of `git ls-tree` for each file of a commit below `prefixes`.

    Those are as for `listing`. None when git does not have the commit, or not all of its trees.
    """
    lines: list[bytes] = []
    for portion in portions(prefixes):
        paths = [] if b"" in portion else [b"--", *portion]
        answer = repository.ask(
            "ls-tree", "-r", "-z", "--full-tree", f"{commit}^{{commit}}", *paths
        )
        if answer.code:
            return None
        lines += answer.stdout.split(b"\0")[:-1]
    return lines


def is_shallow(repository: Repository) -> bool:
    """Say whether the history was cut off when it was cloned."""
    return repository.ask("rev-parse", "--is-shallow-repository").stdout == b"true\n"


def recent_commits(repository: Repository, path: bytes, most: int, depth: int) -> list[str]:
    """Return the newest commits that changed a file, of about `depth` back from HEAD."""
    far = repository.ask("rev-list", f"--skip={depth}", "--max-count=1", "HEAD")
    limit = [f"^{one.decode('ascii')}" for one in far.stdout.split()]
    answer = repository.ask("rev-list", f"--max-count={most}", "HEAD", *limit, "--", path)
    return answer.stdout.decode("ascii").split()


def files_in(repository: Repository, commit: str, prefixes: Sequence[bytes]) -> set[bytes]:
    """Return the regular files that a commit has below `prefixes`, which are as for `listing`."""
    found: set[bytes] = set()
    for some in portions(prefixes):
        paths = [] if b"" in some else [b"--", *some]
        answer = repository.ask("ls-tree", "-r", "-z", "--full-tree", commit, *paths)
        lines = (line.partition(b"\t") for line in answer.stdout.split(b"\0"))
        found.update(path for facts, _, path in lines if facts.startswith(b"100"))
    return found


def changed_since(repository: Repository, commit: str, prefixes: Sequence[bytes]) -> set[bytes]:
    """Return the files that a commit has and the disk has otherwise, as `git diff` sees it.

    No filter command is run for it.
    """
    settings = [("diff.autoRefreshIndex", "true"), *repository.filters_off()]
    options = ["--name-only", "-z", "--no-renames", "--no-ext-diff", "--no-textconv"]
    options += ["--ignore-submodules=all", "--diff-filter=MT", commit]
    found: set[bytes] = set()
    for some in portions(prefixes):
        paths = [] if b"" in some else [b"--", *some]
        answer = repository.ask("diff", *options, *paths, settings=settings)
        found.update(answer.stdout.split(b"\0")[:-1])
    return found
