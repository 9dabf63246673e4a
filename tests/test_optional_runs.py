"""The optional keys of a check at work: real repositories, real processes (S40-S42)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from handshake import Sleeper

if TYPE_CHECKING:
    from collections.abc import Iterator

    from project import Done, Project

PASSES = "grep -q hello src/greeting.txt"


def the_check(done: Done) -> dict[str, Any]:
    """Return what `--json` says of the only check."""
    (check,) = done.json["checks"]
    value: dict[str, Any] = check
    return value


@pytest.fixture
def sleeper() -> Iterator[Sleeper]:
    sleeper = Sleeper()
    yield sleeper
    sleeper.end()


# ------------------------------------------------------------------- timeout


@pytest.mark.rule("S24", "S40")
@pytest.mark.parametrize("ends_well", [False, True])
def test_a_clean_run_that_times_out_is_ended_and_rejected(
    project: Project, sleeper: Sleeper, *, ends_well: bool
) -> None:
    trap = "trap 'exit 0' TERM; " if ends_well else ""
    project.greet(f"{trap}echo begun; {sleeper.command} & wait", keys='timeout = "0.3s"')
    done = project.roxy("verify", "--json")
    check = the_check(done)
    assert done.code == 1
    assert check["reason"] == {
        "code": "clean-run-timed-out",
        "text": "the clean run took longer than its timeout of 0.3 s",
    }
    assert [run["timed_out"] for run in check["runs"]] == [True]
    assert not sleeper.pids()
    assert project.read("src/greeting.txt") == b"one\nhello\nthree\n"


@pytest.mark.rule("S27", "S40")
def test_a_mutated_run_that_times_out_has_failed_with_a_warning(
    project: Project, sleeper: Sleeper
) -> None:
    project.greet(f"{PASSES} || {sleeper.command}", keys='timeout = "3s"')
    done = project.roxy("verify", "--json")
    check = the_check(done)
    assert (done.code, check["result"]) == (0, "verified")
    assert [run["timed_out"] for run in check["runs"]] == [False, True, False]
    assert check["notes"] == [
        (
            "the mutated run with `mutations/it.patch` failed in a way that proves little"
            " (it took longer than its timeout of 3 s)"
        )
    ]
    assert not sleeper.pids()


@pytest.mark.rule("S40")
def test_a_restored_run_that_times_out_is_rejected(project: Project, sleeper: Sleeper) -> None:
    run = (
        f"test -e .git/broken && exec {sleeper.command}; {PASSES} || {{ : >.git/broken; exit 1; }}"
    )
    project.greet(run, keys='timeout = "2s"')
    check = the_check(project.roxy("verify", "--json"))
    assert check["reason"]["code"] == "restored-run-timed-out"
    assert [run["phase"] for run in check["runs"]] == ["clean", "mutated", "restored"]
