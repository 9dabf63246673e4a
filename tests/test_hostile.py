"""A hostile repository: nothing outside is ever written, nothing hangs, memory stays bounded."""

from __future__ import annotations

import contextlib
import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from ground import IS_ROOT, snapshot
from inside import stock
from project import Project, quoted
from roxy.core.digests import Digests
from roxy.core.errors import RoxyError
from roxy.core.model import State

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from ground import Seen
    from project import Done
    from roxy.core.working_tree import Stamp

MIB = 1 << 20
GREETS = "grep -q hello src/greeting.txt"
EDIT = "@@ -1,3 +1,3 @@\n one\n-hello\n+howdy\n three\n"


def around(project: Project) -> dict[bytes, Seen]:
    """Return all that roxy may not write: the tree, the rest of `.git`, and what is beside them."""
    top = project.root.parent
    mine = {os.fsencode((project.root / name).relative_to(top)) for name in ("roxy.lock",)}
    state = os.fsencode(project.state.relative_to(top))
    return {
        path: seen
        for path, seen in snapshot(top).items()
        if path not in mine and path != state and not path.startswith(state + b"/")
    }


def assert_plain(done: Done, *codes: int) -> None:
    """Hold that roxy answered, in a sentence, and not by falling over."""
    assert done.code in codes, done
    assert done.err + done.out
    assert "Traceback" not in done.err + done.out
    assert "bug in roxy" not in done.err + done.out


@pytest.fixture
def outside(tmp_path: Path, project: Project) -> Path:
    """Return a folder beside the project, with a file of the same content as the covered one."""
    project.greet()
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "greeting.txt").write_bytes(project.read("src/greeting.txt"))
    return folder


# ------------------------------------------------------------------- patches

PLACES = {
    "above": "../outside/greeting.txt",
    "above by a detour": "src/../../outside/greeting.txt",
    "above, quoted": '"\\056\\056/outside/greeting.txt"',
    "absolute": "/greeting.txt",
    "git": ".git/greeting.txt",
    "git in capitals": ".GIT/greeting.txt",
    "git in short": "git~1/greeting.txt",
    "git with an invisible letter": ".g\u200cit/greeting.txt",
    "git of a submodule": "src/.git/greeting.txt",
    "modules": ".git/modules/x/greeting.txt",
    "through a link to the outside": "src/out/greeting.txt",
    "through a link to git": "src/git/greeting.txt",
    "the link itself": "src/link.txt",
    "a nested repository": "nested/greeting.txt",
    "roxy.lock": "roxy.lock",
    "roxy's own folder": ".git/roxy/greeting.txt",
}
"""Places that a mutation may not reach, as a patch names them. Each holds the lines of the edit."""


def _prefixed(prefix: str, place: str) -> str:
    return f'"{prefix}{place[1:]}' if place.startswith('"') else prefix + place


WAYS: dict[str, Callable[[str], str]] = {
    "plain": lambda to: f"--- {_prefixed('a/', to)}\n+++ {_prefixed('b/', to)}\n{EDIT}",
    "git": lambda to: (
        f"diff --git {_prefixed('a/', to)} {_prefixed('b/', to)}\n"
        f"--- {_prefixed('a/', to)}\n+++ {_prefixed('b/', to)}\n{EDIT}"
    ),
    "other header": lambda to: (
        f"diff --git a/src/greeting.txt b/src/greeting.txt\n"
        f"--- {_prefixed('a/', to)}\n+++ {_prefixed('b/', to)}\n{EDIT}"
    ),
    "to there": lambda to: f"--- a/src/greeting.txt\n+++ {_prefixed('b/', to)}\n{EDIT}",
    "rename": lambda to: (
        f"diff --git a/src/greeting.txt {_prefixed('b/', to)}\nsimilarity index 100%\n"
        f"rename from src/greeting.txt\nrename to {to}\n"
    ),
    "copy": lambda to: (
        f"diff --git a/src/greeting.txt {_prefixed('b/', to)}\nsimilarity index 100%\n"
        f"copy from src/greeting.txt\ncopy to {to}\n"
    ),
    "creation": lambda to: (
        f"diff --git {_prefixed('a/', to)} {_prefixed('b/', to)}\nnew file mode 120000\n"
        f"--- /dev/null\n+++ {_prefixed('b/', to)}\n@@ -0,0 +1 @@\n+/etc/passwd\n"
    ),
    "mode": lambda to: (
        f"diff --git {_prefixed('a/', to)} {_prefixed('b/', to)}\n"
        f"old mode 100644\nnew mode 120000\n"
        f"--- {_prefixed('a/', to)}\n+++ {_prefixed('b/', to)}\n{EDIT}"
    ),
}
"""How a patch can lead to a place."""


