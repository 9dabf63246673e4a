"""The one that writes roxy.lock: listens to a verify, keeps what is proven (S35, S36)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tomli_w  # noqa: F401 - loaded before the first check, which may change files (S51)

from roxy.core import lockfile, regular_file, tree_writer
from roxy.core.errors import LockfileError
from roxy.core.events import CheckFinished
from roxy.core.model import LOCKFILE, Result

if TYPE_CHECKING:
    from pathlib import Path

    from roxy.core.events import Event
    from roxy.core.lockfile import Lockfile
    from roxy.core.working_tree import Tree


class Recorder:
    """Rewrites roxy.lock after each result, and only when its bytes change."""

    def __init__(self, tree: Tree, state: Path, lock: Lockfile) -> None:
        self._tree = tree
        self._staging = state / "roxy.lock.new"
        self.lock = lock

    def __call__(self, event: Event) -> None:
        """Take note of one event. Raises `LockfileError` when roxy.lock cannot be written."""
        if isinstance(event, CheckFinished):
            self.lock = with_outcome(self.lock, event)
            self.write()

    def write(self) -> None:
        """Make roxy.lock say what is known. Raises `LockfileError`."""
        data = lockfile.dump(self.lock)
        try:
            if regular_file.read(self._tree.fd, LOCKFILE, len(data), follow_links=False) == data:
                return
        except regular_file.UnreadableFileError:
            pass  # missing, or not what it should be: written anew
        try:
            tree_writer.write_into_tree(self._tree, LOCKFILE, data, self._staging)
        except OSError as error:
            raise LockfileError(
                f"cannot write `roxy.lock`: {error.strerror}",
                where=f"{self._tree.root}",
                hint="mend what is in the way (permissions, space, a folder of that name); "
                "until then nothing that is proven can be recorded",
            ) from error


def with_outcome(lock: Lockfile, event: CheckFinished) -> Lockfile:
    """Return the lock as one result leaves it: an entry for evidence, none after a rejection.

    What was blocked keeps the one that it has (S42).
    """
    outcome = event.outcome
    if outcome.result is Result.BLOCKED:
        return lock
    if outcome.result is Result.VERIFIED and outcome.fingerprint is not None:
        return lock.with_entry(outcome.check, outcome.fingerprint)
    return lock.without(outcome.check)
