"""Where rules meet edges: try checks, one after the other, and tell what came of each.

Everything that a verify can need is imported from here before the first check starts, since a check
may change roxy's own files (S51).
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from roxy import __version__
from roxy.core import contents, coverage, lockfile, plan
from roxy.core.errors import ConfigError, Fault, Interrupted, LockfileError
from roxy.core.events import CheckFinished, CheckStarted
from roxy.core.fingerprint import fingerprint
from roxy.core.journal import ChangedMeanwhileError, Patched
from roxy.core.lockfile import Lockfile
from roxy.core.model import Entry, Report, Result, State
from roxy.core.mutation import Misfit
from roxy.core.outcome import Outcome, Phase
from roxy.core.pruning import prune
from roxy.core.receipts import ReceiptKeeper, past_seconds
from roxy.core.recorder import Recorder, with_outcome
from roxy.core.stock import descriptions, take_standings
from roxy.core.verdict import Evidence, is_over, judge
from roxy.core.working_tree import same_but_ctime, stamp_of
from roxy.core.workspace import Workspace

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Collection, Mapping, Sequence

    from roxy.core.events import Emit, Event
    from roxy.core.model import Check, Manifest, Standing
    from roxy.core.mutation import Fit, Scratch
    from roxy.core.outcome import Kept, Run, Unmet
    from roxy.core.session import Session
    from roxy.core.working_tree import Stamp


# ------------------------------------------------------------------- one check


@dataclass
class _Watch:
    """The files of one try, and which of them somebody but roxy touched (S26)."""

    place: Workspace
    expected: dict[bytes, Stamp]
    touched: set[bytes] = field(default_factory=set)
    only_ctime: set[bytes] = field(default_factory=set)

    def look(self) -> bool:
        """Compare every file with what it should be; say whether none was ever touched."""
        seen = self.place.stamps(self.expected.keys())
        for path, stamp in self.expected.items():
            now = seen.get(path)
            if now == stamp:
                continue
            if now is not None and same_but_ctime(now, stamp):
                self.only_ctime.add(path)
                self.expected[path] = now
            else:
                self.touched.add(path)
        return not self.touched

    def expect(self, written: Mapping[bytes, Stamp]) -> None:
        """From now on these files should be what roxy wrote."""
        self.expected |= written


@dataclass
class _Try:
    """One check on its way through."""

    check: Check
    patches: Sequence[bytes]
    place: Workspace
    files: Collection[bytes]
    runs: list[Run] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    kept: list[Kept] = field(default_factory=list)

    def find_unmet(self) -> Unmet | None:
        """Ask for everything that the check needs, up to the first that is not there (S42)."""
        before = self.place.folder_stamps(self.files)
        asked = (self.place.ask_for(self.check, command) for command in self.check.needs)
        unmet = next((one for one in asked if one is not None), None)
        self._look_at_folders(before)
        return unmet

    def run(self, phase: Phase, mutation: str | None) -> Run:
        before = self.place.folder_stamps(self.files)
        run = self.place.run(self.check, phase, mutation, len(self.runs) + 1)
        self.runs.append(run)
        self._look_at_folders(before)
        return run

    def _look_at_folders(self, before: Mapping[bytes, Stamp]) -> None:
        """Remark on folders that were moved, perhaps away and back with all that is in them.

        As with a file, a ctime alone proves nothing: chmod leaves that too.
        """
        after = self.place.folder_stamps(self.files)
        for folder, stamp in before.items():
            now = after.get(folder)
            if now is not None and now != stamp and same_but_ctime(now, stamp):
                name = folder.decode("utf-8", "surrogateescape")
                note = f"the folder `{name}` has a new ctime: it was moved, or its mode changed"
                if note not in self.notes:
                    self.notes.append(note)


def verify_check(check: Check, patches: Sequence[bytes], place: Workspace) -> Outcome:
    """Try one check: fit its mutations, run it clean, mutated and restored, and judge (S22, S31).

    The evidence is for the files as they were before anything of the check ran. Raises
    `Interrupted` and `RoxyError`; the tree is as it was in any case but `RestoreError`.
    """
    place.begin()
    files, covered = place.files(check)
    attempt = _Try(check, patches, place, files)
    # Stamps before the digests here, and after them at the end: what is read lies in between.
    watch = _Watch(place, place.stamps(files))
    before = place.digests(files)
    fits, misfit = _fit_all(attempt, before.keys() & set(covered))
    # What is cheap comes first: a patch that does not fit rejects before anything is asked for.
    unmet = attempt.find_unmet() if misfit is None else None
    if misfit is None and unmet is None:
        _run_all(attempt, fits, watch)
        _compare(watch, before, place.digests(place.files_again(check)))
        watch.look()
    evidence = Evidence(
        check=check,
        misfit=misfit.reason if misfit else None,
        unmet=unmet,
        runs=tuple(attempt.runs),
        touched=tuple(sorted(watch.touched)),
    )
    verdict = judge(evidence)
    notes = attempt.notes + [
        f"`{path.decode('utf-8', 'surrogateescape')}` has a new ctime:"
        " its mode, its links, or for a while its content changed"
        for path in sorted(watch.only_ctime - watch.touched)
    ]
    return Outcome(
        check=check,
        result=verdict.result,
        reason=verdict.reason,
        runs=evidence.runs,
        fingerprint=fingerprint(check, patches, before),
        digests=before,
        failed_run=verdict.failed_run,
        notes=(*notes, *verdict.notes),
        kept=tuple(attempt.kept),
    )


def _fit_all(attempt: _Try, covered: Collection[bytes]) -> tuple[list[Fit], Misfit | None]:
    """Find out whether every mutation fits, before any run is spent (S18)."""
    fits: list[Fit] = []
    fit_one = attempt.place.fit if attempt.check.mutations else attempt.place.fit_old_code
    for name, patch in zip(attempt.check.breakages, attempt.patches, strict=True):
        fit = fit_one(name, patch, covered)
        if isinstance(fit, Misfit):
            return fits, fit
        attempt.notes += fit.notes
        fits.append(fit)
    return fits, None


def _run_all(attempt: _Try, fits: Sequence[Fit], watch: _Watch) -> None:
    """Run clean, then mutated and restored for each mutation, as long as that can prove anything."""
    for _ in range(attempt.check.repeat):
        # Whatever ran before, also what the check needs, could touch its files.
        if not watch.look() or is_over(attempt.check, attempt.runs):
            return
        attempt.run(Phase.CLEAN, None)
    for mutation, fit in zip(attempt.check.breakages, fits, strict=True):
        if not watch.look() or is_over(attempt.check, attempt.runs):
            return
        patched = Patched()
        try:
            with attempt.place.patched(attempt.check, fit.edits, patched):
                watch.expect(_stamps(patched.stats))
                attempt.run(Phase.MUTATED, mutation)
                watch.look()
        except ChangedMeanwhileError as changed:
            watch.touched |= set(changed.paths)
        attempt.kept += patched.kept
        watch.touched |= {kept.path for kept in patched.kept}
        watch.expect(_stamps(patched.stats))
        if watch.touched or is_over(attempt.check, attempt.runs):
            return
        attempt.run(Phase.RESTORED, mutation)
    watch.look()


def _stamps(stats: Mapping[bytes, os.stat_result]) -> dict[bytes, Stamp]:
    return {path: stamp_of(seen) for path, seen in stats.items()}


def _compare(watch: _Watch, before: Mapping[bytes, bytes], after: Mapping[bytes, bytes]) -> None:
    """Add the files whose content is not what it was, whatever their stamps say."""
    watch.touched |= {
        path for path in before.keys() | after.keys() if before.get(path) != after.get(path)
    }


# ------------------------------------------------------------------- a whole command


def verify(
    session: Session,
    names: Sequence[str],
    *,
    everything: bool,
    locked: bool,
    emit: Emit,
) -> Report:
    """Try the selected checks that lack fresh evidence, or with `everything` all of them.

    Writes roxy.lock after each result, unless `locked`: then nothing in the tree is written, and
    the report says how the lock differs from what was proven (S50). Raises `UsageError`,
    `ConfigError`, `LockfileError` and more before the first run; an `Interrupted` carries the
    report of what was finished (S32).
    """
    with session.interrupts.breakable():
        work = _work(session, names, everything=everything)
    manifest, trouble = session.manifest, work.trouble
    recorder = Recorder(session.tree, session.repository.state, work.lock.only(manifest.checks))
    tally = _Tally(manifest, work, session.kept)
    listeners: list[Emit] = [tally] if locked else [recorder, tally]

    def begin() -> None:
        if not locked and trouble is None:
            recorder.write()

    try:
        try_all(session, manifest, work.jobs, listeners, emit, begin=begin)
    except Interrupted as interrupted:
        interrupted.report = tally.report(interrupted=interrupted.signum)
        if not locked:
            recorder.write()  # whatever a check made of it meanwhile (S32)
        raise
    if not locked:
        recorder.write()
        prune(session.repository.state, recorder.lock, time.time())
        return tally.report()
    now, trouble_now = _read_lock(session, everything=True)
    if trouble_now is None:
        prune(session.repository.state, now, time.time())
    differences = (
        *_differences(work.lock, tally, trouble),
        *_differences(now, tally, trouble_now),  # a check may have written it meanwhile
    )
    return tally.report(lock_differences=tuple(dict.fromkeys(differences)))


@dataclass(frozen=True, slots=True)
class _Work:
    """What there is to do."""

    selected: tuple[Check, ...]
    standings: Mapping[str, Standing]
    """Of every check, by its id, before anything runs."""
    jobs: tuple[Check, ...]
    lock: Lockfile
    trouble: str | None
    """What is wrong with roxy.lock, which then counts as empty."""


def _work(session: Session, names: Sequence[str], *, everything: bool) -> _Work:
    manifest = session.manifest
    selected = plan.select(manifest, names)
    lock, trouble = _read_lock(session, everything=everything)
    covered = coverage.find_covered(session.repository, session.tree, manifest.checks)
    now = contents.read(session.digests, covered.stamped)
    standings = {one.check.id: one for one in take_standings(manifest, covered, now, lock)}
    jobs = tuple(
        check for check in selected if everything or standings[check.id].state is not State.VERIFIED
    )
    return _Work(selected, standings, jobs, lock, trouble)


def _read_lock(session: Session, *, everything: bool) -> tuple[Lockfile, str | None]:
    """Return roxy.lock, or with `everything` an empty one and what is wrong with it (S37)."""
    try:
        return lockfile.read(session.tree.fd), None
    except LockfileError as error:
        if not everything:
            raise
        return Lockfile(), error.faults[0].what


def try_all(
    session: Session,
    manifest: Manifest,
    jobs: Sequence[Check],
    listeners: Sequence[Emit],
    emit: Emit,
    *,
    begin: Callable[[], None] = lambda: None,
    keeps_receipts: bool = True,
) -> None:
    """Try checks; `begin` is called once it is known that every patch can be read (S19).

    `manifest` has the patches of each. Raises `ConfigError` and all that a try can.
    """
    if not jobs:
        return
    keepers = [_keep_receipts(session, manifest)] if keeps_receipts else []
    everybody: list[Emit] = [*keepers, *listeners, emit]

    def tell(event: Event) -> None:
        for listener in everybody:
            listener(event)

    with ExitStack() as stack:
        for keeper in keepers:
            stack.enter_context(keeper)  # the first, so left when all is put back
        place = Workspace(session, tell)
        stack.callback(place.close)
        refuse_unreadable(manifest, jobs, place)
        begin()
        touched = _touched(manifest, jobs, place)
        past = past_seconds(session.repository.state, jobs)
        left = list(jobs)

        def choose() -> Check | None:
            return plan.next_job(left, lambda job: place.is_rested(touched[job.id]))

        place.upcoming = choose
        while check := choose():
            session.interrupts.check()
            left.remove(check)
            seconds_left = _seconds_left(past, [check, *left])
            number, expected = len(jobs) - len(left), past.get(check.id)
            tell(CheckStarted(check, number, len(jobs), seconds_left, expected))
            patches = manifest.patches_of(check)
            tell(CheckFinished(verify_check(check, patches, place)))


def _seconds_left(past: Mapping[str, float], checks: Sequence[Check]) -> float | None:
    known = [past[check.id] for check in checks if check.id in past]
    return sum(known) if len(known) == len(checks) else None


def _touched(
    manifest: Manifest, jobs: Sequence[Check], place: Workspace
) -> dict[str, tuple[bytes, ...]]:
    """Return the files that each check's mutations name, by its id."""
    return {
        check.id: tuple(
            path for one in check.mutations for path in place.touched(manifest.patches[one])
        )
        for check in jobs
    }


