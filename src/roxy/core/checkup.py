"""What is wrong or weak about roxy in one repository: what `roxy doctor` tells.

Nothing is run but git, and nothing is written but roxy's own scratch folder.
"""

from __future__ import annotations

import os
import re
import shutil
from typing import TYPE_CHECKING

from roxy.core import coverage, git, glob, lockfile
from roxy.core.command_words import KnownFiles, named_files
from roxy.core.errors import LockfileError, RoxyError
from roxy.core.finding import Finding, Severity, counted
from roxy.core.git_hooks import look_at_hooks
from roxy.core.keepsakes import look_at_entries, look_at_state
from roxy.core.model import LOCKFILE, MANIFEST
from roxy.core.mutation import Misfit, Scratch
from roxy.core.status import name_files
from roxy.core.stock import find_drift

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from roxy.core.errors import Fault
    from roxy.core.model import Check, Manifest
    from roxy.core.session import Session

OLDEST_GIT = (2, 31)
_VERSION = re.compile(rb"git version (\d+)\.(\d+)")
_PLAIN_TEXT = frozenset({"unspecified", "unset"})


def look_at_tools(environ: Mapping[str, str]) -> list[Finding]:
    """Return what roxy needs and this machine lacks; with any of it, there is no more to see."""
    path = environ.get("PATH", os.defpath)
    missing = [
        Finding(Severity.ERROR, "no-tool", f"`{name}` is not on PATH", None, hint)
        for name, hint in (
            ("git", "install git 2.31 or newer, or mend PATH"),
            ("sh", "mend PATH; checks run through `sh -c`"),
        )
        if shutil.which(name, path=path) is None
    ]
    return missing or _old_git(environ)


def _old_git(environ: Mapping[str, str]) -> list[Finding]:
    answer = git.call(["version"], cwd=os.sep, env=git.git_environment(environ))
    found = _VERSION.match(answer.stdout)
    if found is None or (int(found[1]), int(found[2])) >= OLDEST_GIT:
        return []
    what = f"git {int(found[1])}.{int(found[2])} is too old"
    return [Finding(Severity.ERROR, "old-git", what, None, "install git 2.31 or newer")]


def examine(session: Session, *, verbose: bool) -> list[Finding]:
    """Return everything that is found, in a fixed order; if `verbose`, with long lists of files.

    Raises `GitError`, `DiskError` and `Interrupted`.
    """
    with session.interrupts.breakable():
        found = [*look_at_hooks(session.repository), *look_at_state(session.repository.state)]
        try:
            manifest = session.manifest
        except RoxyError as error:
            return [*map(_of_fault, error.faults), *found]
        return [*found, *_Checkup(session, manifest, verbose=verbose).findings()]


def _of_fault(fault: Fault) -> Finding:
    return Finding(Severity.ERROR, "config", fault.what, fault.where, fault.hint)


