"""The optional keys of a check: what they mean, before anything runs (S34, S40-S42)."""

from __future__ import annotations

import hashlib
import json
import re
import struct
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from roxy.core import manifest
from roxy.core.errors import ConfigError
from roxy.core.fingerprint import fingerprint
from roxy.core.model import Check

if TYPE_CHECKING:
    from roxy.core.errors import Fault

SCHEMA = json.loads((Path(manifest.__file__).parent.parent / "schemas/roxy.toml.json").read_text())
NEEDED = "[claims.x.checks.y]\nrun = 'true'\ncovers = ['a']\nmutation = 'p'\n"


def read(lines: str, before: str = "") -> Check:
    """Return the check that has these lines besides what it must have."""
    return manifest.parse(before + NEEDED + lines)[0].checks[0]


def faults(lines: str, before: str = "") -> list[Fault]:
    with pytest.raises(ConfigError) as caught:
        manifest.parse(before + NEEDED + lines)
    return list(caught.value.faults)


def fits_the_schema(**keys: Any) -> bool:
    check = {"run": "true", "covers": ["a"], "mutation": "p", **keys}
    document = {"claims": {"x": {"checks": {"y": check}}}}
    return jsonschema.Draft7Validator(SCHEMA).is_valid(document)


# ------------------------------------------------------------------- timeout


@pytest.mark.rule("S40")
@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        *(("1s", 1), ("90s", 90), ("10m", 600), ("2h", 7200), ("1.5h", 5400)),
        *(("0.2s", 0.2), ("5 m", 300), ("007s", 7)),
    ],
)
def test_a_timeout_is_a_number_with_its_unit(text: str, seconds: float) -> None:
    assert read(f"timeout = '{text}'").timeout == pytest.approx(seconds)
    assert fits_the_schema(timeout=text)


@pytest.mark.rule("S10", "S40")
@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "10",
            "m",
            "10d",
            "10 minutes",
            "10M",
            "-1s",
            "+1s",
            "0s",
            "0.0m",
            "00h",
            ".5s",
            "1.s",
        ),
        *("1e3s", "1,5h", "10m ", " 10m", "1h30m", "inf s", "nan s", "\u0661s", "10m\\n"),
    ],
)
def test_a_timeout_that_is_no_positive_time_is_a_fault(text: str) -> None:
    (fault,) = faults(f'timeout = "{text}"')
    assert fault.what.startswith("`timeout` is `")
    assert fault.where == "roxy.toml:5:1, check `x/y`"
    assert fault.hint == "write a number above 0 and its unit: `90s`, `10m`, `1.5h`"
    assert not fits_the_schema(timeout=json.loads(f'"{text}"'))


@pytest.mark.rule("S10", "S40")
def test_a_timeout_of_more_than_a_number_can_hold_is_a_fault() -> None:
    assert faults(f"timeout = '{'9' * 400}s'")


@pytest.mark.rule("S10", "S40")
@pytest.mark.parametrize(("value", "kind"), [("10", "a number"), ("[]", "a list")])
def test_a_timeout_that_is_no_string_is_told_how_one_looks(value: str, kind: str) -> None:
    (fault,) = faults(f"timeout = {value}")
    assert fault.what == f"`timeout` must be a string such as `10m`, not {kind}"


@pytest.mark.rule("S10")
def test_a_near_miss_of_an_optional_key_is_told() -> None:
    assert [fault.hint for fault in faults("time_out = '1s'")] == ["did you mean `timeout`?"]


# ------------------------------------------------------------------- fails-with


@pytest.mark.rule("S41")
@pytest.mark.parametrize("pattern", ["FAILED", "(?i)assert\\w+", "^not ok \\d+", "[[a]", "a|"])
def test_fails_with_is_a_regular_expression(pattern: str) -> None:
    assert read(f"fails-with = '{pattern}'").fails_with == pattern
    assert fits_the_schema(**{"fails-with": pattern})


