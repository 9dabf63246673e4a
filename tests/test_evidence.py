"""Evidence from end to end: what is recorded, what voids it, what it survives (S1, S26, S35-S37, S50)."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tomllib
from typing import TYPE_CHECKING, Any

import pytest

import stranger
from handshake import until_there
from project import HANG, LONG_AGO, Project

if TYPE_CHECKING:
    from pathlib import Path

PASSES = "grep -q hello src/greeting.txt"
POINTER = "hint: run `roxy verify --all`, which writes it anew\n"
OLD = "sha256:" + "0" * 64


def recorded(project: Project) -> dict[str, str]:
    """Return what roxy.lock says, by `claim/check`."""
    claims = tomllib.loads(project.read("roxy.lock").decode()).get("claims", {})
    return {
        f"{claim}/{check}": one for claim, some in claims.items() for check, one in some.items()
    }


def the_receipt(project: Project) -> dict[str, Any]:
    """Return the newest receipt."""
    names = sorted(name for name in os.listdir(project.state / "receipts") if name[0].isdigit())
    value: dict[str, Any] = json.loads((project.state / "receipts" / names[-1]).read_bytes())
    return value


def facts(root: Path, *but: str) -> dict[str, tuple[object, ...]]:
    """Return all that lstat tells of everything in a tree but `.git` and the paths in `but`."""
    found = {}
    for folder, names, files in os.walk(root):
        names[:] = [name for name in names if name != ".git"]
        for path in (folder, *(os.path.join(folder, name) for name in files)):
            seen = os.lstat(path)
            found[os.path.relpath(path, root)] = (
                *(seen.st_mode, seen.st_ino, seen.st_nlink, seen.st_uid, seen.st_gid),
                *(seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns),
            )
    return {path: one for path, one in found.items() if path not in but}


def two_files(project: Project, run: str = PASSES) -> None:
    """Make a project with a check that covers a file besides the one that is mutated."""
    project.greet(run)
    os.utime(project.write("src/other.txt", "one\nother\n"), (LONG_AGO, LONG_AGO))


class EveryRun:
    """Shell code that counts the runs of a check, and meets the test in one of them."""

    def __init__(self, folder: Path, run: int) -> None:
        self.here, self._gate, count = folder / "here", folder / "gate", folder / "count"
        os.mkfifo(self._gate)
        count.write_text("")
        self.code = (
            f"echo >>'{count}'; if [ $(wc -l <'{count}') = {run} ];"
            f" then : >'{self.here}'; read go <'{self._gate}'; fi; "
        )

    def let_go(self) -> None:
        self._gate.write_text("go\n")


def when_git_is_asked(
    folder: Path, word: str, time: int, action: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Do something at the very moment at which git is asked something for the n-th time."""
    wrapper, count = folder / "bin/git", folder / f"asked {word}"
    wrapper.parent.mkdir()
    wrapper.write_text(
        "#!/bin/sh\n"
        f'case " $* " in *" {word} "*)\n'
        f"  echo >>'{count}'\n"
        f"  if [ $(wc -l <'{count}') = {time} ]; then {action}; fi;;\n"
        "esac\n"
        f"exec '{shutil.which('git')}' \"$@\"\n"
    )
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{wrapper.parent}{os.pathsep}{os.environ['PATH']}")


# ------------------------------------------------------------------- nothing else is believed


@pytest.mark.rule("S1")
def test_words_on_the_output_and_the_environment_are_no_evidence(project: Project) -> None:
    project.greet("echo verified greeting/text; echo '1 verified'; exit 1")
    env = {"ROXY_VERIFIED": "1", "ROXY_ASSUME_YES": "1", "ROXY_SKIP": "1", "CI": "1"}
    done = project.roxy("verify", env=env)
    assert done.code == 1
    assert done.out.startswith("rejected greeting/text: the clean run failed with exit code 1\n")
    assert recorded(project) == {}
    assert project.roxy("gate", env=env).code == 1


@pytest.mark.rule("S1", "S22")
@pytest.mark.parametrize(
    ("run", "code", "phases"),
    [
        ("exit 1", "clean-run-failed", ["clean"]),
        ("true", "mutation-not-noticed", ["clean", "mutated"]),
        (
            (
                "test -e .git/roxy/seen && exit 1; grep -q hello src/greeting.txt || "
                "{ : >.git/roxy/seen; exit 1; }"
            ),
            "restored-run-failed",
            ["clean", "mutated", "restored"],
        ),
    ],
)
def test_nothing_is_recorded_without_all_three_runs(
    project: Project, run: str, code: str, phases: list[str]
) -> None:
    project.greet(run)
    done = project.roxy("verify", "--json")
    assert done.code == 1
    (check,) = done.json["checks"]
    assert check["reason"]["code"] == code
    assert [one["phase"] for one in check["runs"]] == phases
    assert recorded(project) == {}
    assert project.read("src/greeting.txt") == b"one\nhello\nthree\n"


