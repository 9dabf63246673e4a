"""What roxy promises, one whole-tool test for each claim of its own roxy.toml.

Each test is short and complete, since the check of the claim runs it alone: on roxy's code as it is,
with the one rule disabled, and again as it is.
"""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from project import HANG, Project, until

if TYPE_CHECKING:
    from pathlib import Path

GREETS = "grep -q hello src/greeting.txt"


def log_of_runs(project: Project, what: str) -> list[str]:
    """Verify a check that notes `what` in each of its runs, and return its notes."""
    notes = project.root.parent / "notes"
    project.greet(f'{{ {what}; }} >> "{notes}"; {GREETS}')
    assert project.roxy("verify").code == 0
    return notes.read_text().splitlines()


def blocked_in_mutated_run(project: Project) -> Path:
    """Make the check of a project touch a marker and block once the code is broken."""
    marker = project.root.parent / "mutated"
    project.greet(f'{GREETS} || {{ touch "{marker}"; sleep 1000; }}')
    return marker


@pytest.mark.rule("S22")
def test_a_check_that_passes_on_broken_code_is_rejected(project: Project) -> None:
    project.greet("true")
    done = project.roxy("verify")
    assert done.code == 1
    assert "rejected greeting/text" in done.out
    assert "was not noticed" in done.out


@pytest.mark.rule("S22")
def test_a_check_that_fails_once_the_code_is_restored_is_rejected(project: Project) -> None:
    project.write(".gitignore", "seen\n")
    project.greet(f"{GREETS} || {{ touch seen; exit 1; }}; test ! -e seen")
    done = project.roxy("verify")
    assert done.code == 1
    assert "rejected greeting/text: the restored run failed" in done.out


@pytest.mark.rule("S1", "S36")
def test_a_rejected_check_leaves_no_evidence(verified: Project) -> None:
    assert b"text = " in verified.read("roxy.lock")
    verified.write("roxy.toml", verified.read("roxy.toml").replace(b"grep", b"true || grep"))
    assert verified.roxy("verify").code == 1
    assert b"text = " not in verified.read("roxy.lock")
    assert verified.roxy("gate").code == 1


@pytest.mark.rule("S28")
def test_files_come_back_byte_for_byte_after_a_verify(project: Project) -> None:
    project.greet()
    project.write("src/tool.sh", b"#!/bin/sh\r\n\0\xff no newline", 0o755)
    (project.root / "src/greeting.txt").chmod(0o640)
    before = project.snapshot()
    assert project.roxy("verify").code == 0
    assert project.snapshot() == before


@pytest.mark.rule("S32")
@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_files_come_back_byte_for_byte_after_a_signal(project: Project, signum: int) -> None:
    marker = blocked_in_mutated_run(project)
    before = project.snapshot()
    with project.started("verify") as roxy:
        until(marker.exists)
        roxy.send_signal(signum)
        assert roxy.wait(HANG) == 128 + signum
    assert project.snapshot() == before


@pytest.mark.rule("S29")
def test_an_edit_made_meanwhile_is_kept_and_named(project: Project) -> None:
    edit = "cp mine src/greeting.txt"
    project.write("mine", "what I wrote meanwhile\n")
    project.greet(f"{GREETS} || {{ {edit}; exit 1; }}")
    before = project.snapshot()
    done = project.roxy("verify")
    assert done.code == 1
    assert project.snapshot() == before
    (kept,) = (project.state / "kept").iterdir()
    assert kept.read_text() == "what I wrote meanwhile\n"
    assert str(kept) in done.err


@pytest.mark.rule("S33")
def test_a_killed_verify_is_restored_by_the_next_command(project: Project) -> None:
    marker = blocked_in_mutated_run(project)
    before = project.snapshot()
    with project.started("verify") as roxy:
        until(marker.exists)
        roxy.kill()
        roxy.wait(HANG)
    assert project.snapshot() != before
    project.write("roxy.toml", "this is no TOML")
    done = project.roxy("status")
    assert "restored `src/greeting.txt`" in done.err
    assert done.code == 2
    assert project.read("src/greeting.txt") == b"one\nhello\nthree\n"


@pytest.mark.rule("S14")
def test_a_glob_that_matches_nothing_is_an_error(verified: Project) -> None:
    manifest = verified.read("roxy.toml").decode()
    verified.write("roxy.toml", manifest.replace('["src/**"]', '["src/**", "lib/**"]'))
    for command in ("status", "gate", "verify"):
        done = verified.roxy(command)
        assert done.code == 2
        assert "the glob `lib/**` matches no file" in done.err


@pytest.mark.rule("S34")
@pytest.mark.parametrize("path", ["src/greeting.txt", "mutations/it.patch", "roxy.toml"])
def test_one_byte_anywhere_makes_it_stale(verified: Project, path: str) -> None:
    changed = {
        "src/greeting.txt": (b"three", b"threE"),
        "mutations/it.patch": (b"howdy", b"howdi"),
        "roxy.toml": (b"grep -q", b"grep -c"),
    }[path]
    verified.write(path, verified.read(path).replace(*changed))
    assert verified.states() == {"greeting/text": "stale"}
    assert verified.roxy("gate").code == 1


