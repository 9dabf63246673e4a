r"""Reports for programs: one JSON document, described by `roxy/schemas/report.json` (S47).

The text is ASCII, so that nothing in it can upset a terminal or a decoder. Names are given as they
are, not as people see them; only bytes that are not UTF-8 have no place in JSON and stand as `\xNN`,
with the true bytes in hex beside a path that has any.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from typing import TYPE_CHECKING, Any

from roxy.core.model import Result, State
from roxy.core.status import optional_keys
from roxy.core.tries import CutShort, Try
from roxy.reports.text import decoded, path_text, without_surrogates

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from roxy.core.about import About, Excerpt, Reach
    from roxy.core.errors import Fault
    from roxy.core.lookup import Contrast, History
    from roxy.core.model import Details, Entry, Reason, Report
    from roxy.core.outcome import Kept, Outcome, Run
    from roxy.core.refresh import Refreshed, Renewed
    from roxy.core.trial import Trial
    from roxy.core.tries import PastRun

REPORT_SCHEMA = "roxy.report/1"
TRY_SCHEMA = "roxy.try/1"
REFRESH_SCHEMA = "roxy.refresh/1"
ERROR_SCHEMA = "roxy.error/1"
SHOW_SCHEMA = "roxy.show/1"
HISTORY_SCHEMA = "roxy.history/1"


def document(report: Report) -> str:
    """Return the document of `report`: the same text for the same report, whatever the command."""
    return _document(
        {
            "schema": REPORT_SCHEMA,
            "checks": [
                _entry(entry, report.descriptions.get(entry.check.claim))
                for entry in report.entries
            ],
            "counts": _counts(report.entries),
            "interrupted": report.interrupted,
            "lock_differences": (
                None
                if report.lock_differences is None
                else [without_surrogates(line) for line in report.lock_differences]
            ),
            "kept": [_kept(kept) for kept in report.kept],
        }
    )


def trial_document(trial: Trial) -> str:
    """Return the document of one try."""
    return _document(
        {
            "schema": TRY_SCHEMA,
            **_result(trial.outcome),
            "mutation": without_surrogates(trial.mutation),
            "patch": _patch(trial.patch),
            "edits_kept": [_kept(kept) for kept in trial.kept],
            "saved": _optional(trial.saved),
        }
    )


def refresh_document(done: Refreshed) -> str:
    """Return the document of one refresh."""
    return _document(
        {
            "schema": REFRESH_SCHEMA,
            "patches": [_renewed(one) for one in done.patches],
            "checks": [_result(outcome) for outcome in done.outcomes],
        }
    )


def _renewed(one: Renewed) -> dict[str, Any]:
    return {
        "path": without_surrogates(one.path),
        "checks": [without_surrogates(check.id) for check in one.checks],
        "exact": one.new is None and one.misfit is None,
        "written": one.is_written,
        "reason": _reason(one.misfit),
        "notes": [without_surrogates(note) for note in one.notes],
        "old": _patch(one.old),
        "new": None if one.new is None else _patch(one.new),
    }


def _patch(patch: bytes) -> dict[str, str]:
    return {
        "text": without_surrogates(decoded(patch)),
        "sha256": hashlib.sha256(patch).hexdigest(),
    }


def _result(outcome: Outcome) -> dict[str, Any]:
    return {
        "claim": without_surrogates(outcome.check.claim),
        "check": without_surrogates(outcome.check.name),
        "reason": _reason(outcome.reason),
    } | _tried(outcome)


def error_document(faults: Iterable[Fault]) -> str:
    """Return the document that stands for a report when roxy could not judge."""
    return _document(
        {
            "schema": ERROR_SCHEMA,
            "errors": [
                {
                    "what": without_surrogates(fault.what),
                    "where": _optional(fault.where),
                    "hint": _optional(fault.hint),
                }
                for fault in faults
            ],
        }
    )


def _document(value: dict[str, Any]) -> str:
    # DEL is the one control character that json leaves as it is.
    return json.dumps(value, indent=2, allow_nan=False).replace("\x7f", "\\u007f") + "\n"


def _entry(entry: Entry, description: str | None) -> dict[str, Any]:
    outcome = entry.outcome
    reason = entry.reason if outcome is None else outcome.reason
    return {
        "claim": without_surrogates(entry.check.claim),
        "check": without_surrogates(entry.check.name),
        "description": _optional(description),
        "state": entry.state,
        "reason": _reason(reason),
    } | _tried(outcome)


def _tried(outcome: Outcome | None) -> dict[str, Any]:
    if outcome is None:
        return {"result": None, "fingerprint": None, "runs": [], "notes": [], "kept": []}
    return {
        "result": outcome.result,
        "fingerprint": outcome.fingerprint,
        "runs": [_run(run) for run in outcome.runs],
        "notes": [without_surrogates(note) for note in outcome.notes],
        "kept": [_kept(kept) for kept in outcome.kept],
    }


def _run(run: Run) -> dict[str, Any]:
    return {
        "phase": run.phase,
        "mutation": _optional(run.mutation),
        "exit": run.exit,
        "signal": run.signal,
        "timed_out": run.timed_out,
        "matched": run.matched,
        "ran": run.ran,
        "seconds": round(run.seconds, 3),
        **_path("log", run.log),
        "log_size": run.log_size,
        "log_sha256": run.log_sha256,
    }


def _kept(kept: Kept) -> dict[str, Any]:
    return {**_path("path", kept.path), **_path("place", kept.place)}


def _path(key: str, path: bytes | Path) -> dict[str, str]:
    """Return a path as text, and as hex too when the text does not say which bytes it has."""
    text = path_text(path)
    shown = without_surrogates(text)
    return {key: shown} if shown == text else {key: shown, f"{key}_bytes": os.fsencode(path).hex()}


def _reason(reason: Reason | None) -> dict[str, Any] | None:
    if reason is None:
        return None
    return {
        "code": reason.code,
        "text": without_surrogates(reason.text),
        "details": None if reason.details is None else _details(reason.details),
    }


def _details(details: Details) -> dict[str, Any]:
    return {
        "command_changed": details.command_changed,
        "mutation_changed": details.mutation_changed,
        "keys_changed": list(details.keys_changed),
        "changed": [_path("path", path) for path in details.changed],
        "added": [_path("path", path) for path in details.added],
        "removed": [_path("path", path) for path in details.removed],
        "commit": details.commit,
        "receipt": details.receipt,
        "time": details.time,
    }


def _counts(entries: Iterable[Entry]) -> dict[str, Any]:
    entries = tuple(entries)
    states = Counter(entry.state for entry in entries)
    results = Counter(entry.outcome.result for entry in entries if entry.outcome is not None)
    return {
        "checks": len(entries),
        "states": {state: states[state] for state in State},
        "results": {result: results[result] for result in Result},
    }


def _optional(text: str | None) -> str | None:
    return None if text is None else without_surrogates(text)


def dump(value: dict[str, Any]) -> str:
    """Return any other document in the form that all of them have."""
    return _document(value)


# ------------------------------------------------------------------- the past


def history_document(found: History, state: Path) -> str:
    """Return the document of `history`; `state` is roxy's own folder."""
    results = Counter(one.result for one in found.tries if isinstance(one, Try))
    return _document(
        {
            "schema": HISTORY_SCHEMA,
            "tries": [_attempt(one, state) for one in found.tries],
            "damaged": _damaged(found.damaged),
            "counts": {
                "tries": len(found.tries),
                "results": {result: results[result] for result in Result},
                "cut_short": sum(isinstance(one, CutShort) for one in found.tries),
            },
            "share_verified": (
                round(results[Result.VERIFIED] / len(found.tries), 4) if found.tries else None
            ),
        }
    )


