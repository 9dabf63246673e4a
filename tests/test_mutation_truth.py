"""What a mutation may not do, and the bytes on the disk (S7, S18, S21): real git."""

from __future__ import annotations

import os
import shutil
import tracemalloc
from typing import TYPE_CHECKING

import pytest

from lab import BROKEN, PATH, Lab, a_lab, made, text
from roxy.core.misfit import FACTS, Code
from roxy.core.mutation import Fit
from roxy.core.patch import Fact

if TYPE_CHECKING:
    from pathlib import Path

EDIT = b"@@ -1 +1 @@\n-a\n+b\n"
CRLF = text().replace(b"\n", b"\r\n")
BROKEN_CRLF = BROKEN.replace(b"\n", b"\r\n")


def header(old: str, new: str, *lines: str) -> bytes:
    first = old if new == "/dev/null" else "a" + new[1:] if old == "/dev/null" else old
    second = "b" + old[1:] if new == "/dev/null" else new
    extended = "".join(f"{line}\n" for line in lines)
    return f"diff --git {first} {second}\n{extended}--- {old}\n+++ {new}\n".encode()


# ------------------------------------------------------------------- more than edits


@pytest.mark.rule("S18")
@pytest.mark.parametrize(
    ("patch", "code", "what"),
    [
        (
            header("/dev/null", "b/new", "new file mode 100644") + b"@@ -0,0 +1 @@\n+a\n",
            "creates-file",
            "creates `new`",
        ),
        (
            header("/dev/null", "b/f", "new file mode 120000") + b"@@ -0,0 +1 @@\n+/etc\n",
            "creates-file",
            "creates `f`",
        ),
        (
            header("a/f", "/dev/null", "deleted file mode 100644") + b"@@ -1 +0,0 @@\n-a\n",
            "deletes-file",
            "deletes `f`",
        ),
        (
            b"diff --git a/f b/g\nsimilarity index 100%\nrename from f\nrename to g\n",
            "renames-file",
            "renames `g`",
        ),
        (
            b"diff --git a/f b/h\nsimilarity index 100%\ncopy from f\ncopy to h\n",
            "copies-file",
            "copies `h`",
        ),
        (
            b"diff --git a/f b/f\nold mode 100644\nnew mode 100755\n",
            "changes-mode",
            "changes the mode of `f`",
        ),
        (header("a/f", "b/f") + EDIT + header("a/f", "b/f") + EDIT, "edits-file-twice", None),
        (header("a/no", "b/no") + EDIT, "not-covered", None),
        (header("a/../f", "b/../f") + EDIT, "not-covered", None),
        (header("a//etc/passwd", "b//etc/passwd") + EDIT, "not-covered", None),
        (header("a/.git/config", "b/.git/config") + EDIT, "not-covered", None),
    ],
)
def test_what_is_more_than_an_edit_is_named(
    tmp_path: Path, patch: bytes, code: str, what: str | None
) -> None:
    lab = a_lab(tmp_path, {"f": b"a\n", "g": b"a\n"})
    found = lab.reject(patch, "f", "g")
    assert found[0] == code
    assert what is None or found[1] == what


@pytest.mark.rule("S18")
def test_an_uncovered_file_beside_a_covered_one_is_named(tmp_path: Path) -> None:
    lab = a_lab(tmp_path, {PATH: text(), "README": b"a\n"})
    patch = lab.diff({PATH: BROKEN, "README": b"b\n"})
    assert lab.reject(patch, PATH) == (
        "not-covered",
        "edits `README`, which the check does not cover",
    )
    assert lab.fit(patch, PATH, "README") == {PATH: BROKEN, "README": b"b\n"}