def _furnish(project: Project, outside: Path) -> None:
    """Put the lines of the edit wherever the places are, as far as there can be such a place."""
    content = project.read("src/greeting.txt")
    (project.root / "src/out").symlink_to(outside)
    (project.root / "src/git").symlink_to(project.root / ".git")
    (project.root / "src/link.txt").symlink_to(outside / "greeting.txt")
    for place in PLACES.values():
        if place.startswith(("src/.git", ".git/", ".GIT", "git~1", ".g\u200cit")):
            project.write(place, content)
    Project.make(project.root / "nested").write("greeting.txt", content)


def _is_read_by_git(empty: Path, patch: Path) -> bool:
    arguments = ["git", "apply", "--numstat", "--check", str(patch)]
    return subprocess.run(arguments, cwd=empty, check=False, capture_output=True).returncode < 128


@pytest.mark.rule("S18", "S19", "S21", "S28", "S48")
def test_no_patch_leads_out_of_the_covered_files(
    project: Project, outside: Path, make_project: Callable[[str], Project]
) -> None:
    _furnish(project, outside)
    empty = make_project("far/away/empty").root
    readable, garbage = [], []
    for index, (place, way) in enumerate((place, way) for place in PLACES for way in WAYS):
        patch = project.write(f"mutations/{index}.patch", WAYS[way](PLACES[place]))
        name = f"{place}, {way}".replace("/", "-")
        (readable if _is_read_by_git(empty, patch) else garbage).append((name, index))
    assert readable
    assert garbage
    for patches in (readable, garbage):
        (project.root / "roxy.toml").unlink()
        for name, index in patches:
            project.check(GREETS, name=name, covers=("**",), mutation=f"mutations/{index}.patch")
        before = around(project)
        done = project.roxy("verify")
        assert around(project) == before
        if patches is readable:
            assert_plain(done, 1)
            assert [
                name for name, _ in patches if f"rejected greeting/{name}: " not in done.out
            ] == []
        else:
            assert_plain(done, 2)
            assert [
                index for _, index in patches if f"mutations/{index}.patch" not in done.err
            ] == []


