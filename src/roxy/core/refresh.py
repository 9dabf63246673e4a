"""Mutations made anew when the code has moved on: the same edits, from the code as it is."""

from __future__ import annotations

import os
import posixpath
from contextlib import ExitStack
from dataclasses import dataclass
from dataclasses import replace as changed
from typing import TYPE_CHECKING

from roxy.core import coverage, files, lockfile, plan
from roxy.core.desk import Desk
from roxy.core.errors import ConfigError, GitError
from roxy.core.events import CheckFinished, PatchShown
from roxy.core.model import Reason, Result
from roxy.core.mutation import Edit, Fit, Misfit, Scratch
from roxy.core.outcome import Outcome
from roxy.core.recorder import Recorder
from roxy.core.replacement import replace
from roxy.core.verify import refuse_unreadable, try_all
from roxy.core.working_tree import Content

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from roxy.core.events import Emit, Event
    from roxy.core.model import Check
    from roxy.core.session import Session


@dataclass(frozen=True, slots=True)
class Renewed:
    """One patch file and what became of it."""

    path: str
    """As roxy.toml names it."""
    checks: tuple[Check, ...]
    """All that use it, selected or not."""
    old: bytes
    new: bytes | None = None
    """None when the old one goes exactly where it says, or does not fit at all."""
    misfit: Reason | None = None
    notes: tuple[str, ...] = ()
    is_written: bool = False


@dataclass(frozen=True, slots=True)
class Refreshed:
    """The answer of one refresh."""

    patches: tuple[Renewed, ...]
    outcomes: tuple[Outcome, ...]
    """Of the checks that were run, and of the selected ones whose patch does not fit."""


def refresh(session: Session, names: Sequence[str], emit: Emit, *, runs: bool) -> Refreshed:
    """Renew the patches of the selected checks that do not go exactly where they say.

    A new patch replaces the old one when every check that uses it proves itself with it, or
    without `runs` at once. What the runs prove is recorded, as verify does. Raises any `RoxyError`
    before the first run; `Interrupted`, and then nothing is written but what was refuted until then.
    """
    with session.interrupts.breakable():
        recorder = _recorder(session) if runs else None
        patches = _renew_all(session, plan.select(session.manifest, names))
    outcomes = list(_rejections(patches, plan.select(session.manifest, names)))
    for outcome in outcomes:
        emit(CheckFinished(outcome))
    for one in patches:
        if one.new is not None:
            emit(PatchShown(one.path, one.new, instead_of=one.old))
    proven: set[str] = set()
    if recorder is not None:
        outcomes += _run(session, patches, recorder, emit)
        proven = {one.check.id for one in outcomes if one.result is Result.VERIFIED}
    patches = [
        changed(one, is_written=not runs or all(check.id in proven for check in one.checks))
        if one.new is not None
        else one
        for one in patches
    ]
    _write(session, [one for one in patches if one.is_written], emit)
    if recorder is not None:
        _record(recorder, patches, outcomes)
    return Refreshed(tuple(patches), tuple(outcomes))


# ------------------------------------------------------------------- the new patches


def _renew_all(session: Session, selected: Sequence[Check]) -> list[Renewed]:
    users: dict[str, list[Check]] = {}
    for check in session.manifest.checks:
        for path in check.mutations:
            users.setdefault(posixpath.normpath(path), []).append(check)
    wanted = {path: posixpath.normpath(path) for one in selected for path in one.mutations}
    named = {plain: path for path, plain in reversed(wanted.items())}
    concerned = [check for check in session.manifest.checks if _uses(check, named)]
    covered = coverage.find_covered(session.repository, session.tree, concerned)
    scratch = Scratch(session.repository, session.tree)
    with ExitStack() as stack:
        stack.callback(scratch.clear)
        refuse_unreadable(session.manifest, selected, scratch)
        return [
            _renew(
                scratch,
                Renewed(path, tuple(users[plain]), session.manifest.patches[path]),
                {file for check in users[plain] for file in covered.files[check.id]},
            )
            for path, plain in wanted.items()
            if named[plain] == path
        ]


def _uses(check: Check, plain: Mapping[str, str]) -> bool:
    return any(posixpath.normpath(path) in plain for path in check.mutations)


