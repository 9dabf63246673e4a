"""TOML as roxy reads it: every failure in plain words, and where each key stands."""

from __future__ import annotations

import contextlib
import json
import tomllib
from typing import Any

import pytest
import tomli_w
from hypothesis import given, settings
from hypothesis import strategies as st

import strategies
from roxy.core import toml_text
from roxy.core.toml_outline import Key, outline
from roxy.core.toml_text import Place, TomlError

BROKEN = [
    ("a = ", "a value is missing", (1, 4)),
    ("a = nope\n", "a value is missing, or needs quotes", (1, 5)),
    ('\na = "x\n', "a string is not closed on its line", (2, 7)),
    ("a = 'x\nb = 'y'", "a string is not closed on its line", (1, 7)),
    ('a = """x\ny\n\n', "a string is not closed", (2, 2)),
    ("a = '''x", "a string is not closed", (1, 9)),
    ('a = "\\w"', "a backslash in a string begins no escape", (1, 8)),
    ("a = [1\nb = 2", "a list lacks a `,` or its `]`", (2, 1)),
    ("a 1", "a key has no `=` after it", (1, 3)),
    ("[a\nb = 1", "the name of a table lacks its closing bracket", (1, 3)),
    ("= 1", "a line is neither a key with its value nor the name of a table", (1, 1)),
    ('a = "é" b', "more stands on the line than may", (1, 9)),
    ("a.b = 1\na = 2\n", "a key is given twice, or is both a value and a table", (2, 6)),
]


def key_of_every_value(value: object, key: Key = ()) -> list[Key]:
    keys = [key] if key else []
    if isinstance(value, dict):
        for name, item in value.items():
            keys += key_of_every_value(item, (*key, name))
    if isinstance(value, list):
        for number, item in enumerate(value):
            keys += key_of_every_value(item, (*key, number))
    return keys


@pytest.mark.rule("S10")
@pytest.mark.parametrize(("text", "words", "place"), BROKEN)
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_a_syntax_error_is_told_in_plain_words_with_its_place(
    text: str, words: str, place: tuple[int, int], line_end: str
) -> None:
    with pytest.raises(TomlError) as caught:
        toml_text.parse(text.replace("\n", line_end))
    assert str(caught.value).startswith(f"is not valid TOML: {words}")
    assert caught.value.place == Place(*place)


@pytest.mark.rule("S10", "S37")
@pytest.mark.parametrize("marker", ["<<<<<<< HEAD", "=======", ">>>>>>> theirs", "||||||| base"])
def test_merge_markers_are_called_what_they_are(marker: str) -> None:
    with pytest.raises(TomlError, match="holds the markers of a merge") as caught:
        toml_text.parse(f"a = 1\n{marker}\nb = 2\n")
    assert caught.value.place == Place(2, 1)


@pytest.mark.rule("S10")
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a = " + "[" * 100_000, "is nested too deeply"),
        ("a = " + "{a=" * 100_000, "is nested too deeply"),
        ("a = " + "1" * 5_000, "holds a number that is too long"),
    ],
    ids=["lists", "tables", "number"],
)
def test_what_the_parser_cannot_take_is_an_error_and_no_crash(text: str, words: str) -> None:
    with pytest.raises(TomlError, match=words):
        toml_text.parse(text)
    outline(text)


@pytest.mark.rule("S10")
@pytest.mark.parametrize(
    ("data", "words", "place"),
    [
        ("a".encode("utf-16"), "is UTF-16, not UTF-8", None),
        ("a".encode("utf-32"), "is UTF-32, not UTF-8", None),
        ("a = 1".encode("utf-16-le"), "holds a NUL byte", Place(1, 2)),
        ("# grün\n".encode("latin-1"), "is not UTF-8: byte 0xfc at offset 4", Place(1, 5)),
        (b"a = 1\r\n# \xc3\xa9 \xff", "is not UTF-8: byte 0xff at offset 12", Place(2, 5)),
        (b"\xef\xbb\xbf\xff", "is not UTF-8: byte 0xff at offset 3", Place(1, 1)),
    ],
)
def test_another_encoding_is_a_clear_error(data: bytes, words: str, place: Place | None) -> None:
    with pytest.raises(TomlError) as caught:
        toml_text.decode(data)
    assert str(caught.value).startswith(words)
    assert caught.value.place == place


@pytest.mark.rule("S10")
def test_a_byte_order_mark_and_crlf_are_read() -> None:
    assert toml_text.decode(b"\xef\xbb\xbfa = 1\r\nb = 2\r\n") == "a = 1\nb = 2\n"
    assert toml_text.parse("\ufeffa = '''\r\nx\r\ny'''\r\n") == {"a": "x\ny"}


