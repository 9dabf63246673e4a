"""The values of secrets show nowhere: not in a log, not in a receipt, not on the screen."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import sys
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, quote_plus, unquote_plus, unquote_to_bytes

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from inside import standing
from roxy.core import manifest
from roxy.core.errors import ConfigError, Fault
from roxy.core.scrubber import Scrubber, Secrets
from test_manifest import CHECK, GOOD, is_parsed, is_valid

if TYPE_CHECKING:
    from collections.abc import Iterable

    from project import Project

TOKEN = b"s3cr+t/ 100%\xc3\xa9>>>~"
"""Has what each encoding treats in its own way."""


def scrubbed(values: Iterable[bytes], chunks: Iterable[bytes]) -> bytes:
    secrets = Secrets(values)
    scrubber = Scrubber(secrets)
    told = []
    for chunk in chunks:
        told.append(scrubber.scrub(chunk))
        assert len(scrubber._held) < max(secrets.longest, 1)  # noqa: SLF001 - memory stays flat
    return b"".join([*told, scrubber.scrub(b"", is_last=True)])


def forms(value: bytes) -> list[bytes]:
    """Return what people make of a secret before they print it."""
    return [
        value,
        quote(value, safe="").encode(),
        quote(value, safe="/+").encode(),
        quote_plus(value).encode(),
        re.sub(r"%..", lambda found: found[0].lower(), quote(value, safe="")).encode(),
        b"".join(b"%%%02x" % byte for byte in value),
        *(
            text
            for around in (b"", b":", b"me:", b"a b")
            for encode in (base64.b64encode, base64.urlsafe_b64encode)
            for whole in [encode(around + value + around), encode(around + value)]
            for text in (whole, whole.rstrip(b"="))
        ),
    ]


def shows(text: bytes, value: bytes) -> bool:
    """Say whether anybody who decodes all of a text would find a value in it."""
    if value in text or value in unquote_to_bytes(text):
        return True
    if value in unquote_plus(text.decode("latin-1"), "latin-1").encode("latin-1"):
        return True
    digits = text.translate(bytes.maketrans(b"-_", b"+/"))
    runs = [run[at:] for run in re.findall(rb"[A-Za-z0-9+/]+", digits) for at in range(4)]
    return any(value in whole_bytes(run) for run in runs)


def whole_bytes(digits: bytes) -> bytes:
    """Return the bytes of which all bits are in some base64 without padding."""
    padded = digits + b"A" * (-len(digits) % 4)
    return base64.b64decode(padded)[: len(digits) * 6 // 8]


def cut(text: bytes, places: Iterable[int]) -> list[bytes]:
    """Return a text as chunks that end at some places, modulo its length."""
    ends = sorted({place % (len(text) + 1) for place in places})
    return [text[a:b] for a, b in zip([0, *ends], [*ends, len(text)], strict=True)]


@st.composite
def texts(draw: st.DrawFn) -> tuple[list[bytes], bytes]:
    """Give some secrets and a text with them, with parts of them, and with what looks like them."""
    letters = st.sampled_from([b"a", b"b", b"ab", b" ", b"%", b"2", b"5", b"\xff", b"+", b"/"])
    values = st.lists(letters, min_size=4, max_size=7).map(b"".join)
    secrets = draw(st.lists(values, min_size=1, max_size=2))
    written = [form for value in secrets for form in forms(value)]
    whole = st.sampled_from(written)
    part = st.builds(lambda form, a, b: form[a:][:b], whole, st.integers(0, 9), st.integers(0, 9))
    noise = st.sampled_from([b"\n", b"=", b"%4", b"%61", b"YWJ", b"*"]) | letters
    return secrets, b"".join(draw(st.lists(whole | part | noise, max_size=8)))


@settings(max_examples=150)
@given(texts(), st.lists(st.integers(0, 400), max_size=12))
@example(([b"abab"], b"abababab"), [2, 3, 5])
@example(([b"abcd", b"abcdef", b"cdefgh"], b"abcdefgh abcdeXabcd"), [4, 12])
def test_no_form_of_a_secret_is_left_however_the_text_is_cut(
    given: tuple[list[bytes], bytes], places: list[int]
) -> None:
    secrets, text = given
    at_once = scrubbed(secrets, [text])
    assert scrubbed(secrets, cut(text, places)) == at_once
    assert scrubbed(secrets, cut(text, range(len(text)))) == at_once
    assert not any(shows(at_once, value) for value in secrets)
    if b"%" not in text and not any(shows(text, value) for value in secrets):
        assert at_once == text


def test_each_form_is_replaced_and_what_stands_around_it_is_not() -> None:
    for form in forms(TOKEN):
        told = scrubbed([TOKEN], [b"before[" + form + b"]after"])
        assert re.fullmatch(rb"before\[[A-Za-z0-9]{0,4}\*\*\*[A-Za-z0-9]{0,4}=*\]after", told), form


@pytest.mark.parametrize(
    ("values", "text", "told"),
    [
        ([], b"abcd", b"abcd"),
        ([b"abcd"], b"", b""),
        ([b"abcd"], b"abc", b"abc"),
        ([b"abcd"], b"abcdabcd", b"******"),
        ([b"abab"], b"xabababx", b"x***x"),
        ([b"abcd", b"abcdef"], b"abcdef abcdeg", b"*** ***eg"),
        ([b"abcd", b"cdef"], b"abcdef", b"***"),
        ([b"ab\ncd"], b"ab\ncd\n", b"***\n"),
        ([b"%25%25"], b"%25%25 %2525%2525", b"*** ***"),
        ([b"two words"], b"two+words two%20words", b"*** ***"),
        ([b"abcd"], b"%61b%63%64", b"***"),
        ([b"\xff\xff\xff\xff"], b"//// /////w _____w", b"//// *** ***"),
    ],
)
def test_scrubbing_hides_all_of_a_secret_and_nothing_else(
    values: list[bytes], text: bytes, told: bytes
) -> None:
    assert scrubbed(values, [text]) == told


def test_only_what_can_still_become_a_secret_is_held_back() -> None:
    scrubber = Scrubber(Secrets([b"passphrase"]))
    assert scrubber.scrub(b"Go on? [yes/no] ") == b"Go on? [yes/no] "
    assert scrubber.scrub(b"the pass") == b"the "
    assert scrubber.scrub(b"word\n") == b"password\n"
    assert scrubber.scrub(b"passphrase") == b"***"
    assert scrubber.scrub(b"pass") == b""
    assert scrubber.scrub(b"", is_last=True) == b"pass"


# ------------------------------------------------------------------- roxy as a whole


PRINT = """
import os, sys
for byte in open("../forms", "rb").read():
    os.write(1, bytes([byte]))
