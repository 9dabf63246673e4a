"""`roxy try`: edits become a mutation, nothing of them is lost, and nothing is recorded."""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from importlib import resources
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from ground import Faults, Ground, Killed, Meddler, disk_error
from handshake import hooked
from lab import Lab
from project import HANG, LONG_AGO, Project
from roxy.core import coverage, diff
from roxy.core.desk import Desk
from roxy.core.destination import find_destination, point
from roxy.core.errors import ConfigError, DiskError, UsageError
from roxy.core.git import find_repository
from roxy.core.interrupts import Interrupts
from roxy.core.journal import ChangedMeanwhileError
from roxy.core.kept import keep_copies
from roxy.core.mutation import Scratch
from roxy.core.session import open_session
from roxy.core.unstaged import Unstaged, take
from roxy.core.working_tree import Tree
from test_preload import LATE
from test_reports import closed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

GOOD = b"one\nhello\nthree\n"
BAD = b"one\nhowdy\nthree\n"
OTHER = "one\nbye\nthree\n"


def edit(project: Project, content: str | bytes = OTHER) -> None:
    """Edit the covered file, as somebody did long ago."""
    os.utime(project.write("src/greeting.txt", content), (LONG_AGO + 5, LONG_AGO + 5))


def staged(project: Project) -> Project:
    """Give a project with good work staged, and no commit."""
    project.greet()
    project.git("add", "--all")
    return project


def kept(project: Project) -> list[bytes]:
    folder = project.state / "kept"
    return [path.read_bytes() for path in sorted(folder.iterdir())] if folder.exists() else []


def schema(name: str) -> Any:
    return json.loads(resources.files("roxy").joinpath("schemas", name).read_text("utf-8"))


# ------------------------------------------------------------------- the whole command


def test_try_edits_takes_them_for_the_mutation_and_puts_the_files_back(project: Project) -> None:
    staged(project)
    edit(project)
    shown = project.git("diff")
    done = project.roxy("try", "greeting", "--edits", "--color", "always")
    assert done.code == 0, done
    assert "\x1b[32mverified\x1b[0m greeting/text\n" in done.out
    assert "\x1b[31m-hello\x1b[0m" in done.out
    assert done.out.endswith("only a try: nothing is recorded\n")
    assert project.read("src/greeting.txt") == GOOD
    assert kept(project) == [OTHER.encode()]
    (place,) = (project.state / "kept").iterdir()
    assert f"your edits of `src/greeting.txt` are kept as `{place}`\n" in done.err
    assert f"`cp {place} src/greeting.txt` brings it back\n" in done.err
    assert project.git("diff") == ""
    assert "+bye" in shown
    assert not (project.root / "roxy.lock").exists()
    assert not (project.state / "receipts").exists()
    assert project.states() == {"greeting/text": "unverified"}


def test_try_edits_save_writes_the_patch_and_lets_roxy_toml_name_it(project: Project) -> None:
    staged(project)
    manifest = project.read("roxy.toml").replace(b"\n", b"\r\n")
    project.write("roxy.toml", b"\xef\xbb\xbf# why\r\n" + manifest)
    edit(project)
    shown = project.git("diff", "src")
    (project.root / "src/deep").mkdir()
    words = ("--json", "try", "--edits", "--save", "../../patches/new/it.patch")
    done = project.roxy(*words, cwd=project.root / "src/deep")
    assert done.code == 0, done
    jsonschema.Draft7Validator(closed(schema("try.json"))).validate(done.json)
    assert done.json["saved"] == "patches/new/it.patch"
    assert done.json["patch"]["text"] == shown
    assert [run["phase"] for run in done.json["runs"]] == ["clean", "mutated", "restored"]
    assert project.read("patches/new/it.patch").decode() == shown
    expected = manifest.replace(b"mutations/it.patch", b"patches/new/it.patch")
    assert project.read("roxy.toml") == b"\xef\xbb\xbf# why\r\n" + expected
    assert (kept(project), done.json["edits_kept"], "cp" in done.err) == ([], [], False)
    assert project.roxy("verify").code == 0