@pytest.mark.rule("S21")
@pytest.mark.parametrize("extra", [False, True])
def test_a_rename_that_the_header_hides_is_found(tmp_path: Path, *, extra: bool) -> None:
    lab = a_lab(tmp_path, {"a.txt": b"a\n", PATH: b"a\n", "c.txt": b"a\n"})
    patch = header("a/a.txt", "b/src/f.py") + EDIT
    assert lab.scratch.touched(patch) == (b"src/f.py",)
    if extra:  # so that git finds the file that it would remove
        patch = header("a/a.txt", "b/a.txt") + EDIT + header("a/a.txt", "b/src/f.py") + EDIT
        assert lab.reject(patch)[0] in {"git-refuses", "deletes-file", "renames-file"}
    else:
        assert lab.reject(patch) == ("renames-file", "renames `a.txt` to `src/f.py`")


@pytest.mark.rule("S21")
def test_an_edit_of_a_symbolic_link_is_refused(tmp_path: Path) -> None:
    lab = a_lab(tmp_path, {"f": b"a\n"})
    patch = header("a/f", "b/f", "index 78981922..61780798 120000") + EDIT
    assert lab.reject(patch)[0] == "git-refuses"


@pytest.mark.rule("S18")
@pytest.mark.parametrize("kind", ["absent", "fifo", "link", "folder", "linked-folder"])
def test_a_file_that_is_none_any_more_cannot_be_read(tmp_path: Path, kind: str) -> None:
    lab = a_lab(tmp_path)
    patch = lab.diff({PATH: BROKEN})
    file = lab.root / PATH
    file.unlink()
    if kind == "fifo":
        os.mkfifo(file)
    elif kind == "link":
        (tmp_path / "elsewhere").write_bytes(text())
        file.symlink_to(tmp_path / "elsewhere")
    elif kind == "folder":
        file.mkdir()
    elif kind == "linked-folder":
        file.parent.rmdir()
        (tmp_path / "f.py").write_bytes(text())
        file.parent.symlink_to(tmp_path)
    code, what = lab.reject(patch, PATH)
    assert code == "cannot-read-file"
    assert what.startswith("is for `src/f.py`, which cannot be read: ")


@pytest.mark.rule("S18")
def test_hunks_that_contradict_each_other_are_not_followed(tmp_path: Path) -> None:
    lab = a_lab(tmp_path)
    one, two = b"@@ -9 +9 @@\n-line 9\n+b\n", b"@@ -5 +5 @@\n-line 5\n+b\n"
    assert lab.reject(header("a/src/f.py", "b/src/f.py") + one + two)[0] == "patch-unclear"
    contradicting = b"@@ -5,0 +10 @@\n+b\n"
    assert lab.reject(header("a/src/f.py", "b/src/f.py") + contradicting)[0] == "patch-unclear"


def test_every_fact_has_a_code() -> None:
    assert FACTS.keys() == set(Fact)
    assert len(set(FACTS.values()) & set(Code)) == len(FACTS)


# ------------------------------------------------------------------- settings


@pytest.mark.rule("S7", "S21")
def test_no_setting_of_the_user_changes_the_bytes(tmp_path: Path, sealed: Path) -> None:
    lab = a_lab(tmp_path, {PATH: b"a \nb\t\nc\n"})
    patch = lab.diff({PATH: b"a \nB\t\nc\n"})
    attributes = sealed / "attributes"
    attributes.write_text("* text eol=crlf ident filter=mine whitespace=trailing-space\n")
    (sealed / ".gitconfig").write_text(
        "[apply]\n\twhitespace = fix\n\tignoreWhitespace = change\n"
        "[diff]\n\tnoprefix = true\n[merge]\n\tconflictStyle = diff3\n"
        f"[core]\n\tattributesFile = {attributes}\n\twhitespace = trailing-space\n"
        '[filter "mine"]\n\tclean = cat /dev/null\n\tsmudge = cat /dev/null\n\trequired\n'
    )
    for name, value in {"apply.whitespace": "error-all", "core.safecrlf": "true"}.items():
        lab.git("config", name, value)
    assert lab.fit(patch) == {PATH: b"a \nB\t\nc\n"}


