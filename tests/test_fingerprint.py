"""The fingerprint, recomputed from the words of the contract alone (S34)."""

from __future__ import annotations

import hashlib
import json
import os
import struct
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inside import standing
from roxy.core.fingerprint import fingerprint
from roxy.core.model import Check, State

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from project import Project

TRICKY = [
    b"run",
    b"mutation",
    b"path",
    b"content",
    b"\0",
    b"\0\0\0\0\0\0\0\x01",
    b"a",
    b"/",
    b"\xff",
]


def by_the_contract(run: str, patches: Sequence[bytes], files: Mapping[bytes, bytes]) -> str:
    """Return the fingerprint of a check whose covered files hold these bytes."""
    fields = [(b"run", run.encode("utf-8"))]
    fields += [(b"mutation", patch) for patch in patches]
    for path in sorted(files):
        fields += [(b"path", path), (b"content", hashlib.sha256(files[path]).digest())]
    data = b"roxy fingerprint 1\n"
    for name, value in fields:
        data += name + b"\0" + struct.pack(">Q", len(value)) + value
    return "sha256:" + hashlib.sha256(data).hexdigest()


def by_roxy(run: str, patches: Sequence[bytes], files: Mapping[bytes, bytes]) -> str:
    names = tuple(str(number) for number in range(len(patches)))
    check = Check(claim="a", name="b", run=run, covers=("**",), mutations=names)
    return fingerprint(
        check, patches, {path: hashlib.sha256(data).digest() for path, data in files.items()}
    )


def tricky() -> st.SearchStrategy[bytes]:
    """Bytes that look like the frame around them."""
    return st.lists(st.sampled_from(TRICKY), max_size=3).map(b"".join)


def subjects() -> st.SearchStrategy[tuple[str, list[bytes], dict[bytes, bytes]]]:
    return st.tuples(
        st.text("arun\0/é", max_size=4),
        st.lists(tricky(), max_size=3),
        st.dictionaries(tricky(), tricky(), max_size=3),
    )


def recorded(project: Project) -> dict[str, dict[str, str]]:
    claims: dict[str, dict[str, str]] = tomllib.loads(project.read("roxy.lock").decode())["claims"]
    return claims


@pytest.mark.rule("S34")
@given(subjects())
def test_fingerprint_is_what_the_contract_describes(
    subject: tuple[str, list[bytes], dict[bytes, bytes]],
) -> None:
    assert by_roxy(*subject) == by_the_contract(*subject)


@pytest.mark.rule("S34")
@settings(max_examples=300)
@given(subjects(), subjects())
def test_fingerprint_differs_exactly_when_run_patches_or_files_do(
    one: tuple[str, list[bytes], dict[bytes, bytes]],
    other: tuple[str, list[bytes], dict[bytes, bytes]],
) -> None:
    assert (by_roxy(*one) == by_roxy(*other)) is (one == other)


@pytest.mark.rule("S34")
def test_fingerprint_ignores_the_order_in_which_files_come_but_not_that_of_patches() -> None:
    files = {b"b": b"1", b"a": b"2", b"a/b": b"3", b"\xff": b"4", "é".encode(): b"5"}
    turned = dict(reversed(files.items()))
    assert by_roxy("x", [b"1", b"2"], files) == by_roxy("x", [b"1", b"2"], turned)
    assert by_roxy("x", [b"1", b"2"], files) != by_roxy("x", [b"2", b"1"], files)


@pytest.mark.rule("S34", "S35")
def test_verify_records_what_the_contract_describes(project: Project) -> None:
    files = {
        b"src/greeting.txt": b"one\nhello\nthree\n",
        b"src/empty": b"",
        b"src/caf\xe9": b"\xff\0",
        b"src/B": b"upper case sorts first\r\n",
        b"src/a/deep": b"x" * 100_000,
    }
    for path, content in files.items():
        project.write(os.fsdecode(path), content)
    project.write("other.txt", "not covered")
    project.mutation("src/greeting.txt", "hello", "howdy")
    project.mutation("src/greeting.txt", "hello", "hullo", "mutations/second.patch")
    run = "grep -q 'hello' src/greeting.txt # é\n"
    project.check(run, mutation=("mutations/second.patch", "mutations/it.patch"))
    done = project.roxy("verify", "--json")
    assert done.code == 0
    patches = [project.read("mutations/second.patch"), project.read("mutations/it.patch")]
    expected = by_the_contract(run, patches, files)
    assert recorded(project) == {"greeting": {"text": expected}}
    assert done.json["checks"][0]["fingerprint"] == expected