@pytest.mark.rule("S10", "S41")
@pytest.mark.parametrize(
    ("pattern", "what"),
    [
        ("", "must not be empty"),
        ("(a", "is no regular expression: missing ), unterminated subpattern at position 0"),
        ("a**", "is no regular expression: multiple repeat at position 2"),
        ("a{99999999999}", "is a regular expression without measure"),
        ("a" * 1001, "is longer than 1,000 characters"),
    ],
)
def test_a_pattern_that_is_none_is_a_fault_of_the_manifest(pattern: str, what: str) -> None:
    (fault,) = faults(f"fails-with = '{pattern}'")
    assert (fault.what, fault.where) == (f"`fails-with` {what}", "roxy.toml:5:1, check `x/y`")


# ------------------------------------------------------------------- env


@pytest.mark.rule("S41")
def test_env_is_held_in_byte_order_of_its_names() -> None:
    assert read(
        'env = { b = "1", A = "", "\u00e9" = "2", a = "x=y", "a b" = "\u00e9\\n" }'
    ).env == (*(("A", ""), ("a", "x=y"), ("a b", "\u00e9\n"), ("b", "1"), ("\u00e9", "2")),)
    assert read("env = {}").env == ()


@pytest.mark.rule("S10", "S41")
@pytest.mark.parametrize(
    ("value", "what"),
    [
        ("'TZ=UTC'", '`env` must be a table of strings such as `{ TZ = "UTC" }`, not a string'),
        ("['a']", '`env` must be a table of strings such as `{ TZ = "UTC" }`, not a list'),
        ("{ A = 1 }", "variable `A` must be a string, not a number"),
        ("{ A = true }", "variable `A` must be a string, not a boolean"),
        ("{ A.B = 'x' }", "variable `A` must be a string, not a table"),
        ("{ '' = 'x' }", "the name of a variable is empty"),
        ("{ 'A=B' = 'x' }", "the name of a variable holds a `=`: `A=B`"),
        ('{ "A\\u0000" = "x" }', "the name of a variable holds a NUL character: `A\0`"),
        ('{ A = "x\\u0000" }', "variable `A` holds a NUL character, which none can"),
    ],
)
def test_an_environment_that_cannot_be_is_a_fault(value: str, what: str) -> None:
    (fault,) = faults(f"env = {value}")
    assert fault.what == what
    assert str(fault.where).startswith("roxy.toml:5:")
    assert not fits_the_schema(**tomllib.loads(f"env = {value}"))


# ------------------------------------------------------------------- inputs


@pytest.mark.rule("S13", "S41")
def test_inputs_are_globs_as_covers_are() -> None:
    check = read("inputs = ['tests/**', './a']")
    assert check.inputs == ("tests/**", "./a")
    assert check.globs == ("a", "tests/**", "./a")


@pytest.mark.rule("S10", "S13", "S41")
@pytest.mark.parametrize(
    ("value", "what", "column"),
    [
        ("'a'", "`inputs` must be a list of strings, not a string", 1),
        ("[]", "`inputs` must not be empty", 1),
        ("['a', 1]", "`inputs` must hold only strings, not a number", 16),
        ("['a', 'src/']", "glob `src/` ends in `/`", 16),
        ("['/a']", "glob `/a` is absolute", 11),
    ],
)
def test_inputs_that_mean_no_files_are_a_fault(value: str, what: str, column: int) -> None:
    (fault,) = faults(f"inputs = {value}")
    assert (fault.what, fault.where) == (what, f"roxy.toml:5:{column}, check `x/y`")
    assert not fits_the_schema(**tomllib.loads(f"inputs = {value}"))


# ------------------------------------------------------------------- needs


@pytest.mark.rule("S42")
def test_needs_are_commands_in_their_order() -> None:
    assert read("needs = ['command -v xcrun', 'true']").needs == ("command -v xcrun", "true")
    assert read("needs = []").needs == ()
    assert fits_the_schema(needs=[])


