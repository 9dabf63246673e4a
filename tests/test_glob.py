"""What globs mean: a table of every sentence of S13, and a slow matcher to agree with."""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import strategies
from roxy.core import glob
from roxy.core.glob import GlobError

if TYPE_CHECKING:
    from collections.abc import Callable

SRC = Path(__file__).parent.parent / "src"


def every_path(characters: str, length: int, depth: int) -> list[bytes]:
    names = [
        "".join(letters)
        for size in range(1, length + 1)
        for letters in itertools.product(characters, repeat=size)
    ]
    return [
        "/".join(components).encode()
        for size in range(1, depth + 1)
        for components in itertools.product(names, repeat=size)
    ]


MATCHES = {
    "src/a.py": "src/a.py",
    "*.py": "a.py .py .hidden.py",
    "src/*": "src/a src/.env",
    "src/*.py": "src/a.py src/.py",
    "*": "a .gitignore",
    "a?c": "abc a.c a?c aéc a€c",
    "src/**": "src/a src/a/b src/.a/.b",
    "**": "a a/b .a/.b",
    "src/**/b.py": "src/b.py src/x/b.py src/x/.y/b.py",
    "**/b.py": "b.py x/b.py x/y/b.py",
    "**/*": "a a/b",
    "a/**/b/**/c": "a/b/c a/x/b/y/c a/b/b/c",
    "a/**/**/b": "a/b a/x/b",
    "src/**/**": "src/a src/a/b",
    "[ab].c": "a.c b.c",
    "[!ab].c": "c.c ..c é.c",
    "[a-c]": "a b c",
    "[]a]": "] a",
    "[!]a]": "b [",
    "[^a]": "^ a",
    "[a-]": "a -",
    "[-a]": "a -",
    "[a-c-e]": "a b c - e",
    "[a-c]-e": "a-e",
    r"[\]]": "]",
    r"[\a-\c]": "b",
    "[a/]": "a",
    "[é-ü]": "é ö",
    "[[a]": "[ a",
    "{a,b}.c": "a.c b.c",
    "{a,b{c,d}}": "a bc bd",
    "{a}": "a",
    "x{a,}": "xa x",
    "x{}y": "xy",
    "{src/**,lib}/x": "src/x src/a/x lib/x",
    "{**,a}/b": "b x/y/b a/b",
    "{[,],a}": ", a",
    r"{a\,b,c}": "a,b c",
    "a,b": "a,b",
    "a}": "a}",
    "a]": "a]",
    "{a,b}}": "a} b}",
    r"\*": "*",
    r"\[a]": "[a]",
    r"\{a,b\}": "{a,b}",
    r"a\/b": "a/b",
    r"\a": "a",
    "!a": "!a",
    "#a": "#a",
    "./a": "a",
    r"\./a": "a",
    "./{a,b}": "a b",
    "{./a,b}": "a b",
    "a$": "a$",
    "(a|b)+.": "(a|b)+.",
}
MISMATCHES = {
    "src": "src/a src/a/b srcs",
    "src/a.py": "src/a_py src/A.py x/src/a.py src/a.py/x",
    "*.py": "src/a.py a.PY a.pyc",
    "src/*": "src src/a/b",
    "a/b": "a b a/b/c",
    "*": "a/b",
    "a?c": "a/c ac abbc",
    "a??c": "aéc",
    "src/**": "src srcs/a",
    "src/**/b.py": "src/xb.py b.py src/x/b.pyc",
    "**/b.py": "xb.py x/b.py/y",
    "a/**/b": "ab a/xb ax/b",
    "src/**/**": "src",
    "[ab]": "c ab / A",
    "[!a]": "a / bc",
    "[!ab]c": "/c",
    "a[!b]c": "a/c abc",
    "a[.-0]c": "a/c",
    "a[/]c": "a/c a[/]c",
    "[^a]": "b",
    "{a,b}": "c ab {a,b}",
    "x{a,}": "xb",
    r"\*": "a",
    r"\[a]": "a",
    "!a": "b",
    "*a": "a/a",
    "\u00e9": "e\u0301",
    ".*": "a",
}
ERRORS = {
    "": "`` is empty",
    "/a": "`/a` is absolute",
    "/": "`/` is absolute",
    "src/": "`src/` ends in `/`",
    "a//b": "`a//b` has nothing between two slashes",
    ".": "`.` has a component `.`",
    "a/./b": "`a/./b` has a component `.`",
    "././a": "`././a` has a component `.`",
    "..": "`..` has a component `..`",
    "a/../b": "`a/../b` has a component `..`",
    r"a/\.\.": r"`a/\.\.` has a component `..`",
    "[a": "`[a` has a `[` that is not closed",
    "[]": "`[]` has a `[` that is not closed",
    "[!]": "`[!]` has a `[` that is not closed",
    r"[a\]": r"`[a\]` has a `[` that is not closed",
    "{a": "`{a` has a `{` that is not closed",
    "{{a}": "`{{a}` has a `{` that is not closed",
    "[z-a]": "`[z-a]` has a backward range `z-a`",
    "[b-ac]": "`[b-ac]` has a backward range `b-a`",
    "a**": "`a**` has a `**` that is not a whole component",
    "a/**b": "`a/**b` has a `**` that is not a whole component",
    "***": "`***` has a `**` that is not a whole component",
    "a\\": "`a\\` ends in a backslash that escapes nothing",
    "a\0": "`a\0` holds a NUL character",
    "{a,}": "`{a,}` also means ``, which is empty",
    "{a,/b}": "`{a,/b}` also means `/b`, which is absolute",
    "a/{b,}": "`a/{b,}` also means `a/`, which ends in `/`",
    "a{,*}*": "`a{,*}*` also means `a**`, which has a `**` that is not a whole component",
    "{a,b}" * 40: "has more than 1,024 alternatives",
    "{" + "a," * 1024 + "a}": "has more than 1,024 alternatives",
    "{a,b}" * 10 + "x" * 200: "is too long once its braces are written out",
    "a" * 4097: "is longer than 4,096 characters",
    "{" * 4000: "has a `{` that is not closed",
}


