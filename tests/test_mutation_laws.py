"""Laws of fitting, with patches by real git: the author's bytes, or the author's place, or none."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lab import PATH, Lab, a_lab, made
from roxy.core.mutation import Fit, Misfit

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

LOOK_ALIKES = ["a\n", "b\n", "\n", "}\n", "a\r\n", "\r\n", "- a\n", "+++ b\n", "\\ No newline\n"]
KEEP = settings(
    max_examples=40,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return a_lab(tmp_path, {PATH: b""})


def patch_of(lab: Lab, old: bytes, new: bytes, context: int) -> bytes:
    """Return what `git diff` says; git keeps the old bytes."""
    lab.write(PATH, old)
    lab.git("add", PATH)
    return lab.diff({PATH: new}, f"-U{context}", "--text")


def texts() -> st.SearchStrategy[bytes]:
    lines = st.lists(st.sampled_from(LOOK_ALIKES), max_size=30)
    endings = st.sampled_from(["", "", "end", "}", "\r"])
    return st.builds(lambda some, end: ("".join(some) + end).encode(), lines, endings)


@pytest.mark.rule("S17", "S21")
@KEEP
@given(data=st.data())
def test_a_patch_by_git_diff_gives_exactly_the_edited_bytes(lab: Lab, data: st.DataObject) -> None:
    old, new = data.draw(texts()), data.draw(texts())
    patch = patch_of(lab, old, new, data.draw(st.integers(0, 3)))
    if old == new:
        assert lab.scratch.unreadable(patch) is not None
        return
    assert made(lab.scratch.fit("it.patch", patch, [os.fsencode(PATH)])) == {PATH: new}


@pytest.mark.rule("S21")
@KEEP
@given(
    old=st.lists(st.sampled_from(["a", "b", "", "}"]), max_size=20),
    new=st.lists(st.sampled_from(["a", "b", "", "}"]), max_size=20),
    attributes=st.sampled_from(["text", "text=auto", "text=auto ident", "text !text"]),
    eol=st.sampled_from(["\n", "\r\n"]),
)
def test_line_ends_on_the_disk_survive(
    lab: Lab, old: list[str], new: list[str], attributes: str, eol: str
) -> None:
    rule = f"* {attributes} eol={'lf' if eol == chr(10) else 'crlf'}\n"
    lab.write(".gitattributes", rule.encode())
    before, after = (eol.join(lines).encode() for lines in (old, new))
    patch = patch_of(lab, before, after, 3)
    assert b"\r" not in patch
    fit = lab.scratch.fit("it.patch", patch, [os.fsencode(PATH)])
    if old != new and before != after:
        assert made(fit) == {PATH: after}


@pytest.mark.rule("S20")
@KEEP
@given(data=st.data())
def test_a_mutation_lands_on_its_own_lines_or_nowhere(lab: Lab, data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 24))
    lines = [f"{n}\n" if data.draw(st.booleans()) else "}\n" for n in range(size)]
    marked = [number for number, line in enumerate(lines) if line != "}\n"]
    broken = data.draw(st.sets(st.sampled_from(marked), min_size=1)) if marked else set()
    edited = data.draw(st.dictionaries(st.integers(0, size - 1), st.sampled_from(EDITS)))
    edited = {number: edit for number, edit in edited.items() if number not in broken}
    if not broken:
        return
    patch = patch_of(lab, written(lines), written(lines, broken), data.draw(st.integers(0, 3)))
    has_blob = data.draw(st.booleans())
    if not has_blob:
        patch = patch.replace(b"index ", b"index 0ddba11")
    lab.write(PATH, written(lines, (), edited))
    fit = lab.scratch.fit("it.patch", patch, [os.fsencode(PATH)])
    if isinstance(fit, Fit):
        assert made(fit) == {PATH: written(lines, broken, edited)}
    else:
        assert isinstance(fit, Misfit)
        near = any(abs(one - other) < 4 for one in broken for other in edited)
        assert near or not has_blob or len(marked) < size, fit


EDITS = ["", "mine\n", "}\n", "mine\n}\n{}", "{}}\n", "}\n}\n{}", "{}mine\n\n\n"]


def written(
    lines: Sequence[str], broken: Sequence[int] = (), edited: dict[int, str] | None = None
) -> bytes:
    """Return the lines, some broken, some edited; `{}` in an edit is the line itself."""
    changed = [f"broken {line}" if n in broken else line for n, line in enumerate(lines)]
    edits = edited or {}
    return "".join(
        edits[n].replace("{}", line) if n in edits else line for n, line in enumerate(changed)
    ).encode()
