"""Files of the tree that get other content for good: all of them, or none (S28-S30)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roxy.core.errors import DiskError
from roxy.core.events import EditKept
from roxy.core.journal import ChangedMeanwhileError, Patched
from roxy.core.status import name_files

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roxy.core.events import Emit
    from roxy.core.mutation import Edit
    from roxy.core.session import Session


def replace(session: Session, what_for: str, edits: Sequence[Edit], emit: Emit) -> None:
    """Let edits stand in the tree and stay there.

    Until the last of them is done the journal has all that they displace, so whatever ends roxy
    before, the next command puts everything back (S33). Raises `DiskError` with nothing changed,
    also when somebody else writes one of the files at the same time; `RestoreError`, `Interrupted`.
    """
    patched = Patched()
    try:
        with session.journal.patched(what_for, edits, patched, session.interrupts.sleep):
            patched.stays = True
    except ChangedMeanwhileError as changed:
        raise DiskError(
            f"somebody wrote {name_files(changed.paths)} at this very moment,"
            " so all files were left as they are",
            hint="see what it holds now, then run the same command again",
        ) from changed
    finally:
        for kept in patched.kept:
            emit(EditKept(kept))