@pytest.mark.rule("S21")
@pytest.mark.parametrize("place", [".gitattributes", "src/.gitattributes", ".git/info/attributes"])
@pytest.mark.parametrize("value", ["filter=mine", "filter=lfs", "filter"])
def test_a_filter_in_force_is_refused(tmp_path: Path, place: str, value: str) -> None:
    lab = a_lab(tmp_path)
    patch = lab.diff({PATH: BROKEN})
    lab.git("config", "filter.mine.smudge", f"touch {tmp_path}/ran; cat")
    lab.git("config", "filter.mine.clean", f"touch {tmp_path}/ran; cat")
    lab.write(place, f"*.py {value}\n".encode())
    code, what = lab.reject(patch)
    assert code == "filter-in-force"
    assert what.startswith("edits `src/f.py`, for which git has the filter ")
    assert not (tmp_path / "ran").exists()
    lab.write(place, b"*.py filter=mine\nsrc/* -filter\n")
    (lab.root / place).rename(lab.root / ".gitattributes")
    assert lab.fit(patch) == {PATH: BROKEN}


# ------------------------------------------------------------------- line ends and encodings


@pytest.mark.rule("S21")
@pytest.mark.parametrize(
    "attributes",
    ["* text eol=crlf", "* text=auto eol=crlf", "*.py eol=crlf", "*.py crlf\n*.py eol=crlf"],
)
@pytest.mark.parametrize("above", ["", "new\r\n"])
def test_eol_crlf_is_kept(tmp_path: Path, attributes: str, above: str) -> None:
    lab = a_lab(tmp_path, {".gitattributes": f"{attributes}\n".encode(), PATH: CRLF})
    patch = lab.diff({PATH: BROKEN_CRLF})
    assert b"\r" not in patch
    lab.write(PATH, above.encode() + CRLF)
    assert lab.fit(patch) == {PATH: above.encode() + BROKEN_CRLF}


@pytest.mark.rule("S21")
@pytest.mark.parametrize("value", ["true", "input", "false"])
@pytest.mark.parametrize("where", ["--local", "--global"])
def test_core_autocrlf_is_followed(tmp_path: Path, value: str, where: str) -> None:
    lab = a_lab(tmp_path, {PATH: text()})
    lab.git("config", where, "core.autocrlf", value)
    patch = lab.diff({PATH: BROKEN})
    assert lab.fit(patch) == {PATH: BROKEN}
    lab.write(PATH, CRLF)
    if value == "true":
        assert lab.fit(patch) == {PATH: BROKEN_CRLF}
    elif value == "input":
        assert lab.reject(patch)[0] == "cannot-convert-file"
    else:
        assert lab.reject(patch)[0] == "edited-since"


@pytest.mark.rule("S21")
def test_core_autocrlf_without_a_value_is_true(tmp_path: Path) -> None:
    lab = a_lab(tmp_path, {PATH: text()})
    with (lab.root / ".git" / "config").open("a") as config:
        config.write("[core]\n\tautocrlf\n")
    lab.write(PATH, CRLF)
    assert lab.fit(lab.diff({PATH: BROKEN_CRLF})) == {PATH: BROKEN_CRLF}


@pytest.mark.rule("S21")
@pytest.mark.parametrize("value", ["true", "input", "false"])
@pytest.mark.parametrize("options", [(), ("-U0",)])
def test_crlf_that_git_has_stored_is_kept(
    tmp_path: Path, value: str, options: tuple[str, ...]
) -> None:
    lab = a_lab(tmp_path, {PATH: CRLF})
    lab.git("config", "core.autocrlf", value)
    patch = lab.diff({PATH: BROKEN_CRLF}, *options)
    assert patch.count(b"\r\n") > 1
    assert lab.fit(patch) == {PATH: BROKEN_CRLF}
    inserted = CRLF.replace(b"line 50\r\n", b"line 50\r\nbroken\r\n")
    assert lab.fit(lab.diff({PATH: inserted}, *options)) == {PATH: inserted}
    patch = lab.diff({PATH: BROKEN_CRLF})
    lab.write(PATH, b"new\r\n" + CRLF)
    assert lab.fit(patch) == {PATH: b"new\r\n" + BROKEN_CRLF}