def _renew(scratch: Scratch, one: Renewed, covered: set[bytes]) -> Renewed:
    renewal = scratch.renew(one.path, one.old, covered)
    if isinstance(renewal, Misfit):
        return changed(one, misfit=renewal.reason)
    if renewal.patch is None:
        return one
    before = scratch.fit(one.path, one.old, covered)
    if isinstance(before, Misfit):
        return changed(one, misfit=before.reason)
    after = scratch.fit(f"the new {one.path}", renewal.patch, covered)
    if isinstance(after, Misfit) or _effect(after) != _effect(before):
        raise GitError(
            f"what git prints for `{one.path}` does not do the same to the code",
            hint="make the patch anew with `git diff`",
        )
    return changed(one, new=renewal.patch, notes=renewal.notes)


def _effect(fit: Fit) -> dict[bytes, tuple[Content, Content]]:
    return {edit.path: (edit.old, edit.new) for edit in fit.edits}


def _rejections(patches: Sequence[Renewed], selected: Sequence[Check]) -> list[Outcome]:
    """Return the result of each selected check that has a patch which does not fit."""
    found: dict[str, Outcome] = {}
    for one in patches:
        for check in one.checks:
            if one.misfit is not None and check in selected:
                outcome = Outcome(check, Result.REJECTED, one.misfit, (), None)
                found.setdefault(check.id, outcome)
    return list(found.values())


# ------------------------------------------------------------------- what they prove


def _recorder(session: Session) -> Recorder:
    lock = lockfile.read(session.tree.fd).only(session.manifest.checks)
    return Recorder(session.tree, session.repository.state, lock)


def _run(
    session: Session, patches: Sequence[Renewed], recorder: Recorder, emit: Emit
) -> list[Outcome]:
    """Try all checks that have a new patch, but for those with one that does not fit.

    A check that is rejected loses its entry at once (S36), whatever ends the rest: the new patch
    does what the old one did.
    """
    new = {posixpath.normpath(one.path): one.new for one in patches if one.new is not None}
    lost = {check.id for one in patches if one.misfit is not None for check in one.checks}
    manifest = session.manifest._replace(
        patches={
            path: new.get(posixpath.normpath(path), patch)
            for path, patch in session.manifest.patches.items()
        }
    )
    jobs = [
        check
        for check in manifest.checks
        if check.id not in lost and any(posixpath.normpath(path) in new for path in check.mutations)
    ]
    outcomes: list[Outcome] = []

    def note(event: Event) -> None:
        if isinstance(event, CheckFinished):
            outcomes.append(event.outcome)
            _drop_entry(recorder, event.outcome)

    try_all(session, manifest, jobs, [note], emit)
    return outcomes


def _drop_entry(recorder: Recorder, outcome: Outcome) -> None:
    is_refuted = outcome.result is Result.REJECTED and outcome.runs
    if is_refuted and recorder.lock.fingerprint(outcome.check) is not None:
        recorder.lock = recorder.lock.without(outcome.check)
        recorder.write()


def _record(recorder: Recorder, patches: Sequence[Renewed], outcomes: Sequence[Outcome]) -> None:
    """Record the evidence for patches that are in place now."""
    unwritten = {posixpath.normpath(one.path) for one in patches if not one.is_written and one.new}
    before = recorder.lock
    for one in outcomes:
        if (
            one.result is Result.VERIFIED
            and one.fingerprint is not None
            and not any(posixpath.normpath(path) in unwritten for path in one.check.mutations)
        ):
            recorder.lock = recorder.lock.with_entry(one.check, one.fingerprint)
    if recorder.lock != before:
        recorder.write()


def _write(session: Session, patches: Sequence[Renewed], emit: Emit) -> None:
    """Put new patches in the place of the old ones, all or none."""
    if not patches:
        return
    desk = Desk(session.repository)
    folder = desk.made_folder("renewed")
    edits: dict[bytes, Edit] = {}
    for number, one in enumerate(patches):
        path, new = _really(session, one.path), one.new or b""
        source = folder / str(number)
        files.write(source, new)
        edits.setdefault(path, Edit(path, Content.of(one.old), source, Content.of(new)))
    replace(session, ", ".join(one.path for one in patches), list(edits.values()), emit)
    desk.clear()


def _really(session: Session, path: str) -> bytes:
    """Return where a patch really lies, links followed."""
    root = os.fsencode(session.repository.root)
    real = os.path.realpath(os.path.join(root, path.encode()))
    if not real.startswith(root + b"/"):
        raise ConfigError(f"`{path}` is outside the working tree now", hint="put it back")
    inside = os.path.relpath(real, root)
    if b".git" in inside.split(b"/"):
        raise ConfigError(f"`{path}` leads into the git directory", hint="make it a plain file")
    return inside
