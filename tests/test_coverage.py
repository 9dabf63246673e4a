"""Which files count, and what is said of a glob that means none (S12, S14-S16)."""

from __future__ import annotations

import os
import shutil
import socket
from typing import TYPE_CHECKING

import pytest

from project import Project
from roxy.core import coverage
from roxy.core.digests import Digests, stamps
from roxy.core.errors import ConfigError
from roxy.core.git import find_repository
from roxy.core.interrupts import Interrupts
from roxy.core.model import Check
from roxy.core.working_tree import Tree, same_but_ctime, stamp_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from roxy.core.coverage import Coverage

STRANGE_NAMES = [
    b"caf\xe9",  # not UTF-8
    b"\xff\xfe",
    b"a b ",
    b" leads",
    b'quo"te',
    b"apo'strophe",
    b"new\nline",
    b"\n",
    b"tab\there",
    b"esc\x1b[31mape",
    b"bell\x07",
    b"back\\slash",
    b"-dash",
    b":(top)magic",
    b"!bang",
    b"#hash",
    "sn\N{SNOWMAN}w".encode(),
    "turn\N{RIGHT-TO-LEFT OVERRIDE}ed".encode(),
    b".hidden",
    b"star*",
    b"[a]",
    b"{a,b}",
]


@pytest.fixture
def tree(project: Project) -> Iterator[Tree]:
    tree = Tree(project.root)
    yield tree
    tree.close()


def a_check(*covers: str, name: str = "text") -> Check:
    return Check(claim="greeting", name=name, run="true", covers=covers, mutations=("p",))


def found(project: Project, tree: Tree, *checks: Check) -> Coverage:
    if not (project.root / "roxy.toml").exists():
        project.write("roxy.toml", "")
    tree.forget()
    return coverage.find_covered(find_repository(project.root, os.environ), tree, checks)


def covered(project: Project, tree: Tree, *covers: str) -> list[str]:
    """Return what the globs of one check cover, less what every test project has at its top."""
    files = found(project, tree, a_check(*covers)).files["greeting/text"]
    return [os.fsdecode(path) for path in files if path != b"roxy.toml"]


def why(project: Project, tree: Tree, *covers: str) -> list[str]:
    """Return what is said of globs that match nothing."""
    with pytest.raises(ConfigError) as caught:
        found(project, tree, a_check(*covers))
    for fault in caught.value.faults:
        assert fault.where == "roxy.toml, check `greeting/text`"
        assert fault.hint
    return [f"{fault.what} ({fault.hint})" for fault in caught.value.faults]


# ------------------------------------------------------------------- what counts


@pytest.mark.rule("S12")
def test_tracked_and_untracked_regular_files_count_once_each(project: Project, tree: Tree) -> None:
    for path in ("staged", "committed", "changed", "dir/.hidden", "intended", "exe"):
        project.write(path, path, 0o755 if path == "exe" else None)
    project.commit()
    project.write("staged", "again")
    project.git("add", "staged")
    project.write("staged", "and again")
    project.write("changed", "again")
    project.write("empty", "")
    project.write("intended", "")
    project.git("add", "--intent-to-add", "intended")
    assert covered(project, tree, "**") == [
        "changed",
        "committed",
        "dir/.hidden",
        "empty",
        "exe",
        "intended",
        "staged",
    ]


@pytest.mark.rule("S12")
def test_a_file_in_conflict_counts_once(project: Project, tree: Tree) -> None:
    project.write("file", "base\n")
    project.commit()
    project.git("checkout", "--quiet", "-b", "other")
    project.write("file", "theirs\n")
    project.commit()
    project.git("checkout", "--quiet", "main")
    project.write("file", "ours\n")
    project.commit()
    with pytest.raises(Exception, match="merge"):
        project.git("merge", "--quiet", "other")
    assert project.git("ls-files", "--unmerged")
    assert covered(project, tree, "**") == ["file"]