@pytest.mark.rule("S17", "S18", "S20")
@pytest.mark.parametrize(
    ("patch", "codes"),
    [
        ("--- a/src/greeting.txt\n+++ b/src/greeting.txt\n" + EDIT.replace("howdy", "ho\0dy"), {0}),
        ("--- a/src/greeting.txt\0x\n+++ b/src/greeting.txt\0x\n" + EDIT, {0, 1, 2}),
        (
            "--- a/src/greeting.txt\n+++ b/src/greeting.txt\n"
            + EDIT.replace("-1,", "-9" * 7 + ","),
            {0, 2},
        ),
        (
            "--- a/src/greeting.txt\n+++ b/src/greeting.txt\n"
            + EDIT.replace("-1,3", "-1," + "9" * 30),
            {2},
        ),
        ("--- a/src/greeting.txt\n+++ b/src/greeting.txt\n" + EDIT.replace("-1,", "--1,"), {2}),
        ("--- a/../outside/greeting.txt\n+++ b/src/greeting.txt\n" + EDIT, {0, 1}),
        ("\0" * 100_000, {2}),
        ("@@ -1 +1 @@\n" * 100_000, {2}),
        ("diff --git a/src/greeting.txt b/src/greeting.txt\n" * 100_000, {2}),
        (
            "diff --git a/src/greeting.txt b/src/greeting.txt\nindex 1111111..2222222 160000\n"
            "--- a/src/greeting.txt\n+++ b/src/greeting.txt\n" + EDIT,
            {0, 1},
        ),
        (
            (
                f"diff --git a/src/greeting.txt b/src/greeting.txt\nindex {'a' * 40}..{'b' * 40} 100644\n"
                "GIT binary patch\nliteral 99999999999\nzcmV\n\n"
            ),
            {1, 2},
        ),
    ],
    ids=[
        "NUL",
        "NUL name",
        "far",
        "huge",
        "negative",
        "other",
        "zeros",
        "no header",
        "headers",
        "module",
        "binary",
    ],
)
def test_no_patch_makes_roxy_fall_over(
    project: Project, outside: Path, patch: str, codes: set[int]
) -> None:
    assert outside.is_dir()
    project.write("mutations/it.patch", patch)
    before = around(project)
    assert_plain(project.roxy("verify"), *codes)
    assert around(project) == before


@pytest.mark.rule("S11", "S18")
def test_memory_is_bounded_whatever_the_size_of_patches(project: Project) -> None:
    project.greet()
    patch = project.root / "mutations/it.patch"
    os.truncate(patch, 100 * MIB)
    done, peak = project.measured("verify")
    assert_plain(done, 2)
    assert "`mutations/it.patch` is larger than 32 MiB" in done.err
    assert peak < 150 * MIB
    os.truncate(patch, 31 * MIB)
    names = [f"mutations/{number}.patch" for number in range(20)]
    for name in names:
        (project.root / name).symlink_to(patch)
    project.check(GREETS, name="many", mutation=tuple(names))
    done, peak = project.measured("status")
    assert_plain(done, 2)
    assert "are together larger than 64 MiB" in done.err
    assert peak < 200 * MIB


@pytest.mark.rule("S17", "S20")
def test_memory_is_bounded_for_a_long_hunk_and_for_many_hunks(project: Project) -> None:
    count = 10_000
    project.write("src/many.txt", "a\n" * count)
    project.write("src/long.txt", "a\n")
    hunks = "".join(f"@@ -{line} +{line} @@\n-a\n+b\n" for line in range(1, count + 1))
    project.write("mutations/many.patch", f"--- a/src/many.txt\n+++ b/src/many.txt\n{hunks}")
    lines = f"@@ -1 +1,{MIB} @@\n-a\n" + "+b\n" * (MIB)
    project.write("mutations/long.patch", f"--- a/src/long.txt\n+++ b/src/long.txt\n{lines}")
    for name in ("many", "long"):
        project.check(f"! grep -q b src/{name}.txt", name=name, mutation=f"mutations/{name}.patch")
    before = around(project)
    done, peak = project.measured("verify")
    assert around(project) == before
    assert_plain(done, 0)
    assert peak < 150 * MIB


# ------------------------------------------------------------------- roxy.toml

CHECK = '[claims.c.checks.k]\nrun = "x"\nmutation = "mutations/it.patch"\n'
MANIFESTS: dict[str, tuple[Callable[[], str], str]] = {
    "50 MB": (lambda: "#" * (50 * MIB), "`roxy.toml` is larger than 4 MiB"),
    "deep lists": (lambda: "x = " + "[" * 300_000, "nested too deeply"),
    "deep tables": (lambda: "x = " + "{a=" * 300_000, "nested too deeply"),
    "wide in deep": (
        lambda: CHECK + "covers = ['src/**']\nx = " + "[" * 300 + "1," * 200_000 + "]" * 300,
        "unknown key `x`",
    ),
    "unknown keys": (
        lambda: CHECK + "".join(f"k{number}=1\n" for number in range(10_000)),
        "unknown key `k9999`",
    ),
    "repeated tables": (lambda: "[a]\n" * 20_000, "duplicate table `a`"),
    "numbers for globs": (
        lambda: f"{CHECK}covers = [{'1,' * 60_000}]\n",
        "`covers` must hold only strings",
    ),
    "misspelt keys": (
        lambda: "".join(f'[claims.c.checks.k{number}]\nrn="x"\n' for number in range(8_000)),
        "did you mean `run`?",
    ),
    "braces": (
        lambda: CHECK + f"covers = {quoted([f'{n}' + '{a,b}' * 10 for n in range(150)])}\n",
        "mean too much together",
    ),
    "globs without a file": (
        lambda: CHECK + f"covers = {quoted([f'none/{n}' for n in range(1_000)])}\n",
        "the glob `none/999` matches no file",
    ),
}
"""What is in roxy.toml, and words of the answer."""