def rows(table: dict[str, str]) -> list[tuple[str, str]]:
    return [(text, path) for text, paths in table.items() for path in paths.split(" ")]


@pytest.mark.rule("S13")
@pytest.mark.parametrize(("text", "path"), rows(MATCHES))
def test_a_glob_matches_what_the_contract_says(text: str, path: str) -> None:
    assert glob.parse(text).matches(path.encode())


@pytest.mark.rule("S13")
@pytest.mark.parametrize(("text", "path"), rows(MISMATCHES))
def test_a_glob_matches_nothing_else(text: str, path: str) -> None:
    assert not glob.parse(text).matches(path.encode())


@pytest.mark.rule("S13")
@pytest.mark.parametrize("text", ["src", "sr?", "s*", "{src,lib}", "[s]rc", "./src"])
def test_a_glob_that_names_a_directory_matches_nothing_below_it(text: str) -> None:
    assert not glob.parse(text).matches(b"src/a.py")


@pytest.mark.rule("S13")
@pytest.mark.parametrize(("text", "what"), ERRORS.items(), ids=range(len(ERRORS)))
def test_a_glob_that_means_nothing_is_an_error_that_says_why(text: str, what: str) -> None:
    with pytest.raises(GlobError) as caught:
        glob.parse(text)
    assert what in str(caught.value)


@pytest.mark.rule("S13")
@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("src/", "for what is below that folder, write `src/**`"),
        ("/src/**", "globs start at the top of the working tree: `src/**`"),
        ("a**", "`**/` crosses folders, `*` stays within one"),
        ("[id", "for a `[` itself, write `\\[`"),
        ("{id", "for a `{` itself, write `\\{`"),
        ("..", None),
    ],
)
def test_a_glob_error_hints_at_what_was_meant(text: str, hint: str | None) -> None:
    with pytest.raises(GlobError) as caught:
        glob.parse(text)
    assert caught.value.hint == hint


@pytest.mark.rule("S13")
def test_as_many_alternatives_as_are_allowed_all_match() -> None:
    parsed = glob.parse("{a,b}" * 10)
    assert len(parsed.prefixes) == glob.MAX_ALTERNATIVES
    assert parsed.matches(b"ababababab")
    assert not parsed.matches(b"abababababa")


@pytest.mark.rule("S13", "S15")
@pytest.mark.parametrize(
    ("text", "path", "is_match"),
    [
        ("?", "é".encode(), True),
        ("??", "é".encode(), False),
        ("?", "🦊".encode(), True),
        ("[!a]", "é".encode(), True),
        ("?", b"\xff", True),
        ("??", b"\xff\xfe", True),
        ("?", b"\xff\xfe", False),
        ("??", b"\xc3/", False),
        ("[!a]b", b"\xe9b", True),
        ("*", b"a\xffb", True),
        ("a*", b"a\n", True),
        ("a", b"a\n", False),
        ("a?b", b"a\nb", True),
        ("a/**", b"a/\n", True),
        ("**", b"\n", True),
        ("**/b", b"a\n/b", True),
        ("a/**/b/**/c", b"a/\n/b/\xff\n/c", True),
        ("[!a]", b"\n", True),
        ("*.py", b"a.py\n", False),
        ("a\nb", b"a\nb", True),
        ("\x1b[31m]", b"\x1b3", True),
    ],
)
def test_names_are_matched_by_character_or_where_not_utf_8_by_byte(
    text: str, path: bytes, *, is_match: bool
) -> None:
    assert glob.parse(text).matches(path) is is_match