def test_try_whose_mutation_is_not_noticed_is_rejected_and_saves_nothing(project: Project) -> None:
    staged(project)
    edit(project, GOOD + b"four\n")
    before = project.read("roxy.toml")
    done = project.roxy("try", "--edits", "--save", "mutations/it.patch")
    assert done.code == 1
    assert "rejected greeting/text: the mutated run passed (exit code 0)" in done.out
    assert done.out.endswith("only a try: nothing is recorded or saved\n")
    assert b"howdy" in project.read("mutations/it.patch")
    assert project.read("roxy.toml") == before
    assert project.read("src/greeting.txt") == GOOD
    assert kept(project) == [GOOD + b"four\n"]


def test_a_copy_that_the_saved_patch_does_not_make_anew_stays(project: Project) -> None:
    project.write(".gitattributes", "* text\n")
    staged(project)
    edit(project, OTHER.replace("\n", "\r\n"))
    (project.root / "a b").mkdir()
    done = project.roxy("try", "--edits", "--save", "../it.patch", cwd=project.root / "a b")
    assert done.code == 0, done
    (place,) = (project.state / "kept").iterdir()
    command = f"cp {place} ../src/greeting.txt"
    assert f"`{command}` brings it back\n" in done.err
    subprocess.run(shlex.split(command), cwd=project.root / "a b", check=True)
    assert project.read("src/greeting.txt") == OTHER.replace("\n", "\r\n").encode()


@pytest.mark.rule("S17", "S18")
def test_try_patch_is_found_from_where_the_user_stands_and_leaves_evidence_alone(
    verified: Project,
) -> None:
    lock, receipts = verified.read("roxy.lock"), os.listdir(verified.state / "receipts")
    patch = verified.mutation("src/greeting.txt", "hello", "bye", "src/here.patch")
    done = verified.roxy("try", "--patch", "here.patch", cwd=verified.root / "src")
    assert done.code == 0, done
    assert "+bye" in done.out
    verified.write(patch, "diff --git a/src/x b/src/x\nnew file mode 100644\n")
    done = verified.roxy("try", "--patch", patch)
    assert done.code == 1
    assert "creates `src/x`" in done.out
    assert verified.read("roxy.lock") == lock
    assert os.listdir(verified.state / "receipts") == receipts


@pytest.mark.rule("S19", "S43")
def test_try_of_what_is_no_patch_judges_nothing(project: Project) -> None:
    staged(project)
    os.mkfifo(project.root / "fifo")
    project.write("garbage", "no patch\n")
    for name, words in {
        "fifo": "is a FIFO",
        "garbage": "git cannot read the mutation",
        "none": "does not exist",
    }.items():
        done = project.roxy("try", "--patch", name)
        assert (done.code, words in done.err) == (2, True), done
    assert "and not both" in project.roxy("try", "--patch", "x", "--edits").err


@pytest.mark.rule("S51")
def test_try_loads_nothing_once_the_check_has_started(project: Project, tmp_path: Path) -> None:
    marker, record = tmp_path / "marker", tmp_path / "record"
    project.greet(f": >{marker}; grep -q hello src/greeting.txt")
    project.git("add", "--all")
    edit(project)
    env = hooked(tmp_path / "hook", LATE) | {"LATE": f"{record}|{marker}"}
    done = project.roxy("try", "--edits", "--save", "new.patch", env=env)
    assert (done.code, record.read_text()) == (0, ""), done


# ------------------------------------------------------------------- what is taken


