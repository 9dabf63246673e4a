"""`roxy refresh` and `roxy status -v`: patches that no longer go exactly where they say (S19, S20)."""

from __future__ import annotations

import json
import os
import subprocess
from importlib import resources
from typing import TYPE_CHECKING

import jsonschema
import pytest

from handshake import hooked
from lab import PATH, Lab, a_lab, text
from project import LONG_AGO, Project
from roxy.core.errors import DiskError
from roxy.core.events import RunFinished
from roxy.core.interrupts import Interrupts
from roxy.core.mutation import Misfit, Renewal
from roxy.core.refresh import Refreshed, refresh
from roxy.core.session import open_session
from test_preload import LATE
from test_reports import closed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from roxy.core.events import Event

PASSES = "grep -q hello src/greeting.txt"
MOVED = "zero\none\nhello\nthree\n"


def moved(project: Project, content: str = MOVED) -> None:
    """Let the code move on, long ago."""
    os.utime(project.write("src/greeting.txt", content), (LONG_AGO, LONG_AGO))


def begun(project: Project) -> Project:
    """Give a verified project whose patch `git diff` made."""
    project.greet()
    project.commit()
    project.write("src/greeting.txt", "one\nhowdy\nthree\n")
    project.write("mutations/it.patch", "why: greetings matter\n\n" + project.git("diff"))
    project.git("checkout", "--quiet", "src")
    os.utime(project.root / "src/greeting.txt", (LONG_AGO, LONG_AGO))
    project.commit()
    return project


def refreshed(
    project: Project,
    names: Sequence[str] = (),
    *,
    runs: bool = False,
    hear: Callable[[Event], None] = lambda _event: None,
) -> Refreshed:
    with open_session(
        project.root, os.environ, Interrupts(), "roxy refresh", 0, lambda _line: None
    ) as session:
        return refresh(session, names, hear, runs=runs)


# ------------------------------------------------------------------- the whole command


@pytest.mark.rule("S20", "S35", "S39")
def test_refresh_writes_what_git_diff_would_print_and_records_what_its_runs_prove(
    project: Project,
) -> None:
    begun(project)
    assert project.roxy("verify").code == 0
    moved(project)
    told = project.roxy("status", "-v")
    advice = "`roxy refresh greeting/text` makes it anew"
    assert f"moved 1 line down in `src/greeting.txt`; {advice}" in told.err
    done = project.roxy("refresh", "greeting", "--color", "always")
    assert done.code == 0, done
    assert "\x1b[1mold mutations/it.patch\x1b[0m\n  why: greetings matter\n" in done.out
    assert "\x1b[1mnew mutations/it.patch\x1b[0m\n" in done.out
    assert "\x1b[32mverified\x1b[0m greeting/text\n" in done.out
    assert "`mutations/it.patch` is made anew, moved 1 line down" in done.out
    patch = project.read("mutations/it.patch").decode()
    assert project.states() == {"greeting/text": "verified"}
    assert len(os.listdir(project.state / "receipts")) == 2
    project.git("add", "src")
    project.write("src/greeting.txt", MOVED.replace("hello", "howdy"))
    assert patch == "why: greetings matter\n\n" + project.git("diff", "src")
    moved(project)
    again = project.roxy("refresh", "--json")
    jsonschema.Draft7Validator(closed(_schema())).validate(again.json)
    assert again.code == 0
    (one,) = again.json["patches"]
    assert (one["exact"], one["written"], one["new"]) == (True, False, None)
    assert again.json["checks"] == []


def _schema() -> object:
    return json.loads(resources.files("roxy").joinpath("schemas/refresh.json").read_text("utf-8"))


@pytest.mark.rule("S20")
def test_refresh_of_a_patch_without_a_place_gives_the_reason_that_verify_gives(
    project: Project,
) -> None:
    begun(project)
    moved(project, "one\nhello, hello\nthree\n")
    before = project.read("mutations/it.patch")
    rejected = project.roxy("verify").out.splitlines()[0]
    lock = project.read("roxy.lock")
    for words in (("refresh",), ("refresh", "--no-run")):
        done = project.roxy(*words)
        assert done.code == 1
        assert done.out.splitlines() == [rejected, "`mutations/it.patch` stays as it was"]
    document = project.roxy("refresh", "--json").json
    jsonschema.Draft7Validator(closed(_schema())).validate(document)
    assert document["patches"][0]["reason"]["code"] == "edited-since"
    assert project.read("mutations/it.patch") == before
    assert project.read("roxy.lock") == lock


