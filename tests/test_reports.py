"""What people and programs read. Golden files are renewed by `ROXY_UPDATE_GOLDEN=1 pytest`."""

from __future__ import annotations

import json
import os
import re
import signal
import unicodedata
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roxy.cli import exit_codes
from roxy.core.errors import Fault
from roxy.core.model import Check, Entry, Reason, Report, Result, State
from roxy.core.outcome import Kept, Outcome, Phase, Run
from roxy.reports import human
from roxy.reports import json as json_report
from roxy.reports.text import decoded, path_text, printable, without_surrogates

if TYPE_CHECKING:
    from collections.abc import Sequence

GOLDEN = Path(__file__).parent / "golden"
UPDATES_GOLDEN = os.environ.get("ROXY_UPDATE_GOLDEN") == "1"
FINGERPRINT = "sha256:" + "5" * 64
HOSTILE = '\x1b[31m "it\'s"\n[red]\u202e\udcff\x7f\u2028'
SGR = re.compile("\x1b\\[[0-9;]*m")


def a_check(claim: str = "login", name: str = "web") -> Check:
    return Check(
        claim=claim, name=name, run="bun test", covers=("src/**",), mutations=("m/skip.patch",)
    )


def a_run(phase: Phase = Phase.CLEAN, *, log: str = "/repo/.git/roxy/logs/1", **facts: Any) -> Run:
    values = {
        "mutation": None if phase is Phase.CLEAN else "m/skip.patch",
        "exit": 1 if phase is Phase.MUTATED else 0,
        "signal": None,
        "seconds": 1.23456,
        "log_size": 42,
        "log_sha256": "a" * 64,
    }
    return Run(phase=phase, log=Path(log), **(values | facts))


def an_outcome(
    check: Check | None = None, result: Result = Result.VERIFIED, **facts: Any
) -> Outcome:
    values: dict[str, Any] = {
        "reason": None,
        "runs": tuple(a_run(phase) for phase in Phase),
        "fingerprint": FINGERPRINT,
    }
    if result is Result.BLOCKED:
        values |= {"reason": Reason("need-not-met", "it needs `pg_isready`"), "runs": ()}
    elif result is Result.REJECTED:
        failed = a_run(exit=1)
        values |= {
            "reason": Reason("clean-run-failed", "the clean run exited with 1"),
            "runs": (failed,),
            "failed_run": failed,
        }
    return Outcome(check=check or a_check(), result=result, **(values | facts))


def an_entry(
    check: Check | None = None,
    state: State = State.VERIFIED,
    outcome: Outcome | None = None,
    reason: Reason | None = None,
) -> Entry:
    if reason is None and state is not State.VERIFIED:
        reason = Reason("changed", f"a reason to be in the state number {list(State).index(state)}")
    return Entry(check=check or a_check(), state=state, reason=reason, outcome=outcome)


def tried(check: Check, result: Result = Result.VERIFIED, **facts: Any) -> Entry:
    outcome = an_outcome(check, result, **facts)
    state = State.VERIFIED if result is Result.VERIFIED else State.UNVERIFIED
    return an_entry(check, state, outcome, outcome.reason)


def a_report(*entries: Entry, **facts: Any) -> Report:
    values: dict[str, Any] = {
        "descriptions": {entry.check.claim: "A user can sign in" for entry in entries}
    }
    return Report(entries=entries, **(values | facts))


WEB, IOS, UPLOAD = a_check(), a_check(name="ios"), a_check("upload", "cli")

