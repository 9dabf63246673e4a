"""The optional keys of a check at work: real repositories, real processes (S40-S42)."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import struct
from typing import TYPE_CHECKING, Any

import pytest

from handshake import Sleeper
from inside import standing
from project import HANG, LONG_AGO
from roxy.core.errors import ConfigError
from roxy.core.model import State

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
        "details": None,
    }
    assert [run["timed_out"] for run in check["runs"]] == [True]
    assert not sleeper.pids()
    assert project.read("src/greeting.txt") == b"one\nhello\nthree\n"


@pytest.mark.rule("S27", "S40")
def test_a_mutated_run_that_times_out_has_failed_with_a_warning(
    project: Project, sleeper: Sleeper
) -> None:
    project.greet(f"{PASSES} || {sleeper.command}", keys='timeout = "5s"')
    done = project.roxy("verify", "--json")
    check = the_check(done)
    assert (done.code, check["result"]) == (0, "verified")
    assert [run["timed_out"] for run in check["runs"]] == [False, True, False]
    assert check["notes"] == [
        (
            "the mutated run with `mutations/it.patch` failed in a way that proves little"
            " (it took longer than its timeout of 5 s)"
        )
    ]
    assert not sleeper.pids()


@pytest.mark.rule("S40")
def test_a_restored_run_that_times_out_is_rejected(project: Project, sleeper: Sleeper) -> None:
    run = (
        f"test -e .git/broken && exec {sleeper.command}; {PASSES} || {{ : >.git/broken; exit 1; }}"
    )
    project.greet(run, keys='timeout = "5s"')
    check = the_check(project.roxy("verify", "--json"))
    assert check["reason"]["code"] == "restored-run-timed-out"
    assert [run["phase"] for run in check["runs"]] == ["clean", "mutated", "restored"]


# ------------------------------------------------------------------- fails-with


@pytest.mark.rule("S41")
def test_a_mutated_run_must_fail_as_expected(project: Project) -> None:
    project.greet(f"{PASSES} || {{ echo 'no greeting'; exit 1; }}", keys="fails-with = '^no \\w+$'")
    done = project.roxy("verify", "--json")
    assert done.code == 0
    assert [run["matched"] for run in the_check(done)["runs"]] == [None, True, None]
    assert project.roxy("gate").code == 0


@pytest.mark.rule("S22", "S41")
def test_a_mutated_run_that_fails_otherwise_is_rejected(project: Project) -> None:
    run = f"{PASSES} || {{ echo 'cannot compile'; exit 2; }}"
    project.greet(run, keys="fails-with = 'no greeting'")
    done = project.roxy("verify")
    assert done.code == 1
    assert done.out.startswith(
        "rejected greeting/text: the mutated run with `mutations/it.patch` failed with exit code 2:"
        " it failed, but not as expected, for nothing in its output matches `no greeting`\n"
        "  | cannot compile\n"
    )
    assert project.read("src/greeting.txt") == b"one\nhello\nthree\n"


@pytest.mark.rule("S10", "S41")
def test_a_bad_expression_is_told_before_anything_runs(project: Project) -> None:
    project.greet(": >ran", keys="fails-with = '('")
    done = project.roxy("verify")
    assert done.code == 2
    assert "`fails-with` is no regular expression" in done.err
    assert not (project.root / "ran").exists()


# ------------------------------------------------------------------- env


@pytest.mark.rule("S6", "S41")
def test_env_is_set_in_every_run_also_what_would_be_stripped(project: Project) -> None:
    keys = 'env = { TZ = "Asia/Tokyo", CDPATH = "/here", GIT_DIR = "elsewhere", NEW = "a b" }'
    project.greet(f'echo "$TZ $CDPATH $GIT_DIR $NEW" >>.git/seen; {PASSES}', keys=keys)
    done = project.roxy("verify", env={"CDPATH": "/there", "NEW": "old"})
    assert done.code == 0, done
    assert project.read(".git/seen") == b"Asia/Tokyo /here elsewhere a b\n" * 3


@pytest.mark.rule("S34", "S41")
def test_another_value_makes_a_check_stale(project: Project) -> None:
    project.greet(keys='env = { TZ = "UTC" }')
    assert project.roxy("verify").code == 0
    text = project.read("roxy.toml").decode()
    project.write("roxy.toml", text.replace('"UTC"', '"GMT"'))
    assert standing(project)[0] is State.STALE
    project.write("roxy.toml", text)
    assert standing(project)[0] is State.VERIFIED


# ------------------------------------------------------------------- inputs

INPUTS = 'inputs = ["tests/*", "src/greeting.txt"]'


def with_inputs(project: Project, run: str = PASSES) -> None:
    """Make a project whose check covers `src` and depends on `tests`."""
    project.greet(run, keys=INPUTS)
    os.utime(project.write("tests/one.txt", "one\n"), (LONG_AGO, LONG_AGO))


@pytest.mark.rule("S34", "S41")
def test_inputs_are_in_the_fingerprint_among_the_covered_files(project: Project) -> None:
    with_inputs(project)
    os.utime(project.write("src/z.txt", "z"), (LONG_AGO, LONG_AGO))
    project.write("src/a.txt", "a")
    project.write("tests/a.txt", "a")
    data = b"roxy fingerprint 1\n"
    fields = [(b"run", PASSES.encode()), (b"mutation", project.read("mutations/it.patch"))]
    for path in ("src/a.txt", "src/greeting.txt", "src/z.txt", "tests/a.txt", "tests/one.txt"):
        fields.append((b"path", path.encode()))
        fields.append((b"content", hashlib.sha256(project.read(path)).digest()))
    for name, value in fields:
        data += name + b"\0" + struct.pack(">Q", len(value)) + value
    check = the_check(project.roxy("verify", "--json"))
    assert check["fingerprint"] == "sha256:" + hashlib.sha256(data).hexdigest()


@pytest.mark.rule("S41")
def test_a_changed_input_makes_a_check_stale_and_is_named(project: Project) -> None:
    with_inputs(project)
    assert project.roxy("verify").code == 0
    project.write("tests/one.txt", "other\n")
    assert standing(project) == (State.STALE, "`tests/one.txt` changed")
    project.write("tests/one.txt", "one\n")
    assert standing(project)[0] is State.VERIFIED
    project.write("tests/two.txt", "new")
    assert standing(project) == (State.STALE, "`tests/two.txt` added")


@pytest.mark.rule("S18", "S41")
def test_a_mutation_of_an_input_is_rejected(project: Project) -> None:
    with_inputs(project)
    project.mutation("tests/one.txt", "one", "two")
    check = the_check(project.roxy("verify", "--json"))
    assert (check["result"], check["runs"]) == ("rejected", [])
    assert check["reason"]["code"] == "not-covered"
    assert "`tests/one.txt`" in check["reason"]["text"]


@pytest.mark.rule("S26", "S41")
def test_a_check_that_touches_an_input_is_rejected(project: Project) -> None:
    with_inputs(project, f"echo more >>tests/one.txt; {PASSES}")
    done = project.roxy("verify")
    assert done.out.startswith(
        "rejected greeting/text: covered files or inputs changed while it ran: `tests/one.txt`\n"
    )


@pytest.mark.rule("S14", "S41")
def test_inputs_that_match_no_file_are_an_error_of_every_command(project: Project) -> None:
    project.greet(keys='inputs = ["tests/**"]')
    with pytest.raises(ConfigError, match=r"the glob `tests/\*\*` matches no file"):
        standing(project)
    assert project.roxy("verify").code == 2


# ------------------------------------------------------------------- needs


@pytest.mark.rule("S42")
def test_a_check_whose_need_is_not_met_is_blocked_and_nothing_is_run(project: Project) -> None:
    keys = "needs = ['true', 'echo one; echo no response; echo; exit 2', ': >.git/third']"
    project.greet(f": >ran; {PASSES}", keys=keys)
    done = project.roxy("verify")
    assert (done.code, done.err) == (1, "")
    assert done.out == (
        "blocked greeting/text: it needs `echo one; echo no response; echo; exit 2`,"
        " which failed with exit code 2; it last printed: no response\n"
        "1 blocked\n"
    )
    assert not (project.root / "ran").exists()
    assert not (project.root / ".git/third").exists()
    assert list((project.state / "logs").iterdir()) == []
    (receipt,) = (project.state / "receipts").iterdir()
    value = json.loads(receipt.read_bytes())
    assert (value["result"], value["runs"]) == ("blocked", [])
    assert value["reason"]["code"] == "need-not-met"


@pytest.mark.rule("S6", "S23", "S24", "S40", "S42")
def test_needs_run_as_a_run_does(project: Project, sleeper: Sleeper) -> None:
    need = f"echo $TZ; cat; {sleeper.command} & pwd; test -e src && exec {sleeper.command}"
    keys = f"needs = ['{need}']\ntimeout = '3s'\nenv = {{ TZ = 'UTC' }}"
    project.greet(keys=keys)
    done = project.roxy("verify", "-v", "--json")
    (check,) = done.json["checks"]
    assert check["result"] == "blocked"
    assert check["reason"]["text"].endswith(
        f"which took longer than its timeout of 3 s; it last printed: {project.root}"
    )
    assert f"greeting/text: needs {need}\nUTC\n{project.root}\n" in done.err
    assert not sleeper.pids()


@pytest.mark.rule("S42")
def test_a_check_whose_needs_are_met_is_tried(project: Project) -> None:
    project.greet(keys="needs = ['true', 'test -e src/greeting.txt']")
    done = project.roxy("verify", "--json")
    assert done.code == 0
    assert done.json["counts"]["results"] == {"verified": 1, "rejected": 0, "blocked": 0}
    assert len(the_check(done)["runs"]) == 3


@pytest.mark.rule("S18", "S42")
def test_a_patch_that_does_not_fit_rejects_before_needs_are_asked(project: Project) -> None:
    project.greet(keys="needs = [': >.git/asked; exit 1']")
    project.write("src/greeting.txt", "hello there\n")
    check = the_check(project.roxy("verify", "--json"))
    assert (check["result"], check["runs"]) == ("rejected", [])
    assert not (project.root / ".git/asked").exists()


@pytest.mark.rule("S26", "S42")
@pytest.mark.parametrize("ends", [0, 1])
def test_needs_may_not_touch_covered_files_either(project: Project, ends: int) -> None:
    project.greet(
        f": >ran; {PASSES}", keys=f"needs = ['echo more >>src/greeting.txt; exit {ends}']"
    )
    check = the_check(project.roxy("verify", "--json"))
    assert check["runs"] == []
    assert check["reason"]["code"] == ("need-not-met" if ends else "files-changed")
    assert not (project.root / "ran").exists()


def blocked_later(project: Project) -> str:
    """Make a project with evidence for a check that is blocked by now; return its lock."""
    project.greet(keys="needs = ['test ! -e .git/down']")
    project.check("grep -q hello src/greeting.txt", name="other")
    assert project.roxy("verify").code == 0
    project.write(".git/down", "")
    return project.read("roxy.lock").decode()


@pytest.mark.rule("S36", "S42", "S50")
def test_the_entry_of_a_blocked_check_is_left_alone(project: Project) -> None:
    lock = blocked_later(project)
    done = project.roxy("verify", "--all", "--json")
    assert done.code == 1
    assert [one["result"] for one in done.json["checks"]] == ["blocked", "verified"]
    assert [one["state"] for one in done.json["checks"]] == ["verified", "verified"]
    assert done.json["counts"]["results"] == {"verified": 1, "rejected": 0, "blocked": 1}
    assert project.read("roxy.lock").decode() == lock
    locked = project.roxy("verify", "--all", "--locked")
    assert locked.code == 1
    assert locked.out.endswith("verified greeting/other\n1 verified, 1 blocked\n")
    assert project.roxy("gate").code == 0
    os.utime(project.write("src/new.txt", "new\n"), (LONG_AGO, LONG_AGO))
    assert project.roxy("verify").code == 1
    assert project.states() == {"greeting/text": "stale", "greeting/other": "verified"}


@pytest.mark.rule("S37", "S42")
def test_a_broken_lock_is_written_anew_without_what_is_blocked(project: Project) -> None:
    lock = blocked_later(project)
    project.write("roxy.lock", "<<<<<<< ours\n" + lock)
    done = project.roxy("verify", "--all", "--json")
    assert [one["state"] for one in done.json["checks"]] == ["unverified", "verified"]
    assert project.states() == {"greeting/text": "unverified", "greeting/other": "verified"}


@pytest.mark.rule("S24", "S28", "S32", "S33", "S42")
@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_of_a_need_outlives_a_roxy_that_is_ended(
    project: Project, sleeper: Sleeper, signum: int
) -> None:
    project.greet(keys=f"needs = ['{sleeper.command}; true']")
    with project.started("verify") as process:
        sleeper.until_run_by(1)
        process.send_signal(signum)
        process.communicate(timeout=HANG)
    if signum == signal.SIGKILL:
        assert "ended process group" in project.roxy("status").err
    else:
        assert process.returncode == 143
    assert not sleeper.pids()


# ------------------------------------------------------------------- repeat


@pytest.mark.rule("S42")
def test_repeat_runs_the_clean_run_again_and_counts_right(project: Project) -> None:
    project.greet(keys="repeat = 3")
    done = project.roxy("verify", "-v", "--json")
    assert done.code == 0
    phases = [run["phase"] for run in the_check(done)["runs"]]
    assert phases == ["clean", "clean", "clean", "mutated", "restored"]
    assert [line for line in done.err.splitlines() if line.startswith("greeting/text: ")] == [
        f"greeting/text: {phase} run, {number} of 5" for number, phase in enumerate(phases, 1)
    ]


@pytest.mark.rule("S42")
def test_a_check_that_passes_only_sometimes_is_rejected(project: Project) -> None:
    project.greet(f"echo >>.git/n; test $(wc -l <.git/n) -lt 2 && {PASSES}", keys="repeat = 3")
    done = project.roxy("verify")
    assert done.out.startswith(
        "rejected greeting/text: it passes only sometimes: clean run 2 of 3 failed with exit code 1\n"
    )
    assert project.read(".git/n") == b"\n\n"


# ------------------------------------------------------------------- lists of mutations


@pytest.mark.rule("S31")
def test_of_several_mutations_the_one_that_was_not_noticed_is_named(project: Project) -> None:
    project.greet()
    project.mutation("src/greeting.txt", "hello", "hullo", "mutations/second.patch")
    project.mutation("src/greeting.txt", "three", "four", "mutations/third.patch")
    text = project.read("roxy.toml").decode()
    some = '["mutations/it.patch", "mutations/second.patch", "mutations/third.patch"]'
    project.write("roxy.toml", text.replace('"mutations/it.patch"', some))
    check = the_check(project.roxy("verify", "--json"))
    assert [(run["phase"], run["mutation"]) for run in check["runs"]] == [
        ("clean", None),
        ("mutated", "mutations/it.patch"),
        ("restored", "mutations/it.patch"),
        ("mutated", "mutations/second.patch"),
        ("restored", "mutations/second.patch"),
        ("mutated", "mutations/third.patch"),
    ]
    assert check["reason"] == {
        "code": "mutation-not-noticed",
        "text": "the mutated run passed (exit code 0): `mutations/third.patch` was not noticed",
        "details": None,
    }
    project.write("roxy.toml", text.replace('"mutations/it.patch"', some.replace("third", "it")))
    assert project.roxy("verify").code == 2  # one patch twice is no second proof
    two = '["mutations/it.patch", "mutations/second.patch"]'
    project.write("roxy.toml", text.replace('"mutations/it.patch"', two))
    done = project.roxy("verify", "--json")
    assert (done.code, len(the_check(done)["runs"])) == (0, 5)


# ------------------------------------------------------------------- defaults, and strict


@pytest.mark.rule("S27", "S41", "S42")
def test_defaults_hold_for_every_check(project: Project) -> None:
    project.greet(f"test $A = 1 && {PASSES} || exit 127")
    project.check(
        f"test $A = 2 && {PASSES} || exit 127", name="lax", keys="env.A='2'\nstrict=false"
    )
    text = project.read("roxy.toml").decode()
    project.write("roxy.toml", f'[defaults]\nstrict = true\nenv = {{ A = "1" }}\n{text}')
    done = project.roxy("verify")
    assert done.code == 1
    assert done.out.splitlines()[0] == (
        "rejected greeting/text: the mutated run with `mutations/it.patch` failed in a way that"
        " proves little (exit code 127: a command was not found), and `strict` wants more than that"
    )
    assert "warning: greeting/lax: the mutated run" in done.err
    assert done.out.endswith("verified greeting/lax\n1 verified, 1 rejected\n")


# ------------------------------------------------------------------- ran


@pytest.mark.parametrize(
    ("at_least", "result"),
    [("", "verified"), ("at-least = 2", "verified"), ("at-least = 3", "rejected")],
)
def test_a_run_must_say_that_its_tests_ran(project: Project, at_least: str, result: str) -> None:
    run = f"{PASSES} && echo 1 passed && echo 2 passed"
    project.greet(run, keys=f"ran = '(\\d+) passed'\n{at_least}")
    check = the_check(project.roxy("verify", "--json"))
    assert check["result"] == result
    if result == "verified":
        assert [run["ran"] for run in check["runs"]] == [2, None, 2]
    else:
        assert check["reason"] == {
            "code": "too-few-ran",
            "text": "the clean run passed, but by its output 2 tests ran, and it must be 3 or more",
            "details": None,
        }


# ------------------------------------------------------------------- what changed since


@pytest.mark.rule("S34", "S41")
def test_a_key_that_changed_is_named_as_the_reason(project: Project) -> None:
    project.greet(f"echo 9 ran; {PASSES} || {{ echo no; false; }}")
    text = project.read("roxy.toml").decode()
    keys = "fails-with = 'no'\nran = '(9) ran'\nenv = { A = '1' }\nneeds = ['true']\n"
    project.write("roxy.toml", text + keys)
    assert project.roxy("verify").code == 0
    assert standing(project) == (State.VERIFIED, None)
    for old, new, reason in (
        ("'no'", "'n.'", "its `fails-with` changed"),
        ("A = '1'", "B = '1'", "its `env` changed"),
        ("ran = '(9) ran'\n", "strict = true\n", "its `ran` changed, its `strict` changed"),
        ("needs", "at-least = 2\nneeds", "its `at-least` changed"),
    ):
        project.write("roxy.toml", text + keys.replace(old, new))
        assert standing(project) == (State.STALE, reason)
    project.write(
        "roxy.toml", text + keys.replace("needs = ['true']", "timeout = '1h'\nrepeat = 2")
    )
    assert standing(project) == (State.VERIFIED, None)
