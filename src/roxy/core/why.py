"""Why checks are not verified: what the last `gate` saw tells, or receipts, or git.

States are decided before this is asked, and nothing here changes one.
"""

from __future__ import annotations

import hashlib
import time
from functools import cached_property
from typing import TYPE_CHECKING

from roxy.core import coverage
from roxy.core.fingerprint import fingerprint_of
from roxy.core.model import Details, Reason, Result, State
from roxy.core.status import CHANGED, Basis, compare, in_words, optional_keys
from roxy.core.tries import Archive, CutShort, Try, moment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from roxy.core.contents import Contents
    from roxy.core.git import Repository
    from roxy.core.lockfile import Lockfile
    from roxy.core.model import Check, Manifest, Standing

_WIDTH = 300
"""Characters of a reason that a receipt gives, at most."""
_COMMIT_DIGITS = 12
_SHORTER = {
    "mutation-not-noticed": "the mutation was not noticed",
    "files-changed": "covered files changed while it ran",
}
"""What is said of an earlier rejection, by its code, instead of its whole text."""


class Why:
    """Looks back for the checks of one manifest that are not verified, once for all of them."""

    def __init__(
        self,
        repository: Repository,
        manifest: Manifest,
        lock: Lockfile,
        covered: Mapping[str, tuple[bytes, ...]],
        contents: Contents,
        earlier: Contents,
    ) -> None:
        self._repository = repository
        self._manifest = manifest
        self._lock = lock
        self._covered = covered
        self._contents = contents
        self._earlier = earlier
        self._archive = Archive(repository.state)
        self._now = time.time()

    def explain(self, standings: Sequence[Standing]) -> dict[str, Reason]:
        """Return the reason for each check that is not verified, by its id."""
        open_ones = [one for one in standings if one.state is not State.VERIFIED]
        stale = [one for one in open_ones if one.state is State.STALE]
        reasons = self._of_stale(stale)
        for one in stale:
            reasons[one.check.id] = self._with_rejection(one, reasons[one.check.id])
        unverified = [one for one in open_ones if one.state is State.UNVERIFIED]
        last = self._archive.last_of_each([one.check for one in unverified])
        return (
            reasons
            | {one.check.id: self._of_try(one, last) for one in unverified}
            | (self._of_untried([one.check for one in unverified if one.check.id not in last]))
        )

    # --------------------------------------------------------------- evidence for other code

    def _of_stale(self, stale: Sequence[Standing]) -> dict[str, Reason]:
        reasons = {}
        without = {}
        for one in stale:
            recorded = self._lock.fingerprint(one.check) or ""
            details = self._since_seen(one.check, recorded) or self._since_tried(
                one.check, recorded
            )
            if details is None:
                without[one.check.id] = (one.check, recorded)
            else:
                reasons[one.check.id] = Reason("changed", in_words(details) or CHANGED, details)
        return reasons | self._by_git(without)

    def _since_seen(self, check: Check, recorded: str) -> Details | None:
        """Return the same as `_since_tried`, if the evidence is for the files that `gate` saw last.

        That takes apart no receipt, which may be long. Without one this is no answer either: it
        would be another than that of the next command, for which `gate` has seen other files.
        """
        then = coverage.files_of(check, self._earlier.paths)
        files = self._earlier.of(then)
        if fingerprint_of(check, self._manifest.patches_of(check), files) != recorded:
            return None
        name = self._archive.name_of_evidence(check, recorded)
        if name is None:
            return None
        now = self._covered[check.id]
        return Details(
            changed=tuple(sorted(self._changed.intersection(now, then))),
            added=tuple(sorted(set(now).difference(then))) if now != then else (),
            removed=tuple(sorted(set(then).difference(now))) if now != then else (),
            receipt=name.file,
            time=moment(name),
        )

    @cached_property
    def _digests(self) -> dict[bytes, bytes]:
        return self._contents.digests()

    @cached_property
    def _changed(self) -> set[bytes]:
        return self._contents.changed_since(self._earlier)

    def _since_tried(self, check: Check, recorded: str) -> Details | None:
        """Return what differs from what the receipt of the evidence tells, if it is here."""
        evidence = self._archive.evidence(check, recorded)
        if evidence is None:
            return None
        details = compare(evidence.basis, self._basis(check))
        return details._replace(receipt=evidence.name.file, time=evidence.time)

    def _by_git(self, without: Mapping[str, tuple[Check, str]]) -> dict[str, Reason]:
        """Return the reasons of stale checks of whose evidence this machine has no receipt."""
        reasons = dict.fromkeys(without, Reason("changed", CHANGED))
        if not without:
            return reasons
        from roxy.core import lock_history  # noqa: PLC0415 - most often a receipt tells it

        commits = lock_history.find_commits(
            self._repository, {recorded for _, recorded in without.values()}
        )
        for commit in sorted(set(commits.values())):
            checks = [one for one, recorded in without.values() if commits.get(recorded) == commit]
            found = lock_history.changes_since(self._repository, commit, checks, self._covered)
            for name, details in found.items():
                words = in_words(details)
                if words:
                    text = f"{words} since commit {commit[:_COMMIT_DIGITS]}"
                    reasons[name] = Reason("changed", text, details)
        return reasons

    def _with_rejection(self, standing: Standing, reason: Reason) -> Reason:
        """Add that this very code was tried already, and how that ended."""
        last = self._archive.last_if_of(standing.check, standing.fingerprint)
        if last is None or not _is_bad(last):
            return reason
        return reason._replace(text=f"{reason.text}; {self._how_it_ended(last)}")

    # --------------------------------------------------------------- no evidence

    def _of_try(self, standing: Standing, last: Mapping[str, Try | CutShort]) -> Reason:
        one = last.get(standing.check.id)
        if one is None:
            return Reason("never-run", "never run")
        if isinstance(one, CutShort):
            return Reason(
                "cut-short",
                f"its last try was cut short {self._day(one)}",
                Details(receipt=one.file, time=one.time),
            )
        hint = ""
        if one.fingerprint != standing.fingerprint:
            older = self._archive.evidence(standing.check, standing.fingerprint)
            if older is not None and not _is_bad(older):
                one, hint = older, "; `roxy verify` makes it again"
        details = compare(one.basis, self._basis(standing.check))
        details = details._replace(receipt=one.name.file, time=one.time)
        since = in_words(details)
        if _is_bad(one):
            code, text = one.result, self._how_it_ended(one)
        else:
            code, day = "entry-gone", self._day(one)
            text = f"proven {day}, but `roxy.lock` has no entry for it{hint}"
        return Reason(code, f"{text}; since then {since}" if since else text, details)

    def _of_untried(self, checks: Sequence[Check]) -> dict[str, Reason]:
        """Return the reasons of those whose evidence, made elsewhere, was lost."""
        if not checks:
            return {}
        from roxy.core import lock_history  # noqa: PLC0415 - as above

        head = lock_history.lock_in_head(self._repository)
        text = "`roxy.lock` has no entry for it, though the one in HEAD has"
        return {
            check.id: Reason("entry-gone", text)
            for check in checks
            if head.fingerprint(check) is not None
        }

    def _how_it_ended(self, one: Try) -> str:
        how = f"{one.result} {self._day(one)}"
        if one.reason is None:
            return how
        return f"{how}, {_SHORTER.get(one.reason.code, one.reason.text[:_WIDTH])}"

    def _day(self, one: Try | CutShort) -> str:
        from roxy.core import when  # noqa: PLC0415 - most often only files changed

        return when.day(one.time, self._now)

    def _basis(self, check: Check) -> Basis:
        patches = (self._manifest.patches[path] for path in check.mutations)
        return Basis(
            run=check.run,
            patches=tuple(hashlib.sha256(patch).hexdigest() for patch in patches),
            files={
                path: self._digests[path].hex()
                for path in self._covered[check.id]
                if path in self._digests
            },
            keys=optional_keys(check),
        )


def _is_bad(one: Try) -> bool:
    """Say whether a try ended in a way that its check did not get evidence for."""
    return one.result in set(Result) - {Result.VERIFIED}
