"""What `roxy history` and `roxy show` tell of the past, and what of it is pruned (S39)."""

from __future__ import annotations

import copy
import hashlib
import json
import os
import re
import time
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from project import Done, Project, in_zone
from roxy.cli.boundary import run
from roxy.core.lockfile import Lockfile
from roxy.core.pruning import KEPT_DAYS, KEPT_OF_A_CHECK, prune
from roxy.core.receipts import stamp
from roxy.core.tries import check_digits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Roxy = Callable[..., Done]

DAY = 86400
FINGERPRINT = "sha256:" + "5" * 64
UNSAFE = '\x1b[31m\u202e"\n'
LOG = "20260101T000000-00000000.log"
A_RUN = {
    "phase": "clean",
    "mutation": None,
    "exit": 0,
    "signal": None,
    "seconds": 0.25,
    "log": LOG,
    "log_size": 3,
    "log_sha256": "0" * 64,
}
A_RECEIPT: dict[str, Any] = {
    "schema": "roxy.receipt/1",
    "commit": "c0ffee" * 6,
    "dirty": True,
    "roxy": "0.1.0",
    "check": {
        "claim": "greeting",
        "check": "text",
        "run": "true",
        "covers": ["src/**"],
        "mutations": [{"path": "mutations/it.patch", "sha256": "1" * 64}],
    },
    "fingerprint": FINGERPRINT,
    "files": {"src/greeting.txt": "2" * 64},
    "runs": [A_RUN],
    "result": "verified",
    "reason": None,
    "notes": [],
    "previous": "9" * 64,
}
REJECTED = {"result": "rejected", "reason": {"code": "clean-run-failed", "text": "it failed"}}


def plant(state: Path, days_ago: float, now: float | None = None, **changes: Any) -> Path:
    """Put a receipt where roxy keeps them, under the name that it would have."""
    value = copy.deepcopy(A_RECEIPT) | changes
    names = (value["check"]["claim"], value["check"]["check"])
    data = json.dumps(value).encode()
    digits = (value["fingerprint"] or "sha256:none")[7:19]
    now = time.time() if now is None else now
    when = stamp(round((now - days_ago * DAY) * 1_000_000_000))
    sha256 = hashlib.sha256(data).hexdigest()
    path = state / "receipts" / f"{when}-{check_digits('/'.join(names))}-{digits}-{sha256}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def of_check(name: str) -> dict[str, Any]:
    return {"check": A_RECEIPT["check"] | {"check": name}}


def note(state: Path, days_ago: float, check: str) -> Path:
    """Put the note of a start there, as a verify that dies leaves it."""
    when = stamp(round((time.time() - days_ago * DAY) * 1_000_000_000))
    path = state / "receipts" / f"started-{when}-77.json"
    value = {"check": check, "time": "2026-01-02T03:04:05Z", "pid": 77}
    path.write_text(json.dumps(value))
    return path


def sha_of(path: Path) -> str:
    return path.name[-69:-5]


@pytest.fixture
def roxy(project: Project, capfd: pytest.CaptureFixture[str]) -> Roxy:
    """Return what runs roxy on the project in this very process."""

    def call(*arguments: str) -> Done:
        capfd.readouterr()
        code = run(["-C", str(project.root), *arguments], os.environ)
        return Done(code, *capfd.readouterr())

    return call


def document(done: Done, name: str) -> dict[str, Any]:
    """Return the document that was printed, if it is what its schema says and no more."""
    schema = json.loads(resources.files("roxy").joinpath("schemas", name).read_text("utf-8"))
    jsonschema.Draft7Validator.check_schema(schema)
    jsonschema.Draft7Validator(closed(schema)).validate(done.json)
    assert done.out.isascii()
    return done.json


