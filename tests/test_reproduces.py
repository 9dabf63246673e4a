"""The code of an earlier commit as the breakage: `reproduces`."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from inside import standing
from project import LONG_AGO, Project
from roxy.core import manifest
from roxy.core.errors import ConfigError
from roxy.core.fingerprint import fingerprint
from roxy.core.model import State

SCHEMA = json.loads((Path(manifest.__file__).parent.parent / "schemas/roxy.toml.json").read_text())

if TYPE_CHECKING:
    from collections.abc import Sequence

    from project import Done

RUN = "grep -q hello src/greeting.txt"
BUG, FIXED = b"one\nhowdy\nthree\n", b"one\nhello\nthree\n"


def the_check(done: Done) -> dict[str, Any]:
    (check,) = done.json["checks"]
    value: dict[str, Any] = check
    return value


def declare(
    project: Project, commit: str, run: str = RUN, covers: Sequence[str] = ("src/**",)
) -> None:
    project.write(
        "roxy.toml",
        f"[claims.greeting.checks.text]\nrun = {json.dumps(run)}\n"
        f"covers = {json.dumps(covers)}\nreproduces = '{commit}'\n",
    )


def fixed(project: Project, bug: bytes = BUG, code: bytes = FIXED) -> str:
    """Make a project whose bug was fixed since its first commit, which is returned."""
    project.write("src/greeting.txt", bug)
    project.write("src/a.txt", "the same\n")
    project.write("src/run.sh", "true\n", 0o755)
    project.commit()
    commit = project.git("rev-parse", "HEAD").strip()
    os.utime(project.write("src/greeting.txt", code), (LONG_AGO, LONG_AGO))
    declare(project, commit)
    project.commit()
    return commit


@pytest.mark.rule("S22", "S28", "S34")
def test_the_old_code_is_put_in_and_its_listing_is_in_the_fingerprint(project: Project) -> None:
    commit = fixed(project)
    before = project.snapshot()
    run = f"cat src/greeting.txt >>.git/seen; {RUN}"
    declare(project, commit, run)
    check = the_check(project.roxy("verify", "--json"))
    assert check["result"] == "verified"
    assert [(one["phase"], one["mutation"]) for one in check["runs"]] == [
        *(("clean", None), ("mutated", commit), ("restored", commit))
    ]
    assert project.read(".git/seen") == FIXED + BUG + FIXED
    after = project.snapshot()
    assert {path for path in after if after[path] != before[path]} == {"roxy.toml"}
    files = ("src/a.txt", "src/greeting.txt", "src/run.sh")
    digests = {one.encode(): hashlib.sha256(project.read(one)).digest() for one in files}
    listing = project.git("ls-tree", "-r", "-z", "--full-tree", commit, "--", "src/").encode()
    resolved = manifest.parse(project.read("roxy.toml").decode())[0].checks[0]
    assert check["fingerprint"] == fingerprint(resolved, [listing], digests)
    assert standing(project) == (State.VERIFIED, None)
    (receipt,) = (project.state / "receipts").iterdir()
    assert json.loads(receipt.read_bytes())["check"]["mutations"] == [
        {"path": commit, "sha256": hashlib.sha256(listing).hexdigest()}
    ]


@pytest.mark.rule("S34")
def test_another_commit_with_the_same_old_code_is_the_same_check(project: Project) -> None:
    commit = fixed(project)
    assert project.roxy("verify").code == 0
    project.git("commit", "--quiet", "--allow-empty", "--amend", "--message", "x")
    same = project.git("commit-tree", f"{commit}^{{tree}}", "-m", "the same files").strip()
    declare(project, same)
    assert standing(project)[0] is State.VERIFIED
    declare(project, project.git("rev-parse", "HEAD").strip())
    assert standing(project) == (State.STALE, "its mutation changed")


@pytest.mark.rule("S18")
@pytest.mark.parametrize("how", ["added", "removed", "renamed", "nothing"])
def test_a_commit_with_other_files_or_the_same_code_is_rejected(project: Project, how: str) -> None:
    fixed(project)
    match how:
        case "added":
            project.write("src/new.txt", "")
            says = "has no `src/new.txt`: only contents can be mutated, so write a patch instead"
        case "removed":
            (project.root / "src/a.txt").unlink()
            says = "has `src/a.txt` besides: only contents can be mutated, so write a patch instead"
        case "renamed":
            (project.root / "src/a.txt").rename(project.root / "src/b.txt")
            says = "has no `src/b.txt`, and has `src/a.txt` besides: only contents"
        case _:
            project.write("src/greeting.txt", BUG)
            says = "has the very same code"
    check = the_check(project.roxy("verify", "--json"))
    assert (check["result"], check["runs"]) == ("rejected", [])
    assert check["reason"]["code"] == ("changes-nothing" if how == "nothing" else "other-files")
    assert says in check["reason"]["text"]


@pytest.mark.rule("S22")
def test_old_code_that_nobody_notices_is_rejected(project: Project) -> None:
    commit = fixed(project)
    declare(project, commit, "true")
    check = the_check(project.roxy("verify", "--json"))
    assert check["reason"] == {
        "code": "mutation-not-noticed",
        "text": f"the mutated run passed (exit code 0): `{commit}` was not noticed",
        "details": None,
    }
    assert project.read("src/greeting.txt") == FIXED


@pytest.mark.rule("S21")
def test_old_code_gets_the_line_ends_of_the_disk(project: Project) -> None:
    project.write(".gitattributes", "*.txt eol=crlf\n")
    crlf = FIXED.replace(b"\n", b"\r\n")
    commit = fixed(project, BUG.replace(b"\n", b"\r\n"), crlf)
    declare(project, commit, f"cat src/greeting.txt >>.git/seen; {RUN}")
    assert project.roxy("verify").code == 0
    assert project.read(".git/seen") == crlf + BUG.replace(b"\n", b"\r\n") + crlf


@pytest.mark.rule("S21")
def test_old_code_may_hold_any_bytes_and_a_filter_rejects_it(project: Project) -> None:
    commit = fixed(project, b"\0\xff no end", b"hello\0\xfe")
    assert project.roxy("verify").code == 0
    project.write(".gitattributes", "src/* filter=x\n")
    declare(project, commit, f"{RUN} && true")
    assert the_check(project.roxy("verify", "--json"))["reason"]["code"] == "filter-in-force"


@pytest.mark.rule("S12")
def test_the_lock_is_no_old_code(project: Project) -> None:
    project.write("roxy.lock", "version = 1\n")
    project.write("roxy.toml", "# later\n")
    commit = fixed(project)
    declare(project, commit, covers=["**"])
    (project.root / "roxy.lock").unlink()
    assert project.roxy("verify").code == 0


@pytest.mark.rule("S43", "S48")
def test_a_commit_that_is_not_here_is_an_error_that_says_how_to_get_it(
    project: Project, tmp_path: Path
) -> None:
    fixed(project)
    subprocess.run(
        ["git", "clone", "--quiet", "--depth=1", f"file://{project.root}", tmp_path / "clone"],
        check=True,
    )
    clone = Project(tmp_path / "clone")
    done = clone.roxy("gate")
    assert done.code == 2
    assert "error: git does not have the commit `" in done.err
    assert "at roxy.toml, check `greeting/text`" in done.err
    assert "`git fetch --unshallow` may get it" in done.err
    assert clone.roxy("verify").code == 2


@pytest.mark.rule("S10")
@pytest.mark.parametrize(
    ("lines", "what"),
    [
        ("reproduces = 'main'", "`reproduces` must be the whole id of a commit, not `main`"),
        ("reproduces = 'abc1234'", "`reproduces` must be the whole id of a commit, not `abc1234`"),
        ("reproduces = 1", "`reproduces` must be a string, not a number"),
        (
            f"reproduces = '{'a' * 40}'\nmutation = 'p'",
            "`reproduces` and `mutation` both say what breaks the code",
        ),
        ("", "`mutation` is missing"),
    ],
)
def test_exactly_one_thing_breaks_the_code(lines: str, what: str) -> None:
    text = f"[claims.x.checks.y]\nrun = 'true'\ncovers = ['a']\n{lines}\n"
    with pytest.raises(ConfigError) as caught:
        manifest.parse(text)
    assert [fault.what for fault in caught.value.faults] == [what]


@pytest.mark.rule("S47")
def test_the_schema_wants_exactly_one_too() -> None:
    def fits(**keys: str) -> bool:
        check = {"run": "true", "covers": ["a"], **keys}
        document = {"claims": {"x": {"checks": {"y": check}}}}
        return jsonschema.Draft7Validator(SCHEMA).is_valid(document)

    assert fits(reproduces="a" * 40)
    assert fits(reproduces="a" * 64)
    assert not fits(reproduces="a" * 41)
    assert not fits(reproduces="a" * 40, mutation="p")
    assert not fits()