def taken(project: Project, seen: Callable[[Unstaged], None] = lambda _: None) -> Unstaged:
    """Take the edits of the only check; `seen` may look while its files are there."""
    with open_session(
        project.root, os.environ, Interrupts(), "roxy try", 0, lambda _line: None
    ) as session:
        (check,) = session.manifest.checks
        covered = coverage.find_covered(session.repository, session.tree, [check])
        desk = Desk(session.repository)
        unstaged = take(session.repository, session.tree, desk, check, covered.files[check.id])
        seen(unstaged)
        desk.clear()
    return unstaged


CRLF = GOOD.replace(b"\n", b"\r\n")
OTHER_ENDS = "other line ends on the disk"
LEGACY = "CRLF in the index with text=auto"
FORMS = {
    "plain": ("", {}, GOOD, BAD),
    "without a newline at the end": ("", {}, GOOD[:-1], BAD[:-1]),
    "emptied": ("", {}, GOOD, b""),
    "binary": ("", {}, b"\0" + GOOD, b"\0" + BAD),
    "CRLF": ("", {}, CRLF, CRLF.replace(b"hello", b"howdy")),
    "converted": ("* text eol=crlf\n", {}, CRLF, CRLF.replace(b"hello", b"howdy")),
    OTHER_ENDS: ("* text\n", {}, GOOD, CRLF.replace(b"hello", b"howdy")),
    "autocrlf": ("", {"core.autocrlf": "true"}, CRLF, CRLF.replace(b"hello", b"howdy")),
    LEGACY: ("* text=auto\n", {}, CRLF, CRLF.replace(b"o", b"O")),
    "keywords": ("* ident\n", {}, b"$Id$\n" + GOOD, b"$Id$\n" + BAD),
    "UTF-16": (
        "*.txt working-tree-encoding=UTF-16LE\n",
        {},
        GOOD.decode().encode("utf-16le"),
        BAD.decode().encode("utf-16le"),
    ),
}


@pytest.mark.rule("S7", "S17", "S21")
@pytest.mark.parametrize("form", FORMS)
def test_what_is_taken_is_what_git_diff_shows_and_what_comes_back_is_what_git_would_write(
    project: Project, form: str
) -> None:
    attributes, settings, good, bad = FORMS[form]
    project.write("src/grüße.txt", b"")
    project.check("true")
    project.write(
        "mutations/it.patch", "diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-a\n+b\n"
    )
    if form == LEGACY:
        project.write("src/grüße.txt", good)
        project.git("add", "--all")
    project.write(".gitattributes", attributes)
    for key, value in settings.items():
        project.git("config", key, value)
    project.write("src/grüße.txt", good)
    project.git("add", "--all")
    (project.root / "src/grüße.txt").unlink()
    project.git("checkout-index", "src/grüße.txt")
    written = project.read("src/grüße.txt")
    project.write("src/grüße.txt", bad)
    shown = subprocess.check_output(["git", "diff", "--binary"], cwd=project.root)
    hostile = {
        "diff.noprefix": "true",
        "diff.context": "0",
        "diff.external": "false",
        "core.abbrev": "20",
        "color.ui": "always",
    }
    for key, value in hostile.items():
        project.git("config", key, value)
    back: list[bytes] = []
    unstaged = taken(project, lambda one: back.extend(e.source.read_bytes() for e in one.edits))
    assert unstaged.patch == shown
    assert back == [written]
    project.write("src/grüße.txt", written)
    lab = Lab(project.root, Scratch(find_repository(project.root, os.environ), Tree(project.root)))
    fitted = lab.fit(unstaged.patch, "src/grüße.txt")["src/grüße.txt"]
    fitted = re.sub(rb"\$Id: [0-9a-f]+ \$", b"$Id$", fitted)
    assert fitted == (bad.replace(b"\r", b"") if form == OTHER_ENDS else bad)
    assert unstaged.is_staged


def conflict(project: Project) -> None:
    blob = project.git("hash-object", "-w", "src/greeting.txt").strip()
    lines = "".join(f"100644 {blob} {stage}\tsrc/greeting.txt\n" for stage in (1, 2, 3))
    subprocess.run(
        ["git", "update-index", "--index-info"], cwd=project.root, input=lines.encode(), check=True
    )