@pytest.mark.rule("S10", "S42")
@pytest.mark.parametrize(
    ("value", "what", "column"),
    [
        ("'true'", "`needs` must be a list of strings, not a string", 1),
        ("['true', 1]", "`needs` must hold only strings, not a number", 18),
        ("['true', ' ']", "a command of `needs` must not be empty", 18),
        ('["a\\u0000"]', "a command of `needs` holds a NUL character, which no command can", 10),
    ],
)
def test_needs_that_are_no_commands_are_a_fault(value: str, what: str, column: int) -> None:
    (fault,) = faults(f"needs = {value}")
    assert (fault.what, fault.where) == (what, f"roxy.toml:5:{column}, check `x/y`")
    assert not fits_the_schema(**tomllib.loads(f"needs = {value}"))


# ------------------------------------------------------------------- repeat


@pytest.mark.rule("S42")
def test_repeat_is_a_number_of_clean_runs() -> None:
    assert read("repeat = 3").repeat == 3
    assert read("").repeat == 1


@pytest.mark.rule("S10", "S42")
@pytest.mark.parametrize(
    ("value", "shown"),
    [
        *(("0", "`0`"), ("-1", "`-1`"), ("1.5", "`1.5`"), ("true", "`True`"), ("nan", "`nan`")),
        *(("'3'", "a string"), ("[3]", "a list")),
    ],
)
def test_repeat_that_is_no_such_number_is_a_fault(value: str, shown: str) -> None:
    (fault,) = faults(f"repeat = {value}")
    assert fault.what == f"`repeat` must be a whole number from 1 on, not {shown}"
    assert not fits_the_schema(**tomllib.loads(f"repeat = {value}"))


# ------------------------------------------------------------------- strict, and defaults

DEFAULTS = """[defaults]
timeout = "10m"
env = { TZ = "UTC", LANG = "C" }
needs = ["true"]
strict = true
"""


@pytest.mark.rule("S27")
def test_strict_is_yes_or_no() -> None:
    assert read("strict = true").strict
    assert not read("strict = false").strict
    (fault,) = faults("strict = 'yes'")
    assert fault.what == "`strict` must be a boolean, not a string"


@pytest.mark.rule("S40", "S41", "S42")
def test_defaults_hold_for_a_check_that_says_nothing_else() -> None:
    check = read("", DEFAULTS)
    assert (check.timeout, check.needs, check.strict) == (600, ("true",), True)
    assert check.env == (("LANG", "C"), ("TZ", "UTC"))
    assert read("", "[defaults]\n") == read("")


@pytest.mark.rule("S40", "S41", "S42")
def test_what_a_check_says_itself_wins_over_the_defaults() -> None:
    lines = "timeout = '1s'\nenv = { TZ = 'GMT', A = '' }\nneeds = []\nstrict = false"
    check = read(lines, DEFAULTS)
    assert (check.timeout, check.needs, check.strict) == (1, (), False)
    assert check.env == (("A", ""), ("LANG", "C"), ("TZ", "GMT"))


@pytest.mark.rule("S34", "S41")
def test_a_variable_counts_the_same_wherever_it_is_set() -> None:
    digests = {b"a": bytes(32)}
    there = read("", "[defaults]\nenv = { TZ = 'UTC' }\n")
    here = read("env = { TZ = 'UTC' }")
    assert fingerprint(there, [b"p"], digests) == fingerprint(here, [b"p"], digests)


