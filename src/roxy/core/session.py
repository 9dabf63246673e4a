"""What every command does first: find the repository, be alone in it, put back what a kill left."""

from __future__ import annotations

import contextlib
import time
from functools import cached_property
from typing import TYPE_CHECKING

from roxy.core import files, manifest
from roxy.core.digests import Digests
from roxy.core.exclusive import exclusive
from roxy.core.git import find_repository
from roxy.core.working_tree import Tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from roxy.core.git import Repository
    from roxy.core.interrupts import Interrupts
    from roxy.core.journal import Journal, Recovery
    from roxy.core.model import Manifest
    from roxy.core.outcome import Kept
    from roxy.core.processes import Identity


class Session:
    """One command's hold on one working tree."""

    def __init__(
        self, repository: Repository, tree: Tree, digests: Digests, interrupts: Interrupts
    ) -> None:
        self.repository = repository
        self.tree = tree
        self.digests = digests
        self.interrupts = interrupts
        self.kept: tuple[Kept, ...] = ()
        """What was in the way when a killed roxy's files were put back (S29)."""
        self.is_for_a_try = False
        """Whether the manifest may lack mutations; set before it is first asked for."""

    @cached_property
    def journal(self) -> Journal:
        """What puts mutations in and takes them out; made when first asked for."""
        from roxy.core.journal import Journal  # noqa: PLC0415 - `gate` does without

        return Journal(self.repository.state, self.tree)

    @cached_property
    def manifest(self) -> Manifest:
        """roxy.toml, read when first asked for, and what it names. Raises `ConfigError`."""
        read = manifest.read(self.tree.fd, for_a_try=self.is_for_a_try)
        if all(check.reproduces is None for check in read.checks):
            return read
        from roxy.core import old_code  # noqa: PLC0415 - hardly any check asks for it

        return read._replace(old_code=old_code.find(self.repository, read.checks))


@contextlib.contextmanager
def open_session(
    start: Path,
    environ: Mapping[str, str],
    interrupts: Interrupts,
    command: str,
    wait: float,
    tell: Callable[[str], None],
    *,
    needs_manifest: bool = True,
) -> Iterator[Session]:
    """Hold the working tree that `start` is in, as one command at a time may (S8).

    Whatever a killed roxy left is put back before anything else is looked at, and `tell` is called
    with a line for each thing (S33). On the way out, waits until the clock has passed every time
    that was given to a file (S30). Raises any `RoxyError` of the parts, and `Interrupted`.
    """
    with interrupts.breakable():
        repository = find_repository(start, environ, needs_manifest=needs_manifest)
    with exclusive(repository.state, command, wait, interrupts):
        tree = Tree(repository.root)
        session = Session(repository, tree, Digests(tree, interrupts), interrupts)
        try:
            if files.is_there(repository.state / "journal"):
                recovery = session.journal.recover(_end_group)
                for line in _in_words(recovery):
                    tell(line)
                session.kept = recovery.kept if recovery is not None else ()
            yield session
        finally:
            if "journal" in vars(session):
                time.sleep(session.journal.seconds_to_rest())
            tree.close()


def _end_group(who: Identity) -> bool:
    from roxy.core.process import end_group  # noqa: PLC0415 - only after a kill

    return end_group(who)


def _in_words(recovery: Recovery | None) -> Iterator[str]:
    if recovery is None:
        return
    if recovery.ended_group is not None:
        yield f"ended process group {recovery.ended_group}, left by a roxy that was killed"
    for path in recovery.restored:
        name = path.decode("utf-8", "surrogateescape")
        yield f"restored `{name}`, left mutated by a roxy that was killed at `{recovery.check}`"
    for kept in recovery.kept:
        yield describe_kept(kept)


def describe_kept(kept: Kept) -> str:
    """Return one line that says what was in the way and where it is now (S29)."""
    name = kept.path.decode("utf-8", "surrogateescape")
    return f"`{name}` held something else when it was put back; that is kept as `{kept.place}`"


def describe_copy(kept: Kept) -> str:
    """Return one line that says where the edits of a file are that roxy takes out of it."""
    name = kept.path.decode("utf-8", "surrogateescape")
    return f"your edits of `{name}` are kept as `{kept.place}`"