def add_filter(project: Project) -> None:
    project.git("config", "filter.f.clean", f"touch {project.root}/ran; cat")
    project.write(".gitattributes", "src/*.txt filter=f\n")
    edit(project)


def link(project: Project) -> None:
    (project.root / "src/greeting.txt").unlink()
    (project.root / "src/greeting.txt").symlink_to("more.txt")


def hide_attributes(project: Project) -> None:
    info = project.root / ".git/info"
    info.mkdir(exist_ok=True)
    (info / "attributes").write_text("*.txt eol=crlf\n")
    edit(project)


REFUSED: dict[str, tuple[Callable[[Project], object], str]] = {
    "nothing edited": (lambda _: None, "has unstaged edits"),
    "only staged edits": (
        lambda project: (project.commit(), edit(project), project.git("add", "src")),
        "has unstaged edits, only staged ones: `src/greeting.txt`",
    ),
    "only edits of files that are not covered": (
        lambda project: project.write("roxy.toml", project.read("roxy.toml") + b"\n"),
        "has unstaged edits; edited is `roxy.toml`",
    ),
    "only a file that was touched": (
        lambda project: os.utime(project.root / "roxy.toml", (1, 1)),
        "no file that `greeting/text` covers has unstaged edits",
    ),
    "a new file": (lambda project: project.write("src/new.txt", "x\n"), "`src/new.txt` is new"),
    "a file to be added": (
        lambda project: (project.write("src/new.txt", "x\n"), project.git("add", "-N", "src")),
        "`src/new.txt` is new",
    ),
    "a deleted file": (
        lambda project: (project.root / "src/more.txt").unlink(),
        "`src/more.txt` was deleted",
    ),
    "a mode": (
        lambda project: (project.root / "src/greeting.txt").chmod(0o755),
        "the mode of `src/greeting.txt` was changed",
    ),
    "a link": (link, "`src/greeting.txt` is of another kind"),
    "a conflict": (conflict, "has conflicts in the index"),
    "a filter": (add_filter, "filter `f` in force for `src/greeting.txt`"),
    "attributes": (
        lambda project: project.write("src/.gitattributes", "* text\n"),
        "`src/.gitattributes` says how git stores other files",
    ),
    "hidden attributes": (hide_attributes, "the attribute `eol` as `crlf`"),
}


@pytest.mark.rule("S18", "S21")
@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_edits_that_no_mutation_may_make_are_refused_and_nothing_is_touched(
    project: Project, case: tuple[Callable[[Project], object], str]
) -> None:
    spoil, words = case
    project.write("src/more.txt", "more\n")
    project.write("src/.gitattributes", "")
    staged(project)
    spoil(project)
    before = project.snapshot()
    with pytest.raises(UsageError) as refusal:
        taken(project)
    assert words in refusal.value.faults[0].what
    assert ("edited is" in refusal.value.faults[0].what) == ("edited is" in words)
    assert project.snapshot() == before
    assert not (project.state / "kept").exists()
    assert not (project.root / "ran").exists()


def test_work_that_was_never_staged_is_not_taken_without_force(project: Project) -> None:
    staged(project)
    project.write("src/more.txt", "more\n")
    project.commit()
    edit(project)
    taken(project).refuse_work()
    project.write("src/more.txt", "bye\n")
    with pytest.raises(UsageError, match="4 lines in 2 files"):
        taken(project).refuse_work()
    before = project.snapshot()
    assert project.roxy("try", "--edits").code == 2
    assert project.snapshot() == before
    project.git("add", "src/more.txt")
    taken(project).refuse_work()
    project.git("reset", "--quiet", "--hard")
    edit(project, "".join(f"{number}\n" for number in range(30)))
    with pytest.raises(UsageError, match="33 lines in 1 file"):
        taken(project).refuse_work()


