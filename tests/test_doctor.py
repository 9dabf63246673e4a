"""`roxy doctor`: each thing that it finds, and how it is told."""

from __future__ import annotations

import json
import os
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import jsonschema
import pytest

from roxy.cli import exit_codes
from roxy.core.checkup import examine, look_at_tools
from roxy.core.command_words import KnownFiles, named_files
from roxy.core.finding import Finding, Severity
from roxy.core.interrupts import Interrupts
from roxy.core.session import open_session
from roxy.reports import doctor as report

if TYPE_CHECKING:
    from collections.abc import Callable

    from project import Project

HOSTILE = "a\x1b[31m\nb\u202e"


def all_found(project: Project, *, verbose: bool = False) -> list[Finding]:
    with open_session(
        project.root,
        os.environ,
        Interrupts(),
        "roxy doctor",
        0,
        lambda _line: None,
        needs_manifest=False,
    ) as session:
        return examine(session, verbose=verbose)


def examined(project: Project, *, verbose: bool = False) -> dict[str, Finding]:
    """Return what is found by its code, where no code comes twice."""
    found = all_found(project, verbose=verbose)
    by_code = {finding.code: finding for finding in found}
    assert len(by_code) == len(found), found
    return by_code


@pytest.fixture
def sound(project: Project) -> Project:
    """Return a project about which there is nothing to say."""
    project.greet()
    project.commit()
    return project


def test_nothing_is_found_where_all_is_well(sound: Project) -> None:
    before = sound.snapshot()
    done = sound.roxy("doctor")
    assert (done.code, done.out, done.err) == (0, "nothing was found\n", "")
    assert sound.snapshot() == before


# How it is told.

FINDINGS = [
    Finding(Severity.ERROR, "one", "it broke", "roxy.toml", "mend it"),
    Finding(Severity.WARNING, "two", f"odd {HOSTILE}"),
    Finding(Severity.INFO, "three", "so it is", None, "look"),
]


@pytest.mark.rule("S46")
def test_a_finding_is_one_line_with_what_where_and_hint() -> None:
    assert report.lines(FINDINGS, quiet=False, color=False) == (
        "error: it broke; at roxy.toml; mend it\n"
        "warning: odd a\\u001b[31m\\u000ab\\u202e\n"
        "info: so it is; look\n"
        "3 findings: 1 error, 1 warning, 1 info\n"
    )
    quiet = report.lines(FINDINGS, quiet=True, color=True)
    assert quiet.startswith("\x1b[1;31merror\x1b[0m: it broke")
    assert quiet.count("\n") == 2


@pytest.mark.rule("S43")
def test_only_an_error_is_a_no() -> None:
    assert exit_codes.of_doctor(FINDINGS) == 1
    assert exit_codes.of_doctor(FINDINGS[1:]) == 0
    assert exit_codes.of_doctor([]) == 0


@pytest.mark.rule("S47")
def test_doctor_has_a_document_that_its_schema_describes(project: Project) -> None:
    done = project.roxy("doctor", "--json")
    assert done.code == 1
    schema = json.loads(resources.files("roxy").joinpath("schemas/doctor.json").read_text())
    jsonschema.Draft7Validator(schema).validate(done.json)
    jsonschema.Draft7Validator(schema).validate(json.loads(report.document(FINDINGS)))
    (finding,) = done.json["findings"]
    assert finding["what"] == "there is no `roxy.toml` at the top of the working tree"
    assert done.json["counts"] == {"error": 1, "warning": 0, "info": 0}


# Tools and hooks.


def test_a_tool_that_is_missing_is_an_error_that_names_it(tmp_path: Path) -> None:
    found = look_at_tools({"PATH": str(tmp_path)})
    assert [finding.what for finding in found] == [
        "`git` is not on PATH",
        "`sh` is not on PATH",
    ]


@pytest.mark.parametrize(
    ("version", "is_old"), [("2.30.9", True), ("1.99", True), ("2.31.0", False), ("3.0", False)]
)
def test_a_git_that_is_too_old_is_an_error(tmp_path: Path, version: str, *, is_old: bool) -> None:
    fake = tmp_path / "git"
    fake.write_text(f"#!/bin/sh\necho git version {version}\n")
    fake.chmod(0o755)
    found = look_at_tools({"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"})
    assert [finding.code for finding in found] == ["old-git"] * is_old