@pytest.mark.rule("S31", "S36")
def test_refresh_runs_all_checks_that_share_a_patch_and_writes_it_only_if_all_prove_themselves(
    project: Project,
) -> None:
    begun(project)
    project.check(PASSES, claim="other")
    project.check("true", claim="third")
    moved(project)
    before = project.read("mutations/it.patch")
    done = refreshed(project, ["greeting"], runs=True)
    assert [one.check.id for one in done.outcomes] == ["greeting/text", "other/text", "third/text"]
    assert [one.result for one in done.outcomes] == ["verified", "verified", "rejected"]
    assert project.read("mutations/it.patch") == before
    assert not (project.root / "roxy.lock").exists()
    manifest = project.read("roxy.toml").replace(b'run = "true"', b'run = "grep -q hello src/*"')
    project.write("roxy.toml", manifest)
    (one,) = refreshed(project, ["third"], runs=True).patches
    assert one.is_written
    assert project.read("mutations/it.patch") == one.new
    assert project.read("roxy.lock").count(b"sha256:") == 3


@pytest.mark.rule("S51")
def test_refresh_loads_nothing_once_a_check_has_started(project: Project, tmp_path: Path) -> None:
    marker, record = tmp_path / "marker", tmp_path / "record"
    begun(project)
    manifest = project.read("roxy.toml").decode().replace('"grep', f'": >{marker}; grep')
    project.write("roxy.toml", manifest)
    moved(project)
    env = hooked(tmp_path / "hook", LATE) | {"LATE": f"{record}|{marker}"}
    done = project.roxy("refresh", env=env)
    assert (done.code, record.read_text()) == (0, ""), done


# ------------------------------------------------------------------- without runs


def test_without_runs_the_patch_is_written_and_the_check_is_stale(verified: Project) -> None:
    moved(verified)
    lock = verified.read("roxy.lock")
    (one,) = refreshed(verified).patches
    assert one.is_written
    assert verified.read("mutations/it.patch") == one.new
    assert verified.states() == {"greeting/text": "stale"}
    assert verified.read("roxy.lock") == lock
    (one,) = refreshed(verified).patches
    assert (one.new, one.is_written) == (None, False)


def test_a_patch_that_is_reached_through_a_link_is_written_where_it_lies(project: Project) -> None:
    begun(project)
    (project.root / "mutations/it.patch").rename(project.root / "real.patch")
    (project.root / "mutations/it.patch").symlink_to("../real.patch")
    moved(project)
    (one,) = refreshed(project).patches
    assert (project.root / "mutations/it.patch").is_symlink()
    assert project.read("real.patch") == one.new


@pytest.mark.rule("S29")
def test_a_patch_that_somebody_edits_meanwhile_is_left_alone(project: Project) -> None:
    begun(project)
    moved(project)

    def edit(event: Event) -> None:
        if isinstance(event, RunFinished):
            project.write("mutations/it.patch", "my own\n")

    with pytest.raises(DiskError, match=r"mutations/it\.patch"):
        refreshed(project, runs=True, hear=edit)
    assert project.read("mutations/it.patch") == b"my own\n"
    assert not (project.root / "roxy.lock").exists()


# ------------------------------------------------------------------- the new patch


def renewed(lab: Lab, patch: bytes) -> bytes | None:
    paths = lab.git("ls-files", "-z").split(b"\0")[:-1]
    renewal = lab.scratch.renew("it", patch, paths)
    assert isinstance(renewal, Renewal), renewal
    return renewal.patch


@pytest.mark.rule("S17", "S20")
def test_with_the_blob_a_patch_is_renewed_even_where_its_context_was_edited(tmp_path: Path) -> None:
    lab = a_lab(tmp_path)
    patch = lab.diff({PATH: text((50, "broken\n"))})
    lab.write(PATH, text((48, "edited\n"), (10, "")))
    lab.commit()
    expected = lab.diff({PATH: text((48, "edited\n"), (10, ""), (50, "broken\n"))})
    assert renewed(lab, patch) == expected
    assert renewed(lab, expected) is None