@pytest.mark.rule("S43")
def test_the_gate_is_closed_unless_every_check_is_verified(verified: Project) -> None:
    assert verified.roxy("gate").code == 0
    verified.check(GREETS, name="other")
    done = verified.roxy("gate")
    assert done.code == 1
    assert done.out == verified.roxy("status").out
    assert verified.roxy("status").code == 0


@pytest.mark.rule("S18")
def test_a_patch_may_only_edit_covered_files(project: Project) -> None:
    project.write("lib/other.txt", "one\nhello\nthree\n")
    project.greet()
    project.mutation("lib/other.txt", "hello", "howdy")
    before = project.snapshot()
    done = project.roxy("verify")
    assert done.code == 1
    assert "`lib/other.txt`" in done.out
    assert done.out.startswith("rejected greeting/text")
    assert project.snapshot() == before


@pytest.mark.rule("S20")
def test_a_mutation_that_could_mean_two_places_is_rejected(project: Project) -> None:
    project.write("src/greeting.txt", "a\nhello\nb\n")
    project.mutation("src/greeting.txt", "hello", "howdy")
    project.write("src/greeting.txt", "new\n" * 5 + "a\nhello\nb\n" * 2)
    project.check(GREETS)
    done = project.roxy("verify")
    assert done.code == 1
    assert "2 times" in done.out


@pytest.mark.rule("S8")
def test_a_second_roxy_is_refused_and_told_who_is_at_work(project: Project) -> None:
    marker = blocked_in_mutated_run(project)
    with project.started("verify") as roxy:
        until(marker.exists)
        done = project.roxy("status")
        assert done.code == 2
        assert f"pid {roxy.pid}, `roxy verify`" in done.err
        roxy.terminate()
        roxy.wait(HANG)
    assert project.roxy("status").code == 0


@pytest.mark.rule("S12")
def test_ignored_files_never_count(verified: Project) -> None:
    verified.write(".git/info/exclude", "*.cache\n")
    verified.write("src/build.cache", "whatever")
    assert verified.states() == {"greeting/text": "verified"}
    verified.write("src/new.txt", "whatever")
    assert verified.states() == {"greeting/text": "stale"}


@pytest.mark.rule("S28")
def test_no_temporary_file_shows_in_the_tree(project: Project) -> None:
    notes = log_of_runs(project, "find . -path ./.git -prune -o -print | sort | tr '\\n' ' '; echo")
    assert len(notes) == 3
    assert len(set(notes)) == 1


@pytest.mark.rule("S26")
def test_a_check_that_swaps_good_code_in_and_out_is_rejected(project: Project) -> None:
    """The code is bad and stays bad; the check shows good code to itself in the clean run only."""
    project.write("src/greeting.txt", "one\nbad\nthree\n")
    project.mutation("src/greeting.txt", "bad", "mad")
    project.write("good", "one\nhello\nthree\n")
    project.write(".gitignore", "bad.now\n")
    swap = "cp src/greeting.txt bad.now; cp good src/greeting.txt"
    test = f"{GREETS}; code=$?; cp bad.now src/greeting.txt; exit $code"
    project.check(f"grep -q mad src/greeting.txt && exit 1; {swap}; {test}")
    done = project.roxy("verify")
    assert done.code == 1
    assert "covered files changed while it ran: `src/greeting.txt`" in done.out
    assert project.read("src/greeting.txt") == b"one\nbad\nthree\n"


@pytest.mark.rule("S30")
def test_each_content_has_a_later_whole_second_than_the_one_before(project: Project) -> None:
    notes = log_of_runs(
        project, "python -c 'import os; print(os.stat(\"src/greeting.txt\").st_mtime_ns)'"
    )
    clean, mutated, restored = (int(note) // 10**9 for note in notes)
    assert clean < mutated < restored


@pytest.mark.rule("S24")
def test_nothing_that_a_run_started_is_left_when_it_ends(project: Project) -> None:
    pids = project.root.parent / "pids"
    project.greet(f'setsid sleep 1000 & echo $! >> "{pids}"; {GREETS}')
    assert project.roxy("verify").code == 0
    assert len(pids.read_text().split()) == 3
    for pid in pids.read_text().split():
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid), 0)


@pytest.mark.rule("S50")
def test_ci_finds_a_lock_that_nobody_proved(verified: Project) -> None:
    lock = verified.read("roxy.lock")
    assert verified.roxy("verify", "--all", "--locked").code == 0
    verified.write("roxy.lock", lock.replace(b"sha256:", b"sha256:00")[: len(lock)])
    forged = lock[:-3] + (b'0"\n' if lock[-3:] != b'0"\n' else b'1"\n')
    verified.write("roxy.lock", forged)
    done = verified.roxy("verify", "--all", "--locked")
    assert done.code == 1
    assert "greeting/text" in done.out
    assert verified.read("roxy.lock") == forged


@pytest.mark.rule("S6", "S7")
def test_the_environment_of_a_git_hook_changes_nothing(verified: Project) -> None:
    hook = {"GIT_DIR": "/nowhere", "GIT_INDEX_FILE": "/nowhere", "GIT_LITERAL_PATHSPECS": "1"}
    done = verified.roxy("gate", env=hook)
    assert done.out == "verified greeting/text\n1 check: 1 verified\n"
    assert done.code == 0
