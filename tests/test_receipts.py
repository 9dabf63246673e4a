"""What is kept of every try (S39): written once, chained, and never a reason to believe anything."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import re
import signal
from typing import TYPE_CHECKING, Any

import pytest

from handshake import until_there
from roxy import __version__
from roxy.core.errors import DiskError, RestoreError
from roxy.core.events import RunStarted
from roxy.core.model import Check
from roxy.core.outcome import Phase
from roxy.core.receipts import ReceiptKeeper, past_seconds
from roxy.core.tries import Archive, check_digits

if TYPE_CHECKING:
    from pathlib import Path

    from project import Project

PASSES = "grep -q hello src/greeting.txt"
CHECK = Check(
    claim="greeting", name="text", run=PASSES, covers=("src/**",), mutations=("mutations/it.patch",)
)
FIELDS = [
    *("schema", "time", "commit", "dirty", "roxy", "check", "fingerprint", "files"),
    *("runs", "result", "reason", "notes", "previous"),
]


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def folder_of(project: Project) -> Path:
    return project.state / "receipts"


def names(project: Project) -> list[str]:
    return sorted(os.listdir(folder_of(project)))


def receipts(project: Project) -> list[dict[str, Any]]:
    """Return every receipt, oldest first; each must be what its name says."""
    found = []
    for name in names(project):
        data = (folder_of(project) / name).read_bytes()
        assert name.endswith(f"-{sha256(data)}.json")
        found.append(json.loads(data))
    return found


def plant(folder: Path, data: bytes, digits: str = "0" * 12, time: str = "20990101T000000") -> Path:
    """Put a receipt where roxy looks for them."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{time}.000000Z-{digits}-{sha256(data)}.json"
    path.write_bytes(data)
    return path


def forged(**changes: object) -> bytes:
    """Return a receipt for `CHECK` with fingerprint `FP`, but for some changes."""
    names = {"claim": "greeting", "check": "text", "run": "", "mutations": []}
    plain = {"schema": "roxy.receipt/1", "fingerprint": "sha256:FP", "result": "verified"}
    return json.dumps({**plain, "check": names, "files": {}, "runs": [{}], **changes}).encode()


# ------------------------------------------------------------------- what is in one


@pytest.mark.rule("S39")
def test_a_receipt_holds_all_that_was_seen_of_a_try(project: Project) -> None:
    project.greet("echo seen; grep -q hello src/greeting.txt")
    project.write(os.fsdecode(b"src/caf\xe9"), "")
    project.commit()
    project.write("src/greeting.txt", project.read("src/greeting.txt") + b"four\n")
    report = project.roxy("verify", "--json").json["checks"][0]
    (receipt,) = receipts(project)
    assert list(receipt) == FIELDS
    assert receipt["schema"] == "roxy.receipt/1"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", receipt["time"])
    assert receipt["commit"] == project.git("rev-parse", "HEAD").strip()
    assert receipt["dirty"] is True
    assert receipt["roxy"] == __version__
    assert receipt["check"] == {
        "claim": "greeting",
        "check": "text",
        "run": "echo seen; grep -q hello src/greeting.txt",
        "covers": ["src/**"],
        "mutations": [
            {"path": "mutations/it.patch", "sha256": sha256(project.read("mutations/it.patch"))}
        ],
    }
    assert receipt["fingerprint"] == report["fingerprint"]
    assert receipt["files"] == {
        "src/caf\udce9": sha256(b""),
        "src/greeting.txt": sha256(b"one\nhello\nthree\nfour\n"),
    }
    assert (receipt["result"], receipt["reason"], receipt["notes"]) == ("verified", None, [])
    assert receipt["previous"] is None
    assert [(run["phase"], run["exit"], run["signal"]) for run in receipt["runs"]] == [
        ("clean", 0, None),
        ("mutated", 1, None),
        ("restored", 0, None),
    ]
    for run in receipt["runs"]:
        log = (project.state / "logs" / run["log"]).read_bytes()
        assert log == b"seen\n"
        assert (run["log_size"], run["log_sha256"]) == (5, sha256(log))
        assert 0 <= run["seconds"] < 60


@pytest.mark.rule("S36", "S39")
@pytest.mark.parametrize(
    ("run", "code", "exits"),
    [
        ("exit 3", "clean-run-failed", [3]),
        ("true", "mutation-not-noticed", [0, 0]),
        (f"{PASSES}; code=$?; rm -f src/made; : >src/made; exit $code", "files-changed", [0, 1, 0]),
        ("kill -9 $$", "clean-run-failed", [None]),
    ],
)
def test_a_rejected_try_leaves_a_receipt_too(
    project: Project, run: str, code: str, exits: list[int | None]
) -> None:
    project.greet(run)
    assert project.roxy("verify").code == 1
    (receipt,) = receipts(project)
    assert (receipt["result"], receipt["reason"]["code"]) == ("rejected", code)
    assert [run["exit"] for run in receipt["runs"]] == exits
    assert [run["signal"] for run in receipt["runs"]] == [
        9 if one is None else None for one in exits
    ]
    assert (receipt["commit"], receipt["dirty"]) == (None, False)