REPORTS = {
    "all-verified": a_report(an_entry(WEB), an_entry(IOS), an_entry(UPLOAD)),
    "one-verified": a_report(an_entry(WEB), descriptions={"login": None}),
    "every-state": a_report(
        *(an_entry(a_check(name=f"number-{n}"), state) for n, state in enumerate(State)),
        interrupted=1,
    ),
    "tried": a_report(
        tried(WEB, notes=("the mutated run exited with 127: command not found",)),
        tried(IOS, Result.REJECTED),
        an_entry(UPLOAD),
        an_entry(a_check("upload", "web"), State.UNVERIFIED),
    ),
    "blocked": a_report(tried(WEB, Result.BLOCKED)),
    "rejected-without-a-run": a_report(
        tried(
            WEB,
            Result.REJECTED,
            runs=(),
            failed_run=None,
            fingerprint=None,
            reason=Reason("misfit", "its mutation does not apply to src/a.py"),
        )
    ),
    "ended-by-a-signal": a_report(
        tried(WEB, runs=(a_run(), a_run(Phase.MUTATED, exit=None, signal=9), a_run(Phase.RESTORED)))
    ),
    "edited-meanwhile": a_report(
        tried(WEB, kept=(Kept(b"src/a\xff b.py", Path("/repo/.git/roxy/kept/1")),))
    ),
    "interrupted": a_report(tried(WEB), an_entry(IOS, State.STALE), interrupted=15),
    "interrupted-at-once": a_report(
        an_entry(WEB), an_entry(IOS, State.STALE), descriptions={}, interrupted=2
    ),
    "edited-after-a-kill": a_report(
        an_entry(WEB), kept=(Kept(b"src/a\xff b.py", Path("/repo/.git/roxy/kept/1")),)
    ),
    "lock-agrees": a_report(tried(WEB), lock_differences=()),
    "lock-differs": a_report(
        tried(WEB), tried(IOS), lock_differences=("`login/ios` is missing", f"`{HOSTILE}` is extra")
    ),
    "hostile": a_report(
        an_entry(a_check(HOSTILE, HOSTILE), State.STALE, reason=Reason("changed", HOSTILE)),
        tried(
            a_check(HOSTILE, "[bold]"),
            Result.REJECTED,
            reason=Reason("misfit", HOSTILE),
            failed_run=a_run(log=HOSTILE),
            runs=(a_run(log=HOSTILE, mutation=HOSTILE),),
            notes=(HOSTILE,),
            kept=(Kept(HOSTILE.encode("utf-8", "surrogateescape"), Path(HOSTILE)),),
        ),
        descriptions={HOSTILE: HOSTILE},
    ),
}
LOG_LINES = (b"\x1b[1mFAIL\x1b[0m [red]\tsrc/a.py", b"", b"\xff\x00 ends here")

every_report = pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS)


def transcript(report: Report, *, quiet: bool = False, color: bool = False) -> str:
    """All that `verify` prints about `report`, standard error after standard output."""
    outcomes = [entry.outcome for entry in report.entries if entry.outcome is not None]
    return "".join(
        [
            *(human.ended(one, LOG_LINES, quiet=quiet, color=color) for one in outcomes),
            human.closing(report, named=False, quiet=quiet),
            *(human.warnings(one, color=color) for one in outcomes),
        ]
    )


def texts_for_people(report: Report, *, color: bool = False) -> list[str]:
    return [human.standings(report, quiet=False, color=color), transcript(report, color=color)]


def assert_golden(name: str, text: str) -> None:
    path = GOLDEN / name
    if UPDATES_GOLDEN:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8", newline="")
    assert text == path.read_bytes().decode("utf-8")


def schema(name: str) -> dict[str, Any]:
    text = resources.files("roxy").joinpath("schemas", name).read_text("utf-8")
    value: dict[str, Any] = json.loads(text)
    return value