"""


def with_secrets(project: Project, *names: str) -> None:
    text = project.read("roxy.toml").decode()
    project.write("roxy.toml", f"secrets = {list(names)}\n\n{text}")


@pytest.mark.rule("S25", "S39", "S45", "S46", "S47")
def test_secrets_of_a_check_show_nowhere_in_what_roxy_prints_and_keeps(project: Project) -> None:
    (project.root.parent / "forms").write_bytes(
        b"begin\n" + b"".join(form + b"\n" for form in [*forms(TOKEN), TOKEN])
    )
    project.write("print.py", PRINT)
    project.greet(f"{sys.executable} print.py; exit 1")
    with_secrets(project, "API_TOKEN")
    env = {"API_TOKEN": os.fsdecode(TOKEN)}
    plain = project.roxy("verify", "-v", env=env)
    document = project.roxy("verify", "--json", env=env)
    assert plain.code == document.code == 1
    kept = [path.read_bytes() for path in project.state.rglob("*") if path.is_file()]
    for text in (plain.out.encode(), plain.err.encode(), document.out.encode(), *kept):
        assert not shows(text, TOKEN)
        assert b"s3cr" not in text
    assert "begin\n***\n" in plain.err
    assert "  | ***\n" in plain.out
    (run,) = document.json["checks"][0]["runs"]
    with open(run["log"], "rb") as log:
        data = log.read()
    assert data.startswith(b"begin\n***\n***\n")
    assert (len(data), hashlib.sha256(data).hexdigest()) == (run["log_size"], run["log_sha256"])


def test_a_secret_that_is_short_or_not_set_is_warned_about_once(project: Project) -> None:
    project.greet()
    project.check("echo abc; grep -q hello src/greeting.txt", name="again")
    with_secrets(project, "SHORT", "UNSET", "LONG")
    done = project.roxy("verify", env={"SHORT": "abc", "LONG": "abcd"})
    assert done.code == 0
    assert done.err == (
        "warning: the secret `SHORT` is not scrubbed: its value has fewer than 4 characters\n"
        "warning: the secret `UNSET` is not scrubbed: it is not set\n"
    )
    assert project.roxy("verify").err == ""  # nothing runs


@pytest.mark.rule("S34")
def test_secrets_are_not_in_the_fingerprint(verified: Project) -> None:
    with_secrets(verified, "API_TOKEN")
    assert standing(verified) == ("verified", None)


# ------------------------------------------------------------------- roxy.toml


@pytest.mark.rule("S9", "S10")
@pytest.mark.parametrize(
    ("secrets", "what"),
    [
        ("'A'", "`secrets` must be a list of strings, not a string"),
        ("[]", "`secrets` must not be empty"),
        ("['A', 1]", "`secrets` must hold only strings, not a number"),
        ("['A', '']", "the name of a variable is empty"),
        ("['A=b']", "the name of a variable holds a `=`: `A=b`"),
        ('["A\\u0000"]', "the name of a variable holds a NUL character"),
        ("['A', 'B', 'A']", "`secrets` names `A` twice"),
    ],
)
def test_a_fault_of_secrets_is_named_with_its_place(secrets: str, what: str) -> None:
    with pytest.raises(ConfigError) as caught:
        manifest.parse(f"secrets = {secrets}\n{GOOD}")
    (fault,) = caught.value.faults
    assert (fault.what, fault.hint) == (what, None)
    assert (fault.where or "").startswith("roxy.toml:1:")


@pytest.mark.rule("S10")
def test_a_misspelt_key_beside_the_claims_gets_a_suggestion() -> None:
    with pytest.raises(ConfigError) as caught:
        manifest.parse(f"secret = ['A']\n{GOOD}")
    assert caught.value.faults == (
        Fault("unknown key `secret`", "roxy.toml:1:1", "did you mean `secrets`?"),
    )


@pytest.mark.rule("S47")
@pytest.mark.parametrize(
    "secrets", [["A"], ["A", "B"], [], "A", ["A", 1], [""], ["A=b"], ["A\0"], ["A", "A"], {}]
)
def test_the_schema_and_the_parser_agree_about_secrets(secrets: Any) -> None:
    document = {"claims": {"x": {"checks": {"y": CHECK}}}, "secrets": secrets}
    assert is_valid(document) is is_parsed(document)