@pytest.mark.rule("S1", "S36")
@pytest.mark.parametrize("arguments", [("--all",), ("greeting",), ("--all", "--locked")])
def test_a_check_cannot_record_evidence_for_another(
    project: Project, arguments: tuple[str, ...]
) -> None:
    project.greet(f"cp .git/forged roxy.lock; {PASSES}")
    project.check("exit 1", claim="other", name="one")
    fingerprint = project.roxy("verify", "other", "--json").json["checks"][0]["fingerprint"]
    lock = project.read("roxy.lock")
    project.write(".git/forged", f'version = 1\n[claims.other]\none = "{fingerprint}"\n')
    done = project.roxy("verify", *arguments)
    if "--locked" in arguments:
        assert done.code == 1
        assert "roxy.lock: missing entry `greeting/text`" in done.out
        project.write("roxy.lock", lock)
    else:
        assert list(recorded(project)) == ["greeting/text"]
    assert project.states()["other/one"] == "unverified"


# ------------------------------------------------------------------- untouched means untouched


@pytest.mark.rule("S26")
@pytest.mark.parametrize(
    ("touch", "after"),
    [
        ("cp src/other.txt $T/o; cat $T/o >src/other.txt", "one\nother\n"),  # the same bytes
        ("cp src/other.txt $T/o; mv $T/o src/other.txt", "one\nother\n"),
        ("cp -p src/other.txt $T/o; mv $T/o src/other.txt", "one\nother\n"),  # its time too
        ("sed -i s/o/O/ src/other.txt; sed -i s/O/o/ src/other.txt", "one\nother\n"),
        ("echo good >src/other.txt; printf 'one\\nother\\n' >src/other.txt", "one\nother\n"),
        ("touch src/other.txt", "one\nother\n"),
        ("touch -d 2001-02-03 src/other.txt", "one\nother\n"),
        ("echo more >>src/other.txt", None),
        ("rm -f src/other.txt", "gone"),
        ("rm -rf src/other.txt; mkdir src/other.txt", "folder"),
        ("mv src/other.txt $T/o; ln -s $T/o src/other.txt; true", "link"),
    ],
)
def test_a_check_that_touches_what_it_covers_is_rejected_and_its_edit_stays(
    project: Project, tmp_path: Path, touch: str, after: str | None
) -> None:
    two_files(project, f"T='{tmp_path}'; {touch}; {PASSES}")
    done = project.roxy("verify")
    assert done.code == 1
    assert done.out.startswith(
        "rejected greeting/text: covered files changed while it ran: `src/other.txt`\n"
    )
    assert recorded(project) == {}
    other = project.root / "src/other.txt"
    kinds = {"gone": not other.exists(), "folder": other.is_dir(), "link": other.is_symlink()}
    if after in kinds:
        assert kinds[after]
    else:
        assert other.read_text() == (after or "one\nother\nmore\n")
    assert project.read("src/greeting.txt") == b"one\nhello\nthree\n"


@pytest.mark.rule("S26")
@pytest.mark.parametrize("run", [1, 2, 3])
def test_good_code_that_is_swapped_in_for_one_run_and_out_again_is_no_evidence(
    project: Project, tmp_path: Path, run: int
) -> None:
    every = EveryRun(tmp_path, 99)
    swap = "cp src/other.txt $T/bad; echo good >src/other.txt; "
    swap += f"{PASSES}; code=$?; cp $T/bad src/other.txt; exit $code"
    two_files(
        project,
        f"T='{tmp_path}'; {every.code} if [ $(wc -l <$T/count) = {run} ]; then {swap}; fi; {PASSES}",
    )
    done = project.roxy("verify", "--json")
    assert done.code == 1
    assert done.json["checks"][0]["reason"]["code"] == "files-changed"
    assert len(done.json["checks"][0]["runs"]) == run  # what cannot prove anything is not run
    assert recorded(project) == {}