def closed(schema: Any) -> Any:
    """The same schema, but a member that it does not name is an error."""
    if isinstance(schema, list):
        return [closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {key: closed(value) for key, value in schema.items()}
    return inner | {"additionalProperties": False} if "required" in schema else inner


def objects(value: Any) -> list[dict[str, Any]]:
    if isinstance(value, dict):
        return [value, *(found for item in value.values() for found in objects(item))]
    if isinstance(value, list):
        return [found for item in value for found in objects(item)]
    return []


# Golden files: the whole text of each format.


@pytest.mark.rule("S45")
@pytest.mark.parametrize("name", REPORTS)
def test_status_prints_a_line_for_each_check_and_a_count(name: str) -> None:
    text = human.standings(REPORTS[name], quiet=False, color=False)
    assert_golden(f"{name}.status.txt", text)


@pytest.mark.rule("S45")
@pytest.mark.parametrize("name", REPORTS)
def test_verify_prints_results_with_quoted_output_and_a_count(name: str) -> None:
    assert_golden(f"{name}.verify.txt", transcript(REPORTS[name]))


@pytest.mark.rule("S47")
@pytest.mark.parametrize("name", REPORTS)
def test_json_prints_one_document(name: str) -> None:
    assert_golden(f"{name}.json", json_report.document(REPORTS[name]))


@pytest.mark.rule("S45", "S47")
def test_no_golden_file_is_left_over() -> None:
    kinds = ("status.txt", "verify.txt", "json")
    expected = {f"{name}.{kind}" for name in REPORTS for kind in kinds}
    assert {path.name for path in GOLDEN.iterdir()} == expected


# For people.


@pytest.mark.rule("S45")
@pytest.mark.parametrize("state", State)
def test_every_state_stands_first_on_its_line(state: State) -> None:
    report = a_report(an_entry(state=state))
    first, count = human.standings(report, quiet=False, color=False).splitlines()
    assert first.startswith(f"{state} login/web")
    assert count == f"1 check: 1 {state}"


@pytest.mark.rule("S45")
@pytest.mark.parametrize("result", Result)
def test_every_result_stands_first_on_its_line(result: Result) -> None:
    report = a_report(tried(WEB, result))
    lines = transcript(report).splitlines()
    assert lines[0].startswith(f"{result} login/web")
    assert lines[-1] == f"1 {result}"


@pytest.mark.rule("S46")
@pytest.mark.parametrize("word", [*State, *Result])
def test_color_marks_every_word(word: State | Result) -> None:
    entry = an_entry(state=word) if isinstance(word, State) else tried(WEB, word)
    assert any(f"m{word}\x1b[0m" in text for text in texts_for_people(a_report(entry), color=True))


@pytest.mark.rule("S46")
@every_report
def test_color_adds_nothing_but_escape_codes(report: Report) -> None:
    plain = texts_for_people(report)
    assert [SGR.sub("", text) for text in texts_for_people(report, color=True)] == plain


@pytest.mark.rule("S15", "S46")
@every_report
def test_text_for_people_holds_nothing_that_acts_on_a_terminal(report: Report) -> None:
    for text in texts_for_people(report):
        assert {unicodedata.category(char) for char in text.replace("\n", "")}.isdisjoint(
            {"Cc", "Cf", "Cs", "Zl", "Zp"}
        )


@pytest.mark.rule("S45", "S46")
def test_a_hostile_name_stays_on_one_line() -> None:
    text = human.standings(REPORTS["hostile"], quiet=False, color=False)
    assert len(text.splitlines()) == len(REPORTS["hostile"].entries) + 1


@pytest.mark.rule("S46")
@every_report
def test_quiet_status_prints_exactly_the_checks_that_are_not_verified(report: Report) -> None:
    loud = human.standings(report, quiet=False, color=False).splitlines()[:-1]
    quiet = human.standings(report, quiet=True, color=False).splitlines()
    assert quiet == [line for line in loud if not line.startswith("verified ")]


@pytest.mark.rule("S46")
def test_quiet_verify_prints_nothing_when_all_is_verified() -> None:
    assert human.ended(an_outcome(), None, quiet=True, color=False) == ""
    assert human.closing(a_report(tried(WEB)), named=False, quiet=True) == ""
    assert human.closing(REPORTS["all-verified"], named=False, quiet=True) == ""


@pytest.mark.rule("S46", "S50")
def test_quiet_verify_still_prints_rejections_and_lock_differences() -> None:
    rejected = an_outcome(result=Result.REJECTED)
    assert human.ended(rejected, LOG_LINES, quiet=True, color=False) == human.ended(
        rejected, LOG_LINES, quiet=False, color=False
    )
    assert "`login/ios` is missing" in human.closing(
        REPORTS["lock-differs"], named=False, quiet=True
    )


def quoted(lines: Sequence[bytes] | None) -> list[str]:
    text = human.ended(an_outcome(result=Result.REJECTED), lines, quiet=False, color=False)
    _, *body, log = text.splitlines()
    assert log == "  log: /repo/.git/roxy/logs/1"
    return body


@pytest.mark.rule("S45")
def test_a_rejection_quotes_the_last_twenty_lines() -> None:
    assert quoted([b"%d" % n for n in range(99)]) == [f"  | {n}" for n in range(79, 99)]


@pytest.mark.rule("S45")
def test_a_rejection_says_when_there_is_nothing_to_quote() -> None:
    assert quoted([]) == ["  (it printed nothing)"]
    assert quoted(None) == ["  (its log is gone)"]


@pytest.mark.rule("S45")
def test_a_quoted_line_is_cut_and_says_how_much_is_missing() -> None:
    assert quoted([b"x" * 1000]) == ["  | " + "x" * 400 + " ... (600 more characters)"]
    assert quoted([b"x" * 400]) == ["  | " + "x" * 400]


@pytest.mark.rule("S45", "S46")
def test_a_quoted_line_keeps_its_tabs_as_spaces_and_shows_other_controls() -> None:
    assert quoted([b"a\tb\r\x07\xfe"]) == ["  | a       b\\u000d\\u0007\\xfe"]


@pytest.mark.rule("S44")
@pytest.mark.parametrize(
    ("count", "named", "why"),
    [
        (1, False, "the only check is verified"),
        (1, True, "the named check is verified"),
        (3, False, "all 3 checks are verified"),
        (3, True, "all 3 named checks are verified"),
    ],
)
def test_verify_says_that_there_is_nothing_to_do(count: int, *, named: bool, why: str) -> None:
    report = a_report(*[an_entry()] * count)
    assert human.closing(report, named=named, quiet=False) == f"nothing to do: {why}\n"


@pytest.mark.rule("S32")
@pytest.mark.parametrize(
    ("signum", "unreached", "at_work", "text"),
    [
        (2, 3, None, "interrupted by SIGINT; 3 checks were not reached\n"),
        (15, 1, None, "interrupted by SIGTERM; 1 check was not reached\n"),
        (1, 0, None, "interrupted by SIGHUP; 0 checks were not reached\n"),
        (2, None, None, "interrupted by SIGINT\n"),
        (250, None, None, "interrupted by signal 250\n"),
        (
            *(2, 2, human.AtWork("a/b", 2, 3)),
            "interrupted by SIGINT in `a/b`, run 2 of 3; 2 checks were not reached\n",
        ),
        (2, 1, human.AtWork("a/b"), "interrupted by SIGINT in `a/b`; 1 check was not reached\n"),
        (2, 0, human.AtWork("a/\x1b", 1, 3), "interrupted by SIGINT in `a/\\u001b`, run 1 of 3\n"),
    ],
)
def test_an_interruption_names_the_signal_what_it_cut_off_and_what_was_not_reached(
    signum: int, unreached: int | None, at_work: human.AtWork | None, text: str
) -> None:
    assert human.interruption(signum, unreached, at_work) == text


@pytest.mark.rule("S32", "S45")
def test_an_interrupted_verify_of_all_calls_nothing_verified_that_it_did_not_try() -> None:
    report = a_report(an_entry(WEB), an_entry(IOS, State.STALE), interrupted=2)
    for everything, left in ((False, "1 already verified, 1 still stale"), (True, "1 still stale")):
        text = human.closing(report, named=False, quiet=False, everything=everything)
        assert text == f"nothing was finished; {left}\n"


@pytest.mark.rule("S48")
def test_errors_say_what_happened_and_where_and_what_to_do() -> None:
    faults = [
        Fault("unknown key `mutaton`", "roxy.toml:7:1, check `login/web`", "did you mean `x`?"),
        Fault("`git` is not on PATH"),
    ]
    assert human.errors(faults, color=False) == (
        "error: unknown key `mutaton`\n"
        "  at roxy.toml:7:1, check `login/web`\n"
        "hint: did you mean `x`?\n"
        "\n"
        "error: `git` is not on PATH\n"
    )


@pytest.mark.rule("S46", "S48")
def test_errors_are_one_line_each_whatever_they_name() -> None:
    text = human.errors([Fault(HOSTILE, HOSTILE, HOSTILE)], color=False)
    assert len(text.split("\n")) == 3 + 1
    assert text.replace("\n", "").isprintable()


# Escaping.


@pytest.mark.rule("S15", "S46")
@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("na\u00efve \u540d \N{GRINNING FACE} [red] \\", None),
        ("\x1b[31m", "\\u001b[31m"),
        ("a\nb\tc", "a\\u000ab\\u0009c"),
        ("\u202eexe.txt", "\\u202eexe.txt"),
        ("\u2028\u2029", "\\u2028\\u2029"),
        ("\u200b\ufeff\x85", "\\u200b\\ufeff\\u0085"),
        ("\U000e0041", "\\U000e0041"),
        (decoded(b"caf\xe9"), "caf\\xe9"),
        ("\ud800", "\\ud800"),
    ],
)
def test_printable_escapes_what_acts_and_keeps_what_is_seen(raw: str, shown: str | None) -> None:
    assert printable(raw) == (raw if shown is None else shown)


