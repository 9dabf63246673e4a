"""How every check stands now: what `status` and `gate` answer, and what they remark (S49, S52)."""

from __future__ import annotations

import hashlib
import os
import posixpath
from typing import TYPE_CHECKING, NamedTuple

from roxy.core import contents, coverage, digest_cache, lockfile, regular_file
from roxy.core.errors import RoxyError
from roxy.core.fingerprint import fingerprint_of
from roxy.core.git import HeadBlobs
from roxy.core.model import LOCKFILE, MANIFEST, Entry, Report, Standing, State
from roxy.core.status import name_files, stand

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from roxy.core.contents import Contents
    from roxy.core.coverage import Asked, Coverage
    from roxy.core.lockfile import Lockfile
    from roxy.core.model import Check, Manifest, Reason
    from roxy.core.mutation import Scratch
    from roxy.core.session import Session

_SHA1_DIGITS = 40
_MOST = 32 << 20
"""Bytes of a file that is compared with HEAD."""


class Stock(NamedTuple):
    """The answer, and remarks beside it that change nothing."""

    report: Report
    remarks: tuple[str, ...]


class Survey(NamedTuple):
    """Where every check stands, with what that was found out from; all in manifest order."""

    covered: Coverage
    standings: Sequence[Standing]
    lock: Lockfile
    entries: tuple[Entry, ...]


def take_stock(session: Session, *, with_patches: bool = False) -> Stock:
    """Look at everything and write nothing; at what the patches say, too, if asked to (S19).

    Raises `ConfigError`, `LockfileError`, `DiskError`.
    """
    with session.interrupts.breakable():
        return _take_stock(session, with_patches=with_patches)


def _take_stock(session: Session, *, with_patches: bool) -> Stock:
    with coverage.asked(session.repository, session.manifest.checks) as question:
        patches = {
            posixpath.normpath(path).encode(): patch
            for path, patch in session.manifest.patches.items()
        }
        inputs = [MANIFEST, LOCKFILE, *sorted(patches)]
        with HeadBlobs(session.repository, inputs) as head:
            found = _surveyed(session, question)
            covered = found.covered
            remarks = _kept(session.repository.state / "kept")
            remarks += _differences_from(head.answer(), session, inputs, patches)
    if covered.absent:
        count, names = len(covered.absent), name_files(covered.absent)
        remarks.append(
            f"covered files that git tracks are not on the disk, {count} of them: {names}"
        )
    if with_patches:
        remarks += [*_drifts(session, covered), *_weaknesses(session, found.standings)]
    report = Report(found.entries, descriptions(session.manifest), kept=session.kept)
    return Stock(report, tuple(remarks))


def _weaknesses(session: Session, standings: Iterable[Standing]) -> Iterator[str]:
    """Repeat what was warned of when evidence was made, where its receipt is here (S27)."""
    from roxy.core.tries import Archive  # noqa: PLC0415 - only when asked for

    archive = Archive(session.repository.state)
    for one in standings:
        if one.state is State.VERIFIED and (made := archive.evidence(one.check, one.fingerprint)):
            yield from (f"{one.check.id}: {note}" for note in made.notes)


def survey(session: Session) -> Survey:
    """Find out where every check stands, and why."""
    with coverage.asked(session.repository, session.manifest.checks) as question:
        return _surveyed(session, question)


def _surveyed(session: Session, question: Asked) -> Survey:
    manifest, state = session.manifest, session.repository.state
    lock = lockfile.read(session.tree.fd)
    earlier = digest_cache.load(state)
    covered = question.answer(session.tree, expected=earlier.paths)
    now = contents.read(session.digests, covered.stamped, earlier)
    standings = take_standings(manifest, covered, now, lock)
    is_proven = all(one.state is State.VERIFIED for one in standings)
    digest_cache.keep(state, now, earlier, session.digests.effort, is_proven=is_proven)
    reasons: Mapping[str, Reason] = {}
    if not is_proven:
        from roxy.core.why import Why  # noqa: PLC0415 - most often there is nothing to explain

        why = Why(session.repository, manifest, lock, covered.files, now, earlier)
        reasons = why.explain(standings)
    entries = tuple(
        Entry(one.check, one.state, reasons.get(one.check.id, one.reason)) for one in standings
    )
    return Survey(covered, standings, lock, entries)


