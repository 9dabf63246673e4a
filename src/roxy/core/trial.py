"""One check with a mutation that roxy.toml does not name, and nothing recorded of it.

No receipt is written either: those explain what `roxy.lock` has and tell how long checks take, and
a try is about neither. The logs stay, as those of every run.
"""

from __future__ import annotations

from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from roxy.core import coverage, plan, regular_file
from roxy.core.conversion import content
from roxy.core.desk import Desk
from roxy.core.destination import find_destination, save
from roxy.core.errors import DiskError, RoxyError, UsageError
from roxy.core.events import CheckFinished, EditsKept, PatchShown, Remarked
from roxy.core.kept import drop, keep_copies
from roxy.core.manifest import MAX_PATCH
from roxy.core.model import Result
from roxy.core.mutation import Misfit, Scratch
from roxy.core.regular_file import UnreadableFileError
from roxy.core.replacement import replace
from roxy.core.status import name_files
from roxy.core.unstaged import take
from roxy.core.verify import try_all
from roxy.core.working_tree import Content

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from roxy.core.events import Emit, Event
    from roxy.core.model import Check
    from roxy.core.outcome import Kept, Outcome
    from roxy.core.session import Session
    from roxy.core.unstaged import Unstaged

EDITS = "unstaged edits"
"""What stands for the name of a patch that has no file."""
_NAMED = 5


@dataclass(frozen=True, slots=True)
class Asked:
    """What to try, as the command line says it."""

    name: str | None
    """Of one check; None where there is only one."""
    start: Path
    """The folder that the names of files are relative to."""
    patch: str | None
    """A file; None for the unstaged edits."""
    save: str | None
    force: bool


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of it."""

    outcome: Outcome
    mutation: str
    """Name of the patch that was tried: a file, or `EDITS`."""
    patch: bytes
    kept: tuple[Kept, ...]
    """Where edits are that were taken out of the tree, and that no patch of the tree has now."""
    saved: str | None
    """Where the patch is now, from the top; None when it was not saved."""
    is_pointed: bool
    """Whether roxy.toml was edited to name it."""


def run_trial(session: Session, asked: Asked, emit: Emit) -> Trial:
    """Try a mutation. Raises any `RoxyError` before the first run, and `Interrupted`."""
    session.is_for_a_try = True
    with session.interrupts.breakable():
        check = _only(plan.select(session.manifest, [] if asked.name is None else [asked.name]))
        destination = None
        if asked.save is not None:
            destination = find_destination(
                session, check, asked.start, asked.save, force=asked.force
            )
    mutation, patch, kept = _patch_of(session, check, asked, emit)
    outcome = _tried(session, check, mutation, patch, emit)
    saved = None
    if destination is not None and outcome.result is Result.VERIFIED:
        desk = Desk(session.repository)
        save(session, destination, check, patch, desk.made_folder("saved"), emit)
        desk.clear()
        saved = destination.path
        kept = _drop_saved(session, destination.path, mutation, patch, kept)
    is_pointed = bool(saved and destination and destination.key)
    return Trial(outcome, mutation, patch, kept, saved, is_pointed)


def _only(checks: Sequence[Check]) -> Check:
    if len(checks) > 1:
        names = ", ".join(f"`{check.id}`" for check in checks[:_NAMED])
        more = f" and {len(checks) - _NAMED} more" if len(checks) > _NAMED else ""
        raise UsageError(
            f"a try is about one check, and {len(checks)} are meant: {names}{more}",
            hint="name one of them",
        )
    return checks[0]


def _patch_of(
    session: Session, check: Check, asked: Asked, emit: Emit
) -> tuple[str, bytes, tuple[Kept, ...]]:
    """Return the name of the patch, its bytes, and what had to be kept to get at it."""
    if asked.patch is None:
        return (EDITS, *_take_edits(session, check, emit, force=asked.force))
    try:
        root = session.tree.fd
        path = bytes(asked.start / asked.patch)
        patch = regular_file.read(root, path, MAX_PATCH, follow_links=True)
    except (UnreadableFileError, ValueError) as error:
        what = error if isinstance(error, UnreadableFileError) else "has a NUL in its name"
        raise UsageError(f"the patch `{asked.patch}` {what}", hint="name a patch file") from error
    emit(PatchShown(asked.patch, patch))
    return asked.patch, patch, ()


def _take_edits(
    session: Session, check: Check, emit: Emit, *, force: bool
) -> tuple[bytes, tuple[Kept, ...]]:
    """Take the unstaged edits out of the tree, and return them as a patch."""
    with ExitStack() as stack:
        desk = Desk(session.repository)
        stack.callback(desk.clear)
        with session.interrupts.breakable():
            covered = coverage.find_covered(session.repository, session.tree, [check])
            unstaged = take(session.repository, session.tree, desk, check, covered.files[check.id])
        if not force:
            unstaged.refuse_work()
        emit(PatchShown(EDITS, unstaged.patch))
        if not unstaged.is_staged and unstaged.patch.count(b"\n@@ ") > 1:
            emit(Remarked("nothing is staged, so all of these edits are the mutation now"))
        kept = _keep(session, unstaged)
        emit(EditsKept(kept))
        replace(session, check.id, unstaged.edits, emit)
    return unstaged.patch, kept


def _keep(session: Session, unstaged: Unstaged) -> tuple[Kept, ...]:
    """Copy what is about to go. Raises `DiskError` with no copy left behind."""
    paths = [edit.path for edit in unstaged.edits]
    folder = session.repository.state / "kept"
    try:
        kept, held = keep_copies(session.tree, folder, paths)
    except OSError as error:
        raise DiskError(f"cannot read {name_files(paths)}: {error.strerror}") from error
    if held != tuple(edit.old for edit in unstaged.edits):
        drop(kept)
        raise DiskError(
            f"somebody wrote {name_files(paths)} at this very moment,"
            " so all files were left as they are",
            hint="see what it holds now, then run the same command again",
        )
    return kept


def _drop_saved(
    session: Session, path: str, mutation: str, patch: bytes, kept: tuple[Kept, ...]
) -> tuple[Kept, ...]:
    """Remove each copy that is what a saved patch makes of its file, and return the others.

    The patch is read back first: somebody may have taken it away since. And a file may come out of
    it otherwise than it was edited, with the line ends of the index. In doubt a copy stays.
    """
    if not kept:
        return ()
    scratch = Scratch(session.repository, session.tree)
    left = list(kept)
    with suppress(RoxyError, OSError), ExitStack() as stack:
        stack.callback(scratch.clear)
        session.tree.forget()
        if session.tree.content(path.encode()) != Content.of(patch):
            return kept
        fit = scratch.fit(mutation, patch, {one.path for one in kept})
        made = {} if isinstance(fit, Misfit) else {edit.path: edit.new for edit in fit.edits}
        for one in kept:
            if made.get(one.path) == content(one.place):
                drop([one])
                left.remove(one)
    return tuple(left)


def _tried(session: Session, check: Check, mutation: str, patch: bytes, emit: Emit) -> Outcome:
    check = check._replace(mutations=(mutation,))
    manifest = session.manifest._replace(patches={mutation: patch})
    outcomes: list[Outcome] = []

    def note(event: Event) -> None:
        if isinstance(event, CheckFinished):
            outcomes.append(event.outcome)

    try_all(session, manifest, [check], [note], emit, keeps_receipts=False)
    return outcomes[0]
