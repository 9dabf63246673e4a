"""The place where checks run: its files, its commands, its mutations. In place now."""

from __future__ import annotations

import os
import secrets
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TypedDict

from roxy.core import coverage, digests, files
from roxy.core.errors import DiskError, Interrupted
from roxy.core.events import (
    EditKept,
    NeedFinished,
    NeedStarted,
    Remarked,
    RunFinished,
    RunOutput,
    RunStarted,
    RunTick,
)
from roxy.core.forward import is_rested
from roxy.core.log import last_lines
from roxy.core.mutation import Scratch
from roxy.core.outcome import Phase, Run, Unmet
from roxy.core.process import Runner, adopt_orphans
from roxy.core.scrubber import SHORTEST, Secrets
from roxy.core.search import SearchError, is_found, last_number
from roxy.core.verdict import run_count

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from roxy.core.coverage import Coverage
    from roxy.core.events import Emit
    from roxy.core.journal import Patched
    from roxy.core.model import Check
    from roxy.core.mutation import Edit, Fit, Misfit
    from roxy.core.process import Ended
    from roxy.core.session import Session
    from roxy.core.working_tree import Stamp

_LINES_LOOKED_AT = 20
"""Lines at the end of a log among which the last one with anything on it is looked for."""


class _Found(TypedDict, total=False):
    """What was found in the output of a run, as fields of a `Run`."""

    matched: bool
    ran: int | None
    unsearched: str