@pytest.mark.rule("S10", "S40", "S41", "S42")
def test_every_fault_of_defaults_is_told_with_its_place() -> None:
    lines = "timeout = 'x'\nenv = 1\nneeds = ['']\nstrict = 1\nrun = 'x'\ntime-out = '1s'\n"
    assert [
        (fault.where, fault.what, fault.hint) for fault in faults("", "[defaults]\n" + lines)
    ] == [
        (
            "roxy.toml:2:1",
            "`timeout` is `x`",
            "write a number above 0 and its unit: `90s`, `10m`, `1.5h`",
        ),
        (
            "roxy.toml:3:1",
            '`env` must be a table of strings such as `{ TZ = "UTC" }`, not a number',
            None,
        ),
        ("roxy.toml:4:10", "a command of `needs` must not be empty", None),
        ("roxy.toml:5:1", "`strict` must be a boolean, not a number", None),
        (
            "roxy.toml:6:1",
            "unknown key `run`",
            "what may stand here: `timeout`, `env`, `needs`, `strict`",
        ),
        ("roxy.toml:7:1", "unknown key `time-out`", "did you mean `timeout`?"),
    ]
    (fault,) = faults("", "defaults = 1\n")
    assert fault.what == "`defaults` must be a table, not a number"
    (fault,) = faults("", "[default]\n")
    assert fault.hint == "did you mean `defaults`?"


@pytest.mark.rule("S47")
@pytest.mark.parametrize(
    ("defaults", "fits"),
    [
        ({"timeout": "1s", "env": {"A": ""}, "needs": [], "strict": True}, True),
        ({"run": "x"}, False),
    ],
)
def test_the_schema_knows_defaults(defaults: dict[str, Any], *, fits: bool) -> None:
    check = {"run": "true", "covers": ["a"], "mutation": "p"}
    document = {"defaults": defaults, "claims": {"x": {"checks": {"y": check}}}}
    assert jsonschema.Draft7Validator(SCHEMA).is_valid(document) is fits


# ------------------------------------------------------------------- ran


def test_ran_has_one_group_and_at_least_is_one_unless_set() -> None:
    check = read("ran = '(\\d+) (?:tests|passed)'")
    assert (check.ran, check.at_least) == ("(\\d+) (?:tests|passed)", 1)
    assert read("ran = '(a)'\nat-least = 7").at_least == 7
    assert fits_the_schema(**{"ran": "(a)", "at-least": 7})


@pytest.mark.rule("S10")
@pytest.mark.parametrize(
    ("lines", "what"),
    [
        ("ran = ''", "`ran` must not be empty"),
        (r"ran = '\d+'", "`ran` must have exactly one group, the number, not 0"),
        (r"ran = '(\d)(\d)'", "`ran` must have exactly one group, the number, not 2"),
        (
            "ran = '('",
            "`ran` is no regular expression: missing ), unterminated subpattern at position 0",
        ),
        ("at-least = 3", "`at-least` stands without `ran`"),
        ("ran = '(a)'\nat-least = 0", "`at-least` must be a whole number from 1 on, not `0`"),
    ],
)
def test_ran_that_can_tell_no_number_is_a_fault(lines: str, what: str) -> None:
    (fault,) = faults(lines)
    assert fault.what == what


# ------------------------------------------------------------------- all of them


@pytest.mark.rule("S10")
def test_the_faults_of_all_optional_keys_are_told_at_once() -> None:
    lines = (
        "timeout = 5\nfails-with = '['\nenv = { '' = '' }\ninputs = []\nneeds = 'x'\n"
        "repeat = 0\nstrict = 1\nran = 'x'\nat-least = 0\nreproduces = 'HEAD'\nfails_with = 'x'\n"
    )
    found = faults(lines)
    numbers = [int(str(fault.where).split(":")[1]) for fault in found]
    assert numbers == [5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 14, 15]
    assert found[-1].hint == "did you mean `fails-with`?"