@pytest.mark.rule("S46")
@given(st.text(st.characters(exclude_categories=())))
def test_printable_is_safe_and_changes_nothing_twice(text: str) -> None:
    shown = printable(text)
    assert {unicodedata.category(char) for char in shown}.isdisjoint({"Cc", "Cf", "Cs", "Zl", "Zp"})
    assert printable(shown) == shown
    shown.encode("utf-8")


@pytest.mark.rule("S15")
@given(st.binary())
def test_text_without_surrogates_is_utf8_and_true_to_names_that_are(raw: bytes) -> None:
    text = without_surrogates(path_text(raw))
    try:
        assert raw.decode("utf-8") == text
    except UnicodeDecodeError:
        text.encode("utf-8")


# For programs.


@pytest.mark.rule("S47")
@pytest.mark.parametrize("name", ["report.json", "error.json", "try.json", "refresh.json"])
def test_schemas_are_draft_7(name: str) -> None:
    jsonschema.Draft7Validator.check_schema(schema(name))


@pytest.mark.rule("S47")
@every_report
def test_json_is_what_the_schema_says_and_no_more(report: Report) -> None:
    value = json.loads(json_report.document(report))
    jsonschema.Draft7Validator(closed(schema("report.json"))).validate(value)


@pytest.mark.rule("S47")
def test_the_schema_knows_every_word() -> None:
    definitions = schema("report.json")["definitions"]
    check = definitions["check"]["properties"]
    counts = schema("report.json")["properties"]["counts"]["properties"]
    assert check["state"]["enum"] == list(State)
    assert check["result"]["enum"] == [*Result, None]
    assert definitions["run"]["properties"]["phase"]["enum"] == list(Phase)
    assert counts["states"]["required"] == list(State)
    assert counts["results"]["required"] == list(Result)


