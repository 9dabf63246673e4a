"""The optional keys of a check: what they mean, before anything runs (S34, S40-S42)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from roxy.core import manifest
from roxy.core.errors import ConfigError

if TYPE_CHECKING:
    from roxy.core.errors import Fault
    from roxy.core.model import Check

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
