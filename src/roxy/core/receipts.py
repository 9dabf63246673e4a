"""What is kept of every try, good or bad (S39): one JSON file each, never rewritten.

A receipt's name ends in the SHA-256 of its bytes, and each names the one before it; that one may
be pruned by now. `tries` reads them.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from roxy.core import files
from roxy.core.errors import DiskError, RestoreError
from roxy.core.events import CheckFinished, RunStarted
from roxy.core.model import Result
from roxy.core.status import optional_keys
from roxy.core.tries import SCHEMA, Archive, file_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from roxy.core.events import Event
    from roxy.core.model import Check
    from roxy.core.outcome import Outcome, Run

_LOOKED_AT = 300
"""Receipts that are read for past durations, the newest; reading more would take longer than it
is worth."""
_SECOND = 1_000_000_000


class ReceiptKeeper:
    """Listens to a verify and writes a receipt for each try.

    A note `started-*` lies beside them from before the first run until the receipt is there, so a
    verify that died is visible. Leaving it as a context removes the note of a try that roxy ended
    itself: that one did not die. Where files could not be put back, it stays.
    """

    def __init__(
        self,
        state: Path,
        patches: Callable[[Check], Sequence[bytes]],
        commit: str | None,
        dirty: bool,  # noqa: FBT001 - a fact, not a switch
        version: str,
    ) -> None:
        self._folder = state / "receipts"
        self._patches = patches
        self._about = {"commit": commit, "dirty": dirty, "roxy": version}
        self._previous = next((name.sha256 for name in Archive(state).names), None)
        self._started: Path | None = None
        files.make_folder(self._folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if not isinstance(error, RestoreError):
            with suppress(DiskError):  # what ended the try is the news
                self._remove_note()

    def __call__(self, event: Event) -> None:
        """Take note of one event. Raises `DiskError`."""
        if isinstance(event, RunStarted) and event.number == 1:
            self._note_start(event.check)
        elif isinstance(event, CheckFinished):
            self._write(event.outcome)

    def _note_start(self, check: Check) -> None:
        now = time.time_ns()
        self._started = self._folder / f"started-{stamp(now)}-{os.getpid()}.json"
        note = {"schema": SCHEMA, "check": check.id, "time": _rfc3339(now), "pid": os.getpid()}
        files.write(self._started, json.dumps(note).encode())

    def _write(self, outcome: Outcome) -> None:
        now = time.time_ns()
        data = json.dumps(self._receipt(outcome, now), indent=1).encode("ascii")
        sha256 = hashlib.sha256(data).hexdigest()
        name = file_name(stamp(now), outcome.check.id, outcome.fingerprint, sha256)
        files.write(self._folder / name, data)
        self._previous = sha256
        self._remove_note()

    def _remove_note(self) -> None:
        if self._started is not None:
            files.remove(self._started)
            self._started = None

    def _receipt(self, outcome: Outcome, now: int) -> dict[str, Any]:
        check = outcome.check
        return {
            "schema": SCHEMA,
            "time": _rfc3339(now),
            **self._about,
            "check": {
                "claim": check.claim,
                "check": check.name,
                "run": check.run,
                "covers": list(check.covers),
                "mutations": [
                    {"path": name, "sha256": hashlib.sha256(patch).hexdigest()}
                    for name, patch in zip(check.breakages, self._patches(check), strict=True)
                ],
                **optional_keys(check),
            },
            "fingerprint": outcome.fingerprint,
            "files": {
                path.decode("utf-8", "surrogateescape"): digest.hex()
                for path, digest in outcome.digests.items()
            },
            "runs": [_run(run) for run in outcome.runs],
            "result": outcome.result.value,
            "reason": outcome.reason and {"code": outcome.reason.code, "text": outcome.reason.text},
            "notes": list(outcome.notes),
            "previous": self._previous,
        }


def _run(run: Run) -> dict[str, Any]:
    return {
        "phase": run.phase.value,
        "mutation": run.mutation,
        "exit": run.exit,
        "signal": run.signal,
        "timed_out": run.timed_out,
        "matched": run.matched,
        "ran": run.ran,
        "seconds": round(run.seconds, 3),
        "log": run.log.name,
        "log_size": run.log_size,
        "log_sha256": run.log_sha256,
    }


def stamp(now: int) -> str:
    """Return what stands in a name for a moment, given in nanoseconds."""
    seconds = time.strftime("%Y%m%dT%H%M%S", time.gmtime(now // _SECOND))
    return f"{seconds}.{now // 1000 % 1_000_000:06}Z"


def _rfc3339(now: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now // _SECOND))


def past_seconds(state: Path, checks: Iterable[Check]) -> dict[str, float]:
    """Return how long the runs of each check took in its last whole try on this machine, by id."""
    archive = Archive(state)
    wanted = {check.id for check in checks}
    found: dict[str, float] = {}
    for name in archive.names[:_LOOKED_AT]:
        if not wanted:
            break
        one = archive.read(name)
        if one and one.id in wanted and one.result == Result.VERIFIED:
            found[one.id] = sum(run.seconds for run in one.runs)
            wanted.remove(one.id)
    return found