def closed(schema: Any) -> Any:
    if isinstance(schema, list):
        return [closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {key: closed(value) for key, value in schema.items()}
    return inner | {"additionalProperties": False} if "required" in schema else inner


# ------------------------------------------------------------------- history


@pytest.mark.rule("S39", "S45")
def test_history_lists_tries_newest_first_and_the_share_that_was_verified(
    project: Project, roxy: Roxy
) -> None:
    project.greet()
    assert roxy("history").out == "no try yet\n"
    rejected = {**REJECTED, "commit": None, "dirty": False, "runs": []}
    good = plant(project.state, 3)
    note(project.state, 2, "greeting/text")
    bad = plant(project.state, 1, **rejected, **of_check("gone"))
    done = roxy("history")
    day = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d ", re.MULTILINE)
    assert day.sub("", done.out) == (
        f"{sha_of(bad)[:8]} -------  rejected greeting/gone (no run): it failed\n"
        "-------- -------  cut short greeting/text: roxy (pid 77) ended before it could judge\n"
        f"{sha_of(good)[:8]} c0ffeec+ verified greeting/text (0.2 s)\n"
        "3 tries: 1 rejected, 1 cut short, 1 verified; 33% verified\n"
    )
    assert (done.code, done.err) == (0, "")
    value = document(roxy("history", "--json"), "history.json")
    assert [one["result"] for one in value["tries"]] == ["rejected", None, "verified"]
    assert [one["pid"] for one in value["tries"]] == [None, 77, None]
    assert value["tries"][1]["time"] == "2026-01-02T03:04:05Z"
    assert value["counts"] == {
        "tries": 3,
        "results": {"verified": 1, "rejected": 1, "blocked": 0},
        "cut_short": 1,
    }
    assert value["share_verified"] == 0.3333
    assert "verified greeting/text" not in roxy("history", "-q").out


@pytest.mark.rule("S39", "S44")
def test_history_takes_names_of_checks_that_are_or_were(project: Project, roxy: Roxy) -> None:
    project.greet()
    for number in range(30):
        plant(project.state, number + 1, **of_check("gone" if number % 3 else "text"))
    assert len(roxy("history").out.splitlines()) == 21
    assert len(roxy("history", "-n", "4").out.splitlines()) == 5
    assert len(roxy("history", "-n", "99", "greeting").out.splitlines()) == 31
    for name in ("greeting/gone", "*/go*"):
        lines = roxy("history", name).out.splitlines()
        assert lines[-1] == "20 tries: 20 verified; 100% verified"
        assert all("greeting/gone" in line for line in lines[:-1])
    done = roxy("history", "greting")
    assert done.code == 2
    assert "did you mean `greeting`?" in done.err
    assert roxy("history", "-n", "0").code == 2


@pytest.mark.rule("S39", "S48")
def test_history_names_damaged_receipts_and_a_pruned_beginning_is_none(
    project: Project, roxy: Roxy
) -> None:
    project.write("roxy.toml", "not even toml")
    whole = plant(project.state, 3)
    cut = plant(project.state, 2, roxy="2")
    cut.write_bytes(cut.read_bytes()[:-1])
    other = plant(project.state, 1, schema="roxy.receipt/9")
    pipe = plant(project.state, 0.5, roxy="3")
    pipe.unlink()
    os.mkfifo(pipe)
    done = roxy("history")
    assert (done.code, len(done.out.splitlines())) == (0, 2)
    assert sha_of(whole)[:8] in done.out
    assert sorted(done.err.splitlines()) == sorted(
        [
            f"warning: `{cut.name}` is damaged: its bytes are not those that its name promises",
            f"warning: `{other.name}` was written by another roxy",
            f"warning: `{pipe.name}` is a FIFO",
        ]
    )
    value = document(roxy("history", "--json"), "history.json")
    assert {one["receipt"] for one in value["damaged"]} == {cut.name, other.name, pipe.name}


# ------------------------------------------------------------------- show: a check


@pytest.mark.rule("S20", "S39")
def test_show_tells_all_about_a_check(verified: Project, roxy: Roxy) -> None:
    verified.write("src/more/a.txt", "")
    verified.write("src/greeting.txt", "zero\none\nhello\nthree\n")
    patch = verified.read("mutations/it.patch").replace(b"@@ -1,3 +1,3 @@", b"@@ -1,3 +1,3 @@ x")
    verified.write("mutations/it.patch", patch)
    before = verified.snapshot()
    done = roxy("show", "greeting/text")
    log = re.search(r"\S+/roxy/logs/\S+\.log", done.out)
    assert log is not None
    assert Path(log[0]).exists()
    lines = done.out.replace(log[0], "LOG").splitlines()
    moved = "moved 1 line down in `src/greeting.txt`"
    assert lines[0] == (
        "stale greeting/text: its mutation changed, `src/greeting.txt` changed,"
        " `src/more/a.txt` added"
    )
    assert lines[:15] == [
        lines[0],
        "  run: grep -q hello src/greeting.txt",
        "  covers: src/** (2 files)",
        f"  mutation: mutations/it.patch ({moved}), in the code as it is:",
        "    --- a/src/greeting.txt",
        "    +++ b/src/greeting.txt",
        "    @@ -1,4 +1,4 @@",
        "     zero",
        "     one",
        "    -hello",
        "    +howdy",
        "     three",
        *lines[12:14],
        "  last tries:",
    ]
    assert re.fullmatch(r"    [-\d]+ [:\d]+ \w{8} \w{7}  verified greeting/text \(.*\)", lines[15])
    assert [re.sub(r"[\d.]+ s$", "N s", line) for line in lines[16:]] == [
        "      clean run passed after N s",
        "      mutated run failed with exit code 1 after N s",
        "      restored run passed after N s",
        "  the mutated run printed, in LOG:",
        "  (it printed nothing)",
    ]
    assert (done.code, done.err) == (0, "")
    assert "    src/more/a.txt\n" in roxy("show", "-v").out
    colored = roxy("show", "greeting", "--color", "always").out
    assert "\x1b[31m-hello\x1b[0m\n    \x1b[32m+howdy\x1b[0m" in colored
    value = document(roxy("show", "--json"), "show.json")
    (check,) = value["checks"]
    assert check["mutations"][0]["notes"] == [moved]
    assert check["reason"]["details"]["added"] == [{"path": "src/more/a.txt"}]
    assert check["covers"][0]["files"] == [{"path": "src/greeting.txt"}, {"path": "src/more/a.txt"}]
    assert check["output"]["lines"] == []
    assert verified.snapshot() == before
    Path(log[0]).write_text("something else")
    assert roxy("show").out.endswith("  (its log is gone)\n")


@pytest.mark.rule("S18", "S19")
@pytest.mark.parametrize(
    ("patch", "why"),
    [
        (
            None,
            "`mutations/it.patch` does not fit: its lines are not in `src/greeting.txt` any more",
        ),
        ("rubbish\n", "git cannot read `mutations/it.patch`: it holds no patch;"),
    ],
)
def test_show_tells_why_a_mutation_does_not_fit(
    project: Project, roxy: Roxy, patch: str | None, why: str
) -> None:
    project.greet()
    project.write("src/greeting.txt", "bye\n")
    if patch is not None:
        project.write("mutations/it.patch", patch)
    done = roxy("show")
    assert done.code == 0
    assert done.out.splitlines()[3].startswith(f"  mutation: {why}")
    first = project.read("mutations/it.patch").decode().splitlines()[0]
    assert f"; as it was written:\n    {first}\n" in done.out
    assert "last tries: none on this machine\n" in done.out
    assert document(roxy("show", "--json"), "show.json")["checks"][0]["mutations"][0]["misfit"]


@pytest.mark.rule("S17", "S31", "S44")
def test_show_takes_several_checks_and_binary_files(project: Project, roxy: Roxy) -> None:
    project.greet()
    project.write("src/data.bin", b"\0one")
    project.git("add", "--all")
    project.write("src/data.bin", b"\0two")
    project.write("mutations/bin.patch", project.git("diff", "--binary"))
    project.write("src/data.bin", b"\0one")
    project.check("true", name="two", mutation=("mutations/bin.patch", "mutations/it.patch"))
    done = roxy("show", "greeting", "-q")
    one, two = done.out.split("\n\n")
    assert one.startswith("unverified greeting/text: never run\n")
    assert two.startswith("unverified greeting/two: never run\n")
    assert "(fits), in the code as it is:\n    Binary file src/data.bin\n" in two
    assert "    +howdy\n" in two
    assert roxy("show", "nope").err.startswith("error: no claim, check or receipt is called `nope`")


def test_show_without_a_claim_is_the_error_that_status_tells(project: Project, roxy: Roxy) -> None:
    project.write("roxy.toml", "# nothing yet\n")
    done = roxy("show")
    assert (done.code, done.out, done.err) == (2, "", roxy("status").err)
    assert "no claim is declared" in done.err


@pytest.mark.rule("S40", "S41", "S42")
def test_show_tells_every_optional_key_that_is_set(project: Project, roxy: Roxy) -> None:
    project.write("data/a", "")
    keys = (
        "inputs = ['data/*']\nfails-with = 'no \\w+'\nran = '(\\d+) ran'\nat-least = 3\n"
        "needs = ['true', 'test -d src']\nenv = { TZ = 'UTC', A = 'b' }\ntimeout = '1.5m'\n"
        "repeat = 2\nstrict = true\n"
    )
    project.greet(keys=keys)
    shown = roxy("show").out.splitlines()
    start = shown.index("  inputs: data/* (1 file)")
    assert sorted(shown[start : start + 11]) == [
        "  at-least: 3",
        "  env: A=b",
        "  env: TZ=UTC",
        "  fails-with: no \\w+",
        "  inputs: data/* (1 file)",
        "  needs: test -d src",
        "  needs: true",
        "  ran: (\\d+) ran",
        "  repeat: 2",
        "  strict: true",
        "  timeout: 90s",
    ]
    (check,) = document(roxy("show", "--json"), "show.json")["checks"]
    assert check["inputs"] == [{"glob": "data/*", "files": [{"path": "data/a"}]}]
    assert check["options"] == {
        "fails-with": "no \\w+",
        "ran": "(\\d+) ran",
        "at-least": 3,
        "needs": ["true", "test -d src"],
        "env": {"A": "b", "TZ": "UTC"},
        "timeout": 90,
        "repeat": 2,
        "strict": True,
    }


# ------------------------------------------------------------------- show: receipts


@pytest.mark.rule("S39", "S44")
def test_show_finds_a_receipt_by_file_name_hash_and_time(project: Project, roxy: Roxy) -> None:
    project.write("roxy.toml", "not even toml")
    now = time.time()
    check = A_RECEIPT["check"] | {"k": 7}
    path = plant(project.state, 40, now, notes=["mind the step"], check=check)
    plant(project.state, 41, **REJECTED)
    utc = path.name[:8]
    with in_zone("XXX-5"):
        local = time.strftime("%Y-%m-%d %H:%M", time.localtime(now - 40 * DAY))
        shown = roxy("show", path.name).out
        assert f"  receipt: {path.name}\n" in roxy("show", shown.splitlines()[2][8:]).out
    assert shown.splitlines() == [
        "verified greeting/text",
        f"  receipt: {path.name}",
        shown.splitlines()[2],
        f"  commit: {'c0ffee' * 6}, with changes",
        "  roxy: 0.1.0",
        "  run: true",
        "  k: 7",
        "  mutation: mutations/it.patch (11111111)",
        f"  fingerprint: {FINGERPRINT}",
        "  covers: src/** (1 file)",
        "  clean run passed after 0.2 s",
        "  note: mind the step",
        f"  the clean run printed, in {project.state}/logs/{LOG}:",
        "  (its log is gone)",
    ]
    assert shown.splitlines()[2].startswith(f"  time: {local}")
    for word in (path.name[:-5], f".git/roxy/receipts/{path.name}", sha_of(path)[:10]):
        assert roxy("show", word).out.splitlines()[1] == f"  receipt: {path.name}"
    for word in (utc, f"{utc[:4]}-{utc[4:6]}-{utc[6:]}"):
        assert f"  receipt: {path.name}\n" in roxy("show", word).out
    assert "    22222222 src/greeting.txt\n" in roxy("show", path.name, "-v").out
    plant(project.state, 40, now, roxy="2")
    assert roxy("show", utc).err == (
        f"error: `{utc}` means 2 receipts\nhint: give more of its time or its hash\n"
    )
    (receipt,) = document(roxy("show", path.name, "--json"), "show.json")["receipts"]
    assert receipt["files"] == [{"path": "src/greeting.txt", "sha256": "2" * 64}]


@pytest.mark.rule("S39")
def test_show_tells_what_differs_between_two_receipts(project: Project, roxy: Roxy) -> None:
    project.greet()
    one = plant(project.state, 2, files={"a": "1", "b": "1", "c\udcff": "1"})
    check = A_RECEIPT["check"] | {
        "run": "true\nfalse",
        "covers": ["**"],
        "timeout": "1m",
        "mutations": [{"path": "mutations/it.patch", "sha256": "3" * 64}],
    }
    files = {"a": "1", "b": "2", "d": "1"}
    two = plant(project.state, 1, **REJECTED, check=check, files=files)
    done = roxy("show", sha_of(one)[:8], sha_of(two)[:8])
    assert done.out.splitlines()[2:] == [
        "  command:",
        "    -true",
        "    +true\\u000afalse",
        "  mutation: `mutations/it.patch` changed",
        "  covers in roxy.toml: otherwise",
        "  timeout in roxy.toml: otherwise",
        "  files: `b` changed, `d` added, `c\\xff` removed",
        "  result: verified, then rejected",
        "  seconds: 0.2 s, then 0.2 s",
    ]
    assert "  removed: c\\xff\n" in roxy("show", "-v", sha_of(one), sha_of(two)).out
    contrast = document(roxy("show", "--json", one.name, two.name), "show.json")["contrast"]
    assert contrast["keys_changed"] == ["covers", "timeout"]
    assert contrast["removed"] == [{"path": "c\\xff", "path_bytes": "63ff"}]
    same = roxy("show", one.name, one.name).out
    assert "  command, mutation and files: the same\n" in same
    for words, what in (
        ((one.name, "greeting"), "checks and receipts are not shown together"),
        ((one.name, two.name, one.name), "at most two receipts can be shown"),
    ):
        done = roxy("show", *words)
        assert done.code == 2
        assert what in done.err
    one.write_text("{}")
    assert "is damaged" in roxy("show", one.name).err


@pytest.mark.rule("S15", "S46")
def test_what_a_receipt_says_does_nothing_to_a_terminal(project: Project, roxy: Roxy) -> None:
    project.greet()
    hostile = {
        "commit": UNSAFE,
        "roxy": UNSAFE,
        "result": UNSAFE,
        "notes": [UNSAFE],
        "reason": {"code": UNSAFE, "text": UNSAFE},
        "files": {UNSAFE: UNSAFE},
        "check": {
            "claim": UNSAFE,
            "check": UNSAFE,
            "run": UNSAFE,
            "covers": [UNSAFE],
            UNSAFE: UNSAFE,
            "mutations": [{"path": UNSAFE, "sha256": UNSAFE}],
        },
        "runs": [A_RUN | {"phase": UNSAFE, "mutation": UNSAFE, "log_sha256": UNSAFE}],
    }
    one, two = plant(project.state, 2, **hostile), plant(project.state, 1)
    for words in (["history"], ["show", "-v", one.name], ["show", one.name, two.name]):
        done = roxy(*words)
        assert done.code == 0
        assert done.out.replace("\n", "").isprintable()
        assert document(roxy(*words, "--json"), f"{words[0]}.json")


# ------------------------------------------------------------------- pruning


def receipts_left(state: Path) -> set[str]:
    return set(os.listdir(state / "receipts"))


def names(paths: Iterable[Path]) -> set[str]:
    return {path.name for path in paths}


def a_log(state: Path, days_ago: float, number: int) -> str:
    then = time.time() - days_ago * DAY
    stamp = time.strftime("%Y%m%dT%H%M%S", time.localtime(then))
    path = state / "logs" / f"{stamp}-{number:08x}.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("log")
    os.utime(path, (then, then))
    return path.name


@pytest.mark.rule("S39")
def test_a_receipt_goes_when_it_is_old_and_many_of_its_check_are_newer(tmp_path: Path) -> None:
    young = KEPT_DAYS - 0.1
    recent = [plant(tmp_path, young - n, fingerprint=None, roxy=str(n)) for n in range(10)]
    old = [plant(tmp_path, KEPT_DAYS + 1 + n, fingerprint=None, roxy=str(n)) for n in range(60)]
    others = [plant(tmp_path, 300 + n, **of_check("other")) for n in range(KEPT_OF_A_CHECK)]
    in_use = plant(tmp_path, 500)
    started = note(tmp_path, 900, "greeting/text")
    strange = tmp_path / "receipts" / "19990101T000000.000000Z-notes.json"
    strange.write_text("{}")
    unnamed = in_use.with_name(re.sub("Z-[0-9a-f]{8}-", "Z-", in_use.name))
    unnamed.write_bytes(in_use.read_bytes())
    prune(tmp_path, Lockfile({("greeting", "text"): FINGERPRINT}), time.time())
    kept = names(
        [*recent, *old[: KEPT_OF_A_CHECK - 10], *others, in_use, started, strange, unnamed]
    )
    assert receipts_left(tmp_path) == kept
    prune(tmp_path, Lockfile(), time.time())
    assert receipts_left(tmp_path) == kept - names([in_use, unnamed])


@pytest.mark.rule("S39")
def test_a_log_goes_when_it_is_old_and_no_receipt_names_it(tmp_path: Path) -> None:
    runs = [A_RUN | {"log": a_log(tmp_path, 200, 1)}]
    plant(tmp_path, 200, runs=runs)
    damaged = a_log(tmp_path, 200, 2)
    cut = plant(tmp_path, 200, runs=[A_RUN | {"log": damaged}])
    cut.write_bytes(cut.read_bytes()[:-9])
    just_named = a_log(tmp_path, KEPT_DAYS + 5, 3)
    plant(tmp_path, KEPT_DAYS - 1, runs=[A_RUN | {"log": just_named}])
    a_log(tmp_path, 200, 4)
    touched = a_log(tmp_path, 200, 5)
    os.utime(tmp_path / "logs" / touched)
    (tmp_path / "logs" / "notes.txt").write_text("")
    os.utime(tmp_path / "logs" / "notes.txt", (0, 0))
    prune(tmp_path, Lockfile(), time.time())
    left = {runs[0]["log"], damaged, just_named, touched, "notes.txt"}
    assert set(os.listdir(tmp_path / "logs")) == left
    cut.unlink()
    os.mkfifo(cut)
    prune(tmp_path, Lockfile(), time.time())  # what that one names is not known
    assert set(os.listdir(tmp_path / "logs")) == left
    cut.unlink()
    prune(tmp_path, Lockfile(), time.time())
    assert set(os.listdir(tmp_path / "logs")) == left - {damaged}


@pytest.mark.rule("S29", "S39", "S50")
@pytest.mark.parametrize("options", [(), ("--all", "--locked")])
def test_verify_prunes_at_its_end_and_never_what_is_kept(
    project: Project, roxy: Roxy, options: tuple[str, ...]
) -> None:
    project.greet()
    old = [plant(project.state, 200 + n, fingerprint=None, roxy=str(n)) for n in range(51)]
    log = a_log(project.state, 200, 1)
    kept = project.state / "kept" / "19990101-edit"
    kept.parent.mkdir()
    kept.write_text("mine")
    os.utime(kept, (0, 0))
    assert project.roxy("verify", *options).code == len(options) // 2
    left = receipts_left(project.state)
    assert names(old[:49]) < left
    assert names(old[49:]).isdisjoint(left)
    assert len(left) == KEPT_OF_A_CHECK
    assert not (project.state / "logs" / log).exists()
    assert kept.read_text() == "mine"
    assert roxy("history", "-n", "99").err == ""