@pytest.mark.rule("S34")
def test_names_description_globs_modes_and_the_paths_of_patches_are_not_in_it(
    verified: Project,
) -> None:
    evidence = recorded(verified)["greeting"]["text"]
    (verified.root / "src/greeting.txt").chmod(0o755)
    (verified.root / "mutations/it.patch").rename(verified.root / "moved.patch")
    (verified.root / "roxy.toml").unlink()
    verified.check(
        "grep -q hello src/greeting.txt",
        claim="renamed",
        name="too",
        covers=("./src/greeting.txt", "{src,src}/*"),
        mutation=("./moved.patch",),
    )
    text = verified.read("roxy.toml").decode()
    verified.write("roxy.toml", f'[claims.renamed]\ndescription = "It greets"\n\n{text}')
    verified.write("roxy.lock", f"version = 1\n[claims.renamed]\ntoo = {json.dumps(evidence)}\n")
    done = verified.roxy("gate")
    assert (done.code, done.out) == (0, "verified renamed/too\n1 check: 1 verified\n")
    assert verified.roxy("verify").out == "nothing to do: the only check is verified\n"


@pytest.mark.rule("S34")
def test_one_byte_anywhere_makes_it_stale(verified: Project) -> None:
    for path in ("src/greeting.txt", "mutations/it.patch"):
        content = verified.read(path)
        for at in (0, len(content) // 2, len(content) - 1):
            before, byte, after = content[:at], content[at : at + 1], content[at + 1 :]
            for other in (bytes([byte[0] ^ 1]), b"", byte + byte):
                verified.write(path, before + other + after)
                assert standing(verified)[0] is State.STALE
        verified.write(path, content)
        assert standing(verified)[0] is State.VERIFIED


@pytest.mark.rule("S34")
def test_one_byte_of_the_command_makes_it_stale(verified: Project) -> None:
    text = verified.read("roxy.toml").decode()
    for old, new in (
        ("greeting.txt", "Greeting.txt"),
        ("grep -q", "grep  -q"),
        ("grep", "# é\\ngrep"),
        (".txt", ".txt "),
    ):
        assert old in text
        verified.write("roxy.toml", text.replace(old, new, 1))
        assert standing(verified)[0] is State.STALE
    verified.write("roxy.toml", text + "# a comment\n")
    assert standing(verified)[0] is State.VERIFIED


@pytest.mark.rule("S34")
def test_the_set_of_covered_paths_is_in_it(project: Project) -> None:
    project.greet()
    second = project.write("src/second.txt", "second\n")
    renamed = project.root / "src/renamed.txt"
    assert project.roxy("verify").code == 0

    def is_stale() -> bool:
        return standing(project)[0] is State.STALE

    second.rename(renamed)
    assert is_stale()
    renamed.rename(second)
    assert not is_stale()
    renamed.write_bytes(b"second\n")
    assert is_stale()
    renamed.write_bytes(b"")
    assert is_stale()
    renamed.unlink()
    project.write(".gitignore", "second.txt\n")
    assert is_stale()
    project.git("add", "--force", "src/second.txt")
    assert not is_stale()
    second.rename(project.root / "second.txt")
    assert is_stale()
    second.symlink_to("../second.txt")
    assert is_stale()


@pytest.mark.rule("S34")
def test_what_is_outside_the_globs_is_not_in_it(verified: Project) -> None:
    for path in ("other.txt", "src.txt", "mutations/other.patch", "README.md"):
        verified.write(path, "anything")
    Path(verified.root, "src/link").symlink_to("greeting.txt")
    verified.write(".gitignore", "*.log\n")
    verified.write("src/x.log", "")
    assert standing(verified)[0] is State.VERIFIED
