"""The texts that `roxy init` starts a project with: values in, text out."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roxy.core.surroundings import Command

SCHEMA_FILE = "roxy.schema.json"
"""Where a project has the schema of roxy.toml, so that editors find it without a network."""
MUTATION = "mutations/first.patch"
"""The patch that the starter's example names; it is not there yet."""
BEGIN = b"<!-- roxy:begin -->"
END = b"<!-- roxy:end -->"

_HEAD = f"""\
#:schema ./{SCHEMA_FILE}
# What this project says is true, and how roxy checks it.
#
# A claim is a sentence. A check tests it on one platform or entry point: `run` must pass on the
# code as it is, fail once `mutation` has broken files that it `covers`, and pass again.
#
# Nothing is claimed yet, so roxy cannot judge. To begin, at the top of the working tree:
#   1. Commit, then break one rule in one file, the way it might really break.
#   2. git diff FILE > {MUTATION}
#   3. git apply -R {MUTATION}     which takes the break back
#   4. Take the `# ` off below, write down what is true, and run `roxy verify`.

"""
_NO_COMMAND = "COMMAND"
_NO_GLOB = "FOLDER/**"

AGENTS = f"""\
{BEGIN.decode()}
Before you report that work is done, run `roxy gate`. On exit code 1 run `roxy verify`, and mend
what it rejects, in the code or in its tests. After an interruption run `roxy status` first: it puts
back what a killed verify left broken. Never edit `roxy.lock` by hand, and never weaken `roxy.toml`
or a mutation to open the gate; say so when a check or a mutation had to change.
{END.decode()}
"""
"""The paragraph for AGENTS.md, between its markers."""

MUTATIONS_README = f"""\
# Mutations

Each patch here breaks the code on purpose, and a check in `roxy.toml` names it. A check counts only
if it fails while its patch is in the code.

Make one at the top of the working tree: break one rule in one place, the way it might really break.
Then

    git diff FILE > {MUTATION}
    git apply -R {MUTATION}

It may only edit files that the check covers. When it no longer applies, make it anew in the same
way.
"""


def manifest(commands: Sequence[Command]) -> str:
    """Return a roxy.toml that claims nothing yet, with an example from what was found."""
    first = commands[0] if commands else None
    covers = list(first.covers) if first and first.covers else [_NO_GLOB]
    lines = [
        "[claims.first]",
        'description = "One sentence that is true of this project"',
        "",
        "[claims.first.checks.tests]",
    ]
    lines += [_found(command, is_first=command is first) for command in commands]
    if first is None:
        lines.append(f"run = {_quoted(_NO_COMMAND)}  # what tests it")
    lines.append(
        f"covers = {_quoted(covers)}"
        + ("" if first and first.covers else "  # the files that it is about")
    )
    lines.append(f"mutation = {_quoted(MUTATION)}")
    return _HEAD + "".join(f"# {line}".rstrip() + "\n" for line in lines)


def _found(command: Command, *, is_first: bool) -> str:
    mark = "" if is_first else "# or: "
    return f"{mark}run = {_quoted(command.run)}  # {command.why}"


def _quoted(value: str | list[str]) -> str:
    """Return a value as TOML has it, which is as JSON has it."""
    return json.dumps(value, ensure_ascii=False)


def addition(data: bytes) -> bytes | None:
    """Return what to add to an AGENTS.md so that it has the paragraph, None when it has.

    With the line ends that the file has.
    """
    if BEGIN in data:
        return None
    end = b"\r\n" if data.count(b"\r\n") * 2 > data.count(b"\n") else b"\n"
    gap = b"" if not data else b"\n" if data.endswith(b"\n") else b"\n\n"
    return (gap + AGENTS.encode()).replace(b"\n", end)