@pytest.mark.rule("S26")
@pytest.mark.parametrize("kind", ["added", "empty", "in a new folder", "hidden", "unignored"])
def test_a_check_that_adds_a_covered_file_is_rejected(project: Project, kind: str) -> None:
    made = {
        "added": "echo new >src/new.txt",
        "empty": ": >src/new.txt",
        "in a new folder": "mkdir -p src/new; echo new >src/new/new.txt",
        "hidden": "echo new >src/.new.txt",
        "unignored": "rm -f .gitignore",
    }
    if kind == "unignored":
        project.write(".gitignore", "new.txt\n")
        project.write("src/new.txt", "new\n")
    project.greet(f"{made[kind]}; {PASSES}")
    done = project.roxy("verify")
    assert done.code == 1
    assert "covered files changed while it ran: `src/" in done.out
    assert "new.txt`" in done.out
    assert recorded(project) == {}
    assert [path.name for path in project.root.glob("src/**/*new.txt")]


@pytest.mark.rule("S12", "S26")
def test_a_check_may_add_files_that_do_not_count(project: Project) -> None:
    project.write(".gitignore", "*.log\n")
    project.greet(f"date >src/x.log; date >out.txt; ln -sf x.log src/link; {PASSES}")
    assert project.roxy("verify").code == 0
    assert project.roxy("gate").code == 0


@pytest.mark.rule("S26", "S39")
@pytest.mark.parametrize(
    "touch",
    [
        "chmod 600 src/other.txt",
        "chmod 755 src/other.txt src/greeting.txt",
        "ln -f src/other.txt $T/hard",
        "ln -f src/other.txt $T/hard; rm $T/hard",
    ],
)
def test_a_new_ctime_alone_is_told_and_noted_and_decides_nothing(
    project: Project, tmp_path: Path, touch: str
) -> None:
    two_files(project, f"T='{tmp_path}'; {touch}; {PASSES}")
    done = project.roxy("verify")
    assert done.code == 0
    assert done.out == "verified greeting/text\n1 verified\n"
    assert "warning: greeting/text: `src/other.txt` has a new ctime" in done.err
    assert any("`src/other.txt` has a new ctime" in note for note in the_receipt(project)["notes"])
    assert project.roxy("gate").code == 0


@pytest.mark.rule("S26", "S39")
@pytest.mark.parametrize(
    "swap",
    [
        "cp -p src/other.txt $T/o; echo good >src/other.txt; cp -p $T/o src/other.txt",
        "mv src/other.txt $T/o; echo good >src/other.txt; mv $T/o src/other.txt",
        "cp -p src/other.txt $T/t; sed -n p $T/t >src/other.txt; touch -r $T/t src/other.txt",
    ],
)
def test_a_swap_that_leaves_only_a_new_ctime_is_never_silent(
    project: Project, tmp_path: Path, swap: str
) -> None:
    two_files(project, f"T='{tmp_path}'; {swap}; {PASSES}")
    done = project.roxy("verify")
    assert "`src/other.txt`" in done.out + done.err
    assert "src/other.txt" in json.dumps(the_receipt(project)["notes"])


@pytest.mark.rule("S26")
@pytest.mark.parametrize("by", ["somebody", "somebody who puts it back"])
@pytest.mark.parametrize("run", [1, 2, 3])
def test_an_edit_during_any_run_is_kept_and_not_recorded(
    project: Project, tmp_path: Path, run: int, by: str
) -> None:
    every = EveryRun(tmp_path, run)
    two_files(project, every.code + PASSES)
    edit = b"one\nother\n" if "back" in by else b"edited\n"
    with project.started("verify") as process:
        until_there(every.here)
        project.write("src/other.txt", b"for a moment\n")
        project.write("src/other.txt", edit)
        every.let_go()
        out, _ = process.communicate(timeout=HANG)
    assert process.returncode == 1
    assert b"covered files changed while it ran: `src/other.txt`\n" in out
    assert project.read("src/other.txt") == edit
    assert project.read("src/greeting.txt") == b"one\nhello\nthree\n"
    assert recorded(project) == {}


