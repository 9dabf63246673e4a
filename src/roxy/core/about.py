"""All about one check: where it stands, what it covers, what its mutations do, how it went."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from roxy.core import glob, regular_file
from roxy.core.log import KEPT_AT_EACH_END
from roxy.core.model import Reason
from roxy.core.mutation import Misfit, Scratch
from roxy.core.outcome import Phase
from roxy.core.stock import survey
from roxy.core.tries import Archive, Try

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from roxy.core.model import Check, Entry, Manifest
    from roxy.core.mutation import Edit
    from roxy.core.session import Session
    from roxy.core.tries import CutShort, PastRun

TRIES = 5
"""Tries that are told of each check."""
_LARGEST_LOG = 2 * KEPT_AT_EACH_END + (1 << 10)
_LINES = 20
"""Lines of a log that are quoted."""


@dataclass(frozen=True, slots=True)
class Reach:
    """One glob and the files that it means now."""

    glob: str
    files: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Preview:
    """What one mutation does to the code as it is."""

    mutation: str
    misfit: Reason | None
    """Why it does not fit."""
    notes: tuple[str, ...]
    """How far it moved."""
    diff: bytes
    """Against the code as it is; where it does not fit, the patch as it was written."""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The log of one run, and its end."""

    run: PastRun
    path: Path
    lines: tuple[bytes, ...] | None
    """The last ones; None when the log is gone, or is not what the run printed any more."""


@dataclass(frozen=True, slots=True)
class About:
    """All that is known of one check."""

    entry: Entry
    description: str | None
    fingerprint: str
    recorded: str | None
    """What roxy.lock has."""
    covers: tuple[Reach, ...]
    inputs: tuple[Reach, ...]
    mutations: tuple[Preview, ...]
    tries: tuple[Try | CutShort, ...]
    """The last ones, newest first."""
    excerpt: Excerpt | None
    """Of the run that decided the newest of them; where it was verified, of its mutated run."""


def tell_about(session: Session, checks: Collection[Check]) -> list[About]:
    """Find out all about some checks, in manifest order. Writes nothing in the tree."""
    with session.interrupts.breakable():
        found, manifest = survey(session), session.manifest
        archive = Archive(session.repository.state)
        scratch = Scratch(session.repository, session.tree)
        ids = {check.id for check in checks}
        abouts = []
        try:
            scratch.prepare([patch for check in checks for patch in manifest.patches_of(check)])
            for standing, entry in zip(found.standings, found.entries, strict=True):
                check = standing.check
                if check.id not in ids:
                    continue
                files = found.covered.files[check.id]
                covered = found.covered.covered[check.id]
                tries = tuple(archive.of_check(check, TRIES))
                abouts.append(
                    About(
                        entry=entry,
                        description=_description(manifest, check),
                        fingerprint=standing.fingerprint,
                        recorded=found.lock.fingerprint(check),
                        covers=tuple(_reach(text, files) for text in check.covers),
                        inputs=tuple(_reach(text, files) for text in check.inputs),
                        mutations=tuple(
                            _preview(scratch, path, manifest.patches[path], covered)
                            for path in check.mutations
                        ),
                        tries=tries,
                        excerpt=_excerpt(session.repository.state, tries),
                    )
                )
        finally:
            scratch.clear()
        return abouts


def _description(manifest: Manifest, check: Check) -> str | None:
    return next(one.description for one in manifest.claims if one.name == check.claim)


def _reach(text: str, files: Sequence[bytes]) -> Reach:
    return Reach(text, tuple(glob.parse(text).matching(files)))


def _preview(scratch: Scratch, path: str, patch: bytes, covered: Collection[bytes]) -> Preview:
    complaint = scratch.unreadable(patch)
    if complaint is not None:
        reason = Reason("unreadable", f"git cannot read `{path}`: {complaint}")
        return Preview(path, reason, (), patch)
    fit = scratch.fit(path, patch, covered)
    if isinstance(fit, Misfit):
        return Preview(path, fit.reason, (), patch)
    return Preview(path, None, fit.notes, b"".join(_diff(scratch, edit) for edit in fit.edits))


def _diff(scratch: Scratch, edit: Edit) -> bytes:
    try:
        hunks = scratch.diff(edit)
    except OSError:
        hunks = b""
    header = b"--- a/%b\n+++ b/%b\n" % (edit.path, edit.path)
    return header + hunks if hunks else b"Binary file %b\n" % edit.path


def _excerpt(state: Path, tries: Sequence[Try | CutShort]) -> Excerpt | None:
    """Return the log that explains the newest try with a result."""
    one = next((one for one in tries if isinstance(one, Try)), None)
    run = None if one is None else deciding_run(one)
    return None if run is None else excerpt(state, run)


def deciding_run(one: Try) -> PastRun | None:
    """Return the run whose output tells most: the mutated one of evidence, else the last."""
    if not one.runs:
        return None
    mutated = [run for run in one.runs if run.phase == Phase.MUTATED]
    return mutated[-1] if mutated and one.reason is None else one.runs[-1]


def excerpt(state: Path, run: PastRun) -> Excerpt:
    """Return the end of a run's log."""
    folder = state / "logs"
    lines: tuple[bytes, ...] | None = None
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            data = regular_file.read(fd, run.log.encode(), _LARGEST_LOG, follow_links=False)
        finally:
            os.close(fd)
        if hashlib.sha256(data).hexdigest() == run.log_sha256:
            lines = tuple(data[-(64 << 10) :].splitlines()[-_LINES:])
    except (OSError, regular_file.UnreadableFileError):
        pass
    return Excerpt(run, folder / run.log, lines)
