"""roxy.toml: what is read from it, and every fault in one go (S9-S11)."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
import tomli_w
from hypothesis import given, settings
from hypothesis import strategies as st

import strategies
from roxy.core import manifest
from roxy.core.errors import ConfigError, Fault
from roxy.core.model import Check, Claim, Manifest

if TYPE_CHECKING:
    from collections.abc import Sequence

CHECK_KEYS = (
    "run",
    "covers",
    "mutation",
    "timeout",
    "fails-with",
    "env",
    "inputs",
    "needs",
    "repeat",
    "strict",
    "ran",
    "at-least",
    "reproduces",
)
SCHEMA = Path(manifest.__file__).parent.parent / "schemas" / "roxy.toml.json"
A_CHECK = "a check is a table of its own: `[claims.NAME.checks.NAME]`"
PATCH_PATHS = "a mutation is named by its path below the top of the working tree"
GOOD = """\
[claims.upload]
description = "A signed-in user can upload an image"

[claims.upload.checks.web]
run = "bun test"
covers = ["apps/web/**", "lib/*.ts"]
mutation = "mutations/upload.patch"
"""


def faults(text: str) -> tuple[Fault, ...]:
    with pytest.raises(ConfigError) as caught:
        manifest.parse(text)
    return caught.value.faults


def a_check(lines: str, *, without: Sequence[str] = ()) -> str:
    """Return a manifest whose check `x/y` has, before the keys that it must have, `lines`."""
    keys = {"run": '"true"', "covers": '["a"]', "mutation": '"p"'}
    rest = [f"{key} = {value}" for key, value in keys.items() if key not in without]
    return "\n".join(["[claims.x.checks.y]", lines, *rest])


def as_document(claims: Sequence[Claim]) -> dict[str, Any]:
    return {
        "claims": {
            claim.name: {
                **({} if claim.description is None else {"description": claim.description}),
                "checks": {
                    check.name: {
                        "run": check.run,
                        "covers": list(check.covers),
                        "mutation": list(check.mutations),
                    }
                    for check in claim.checks
                },
            }
            for claim in claims
        }
    }


@pytest.mark.rule("S9")
def test_a_manifest_is_read_in_its_own_order() -> None:
    text = GOOD + (
        "[claims.a.checks]\n"
        "z = { run = 'true', covers = ['b'], mutation = ['p', 'q'] }\n"
        "a = { run = 'true', covers = ['b'], mutation = './p' }\n"
    )
    assert manifest.parse(text) == (
        Claim(
            "upload",
            "A signed-in user can upload an image",
            (
                Check(
                    claim="upload",
                    name="web",
                    run="bun test",
                    covers=("apps/web/**", "lib/*.ts"),
                    mutations=("mutations/upload.patch",),
                ),
            ),
        ),
        Claim(
            "a",
            None,
            (
                Check(claim="a", name="z", run="true", covers=("b",), mutations=("p", "q")),
                Check(claim="a", name="a", run="true", covers=("b",), mutations=("./p",)),
            ),
        ),
    )


@pytest.mark.rule("S10")
def test_a_byte_order_mark_and_crlf_change_nothing() -> None:
    text = GOOD.replace('"bun test"', '"""bun\ntest"""')
    assert manifest.parse("\ufeff" + text.replace("\n", "\r\n")) == manifest.parse(text)


@pytest.mark.rule("S9", "S10")
@pytest.mark.parametrize(
    ("lines", "what", "hint"),
    [
        ("mutaton = 1", "unknown key `mutaton`", "did you mean `mutation`?"),
        ("Run = 'x'", "unknown key `Run`", "did you mean `run`?"),
        ("COVERS = 'x'", "unknown key `COVERS`", "did you mean `covers`?"),
        (
            "q = 1",
            "unknown key `q`",
            f"what may stand here: {', '.join(f'`{key}`' for key in CHECK_KEYS)}",
        ),
        ("run = ['x']", "`run` must be a string, not a list", None),
        ("run = true", "`run` must be a string, not a boolean", None),
        ("run = 1", "`run` must be a string, not a number", None),
        ("run = 1.5", "`run` must be a string, not a number", None),
        ("run = 2026-11-30", "`run` must be a string, not a date or time", None),
        ("run = 10:00:00", "`run` must be a string, not a date or time", None),
        ("run.a = 'x'", "`run` must be a string, not a table", None),
        ("run = ''", "`run` must not be empty", None),
        ('run = " \\t\\n"', "`run` must not be empty", None),
        ('run = "a\\u0000"', "`run` holds a NUL character, which no command can", None),
        ("covers = 'a'", "`covers` must be a list of strings, not a string", None),
        ("covers = []", "`covers` must not be empty", None),
        ("covers = {}", "`covers` must be a list of strings, not a table", None),
        ("mutation = 1", "`mutation` must be a string or list of strings, not a number", None),
        ("mutation = []", "`mutation` must not be empty", None),
    ],
)
def test_a_fault_of_a_check_names_key_place_and_check(
    lines: str, what: str, hint: str | None
) -> None:
    key = re.split(r"[ .]", lines)[0]
    assert faults(a_check(lines, without=[key])) == (
        Fault(what, "roxy.toml:2:1, check `x/y`", hint),
    )


@pytest.mark.rule("S9", "S10", "S11", "S13")
@pytest.mark.parametrize(
    ("lines", "what", "column", "hint"),
    [
        ("covers = ['a', 1]", "`covers` must hold only strings, not a number", 16, None),
        ("covers = [['a']]", "`covers` must hold only strings, not a list", 11, None),
        (
            "covers = ['a', 'src/']",
            "glob `src/` ends in `/`",
            16,
            "for what is below that folder, write `src/**`",
        ),
        ("covers = ['', 'a']", "glob `` is empty", 11, None),
        ("mutation = ['p', 'p']", "`mutation` names `p` twice", 18, None),
        ("mutation = ['p', './p']", "`mutation` names `./p` twice", 18, None),
        ("mutation = ['p', 2]", "`mutation` must hold only strings, not a number", 18, None),
        ("mutation = ''", "patch `` has an empty path", 1, PATCH_PATHS),
        ("mutation = '/p'", "patch `/p` has an absolute path", 1, PATCH_PATHS),
        ("mutation = ['../p']", "patch `../p` has `..` in its path", 13, PATCH_PATHS),
        ("mutation = 'a/../p'", "patch `a/../p` has `..` in its path", 1, PATCH_PATHS),
        (
            'mutation = "p\\u0000"',
            "patch `p\0` has a NUL character in its path",
            1,
            PATCH_PATHS,
        ),
    ],
)
def test_a_fault_within_a_value_has_the_place_of_the_part(
    lines: str, what: str, column: int, hint: str | None
) -> None:
    key = lines.partition(" ")[0]
    assert faults(a_check(lines, without=[key])) == (
        Fault(what, f"roxy.toml:2:{column}, check `x/y`", hint),
    )


@pytest.mark.rule("S9", "S10")
@pytest.mark.parametrize("key", ["run", "covers", "mutation"])
def test_a_missing_key_is_told_at_its_table(key: str) -> None:
    from_an_edit = "`roxy try NAME --edits --save FILE` writes one from an edit"
    hint = from_an_edit if key == "mutation" else None
    assert faults(a_check("", without=[key])) == (
        Fault(f"`{key}` is missing", "roxy.toml:1:18, check `x/y`", hint),
    )


@pytest.mark.rule("S10")
def test_a_misspelt_key_is_one_fault_and_not_also_a_missing_one() -> None:
    assert faults(a_check("mutaton = 'p'", without=["mutation"])) == (
        Fault("unknown key `mutaton`", "roxy.toml:2:1, check `x/y`", "did you mean `mutation`?"),
    )


@pytest.mark.rule("S10")
@pytest.mark.parametrize(
    ("text", "what", "where", "hint"),
    [
        ("", "no claim is declared", "roxy.toml", A_CHECK),
        ("# nothing", "no claim is declared", "roxy.toml", A_CHECK),
        ("[claims]", "no claim is declared", "roxy.toml:1:2", A_CHECK),
        ("claims = 3", "`claims` must be a table, not a number", "roxy.toml:1:1", A_CHECK),
        ("[[claims]]", "`claims` must be a table, not a list", "roxy.toml:1:3", A_CHECK),
        ("[claim.x]", "unknown key `claim`", "roxy.toml:1:2", "did you mean `claims`?"),
        ("[claims.x]", "claim `x` has no check", "roxy.toml:1:9, claim `x`", A_CHECK),
        ("[claims.x.checks]", "claim `x` has no check", "roxy.toml:1:11, claim `x`", A_CHECK),
        (
            "[claims.x.check.y]",
            "unknown key `check`",
            "roxy.toml:1:11, claim `x`",
            "did you mean `checks`?",
        ),
        (
            "[claims]\nx = 'y'",
            "claim `x` must be a table, not a string",
            "roxy.toml:2:1, claim `x`",
            A_CHECK,
        ),
        (
            "[claims.x]\nchecks = ['y']",
            "`checks` must be a table, not a list",
            "roxy.toml:2:1, claim `x`",
            A_CHECK,
        ),
        (
            "[claims.x.checks]\nrun = 'true'",
            "check `run` must be a table, not a string",
            "roxy.toml:2:1, check `x/run`",
            A_CHECK,
        ),
        (
            GOOD + "[claims.upload.web]",
            "unknown key `web`",
            "roxy.toml:8:16, claim `upload`",
            "what may stand here: `description`, `checks`",
        ),
        (
            GOOD.replace('"A signed-in user can upload an image"', "[1]"),
            "`description` must be a string, not a list",
            "roxy.toml:2:1, claim `upload`",
            None,
        ),
        (
            "titel = 1\n" + GOOD,
            "unknown key `titel`",
            "roxy.toml:1:1",
            "what may stand here: `claims`, `defaults`, `secrets`",
        ),
    ],
)
def test_a_fault_outside_of_checks_says_where(
    text: str, what: str, where: str, hint: str | None
) -> None:
    assert faults(text) == (Fault(what, where, hint),)


@pytest.mark.rule("S10")
@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("", "is empty"),
        ("a/b", "holds a `/`: `a/b`"),
        ("a\n", "holds a control character: `a\n`"),
        ("\x1b[31m", "holds a control character: `\x1b[31m`"),
        ("\x7f", "holds a control character: `\x7f`"),
        ("a\x85", "holds a control character: `a\x85`"),
        ("-x", "begins with `-`: `-x`"),
    ],
)
def test_a_bad_name_of_claim_or_check_is_a_fault(name: str, fault: str) -> None:
    check = {"run": "true", "covers": ["a"], "mutation": "p"}
    text = tomli_w.dumps({"claims": {name: {"checks": {name: check}}}})
    column = text.index("checks") + len("checks.") + 1
    assert faults(text) == (
        Fault(f"the name of a claim {fault}", f"roxy.toml:1:9, claim `{name}`"),
        Fault(f"the name of a check {fault}", f"roxy.toml:1:{column}, check `{name}/{name}`"),
    )


@pytest.mark.rule("S10")
@pytest.mark.parametrize(
    "name", ["a", "a b", "a.b", 'a"b', "é", "a-", "\u2028", "\u202e", "*", " "]
)
def test_any_other_name_is_fine(name: str) -> None:
    check = {"run": "true", "covers": ["a"], "mutation": "p"}
    text = tomli_w.dumps({"claims": {name: {"checks": {name: check}}}})
    assert manifest.parse(text)[0].checks[0].id == f"{name}/{name}"


ALL_AT_ONCE = """titel = "x"
[claims.a.checks.web]
mutaton = "p"
run = ""
covers = [
  "src/", # a folder
  "ok",
  "{a",
]
run = "again"
[claims.b]
[claims."-".checks.c]
run = "true"
mutation = ["../p", "p"]
"""


@pytest.mark.rule("S10")
def test_all_faults_are_reported_in_the_order_of_the_file() -> None:
    assert [(fault.where, fault.what) for fault in faults(ALL_AT_ONCE)] == [
        ("roxy.toml:1:1", "unknown key `titel`"),
        ("roxy.toml:3:1, check `a/web`", "unknown key `mutaton`"),
        ("roxy.toml:4:1, check `a/web`", "`run` must not be empty"),
        ("roxy.toml:6:3, check `a/web`", "glob `src/` ends in `/`"),
        ("roxy.toml:8:3, check `a/web`", "glob `{a` has a `{` that is not closed"),
        ("roxy.toml:10:1, check `a/web`", "duplicate key `run`"),
        ("roxy.toml:11:9, claim `b`", "claim `b` has no check"),
        ("roxy.toml:12:9, claim `-`", "the name of a claim begins with `-`: `-`"),
        ("roxy.toml:12:20, check `-/c`", "`covers` is missing"),
        ("roxy.toml:14:13, check `-/c`", "patch `../p` has `..` in its path"),
    ]


@pytest.mark.rule("S10")
def test_a_table_that_is_declared_twice_is_one_fault() -> None:
    text = GOOD.replace("covers", "[claims.upload.checks.web]\ncovers")
    assert faults(text) == (
        Fault(
            "duplicate table `web`",
            "roxy.toml:6:23, check `upload/web`",
            "it stands first on line 4",
        ),
    )
    assert faults(GOOD + "[claims.upload]\nx = 1\n[claims.upload.checks.web]") == (
        Fault(
            "duplicate table `upload`", "roxy.toml:8:9, claim `upload`", "it stands first on line 1"
        ),
        Fault(
            "duplicate table `web`",
            "roxy.toml:10:23, check `upload/web`",
            "it stands first on line 4",
        ),
    )


@pytest.mark.rule("S10")
def test_a_syntax_error_is_one_fault_beside_the_duplicate_keys_before_it() -> None:
    text = a_check("run = 'x'") + "\nmutation = 'q'\n<<<<<<< HEAD\nq = 1\nq = 2\n"
    assert [(fault.where, fault.what) for fault in faults(text)] == [
        ("roxy.toml:3:1, check `x/y`", "duplicate key `run`"),
        ("roxy.toml:6:1, check `x/y`", "duplicate key `mutation`"),
        ("roxy.toml:7:1", "`roxy.toml` holds the markers of a merge that is not finished"),
    ]


@pytest.mark.rule("S10")
def test_nesting_without_end_is_a_fault() -> None:
    assert faults("a = " + "[" * 100_000) == (
        Fault("`roxy.toml` is nested too deeply", "roxy.toml"),
    )


@pytest.mark.rule("S9", "S10")
@settings(max_examples=60)
@given(claims=strategies.claims(), multiline=st.booleans())
def test_parse_gives_back_what_was_written(claims: tuple[Claim, ...], *, multiline: bool) -> None:
    text = tomli_w.dumps(as_document(claims), multiline_strings=multiline)
    assert manifest.parse(text) == claims


@pytest.mark.rule("S10")
@settings(max_examples=60)
@given(claims=strategies.claims(), data=st.data())
def test_a_line_that_is_repeated_is_the_only_fault(
    claims: tuple[Claim, ...], data: st.DataObject
) -> None:
    lines = tomli_w.dumps(as_document(claims)).split("\n")
    repeatable = [n for n, line in enumerate(lines) if line.startswith(("run =", "[claims."))]
    number = data.draw(st.sampled_from(repeatable))
    lines.insert(number, lines[number])
    (fault,) = faults("\n".join(lines))
    assert fault.what.startswith("duplicate ")
    assert fault.where is not None
    assert fault.where.startswith(f"roxy.toml:{number + 2}:")
    assert fault.hint == f"it stands first on line {number + 1}"


PIECES = st.sampled_from(
    (
        *("[claims.x.checks.y]", "[claims.x]", "[claims]", "[[claims]]", "claims.x.y="),
        *("run", "run=", "covers=", "mutation=", "'a'", "''", "['a']", "'../a'", '""', "1", "true"),
        *("[", "]", "{", "}", "=", ".", ",", "#", "\n", "\n", "\n"),
    )
)


@pytest.mark.rule("S10")
@settings(max_examples=300)
@given(text=st.lists(PIECES, max_size=16).map("".join))
def test_any_text_is_a_manifest_or_has_faults_with_places(text: str) -> None:
    try:
        claims = manifest.parse(text)
    except ConfigError as error:
        places = [str(fault.where) for fault in error.faults]
    else:
        places = ["roxy.toml"]
        assert claims
    assert all(place.startswith("roxy.toml") for place in places)


# From the working tree.


@pytest.fixture
def top(tmp_path: Path) -> Path:
    top = tmp_path / "top"
    (top / "mutations").mkdir(parents=True)
    (top / "mutations" / "upload.patch").write_bytes(b"--- a\r\n\xff")
    (top / "roxy.toml").write_text(GOOD)
    return top


def read(top: Path) -> Manifest:
    root = os.open(top, os.O_RDONLY | os.O_DIRECTORY)
    try:
        return manifest.read(root)
    finally:
        os.close(root)


def read_faults(top: Path) -> tuple[Fault, ...]:
    with pytest.raises(ConfigError) as caught:
        read(top)
    return caught.value.faults


@pytest.mark.rule("S4", "S9", "S11")
def test_read_gives_the_claims_and_the_bytes_of_every_patch(top: Path) -> None:
    assert read(top) == Manifest(manifest.parse(GOOD), {"mutations/upload.patch": b"--- a\r\n\xff"})


@pytest.mark.rule("S11")
def test_a_patch_is_known_by_the_path_that_the_manifest_gives(top: Path) -> None:
    (top / "mutations" / "é.patch").symlink_to("upload.patch")
    text = GOOD.replace(
        '"mutations/upload.patch"', '["./mutations/upload.patch", "mutations/é.patch"]'
    )
    (top / "roxy.toml").write_bytes(text.encode())
    patches = read(top).patches
    assert list(patches) == ["./mutations/upload.patch", "mutations/é.patch"]
    assert set(patches.values()) == {b"--- a\r\n\xff"}


@pytest.mark.rule("S10", "S11")
def test_patches_that_cannot_be_read_are_faults_beside_all_others(top: Path) -> None:
    (top / "mutations" / "out").symlink_to("/etc/passwd")
    os.mkfifo(top / "mutations" / "fifo")
    (top / "mutations" / "large").write_bytes(b"")
    os.truncate(top / "mutations" / "large", manifest.MAX_PATCH + 1)
    (top / "roxy.toml").write_text(
        a_check(
            "mutation = [\n'mutations/out', 'mutations/fifo',\n'gone', 'mutations', '/p',\n"
            "'mutations/large', 'mutations/upload.patch']\nrum = 'x'",
            without=["mutation"],
        )
        + "\n[claims.x.checks.z]\nrun = 'true'\ncovers = ['a']\nmutation = 'gone'\n"
    )
    assert [(fault.where, fault.what) for fault in read_faults(top)] == [
        ("roxy.toml:3:1, check `x/y`", "patch `mutations/out` is outside the working tree"),
        ("roxy.toml:3:18, check `x/y`", "patch `mutations/fifo` is a FIFO"),
        ("roxy.toml:4:1, check `x/y`", "patch `gone` does not exist"),
        ("roxy.toml:4:9, check `x/y`", "patch `mutations` is a directory"),
        ("roxy.toml:4:22, check `x/y`", "patch `/p` has an absolute path"),
        ("roxy.toml:5:1, check `x/y`", "patch `mutations/large` is larger than 32 MiB"),
        ("roxy.toml:6:1, check `x/y`", "unknown key `rum`"),
        ("roxy.toml:12:1, check `x/z`", "patch `gone` does not exist"),
    ]


@pytest.mark.rule("S4", "S10")
@pytest.mark.parametrize(
    ("kind", "what", "where"),
    [
        ("missing", "there is no `roxy.toml` at the top of the working tree", None),
        ("directory", "`roxy.toml` is a directory", None),
        ("FIFO", "`roxy.toml` is a FIFO", None),
        ("large", "`roxy.toml` is larger than 4 MiB", None),
        ("latin-1", "`roxy.toml` is not UTF-8: byte 0xfc at offset 4", "roxy.toml:1:5"),
        ("utf-16", "`roxy.toml` is UTF-16, not UTF-8", "roxy.toml"),
    ],
)
def test_a_manifest_that_cannot_be_read_says_why(
    top: Path, kind: str, what: str, where: str | None
) -> None:
    file = top / "roxy.toml"
    file.unlink()
    match kind:
        case "directory":
            file.mkdir()
        case "FIFO":
            os.mkfifo(file)
        case "large":
            file.write_bytes(b"")
            os.truncate(file, manifest.MAX_MANIFEST + 1)
        case "latin-1" | "utf-16":
            file.write_bytes("# grün\n".encode(kind))
    (fault,) = read_faults(top)
    assert (fault.what, fault.where) == (what, where)


@pytest.mark.rule("S10")
def test_a_manifest_with_byte_order_mark_and_crlf_is_read_from_disk(top: Path) -> None:
    (top / "roxy.toml").write_bytes(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode())
    assert read(top).claims == manifest.parse(GOOD)


# The schema for editors.

CHECK = {"run": "true", "covers": ["a"], "mutation": "p"}


def is_valid(document: dict[str, Any]) -> bool:
    schema = json.loads(SCHEMA.read_text())
    jsonschema.Draft7Validator.check_schema(schema)
    return jsonschema.Draft7Validator(schema).is_valid(document)


@pytest.mark.rule("S47")
@pytest.mark.parametrize(
    "check",
    [
        CHECK,
        {**CHECK, "mutation": ["p", "q"]},
        {**CHECK, "run": "a\nb"},
        {**CHECK, "run": " \n"},
        {**CHECK, "run": "a\0"},
        {**CHECK, "run": 1},
        {**CHECK, "covers": []},
        {**CHECK, "covers": "a"},
        {**CHECK, "covers": [""]},
        {**CHECK, "covers": ["/a"]},
        {**CHECK, "covers": ["a/"]},
        {**CHECK, "covers": ["a//b"]},
        {**CHECK, "covers": ["a/../b"]},
        {**CHECK, "covers": ["a..b/**"]},
        {**CHECK, "mutation": []},
        {**CHECK, "mutation": ["p", "p"]},
        {**CHECK, "mutation": "../p"},
        {**CHECK, "mutation": "/p"},
        {**CHECK, "mutation": "a..b/p"},
        {**CHECK, "mutaton": "p"},
        {"run": "true", "covers": ["a"]},
        {},
    ],
)
def test_the_schema_and_the_parser_agree_about_a_check(check: dict[str, Any]) -> None:
    document = {"claims": {"x": {"checks": {"y": check}}}}
    assert is_valid(document) is is_parsed(document)


@pytest.mark.rule("S47")
@pytest.mark.parametrize(
    "document",
    [
        {},
        {"claims": {}},
        {"claims": {"x": {}}},
        {"claims": {"x": {"checks": {}}}},
        {"claims": {"x": {"checks": {"y": CHECK}, "description": ""}}},
        {"claims": {"x": {"checks": {"y": CHECK}, "description": 1}}},
        {"claims": {"x": {"checks": {"y": CHECK}, "z": 1}}},
        {"claims": {"x": {"checks": {"y": CHECK}}}, "z": 1},
        *({"claims": {name: {"checks": {"y": CHECK}}}} for name in ("", "a/b", "-", "a\n", "é b-")),
        *({"claims": {"x": {"checks": {name: CHECK}}}} for name in ("", "/", "-a", "\x85", "a-")),
    ],
)
def test_the_schema_and_the_parser_agree_about_a_document(document: dict[str, Any]) -> None:
    assert is_valid(document) is is_parsed(document)


def is_parsed(document: dict[str, Any]) -> bool:
    try:
        manifest.parse(tomli_w.dumps(document))
    except ConfigError:
        return False
    return True


@pytest.mark.rule("S47")
@settings(max_examples=30)
@given(claims=strategies.claims())
def test_the_schema_takes_every_manifest_that_roxy_takes(claims: tuple[Claim, ...]) -> None:
    assert is_valid(as_document(claims))