def show_document(
    checks: Sequence[About], tries: Sequence[Try], contrast: Contrast | None, state: Path
) -> str:
    """Return the document of `show`, for checks or for one or two receipts."""
    return _document(
        {
            "schema": SHOW_SCHEMA,
            "checks": [_about(one, state) for one in checks],
            "receipts": [_receipt(one, state) for one in tries],
            "contrast": None if contrast is None else _contrast(contrast),
        }
    )


def _damaged(damaged: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"receipt": name, "what": without_surrogates(damaged[name])} for name in damaged]


def _attempt(one: Try | CutShort, state: Path) -> dict[str, Any]:
    if isinstance(one, CutShort):
        claim, _, check = one.id.partition("/")
        return {
            **dict.fromkeys(_OF_A_RECEIPT),
            "receipt": one.file,
            "time": one.time,
            "claim": without_surrogates(claim),
            "check": without_surrogates(check),
            "pid": one.pid,
            "runs": [],
            "notes": [],
        }
    values = (
        *(one.name.file, one.time, without_surrogates(one.claim), without_surrogates(one.check)),
        *(without_surrogates(one.result), _reason(one.reason), _optional(one.commit), one.dirty),
        *(None, without_surrogates(one.roxy), _optional(one.fingerprint)),
        [_past_run(run, state) for run in one.runs],
        [without_surrogates(note) for note in one.notes],
    )
    return dict(zip(_OF_A_RECEIPT, values, strict=True))


