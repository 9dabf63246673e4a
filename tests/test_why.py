"""Why a check is not verified: told from receipts, and without them from git (S39)."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import time
from typing import TYPE_CHECKING, Any

import pytest

from inside import standing, stock
from project import in_zone
from roxy.core import contents, digest_cache, when
from roxy.core.digests import Digests
from roxy.core.interrupts import Interrupts
from roxy.core.model import Check, State
from roxy.core.tries import Archive, check_digits
from roxy.core.working_tree import Stamped, Tree

if TYPE_CHECKING:
    from pathlib import Path

    from project import Project

PASSES = "grep -q hello src/greeting.txt"
DAY = 86400
STATE_WORDS = re.compile(r"\b(verified|stale|unverified)\b")


def receipts(project: Project) -> list[Path]:
    return sorted((project.state / "receipts").glob("2*.json"))


def rewrite(path: Path, **changes: object) -> Path:
    """Make another receipt of this one, and give it the name that its bytes promise."""
    value = json.loads(path.read_bytes()) | changes
    data = json.dumps(value).encode()
    other = path.with_name(f"{path.name[:-69]}{hashlib.sha256(data).hexdigest()}.json")
    path.unlink()
    other.write_bytes(data)
    return other


def moment(days_ago: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - days_ago * DAY))


def reject(project: Project) -> None:
    """Have the check rejected because nobody notices the mutation."""
    project.write("roxy.toml", project.read("roxy.toml").replace(b"grep -q hello", b"grep -c o"))
    assert project.roxy("verify").code == 1


def reason(project: Project) -> Any:
    (entry,) = stock(project).report.entries
    assert entry.reason is not None
    assert not STATE_WORDS.search(entry.reason.text)
    return entry.reason


@pytest.fixture
def rejected(project: Project) -> Project:
    project.greet()
    reject(project)
    return project


# ------------------------------------------------------------------- no evidence


@pytest.mark.rule("S36")
def test_a_check_that_nobody_tried_was_never_run(project: Project) -> None:
    project.greet()
    assert standing(project) == (State.UNVERIFIED, "never run")
    project.commit()
    assert reason(project).code == "never-run"
    assert reason(project).details is None


@pytest.mark.rule("S36", "S39")
def test_a_rejection_is_told_with_its_day_and_what_changed_since(rejected: Project) -> None:
    assert reason(rejected).text == "rejected today, the mutation was not noticed"
    (path,) = receipts(rejected)
    path = rewrite(path, time=moment(1))
    found = reason(rejected)
    assert found.text == "rejected yesterday, the mutation was not noticed"
    assert (found.code, found.details.receipt) == ("rejected", path.name)
    rejected.write("src/greeting.txt", "hello\n")
    rejected.write("src/more.txt", "")
    found = reason(rejected)
    assert found.text == (
        "rejected yesterday, the mutation was not noticed;"
        " since then `src/greeting.txt` changed, `src/more.txt` added"
    )
    assert (found.details.changed, found.details.added) == (
        (b"src/greeting.txt",),
        (b"src/more.txt",),
    )
    document = rejected.roxy("gate", "--json").json["checks"][0]["reason"]
    assert document["code"] == "rejected"
    assert document["details"] == {
        "command_changed": False,
        "mutation_changed": False,
        "keys_changed": [],
        "changed": [{"path": "src/greeting.txt"}],
        "added": [{"path": "src/more.txt"}],
        "removed": [],
        "commit": None,
        "receipt": path.name,
        "time": json.loads(path.read_bytes())["time"],
    }


@pytest.mark.rule("S39")
def test_a_try_that_was_cut_short_is_told_unless_a_later_one_ended(rejected: Project) -> None:
    (path,) = receipts(rejected)
    note = {"schema": "roxy.receipt/1", "check": "greeting/text", "time": moment(3), "pid": 7}
    folder = path.parent
    (folder / "started-20000101T000000.000000Z-7.json").write_text(json.dumps(note))
    assert reason(rejected).code == "rejected"
    (folder / "started-20990101T000000.000000Z-7.json").write_text(json.dumps(note))
    assert reason(rejected).text == "its last try was cut short 3 days ago"
    assert reason(rejected).details.receipt == "started-20990101T000000.000000Z-7.json"
    for hostile in (b"", b"[]", b"{}", b'{"check": 1}'):
        (folder / "started-20990101T000000.000000Z-7.json").write_bytes(hostile)
        assert reason(rejected).code == "rejected"


@pytest.mark.rule("S1", "S36")
def test_a_lost_entry_of_roxy_lock_is_told_from_receipts_or_from_head(verified: Project) -> None:
    (verified.root / "roxy.lock").unlink()
    assert reason(verified).text == "proven today, but `roxy.lock` has no entry for it"
    verified.write("src/new.txt", "")
    assert reason(verified).text == (
        "proven today, but `roxy.lock` has no entry for it; since then `src/new.txt` added"
    )
    shutil.rmtree(verified.state / "receipts")
    assert reason(verified).text == "`roxy.lock` has no entry for it, though the one in HEAD has"
    assert reason(verified).code == "entry-gone"


@pytest.mark.rule("S36", "S39")
def test_evidence_for_this_very_code_is_told_before_a_later_rejection_of_other_bytes(
    verified: Project,
) -> None:
    files = {name: verified.read(name) for name in ("src/greeting.txt", "roxy.toml")}
    (proof,) = receipts(verified)
    reject(verified)
    assert reason(verified).code == "rejected"
    for name, data in files.items():
        verified.write(name, data)
    found = reason(verified)
    assert standing(verified)[0] is State.UNVERIFIED
    assert found.text == (
        "proven today, but `roxy.lock` has no entry for it; `roxy verify` makes it again"
    )
    assert (found.code, found.details.receipt) == ("entry-gone", proof.name)
    rewrite(proof, result="rejected")
    assert reason(verified).text.startswith("rejected today, the mutation was not noticed; since")


@pytest.mark.rule("S39", "S48")
def test_a_receipt_cannot_say_more_than_that_a_try_was_bad(rejected: Project) -> None:
    (path,) = receipts(rejected)
    path = rewrite(path, reason={"code": "x", "text": "y" * 9000})
    assert len(reason(rejected).text) < 400
    rewrite(path, result="verified")
    assert standing(rejected)[0] is State.UNVERIFIED


# ------------------------------------------------------------------- evidence for other code


@pytest.mark.rule("S34", "S39")
def test_stale_code_that_was_rejected_already_says_so(verified: Project) -> None:
    lock = verified.read("roxy.lock")
    reject(verified)
    verified.write("roxy.lock", lock)
    assert standing(verified) == (
        State.STALE,
        "its command changed; rejected today, the mutation was not noticed",
    )
    verified.write("src/greeting.txt", "hello\n")
    assert reason(verified).text == "its command changed, `src/greeting.txt` changed"


def edit(project: Project) -> None:
    """Change, remove and add covered files, tracked and not."""
    project.write("src/greeting.txt", "hello\n")
    (project.root / "src/old.txt").unlink()
    project.write("src/new.txt", "")
    project.git("add", "src/new.txt")
    project.write(os.fsdecode(b"src/\xff"), "")


def see(project: Project) -> None:
    """Keep what all covered files hold, as a `gate` does that comes a while after an edit."""
    tree = Tree(project.root)
    names = sorted(os.listdir(os.fsencode(project.root / "src")))
    files = Stamped.of(tree.stamps(b"src/" + name for name in names))
    digest_cache.save(project.state, contents.read(Digests(tree, Interrupts()), files))
    tree.close()


@pytest.mark.rule("S34", "S39")
def test_what_gate_saw_last_tells_the_same_as_the_receipt(project: Project) -> None:
    project.greet()
    project.write("src/old.txt", "")
    project.commit()
    assert project.roxy("verify").code == 0
    see(project)
    edit(project)
    seen = reason(project)
    (project.state / "digests").unlink()
    assert seen == reason(project)
    assert seen.details.receipt == receipts(project)[0].name


@pytest.mark.rule("S34", "S39")
@pytest.mark.parametrize("spoil", ["no receipts", "a damaged receipt", "a rejected try"])
def test_what_gate_saw_last_tells_nothing_that_is_not_told_without_it(
    verified: Project, spoil: str
) -> None:
    if spoil == "a rejected try":
        rewrite(receipts(verified)[0], result="rejected")
    elif spoil == "a damaged receipt":
        receipts(verified)[0].write_bytes(b"{}")
    else:
        shutil.rmtree(verified.state / "receipts")
    see(verified)
    verified.write("src/greeting.txt", "hello\n")
    first = reason(verified)
    assert first.text.startswith("`src/greeting.txt` changed since commit")
    see(verified)
    assert reason(verified) == first


@pytest.mark.rule("S34", "S39")
def test_without_receipts_git_tells_what_changed_since_the_lock_was_committed(
    project: Project,
) -> None:
    project.greet()
    project.write("src/old.txt", "")
    project.commit()
    assert project.roxy("verify").code == 0
    project.commit()
    first = project.git("rev-parse", "HEAD").strip()
    project.write("roxy.lock", project.read("roxy.lock") + b"\n")
    edit(project)
    project.git("add", "src")
    project.commit("the lock changes, not what it says of this check")
    shutil.rmtree(project.state / "receipts")
    found = reason(project)
    assert found.text == (
        "`src/greeting.txt` changed, `src/new.txt`, `src/\udcff` added,"
        f" `src/old.txt` removed since commit {first[:12]}"
    )
    assert found.details.commit == first
    assert found.details.added == (b"src/new.txt", b"src/\xff")
    assert (found.details.removed, found.details.receipt) == ((b"src/old.txt",), None)
    project.write("mutations/it.patch", project.read("mutations/it.patch") + b"\n")
    project.write("roxy.toml", project.read("roxy.toml").replace(b"grep -q", b"grep"))
    assert reason(project).text.startswith("its command changed, its mutation changed, `src/gr")


@pytest.mark.rule("S35", "S39")
def test_where_git_does_not_know_the_evidence_either_no_file_is_named(verified: Project) -> None:
    shutil.rmtree(verified.state / "receipts")
    lock = re.sub(rb"sha256:\w+", b"sha256:" + b"5" * 64, verified.read("roxy.lock"))
    verified.write("roxy.lock", lock)
    whatever = (State.STALE, "its files, its command or its mutation changed")
    assert standing(verified) == whatever
    shutil.rmtree(verified.root / ".git")
    verified.git("init", "--quiet")
    assert standing(verified) == whatever


@pytest.mark.rule("S7", "S49")
def test_git_runs_no_filter_to_tell_what_changed(verified: Project, tmp_path: Path) -> None:
    shutil.rmtree(verified.state / "receipts")
    marker = tmp_path / "ran"
    verified.git("config", "filter.spy.clean", f"touch {marker}; cat")
    verified.write(".gitattributes", "* filter=spy\n")
    verified.write("src/greeting.txt", "hello\n")
    assert "`src/greeting.txt` changed since commit" in reason(verified).text
    assert not marker.exists()


# ------------------------------------------------------------------- what it costs


@pytest.mark.rule("S39")
def test_few_receipts_are_read_however_many_there_are(tmp_path: Path) -> None:
    """Those that need not be read are damaged, so reading them would show."""
    folder = tmp_path / "receipts"
    folder.mkdir()
    checks = [Check("c", str(n), "true", ("**",), ("p",)) for n in range(20)]
    for number in range(400):
        digits = check_digits(f"other/{number % 7}")
        name = f"20260101T0000{number // 60:02}.{number:06}Z-{digits}-none-{'0' * 64}.json"
        (folder / name).write_text("{}")
    archive = Archive(tmp_path)
    assert archive.last_of_each(checks) == {}
    assert all(archive.evidence(check, "sha256:" + "5" * 64) is None for check in checks)
    assert archive.damaged == {}


@pytest.mark.rule("S38", "S39")
def test_gate_loads_nothing_about_the_past_when_all_is_verified(verified: Project) -> None:
    loaded = verified.roxy("gate", env={"PYTHONPROFILEIMPORTTIME": "1"}).err
    assert "roxy.core.stock" in loaded
    assert not re.search(r"roxy\.core\.(why|tries|receipts|lock_history)", loaded)


# ------------------------------------------------------------------- days


@pytest.mark.parametrize(
    ("then", "told"),
    [
        ("2026-03-10T23:30:00Z", "today"),
        ("2026-03-10T21:59:59Z", "yesterday"),
        ("2026-03-08T22:00:00Z", "2 days ago"),
        ("2026-01-31T12:00:00Z", "on 2026-01-31"),
        ("2026-03-12T12:00:00Z", "on 2026-03-12"),
        ("9999-99-99T99:99:99Z", "at 9999-99-99T99:99:99Z"),
    ],
)
def test_a_day_is_that_of_the_clock_on_the_wall(then: str, told: str) -> None:
    now = when.epoch("2026-03-11T00:10:00Z")
    assert now is not None
    with in_zone("XXX-2"):
        assert when.day(then, now) == told
        assert when.local("2026-03-10T23:30:00Z") == "2026-03-11 01:30:00"