DOCUMENT = r'''# a = 1
a = 1 # b = 2
"b.c" . 'd' = "x # ] } \" y" # quoted and dotted
text = """
[no.table]
key = "" \""" and on \
   """"" # with two quotes of its own at the end
raw = "" # empty
literal = QQQ
[no] = "\QQQQ # with a quote of its own at the end
list = [ # one
  1, [ "]", 'b'], # two
  {x = 1, y.z = [2]}, 1979-05-27 07:32:00 ,
]
inline = { p = "}", q = { r = true } }

[ t . "é\u0041" ] # a table
k = 1
[[tables]]
k = 1
[[tables]]
k = 2
[tables.sub]
k = 3
[deep.in.side]'''.replace("Q", "'")
PLACES: list[tuple[Key, int, int]] = [
    (("a",), 2, 1),
    (("b.c",), 3, 1),
    (("b.c", "d"), 3, 9),
    (("text",), 4, 1),
    (("raw",), 8, 1),
    (("literal",), 9, 1),
    (("list",), 11, 1),
    (("list", 0), 12, 3),
    (("list", 1), 12, 6),
    (("list", 1, 0), 12, 8),
    (("list", 1, 1), 12, 13),
    (("list", 2), 13, 3),
    (("list", 2, "x"), 13, 4),
    (("list", 2, "y"), 13, 11),
    (("list", 2, "y", "z"), 13, 13),
    (("list", 2, "y", "z", 0), 13, 18),
    (("list", 3), 13, 23),
    (("inline",), 15, 1),
    (("inline", "p"), 15, 12),
    (("inline", "q"), 15, 21),
    (("inline", "q", "r"), 15, 27),
    (("t",), 17, 3),
    (("t", "éA"), 17, 7),
    (("t", "éA", "k"), 18, 1),
    (("tables",), 19, 3),
    (("tables", 0), 19, 3),
    (("tables", 0, "k"), 20, 1),
    (("tables", 1), 21, 3),
    (("tables", 1, "k"), 22, 1),
    (("tables", 1, "sub"), 23, 9),
    (("tables", 1, "sub", "k"), 24, 1),
    (("deep",), 25, 2),
    (("deep", "in"), 25, 7),
    (("deep", "in", "side"), 25, 10),
]


@pytest.mark.rule("S10")
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_the_outline_knows_where_every_key_stands(line_end: str) -> None:
    keys = outline("\ufeff" + DOCUMENT.replace("\n", line_end))
    assert [(key, keys.place(key)) for key, _, _ in PLACES] == [
        (key, Place(line, column)) for key, line, column in PLACES
    ]
    assert {key for key, _, _ in PLACES} == set(key_of_every_value(tomllib.loads(DOCUMENT)))
    assert keys.repeats == ()


@pytest.mark.rule("S10")
def test_a_key_that_is_missing_has_the_place_of_what_it_is_missing_from() -> None:
    keys = outline("[a.b]\nc = 1\n[a.b.d]\n[a]")
    assert keys.place(("a", "b", "missing")) == Place(1, 4)
    assert keys.place(("a", "missing", 3, "x")) == Place(4, 2)
    assert keys.place(("missing",)) is None


@pytest.mark.rule("S10")
@pytest.mark.parametrize(
    ("text", "repeats", "without"),
    [
        ("a = 1\na = 2 # x\nb = 3", [(("a",), 2, 1, 1)], {"a": 1, "b": 3}),
        ("a = {b = 1, b = [2, {c = 1}], d = 3}", [(("a", "b"), 1, 13, 1)], {"a": {"b": 1, "d": 3}}),
        ("a = 1\na = QQ\nx\nQQ", [(("a",), 2, 1, 1)], {"a": 1}),
        ("a.b = 1\na.'b' = 2", [(("a", "b"), 2, 3, 1)], {"a": {"b": 1}}),
        (
            "[a]\nb = 1\n[c]\n[ a ]\nb = 2\nd = 3\n[e]",
            [(("a",), 4, 3, 1)],
            {"a": {"b": 1}, "c": {}, "e": {}},
        ),
        ("a = 1\n[b]\n[a]\nc = 1", [(("a",), 3, 2, 1)], {"a": 1, "b": {}}),
        ("[[a]]\nb = 1\n[[a]]\nb = 1", [], {"a": [{"b": 1}, {"b": 1}]}),
        ("[a.b]\n[a]\nc = 1", [], {"a": {"b": {}, "c": 1}}),
    ],
)
def test_repeats_are_found_and_can_be_left_out(
    text: str, repeats: list[tuple[Key, int, int, int]], without: dict[str, Any]
) -> None:
    keys = outline(text.replace("QQ", '"""'))
    assert [(r.key, r.place.line, r.place.column, r.first.line) for r in keys.repeats] == repeats
    assert tomllib.loads(keys.text_without_repeats()) == without


def values() -> st.SearchStrategy[Any]:
    text = st.text(st.sampled_from("ab\n\"'\\[]{}#=.,\t é"), max_size=8)
    leaves = st.booleans() | st.integers() | st.floats(allow_nan=False) | st.datetimes() | text
    return st.recursive(
        leaves,
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(strategies.names(), inner, max_size=3)
        ),
        max_leaves=12,
    )


@pytest.mark.rule("S10")
@settings(max_examples=100)
@given(
    document=st.dictionaries(strategies.names(), values(), min_size=1, max_size=4),
    multiline=st.booleans(),
)
def test_the_outline_finds_every_key_of_any_document(
    document: dict[str, Any], *, multiline: bool
) -> None:
    text = tomli_w.dumps(document, multiline_strings=multiline)
    keys = outline(text)
    assert keys.repeats == ()
    for key in key_of_every_value(tomllib.loads(text)):
        place = keys.place(key)
        assert place is not None
        rest = text.split("\n")[place.line - 1][place.column - 1 :]
        name = key[-1]
        if isinstance(name, str):
            assert rest.startswith((name, json.dumps(name, ensure_ascii=False)))


@pytest.mark.rule("S10")
@settings(max_examples=200)
@given(text=st.text("ab=.\n\"'[]{},#1 \\", max_size=30))
def test_any_text_is_read_or_refused_and_never_more(text: str) -> None:
    keys = outline(text)
    with contextlib.suppress(TomlError):
        values = toml_text.parse(text)
        assert keys.repeats == ()
        assert all(keys.place(key) for key in key_of_every_value(values))