@pytest.mark.rule("S10")
@pytest.mark.parametrize("key", ["reproduce", "Reproduces", "mutations"])
def test_a_misspelt_breakage_is_one_fault_and_not_also_a_missing_one(key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        manifest.parse(NEEDED.replace("mutation", key))
    assert [fault.what for fault in caught.value.faults] == [f"unknown key `{key}`"]


@pytest.mark.rule("S47")
def test_the_reference_and_the_schema_have_every_key() -> None:
    reference = (Path(__file__).parent.parent / "docs/reference.md").read_text()
    (fault,) = faults("x-x-x = 1")
    told = set(re.findall("`([a-z-]+)`", str(fault.hint)))
    assert told == SCHEMA["definitions"]["check"]["properties"].keys()
    assert {key for key in told if f"`{key}`" not in reference} == set()
    (fault,) = faults("", "[defaults]\nx-x-x = 1\n")
    told = set(re.findall("`([a-z-]+)`", str(fault.hint)))
    assert told == SCHEMA["properties"]["defaults"]["properties"].keys()


# ------------------------------------------------------------------- the fingerprint


def printed(lines: str) -> str:
    """Return the fingerprint of a check with these lines, of the same two files each time."""
    files = {b"src/b": b"b", b"src/a": b""}
    digests = {path: hashlib.sha256(data).digest() for path, data in files.items()}
    return fingerprint(read(lines), [b"patch"], digests)


def by_the_contract(*fields: tuple[bytes, bytes]) -> str:
    """Return the same, from the words of the contract, with these fields after the mutation."""
    files = {b"src/a": b"", b"src/b": b"b"}
    data = b"roxy fingerprint 1\n"
    pairs = [(b"run", b"true"), (b"mutation", b"patch"), *fields]
    for path, content in files.items():
        pairs += [(b"path", path), (b"content", hashlib.sha256(content).digest())]
    for name, value in pairs:
        data += name + b"\0" + struct.pack(">Q", len(value)) + value
    return "sha256:" + hashlib.sha256(data).hexdigest()


@pytest.mark.rule("S34")
def test_a_check_without_optional_keys_has_the_fingerprint_that_it_always_had() -> None:
    files = {b"src/b": b"b", b"src/a": b"", b"src/\xff": b"\0"}
    digests = {path: hashlib.sha256(data).digest() for path, data in files.items()}
    check = Check("a", "b", "bun test # \u00e9", ("src/**",), ("m.patch", "n.patch"))
    assert fingerprint(check, [b"one\n", b"\xff two"], digests) == (
        "sha256:cb83e37ce711fd3d67e3b55c75f341592f1b96bf8bbd82a0f06cca59581f0b8c"
    )
    assert printed("") == by_the_contract()


@pytest.mark.rule("S34", "S41")
@pytest.mark.parametrize(
    ("lines", "fields"),
    [
        ("timeout = '10m'", []),
        ("needs = ['true']", []),
        ("repeat = 3", []),
        (
            "ran = '(a)'\nstrict = true\nenv.A = '1'",
            [(b"env", b"A=1"), (b"ran", b"(a)"), (b"at-least", b"1"), (b"strict", b"true")],
        ),
        ("ran = '(a)'\nat-least = 12", [(b"ran", b"(a)"), (b"at-least", b"12")]),
        ("strict = false", []),
        ("strict = true\nenv.A = '1'", [(b"env", b"A=1"), (b"strict", b"true")]),
        ("fails-with = '\u00e9+'", [(b"fails-with", b"\xc3\xa9+")]),
        ("env = {}", []),
        ("env = { B = '2', A = '' }", [(b"env", b"A="), (b"env", b"B=2")]),
        ("env.b = '1'\nenv.\"\u00e9\" = ''", [(b"env", b"b=1"), (b"env", b"\xc3\xa9=")]),
        (
            "env = { A = '1' }\nfails-with = 'x'",
            [(b"fails-with", b"x"), (b"env", b"A=1")],
        ),
    ],
)
def test_what_is_set_is_in_the_fingerprint_as_the_contract_says(
    lines: str, fields: list[tuple[bytes, bytes]]
) -> None:
    assert printed(lines) == by_the_contract(*fields)