@pytest.mark.rule("S21")
def test_line_ends_that_git_would_not_write_never_spread(tmp_path: Path) -> None:
    lab = a_lab(tmp_path, {".gitattributes": b"* text eol=crlf\n", PATH: CRLF})
    patch = lab.diff({PATH: BROKEN_CRLF})
    lab.write(PATH, text())
    assert lab.fit(patch) == {PATH: BROKEN}
    lab.write(PATH, CRLF.replace(b"line 9\r\n", b"line 9\n"))
    code, what = lab.reject(patch)
    assert code == "cannot-convert-file"
    assert "with other line ends" in what


@pytest.mark.rule("S21")
@pytest.mark.parametrize("old", ["", "one\n", "one\ntwo"])
def test_line_ends_of_files_that_hardly_have_any(tmp_path: Path, old: str) -> None:
    lab = a_lab(
        tmp_path,
        {".gitattributes": b"* text eol=crlf\n", PATH: old.replace("\n", "\r\n").encode()},
    )
    new = {PATH: b"1\r\n2\r\n3\r\n"}
    assert lab.fit(lab.diff(new)) == new
    emptied = {PATH: b""}
    assert not old or lab.fit(lab.diff(emptied)) == emptied


@pytest.mark.rule("S21")
@pytest.mark.parametrize("encoding", ["UTF-16", "UTF-16LE", "latin1", "UTF-8", "Shift_JIS"])
def test_working_tree_encoding_is_kept(tmp_path: Path, encoding: str) -> None:
    words = "é" if encoding == "latin1" else "日"
    old = (text().decode() + words).encode(encoding)
    new = (BROKEN.decode() + words).encode(encoding)
    attributes = f"*.py text working-tree-encoding={encoding}\n".encode()
    lab = a_lab(tmp_path, {".gitattributes": attributes, PATH: old})
    patch = lab.diff({PATH: new})
    assert lab.fit(patch) == {PATH: new}
    above = ("new\n" + text().decode() + words).encode(encoding)
    lab.write(PATH, above)
    assert lab.fit(patch) == {PATH: ("new\n" + BROKEN.decode() + words).encode(encoding)}


@pytest.mark.rule("S21")
def test_what_an_encoding_cannot_hold_is_refused(tmp_path: Path) -> None:
    lab = a_lab(tmp_path, {".gitattributes": b"", PATH: text()})
    patch = lab.diff({PATH: text((50, "日\n"))})
    lab.write(".gitattributes", b"*.py working-tree-encoding=latin1\n")
    assert lab.reject(patch)[0] == "cannot-convert-file"
    lab.write(".gitattributes", b"*.py working-tree-encoding=UTF-16\n")
    assert lab.fit(patch) == {PATH: text((50, "日\n"))}  # the blob itself is on the disk
    lab.write(PATH, b"new\n" + text())
    assert lab.reject(patch)[0] == "cannot-convert-file"
    lab.write(".gitattributes", b"*.py working-tree-encoding\n")
    assert lab.reject(patch)[0] == "cannot-convert-file"


@pytest.mark.rule("S21")
@pytest.mark.parametrize("expanded", ["$Id$", "$Id: 1234567 $"])
@pytest.mark.parametrize("init", [(), ("--object-format=sha256",)])
def test_ident_is_expanded_as_git_does(
    tmp_path: Path, expanded: str, init: tuple[str, ...]
) -> None:
    files = {".gitattributes": b"*.py ident\n", PATH: f"# {expanded}\n".encode() + text()}
    lab = a_lab(tmp_path, files, *init)
    patch = lab.diff({PATH: b"# $Id$\n" + BROKEN})
    stored = b"# $Id$\n" + BROKEN
    lab.write("stored", stored)
    object_id = lab.git("hash-object", "--no-filters", "stored").strip()
    assert lab.fit(patch) == {PATH: b"# $Id: %b $\n" % object_id + BROKEN}