@pytest.mark.rule("S26", "S28", "S29")
@pytest.mark.parametrize("run", [1, 2, 3])
def test_an_edit_of_the_mutated_file_during_any_run_is_kept_and_not_recorded(
    project: Project, tmp_path: Path, run: int
) -> None:
    every = EveryRun(tmp_path, run)
    two_files(project, every.code + PASSES)
    edit = b"one\nhello\nedited\n"
    with project.started("verify") as process:
        until_there(every.here)
        project.write("src/greeting.txt", edit)
        every.let_go()
        out, err = process.communicate(timeout=HANG)
    assert process.returncode == 1
    assert b"covered files changed while it ran: `src/greeting.txt`\n" in out
    assert recorded(project) == {}
    if run == 2:  # it was mutated code that was edited
        assert project.read("src/greeting.txt") == b"one\nhello\nthree\n"
        (kept,) = (project.state / "kept").iterdir()
        assert kept.read_bytes() == edit
        assert os.fsencode(kept) in err
    else:
        assert project.read("src/greeting.txt") == edit


@pytest.mark.rule("S26", "S28")
@pytest.mark.parametrize("path", ["src/other.txt", "src/greeting.txt"])
@pytest.mark.parametrize(
    ("word", "time"),
    [
        ("ls-files", 4),  # between the last run and the last look
        ("apply", 2),  # after the files were read, while the mutation is fitted
    ],
)
def test_an_edit_between_reading_and_running_is_kept_and_not_recorded(
    project: Project,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    word: str,
    time: int,
) -> None:
    two_files(project)
    edit = project.read(path) + b"edited\n"
    (tmp_path / "edit").write_bytes(edit)
    action = f"cp '{tmp_path}/edit' '{project.root}/{path}'"
    when_git_is_asked(tmp_path, word, time, action, monkeypatch)
    done = project.roxy("verify")
    assert done.code == 1
    assert f"covered files changed while it ran: `{path}`\n" in done.out
    assert project.read(path) == edit
    assert recorded(project) == {}


SWAPPED_WHILE_READ = """
import sys
import roxy.core.verify
from roxy.cli.main import main
from roxy.core.workspace import Workspace

class SwappedWhileRead(Workspace):
    was_read = False

    def digests(self, paths):
        found = super().digests(paths)
        if not SwappedWhileRead.was_read:
            SwappedWhileRead.was_read = True
            with open("src/other.txt", "w") as file:
                file.write("good\\n")
        return found

roxy.core.verify.Workspace = SwappedWhileRead
sys.argv = ["roxy", "verify"]
main()
"""


@pytest.mark.rule("S26")
def test_good_code_that_comes_right_after_reading_and_goes_right_before_is_no_evidence(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    two_files(project, f"grep -q good src/other.txt && {PASSES}")
    action = f"printf 'one\\nother\\n' >'{project.root}/src/other.txt'"
    when_git_is_asked(tmp_path, "ls-files", 4, action, monkeypatch)
    done = subprocess.run(
        [sys.executable, "-c", SWAPPED_WHILE_READ], cwd=project.root, check=False, timeout=HANG
    )
    assert project.read("src/other.txt") == b"one\nother\n"
    assert done.returncode == 1
    assert recorded(project) == {}


@pytest.mark.rule("S26", "S34")
def test_a_check_that_edits_what_only_another_covers_voids_only_that(project: Project) -> None:
    project.write("lib/state.txt", "0\n")
    project.greet(f"echo more >>lib/state.txt; {PASSES}")
    project.check(PASSES, claim="other", name="one", covers=("src/**", "lib/**"))
    done = project.roxy("verify", "other")
    assert done.code == 0
    assert project.roxy("verify").code == 0
    assert project.states() == {"greeting/text": "verified", "other/one": "stale"}


# ------------------------------------------------------------------- roxy.lock


def claims_of(project: Project, *claims: str) -> None:
    """Declare checks on one file, one for each claim."""
    project.greet()
    (project.root / "roxy.toml").unlink()
    for claim in claims:
        project.check(f"{PASSES} # {claim}", claim=claim)


@pytest.mark.slow
@pytest.mark.rule("S35")
def test_two_clones_record_the_same_bytes(project: Project, tmp_path: Path) -> None:
    claims_of(project, "zebra", "a b", "Apple", "é")
    project.commit()
    locks = []
    for name, order in (("one", ["é", "zebra"]), ("two\n 2", ["a b", "Apple"])):
        clone = Project(tmp_path / name / "clone")
        project.git("clone", "--quiet", str(project.root), str(clone.root))
        for claim in order:
            assert clone.roxy("verify", claim).code == 0
        assert clone.roxy("verify", env={"TZ": "Asia/Tokyo", "LC_ALL": "C"}).code == 0
        locks.append(clone.read("roxy.lock"))
    assert locks[0] == locks[1]
    lines = locks[0].decode().splitlines()
    assert lines[0].startswith("# Written by `roxy verify`")
    assert lines[1] == "version = 1"
    tables = [line for line in lines if line.startswith("[")]
    assert tables == ["[claims.Apple]", '[claims."a b"]', "[claims.zebra]", '[claims."é"]']


@pytest.mark.rule("S35")
def test_roxy_lock_is_written_only_when_its_bytes_change_and_keeps_its_mode(
    verified: Project,
) -> None:
    lock = verified.root / "roxy.lock"
    lock.chmod(0o640)
    before = (lock.read_bytes(), lock.stat())
    assert verified.roxy("verify").code == 0
    assert verified.roxy("verify", "--all").code == 0
    assert (lock.read_bytes(), lock.stat().st_mtime_ns) == (before[0], before[1].st_mtime_ns)
    assert lock.stat().st_ino == before[1].st_ino
    verified.write("src/greeting.txt", "one\nhello\nthree\n\n")
    assert verified.roxy("verify").code == 0
    assert lock.read_bytes() != before[0]
    assert lock.stat().st_mode == before[1].st_mode
    assert sorted(path.name for path in verified.root.iterdir()) == [
        *(".git", "mutations", "roxy.lock", "roxy.toml", "src"),
    ]


@pytest.mark.rule("S32", "S35", "S36")
def test_what_was_proven_is_recorded_at_once_and_what_was_not_reached_stays(
    project: Project, tmp_path: Path
) -> None:
    claims_of(project, "one", "two", "three", "gone")
    assert project.roxy("verify").code == 0
    before = recorded(project)
    (project.root / "roxy.toml").unlink()
    gate = EveryRun(tmp_path, 1)
    project.check(f"{PASSES} # changed", claim="one")
    project.check(f"{gate.code}{PASSES}", claim="two")
    project.check(f"{PASSES} # three", claim="three")
    with project.started("verify", "--all") as process:
        until_there(gate.here)
        now = recorded(project)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=HANG)
    assert process.returncode == 130
    assert now["one/text"] != before["one/text"]
    assert {name: one for name, one in now.items() if name != "one/text"} == {
        name: before[name] for name in ("two/text", "three/text")
    }
    assert recorded(project) == now