def hook(folder: Path, text: str, mode: int = 0o755, name: str = "pre-push") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(mode)
    return path


@pytest.fixture
def without_roxy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Take roxy off PATH, and return a folder that is on it."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("git", "sh"):
        (tools / name).symlink_to(
            next(
                Path(place) / name
                for place in os.environ["PATH"].split(os.pathsep)
                if (Path(place) / name).exists()
            )
        )
    monkeypatch.setenv("PATH", str(tools))
    return tools


@pytest.mark.parametrize(
    "line",
    ["roxy gate", "cd x && TZ=UTC exec roxy gate -q || exit 1", "if ! roxy gate; then exit 1; fi"],
)
def test_a_hook_that_cannot_find_roxy_is_an_error(
    sound: Project, without_roxy: Path, line: str
) -> None:
    path = hook(sound.root / ".git/hooks", line)
    (finding,) = examined(sound).values()
    assert finding.severity is Severity.ERROR
    assert finding.what == "this hook calls `roxy`, which is not on PATH"
    assert finding.where == f"`{path}`"
    hook(without_roxy, "", name="roxy")
    assert examined(sound) == {}


@pytest.mark.parametrize(
    "line",
    ["uvx roxy gate", "# roxy gate", "cd roxy; make", "echo roxy gate", "$HOME/bin/roxy gate"],
)
def test_a_hook_that_does_not_look_for_roxy_on_path_is_left_alone(
    sound: Project, without_roxy: Path, line: str
) -> None:
    assert without_roxy.is_dir()
    hook(sound.root / ".git/hooks", line)
    assert examined(sound) == {}


def test_a_hook_that_names_roxy_by_a_path_needs_it_there(sound: Project) -> None:
    hook(sound.root / ".git/hooks", ".venv/bin/roxy gate")
    assert examined(sound)["hook-without-roxy"].what.endswith(
        "`.venv/bin/roxy`, which is not there"
    )


def test_a_hook_that_git_would_not_run_is_told(sound: Project, without_roxy: Path) -> None:
    hook(without_roxy, "", name="roxy")
    old = hook(sound.root / ".git/hooks", "roxy gate")
    new = hook(sound.root / "hooks", "roxy gate", 0o644)
    sound.git("config", "core.hooksPath", "hooks")
    found = examined(sound)
    assert found["hook-not-executable"].where == f"`{new}`"
    assert found["hook-not-used"].where == f"`{old}`"
    assert found["hook-not-used"].severity is Severity.WARNING


def test_the_hooks_that_husky_runs_from_its_wrappers_are_looked_at(
    sound: Project, without_roxy: Path
) -> None:
    assert without_roxy.is_dir()
    hook(sound.root / ".husky/_", '. "${0%/*}/h"')
    path = hook(sound.root / ".husky", "roxy gate", 0o644)
    sound.git("config", "core.hooksPath", ".husky/_")
    assert examined(sound)["hook-without-roxy"].where == f"`{path}`"


# What lies in roxy's folder.


def test_what_is_kept_and_what_never_ended_is_listed(sound: Project) -> None:
    for path in ("kept/one-f.txt", "crashes/roxy-crash.txt"):
        (sound.state / path).parent.mkdir(parents=True)
        (sound.state / path).touch()
    note = sound.state / "receipts" / "started-20260101T000000.000000Z-17.json"
    note.parent.mkdir()
    note.write_text(json.dumps({"check": f"a/{HOSTILE}", "time": "2026-01-01T00:00:00Z"}))
    found = examined(sound)
    assert found.keys() == {"edits-kept", "crashes", "never-ended"}
    assert "`one-f.txt`" in found["edits-kept"].what
    assert found["never-ended"].what == (
        f"a try of `a/{HOSTILE}`, begun at 2026-01-01T00:00:00Z, never ended"
    )


@pytest.mark.rule("S39")
def test_a_try_that_never_ended_is_told_until_a_later_one_of_its_check_ends(
    verified: Project,
) -> None:
    folder = verified.state / "receipts"
    for check, year in (("greeting/text", 2020), ("greeting/text", 2099), ("other/check", 2020)):
        note = folder / f"started-{year}0101T000000.000000Z-{len(check)}.json"
        note.write_text(json.dumps({"check": check, "time": f"{year}-01-01T00:00:00Z"}))
    told = verified.roxy("doctor").out
    assert "`greeting/text`, begun at 2099" in told
    assert "`other/check`, begun at 2020" in told
    assert "`greeting/text`, begun at 2020" not in told