def test_edits_that_make_a_patch_too_large_to_be_read_again_are_refused(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    staged(project)
    edit(project)
    monkeypatch.setattr(diff, "MAX_PATCH", len(project.git("diff")))
    taken(project)
    monkeypatch.setattr(diff, "MAX_PATCH", len(project.git("diff")) - 1)
    with pytest.raises(UsageError, match="the patch would be larger"):
        taken(project)


# ------------------------------------------------------------------- nothing is lost

FILES = {b"src/a": b"good a\n", b"src/deep/b": b"good b\n"}
EDITED = {path: content.replace(b"good", b"edited") for path, content in FILES.items()}


def ground_with_edits(top: Path) -> Ground:
    ground = Ground.make(top)
    for path, content in EDITED.items():
        ground.write(path, content, 0o640)
    return ground


def put_back(ground: Ground) -> None:
    """Do what a try does: keep the edits, then put back what the index has."""
    edits = [ground.edit(path, content) for path, content in FILES.items()]
    tree = Tree(ground.root)
    try:
        _, held = keep_copies(tree, ground.state / "kept", list(FILES))
    finally:
        tree.close()
    assert held == tuple(one.old for one in edits)
    with ground.patched(*edits) as patched:
        patched.stays = True


def held(ground: Ground) -> dict[bytes, bytes]:
    return {path: ground.path(path).read_bytes() for path in FILES}


@pytest.mark.rule("S28", "S29", "S33")
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_whenever_roxy_is_killed_the_edits_are_in_the_tree_or_kept(
    tmp_path: Path, *, after: bool
) -> None:
    ends = []
    for number in range(1000):
        ground = ground_with_edits(tmp_path / str(number))
        disk = Faults(at=number, after=after)
        try:
            with disk.at_work():
                put_back(ground)
        except Killed:
            pass
        ground.recover()
        assert not ground.leftovers()
        assert held(ground) in (EDITED, FILES)  # both files or none
        ends.append(held(ground) == FILES)
        if ends[-1]:
            whole = {seen.content for seen in ground.kept().values()}
            assert set(EDITED.values()) <= whole
        assert {seen.mode for seen in ground.snapshot().values() if seen.kind == "-"} == {0o640}
        if not disk.fired:
            break
    assert ends == sorted(ends)  # once the last of them is done, it stays done
    assert set(ends) == {False, True}


@pytest.mark.rule("S28", "S33")
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_whenever_the_disk_fails_once_all_files_are_as_they_were_or_all_are_put_back(
    tmp_path: Path, number: int
) -> None:
    for at in range(1000):
        ground = ground_with_edits(tmp_path / str(at))
        disk = Faults(at=at, error=disk_error(number), lasting=False)
        try:
            with disk.at_work():
                put_back(ground)
        except (DiskError, OSError):
            pass
        ground.recover()
        assert held(ground) in (EDITED, FILES)
        if held(ground) == FILES:
            assert set(EDITED.values()) <= {seen.content for seen in ground.kept().values()}
        if not disk.fired:
            return


@pytest.mark.rule("S29")
@pytest.mark.parametrize("at", [0, 1])
def test_what_an_editor_saves_at_the_very_moment_stays_and_so_do_the_edits(
    tmp_path: Path, at: int
) -> None:
    ground = ground_with_edits(tmp_path)
    path = list(FILES)[at]
    editor = Meddler(lambda: ground.path(path).write_bytes(b"new save\n"), at)
    with editor.at_work(), pytest.raises(ChangedMeanwhileError):
        put_back(ground)
    assert editor.acted
    assert held(ground) == {**EDITED, path: b"new save\n"}
    assert set(EDITED.values()) <= {seen.content for seen in ground.kept().values()}


KILL = """
import os, signal, sys
if "KILL_AT" in os.environ:
    name, part, left = os.environ.pop("KILL_AT").split("|")
    left = [None] * int(left)
    def hook(event, arguments):
        if event == name and any(part in str(one) for one in arguments):
            left.pop()
            if not left: os.kill(os.getpid(), signal.SIGKILL)
    sys.addaudithook(hook)
"""
MOMENTS = {
    "before the edits are kept": ("os.mkdir|/kept|1", False),
    "before the entry": ("os.rename|entry.json|1", False),
    "after the first exchange": ("os.remove|staging-0|1", False),
    "before the entry goes": ("os.remove|entry.json|1", False),
    "after the entry is gone": ("os.remove|copy-0|2", True),
    "in the runs": ("open|.log|1", True),
}


@pytest.mark.rule("S28", "S33")
@pytest.mark.parametrize("moment", MOMENTS.values(), ids=MOMENTS)
def test_after_a_real_kill_the_next_command_finds_every_edit(
    project: Project, tmp_path: Path, moment: tuple[str, bool]
) -> None:
    at, is_done = moment
    staged(project)
    edit(project)
    env = hooked(tmp_path / "hook", KILL) | {"KILL_AT": at}
    done = subprocess.run(
        [sys.executable, "-m", "roxy", "try", "--edits"],
        cwd=project.root,
        env=os.environ | env,
        capture_output=True,
        check=False,
        timeout=HANG,
    )
    assert done.returncode == -signal.SIGKILL, done
    with open_session(project.root, os.environ, Interrupts(), "roxy status", 0, lambda _line: None):
        pass
    assert project.read("src/greeting.txt") == (GOOD if is_done else OTHER.encode())
    assert kept(project) == ([] if "/kept" in at else [OTHER.encode()])
    assert not (project.state / "journal").exists()


# ------------------------------------------------------------------- where it is saved


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("src/greeting.txt", "so no patch can be saved there"),
        ("../outside.patch", "outside the working tree"),
        ("out/it.patch", "outside the working tree"),
        ("roxy.toml", "is no place for a patch"),
        (".git/x", "is no place for a patch"),
        ("src", "is no regular file"),
        ("link", "is no regular file"),
    ],
)
def test_a_place_that_is_not_for_patches_is_refused_before_anything_is_touched(
    project: Project, tmp_path: Path, given: str, words: str
) -> None:
    staged(project)
    (project.root / "out").symlink_to(tmp_path)
    (project.root / "link").symlink_to("new.patch")
    with (
        open_session(
            project.root, os.environ, Interrupts(), "roxy try", 0, lambda _line: None
        ) as session,
        pytest.raises(UsageError, match=words),
    ):
        find_destination(session, session.manifest.checks[0], project.root, given, force=False)