@pytest.mark.rule("S36")
def test_a_rejected_check_loses_its_entry_and_the_others_stay(project: Project) -> None:
    claims_of(project, "one", "two", "three")
    assert project.roxy("verify").code == 0
    before = recorded(project)
    manifest = project.read("roxy.toml").decode()
    project.write("roxy.toml", manifest.replace(f"{PASSES} # two", "exit 1"))
    assert project.roxy("verify").code == 1
    assert recorded(project) == {name: before[name] for name in ("one/text", "three/text")}
    project.write("roxy.toml", manifest)
    assert project.states() == {
        "one/text": "verified",
        "two/text": "unverified",
        "three/text": "verified",
    }


@pytest.mark.rule("S36")
@pytest.mark.parametrize("arguments", [(), ("one",), ("--all",)])
def test_entries_of_checks_that_are_gone_are_dropped(
    project: Project, arguments: tuple[str, ...]
) -> None:
    claims_of(project, "one", "two")
    assert project.roxy("verify").code == 0
    before = recorded(project)
    lock = project.read("roxy.lock").decode()
    project.write("roxy.lock", f'{lock}old = "{OLD}"\n\n[claims.gone]\ntext = "{OLD}"\n')
    assert len(recorded(project)) == 4
    assert project.roxy("verify", *arguments).code == 0
    assert recorded(project) == before
    assert project.read("roxy.lock").decode() == lock


UNREADABLE = {
    "merge markers": b"<<<<<<< HEAD\nversion = 1\n=======\nversion = 1\n>>>>>>> other\n",
    "duplicate keys": b'version = 1\n[claims.a]\nb = "%(old)s"\nb = "%(old)s"\n',
    "newer version": b"version = 2\n",
}


@pytest.mark.rule("S37")
@pytest.mark.parametrize("kind", sorted(UNREADABLE))
def test_a_lock_that_cannot_be_read_stops_every_command_and_verify_all_heals_it(
    verified: Project, kind: str
) -> None:
    lock = verified.read("roxy.lock")
    damaged = UNREADABLE[kind].replace(b"%(old)s", OLD.encode())
    verified.write("roxy.lock", damaged)
    for arguments in (("status",), ("gate",), ("verify", "greeting")):
        done = verified.roxy(*arguments)
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith("error: `roxy.lock` ")
        assert done.err.endswith(POINTER)
        assert verified.read("roxy.lock") == damaged
    assert verified.roxy("verify", "--all").code == 0
    assert verified.read("roxy.lock") == lock


