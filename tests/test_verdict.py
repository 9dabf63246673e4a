"""The truth table: what was seen of a check, and what that means (S22, S26, S27, S31)."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from roxy.core.model import Check, Reason, Result
from roxy.core.outcome import Phase, Run, Unmet
from roxy.core.verdict import Evidence, how_it_ended, is_over, judge, name_files


class End(NamedTuple):
    exit: int | None
    signal: int | None = None


PASS = End(0)
ENDS = (PASS, End(1), End(126), End(127), End(139), End(None, 9))
FAILURES = ENDS[1:]
MISFIT = Reason("does-not-apply", "the mutation does not apply")
FORBIDDEN = re.compile(r"\b(verified|stale|unverified)\b", re.IGNORECASE)


def a_check(mutations: int = 1) -> Check:
    patches = tuple(f"{number}.patch" for number in range(mutations))
    return Check(claim="a", name="b", run="true", covers=("src/**",), mutations=patches)


def a_run(phase: Phase, end: End, mutation: str = "it.patch") -> Run:
    return Run(
        phase=phase,
        mutation=None if phase is Phase.CLEAN else mutation,
        exit=end.exit,
        signal=end.signal,
        seconds=0.1,
        log=Path("log"),
        log_size=0,
        log_sha256="",
    )


def the_runs(clean: End, *pairs: End) -> tuple[Run, ...]:
    """Return a clean run, then a mutated and a restored one for each two ends."""
    phases = itertools.cycle((Phase.MUTATED, Phase.RESTORED))
    return (a_run(Phase.CLEAN, clean), *map(a_run, phases, pairs))


def evidence(
    *ends: End, touched: bool = False, misfit: bool = False, mutations: int = 1
) -> Evidence:
    return Evidence(
        check=a_check(mutations),
        misfit=MISFIT if misfit else None,
        unmet=None,
        runs=the_runs(*ends) if ends else (),
        touched=(b"src/a", b"src/b") if touched else (),
    )


EVERYTHING = [
    evidence(*ends, touched=touched, misfit=misfit)
    for ends in itertools.product(ENDS, repeat=3)
    for touched in (False, True)
    for misfit in (False, True)
]


@pytest.mark.rule("S18", "S22", "S26", "S27")
def test_every_triple_of_ends_has_one_result_and_only_pass_fail_pass_untouched_is_verified() -> (
    None
):
    for seen in EVERYTHING:
        clean, mutated, restored = seen.runs
        proves = clean.passed and not mutated.passed and restored.passed
        verdict = judge(seen)
        if proves and not seen.touched and seen.misfit is None:
            assert verdict.result is Result.VERIFIED
            assert verdict.reason is None
            assert verdict.failed_run is None
        else:
            assert verdict.result is Result.REJECTED
            assert verdict.reason is not None


@pytest.mark.rule("S22")
def test_a_run_that_failed_where_it_must_pass_is_the_reason_before_all_that_follows() -> None:
    for seen in EVERYTHING:
        clean, mutated, restored = seen.runs
        if seen.misfit is not None:
            expected = "does-not-apply", None
        elif not clean.passed:
            expected = "clean-run-failed", clean
        elif not restored.passed:
            expected = "restored-run-failed", restored
        elif seen.touched:
            expected = "files-changed", None
        elif mutated.passed:
            expected = "mutation-not-noticed", mutated
        else:
            continue
        verdict = judge(seen)
        assert verdict.reason is not None
        assert (verdict.reason.code, verdict.failed_run) == expected


@pytest.mark.rule("S22", "S31")
def test_every_way_through_two_mutations_is_verified_only_if_all_fail_and_all_are_restored() -> (
    None
):
    for ends in itertools.product(ENDS, repeat=5):
        clean, *rest = ends
        good = clean == PASS and PASS not in rest[::2] and rest[1::2] == [PASS, PASS]
        result = judge(evidence(*ends, mutations=2)).result
        assert (result is Result.VERIFIED) is good, ends


@pytest.mark.rule("S22")
def test_runs_that_ended_early_are_rejected_by_the_run_that_ended_them() -> None:
    for end in FAILURES:
        assert judge(evidence(end)).result is Result.REJECTED
        assert is_over(a_check(), the_runs(end))
    assert judge(evidence(PASS, PASS)).result is Result.REJECTED
    assert is_over(a_check(), the_runs(PASS, PASS))


@pytest.mark.rule("S22")
def test_is_over_lets_the_next_run_start_as_long_as_all_went_as_it_must() -> None:
    assert not is_over(a_check(), the_runs(PASS))
    for end in FAILURES:
        assert not is_over(a_check(), the_runs(PASS, end))
        assert not is_over(a_check(), the_runs(PASS, end, PASS))
        assert is_over(a_check(), the_runs(PASS, end, end))


@pytest.mark.rule("S1", "S22")
@pytest.mark.parametrize("ends", [(), (PASS,), (PASS, End(1))])
def test_missing_runs_without_a_reason_are_a_bug_and_no_evidence(ends: tuple[End, ...]) -> None:
    with pytest.raises(AssertionError):
        judge(evidence(*ends))


@pytest.mark.rule("S22")
def test_runs_for_one_mutation_are_no_evidence_for_two() -> None:
    with pytest.raises(AssertionError):
        judge(evidence(PASS, End(1), PASS, mutations=2))


@pytest.mark.rule("S22")
def test_no_reason_and_no_warning_uses_the_three_words() -> None:
    for seen in EVERYTHING:
        verdict = judge(seen)
        texts = [*verdict.notes, *([verdict.reason.text] if verdict.reason else [])]
        assert not [text for text in texts if FORBIDDEN.search(text) or "\n" in text]


@pytest.mark.rule("S27")
@pytest.mark.parametrize(
    ("end", "says"),
    [
        (PASS, None),
        (End(1), None),
        (End(2), None),
        (End(125), None),
        (End(126), "exit code 126: the command could not be executed"),
        (End(127), "exit code 127: a command was not found"),
        (End(128), None),
        (End(130), "exit code 130: signal 2 (SIGINT)"),
        (End(137), "exit code 137: signal 9 (SIGKILL)"),
        (End(139), "exit code 139: signal 11 (SIGSEGV)"),
        (End(255), None),
        (End(None, 9), "signal 9 (SIGKILL) ended it"),
        (End(None, 15), "signal 15 (SIGTERM) ended it"),
    ],
)
def test_a_mutated_run_that_proves_little_counts_as_failed_with_a_warning(
    end: End, says: str | None
) -> None:
    verdict = judge(evidence(PASS, end, PASS))
    assert (verdict.result is Result.VERIFIED) is (end != PASS)
    if says is None:
        assert verdict.notes == ()
    else:
        assert verdict.notes == (
            f"the mutated run with `it.patch` failed in a way that proves little ({says})",
        )


@pytest.mark.rule("S27")
def test_only_mutated_runs_are_warned_about() -> None:
    for end in FAILURES:
        assert judge(evidence(end)).notes == ()
        assert judge(evidence(PASS, End(1), end)).notes == ()


@pytest.mark.rule("S27")
@pytest.mark.parametrize("number", [34, 40, 64])
def test_a_signal_without_a_name_is_told_by_its_number(number: int) -> None:
    text = how_it_ended(a_run(Phase.CLEAN, End(None, number)), a_check())
    assert text.startswith(f"was ended by signal {number}")


@pytest.mark.rule("S22", "S27")
def test_every_rejection_by_a_run_says_how_that_run_ended() -> None:
    for end in FAILURES:
        how = "signal 9 (SIGKILL)" if end.signal else f"exit code {end.exit}"
        for seen in (evidence(end), evidence(PASS, End(1), end)):
            reason = judge(seen).reason
            assert reason is not None
            assert how in reason.text


@pytest.mark.rule("S26")
def test_name_files_names_five_files_in_order_and_counts_the_rest() -> None:
    assert name_files([b"b", b"a"]) == "`a`, `b`"
    assert name_files([b"%d" % n for n in range(5)]) == "`0`, `1`, `2`, `3`, `4`"
    assert name_files([b"%d" % n for n in range(7)]) == "`0`, `1`, `2`, `3`, `4` and 2 more"


@pytest.mark.rule("S15", "S26")
def test_name_files_keeps_the_bytes_of_a_name_that_is_not_utf8() -> None:
    assert name_files([b"\xff.py"]).encode("utf-8", "surrogateescape") == b"`\xff.py`"


def a_failure(**facts: Any) -> Run:
    return replace(a_run(Phase.MUTATED, End(1)), **facts)


@pytest.mark.rule("S41")
def test_a_mutated_run_that_failed_otherwise_is_rejected_and_needs_no_third_run() -> None:
    check = a_check()._replace(fails_with="Assert.*")
    clean, restored = a_run(Phase.CLEAN, PASS), a_run(Phase.RESTORED, PASS)
    for matched, result in ((True, Result.VERIFIED), (False, Result.REJECTED)):
        run = a_failure(matched=matched)
        verdict = judge(Evidence(check, None, None, (clean, run, restored), ()))
        assert verdict.result is result
        assert is_over(check, [clean, run]) is not matched
    assert verdict.reason == Reason(
        "failed-otherwise",
        "the mutated run with `it.patch` failed with exit code 1: it failed, but not as expected,"
        " for nothing in its output matches `Assert.*`",
    )


@pytest.mark.rule("S25", "S41")
def test_an_output_that_could_not_be_searched_is_no_evidence() -> None:
    check = a_check()._replace(fails_with="x")
    run = a_failure(unsearched="was not searched to its end")
    verdict = judge(Evidence(check, None, None, (a_run(Phase.CLEAN, PASS), run), ()))
    assert (verdict.result, verdict.failed_run) == (Result.REJECTED, run)
    assert verdict.reason == Reason(
        "output-not-searched",
        "the mutated run with `it.patch` failed with exit code 1, but its output"
        " was not searched to its end",
    )


@pytest.mark.rule("S27", "S41")
def test_a_failure_with_the_expected_output_proves_enough_however_it_ended() -> None:
    check = a_check()._replace(fails_with="x")
    run = replace(a_run(Phase.MUTATED, End(139)), matched=True)
    runs = (a_run(Phase.CLEAN, PASS), run, a_run(Phase.RESTORED, PASS))
    verdict = judge(Evidence(check, None, None, runs, ()))
    assert (verdict.result, verdict.notes) == (Result.VERIFIED, ())


@pytest.mark.rule("S40")
def test_a_run_that_timed_out_has_not_passed_whatever_its_shell_made_of_it() -> None:
    check = a_check()._replace(timeout=90.0)
    ends = (PASS, End(1), End(None, 15))
    for end in ends:
        clean = replace(a_run(Phase.CLEAN, end), timed_out=True)
        reason = judge(Evidence(check, None, None, (clean,), ())).reason
        assert reason == Reason(
            "clean-run-timed-out", "the clean run took longer than its timeout of 90 s"
        )
        mutated = replace(a_run(Phase.MUTATED, end), timed_out=True)
        runs = (a_run(Phase.CLEAN, PASS), mutated, a_run(Phase.RESTORED, PASS))
        verdict = judge(Evidence(check, None, None, runs, ()))
        assert verdict.result is Result.VERIFIED
        assert "(it took longer than its timeout of 90 s)" in verdict.notes[0]


@pytest.mark.rule("S42")
@pytest.mark.parametrize(
    ("unmet", "text"),
    [
        (
            Unmet("command -v xcrun", 127, None, timed_out=False, last_line=None),
            "it needs `command -v xcrun`, which failed with exit code 127; it printed nothing",
        ),
        (
            Unmet("pg", None, 9, timed_out=False, last_line="no response"),
            "it needs `pg`, which was ended by signal 9 (SIGKILL); it last printed: no response",
        ),
        (
            Unmet("pg", 0, None, timed_out=True, last_line="x" * 201),
            (
                "it needs `pg`, which took longer than its timeout of 2 s;"
                f" it last printed: {'x' * 200}..."
            ),
        ),
    ],
)
def test_what_needs_something_that_is_not_there_is_blocked(unmet: Unmet, text: str) -> None:
    check = a_check()._replace(timeout=2.0)
    verdict = judge(Evidence(check, None, unmet, (), ()))
    assert (verdict.result, verdict.reason) == (Result.BLOCKED, Reason("need-not-met", text))
    assert judge(Evidence(check, MISFIT, unmet, (), ())).result is Result.REJECTED


@pytest.mark.rule("S26", "S42")
def test_files_that_changed_before_the_first_run_are_a_rejection() -> None:
    verdict = judge(Evidence(a_check(), None, None, (), (b"src/a",)))
    assert verdict.reason is not None
    assert verdict.reason.code == "files-changed"


@pytest.mark.rule("S42")
def test_a_check_that_passes_only_sometimes_is_rejected_as_that() -> None:
    check = a_check()._replace(repeat=3)
    for number, failed in enumerate(FAILURES):
        for passed in range(3):
            runs = [replace(a_run(Phase.CLEAN, PASS), log_size=n) for n in range(passed)]
            runs.append(replace(a_run(Phase.CLEAN, failed), log_size=number))
            assert is_over(check, runs)
            verdict = judge(Evidence(check, None, None, tuple(runs), ()))
            assert verdict.reason is not None
            assert verdict.failed_run is runs[-1]
            if passed:
                assert verdict.reason.code == "passes-only-sometimes"
                how = how_it_ended(runs[-1], check)
                assert verdict.reason.text == (
                    f"it passes only sometimes: clean run {passed + 1} of 3 {how}"
                )
            else:
                assert verdict.reason.code == "clean-run-failed"


@pytest.mark.rule("S22", "S42")
def test_every_repeated_run_is_needed_for_evidence() -> None:
    check = a_check()._replace(repeat=2)
    clean = a_run(Phase.CLEAN, PASS)
    rest = (a_run(Phase.MUTATED, End(1)), a_run(Phase.RESTORED, PASS))
    assert judge(Evidence(check, None, None, (clean, clean, *rest), ())).result is Result.VERIFIED
    with pytest.raises(AssertionError):
        judge(Evidence(check, None, None, (clean, *rest), ()))


@pytest.mark.rule("S27")
@pytest.mark.parametrize(
    ("end", "code"),
    [
        (End(1), None),
        (End(126), "mutated-run-not-started"),
        (End(127), "mutated-run-not-started"),
        (End(139), "mutated-run-killed"),
        (End(None, 9), "mutated-run-killed"),
        (End(None, 15), "mutated-run-timed-out"),
    ],
)
def test_strict_rejects_a_failure_that_proves_little(end: End, code: str | None) -> None:
    check = a_check()._replace(strict=True, timeout=2.0)
    mutated = replace(a_run(Phase.MUTATED, end), timed_out=end.signal == 15)
    runs = (a_run(Phase.CLEAN, PASS), mutated, a_run(Phase.RESTORED, PASS))
    verdict = judge(Evidence(check, None, None, runs, ()))
    assert verdict.notes == ()
    assert is_over(check, runs[:2]) is (code is not None)
    if code is None:
        assert verdict.result is Result.VERIFIED
    else:
        assert verdict.reason is not None
        assert (verdict.result, verdict.reason.code) == (Result.REJECTED, code)
        lax = judge(Evidence(check._replace(strict=False), None, None, runs, ()))
        assert verdict.reason.text == f"{lax.notes[0]}, and `strict` wants more than that"
        expected = (runs[0], replace(mutated, matched=True), runs[2])
        sure = check._replace(fails_with="x")
        assert judge(Evidence(sure, None, None, expected, ())).result is Result.VERIFIED


@pytest.mark.parametrize(
    ("phase", "ran", "text"),
    [
        (Phase.CLEAN, 3, None),
        (Phase.CLEAN, 2, "by its output 2 tests ran, and it must be 3 or more"),
        (Phase.RESTORED, 0, "by its output 0 tests ran, and it must be 3 or more"),
        (
            Phase.CLEAN,
            None,
            "nothing in its output says how many tests ran: no number by `(a)`",
        ),
    ],
)
def test_a_run_that_passes_without_its_tests_is_rejected(
    phase: Phase, ran: int | None, text: str | None
) -> None:
    check = a_check()._replace(ran="(a)", at_least=3)
    clean, mutated, restored = the_runs(PASS, End(1), PASS)
    runs = (replace(clean, ran=3), mutated, replace(restored, ran=3))
    seen = tuple(replace(run, ran=ran) if run.phase is phase else run for run in runs)
    verdict = judge(Evidence(check, None, None, seen, ()))
    assert is_over(check, seen) is (text is not None)
    if text is None:
        assert verdict.result is Result.VERIFIED
    else:
        assert verdict.reason == Reason("too-few-ran", f"the {phase} run passed, but {text}")


def test_a_clean_run_that_runs_fewer_tests_than_another_passes_only_sometimes() -> None:
    check = a_check()._replace(ran="(a)", repeat=2)
    clean = a_run(Phase.CLEAN, PASS)
    runs = (replace(clean, ran=1), replace(clean, ran=0))
    verdict = judge(Evidence(check, None, None, runs, ()))
    assert verdict.reason == Reason(
        "passes-only-sometimes",
        "it passes only sometimes: the clean run passed, but by its output 0 tests ran,"
        " and it must be 1 or more",
    )