KEY = ("claims", "a", "checks", "b", "mutation")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[claims.a.checks.b]\nmutation = 'x' # it", "[claims.a.checks.b]\nmutation = 'n/ü' # it"),
        ('claims.a.checks.b.mutation="x"', 'claims.a.checks.b.mutation="n/ü"'),
        (
            "# ü\r\n[claims]\r\na = { checks = { b = { mutation = '''x''', run = 1 } } }\r\n",
            "# ü\r\n[claims]\r\na = { checks = { b = { mutation = 'n/ü', run = 1 } } }\r\n",
        ),
        (
            '[claims.a.checks.b]\nmutation = [\n  "x", # it\n]\n',
            '[claims.a.checks.b]\nmutation = [\n  "n/ü", # it\n]\n',
        ),
        (
            '[claims."a".checks."\\u0062"]\nmutation = """\nx"""\nrun = "mutation = \'x\'"',
            '[claims."a".checks."\\u0062"]\nmutation = "n/ü"\nrun = "mutation = \'x\'"',
        ),
    ],
)
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"], ids=["", "BOM"])
def test_only_the_characters_of_the_value_change(text: str, expected: str, mark: bytes) -> None:
    assert point(mark + text.encode(), KEY, "n/ü") == mark + expected.encode()


def test_a_key_that_cannot_be_found_is_an_error() -> None:
    with pytest.raises(ConfigError):
        point(b"[claims.a.checks.c]\nmutation = 'x'", KEY, "y")