class _Checkup:
    """The checks of one manifest beside the files that are there."""

    def __init__(self, session: Session, manifest: Manifest, *, verbose: bool) -> None:
        self._session = session
        self._repository = session.repository
        self._manifest = manifest
        self._verbose = verbose
        listed = self._repository.files([b""])
        stamps = session.tree.stamps(path for path in listed if path != LOCKFILE)
        self._files = tuple(stamps)
        globs = {text for check in manifest.checks for text in _globs(check)}
        self._unions: dict[tuple[str, ...], frozenset[bytes]] = {}
        self._matched = {text: glob.parse(text).matching(self._files) for text in globs}

    def findings(self) -> Iterator[Finding]:
        yield from self._idle_globs()
        yield from self._lock()
        yield from self._patches()
        yield from self._commands()
        yield from self._attributes()
        yield from self._overlaps()
        yield from self._uncovered()

    def _union(self, globs: tuple[str, ...]) -> frozenset[bytes]:
        if globs not in self._unions:
            self._unions[globs] = frozenset().union(*(self._matched[text] for text in globs))
        return self._unions[globs]

    def _idle_globs(self) -> Iterator[Finding]:
        try:
            coverage.find_covered(self._repository, self._session.tree, self._manifest.checks)
        except RoxyError as error:
            yield from map(_of_fault, error.faults)

    def _lock(self) -> Iterator[Finding]:
        try:
            lock = lockfile.read(self._session.tree.fd)
        except LockfileError as error:
            for fault in error.faults:
                yield Finding(Severity.ERROR, "lock", fault.what, fault.where, fault.hint)
            return
        is_gone = self._session.tree.look(LOCKFILE) is None
        if is_gone and self._repository.head_blobs([LOCKFILE]):
            yield Finding(
                Severity.WARNING,
                "lock-gone",
                "`roxy.lock` is in HEAD, but not on the disk",
                "roxy.lock",
                "`git checkout roxy.lock` brings it back, `roxy verify` makes it anew",
            )
        yield from look_at_entries(self._repository.state, self._manifest.checks, lock)

    def _patches(self) -> Iterator[Finding]:
        """Give the mutations that no longer fit as they were written (S18-S20)."""
        scratch = Scratch(self._repository, self._session.tree)
        try:
            scratch.prepare(list(self._manifest.patches.values()))
            for check in self._manifest.checks:
                covered = self._union(check.covers)
                for path in check.mutations:
                    yield from self._patch(scratch, check, path, covered)
        finally:
            scratch.clear()

    def _patch(
        self, scratch: Scratch, check: Check, path: str, covered: frozenset[bytes]
    ) -> Iterator[Finding]:
        patch = self._manifest.patches[path]
        drift = find_drift(scratch, check, path, patch, covered)
        if drift is not None and not drift.is_readable:
            yield Finding(
                Severity.ERROR,
                "patch-unreadable",
                drift.text,
                f"check `{check.id}`",
                "make it anew with `git diff`",
            )
            return
        fit = scratch.fit(path, patch, covered)
        if isinstance(fit, Misfit):
            yield Finding(
                Severity.ERROR,
                fit.reason.code,
                fit.reason.text,
                f"check `{check.id}`",
                "break the code anew, and make it with `git diff`",
            )
            return
        if drift is not None:
            yield Finding(
                Severity.WARNING,
                "patch-moved",
                drift.text,
                f"check `{check.id}`",
                f"{drift.advice} while its place can still be found",
            )

    def _commands(self) -> Iterator[Finding]:
        """Give what a `run` names although no glob of its check covers it."""
        known = KnownFiles(self._files)
        for check in self._manifest.checks:
            counted_in = self._union(_globs(check))
            for named in named_files(check.run, known):
                missing = [path for path in named.files if path not in counted_in]
                if missing:
                    yield Finding(
                        Severity.WARNING,
                        "not-an-input",
                        _names_uncovered(named.word, named.files, missing),
                        f"check `{check.id}`",
                        "name it in `inputs` (or `covers`), or it can change and nobody asks again",
                    )

    def _attributes(self) -> Iterator[Finding]:
        """Give the covered files of which git may write other bytes than it has stored."""
        covered = sorted(self._union(tuple(self._matched)))
        if not covered:
            return
        values = {
            name: self._repository.attribute(name, covered) for name in ("filter", "text", "eol")
        }
        groups: dict[tuple[str, str], list[bytes]] = {}
        for path in covered:
            for name, by_path in values.items():
                value = by_path.get(path, "unspecified")
                # With `eol` in force `text` adds nothing.
                if value in _PLAIN_TEXT or (
                    name == "text" and values["eol"][path] not in _PLAIN_TEXT
                ):
                    continue
                groups.setdefault((name, value), []).append(path)
        for (name, value), paths in groups.items():
            yield _attribute(name, value, paths)

    def _overlaps(self) -> Iterator[Finding]:
        """Give the globs of a check that mean the same files."""
        for check in self._manifest.checks:
            globs = _globs(check)
            if sum(len(self._matched[text]) for text in globs) == len(self._union(globs)):
                continue
            by_file: dict[bytes, list[str]] = {}
            for text in globs:
                for path in self._matched[text]:
                    by_file.setdefault(path, []).append(text)
            groups: dict[tuple[str, ...], list[bytes]] = {}
            for path, texts in by_file.items():
                if len(texts) > 1:
                    groups.setdefault(tuple(texts), []).append(path)
            for same, paths in groups.items():
                listed = " and ".join(f"`{text}`" for text in same)
                yield Finding(
                    Severity.INFO,
                    "covered-twice",
                    f"{listed} cover the same {counted(len(paths), 'file')}: {name_files(paths)}",
                    f"check `{check.id}`",
                    "one of them may be enough",
                )

    def _uncovered(self) -> Iterator[Finding]:
        """Give the tracked files that no claim is about; roxy's own are not meant."""
        covered = self._union(tuple(self._matched))
        own = {MANIFEST, *(path.encode() for path in self._manifest.patches)}
        with git.Listing(self._repository, [b""], "--cached") as listing:
            tracked = set(listing.paths()).intersection(self._files) - own
        uncovered = sorted(tracked - covered)
        if not uncovered:
            return
        if self._verbose:
            for path in uncovered:
                name = path.decode("utf-8", "surrogateescape")
                yield Finding(Severity.INFO, "no-claim", "no claim covers this file", f"`{name}`")
            return
        yield Finding(
            Severity.INFO,
            "no-claim",
            f"no claim covers {len(uncovered)} of {counted(len(tracked), 'tracked file')}",
            None,
            "`roxy doctor -v` lists them",
        )


def _globs(check: Check) -> tuple[str, ...]:
    """Return the globs of all files that the fingerprint of a check is made from."""
    return (*check.covers, *getattr(check, "inputs", ()))


def _names_uncovered(word: str, files: Sequence[bytes], missing: Sequence[bytes]) -> str:
    if len(files) == 1:
        return f"its `run` names {name_files(missing)}, which none of its globs covers"
    return (
        f"its `run` names `{word}`, and none of its globs covers {len(missing)} of the "
        f"{len(files)} files there: {name_files(missing)}"
    )


def _attribute(name: str, value: str, paths: Sequence[bytes]) -> Finding:
    these = f"{counted(len(paths), 'covered file')}: {name_files(paths)}"
    if name == "filter":
        return Finding(
            Severity.WARNING,
            "filtered",
            f"git has the filter `{value}` in force for {these}",
            ".gitattributes",
            "no mutation may edit such a file, and another machine may hold other bytes of it",
        )
    if name == "eol":
        return Finding(
            Severity.INFO,
            "line-ends",
            f"git writes {value.upper()} line ends into {these}",
            ".gitattributes",
            "a file that holds others on the disk will change when it is checked out anew",
        )
    return Finding(
        Severity.INFO,
        "line-ends",
        f"git may write other line ends on another machine into {these}",
        ".gitattributes",
        "`eol=lf` beside `text` makes them the same everywhere",
    )