def test_a_damaged_receipt_and_an_entry_without_one_are_told(verified: Project) -> None:
    assert examined(verified) == {}
    (receipt,) = (verified.state / "receipts").iterdir()
    receipt.write_bytes(receipt.read_bytes() + b" ")
    found = examined(verified)
    assert found["receipts-damaged"].severity is Severity.WARNING
    assert receipt.name in found["receipts-damaged"].what
    assert found["entries-without-receipt"].severity is Severity.INFO
    assert "1 entry without a receipt here" in found["entries-without-receipt"].what
    assert "`greeting/text`" in found["entries-without-receipt"].what


# roxy.toml, roxy.lock and patches.


@pytest.mark.rule("S43")
def test_a_broken_roxy_toml_is_an_error_and_the_rest_is_looked_at_all_the_same(
    sound: Project,
) -> None:
    sound.write("roxy.toml", "[claims.a]\n")
    (sound.state / "kept").mkdir(parents=True)
    (sound.state / "kept" / "x").touch()
    found = examined(sound)
    assert found.keys() == {"config", "edits-kept"}
    assert found["config"].what == "claim `a` has no check"


def test_a_glob_without_a_file_and_a_lock_that_cannot_be_read_are_errors(sound: Project) -> None:
    sound.check("true", name="other", covers=("src",))
    sound.write("roxy.lock", "<<<<<<<\n")
    found = examined(sound)
    assert found["config"].what == "the glob `src` matches no file"
    assert found["config"].hint == "`src` is a folder; for what is below it, write `src/**`"
    assert found["lock"].severity is Severity.ERROR
    # The glob of that check covers nothing, so its mutation edits what it does not cover.
    assert found["not-covered"].where == "check `greeting/other`"


@pytest.mark.parametrize(
    ("content", "code", "severity"),
    [
        ("zero\none\nhello\nthree\n", "patch-moved", Severity.WARNING),
        ("one\nhullo\nthree\n", "lines-gone", Severity.ERROR),
    ],
)
@pytest.mark.rule("S18", "S20")
def test_a_patch_that_no_longer_applies_exactly_is_told(
    sound: Project, content: str, code: str, severity: Severity
) -> None:
    sound.write("src/greeting.txt", content)
    finding = examined(sound)[code]
    assert finding.severity is severity
    assert finding.where == "check `greeting/text`"
    assert "`mutations/it.patch`" in finding.what
    assert sound.read("src/greeting.txt").decode() == content
    assert not (sound.state / "scratch").exists()


@pytest.mark.rule("S19")
@pytest.mark.rule("S19")
@pytest.mark.parametrize(
    "content", ["zero\none\nhello\nthree\n", "other\nhello\nthree\n", "gone\n"]
)
def test_doctor_finds_the_patches_that_status_tells_of(sound: Project, content: str) -> None:
    sound.write("src/greeting.txt", content)
    told = sound.roxy("status", "-v").err
    (found,) = (one for one in all_found(sound) if "`mutations/it.patch`" in one.what)
    assert found.what in told
    advice = "`roxy refresh greeting/text` makes it anew"
    assert (advice in told) == (advice in (found.hint or "")) == content.startswith("zero")


def test_a_patch_that_git_cannot_read_is_an_error(sound: Project) -> None:
    sound.write("mutations/it.patch", "garbage\n")
    assert examined(sound)["patch-unreadable"].severity is Severity.ERROR


# What counts, and what does not.

NAMED = [
    ("python -m pytest tests/test_web.py::test_a -q", ["tests/test_web.py"]),
    ("python3 -m unittest -q tests.test_web", ["tests/test_web.py"]),
    ("python3 -m unittest tests.test_web.Case.test_a", ["tests/test_web.py"]),
    ("python3 -m tool serve", ["tool/__main__.py"]),
    ("pytest tests", ["tests/a b.py", "tests/test_web.py"]),
    ("pytest ./tests/", ["tests/a b.py", "tests/test_web.py"]),
    ("cd tests && python test_web.py", ["tests/test_web.py"]),
    ("cd tests\npython -m test_web", ["tests/test_web.py"]),
    ("sh -c 'sh \"tests/a b.py\"'", ["tests/a b.py"]),
    ("sh 'tests/a b.py'", ["tests/a b.py"]),
    ("jest --config=jest.config.js", ["jest.config.js"]),
    ("cat <jest.config.js>/dev/null", ["jest.config.js"]),
    ("(sh tests/*.py)", ["tests/a b.py", "tests/test_web.py"]),
    ("go test ./... && ls .. . / tests/none.py", []),
    ("echo 'not closed tests/test_web.py", ["tests/test_web.py"]),
    ("make tests && npm run tool && go test ./...", []),
    ("[ -f x ] && test a.b", []),
    ("sh tests/[ && cat ''", []),
]