ADDED = [
    (
        "[claims.a.checks.b]\ncovers = [ # which\n  'x',\n] # all\n\n# c\n[claims.a.checks.c]\n",
        "] # all\n",
        '] # all\nmutation = "n/ü"\n',
    ),
    ("[claims.a.checks.b]\r\n\tcovers = 1", "covers = 1", 'covers = 1\r\n\tmutation = "n/ü"'),
    (
        "claims.'a'.checks.\"b\".covers = 1\nclaims.a.description = 'x'",
        "covers = 1\n",
        'covers = 1\nclaims.\'a\'.checks."b".mutation = "n/ü"\n',
    ),
    (
        "[claims]\na = { checks = { b = { covers = ['x'], run = 1 } } } # it\n",
        "['x']",
        "['x'], mutation = \"n/ü\"",
    ),
    (
        "claims = { a.checks.b.run = 1, a.checks.b.covers = ['x'] }\n",
        "['x']",
        "['x'], a.checks.b.mutation = \"n/ü\"",
    ),
]


@pytest.mark.parametrize(("text", "old", "new"), ADDED)
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"], ids=["", "BOM"])
def test_a_key_that_is_not_there_yet_comes_behind_covers(
    text: str, old: str, new: str, mark: bytes
) -> None:
    assert point(mark + text.encode(), KEY, "n/ü") == mark + text.replace(old, new).encode()


def test_a_check_that_reproduces_a_commit_gets_no_mutation_beside_it() -> None:
    with pytest.raises(ConfigError, match="does not say where"):
        point(b"[claims.a.checks.b]\ncovers = 1\nreproduces = 'x'", KEY, "y")


@pytest.mark.parametrize("lacks", ["key", "file", "file elsewhere"])
def test_the_first_mutation_of_a_check_comes_from_an_edit(project: Project, lacks: str) -> None:
    project.greet()
    whole = project.read("roxy.toml").decode()
    text = whole if "file" in lacks else re.sub(r"(?m)^mutation = .*\n", "", whole)
    (project.root / "mutations/it.patch").unlink()
    other = whole.replace('claims."greeting"', "claims.other").replace("it.patch", "gone.patch")
    project.write("roxy.toml", f"{text}\n# the other one\n{other}")
    project.git("add", "--all")
    edit(project)
    fault = "`mutation` is missing" if lacks == "key" else "patch `mutations/it.patch` does not"
    done = project.roxy("status")
    assert (done.code, fault in done.err) == (2, True), done
    assert "hint: `roxy try NAME --edits --save FILE` writes one from an edit\n" in done.err
    new = "mutations/new.patch" if lacks == "file elsewhere" else "mutations/it.patch"
    done = project.roxy("try", "greeting", "--edits", "--save", new)
    assert done.code == 0, done
    assert ("which roxy.toml names now" in done.out) == (lacks != "file")
    after = project.read("roxy.toml").decode()
    assert sorted(after.split("\n")) == sorted(
        f"{whole.replace('mutations/it.patch', new)}\n# the other one\n{other}".split("\n")
    )
    assert after.endswith(f"\n# the other one\n{other}")
    project.write("mutations/gone.patch", project.read(new))
    assert project.roxy("verify", "greeting").code == 0


def test_try_edits_says_so_when_good_work_may_have_gone_into_the_mutation(
    project: Project,
) -> None:
    project.greet()
    lines = [f"line {number}\n" for number in range(20)]
    project.write("src/greeting.txt", "".join([*lines, "hello\n"]))
    project.commit()
    lines[0] = "good work\n"
    edit(project, "".join([*lines, "howdy\n"]))
    done = project.roxy("try", "--edits")
    assert "warning: nothing is staged, so all of these edits are the mutation now" in done.err
