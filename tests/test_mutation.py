"""Mutations go where their author meant them: real repositories, real git (S17, S19, S20)."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from lab import BROKEN, LINES, PATH, a_lab, made, text
from roxy.core.mutation import Fit

if TYPE_CHECKING:
    from pathlib import Path


# ------------------------------------------------------------------- what git diff writes


@pytest.mark.rule("S17", "S21")
@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"a\nb\nc\n", b"a\nB\nc\n"),
        (b"a\nb\nc", b"a\nb\nC"),
        (b"a\nb\nc", b"a\nb\nc\n"),
        (b"a\nb\nc\n", b"a\nb\nc"),
        (b"", b"a\nb\n"),
        (b"a\nb\n", b""),
        (b"a\r\nb\r\nc\r\n", b"a\r\nB\r\nc\r\n"),
        (b"a\r\nb\nc\r", b"a\r\nb\r\nc\r"),
        (b"a\nb\n", b"a\nb\n\n"),
        (b"x\n" * 40, b"x\n" * 41),
        (b"-- a\n++ b\n@@ -1 +1 @@\n", b"-- a\n@@ -1 +1 @@\n"),
        (b"\xff\xfe latin \xe9\n", b"\xff\xfe latin e\n"),
    ],
)
@pytest.mark.parametrize("options", [(), ("-U0",), ("-U1000",), ("--text", "--minimal")])
def test_what_git_diff_writes_gives_the_edited_bytes(
    tmp_path: Path, old: bytes, new: bytes, options: tuple[str, ...]
) -> None:
    lab = a_lab(tmp_path, {PATH: old})
    patch = lab.diff({PATH: new}, *options)
    assert lab.scratch.unreadable(patch) is None
    assert lab.scratch.touched(patch) == (PATH.encode(),)
    assert lab.fit(patch) == {PATH: new}


@pytest.mark.rule("S15", "S17")
@pytest.mark.parametrize(
    "path",
    [
        "with space.txt",
        "tab\there",
        "new\nline",
        'quo"te',
        "back\\slash",
        "-x",
        "é/ü",
        "\udcff\udcfe",
    ],
)
def test_names_may_hold_anything(tmp_path: Path, path: str) -> None:
    lab = a_lab(tmp_path, {path: b"a\n", f"folder {path}/{path}": b"a\n"})
    changes = {path: b"b\n", f"folder {path}/{path}": b"c\n"}
    assert lab.fit(lab.diff(changes)) == changes


@pytest.mark.rule("S17")
@pytest.mark.parametrize("options", [(), ("--patience",)])
def test_git_diff_binary_fits_the_content_it_was_made_from(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    old = bytes(range(256)) * 40
    new = old[:5000] + b"\0broken\0" + old[5001:]
    lab = a_lab(tmp_path, {"image.bin": old, PATH: text()})
    patch = lab.diff({"image.bin": new, PATH: BROKEN}, "--binary", *options)
    assert b"delta " in patch
    assert lab.fit(patch) == {"image.bin": new, PATH: BROKEN}
    literal = lab.diff({"image.bin": b"\0\1"}, "--binary")
    assert b"literal 2" in literal
    assert lab.fit(literal) == {"image.bin": b"\0\1"}
    lab.write("image.bin", old + b"\0")
    assert lab.reject(patch)[0] == "binary-differs"
    assert lab.reject(lab.diff({"image.bin": new}))[0] == "binary-without-bytes"


@pytest.mark.rule("S17")
def test_a_patch_of_sha256_ids_fits(tmp_path: Path) -> None:
    lab = a_lab(tmp_path, {"image.bin": b"\0a", PATH: text()}, "--object-format=sha256")
    changes = {"image.bin": b"\0b", PATH: BROKEN}
    assert lab.fit(lab.diff(changes, "--binary")) == changes
    lab.write(PATH, b"above\n" + text())
    assert lab.fit(lab.diff({PATH: b"above\n" + BROKEN})) == {PATH: b"above\n" + BROKEN}


@pytest.mark.rule("S17")
def test_a_plain_unified_diff_fits(tmp_path: Path) -> None:
    lab = a_lab(tmp_path)
    patch = lab.diff({PATH: BROKEN})
    plain = patch[patch.index(b"--- a/") :]
    assert lab.fit(plain) == {PATH: BROKEN}
    emptied = b"--- a/src/f.py\t2020-01-01\n+++ b/src/f.py\t2020-01-01\n@@ -1 +0,0 @@\n-one\n"
    lab.write(PATH, b"one\n")
    assert lab.fit(emptied) == {PATH: b""}


@pytest.mark.rule("S17")
def test_an_executable_file_stays_out_of_it(tmp_path: Path) -> None:
    lab = a_lab(tmp_path)
    (lab.root / PATH).chmod(0o755)
    patch = lab.patch(PATH, text(), BROKEN)
    assert lab.fit(patch) == {PATH: BROKEN}


@pytest.mark.rule("S31")
def test_sources_stay_until_the_same_mutation_is_fitted_again(tmp_path: Path) -> None:
    lab = a_lab(tmp_path)
    covered = [PATH.encode()]
    one = lab.scratch.fit("one.patch", lab.diff({PATH: b"1\n"}), covered)
    two = lab.scratch.fit("two.patch", lab.diff({PATH: b"2\n"}), covered)
    assert made(one) == {PATH: b"1\n"}
    lab.scratch.fit("one.patch", b"", covered)
    assert isinstance(one, Fit)
    assert not one.edits[0].source.exists()
    assert made(two) == {PATH: b"2\n"}
    lab.scratch.clear()
    assert not (lab.root / ".git" / "roxy" / "scratch").exists()
    lab.scratch.clear()


# ------------------------------------------------------------------- what git cannot read


@pytest.mark.rule("S19")
def test_unreadable_quotes_git(tmp_path: Path) -> None:
    lab = a_lab(tmp_path)
    patch = lab.diff({PATH: BROKEN})
    header = patch[: patch.index(b"@@ ")]
    for damaged in (b"", b"garbage\n", patch[:-9], header, b"diff --git a b\n"):
        assert lab.scratch.unreadable(damaged), damaged
        assert lab.scratch.unreadable(damaged) != ""
    assert lab.scratch.touched(b"garbage\n") == ()
    for without in (b"", b"garbage\n", b"Subject: a mail\n\nwith no diff\n"):
        assert lab.scratch.unreadable(without) == "it holds no patch"
    assert "only garbage" in (lab.scratch.unreadable(header) or "")
    assert "corrupt patch" in (lab.scratch.unreadable(patch[:-9]) or "")


@pytest.mark.rule("S19")
def test_unreadable_is_not_the_same_as_not_fitting(tmp_path: Path) -> None:
    lab = a_lab(tmp_path)
    assert lab.scratch.unreadable(lab.diff({PATH: BROKEN}).replace(b"line", b"lime")) is None
    absent = b"--- a/no\n+++ b/no\n@@ -1 +1 @@\n-a\n+b\n"
    assert lab.scratch.unreadable(absent) is None


# ------------------------------------------------------------------- where it goes


@pytest.mark.rule("S20")
def test_a_merge_decides_where_git_has_the_blob(tmp_path: Path) -> None:
    lab = a_lab(tmp_path)
    patch = lab.diff({PATH: BROKEN})
    lab.write(PATH, b"new\n" * 12 + text((80, "mine\n")))
    fit = lab.fitted(patch)
    assert made(fit) == {PATH: b"new\n" * 12 + text((50, "broken\n"), (80, "mine\n"))}
    assert isinstance(fit, Fit)
    assert fit.notes == ("moved 12 lines down in `src/f.py`",)


@pytest.mark.rule("S20")
def test_a_merge_keeps_edits_close_to_the_hunk(tmp_path: Path) -> None:
    lab = a_lab(tmp_path)
    patch = lab.diff({PATH: BROKEN})
    lab.write(PATH, text((48, "mine\n"), (53, "")))
    assert lab.fit(patch) == {PATH: text((48, "mine\n"), (50, "broken\n"), (53, ""))}


@pytest.mark.rule("S20")
def test_a_conflict_names_the_file_whose_lines_were_edited(tmp_path: Path) -> None:
    lab = a_lab(tmp_path)
    lab.write(".gitattributes", b"* merge=union\n")
    lab.git("config", "merge.conflictStyle", "diff3")
    patch = lab.diff({PATH: BROKEN})
    lab.write(PATH, text((50, "mine\n")))
    assert lab.reject(patch) == (
        "edited-since",
        "does not fit: the lines it breaks were edited since, in `src/f.py`",
    )


@pytest.mark.rule("S18", "S20")
def test_what_is_already_broken_changes_nothing(tmp_path: Path) -> None:
    lab = a_lab(tmp_path)
    patch = lab.diff({PATH: BROKEN})
    lab.write(PATH, BROKEN)
    assert lab.reject(patch) == ("changes-nothing", "changes nothing in `src/f.py`")


@pytest.mark.rule("S20")
def test_look_alikes_do_not_mislead_where_git_has_the_blob(tmp_path: Path) -> None:
    block = "def f():\n    a()\n    check()\n    b()\n    return 1\n"
    lines = "".join(f"# {number}\n" + "pass\n" * 30 + block for number in range(5))
    broken = lines.replace("check()", "cheat()", 3).replace("cheat()", "check()", 2)
    lab = a_lab(tmp_path, {PATH: lines.encode()})
    patch = lab.diff({PATH: broken.encode()})
    lab.write(PATH, ("pass\n" * 36 + lines).encode())
    assert lab.fit(patch) == {PATH: ("pass\n" * 36 + broken).encode()}


@pytest.mark.rule("S20")
def test_a_look_alike_35_lines_away_is_not_taken_for_the_place(tmp_path: Path) -> None:
    block = ["\n", "def f():\n", "    a()\n", "    check()\n", "    b()\n", "    return 1\n", "\n"]
    lines = [*LINES[:10], *block, *LINES[17:45], *block, *LINES[52:]]
    lab = a_lab(tmp_path, {PATH: "".join(lines).encode()})
    broken = "".join(lines).replace("check()", "cheat()", 1).encode()
    patch = lab.patch(PATH, "".join(lines).encode(), broken)
    assert lab.fit(patch) == {PATH: broken}
    lab.write(PATH, ("new\n" * 20 + "".join(lines)).encode())
    applied = subprocess.run(["git", "apply", "--check"], cwd=lab.root, input=patch, check=False)
    assert applied.returncode == 0
    assert lab.reject(patch) == (
        "lines-repeated",
        "does not fit: its lines occur 2 times in `src/f.py`",
    )


@pytest.mark.rule("S20")
@pytest.mark.parametrize(
    ("above", "note"),
    [
        (b"new\n", "moved 1 line down in `src/f.py`"),
        (b"new\n" * 35, "moved 35 lines down in `src/f.py`"),
    ],
)
def test_unique_lines_are_found_elsewhere_and_the_distance_is_told(
    tmp_path: Path, above: bytes, note: str
) -> None:
    lab = a_lab(tmp_path)
    patch = lab.patch(PATH, text(), text((1, "first\n"), (50, "broken\n"), (100, "last\n")))
    lab.write(PATH, above + text())
    fit = lab.fitted(patch)
    assert made(fit) == {PATH: above + text((1, "first\n"), (50, "broken\n"), (100, "last\n"))}
    assert isinstance(fit, Fit)
    assert fit.notes == (note,)


@pytest.mark.rule("S20")
def test_lines_move_up_too(tmp_path: Path) -> None:
    lab = a_lab(tmp_path)
    patch = lab.patch(PATH, text(), BROKEN)
    lab.write(PATH, "".join(LINES[10:]).encode())
    fit = lab.fitted(patch)
    assert isinstance(fit, Fit)
    assert fit.notes == ("moved 10 lines up in `src/f.py`",)


@pytest.mark.rule("S20")
def test_lines_that_are_gone_or_scattered_are_told_apart(tmp_path: Path) -> None:
    lab = a_lab(tmp_path)
    patch = lab.patch(PATH, text(), text((20, "b\n"), (80, "b\n")))
    lab.write(PATH, text((20, "mine\n")))
    assert lab.reject(patch)[1] == "does not fit: its lines are not in `src/f.py` any more"
    lab.write(PATH, text((50, "")))
    assert lab.reject(patch) == (
        "lines-scattered",
        "does not fit: its parts moved by different distances in `src/f.py`",
    )


@pytest.mark.rule("S20")
def test_a_blob_that_git_lost_is_named(tmp_path: Path) -> None:
    lab = a_lab(tmp_path)
    patch = lab.diff({PATH: BROKEN}).replace(b"index ", b"index abc1234", 1)
    lab.write(PATH, text((50, "mine\n")))
    lost = ", and git no longer has blob abc1234"
    assert lost in lab.reject(patch)[1]
    lab.write(PATH, b"new\n" + text())
    assert lab.fit(patch) == {PATH: b"new\n" + BROKEN}


@pytest.mark.rule("S20")
def test_a_tag_named_like_a_blob_is_not_taken_for_it(tmp_path: Path) -> None:
    lab = a_lab(tmp_path)
    lab.write("other", text((50, "mine\n")))
    lab.git("tag", "abc1234", lab.git("hash-object", "-w", "other").strip())
    patch = lab.patch(PATH, text(), BROKEN).replace(
        b"--- a/", b"index abc1234..abc1235 100644\n--- a/", 1
    )
    lab.write(PATH, b"new\n" + text())
    assert lab.fit(patch) == {PATH: b"new\n" + BROKEN}


@pytest.mark.rule("S20")
def test_an_insertion_without_context_needs_the_file_it_was_made_from(
    tmp_path: Path,
) -> None:
    lab = a_lab(tmp_path)
    inserted = text((50, "line 50\nbroken\n"))
    patch = lab.diff({PATH: inserted}, "-U0")
    assert lab.fit(patch) == {PATH: inserted}
    lab.write(PATH, b"new\n" + text())
    assert lab.fit(patch) == {PATH: b"new\n" + inserted}
    assert lab.reject(lab.patch(PATH, text(), inserted, "-U0"))[0] == "lines-unknown"


@pytest.mark.rule("S20")
def test_a_deletion_of_one_of_two_equal_lines_takes_the_right_one(
    tmp_path: Path,
) -> None:
    lines = [*LINES]
    lines[40] = lines[41] = lines[42] = "same\n"
    lines[42] = "other\n"
    old, new = text(lines=lines), text((42, ""), lines=lines)
    patch = b"--- a/src/f.py\n+++ b/src/f.py\n@@ -42 +41,0 @@\n-same\n"
    lab = a_lab(tmp_path, {PATH: old})
    assert lab.fit(patch) == {PATH: new}


@pytest.mark.rule("S20")
def test_the_ends_of_a_file_do_not_hold_hunks_back(tmp_path: Path) -> None:
    lab = a_lab(tmp_path)
    patch = lab.patch(PATH, text(), text((1, "first\n"), (100, "last\n")))
    lab.write(PATH, b"new\n" + text() + b"more\n")
    assert lab.fit(patch) == {PATH: b"new\n" + text((1, "first\n"), (100, "last\n")) + b"more\n"}
    cut = lab.patch(PATH, text(), text((100, "last")))
    assert lab.reject(cut)[0] == "lines-gone"


@pytest.mark.rule("S20")
def test_a_text_patch_of_a_file_with_nul_goes_by_its_lines(tmp_path: Path) -> None:
    lab = a_lab(tmp_path, {PATH: b"\0\n" + text()})
    patch = lab.diff({PATH: b"\0\n" + BROKEN}, "--text")
    lab.write(PATH, b"\0\n\0\n" + text())
    fit = lab.fitted(patch)
    assert made(fit) == {PATH: b"\0\n\0\n" + BROKEN}
    assert isinstance(fit, Fit)
    assert fit.notes == ("moved 1 line down in `src/f.py`",)


@pytest.mark.rule("S20")
def test_a_hand_made_patch_with_wrong_numbers_goes_to_its_only_place(
    tmp_path: Path,
) -> None:
    lab = a_lab(tmp_path)
    patch = lab.diff({PATH: BROKEN}).replace(b"@@ -47,7 +47,7 @@", b"@@ -12,7 +90,7 @@")
    assert lab.fit(patch) == {PATH: BROKEN}


@pytest.mark.rule("S20")
@pytest.mark.slow
def test_a_hundred_thousand_hunks_take_seconds(tmp_path: Path) -> None:
    lines = [f"{number}: some text\n" for number in range(500_000)]
    old = "".join(lines).encode()
    lines[2::5] = [f"{number}: broken\n" for number in range(100_000)]
    new = "".join(lines).encode()
    lab = a_lab(tmp_path, {PATH: b""})
    patch = lab.patch(PATH, old, new, "-U1")
    assert patch.count(b"\n@@ ") == 100_000
    lab.write(PATH, b"new\n" + old)
    assert lab.fit(patch) == {PATH: b"new\n" + new}