@pytest.mark.rule("S21")
def test_attributes_that_are_no_regular_file_are_not_read(tmp_path: Path) -> None:
    lab = a_lab(tmp_path)
    patch = lab.diff({PATH: BROKEN})
    (tmp_path / "elsewhere").write_text("* text eol=crlf\n")
    (lab.root / ".gitattributes").symlink_to(tmp_path / "elsewhere")
    (lab.root / "src" / ".gitattributes").mkdir()
    assert lab.fit(patch, PATH) == {PATH: BROKEN}


@pytest.mark.rule("S21")
def test_a_mutation_of_gitattributes_does_not_change_other_files(tmp_path: Path) -> None:
    lab = a_lab(tmp_path, {".gitattributes": b"* text\n", "a": b"1\n2\n", "z": b"1\n2\n"})
    changes = {".gitattributes": b"* eol=crlf\n", "a": b"1\n3\n", "z": b"1\n3\n"}
    assert lab.fit(lab.diff(changes)) == changes


@pytest.mark.slow
@pytest.mark.rule("S21")
def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    lines = "".join(f"{number} some text that fills a line\n" for number in range(900_000))
    old = lines.encode()
    lab = a_lab(tmp_path, {PATH: old})
    patch = lab.patch(PATH, old, old.replace(b"450000 some", b"450000 any"))
    for above in (b"", b"new\n"):
        lab.write(PATH, above + old)
        tracemalloc.start()
        try:
            fit = lab.scratch.fit("it.patch", patch, [PATH.encode()])
            assert tracemalloc.get_traced_memory()[1] < len(old) // 8
        finally:
            tracemalloc.stop()
        assert made(fit) == {PATH: above + old.replace(b"450000 some", b"450000 any")}


@pytest.mark.rule("S21")
def test_few_processes_of_git_fit_a_mutation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shim, log, real = tmp_path / "bin" / "git", tmp_path / "log", shutil.which("git")
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\necho x >> "{log}"\nexec "{real}" "$@"\n')
    shim.chmod(0o755)
    maker = a_lab(tmp_path)
    patch = maker.diff({PATH: BROKEN})
    monkeypatch.setenv("PATH", f"{shim.parent}{os.pathsep}{os.environ['PATH']}")
    lab = Lab.make(tmp_path / "repository", {})
    log.unlink()
    for expected in ("x\n" * 5, "x\n"):  # all but the patch itself is asked once
        log.write_text("")
        assert isinstance(lab.scratch.fit("it.patch", patch, [PATH.encode()]), Fit)
        assert log.read_text() == expected


@pytest.mark.rule("S21")
def test_large_files_are_shown_to_git_around_their_hunks(tmp_path: Path) -> None:
    lines = [f"{number} some text that fills a line\n" for number in range(90_000)]
    old = "".join(lines).encode()
    for number in [0, 1, 5, *range(1000, 60_000, 300), 60_001, 89_999]:
        lines[number] = f"broken {number}\n" if number % 2 else ""
    lab = a_lab(tmp_path, {PATH: old, "g": text()})
    changes = {PATH: "".join(lines).encode(), "g": BROKEN}
    for options in ((), ("-U0",)):
        assert lab.fit(lab.diff(changes, *options)) == changes
    patch = lab.diff(changes)
    above = b"70000 some"
    lab.write(PATH, old.replace(above, b"new\n" + above))
    merged = changes[PATH].replace(above, b"new\n" + above)
    assert lab.fit(patch) == {PATH: merged, "g": BROKEN}