@pytest.mark.rule("S10", "S13", "S14", "S48")
@pytest.mark.parametrize("kind", MANIFESTS)
def test_no_manifest_takes_roxy_much_time_or_memory(project: Project, kind: str) -> None:
    project.greet()
    text, words = MANIFESTS[kind]
    project.write("roxy.toml", text())
    done, peak = project.measured("status")
    assert_plain(done, 2)
    assert words in done.err
    assert peak < 300 * MIB


@pytest.mark.rule("S10", "S16")
def test_thousands_of_checks_are_answered(project: Project) -> None:
    project.greet()
    check = project.read("roxy.toml").decode()
    checks = (check.replace('"text"', f'"text{number}"') for number in range(2_000))
    project.write("roxy.toml", "".join(checks))
    done, peak = project.measured("status")
    assert done.code == 0
    assert done.out.endswith("2000 checks: 2000 unverified\n")
    assert peak < 150 * MIB


HOSTILE_GLOBS = {
    "*a" * 2_000 + "*b": 2,
    "**/" * 1_300 + "b": 2,
    "{" * 4_000: 2,
    "{a," * 1_300 + "b" + "}" * 1_300: 2,
    "{a,b}" * 800: 2,
    "{a,{b,{c,{d,{e,{f,*}}}}}}/**": 0,
    "{src,{src,{src,{src}}}}/*e*e*t*n*.*t": 0,
    "[!" * 2_000: 2,
    "\\" * 4_095: 2,
    "x" * 5_000: 2,
}
"""Globs, and whether each can be used alone; those that can match something match a file."""


@pytest.mark.rule("S13", "S14", "S48")
def test_no_glob_takes_roxy_much_time_or_memory(project: Project) -> None:
    project.greet()
    name = "/".join(["a" * 250] * 10)
    project.write(f"a/{name}.txt", "")
    for code in (0, 2):
        (project.root / "roxy.toml").unlink()
        for number, (text, wanted) in enumerate(HOSTILE_GLOBS.items()):
            if wanted == code:
                project.check(GREETS, name=f"{number}", covers=(text,))
        done, peak = project.measured("status")
        assert_plain(done, code)
        assert peak < 100 * MIB


# ------------------------------------------------------------------- what changes its kind

KINDS = {
    "link": 'ln -s "$OUTSIDE/greeting.txt" src/greeting.txt',
    "link to nothing": 'ln -s "$OUTSIDE/none" src/greeting.txt',
    "link to zeros": "ln -s /dev/zero src/greeting.txt",
    "hard link": 'ln "$OUTSIDE/greeting.txt" src/greeting.txt',
    "FIFO": "mkfifo src/greeting.txt",
    "folder": "mkdir src/greeting.txt",
    "device": "mknod src/greeting.txt c 1 5",
    "nothing": ":",
    "folder is a link": 'rm -rf src; ln -s "$OUTSIDE" src',
    "folder is a file": "rm -rf src; : > src",
}
"""What comes in the place of a covered file."""