def _keep_receipts(session: Session, manifest: Manifest) -> ReceiptKeeper:
    repository = session.repository
    with session.interrupts.breakable():
        commit, dirty = repository.commit(), repository.is_dirty()
    return ReceiptKeeper(repository.state, manifest.patches_of, commit, dirty, __version__)


def refuse_unreadable(
    manifest: Manifest, jobs: Sequence[Check], place: Workspace | Scratch
) -> None:
    """Raise `ConfigError` for every patch that git cannot read at all (S19)."""
    faults = []
    paths = dict.fromkeys(path for check in jobs for path in check.mutations)
    place.prepare([manifest.patches[path] for path in paths])
    for path in paths:
        complaint = place.unreadable(manifest.patches[path])
        if complaint is not None:
            faults.append(
                Fault(
                    f"git cannot read the mutation `{path}`: {complaint}",
                    where=", ".join(f"check `{one.id}`" for one in jobs if path in one.mutations),
                    hint="make it anew with `git diff`",
                )
            )
    if faults:
        raise ConfigError.of(faults)


# ------------------------------------------------------------------- what it comes to


class _Tally:
    """Listens for results and adds them up."""

    def __init__(self, manifest: Manifest, work: _Work, kept: tuple[Kept, ...]) -> None:
        self._manifest = manifest
        self._work = work
        self._kept = kept
        self._outcomes: dict[str, Outcome] = {}
        self.lock = Lockfile()
        """What these results alone prove."""
        self.blocked: set[tuple[str, str]] = set()
        """Claim and check of what could not be tried here."""

    def __call__(self, event: Event) -> None:
        if isinstance(event, CheckFinished):
            outcome = event.outcome
            self._outcomes[outcome.check.id] = outcome
            self.lock = with_outcome(self.lock, event)
            if outcome.result is Result.BLOCKED:
                self.blocked.add((outcome.check.claim, outcome.check.name))

    def report(
        self,
        *,
        interrupted: int | None = None,
        lock_differences: tuple[str, ...] | None = None,
    ) -> Report:
        return Report(
            entries=tuple(self._entry(check) for check in self._work.selected),
            descriptions=descriptions(self._manifest),
            interrupted=interrupted,
            lock_differences=lock_differences,
            kept=self._kept,
        )

    def _entry(self, check: Check) -> Entry:
        outcome = self._outcomes.get(check.id)
        if outcome is None:
            standing = self._work.standings[check.id]
            return Entry(check, standing.state, standing.reason)
        state = {
            Result.VERIFIED: State.VERIFIED,
            Result.REJECTED: State.UNVERIFIED,
            Result.BLOCKED: self._work.standings[check.id].state,  # its entry is left alone (S42)
        }[outcome.result]
        return Entry(check, state, outcome.reason, outcome)


def _differences(disk: Lockfile, tally: _Tally, trouble: str | None) -> tuple[str, ...]:
    """Say how roxy.lock differs from what was proven; what was blocked has no say (S50)."""
    if trouble is not None:
        return (trouble,)
    lines = []
    proven = tally.lock
    for names in sorted((disk.fingerprints.keys() | proven.fingerprints.keys()) - tally.blocked):
        on_disk, shown = disk.fingerprints.get(names), proven.fingerprints.get(names)
        name = "/".join(names)
        if on_disk is None:
            lines.append(f"missing entry `{name}`: it was proven, but roxy.lock does not have it")
        elif shown is None:
            lines.append(f"extra entry `{name}`: roxy.lock has it, but it was not proven")
        elif on_disk != shown:
            lines.append(f"other entry `{name}`: roxy.lock has it for other code")
    return tuple(lines)