class Workspace:
    """The working tree itself, as `verify` needs it."""

    def __init__(self, session: Session, emit: Emit) -> None:
        self._session = session
        self._emit = emit
        self._logs = session.repository.state / "logs"
        files.make_folder(self._logs)
        adopt_orphans()
        with session.interrupts.breakable():
            env = session.repository.check_environment()
            self._scratch = Scratch(session.repository, session.tree)
        self._runner = Runner(
            root=session.repository.root,
            env=env,
            interrupts=session.interrupts,
            note=session.journal.note_run,
            secrets=self._secrets(env),
        )
        self.upcoming: Callable[[], Check | None] = lambda: None
        """Which check is next, asked once one has run; its files are listed along."""
        self._listed: Coverage | None = None
        """What was found then; good until something runs."""

    def _secrets(self, env: Mapping[str, str]) -> Secrets:
        """Return what must not be seen of the environment of checks, and tell what will be."""
        values = []
        for name in self._session.manifest.secrets:
            value = env.get(name)
            if value is not None and len(value) >= SHORTEST:
                values.append(os.fsencode(value))
            else:
                why = (
                    "it is not set"
                    if value is None
                    else f"its value has fewer than {SHORTEST} characters"
                )
                self._emit(Remarked(f"the secret `{name}` is not scrubbed: {why}"))
        return Secrets(values)

    def close(self) -> None:
        """Remove what only this verify needed; what cannot be removed the next one replaces."""
        with suppress(DiskError):  # it must not hide what else went wrong
            self._scratch.clear()

    def files(self, check: Check) -> tuple[Sequence[bytes], Sequence[bytes]]:
        """List the files of a check that is about to run, and those that a mutation may edit.

        Raises `ConfigError` (S14).
        """
        listed, self._listed = self._listed, None
        if listed is None or check.id not in listed.files or check.id in listed.idle:
            listed = self._find([check], strict=True)
        return listed.files[check.id], listed.covered[check.id]

    def files_again(self, check: Check) -> Sequence[bytes]:
        """List the files of a check that has run, and those of the next one with them."""
        upcoming = self.upcoming()
        self._listed = self._find([check, upcoming] if upcoming else [check], strict=False)
        return self._listed.files[check.id]

    def _find(self, checks: Sequence[Check], *, strict: bool) -> Coverage:
        self._session.tree.forget()
        with (
            self._session.interrupts.breakable(),
            coverage.asked(self._session.repository, checks) as question,
        ):
            self._scratch.clear()  # what each check begins with, and here it takes no time
            return question.answer(self._session.tree, strict=strict)

    def digests(self, paths: Sequence[bytes]) -> dict[bytes, bytes]:
        """Read files, each once while it is untouched (S26)."""
        with self._session.interrupts.breakable():
            return self._session.digests.read(paths)

    def stamps(self, paths: Collection[bytes]) -> dict[bytes, Stamp]:
        """Return what would change if anybody touched these files."""
        return digests.stamps(self._session.tree, paths)

    def folder_stamps(self, paths: Collection[bytes]) -> dict[bytes, Stamp]:
        """Return what would change if anybody moved the folders that these files are in."""
        return coverage.folder_stamps(self._session.tree, paths)

    def prepare(self, patches: Sequence[bytes]) -> None:
        """Get ready for these patches, which is faster than to meet one after the other."""
        with self._session.interrupts.breakable():
            self._scratch.prepare(patches)

    def unreadable(self, patch: bytes) -> str | None:
        """Return git's complaint about a patch that it cannot read at all (S19)."""
        with self._session.interrupts.breakable():
            return self._scratch.unreadable(patch)

    def fit(self, mutation: str, patch: bytes, covered: Collection[bytes]) -> Fit | Misfit:
        """Find out what a patch makes of the files as they are, without touching them."""
        with self._session.interrupts.breakable():
            return self._scratch.fit(mutation, patch, covered)

    def fit_old_code(self, commit: str, listing: bytes, covered: Collection[bytes]) -> Fit | Misfit:
        """Do the same for the files of an earlier commit, as `old_code` lists them."""
        with self._session.interrupts.breakable():
            return self._scratch.fit_old_code(commit, listing, covered)

    def touched(self, patch: bytes) -> tuple[bytes, ...]:
        """Return the files that git says a patch names."""
        with self._session.interrupts.breakable():
            return self._scratch.touched(patch)

    def is_rested(self, paths: Collection[bytes]) -> bool:
        """Say whether files can be mutated and put back without waiting for the clock (S30)."""
        self._session.tree.forget()
        now = time.time_ns()
        seen = [self._session.tree.look(path) for path in paths]
        return all(is_rested(one.st_mtime_ns, now) for one in seen if one)

    def begin(self) -> None:
        """Forget what lies in the scratch folder, which an earlier check could write to (S21)."""
        self._scratch.clear()

    @contextmanager
    def patched(self, check: Check, edits: Sequence[Edit], patched: Patched) -> Iterator[None]:
        """Let edits stand in the tree for a while, and tell what was in their way back (S28, S29)."""
        sleep = self._session.interrupts.sleep
        try:
            with self._session.journal.patched(check.id, edits, patched, sleep):
                yield
        finally:
            for kept in patched.kept:
                self._emit(EditKept(kept))

    def run(self, check: Check, phase: Phase, mutation: str | None, number: int) -> Run:
        """Run a check's command once, to the end of all that it starts. Raises `Interrupted`."""
        self._session.interrupts.check()
        self._emit(RunStarted(check, phase, number, run_count(check)))
        ended = self._execute(check, check.run)
        found = self._search(check, phase, ended)
        run = Run(
            phase=phase,
            mutation=mutation,
            exit=ended.exit,
            signal=ended.signal,
            seconds=ended.seconds,
            log=ended.log.path,
            log_size=ended.log.size,
            log_sha256=ended.log.sha256,
            timed_out=ended.timed_out,
            **found,
        )
        self._emit(RunFinished(check, run))
        return run

    def ask_for(self, check: Check, command: str) -> Unmet | None:
        """Ask for one thing that a check needs, as a run is run (S42); None when it is there.

        Raises `Interrupted`.
        """
        self._session.interrupts.check()
        self._emit(NeedStarted(check, command))
        ended = self._execute(check, command)
        self._emit(NeedFinished(check))
        lines = last_lines(ended.log.path, _LINES_LOOKED_AT) or []
        files.remove(ended.log.path)
        if ended.exit == 0 and not ended.timed_out:
            return None
        last = next((line for line in reversed(lines) if line.strip()), None)
        return Unmet(
            command=command,
            exit=ended.exit,
            signal=ended.signal,
            timed_out=ended.timed_out,
            last_line=None if last is None else last.decode("utf-8", "surrogateescape").strip(),
        )

    def _execute(self, check: Check, command: str) -> Ended:
        """Run a command to the end of all that it starts. Raises `Interrupted`."""
        # A name that tells nothing of the run: the command may find it (S23).
        log = self._logs / f"{time.strftime('%Y%m%dT%H%M%S')}-{secrets.token_hex(4)}.log"
        try:
            ended = self._runner.run(
                command,
                log,
                on_output=lambda chunk: self._emit(RunOutput(chunk)),
                on_tick=lambda: self._emit(RunTick()),
                timeout=check.timeout,
                env=dict(check.env),
            )
        except Interrupted:
            self._session.journal.forget_run()
            raise
        self._session.journal.forget_run()
        return ended

    def _search(self, check: Check, phase: Phase, ended: Ended) -> _Found:
        """Look for what a run must print, where its end alone does not decide (S41)."""
        has_passed = ended.exit == 0 and not ended.timed_out
        log, interrupts = ended.log, self._session.interrupts
        try:
            if phase is Phase.MUTATED:
                if check.fails_with is not None and not has_passed:
                    return {"matched": is_found(check.fails_with, log, interrupts)}
            elif check.ran is not None and has_passed:
                return {"ran": last_number(check.ran, log, interrupts)}
        except SearchError as error:
            return {"unsearched": str(error)}
        return {}
