"""What `status` and `gate` answer, why, and what they remark beside it (S38, S49, S52)."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from inside import standing, stock
from project import Project
from roxy.core.model import State

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def remarks(project: Project) -> list[str]:
    return list(stock(project).remarks)


def everything_in(root: Path) -> dict[str, tuple[object, ...]]:
    """Return all that lstat tells of everything in a tree but its `.git` and access times."""
    found = {}
    for folder, names, files in os.walk(root):
        names[:] = [name for name in names if name != ".git"]
        for path in (folder, *(os.path.join(folder, name) for name in (*names, *files))):
            seen = os.lstat(path)
            found[path] = (
                *(seen.st_mode, seen.st_ino, seen.st_nlink, seen.st_uid, seen.st_gid),
                *(seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns),
            )
    return found


# ------------------------------------------------------------------- states and reasons


@pytest.mark.rule("S34", "S38")
def test_undoing_an_edit_makes_it_verified_again_without_a_run(verified: Project) -> None:
    content = verified.read("src/greeting.txt")
    verified.write("src/greeting.txt", b"other\n")
    assert verified.roxy("gate").code == 1
    verified.write("src/greeting.txt", content)
    assert standing(verified) == (State.VERIFIED, None)
    done = verified.roxy("verify")
    assert (done.code, done.out) == (0, "nothing to do: the only check is verified\n")
    assert verified.roxy("gate").code == 0


@pytest.mark.rule("S38")
def test_a_change_of_the_same_size_is_seen_with_its_time_put_back(verified: Project) -> None:
    file = verified.root / "src/greeting.txt"
    seen = file.stat()
    assert verified.roxy("gate").code == 0
    with file.open("r+b") as again:
        again.write(b"two\n")
    os.utime(file, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    after = file.stat()
    assert (after.st_size, after.st_mtime_ns, after.st_ino) == (
        *(seen.st_size, seen.st_mtime_ns, seen.st_ino),
    )
    done = verified.roxy("gate")
    assert done.code == 1
    assert done.out == ("stale greeting/text: `src/greeting.txt` changed\n1 check: 1 stale\n")


@pytest.mark.rule("S34", "S39")
def test_the_reason_names_what_changed(verified: Project) -> None:
    for name in ("b", "c"):
        verified.write(f"src/{name}", name)
    assert verified.roxy("verify").code == 0
    assert standing(verified) == (State.VERIFIED, None)
    verified.write("src/b", "other")
    assert standing(verified) == (State.STALE, "`src/b` changed")
    verified.write("src/greeting.txt", "other")
    (verified.root / "src/c").unlink()
    verified.write("src/d", "d")
    assert standing(verified) == (
        State.STALE,
        "`src/b`, `src/greeting.txt` changed, `src/d` added, `src/c` removed",
    )
    for name in ("e", "f", "g", "h"):
        verified.write(f"src/{name}", "")
    assert standing(verified)[1] == (
        "`src/b`, `src/greeting.txt` changed, 5 files added, `src/c` removed"
    )
    verified.write("mutations/it.patch", verified.read("mutations/it.patch") + b"\n")
    manifest = verified.read("roxy.toml").decode()
    verified.write("roxy.toml", manifest.replace("grep -q", "grep"))
    assert standing(verified)[1] == (
        "its command changed, its mutation changed,"
        " `src/b`, `src/greeting.txt` changed, 5 files added, `src/c` removed"
    )


@pytest.mark.rule("S35", "S39")
@pytest.mark.parametrize("receipts", ["gone", "of another check", "damaged"])
def test_without_its_receipt_the_state_is_the_same_and_git_tells_the_reason(
    verified: Project, receipts: str
) -> None:
    folder = verified.state / "receipts"
    if receipts == "gone":
        shutil.rmtree(folder)
    elif receipts == "damaged":
        for receipt in folder.iterdir():
            receipt.write_bytes(receipt.read_bytes() + b" ")
    else:
        (verified.root / "roxy.toml").unlink()
        verified.check("grep -q hello src/greeting.txt", claim="other")
        lock = verified.read("roxy.lock")
        verified.write("roxy.lock", lock.replace(b"[claims.greeting]", b"[claims.other]"))
    assert standing(verified) == (State.VERIFIED, None)
    verified.write("src/greeting.txt", "other")
    commit = verified.git("rev-parse", "HEAD")[:12]
    assert standing(verified) == (State.STALE, f"`src/greeting.txt` changed since commit {commit}")


@pytest.mark.rule("S36")
def test_states_come_in_the_order_of_the_manifest(verified: Project) -> None:
    verified.check("true", claim="zebra", name="one")
    verified.check("true", claim="aardvark", name="two")
    entries = stock(verified).report.entries
    assert [(entry.check.id, str(entry.state)) for entry in entries] == [
        ("greeting/text", "verified"),
        ("zebra/one", "unverified"),
        ("aardvark/two", "unverified"),
    ]


# ------------------------------------------------------------------- nothing is written


@pytest.mark.rule("S49")
@pytest.mark.parametrize("state", ["verified", "stale", "unverified", "fault"])
def test_status_and_gate_write_nothing_in_the_tree(verified: Project, state: str) -> None:
    (verified.root / "src/link").symlink_to("greeting.txt")
    match state:
        case "stale":
            verified.write("src/greeting.txt", "other")
        case "unverified":
            (verified.root / "roxy.lock").unlink()
        case "fault":
            verified.write("roxy.lock", "<<<<<<< HEAD\n")
        case _:
            pass
    before = everything_in(verified.root)
    index = (verified.root / ".git/index").read_bytes()
    for arguments in (["status", "-v"], ["gate", "--json"]):
        code = verified.roxy(*arguments).code
        expected = {"fault": 2, "verified": 0}.get(state, 1 if arguments[0] == "gate" else 0)
        assert code == expected
        assert everything_in(verified.root) == before
    assert (verified.root / ".git/index").read_bytes() == index


# ------------------------------------------------------------------- what differs from HEAD


@pytest.mark.rule("S52")
def test_nothing_is_remarked_when_all_is_as_in_head(verified: Project) -> None:
    assert remarks(verified) == []


@pytest.mark.rule("S52")
@pytest.mark.parametrize("path", ["roxy.toml", "roxy.lock", "mutations/it.patch"])
def test_what_differs_from_head_is_remarked_however_it_is_hidden(
    verified: Project, path: str
) -> None:
    content = verified.read(path)
    is_patch = path == "mutations/it.patch"
    changed = content.replace(b"\n", b"\n\n", 1) if is_patch else content + b"\n"
    verified.write(path, changed)
    assert remarks(verified) == [f"`{path}` differs from HEAD"]
    done = verified.roxy("gate")
    assert done.err == f"warning: `{path}` differs from HEAD\n"
    assert done.code == is_patch
    for flag in ("assume-unchanged", "skip-worktree"):
        verified.git("update-index", f"--{flag}", path)
        assert verified.git("status", "--porcelain") == ""
        assert remarks(verified) == [f"`{path}` differs from HEAD"]
        verified.git("update-index", f"--no-{flag}", path)
    verified.git("add", path)
    assert remarks(verified) == [f"`{path}` differs from HEAD"]
    verified.write(path, content)
    assert remarks(verified) == []


@pytest.mark.rule("S52")
def test_what_is_not_in_head_is_remarked(project: Project) -> None:
    project.greet()
    project.write("second.patch", project.read("mutations/it.patch"))
    project.check("true", name="two", mutation=("./second.patch", "mutations/it.patch"))
    assert remarks(project) == []  # there is no commit to compare with
    project.git("commit", "--quiet", "--allow-empty", "--message", "empty")
    project.write("roxy.lock", "version = 1\n")
    assert remarks(project) == [
        "`roxy.toml` is not in HEAD",
        "`roxy.lock` is not in HEAD",
        "`mutations/it.patch` is not in HEAD",
        "`second.patch` is not in HEAD",
    ]
    project.write(".gitignore", "roxy.*\n*.patch\n")
    assert len(remarks(project)) == 4
    project.git("add", "--force", "roxy.toml", "roxy.lock", "second.patch")
    project.git("commit", "--quiet", "--message", "some")
    (project.root / "roxy.lock").unlink()
    assert remarks(project) == [
        "`roxy.lock` is in HEAD, but not on the disk",
        "`mutations/it.patch` is not in HEAD",
    ]
    done = project.roxy("status")
    assert done.code == 0
    assert done.err == "".join(f"warning: {remark}\n" for remark in remarks(project))


@pytest.mark.rule("S52")
def test_crlf_is_read_as_lf_when_compared_with_head(verified: Project) -> None:
    for path in ("roxy.toml", "roxy.lock", "mutations/it.patch"):
        verified.write(path, verified.read(path).replace(b"\n", b"\r\n"))
    assert remarks(verified) == []
    verified.commit()
    for path in ("roxy.toml", "roxy.lock", "mutations/it.patch"):
        verified.write(path, verified.read(path).replace(b"\r\n", b"\n"))
    assert remarks(verified) == []
    verified.write("mutations/it.patch", verified.read("mutations/it.patch") + b"\r")
    assert remarks(verified) == ["`mutations/it.patch` differs from HEAD"]


@pytest.mark.rule("S52")
def test_a_mode_and_a_time_are_no_difference_from_head(verified: Project) -> None:
    for path in ("roxy.toml", "roxy.lock", "mutations/it.patch"):
        (verified.root / path).chmod(0o755)
        os.utime(verified.root / path, (1, 1))
    assert remarks(verified) == []


@pytest.mark.rule("S6", "S52")
def test_a_replaced_object_silences_nothing(verified: Project) -> None:
    verified.write("roxy.toml", verified.read("roxy.toml") + b"# edited\n")
    blob = verified.git("hash-object", "-w", "roxy.toml").strip()
    verified.git("replace", verified.git("rev-parse", "HEAD:roxy.toml").strip(), blob)
    assert verified.git("show", "HEAD:roxy.toml").endswith("# edited\n")
    assert remarks(verified) == ["`roxy.toml` differs from HEAD"]


@pytest.mark.rule("S52")
def test_each_worktree_is_compared_with_its_own_head(verified: Project, tmp_path: Path) -> None:
    verified.git("worktree", "add", "--quiet", "-b", "other", str(tmp_path / "linked"))
    linked = Project(tmp_path / "linked")
    linked.write("roxy.toml", linked.read("roxy.toml") + b"\n")
    assert remarks(linked) == ["`roxy.toml` differs from HEAD"]
    linked.commit()
    assert remarks(linked) == []
    assert remarks(verified) == []
    linked.git("checkout", "--quiet", "--detach", "HEAD~")
    assert remarks(linked) == []


@pytest.mark.rule("S52")
def test_a_repository_with_sha256_names_is_compared_too(tmp_path: Path) -> None:
    subprocess.run(
        ["git", "init", "--quiet", "--object-format=sha256", tmp_path / "project"], check=True
    )
    project = Project(tmp_path / "project")
    project.greet()
    project.commit()
    assert remarks(project) == []
    project.write("mutations/it.patch", project.read("mutations/it.patch") + b"\n")
    assert remarks(project) == ["`mutations/it.patch` differs from HEAD"]


@pytest.mark.rule("S52")
def test_tracked_covered_files_that_are_absent_are_counted(verified: Project) -> None:
    for name in "abcdefg":
        verified.write(f"src/{name}", "")
    verified.write("elsewhere/h", "")
    verified.commit()
    shutil.rmtree(verified.root / "elsewhere")
    assert remarks(verified) == []
    (verified.root / "src/a").unlink()
    assert remarks(verified) == [
        "covered files that git tracks are not on the disk, 1 of them: `src/a`"
    ]
    for name in "bcdefg":
        (verified.root / f"src/{name}").unlink()
    (remark,) = remarks(verified)
    assert remark == (
        "covered files that git tracks are not on the disk, 7 of them:"
        " `src/a`, `src/b`, `src/c`, `src/d`, `src/e` and 2 more"
    )
    done = verified.roxy("gate")
    assert (done.code, done.out) == (0, "verified greeting/text\n1 check: 1 verified\n")
    assert "7 of them" in done.err
    verified.git("rm", "--quiet", "--cached", *(f"src/{name}" for name in "abcdefg"))
    assert remarks(verified) == []


@pytest.mark.rule("S52")
def test_a_covered_folder_that_became_a_link_is_remarked(
    project: Project, make_project: Callable[[str], Project]
) -> None:
    elsewhere = make_project("elsewhere")
    elsewhere.write("a", "")
    project.greet()
    project.write("src/lib/a", "")
    project.commit()
    shutil.rmtree(project.root / "src/lib")
    (project.root / "src/lib").symlink_to(elsewhere.root)
    assert remarks(project) == [
        "covered files that git tracks are not on the disk, 1 of them: `src/lib/a`"
    ]


@pytest.mark.rule("S27")
def test_status_verbose_repeats_how_weakly_a_mutated_run_failed(project: Project) -> None:
    project.greet("grep -q hello src/greeting.txt || exit 127")
    assert "proves little" in project.roxy("verify").err
    assert "proves little" not in project.roxy("status").err
    done = project.roxy("status", "-v")
    assert "warning: greeting/text: the mutated run" in done.err
    assert done.out == "verified greeting/text\n1 check: 1 verified\n"