def _drifts(session: Session, covered: Coverage) -> list[str]:
    """Name every patch that does not go exactly where it says (S19). Nothing is run."""
    from roxy.core.mutation import Scratch  # noqa: PLC0415 - only when asked for

    manifest = session.manifest
    scratch = Scratch(session.repository, session.tree)
    remarks: dict[str, str] = {}
    """What is remarked, with the advice; of a patch that several checks use, once."""
    try:
        scratch.prepare(list(manifest.patches.values()))
        for check in manifest.checks:
            for path in check.mutations:
                files = covered.covered[check.id]
                drift = find_drift(scratch, check, path, manifest.patches[path], files)
                if drift is not None:
                    advice = f"; {drift.advice}" if drift.fits else ""
                    remarks.setdefault(drift.text, advice)
        scratch.clear()
    except RoxyError as error:  # no reason not to say how the checks stand
        remarks[f"the patches could not be looked at: {error.faults[0].what}"] = ""
    return [text + advice for text, advice in remarks.items()]


class Drift(NamedTuple):
    """In what way a patch of a check does not go exactly where it says."""

    text: str
    fits: bool
    """Whether it has a place in the code all the same."""
    is_readable: bool
    advice: str
    """What to do about one that fits."""


def find_drift(
    scratch: Scratch, check: Check, path: str, patch: bytes, covered: Collection[bytes]
) -> Drift | None:
    """Return what `status -v` and `doctor` tell of a patch; None when it goes where it says."""
    import shlex  # noqa: PLC0415 - only when asked for

    advice = f"`roxy refresh {shlex.quote(check.id)}` makes it anew"
    complaint = scratch.unreadable(patch)
    if complaint is not None:
        return Drift(f"git cannot read the mutation `{path}`: {complaint}", False, False, advice)
    drift = scratch.drift(patch, covered)
    if drift is None:
        return None
    text, fits = drift
    return Drift(f"`{path}` {text}", fits, True, advice)


def descriptions(manifest: Manifest) -> dict[str, str | None]:
    """Return each claim's description by its name."""
    return {claim.name: claim.description for claim in manifest.claims}


def take_standings(
    manifest: Manifest, covered: Coverage, now: Contents, lock: Lockfile
) -> list[Standing]:
    """Return every check's state beside a lock, in manifest order."""
    standings = []
    for check in manifest.checks:
        files = now.of(covered.files[check.id])
        fingerprint = fingerprint_of(check, manifest.patches_of(check), files)
        standings.append(stand(check, fingerprint, lock.fingerprint(check)))
    return standings


def _kept(folder: Path) -> list[str]:
    """Name what was kept of somebody's edits, until they have taken it out of there (S29)."""
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    if not names:
        return []
    shown = name_files(os.fsencode(name) for name in names)
    return [f"what roxy took out of the way is kept in `{folder}` until you take it out: {shown}"]


def _differences_from(
    blobs: Mapping[bytes, str] | None,
    session: Session,
    inputs: Iterable[bytes],
    patches: Mapping[bytes, bytes],
) -> list[str]:
    """Say which of roxy's inputs are not what HEAD has, by bytes, CRLF read as LF."""
    if blobs is None:
        return []
    remarks = []
    for path in inputs:
        name = path.decode("utf-8", "surrogateescape")
        try:
            data = patches.get(path) or regular_file.read(
                session.tree.fd, path, _MOST, follow_links=True
            )
        except regular_file.UnreadableFileError:
            if path in blobs:
                remarks.append(f"`{name}` is in HEAD, but not on the disk")
            continue
        if path not in blobs:
            remarks.append(f"`{name}` is not in HEAD")
        elif not _is_blob(data, blobs[path]) and not _same_text(
            data, session.repository.blob(blobs[path], 2 * len(data))
        ):
            remarks.append(f"`{name}` differs from HEAD")
    return remarks


def _is_blob(data: bytes, object_id: str) -> bool:
    algorithm = "sha1" if len(object_id) == _SHA1_DIGITS else "sha256"
    digest = hashlib.new(algorithm, b"blob %d\0" % len(data), usedforsecurity=False)
    digest.update(data)
    return digest.hexdigest() == object_id


def _same_text(data: bytes, blob: bytes | None) -> bool:
    return blob is not None and data.replace(b"\r\n", b"\n") == blob.replace(b"\r\n", b"\n")