@pytest.mark.rule("S18", "S39")
def test_a_mutation_that_does_not_fit_leaves_a_receipt_without_runs(project: Project) -> None:
    project.greet()
    project.write("src/greeting.txt", "something else\n")
    assert project.roxy("verify").code == 1
    (receipt,) = receipts(project)
    assert (receipt["result"], receipt["runs"]) == ("rejected", [])
    assert receipt["files"] == {"src/greeting.txt": sha256(b"something else\n")}


@pytest.mark.rule("S39")
def test_dirty_is_about_the_moment_before_the_first_run(project: Project) -> None:
    project.write("log", "")
    project.greet(f"echo line >>log; {PASSES}")
    project.commit()
    for expected in (False, True):
        assert project.roxy("verify", "--all").code == 0
        assert receipts(project)[-1]["dirty"] is expected


# ------------------------------------------------------------------- all of them


@pytest.mark.rule("S39")
def test_receipts_are_chained_and_never_rewritten(project: Project) -> None:
    project.greet()
    project.check("exit 1", claim="other", name="one")
    seen: dict[str, tuple[bytes, int, int]] = {}
    for expected in (2, 3, 5):
        project.roxy("verify", *(["--all"] if expected == 5 else []))
        now = {}
        for name in names(project):
            path = folder_of(project) / name
            stat = path.stat()
            now[name] = (path.read_bytes(), stat.st_ino, stat.st_mtime_ns)
        assert len(now) == expected
        assert {name: now[name] for name in seen} == seen
        seen = now
    order = names(project)
    assert [receipt["previous"] for receipt in receipts(project)] == [
        None,
        *(name.removesuffix(".json")[-64:] for name in order[:-1]),
    ]
    assert [receipt["check"]["claim"] for receipt in receipts(project)] == [
        *("greeting", "other", "other", "greeting", "other"),
    ]


@pytest.mark.rule("S39")
def test_verify_with_nothing_to_do_leaves_no_receipt(verified: Project) -> None:
    before = names(verified)
    assert verified.roxy("verify").code == 0
    assert verified.roxy("gate").code == 0
    assert names(verified) == before


@pytest.mark.rule("S39", "S5")
def test_each_worktree_keeps_its_own_receipts(verified: Project, tmp_path: Path) -> None:
    linked = type(verified)(tmp_path / "linked")
    verified.git("worktree", "add", "--quiet", str(linked.root))
    before = names(verified)
    assert linked.roxy("verify", "--all").code == 0
    assert names(verified) == before
    (receipt,) = receipts(linked)
    assert receipt["previous"] is None


# ------------------------------------------------------------------- the note of a start


@pytest.mark.rule("S39")
def test_a_note_lies_there_from_the_first_run_until_the_receipt_is_written(
    project: Project,
) -> None:
    project.greet(f"ls .git/roxy/receipts; {PASSES}")
    project.check(f"ls .git/roxy/receipts; {PASSES} # two", claim="other", name="one")
    assert project.roxy("verify").code == 0
    first, second = receipts(project)
    for number, receipt in enumerate((first, second)):
        logs = [(project.state / "logs" / run["log"]).read_text() for run in receipt["runs"]]
        assert len(set(logs)) == 1  # nothing there tells one run from another (S23)
        lines = logs[0].splitlines()
        assert len(lines) == number + 1
        assert re.fullmatch(r"started-[0-9T.]+Z-\d+\.json", lines[-1])
    assert len(names(project)) == 2


@pytest.mark.rule("S39")
def test_the_note_stays_when_verify_is_killed(project: Project, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "gate")
    project.greet(f": >'{tmp_path}/here'; read go <'{tmp_path}/gate'; {PASSES}")
    with project.started("verify") as process:
        until_there(tmp_path / "here")
        (name,) = names(project)
        note = json.loads((folder_of(project) / name).read_bytes())
        process.kill()
        process.wait()
    assert name.startswith("started-")
    assert note["check"] == "greeting/text"
    assert note["pid"] == process.pid
    assert project.roxy("status").code == 0
    project.write("roxy.toml", project.read("roxy.toml").replace(b"read go", b"# read go"))
    assert project.roxy("verify").code == 1
    kept, started = names(project)
    assert started == name
    assert json.loads((folder_of(project) / kept).read_bytes())["previous"] is None


@pytest.mark.rule("S32", "S39")
@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_verify_that_a_signal_ended_did_not_die_and_leaves_no_note(
    project: Project, signum: signal.Signals
) -> None:
    project.greet(f"ls .git/roxy/receipts >seen; kill -{signum.name[3:]} $PPID; sleep 86400")
    assert project.roxy("verify").code == 128 + signum
    assert project.read("seen").startswith(b"started-")
    assert names(project) == []
    doctor = project.roxy("doctor").out
    assert "never ended" not in doctor
    assert project.roxy("history").out == "no try yet\n"