@pytest.fixture(params=KINDS)
def swap(request: pytest.FixtureRequest, outside: Path) -> str:
    """Return a command that puts something else in place of the covered file."""
    if request.param == "device" and not IS_ROOT:
        pytest.skip("only root can make a device")
    command = KINDS[request.param].replace("$OUTSIDE", str(outside))
    return f"rm -rf src/greeting.txt; {command}"


def _outside_only(project: Project) -> dict[bytes, Seen]:
    tree, git = (os.fsencode(project.root.name) + end for end in (b"/", b"/.git/"))
    return {
        path: seen
        for path, seen in around(project).items()
        if not path.startswith(tree) or path.startswith(git)
    }


@pytest.mark.rule("S26", "S28")
def test_a_covered_file_that_the_clean_run_swaps_leads_nowhere(project: Project, swap: str) -> None:
    project.write("roxy.toml", "")
    project.check(f"{GREETS} || exit 1; {swap}")
    before = _outside_only(project)
    done = project.roxy("verify")
    assert_plain(done, 1, 2)
    assert _outside_only(project) == before
    assert b"sha256" not in project.read("roxy.lock")


@pytest.mark.rule("S12", "S26")
def test_a_covered_file_that_is_swapped_between_listing_and_reading_is_not_read(
    project: Project, swap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_stamped = Digests.read_stamped
    swaps = [swap]

    def swapped(digests: Digests, stamps: Mapping[bytes, Stamp]) -> dict[bytes, bytes]:
        while swaps:
            subprocess.run(["sh", "-c", swaps.pop()], cwd=project.root, check=True)
        return read_stamped(digests, stamps)

    before = _outside_only(project)
    monkeypatch.setattr(Digests, "read_stamped", swapped)
    with contextlib.suppress(RoxyError):
        states = [entry.state for entry in stock(project).report.entries]
        assert states == [State.UNVERIFIED]
    assert not swaps
    assert _outside_only(project) == before


# ------------------------------------------------------------------- roxy's own folder

OWN_FILES = (
    "holder.json.new",
    "journal/entry.json",
    "journal/entry.json.new",
    "journal/run.json",
    "journal/run.json.new",
    "journal/copy-0",
    f"receipts/20990101T000000.000000Z-none-{'0' * 64}.json",
)


@pytest.mark.rule("S8", "S33", "S48")
@pytest.mark.parametrize("name", OWN_FILES)
@pytest.mark.parametrize("kind", ["FIFO", "hard link"])
def test_a_file_of_roxys_that_is_none_holds_nothing_up_and_leads_nowhere(
    project: Project, outside: Path, name: str, kind: str
) -> None:
    file = project.state / name
    file.parent.mkdir(parents=True)
    if kind == "FIFO":
        os.mkfifo(file)
    else:
        os.link(outside / "greeting.txt", file)
    before = _outside_only(project)
    assert_plain(project.roxy("verify"), 0, 2)
    assert _outside_only(project) == before


@pytest.mark.rule("S5", "S28", "S48")
@pytest.mark.parametrize("name", ["logs", "receipts", "journal", "scratch", "kept", "."])
def test_a_folder_of_roxys_that_becomes_a_link_is_not_written_through(
    project: Project, outside: Path, name: str
) -> None:
    place = os.path.normpath(project.state / name)
    project.write("roxy.toml", "")
    project.check(f'rm -rf "{place}"; ln -s "{outside}" "{place}"; {GREETS}')
    before = snapshot(outside)
    assert_plain(project.roxy("verify"), 0, 1, 2)
    assert snapshot(outside) == before
    assert project.read("src/greeting.txt") == b"one\nhello\nthree\n"


@pytest.mark.rule("S8", "S48")
@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"process": {"pid": 1e999}}', "[]", '{"process": 7}']
)
def test_a_note_of_the_lock_that_roxy_did_not_write_is_about_nobody(
    project: Project, text: str
) -> None:
    project.greet()
    assert project.roxy("status").code == 0
    (project.state / "holder.json").write_text(text)
    (project.state / "exclusive.lock").unlink()
    assert_plain(project.roxy("status"), 0)
