"""What a patch says, and where hunks go in a stream: no disk, no git (S17, S20)."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roxy.core import splice as splicing
from roxy.core.patch import Fact, Hunk, PatchError, are_in_order, is_consistent, parse, render
from roxy.core.splice import Found, Span, group, locate, splice

HEADER = b"diff --git a/f b/f\nindex 1234567..89abcde 100644\n--- a/f\n+++ b/f\n"


def a_hunk(line: int, old: bytes, new: bytes = b"new\n") -> Hunk:
    return Hunk(line, line, old, _count(old), new, _count(new), b"-%b+%b" % (old, new))


def _count(text: bytes) -> int:
    return text.count(b"\n") + (not (text or b"\n").endswith(b"\n"))


def spliced(source: bytes, *hunks: Hunk, shift: int = 0) -> bytes | None:
    out: list[bytes] = []
    spans = splice(io.BytesIO(source), hunks, shift, out.append)
    return None if spans is None else b"".join(out)


# ------------------------------------------------------------------- reading


@pytest.mark.rule("S17")
def test_parse_reads_both_sides_of_a_hunk() -> None:
    (section,) = parse(HEADER + b"@@ -3,3 +3,3 @@ def f():\n a\n-b\n+c\n d\n")
    assert section.hunks == (Hunk(2, 2, b"a\nb\nd\n", 3, b"a\nc\nd\n", 3, b" a\n-b\n+c\n d\n"),)
    assert (section.added, section.deleted) == (1, 1)
    assert (section.old_id, section.facts, section.header) == ("1234567", (), HEADER)


@pytest.mark.rule("S17")
@pytest.mark.parametrize(
    ("body", "old", "new"),
    [
        (b"@@ -1 +1 @@\n-a\n+b\n\\ No newline at end of file\n", b"a\n", b"b"),
        (b"@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n", b"a", b"b\n"),
        (b"@@ -1,2 +1,2 @@\n-a\n+b\n c\n\\ No newline at end of file\n", b"a\nc", b"b\nc"),
        (b"@@ -1 +1,2 @@\n-a\n\\ No newline at end of file\n+a\n+b\n", b"a", b"a\nb\n"),
        (b"@@ -0,0 +1,2 @@\n+a\n+b\n", b"", b"a\nb\n"),
        (b"@@ -1,2 +0,0 @@\n-a\n-b\n", b"a\nb\n", b""),
        (b"@@ -1,3 +1,3 @@\n a\n\n-b\n+c\n", b"a\n\nb\n", b"a\n\nc\n"),
        (b"@@ -1 +1 @@\n-a\r\n+b\r\n", b"a\r\n", b"b\r\n"),
        (b"@@ -1 +1 @@\n--- a\n+++ b\n", b"-- a\n", b"++ b\n"),
    ],
)
def test_parse_takes_every_kind_of_line(body: bytes, old: bytes, new: bytes) -> None:
    ((hunk,),) = [section.hunks for section in parse(HEADER + body)]
    assert (hunk.old, hunk.new) == (old, new)


@pytest.mark.rule("S18")
@pytest.mark.parametrize(
    ("header", "fact"),
    [
        (b"new file mode 100644\nindex 0000000..89abcde\n--- /dev/null\n+++ b/f\n", Fact.CREATES),
        (b"deleted file mode 100644\n--- a/f\n+++ /dev/null\n", Fact.DELETES),
        (b"similarity index 90%\nrename from f\nrename to g\n--- a/f\n+++ b/g\n", Fact.RENAMES),
        (b"similarity index 90%\ncopy from f\ncopy to g\n--- a/f\n+++ b/g\n", Fact.COPIES),
        (b"old mode 100644\nnew mode 100755\n--- a/f\n+++ b/f\n", Fact.CHANGES_MODE),
    ],
)
def test_parse_reads_what_a_header_says_besides_edits(header: bytes, fact: Fact) -> None:
    (section,) = parse(b"diff --git a/f b/f\n" + header + b"@@ -1 +1 @@\n-a\n+b\n")
    assert section.facts == (fact,)
    assert section.old_id is None


def test_parse_passes_over_a_mail_around_the_patch() -> None:
    mail = b"From 1234 Mon Sep 17\nSubject: [PATCH] x\n\n---\n f | 2 +-\n\n"
    (section,) = parse(mail + HEADER + b"@@ -1 +1 @@\n-a\n+b\n-- \n2.39.5\n")
    assert section.header == HEADER
    assert len(section.hunks) == 1


def test_parse_reads_sections_without_diff_git() -> None:
    one, two = parse(
        b"--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n--- a/g\n+++ b/g\n@@ -1 +1 @@\n-a\n+b\n"
    )
    assert (one.header, two.header) == (b"--- a/f\n+++ b/f\n", b"--- a/g\n+++ b/g\n")


def test_parse_keeps_a_binary_part_verbatim() -> None:
    binary = b"GIT binary patch\nliteral 3\nKcmZQzWM%*W00000\n\nliteral 0\nHcmV?d00001\n\n"
    (section, other) = parse(HEADER + binary + HEADER + b"Binary files a/f and b/f differ\n")
    assert (section.binary, section.hunks) == (binary, ())
    assert (other.binary, other.lacks_bytes) == (None, True)


@pytest.mark.parametrize(
    "body",
    [
        b"@@ -1,2 +1,2 @@\n-a\n+b\n",
        b"@@ -1 +1 @@\n-a\n+b",
        b"@@ -1 +1 @@\n-a\nxb\n",
        b"@@ -1 +1,2 @@\n-a\n\\ No newline at end of file\n a\n",
        b"@@ -1 +1 @@\n\\ No newline at end of file\n-a\n+b\n",
        b"@@ -one +two @@\n-a\n+b\n",
        b"@@ -1 +1 @@\n a\n",
    ],
)
def test_parse_refuses_damaged_hunks(body: bytes) -> None:
    with pytest.raises(PatchError):
        parse(HEADER + body)


def test_are_in_order_finds_overlapping_hunks() -> None:
    assert are_in_order([a_hunk(0, b"a\n"), a_hunk(1, b"b\n"), a_hunk(2, b"")])
    assert not are_in_order([a_hunk(0, b"a\nb\n"), a_hunk(1, b"b\n")])


def test_is_consistent_finds_insertions_with_two_places() -> None:
    hunks = [a_hunk(0, b""), a_hunk(3, b"d\n", b""), replace(a_hunk(7, b""), new_line=7)]
    assert is_consistent(hunks)
    assert not is_consistent([*hunks[:2], replace(hunks[2], new_line=8)])
    assert is_consistent([replace(a_hunk(3, b"d\n"), new_line=9)])


def test_render_writes_numbers_from_which_git_cannot_slide() -> None:
    hunks = [a_hunk(0, b""), a_hunk(3, b"d\n", b""), a_hunk(7, b"x\ny\n")]
    assert [text for text in render(hunks, 10) if text.startswith(b"@@")] == [
        b"@@ -10,0 +11,1 @@\n",
        b"@@ -14,1 +15,0 @@\n",
        b"@@ -18,2 +18,1 @@\n",
    ]


# ------------------------------------------------------------------- putting in


@pytest.mark.rule("S20")
@pytest.mark.parametrize(
    ("source", "hunk", "expected"),
    [
        (b"a\nb\nc\n", a_hunk(1, b"b\n"), b"a\nnew\nc\n"),
        (b"a\nb\nb\n", a_hunk(0, b"b\n"), None),
        (b"a\nb", a_hunk(1, b"b"), b"a\nnew\n"),
        (b"a\nb\n", a_hunk(1, b"b"), None),
        (b"a\nb", a_hunk(1, b"b\n"), None),
        (b"a\nb\nc\n", a_hunk(1, b"b\n", b"new"), None),
        (b"a\nb\n", a_hunk(1, b"b\n", b"new"), b"a\nnew"),
        (b"", a_hunk(0, b""), b"new\n"),
        (b"a\nb", a_hunk(2, b""), None),
        (b"a\nb\n", a_hunk(2, b""), b"a\nb\nnew\n"),
        (b"a\n", a_hunk(3, b""), None),
        (b"a\nbc\n", a_hunk(1, b"b"), None),
        (b"a\n", a_hunk(-1, b"a\n"), None),
    ],
)
def test_splice_needs_the_very_lines_at_the_very_place(
    source: bytes, hunk: Hunk, expected: bytes | None
) -> None:
    assert spliced(source, hunk) == expected


@pytest.mark.rule("S20")
@given(
    st.lists(st.sampled_from([b"a\n", b"b\n", b"\n", b"long line %d\n" % 7]), max_size=60),
    st.data(),
)
def test_splice_equals_list_assignment(lines: list[bytes], data: st.DataObject) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(lines)), max_size=8).map(sorted))
    hunks, expected, at = [], [], 0
    for begin, end in zip(cuts[0::2], cuts[1::2], strict=False):
        hunks.append(a_hunk(begin - 5, b"".join(lines[begin:end])))
        expected += [*lines[at:begin], b"new\n"]
        at = end
    expected += lines[at:]
    for size in (1, 7, 1 << 18):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(splicing, "_BLOCK", size)
            assert spliced(b"".join(lines), *hunks, shift=5) == b"".join(expected)


# ------------------------------------------------------------------- looking


@pytest.mark.rule("S20")
@given(
    lines=st.lists(st.sampled_from([b"a", b"b", b"aa", b""]), max_size=40),
    newline=st.booleans(),
    wanted=st.lists(st.lists(st.sampled_from([b"a", b"b", b"aa", b""]), min_size=1, max_size=4)),
    ends=st.booleans(),
)
def test_locate_counts_as_brute_force_does(
    *, lines: list[bytes], newline: bool, wanted: list[list[bytes]], ends: bool
) -> None:
    source = b"".join(line + b"\n" for line in lines)
    source = source if newline else source[:-1]
    texts = [b"".join(line + b"\n" for line in some) for some in wanted]
    texts = [text[:-1] or b"b" if ends else text for text in texts]
    expected = [_brute_force(source, text) for text in texts]
    hunks = [a_hunk(0, text) for text in texts]
    for few, block in ((100, 3), (0, 3), (0, 1 << 18)):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(splicing, "_FEW", few)
            patched.setattr(splicing, "_BLOCK", block)
            assert locate(io.BytesIO(source), len(source), hunks) == expected


def _brute_force(source: bytes, text: bytes) -> Found:
    places = [
        at
        for at in range(len(source))
        if source.startswith(text, at)
        and (at == 0 or source[at - 1 : at] == b"\n")
        and (text.endswith(b"\n") or at + len(text) == len(source))
    ]
    return Found(len(places), source.count(b"\n", 0, places[0]) if places else -1)


def test_group_shows_git_a_small_file_whole_and_a_large_one_around_its_hunks() -> None:
    hunks = [a_hunk(0, b"a\n"), a_hunk(4, b"b\n"), a_hunk(9, b"c\n")]
    spans = [Span(0, 2), Span(8, 10), Span(3 << 20, (3 << 20) + 2)]
    (whole,) = group(hunks, spans, 2, 100)
    assert (whole.span, whole.hunks, whole.shift) == (Span(0, 100), hunks, 2)
    one, two = group(hunks, spans, 2, 4 << 20)
    assert (one.span, one.hunks, one.shift) == (Span(0, 10), hunks[:2], 0)
    assert (two.span, two.hunks, two.shift) == (spans[2], hunks[2:], -9)