@pytest.mark.rule("S33", "S39")
def test_the_note_stays_when_files_could_not_be_put_back(tmp_path: Path) -> None:
    def start(error: Exception) -> list[str]:
        keeper = ReceiptKeeper(tmp_path, lambda _: [b""], None, False, "1")
        with contextlib.suppress(type(error)), keeper:
            keeper(RunStarted(CHECK, Phase.CLEAN, 1, 3))
            raise error
        return os.listdir(tmp_path / "receipts")

    assert start(DiskError("full")) == []
    assert len(start(RestoreError("stuck"))) == 1


# ------------------------------------------------------------------- what is believed of them


@pytest.mark.rule("S1", "S39")
def test_no_receipt_makes_a_check_verified(verified: Project) -> None:
    (path,) = folder_of(verified).iterdir()
    receipt = json.loads(path.read_bytes())
    (verified.root / "roxy.lock").unlink()
    plant(folder_of(verified), json.dumps(receipt).encode(), receipt["fingerprint"][7:19])
    assert verified.states() == {"greeting/text": "unverified"}
    assert verified.roxy("gate").code == 1
    verified.write("src/greeting.txt", "other\n")
    assert verified.roxy("verify").code == 1
    assert verified.states() == {"greeting/text": "unverified"}


@pytest.mark.rule("S39", "S48")
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"not json",
        b"[]",
        b"{}",
        b"null",
        b"[" * 100_000,
        b"\xff\xfe",
        b'{"schema": "roxy.receipt/2"}',
        b'{"schema": "roxy.receipt/1"}',
        forged(check=[]),
        forged(check={}),
        forged(check={"claim": "greeting", "check": "text", "run": 1, "mutations": [2]}),
        forged(files=[]),
        forged(files={"a": "\ud800"}),
        forged(files={"\ud800": ""}),
        forged(runs=None),
        forged(runs=[{"seconds": "x"}]),
        forged(runs=[{"seconds": 10**400}]),
        forged(runs=[{"seconds": math.inf}]),
        forged(runs=[{"seconds": math.inf}, {"seconds": -math.inf}]),
    ],
)
def test_a_receipt_that_roxy_did_not_write_is_in_nobodys_way(tmp_path: Path, data: bytes) -> None:
    digits = "ab" * 32
    plant(tmp_path / "receipts", data.replace(b"FP", digits.encode()), digits[:12])
    assert Archive(tmp_path).evidence(CHECK, f"sha256:{digits}") is None
    assert Archive(tmp_path).last_of_each([CHECK]) == {}
    assert past_seconds(tmp_path, [CHECK]) == {}


@pytest.mark.rule("S39", "S48")
def test_a_planted_receipt_stops_no_command(verified: Project) -> None:
    evidence = json.loads(next(folder_of(verified).iterdir()).read_bytes())["fingerprint"]
    plant(folder_of(verified), b"[]", evidence[7:19])
    (folder_of(verified) / "20990101T000000.000000Z-none-x.json").mkdir()
    (folder_of(verified) / "9.json").write_text("{}")
    verified.write("src/greeting.txt", "hello\n")
    done = verified.roxy("status")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("stale greeting/text: `src/greeting.txt` changed\n")
    verified.write("src/greeting.txt", "one\nhello\nthree\n# more\n")
    assert verified.roxy("verify").code == 0


@pytest.mark.rule("S39")
@pytest.mark.parametrize("named", [True, False])
def test_evidence_is_the_receipt_of_this_check_and_this_fingerprint(
    tmp_path: Path, *, named: bool
) -> None:
    digits = "cd" * 32
    folder = tmp_path / "receipts"

    def a_receipt(
        claim: str,
        fingerprint: str,
        run: str,
        time: str = "20990101T000000",
        result: str = "verified",
    ) -> None:
        check = {"claim": claim, "check": "text", "run": run, "mutations": []}
        data = forged(
            fingerprint=fingerprint,
            check=check,
            files={"src/caf\udce9": "00"},
            runs=[],
            result=result,
        )
        about = f"{check_digits(f'{claim}/text')}-" if named else ""
        plant(folder, data, about + digits[:12], time)

    a_receipt("greeting", f"sha256:{digits}", "right", "20200101T000000")
    a_receipt("greeting", f"sha256:{digits}", "wrong", "20210101T000000", result="rejected")
    a_receipt("other", f"sha256:{digits}", "wrong")
    a_receipt("greeting", "sha256:" + digits[:12] + "0" * 52, "wrong")
    evidence = Archive(tmp_path).evidence(CHECK, f"sha256:{digits}")
    assert evidence is not None
    assert evidence.basis.run == "right"
    assert evidence.basis.files == {b"src/caf\xe9": "00"}
    assert Archive(tmp_path).evidence(CHECK, "sha256:" + "ef" * 32) is None
    assert Archive(tmp_path / "none").evidence(CHECK, f"sha256:{digits}") is None