@pytest.mark.rule("S17", "S21")
@pytest.mark.parametrize(
    ("attributes", "init"),
    [
        (b"", ["--object-format=sha256"]),
        (b"* text eol=crlf\n", []),
        (b"*.py diff=python\n", []),
    ],
    ids=["SHA-256", "CRLF", "driver"],
)
def test_a_renewed_patch_is_what_git_diff_prints_whatever_the_line_ends(
    tmp_path: Path, attributes: bytes, init: list[str]
) -> None:
    name = "src/gr\u00fc\u00dfe \u540d.py"
    lines = b"def f():\n" + text()
    lab = a_lab(tmp_path, {name: lines, "b.bin": b"\0one", ".gitattributes": attributes}, *init)
    patch = lab.diff({name: b"def f():\n" + text((50, "broken\n")), "b.bin": b"\0two"}, "--binary")
    lab.write(name, b"\n" + lines)
    lab.commit()
    (lab.root / name).unlink()
    lab.git("checkout-index", name)
    changes = {name: b"\ndef f():\n" + text((50, "broken\n")), "b.bin": b"\0two"}
    expected = lab.diff(changes, "--binary")
    lab.git("config", "diff.noprefix", "true")
    lab.git("config", "diff.external", "false")
    assert renewed(lab, b"From: me\n" + patch) == b"From: me\n" + expected


@pytest.mark.rule("S20")
def test_a_patch_whose_lines_moved_by_different_distances_has_no_new_form(tmp_path: Path) -> None:
    lab = a_lab(tmp_path)
    patch = lab.patch(PATH, text(), text((20, "x\n"), (80, "y\n")))
    lab.write(PATH, text((50, "more\nand more\n")))
    renewal = lab.scratch.renew("mutations/it.patch", patch, [PATH.encode()])
    assert isinstance(renewal, Misfit)
    assert renewal == lab.fitted(patch, PATH)


# ------------------------------------------------------------------- status -v


@pytest.mark.rule("S19", "S49")
def test_status_verbose_alone_names_patches_that_do_not_go_where_they_say(
    verified: Project,
) -> None:
    verified.write("garbage.patch", "no patch\n")
    verified.check("true", claim="third", mutation="garbage.patch")
    moved(verified, "one\nthree\n")
    before = verified.snapshot()
    done = verified.roxy("status", "-v")
    assert "warning: `mutations/it.patch` does not fit: its lines are not in" in done.err
    assert "warning: git cannot read the mutation `garbage.patch`: " in done.err
    assert "refresh" not in done.err
    assert done.out == verified.roxy("status").out
    assert verified.snapshot() == before
    for words in (("status",), ("gate", "-v")):
        assert "does not fit" not in verified.roxy(*words).err


@pytest.mark.rule("S19")
def test_status_verbose_says_nothing_of_patches_that_go_where_they_say(verified: Project) -> None:
    assert verified.roxy("status", "-v").err == ""


@pytest.mark.rule("S19", "S43")
def test_status_verbose_answers_also_where_patches_cannot_be_looked_at(verified: Project) -> None:
    (verified.state / "scratch").write_text("in the way\n")
    done = verified.roxy("status", "-v")
    assert (done.code, done.out) == (0, "verified greeting/text\n1 check: 1 verified\n")
    assert "warning: the patches could not be looked at: cannot remove the folder" in done.err


@pytest.mark.rule("S19")
def test_drift_tells_of_other_lines_around(tmp_path: Path) -> None:
    lab = a_lab(tmp_path)
    patch = lab.diff({PATH: text((50, "broken\n"))})
    lab.write(PATH, text((48, "edited\n")))
    paths = [PATH.encode()]
    assert lab.scratch.drift(patch, paths) == ("meets other lines around its own", True)
    lab.write(PATH, text((50, "edited\n")))
    found = lab.scratch.drift(patch, paths)
    assert found is not None
    assert not found[1]
    subprocess.run(["git", "checkout", "--quiet", PATH], cwd=lab.root, check=True)
    assert lab.scratch.drift(patch, paths) is None