@pytest.mark.rule("S36", "S37")
def test_verify_all_on_a_damaged_lock_records_only_what_it_proves(project: Project) -> None:
    claims_of(project, "one", "two", "three")
    assert project.roxy("verify").code == 0
    before = recorded(project)
    manifest = project.read("roxy.toml").decode()
    project.write("roxy.toml", manifest.replace(f"{PASSES} # two", "exit 1"))
    project.write("roxy.lock", project.read("roxy.lock") + b"<<<<<<<\n")
    assert project.roxy("verify", "--all").code == 1
    assert recorded(project) == {name: before[name] for name in ("one/text", "three/text")}


@pytest.mark.rule("S37")
def test_verify_all_with_names_on_a_damaged_lock_records_only_those(project: Project) -> None:
    claims_of(project, "one", "two", "three")
    assert project.roxy("verify").code == 0
    before = recorded(project)
    assert project.roxy("verify", "--all", "two").code == 0
    assert recorded(project) == before
    project.write("roxy.lock", project.read("roxy.lock") + b"<<<<<<<\n")
    assert project.roxy("verify", "--all", "two").code == 0
    assert recorded(project) == {"two/text": before["two/text"]}


@pytest.mark.rule("S19", "S36")
def test_a_patch_that_git_cannot_read_leaves_the_lock_as_it_is(verified: Project) -> None:
    lock = verified.read("roxy.lock") + f'\n[claims.gone]\na = "{OLD}"\n'.encode()
    verified.write("roxy.lock", lock)
    verified.write("mutations/it.patch", "garbage\n")
    assert verified.roxy("verify").code == 2
    assert verified.read("roxy.lock") == lock


@pytest.mark.rule("S37")
def test_a_damaged_lock_stays_when_verify_all_proves_nothing(verified: Project) -> None:
    verified.write("roxy.lock", "<<<<<<<\n")
    verified.write("mutations/it.patch", "garbage\n")
    assert verified.roxy("verify", "--all").code == 2
    assert verified.read("roxy.lock") == b"<<<<<<<\n"


@pytest.mark.slow
@pytest.mark.rule("S35", "S37")
@pytest.mark.parametrize("driver", ["text", "union"])
def test_locks_of_two_branches_merge_when_their_checks_are_different(
    project: Project, driver: str
) -> None:
    project.write(".gitattributes", f"roxy.lock merge={driver}\n")
    claims_of(project, "middle")
    assert project.roxy("verify").code == 0
    project.commit()
    project.git("checkout", "--quiet", "-b", "other")
    for branch, claim in (("other", "zebra"), ("main", "aardvark")):
        project.git("checkout", "--quiet", branch)
        project.check(f"{PASSES} # {claim}", claim=claim)
        if claim == "aardvark":  # at the top, so that roxy.toml merges as well
            first, second = project.read("roxy.toml").split(b"\n\n")[:2]
            project.write("roxy.toml", second + b"\n\n" + first + b"\n\n")
        assert project.roxy("verify").code == 0
        project.commit()
    project.git("merge", "--quiet", "--message", "both", "other")
    assert list(recorded(project)) == ["aardvark/text", "middle/text", "zebra/text"]
    done = project.roxy("gate")
    assert (done.code, done.err) == (0, "")


@pytest.mark.slow
@pytest.mark.rule("S37")
@pytest.mark.parametrize("driver", ["text", "union"])
def test_locks_of_two_branches_that_disagree_are_refused_until_verify_all(
    verified: Project, driver: str
) -> None:
    verified.write(".gitattributes", f"roxy.lock merge={driver}\n")
    verified.commit()
    content = verified.read("src/greeting.txt")
    verified.git("checkout", "--quiet", "-b", "other")
    for branch, edit in (("other", content + b"end\n"), ("main", b"start\n" + content)):
        verified.git("checkout", "--quiet", branch)
        verified.write("src/greeting.txt", edit)
        assert verified.roxy("verify").code == 0
        verified.commit()
    with contextlib.suppress(subprocess.CalledProcessError):
        verified.git("merge", "--quiet", "--message", "both", "other")
    lock = verified.read("roxy.lock").decode()
    assert lock.count("text = ") == 2
    assert ("<<<<<<<" in lock) is (driver == "text")
    done = verified.roxy("gate")
    assert (done.code, done.out) == (2, "")
    assert done.err.endswith(POINTER)
    assert verified.roxy("verify", "--all").code == 0
    assert verified.read("roxy.lock").decode().count("text = ") == 1
    assert verified.states() == {"greeting/text": "verified"}