@pytest.mark.rule("S12")
def test_an_ignored_file_never_counts_unless_it_is_tracked(project: Project, tree: Tree) -> None:
    project.write("src/.gitignore", "*.log\nbuild/\n")
    project.write("src/tracked.log", "")
    project.git("add", "--force", "src/tracked.log")
    project.write("src/other.log", "")
    project.write("src/build/made", "")
    project.write("src/kept", "")
    project.write(".git/info/exclude", "secret\n")
    project.write("src/secret", "")
    assert covered(project, tree, "src/**") == ["src/.gitignore", "src/kept", "src/tracked.log"]
    assert covered(project, tree, "src/*.log") == ["src/tracked.log"]


@pytest.mark.rule("S12")
def test_symbolic_links_and_what_is_below_them_never_count(project: Project, tree: Tree) -> None:
    project.write("src/real/file", "")
    project.write("elsewhere/file", "")
    links = {
        "src/to-file": "real/file",
        "src/to-folder": "../elsewhere",
        "src/dangling": "nowhere",
        "src/to-itself": "to-itself",
        "src/out": "/etc",
    }
    for name, target in links.items():
        (project.root / name).symlink_to(target)
    assert covered(project, tree, "src/**") == ["src/real/file"]
    project.commit()
    assert covered(project, tree, "src/**") == ["src/real/file"]


@pytest.mark.rule("S12", "S52")
def test_a_tracked_folder_that_became_a_link_or_a_file_holds_nothing(
    project: Project, tree: Tree
) -> None:
    project.write("src/kept", "")
    project.write("src/linked/file", "")
    project.write("src/flat/file", "")
    project.commit()
    (project.root / "src/linked").rename(project.root / "moved")
    (project.root / "src/linked").symlink_to("../moved")
    shutil.rmtree(project.root / "src/flat")
    project.write("src/flat", "")
    now = found(project, tree, a_check("src/**"))
    assert now.files["greeting/text"] == (b"src/flat", b"src/kept")
    assert now.absent == (b"src/flat/file", b"src/linked/file")


@pytest.mark.rule("S12")
def test_a_link_as_the_top_level_is_no_link_within_it(
    project: Project, tree: Tree, tmp_path: Path
) -> None:
    project.write("src/a", "")
    project.write("roxy.toml", "")
    (tmp_path / "link").symlink_to(project.root)
    repository = find_repository(tmp_path / "link/src", os.environ)
    assert repository.root == project.root
    assert coverage.find_covered(repository, tree, [a_check("src/a")]).files


@pytest.mark.rule("S12")
def test_roxy_lock_never_counts(project: Project, tree: Tree) -> None:
    project.write("roxy.lock", "")
    project.write("a", "")
    assert covered(project, tree, "**", "*") == ["a"]
    project.commit()
    assert covered(project, tree, "**", "*") == ["a"]


@pytest.mark.rule("S12")
def test_what_is_in_another_repository_never_counts(
    project: Project, tree: Tree, make_project: Callable[[str], Project]
) -> None:
    other = make_project("other")
    other.write("file", "")
    other.commit()
    project.write("src/a", "")
    project.git(
        *("-c", "protocol.file.allow=always", "submodule", "--quiet", "add"),
        *(str(other.root), "src/module"),
    )
    project.git("clone", "--quiet", str(other.root), "src/nested")
    Project.make(project.root / "src/unborn").write("file", "")
    assert covered(project, tree, "src/**") == ["src/a"]
    (project.root / "src/module/new").write_text("")
    assert covered(project, tree, "src/**", "src/a") == ["src/a"]


@pytest.mark.rule("S12")
def test_nothing_in_the_git_directory_ever_counts(project: Project, tree: Tree) -> None:
    project.write("a", "")
    project.write(".git/roxy/file", "")
    assert covered(project, tree, "**") == ["a"]
    assert len(why(project, tree, ".git/**", ".git/roxy/*", ".git/config", "**/HEAD")) == 4


