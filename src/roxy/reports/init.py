"""What `roxy init` did, as lines or as one document."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roxy.core.initiation import Did
from roxy.core.starter import MUTATION
from roxy.reports import json
from roxy.reports.text import path_text, printable, without_surrogates

if TYPE_CHECKING:
    from roxy.core.initiation import Initiation, Part

SCHEMA = "roxy.init/1"
NEXT = (
    f"commit, break one rule in one file, `git diff FILE > {MUTATION}`, `git apply -R {MUTATION}`",
    "take the `# ` off the example in `roxy.toml`, and write down what is true",
    (
        "`roxy verify`, then commit"
        " `roxy.toml`, `roxy.schema.json`, `roxy.lock`, `mutations/` and `AGENTS.md`"
    ),
)
"""What to do after a start, in order."""


def lines(initiation: Initiation, *, quiet: bool) -> str:
    """Return a line for each part and each command that was found, and what to do next.

    With `quiet` only what could not be written.
    """
    told = [_line(part) for part in initiation.parts if not quiet or part.did is Did.LEFT]
    if quiet:
        pass
    elif is_new(initiation):
        told += [f"proposed `{one.run}`: {one.why}" for one in initiation.commands]
        told += [f"next: {step}" for step in NEXT]
    else:
        told.append("next: `roxy status`")
    return "".join(f"{printable(line)}\n" for line in told)


def document(initiation: Initiation) -> str:
    """Return the same for programs."""
    return json.dump(
        {
            "schema": SCHEMA,
            "parts": [
                {
                    "path": without_surrogates(path_text(part.path)),
                    "did": part.did,
                    "why": part.why,
                }
                for part in initiation.parts
            ],
            "commands": [
                {"run": one.run, "why": one.why, "covers": list(one.covers)}
                for one in initiation.commands
            ],
            "next": list(NEXT) if is_new(initiation) else [],
        }
    )


def is_new(initiation: Initiation) -> bool:
    """Say whether roxy.toml was written just now."""
    return any(part.path == b"roxy.toml" and part.did is Did.WROTE for part in initiation.parts)


def _line(part: Part) -> str:
    name = f"`{path_text(part.path)}`"
    match part.did:
        case Did.WROTE:
            return f"wrote {name}"
        case Did.ADDED:
            return f"added a paragraph to {name}"
        case Did.FOUND:
            return f"left {name} as it is: it is there already"
        case Did.LEFT:
            return f"could not write {name}: {part.why}"