@pytest.mark.rule("S35", "S37")
def test_a_lock_with_crlf_is_read_and_written_anew_with_lf(verified: Project) -> None:
    lock = verified.read("roxy.lock")
    verified.write("roxy.lock", lock.replace(b"\n", b"\r\n"))
    assert verified.roxy("gate").code == 0
    assert verified.roxy("verify", "--all", "--locked").code == 0
    assert verified.read("roxy.lock") == lock.replace(b"\n", b"\r\n")
    assert verified.roxy("verify").code == 0
    assert verified.read("roxy.lock") == lock


@pytest.mark.rule("S35", "S37")
def test_a_lock_that_is_a_link_is_refused_and_replaced_without_following_it(
    verified: Project, tmp_path: Path
) -> None:
    lock = verified.read("roxy.lock")
    target = tmp_path / "elsewhere"
    target.write_bytes(lock)
    (verified.root / "roxy.lock").unlink()
    (verified.root / "roxy.lock").symlink_to(target)
    for command in ("status", "gate", "verify"):
        done = verified.roxy(command)
        assert (done.code, done.out) == (2, "")
        assert done.err == f"error: `roxy.lock` is a symbolic link\n{POINTER}"
    target.write_bytes(b"")
    assert verified.roxy("verify", "--all").code == 0
    assert not (verified.root / "roxy.lock").is_symlink()
    assert verified.read("roxy.lock") == lock
    assert target.read_bytes() == b""


@pytest.mark.rule("S37", "S43")
def test_a_lock_that_is_a_folder_is_never_replaced(verified: Project) -> None:
    (verified.root / "roxy.lock").unlink()
    verified.write("roxy.lock/somebodys", "file\n")
    for arguments in (("status",), ("gate",), ("verify",), ("verify", "--all")):
        done = verified.roxy(*arguments)
        assert done.code == 2
        assert "`roxy.lock`" in done.err
        assert "directory" in done.err.lower()
        assert "Traceback" not in done.err
    assert verified.read("roxy.lock/somebodys") == b"file\n"
    assert verified.read("src/greeting.txt") == b"one\nhello\nthree\n"


@stranger.as_root
@pytest.mark.rule("S35", "S43")
def test_a_top_level_that_cannot_be_written_is_named_with_exit_2() -> None:
    with stranger.a_public_folder() as public:
        project = Project.make(public / "project")
        project.greet()
        stranger.give_away(project.root)
        project.root.chmod(0o555)
        done = stranger.roxy(project.root, "verify")
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith(
            f"error: cannot write `roxy.lock`: Permission denied\n  at {project.root}\n"
        )
        assert project.read("src/greeting.txt") == b"one\nhello\nthree\n"
        for command, code in (("status", 0), ("gate", 1)):
            assert stranger.roxy(project.root, command).code == code
        project.root.chmod(0o755)
        assert stranger.roxy(project.root, "verify").code == 0
        project.root.chmod(0o555)
        assert stranger.roxy(project.root, "verify", "--all", "--locked").code == 0
        assert stranger.roxy(project.root, "gate").code == 0


@stranger.as_root
@pytest.mark.rule("S12", "S43")
def test_a_covered_file_that_cannot_be_read_is_named_with_exit_2() -> None:
    with stranger.a_public_folder() as public:
        project = Project.make(public / "project")
        project.greet()
        stranger.give_away(project.root)
        project.write("src/secret.txt", "root's\n", 0o600)
        for command in ("gate", "verify"):
            done = stranger.roxy(project.root, command)
            assert (done.code, done.out) == (2, "")
            assert done.err.startswith(
                "error: cannot read the covered file `src/secret.txt`: Permission denied\n"
            )
        assert not (project.root / "roxy.lock").exists()


# ------------------------------------------------------------------- verify --all --locked


@pytest.mark.rule("S50")
def test_locked_agrees_with_a_lock_that_is_right_and_writes_nothing(verified: Project) -> None:
    mutated = ("src", "src/greeting.txt")
    before, content = facts(verified.root, *mutated), verified.snapshot()
    done = verified.roxy("verify", "--all", "--locked")
    assert (done.code, done.out) == (0, "verified greeting/text\n1 verified\n")
    assert facts(verified.root, *mutated) == before
    assert verified.snapshot() == content
    assert len(os.listdir(verified.state / "receipts")) == 2
    assert done.err == ""


