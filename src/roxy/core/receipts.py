"""What is kept of every try, good or bad (S39): one JSON file each, never rewritten.

A receipt's name ends in the SHA-256 of its bytes, and each names the one before it. They explain;
no state or verdict is ever taken from them.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import time
from typing import TYPE_CHECKING, Any

from roxy.core import files, regular_file
from roxy.core.events import CheckFinished, RunStarted
from roxy.core.model import Result
from roxy.core.status import Basis

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from roxy.core.events import Event
    from roxy.core.model import Check
    from roxy.core.outcome import Outcome, Run

SCHEMA = "roxy.receipt/1"
_FINGERPRINT_DIGITS = 12
"""Of a fingerprint, in a receipt's name, so that the one for some evidence is found by name."""
_SHA256_DIGITS = 64
_LOOKED_AT = 300
"""Receipts that are read for past durations, the newest; reading more would take longer than it
is worth."""
_MOST = 256 * regular_file.MEBIBYTE
"""Bytes of a receipt; one of a million covered files has half as many."""
_NAME = re.compile(rf"[0-9T.]+Z-(?:none|[0-9a-f]{{12}})-[0-9a-f]{{{_SHA256_DIGITS}}}\.json")


class ReceiptKeeper:
    """Listens to a verify and writes a receipt for each try.

    A note `started-*` lies beside them from before the first run until the receipt is there, so a
    verify that died is visible.
    """

    def __init__(
        self,
        state: Path,
        patches: Mapping[str, bytes],
        commit: str | None,
        dirty: bool,  # noqa: FBT001 - a fact, not a switch
        version: str,
    ) -> None:
        self._folder = state / "receipts"
        self._patches = patches
        self._about = {"commit": commit, "dirty": dirty, "roxy": version}
        self._previous = _newest(self._folder)
        self._started: Path | None = None
        files.make_folder(self._folder)

    def __call__(self, event: Event) -> None:
        """Take note of one event. Raises `DiskError`."""
        if isinstance(event, RunStarted) and event.number == 1:
            self._note_start(event.check)
        elif isinstance(event, CheckFinished):
            self._write(event.outcome)

    def _note_start(self, check: Check) -> None:
        stamp = _stamp()
        self._started = self._folder / f"started-{stamp}-{os.getpid()}.json"
        note = {"schema": SCHEMA, "check": check.id, "time": _now(), "pid": os.getpid()}
        files.write(self._started, json.dumps(note).encode())

    def _write(self, outcome: Outcome) -> None:
        data = json.dumps(self._receipt(outcome), indent=1).encode("ascii")
        sha256 = hashlib.sha256(data).hexdigest()
        fingerprint = (outcome.fingerprint or "").partition(":")[2][:_FINGERPRINT_DIGITS]
        files.write(self._folder / f"{_stamp()}-{fingerprint or 'none'}-{sha256}.json", data)
        self._previous = sha256
        if self._started is not None:
            files.remove(self._started)
            self._started = None

    def _receipt(self, outcome: Outcome) -> dict[str, Any]:
        check = outcome.check
        return {
            "schema": SCHEMA,
            "time": _now(),
            **self._about,
            "check": {
                "claim": check.claim,
                "check": check.name,
                "run": check.run,
                "covers": list(check.covers),
                "mutations": [
                    {"path": path, "sha256": hashlib.sha256(self._patches[path]).hexdigest()}
                    for path in check.mutations
                ],
                **_optional_keys(check),
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


def _optional_keys(check: Check) -> dict[str, Any]:
    """Return what a check has of the keys that it need not have."""
    return {
        name.replace("_", "-"): value
        for name, default in check._field_defaults.items()
        if (value := getattr(check, name)) != default
    }


def _run(run: Run) -> dict[str, Any]:
    return {
        "phase": run.phase.value,
        "mutation": run.mutation,
        "exit": run.exit,
        "signal": run.signal,
        "timed_out": run.timed_out,
        "matched": run.matched,
        "seconds": round(run.seconds, 3),
        "log": run.log.name,
        "log_size": run.log_size,
        "log_sha256": run.log_sha256,
    }


def _stamp() -> str:
    now = time.time_ns()
    seconds = time.strftime("%Y%m%dT%H%M%S", time.gmtime(now // 1_000_000_000))
    return f"{seconds}.{now // 1000 % 1_000_000:06}Z"


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _names(folder: Path) -> list[str]:
    """Return the names of receipts, oldest first."""
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    return sorted(filter(_NAME.fullmatch, names))


def _newest(folder: Path) -> str | None:
    names = _names(folder)
    return names[-1].removesuffix(".json")[-_SHA256_DIGITS:] if names else None


def find_basis(state: Path, check: Check, fingerprint: str) -> Basis | None:
    """Return what some recorded evidence was made from, if this machine has its receipt.

    A receipt whose bytes are not what its name says, or that roxy did not write, is passed over.
    """
    folder = state / "receipts"
    digits = fingerprint.partition(":")[2][:_FINGERPRINT_DIGITS]
    for name in reversed(_names(folder)):
        if f"-{digits}-" not in name:
            continue
        try:
            receipt = _read(folder / name)
            named = (receipt["fingerprint"], receipt["check"]["claim"], receipt["check"]["check"])
            if named == (fingerprint, check.claim, check.name):
                return _basis(receipt)
        except regular_file.UNUSABLE:
            continue
    return None


def _basis(receipt: dict[str, Any]) -> Basis:
    return Basis(
        run=str(receipt["check"]["run"]),
        patches=tuple(str(one["sha256"]) for one in receipt["check"]["mutations"]),
        files={
            path.encode("utf-8", "surrogateescape"): str(digest)
            for path, digest in receipt["files"].items()
        },
    )


def past_seconds(state: Path, checks: Iterable[Check]) -> dict[str, float]:
    """Return how long the runs of each check took in its last whole try on this machine, by id."""
    folder = state / "receipts"
    wanted = {check.id for check in checks}
    found: dict[str, float] = {}
    for name in list(reversed(_names(folder)))[:_LOOKED_AT]:
        if not wanted:
            break
        try:
            receipt = _read(folder / name)
            check = f"{receipt['check']['claim']}/{receipt['check']['check']}"
            if check in wanted and receipt["result"] == Result.VERIFIED:
                seconds = sum(float(run["seconds"]) for run in receipt["runs"])
                if math.isfinite(seconds):
                    found[check] = seconds
                    wanted.remove(check)
        except regular_file.UNUSABLE:
            continue
    return found


def _read(path: Path) -> dict[str, Any]:
    data = regular_file.read(None, os.fsencode(path), _MOST, follow_links=False)
    if hashlib.sha256(data).hexdigest() != path.name.removesuffix(".json")[-_SHA256_DIGITS:]:
        raise ValueError("its bytes are not those that its name promises")
    value: dict[str, Any] = json.loads(data)
    if value["schema"] != SCHEMA:
        raise ValueError("another roxy wrote it")
    return value