@pytest.mark.parametrize(("run", "expected"), NAMED)
def test_the_files_that_a_run_names(run: str, expected: list[str]) -> None:
    paths = sorted(
        [b"jest.config.js", b"tests/a b.py", b"tests/test_web.py", b"tool/__main__.py", b"src/x"]
    )
    named = named_files(run, KnownFiles(paths))
    found = {path.decode() for one in named for path in one.files}
    assert sorted(found) == expected


def test_a_file_that_the_run_names_and_no_glob_covers_is_told(project: Project) -> None:
    project.write("tests/it.sh", "grep -q hello src/greeting.txt\n")
    project.write("tests/more.sh", "")
    project.greet("sh tests/it.sh && ls tests")
    project.check("sh tests/it.sh", name="all", covers=("src/**", "tests/**"))
    project.commit()
    file, folder = all_found(project)
    assert {file.where, folder.where} == {"check `greeting/text`"}
    assert file.severity is folder.severity is Severity.WARNING
    assert file.what == "its `run` names `tests/it.sh`, which none of its globs covers"
    assert "`inputs`" in str(file.hint)
    assert folder.what == (
        "its `run` names `tests`, and none of its globs covers 2 of the 2 files there: "
        "`tests/it.sh`, `tests/more.sh`"
    )


def test_a_file_that_a_glob_names_by_its_whole_path_is_covered(sound: Project) -> None:
    sound.write("roxy.toml", "")
    (sound.root / "roxy.toml").unlink()
    sound.check("grep -q hello src/greeting.txt", covers=("src/greeting.txt",))
    assert examined(sound) == {}


def test_files_that_two_globs_of_one_check_mean_are_told(sound: Project) -> None:
    sound.check("true", name="twice", covers=("src/**", "src/*.txt"))
    finding = examined(sound)["covered-twice"]
    assert finding.where == "check `greeting/twice`"
    assert finding.what == "`src/**` and `src/*.txt` cover the same 1 file: `src/greeting.txt`"


@pytest.mark.rule("S21")
@pytest.mark.parametrize(
    ("attributes", "codes"),
    [
        ("* filter=lfs\n", {"filtered", "filter-in-force"}),
        ("* text=auto\n", {"line-ends"}),
        ("* text eol=crlf\n", {"line-ends"}),
        ("* -text\n", set()),
        ("*.md text\n", set()),
    ],
)
def test_covered_files_that_git_may_rewrite_are_told(
    sound: Project, attributes: str, codes: set[str]
) -> None:
    sound.write(".gitattributes", attributes)
    found = examined(sound)
    assert found.keys() == codes
    assert all("`src/greeting.txt`" in finding.what for finding in found.values())


def test_tracked_files_that_no_claim_covers_are_counted_or_listed(
    sound: Project, make_project: Callable[[str], Project]
) -> None:
    sound.write("untracked", "")
    assert examined(sound) == {}
    sound.write("other", "")
    sound.git("add", "other")
    finding = examined(sound)["no-claim"]
    assert finding.severity is Severity.INFO
    assert finding.what == "no claim covers 1 of 2 tracked files"
    assert examined(sound, verbose=True)["no-claim"].where == "`other`"
    assert make_project("b").roxy("doctor", "-q").code == 1


@pytest.mark.rule("S8", "S33")
def test_doctor_first_puts_back_what_a_kill_left_as_every_command_does(sound: Project) -> None:
    copy = sound.state / "journal" / "copy-0"
    copy.parent.mkdir(parents=True)
    copy.touch()
    assert examined(sound) == {}
    assert not copy.exists()


@pytest.mark.rule("S36")
def test_a_lock_that_was_deleted_is_told(verified: Project) -> None:
    verified.commit()
    (verified.root / "roxy.lock").unlink()
    assert examined(verified)["lock-gone"].severity is Severity.WARNING