@pytest.mark.rule("S50")
@pytest.mark.parametrize(
    ("lock", "said"),
    [
        (None, "missing entry `greeting/text`"),
        ("version = 1\n", "missing entry `greeting/text`"),
        ('{lock}[claims.gone]\na = "{old}"\n', "extra entry `gone/a`"),
        ('{lock}other = "{old}"\n', "extra entry `greeting/other`"),
        ('version = 1\n[claims.greeting]\ntext = "{old}"\n', "other entry `greeting/text`"),
        ("<<<<<<< HEAD\n{lock}", "`roxy.lock` holds the markers of a merge"),
    ],
)
def test_locked_names_how_the_lock_differs_and_writes_nothing(
    verified: Project, lock: str | None, said: str
) -> None:
    text = verified.read("roxy.lock").decode()
    if lock is None:
        (verified.root / "roxy.lock").unlink()
    else:
        verified.write("roxy.lock", lock.format(lock=text, old=OLD))
    mutated = ("src", "src/greeting.txt")
    before, content = facts(verified.root, *mutated), verified.snapshot()
    done = verified.roxy("verify", "--all", "--locked")
    assert done.code == 1
    assert done.out.startswith("verified greeting/text\n")
    (difference,) = (line for line in done.out.splitlines() if line.startswith("roxy.lock: "))
    assert said in difference
    assert facts(verified.root, *mutated) == before
    assert verified.snapshot() == content


@pytest.mark.rule("S50")
def test_locked_names_every_difference_and_a_rejected_check_is_an_extra_entry(
    project: Project,
) -> None:
    claims_of(project, "one", "two", "three", "four")
    assert project.roxy("verify").code == 0
    lock = project.read("roxy.lock").decode()
    three = recorded(project)["three/text"]
    lock = lock.replace(f'[claims.one]\ntext = "{recorded(project)["one/text"]}"\n\n', "")
    lock = lock.replace(three, OLD)
    manifest = project.read("roxy.toml").decode()
    project.write("roxy.toml", manifest.replace(f"{PASSES} # two", "exit 1"))
    project.write("roxy.lock", lock)
    done = project.roxy("verify", "--all", "--locked", "--json")
    assert done.code == 1
    assert [one["result"] for one in done.json["checks"]] == [
        *("verified", "rejected", "verified", "verified"),
    ]
    assert [line.partition(":")[0] for line in done.json["lock_differences"]] == [
        "missing entry `one/text`",
        "other entry `three/text`",
        "extra entry `two/text`",
    ]
    assert project.read("roxy.lock").decode() == lock


@pytest.mark.rule("S50")
def test_locked_fails_for_a_rejected_check_also_when_the_lock_has_no_entry_for_it(
    project: Project,
) -> None:
    project.greet("exit 1")
    project.write("roxy.lock", "version = 1\n")
    done = project.roxy("verify", "--all", "--locked", "--json")
    assert (done.code, done.json["lock_differences"]) == (1, [])
    assert project.read("roxy.lock") == b"version = 1\n"


# ------------------------------------------------------------------- side by side


@pytest.mark.rule("S5", "S8")
def test_linked_worktrees_neither_wait_for_nor_restore_one_another(
    project: Project, tmp_path: Path
) -> None:
    every = EveryRun(tmp_path, 2)
    project.greet(every.code + PASSES)
    project.commit()
    linked = Project(tmp_path / "linked")
    project.git("worktree", "add", "--quiet", str(linked.root))
    with project.started("verify") as process:
        until_there(every.here)
        assert project.roxy("status").code == 2
        assert linked.roxy("status").code == 0
        assert project.read("src/greeting.txt") == b"one\nhowdy\nthree\n"
        process.kill()
        process.wait()
    (tmp_path / "count").write_text("\n" * 9)
    done = linked.roxy("verify")
    assert (done.code, done.out) == (0, "verified greeting/text\n1 verified\n")
    assert "restored" not in done.err
    assert project.read("src/greeting.txt") == b"one\nhowdy\nthree\n"
    done = project.roxy("status")
    assert "restored `src/greeting.txt`" in done.err
    assert project.read("src/greeting.txt") == b"one\nhello\nthree\n"