@pytest.mark.rule("S12")
def test_special_files_never_count(project: Project, tree: Tree) -> None:
    project.write("src/a", "")
    project.write("src/was-a-file", "")
    project.commit()
    (project.root / "src/was-a-file").unlink()
    os.mkfifo(project.root / "src/was-a-file")
    os.mkfifo(project.root / "src/fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        before = os.getcwd()
        os.chdir(project.root)  # the whole path is too long for a socket
        try:
            listener.bind("src/socket")
        finally:
            os.chdir(before)
        assert covered(project, tree, "src/**") == ["src/a"]


@pytest.mark.rule("S12", "S52")
def test_tracked_files_that_the_disk_does_not_have_are_counted_as_absent(
    project: Project, tree: Tree
) -> None:
    for name in ("a", "b", "c", "folder/d", "skipped"):
        project.write(f"src/{name}", "")
    project.commit()
    project.git("update-index", "--skip-worktree", "src/skipped")
    for name in ("b", "folder/d", "skipped"):
        (project.root / "src" / name).unlink()
    (project.root / "src/folder").rmdir()
    now = found(project, tree, a_check("src/**"), a_check("src/?", name="other"))
    assert now.files == {
        "greeting/text": (b"src/a", b"src/c"),
        "greeting/other": (b"src/a", b"src/c"),
    }
    assert now.absent == (b"src/b", b"src/folder/d", b"src/skipped")


@pytest.mark.rule("S12", "S13")
def test_checks_share_files_and_each_gets_its_own_sorted_once(project: Project, tree: Tree) -> None:
    for name in ("src/b.py", "src/a.py", "src/a/x.py", "src/a.txt", "src/a0", "lib/z.py"):
        project.write(name, "")
    now = found(
        project,
        tree,
        a_check("src/**", "src/a.py", "src/*", name="one"),
        a_check("lib/*", "src/a/**", name="two"),
        a_check("**/*.py", name="three"),
    )
    assert now.files == {
        "greeting/one": (b"src/a.py", b"src/a.txt", b"src/a/x.py", b"src/a0", b"src/b.py"),
        "greeting/two": (b"lib/z.py", b"src/a/x.py"),
        "greeting/three": (b"lib/z.py", b"src/a.py", b"src/a/x.py", b"src/b.py"),
    }
    assert now.absent == ()


# ------------------------------------------------------------------- globs that mean nothing


@pytest.mark.rule("S14")
@pytest.mark.parametrize(
    ("glob", "said"),
    [
        ("src/none.py", "matches no file (mend"),
        ("src/*.log", "only files that git ignores (cover the sources"),
        ("build/**", "only files that git ignores (cover the sources"),
        ("src/link", "only symbolic links, which never count (name the files that they lead to)"),
        ("src/linked/**", "only symbolic links, which never count (name the files that they lead"),
        ("src/loose/a.py", "only symbolic links, which never count (name the files that they lead"),
        ("src", "matches no file (`src` is a folder; for what is below it, write `src/**`)"),
        ("sr?", "matches no file (`src` is a folder; for what is below it, write `sr?/**`)"),
        ("./src/lib", "(`src/lib` is a folder; for what is below it, write `./src/lib/**`)"),
        ("SRC/a.py", "matches no file (`src/a.py` differs from it only in case)"),
        ("src/*.PY", "matches no file (`src/[x].py` differs from it only in case)"),
        ("src/[x].py", "(for the file of that name, write `src/\\[x\\].py`)"),
        ("roxy.lock", "matches no file that can count: roxy.lock never does (name the files"),
        ("gone/**", "only files that the disk does not have (restore them"),
        ("src/gone.py", "only files that the disk does not have (restore them"),
        ("module", "only what belongs to a repository within this one (let that"),
        ("module/**", "only what belongs to a repository within this one (let that"),
        ("nested/file", "only what belongs to a repository within this one (let that"),
        ("src/pipe", "only what is no regular file (name regular files)"),
        ("src/a.py/**", "matches no file (mend the glob, or take it out)"),
        (".git/config", "matches no file (mend the glob, or take it out)"),
    ],
)
def test_a_glob_without_a_file_is_refused_with_the_reason(
    project: Project, tree: Tree, make_project: Callable[[str], Project], glob: str, said: str
) -> None:
    other = make_project("other")
    other.write("file", "")
    other.commit()
    for name in ("src/a.py", "src/lib/b.py", "src/[x].py", "src/linked/c.py", "gone/d.py"):
        project.write(name, "")
    for name in ("src/gone.py", "src/pipe", "roxy.lock"):
        project.write(name, "")
    project.git(
        *("-c", "protocol.file.allow=always", "submodule", "--quiet", "add"),
        *(str(other.root), "module"),
    )
    project.commit()
    project.git("clone", "--quiet", str(other.root), "nested")
    project.write(".gitignore", "*.log\nbuild/\n")
    project.write("src/x.log", "")
    project.write("build/out/x", "")
    shutil.rmtree(project.root / "gone")
    (project.root / "src/gone.py").unlink()
    (project.root / "src/pipe").unlink()
    os.mkfifo(project.root / "src/pipe")
    shutil.rmtree(project.root / "src/linked")
    (project.root / "src/linked").symlink_to("lib")  # in place of a tracked folder
    (project.root / "src/loose").symlink_to("lib")
    (project.root / "src/link").symlink_to("a.py")
    (one,) = why(project, tree, "src/a.py", glob)
    assert one.startswith(f"the glob `{glob}` matches no file")
    assert said in one


@pytest.mark.rule("S14", "S43")
def test_every_glob_without_a_file_is_named_by_every_command_at_once(verified: Project) -> None:
    verified.check("true", name="one", covers=("src/**", "SRC/**", "none/*"))
    verified.check("true", name="two", covers=("src", "src/greeting.txt"))
    lock = verified.read("roxy.lock")
    for command in ("status", "gate", "verify"):
        done = verified.roxy(command)
        assert (done.code, done.out) == (2, "")
        assert done.err.count("error: ") == 3
        for glob, check in (("SRC/**", "one"), ("none/*", "one"), ("src", "two")):
            assert (
                f"the glob `{glob}` matches no file\n  at roxy.toml, check `greeting/{check}`\n"
                in (done.err)
            )
    assert verified.roxy("verify", "greeting/text").code == 2  # the manifest as a whole is at fault
    assert verified.read("roxy.lock") == lock


# ------------------------------------------------------------------- any name


@pytest.mark.rule("S15")
def test_files_of_any_name_count(project: Project, tree: Tree) -> None:
    for name in STRANGE_NAMES:
        project.write(os.fsdecode(b"src/" + name), name)
    expected = sorted(b"src/" + name for name in STRANGE_NAMES)
    check = a_check("src/*")
    assert list(found(project, tree, check).files["greeting/text"]) == expected
    project.commit()
    assert list(found(project, tree, check).files["greeting/text"]) == expected


@pytest.mark.rule("S15", "S17", "S46")
def test_files_of_any_name_are_covered_mutated_restored_and_shown_escaped(
    project: Project,
) -> None:
    paths = [os.fsdecode(b"src/" + name) for name in STRANGE_NAMES]
    for path in paths:
        project.write(path, "one\nhello\nthree\n")
    project.commit()
    for path in paths:
        project.write(path, "one\nhowdy\nthree\n")
    patch = project.git("diff")
    for path in paths:
        project.write(path, "one\nhello\nthree\n")
    project.write("mutations/it.patch", patch)
    project.check("test $(cat src/* src/.hidden | grep -c hello) -gt 0")  # fails if all are mutated
    before = project.snapshot()
    done = project.roxy("verify", "--json")
    assert done.code == 0
    assert [run["exit"] for run in done.json["checks"][0]["runs"]] == [0, 1, 0]
    assert project.snapshot() == before
    for path in paths[:3]:
        project.write(path, "other\n")
    done = project.roxy("status")
    assert done.out.splitlines()[0] == (
        "stale greeting/text: `src/a b `, `src/caf\\xe9`, `src/\\xff\\xfe` changed"
    )
    for path in paths[:3]:
        project.write(path, "one\nhello\nthree\n")
    project.write(os.fsdecode(b"src/esc\x1b[31mape"), "other\n")
    project.write(os.fsdecode("src/turn\N{RIGHT-TO-LEFT OVERRIDE}ed".encode()), "other\n")
    (project.root / "src/new\nline").unlink()
    done = project.roxy("gate")
    assert done.code == 1
    assert done.out.splitlines()[0] == (
        "stale greeting/text: `src/esc\\u001b[31mape`, `src/turn\\u202eed` changed,"
        " `src/new\\u000aline` removed"
    )
    assert "covered files that git tracks are not on the disk, 1 of them: `src/new\\u000aline`" in (
        done.err
    )


# ------------------------------------------------------------------- what git is asked


@pytest.mark.rule("S16")
def test_git_is_asked_only_for_what_the_globs_can_reach(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git = shutil.which("git")
    log = tmp_path / "asked"
    wrapper = tmp_path / "bin/git"
    wrapper.parent.mkdir()
    wrapper.write_text(
        f"#!/bin/sh\n{{ printf '%s\\t' \"$@\"; echo; }} >>'{log}'\nexec '{git}' \"$@\"\n"
    )
    wrapper.chmod(0o755)
    project.greet()
    project.write("apps/web/src/a/b.ts", "")
    project.write("apps/server/x.ts", "")
    project.write("top.txt", "")
    project.check("true", name="two", covers=("apps/{web/src/*,server}/**", "top.txt"))
    project.check("true", name="three", covers=("src/greeting.txt", "[t]op.txt", "./apps/web/**"))
    monkeypatch.setenv("PATH", f"{wrapper.parent}{os.pathsep}{os.environ['PATH']}")

    def asked(*arguments: str) -> list[list[str]]:
        log.unlink(missing_ok=True)
        project.roxy(*arguments)
        calls = [line.split("\t")[:-1] for line in log.read_text().splitlines()]
        listed = [one[one.index("ls-files") :] for one in calls if "--others" in one]
        return [one[one.index("--") + 1 :] if "--" in one else [] for one in listed]

    assert asked("status") == [[]]  # `[t]op.txt` can be anything
    manifest = project.read("roxy.toml").decode()
    project.write("roxy.toml", manifest.replace("[t]op.txt", "top.txt"))
    everything = ["apps/server/", "apps/web/", "src/", "top.txt"]
    assert asked("status") == [everything]
    assert asked("gate") == [everything]
    first, *others = asked("verify", "greeting/text")
    assert first == everything
    assert others == [["src/"]] * len(others)
    assert others


# ------------------------------------------------------------------- what they hold


@pytest.mark.rule("S26")
def test_digests_are_of_what_is_on_the_disk_each_time(project: Project, tree: Tree) -> None:
    file = project.write("a", b"one")
    os.utime(file, ns=(10**18, 10**18))
    digests = Digests(tree, Interrupts())
    one = digests.read([b"a", b"none", b"."])
    assert list(one) == [b"a"]
    with file.open("r+b") as again:
        again.write(b"two")
    os.utime(file, ns=(10**18, 10**18))
    two = digests.read([b"a"])
    assert one != two
    file.unlink()
    file.symlink_to("roxy.toml")
    assert digests.read([b"a"]) == {}


@pytest.mark.rule("S26")
@pytest.mark.parametrize(
    ("touch", "is_same_but_ctime"),
    [
        (lambda file: file.chmod(0o600), True),
        (lambda file: os.link(file, file.with_name("link")), True),
        (lambda file: os.utime(file, ns=(1, 1)), False),
        (lambda file: file.write_bytes(file.read_bytes()), False),
        (lambda file: file.write_bytes(b""), False),
        (lambda file: shutil.copy2(file, "b") and os.replace("b", file), False),
    ],
)
def test_a_stamp_shows_every_touch(
    project: Project,
    tree: Tree,
    monkeypatch: pytest.MonkeyPatch,
    touch: Callable[[Path], object],
    is_same_but_ctime: bool,  # noqa: FBT001 - a column of the table
) -> None:
    monkeypatch.chdir(project.root)
    file = project.write("a", b"one")
    os.utime(file, ns=(10**18, 10**18))
    before = stamps(tree, [b"a", b"none", b"."])
    assert list(before) == [b"a"]
    touch(file)
    after = stamps(tree, [b"a"])[b"a"]
    assert after != before[b"a"]
    assert same_but_ctime(after, before[b"a"]) is is_same_but_ctime
    assert stamp_of(file.lstat()) == after


@pytest.mark.rule("S13", "S15")
def test_globs_of_the_manifest_can_name_strange_names(project: Project) -> None:
    covers = ("src/a b ", "src/new\nline", 'src/quo"te', "src/caf?", "src/\\[a\\]", "src/star\\*")
    for name in (b"a b ", b"new\nline", b'quo"te', b"caf\xe9", b"[a]", b"star*"):
        project.write(os.fsdecode(b"src/" + name), "x")
    project.write("mutations/it.patch", "")
    project.check("true", covers=covers)
    assert project.states() == {"greeting/text": "unverified"}