@pytest.mark.rule("S46", "S47")
@every_report
def test_json_is_printable_ascii(report: Report) -> None:
    text = json_report.document(report)
    assert text.isascii()
    assert text.replace("\n", "").isprintable()


@pytest.mark.rule("S47")
@every_report
def test_json_holds_no_lone_surrogate(report: Report) -> None:
    json.dumps(json.loads(json_report.document(report)), ensure_ascii=False).encode("utf-8")


@pytest.mark.rule("S15", "S47")
def test_json_gives_the_bytes_of_a_path_that_is_not_utf8() -> None:
    report = REPORTS["edited-meanwhile"]
    (kept,) = json.loads(json_report.document(report))["checks"][0]["kept"]
    assert kept["path"] == "src/a\\xff b.py"
    assert bytes.fromhex(kept["path_bytes"]) == b"src/a\xff b.py"
    assert "place_bytes" not in kept


@pytest.mark.rule("S47")
def test_json_gives_names_as_they_are() -> None:
    name = "na\u00efve\u202e\x1b\x7f"
    value = json.loads(json_report.document(a_report(an_entry(a_check(name, name)))))
    assert (value["checks"][0]["claim"], value["checks"][0]["check"]) == (name, name)


@pytest.mark.rule("S47")
def test_json_counts_every_state_and_result_also_those_that_are_absent() -> None:
    counts = json.loads(json_report.document(REPORTS["tried"]))["counts"]
    assert counts == {
        "checks": 4,
        "states": {"verified": 2, "stale": 0, "unverified": 2},
        "results": {"verified": 1, "rejected": 1, "blocked": 0},
    }