@pytest.mark.rule("S16")
@pytest.mark.parametrize(
    ("text", "prefixes"),
    [
        ("src/a.py", [b"src/a.py"]),
        ("./src/a.py", [b"src/a.py"]),
        ("src/**", [b"src/"]),
        ("src/app*/x", [b"src/"]),
        ("src/a/b?.py", [b"src/a/"]),
        ("src/[a]/b", [b"src/"]),
        ("**", [b""]),
        ("*.py", [b""]),
        ("**/b", [b""]),
        ("{a,b}/**", [b"a/", b"b/"]),
        ("{src/**,src/a.py,src/b/*}", [b"src/"]),
        ("{src,src/a,src/*}", [b"src", b"src/"]),
        ("{*,a/b}", [b""]),
        ("{a,a}/b", [b"a/b"]),
        (r"a\*/\[b]/*", [b"a*/[b]/"]),
        (r"a\*", [b"a*"]),
        ("é/*", ["é/".encode()]),
        ("a}/b,/x*", [b"a}/b,/"]),
    ],
)
def test_prefixes_tell_where_matches_can_lie(text: str, prefixes: list[bytes]) -> None:
    assert list(glob.parse(text).prefixes) == prefixes


@pytest.mark.rule("S13", "S16")
def test_matching_takes_little_work_whatever_glob_and_path_hold() -> None:
    program = """
from roxy.core import glob
for text, path in [
    ("*a*a*a*a*a*a*a*a*b", b"a" * 4000),
    ("a*" * 200 + "b", b"a" * 4000),
    ("?*" * 200 + "b", b"a" * 4000),
    ("[ab]*[!b]*" * 50 + "b", b"a" * 4000),
    ("**/a/**/a/**/a/**/a/**/a/**/b", b"a/" * 2000 + b"c"),
    ("**/*a*a/**/?*a/**/*a*/**/*a*a*b/*a*b", b"aaaaaaaaaa/" * 300 + b"c"),
    ("**/*/" * 100 + "b", b"a/" * 2000 + b"c"),
    ("{**/,}" * 6 + "*a*b", b"a/" * 2000 + b"c"),
]:
    assert not glob.parse(text).matches(path), text
print("done")
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(SRC)},
        capture_output=True,
        check=True,
        timeout=60,  # if it went wrong, hours would not do
    )
    assert done.stdout == b"done\n"


@pytest.mark.rule("S14")
@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("src", "`src` is a folder; for what is below it, write `src/**`"),
        ("src/a*", "`src/api` is a folder; for what is below it, write `src/a*/**`"),
        ("SRC/Main.py", "`src/main.py` differs from it only in case"),
        ("**/*.PY", "`src/main.py` differs from it only in case"),
        ("app/[id]/page.ts", r"for the file of that name, write `app/\[id\]/page.ts`"),
        ("lib/**", None),
    ],
)
def test_a_near_miss_is_explained(text: str, hint: str | None) -> None:
    paths = [b"src/main.py", b"src/api/v1/x.py", b"app/[id]/page.ts"]
    assert glob.near_miss(glob.parse(text), paths) == hint


# The slow matcher: it reads a glob character by character, tries every way to split a path, and
# shares nothing with the module but the contract.

SLASH, STAR, ANY = object(), object(), object()
Atom = object
"""One of the above, a character that stands for itself, or a function that accepts characters."""


class InvalidGlobError(Exception):
    pass


def slow_sequence(text: str, *, within: bool = False) -> tuple[list[list[Atom]], str]:
    """Read to the end, or within braces to what ends the item; give the alternatives and the rest."""
    found: list[list[Atom]] = [[]]
    while text and not (within and text[0] in ",}"):
        if text[0] != "{":
            atom, text = slow_atom(text)
            found = [[*one, atom] for one in found]
            continue
        options: list[list[Atom]] = []
        text = "," + text[1:]
        while text.startswith(","):
            more, text = slow_sequence(text[1:], within=True)
            options += more
        if not text:
            raise InvalidGlobError
        text = text[1:]
        found = [[*one, *other] for one in found for other in options]
    return found, text


def slow_atom(text: str) -> tuple[Atom, str]:
    special = {"/": SLASH, "*": STAR, "?": ANY}
    if text[0] == "[":
        return slow_class(text[1:])
    if text[0] != "\\":
        return special.get(text[0], text[0]), text[1:]
    if len(text) == 1:
        raise InvalidGlobError
    return SLASH if text[1] == "/" else text[1], text[2:]


def slow_class(text: str) -> tuple[Callable[[str], bool], str]:
    is_negated = text.startswith("!")
    text = text[1:] if is_negated else text
    members: list[tuple[str, bool]] = []
    while not (text.startswith("]") and members):
        is_escaped = text.startswith("\\")
        text = text[1:] if is_escaped else text
        if not text:
            raise InvalidGlobError
        members.append((text[0], is_escaped))
        text = text[1:]
    ranges: list[tuple[str, str]] = []
    while members:
        width = 3 if len(members) > 2 and members[1] == ("-", False) else 1
        ranges.append((members[0][0], members[width - 1][0]))
        members = members[width:]
    if any(low > high for low, high in ranges):
        raise InvalidGlobError
    return lambda c: any(low <= c <= high for low, high in ranges) != is_negated, text[1:]


def slow_components(atoms: list[Atom]) -> list[list[Atom]]:
    components: list[list[Atom]] = [[]]
    for atom in atoms:
        if atom is SLASH:
            components.append([])
        else:
            components[-1].append(atom)
    if components[0] == ["."] and len(components) > 1:
        components = components[1:]
    for component in components:
        if component in ([], ["."], [".", "."]):
            raise InvalidGlobError
        pairs = list(itertools.pairwise(component))
        if (STAR, STAR) in pairs and component != [STAR, STAR]:
            raise InvalidGlobError
    return components


def slow_match(components: list[list[Atom]], names: list[str]) -> bool:
    if not components:
        return not names
    if components[0] == [STAR, STAR]:
        if len(components) == 1:
            return bool(names)
        return any(slow_match(components[1:], names[at:]) for at in range(len(names) + 1))
    return (
        bool(names)
        and slow_match_name(components[0], names[0])
        and slow_match(components[1:], names[1:])
    )


def slow_match_name(atoms: list[Atom], name: str) -> bool:
    if not atoms:
        return not name
    if atoms[0] is STAR:
        return any(slow_match_name(atoms[1:], name[at:]) for at in range(len(name) + 1))
    return bool(name) and slow_match_one(atoms[0], name[0]) and slow_match_name(atoms[1:], name[1:])


def slow_match_one(atom: Atom, character: str) -> bool:
    if atom is ANY:
        return True
    return atom(character) if callable(atom) else atom == character


def slow_alternatives(text: str) -> list[list[list[Atom]]]:
    return [slow_components(atoms) for atoms in slow_sequence(text)[0]]


EVERY_PATH = every_path("ab", 2, 3)


@pytest.mark.rule("S13", "S16")
@settings(max_examples=300)
@given(text=strategies.globs(), more=st.lists(strategies.paths(), max_size=20))
def test_a_glob_agrees_with_a_slow_matcher(text: str, more: list[bytes]) -> None:
    try:
        alternatives = slow_alternatives(text)
    except InvalidGlobError:
        with pytest.raises(GlobError):
            glob.parse(text)
        return
    parsed = glob.parse(text)
    for path in EVERY_PATH + more:
        names = path.decode("utf-8", "surrogateescape").split("/")
        expected = any(slow_match(alternative, names) for alternative in alternatives)
        assert parsed.matches(path) is expected, path
        assert not expected or path.startswith(parsed.prefixes)


@pytest.mark.rule("S13", "S16")
@settings(max_examples=60)
@given(text=strategies.globs())
@example("a")
@example("a/**")
@example("{a,a/**}")
@example("**")
def test_of_many_paths_a_glob_finds_those_that_it_matches(text: str) -> None:
    with contextlib.suppress(GlobError):
        parsed = glob.parse(text)
        paths = sorted(EVERY_PATH)
        expected = [path for path in paths if parsed.matches(path)]
        assert list(parsed.matching(paths)) == expected
        assert list(parsed.matching(tuple(paths))) == expected


@pytest.mark.rule("S16")
@settings(max_examples=100)
@given(text=strategies.globs())
def test_no_prefix_lies_within_another(text: str) -> None:
    with contextlib.suppress(GlobError):
        prefixes = glob.parse(text).prefixes
        for one, other in itertools.permutations(prefixes, 2):
            assert not (other.startswith(one) and (one == b"" or one.endswith(b"/")))
            assert one != other