_OF_A_RECEIPT = (
    *("receipt", "time", "claim", "check", "result", "reason", "commit", "dirty"),
    *("pid", "roxy", "fingerprint", "runs", "notes"),
)


def _receipt(one: Try, state: Path) -> dict[str, Any]:
    return _attempt(one, state) | {
        "run": without_surrogates(one.run),
        "covers": [without_surrogates(glob) for glob in one.covers],
        "mutations": [
            {"path": without_surrogates(path), "sha256": without_surrogates(sha256)}
            for path, sha256 in one.mutations
        ],
        "files": [
            {**_path("path", path), "sha256": without_surrogates(digest)}
            for path, digest in sorted(one.files.items())
        ],
    }


def _past_run(run: PastRun, state: Path) -> dict[str, Any]:
    return {
        "phase": without_surrogates(run.phase),
        "mutation": _optional(run.mutation),
        "exit": run.exit,
        "signal": run.signal,
        "seconds": run.seconds,
        **_path("log", state / "logs" / run.log),
        "log_size": run.log_size,
        "log_sha256": without_surrogates(run.log_sha256),
    }


def _about(one: About, state: Path) -> dict[str, Any]:
    entry, excerpt = one.entry, one.excerpt
    return {
        "claim": without_surrogates(entry.check.claim),
        "check": without_surrogates(entry.check.name),
        "description": _optional(one.description),
        "state": entry.state,
        "reason": _reason(entry.reason),
        "run": without_surrogates(entry.check.run),
        "fingerprint": one.fingerprint,
        "recorded": one.recorded,
        "covers": [_reach(reach) for reach in one.covers],
        "inputs": [_reach(reach) for reach in one.inputs],
        "options": {
            name: value
            for name, value in optional_keys(entry.check).items()
            if name != "inputs"  # told with their files
        },
        "mutations": [
            {
                "path": without_surrogates(preview.mutation),
                "misfit": _reason(preview.misfit),
                "notes": [without_surrogates(note) for note in preview.notes],
                "diff": without_surrogates(decoded(preview.diff)),
            }
            for preview in one.mutations
        ],
        "tries": [_attempt(attempt, state) for attempt in one.tries],
        "output": None if excerpt is None else _excerpt(excerpt),
    }


def _reach(reach: Reach) -> dict[str, Any]:
    return {
        "glob": without_surrogates(reach.glob),
        "files": [_path("path", path) for path in reach.files],
    }


def _excerpt(excerpt: Excerpt) -> dict[str, Any]:
    lines = excerpt.lines
    return {
        "phase": without_surrogates(excerpt.run.phase),
        **_path("log", excerpt.path),
        "lines": (None if lines is None else [without_surrogates(decoded(line)) for line in lines]),
    }


def _contrast(found: Contrast) -> dict[str, Any]:
    details = _details(found.details)
    names = ("command_changed", "mutation_changed", "changed", "added", "removed")
    return {name: details[name] for name in names} | {
        "keys_changed": [without_surrogates(key) for key in found.keys]
    }