@pytest.mark.rule("S47")
def test_json_error_document_is_what_the_schema_says_and_no_more() -> None:
    text = json_report.error_document([Fault("what"), Fault(HOSTILE, HOSTILE, HOSTILE)])
    value = json.loads(text)
    jsonschema.Draft7Validator(closed(schema("error.json"))).validate(value)
    assert value["errors"][0] == {"what": "what", "where": None, "hint": None}
    assert text.isascii()


@pytest.mark.rule("S47")
def test_closing_a_schema_leaves_no_object_open() -> None:
    for name in ("report.json", "error.json"):
        for one in objects(closed(schema(name))):
            assert one.get("type") != "object" or one["additionalProperties"] is False


# For shells: the number that stands for a report.


@pytest.mark.rule("S43")
@pytest.mark.parametrize("state", State)
def test_gate_says_yes_only_if_every_check_is_verified(state: State) -> None:
    code = exit_codes.of_gate(a_report(an_entry(), an_entry(state=state), an_entry()))
    assert code == (0 if state is State.VERIFIED else 1)


@pytest.mark.rule("S43")
@pytest.mark.parametrize("state", State)
def test_status_is_content_with_any_state(state: State) -> None:
    assert exit_codes.of_status(a_report(an_entry(state=state))) == 0


@pytest.mark.rule("S43")
@pytest.mark.parametrize("result", Result)
def test_verify_says_no_if_anything_it_tried_is_not_verified(result: Result) -> None:
    code = exit_codes.of_verify(a_report(tried(WEB, result)))
    assert code == (0 if result is Result.VERIFIED else 1)


@pytest.mark.rule("S43")
def test_verify_does_not_judge_what_it_did_not_try() -> None:
    assert exit_codes.of_verify(a_report(an_entry(state=State.STALE))) == 0


@pytest.mark.rule("S50")
def test_verify_locked_says_no_if_the_lock_differs() -> None:
    assert exit_codes.of_verify(REPORTS["lock-agrees"]) == 0
    assert exit_codes.of_verify(REPORTS["lock-differs"]) == 1


@pytest.mark.rule("S32", "S43")
@pytest.mark.parametrize(
    ("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_has_its_own_code(signum: int, code: int) -> None:
    assert exit_codes.of_signal(signum) == code
    rejected = a_report(tried(WEB, Result.REJECTED), interrupted=signum)
    assert exit_codes.of_verify(rejected) == code
