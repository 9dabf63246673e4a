"""What attackers found: each hit stays here as it was found, in a check that misbehaves."""

from __future__ import annotations

import os
import signal
import threading
from typing import TYPE_CHECKING

import pytest

from project import HANG, until
from roxy.core import git
from roxy.core.fingerprint import fingerprint
from roxy.core.model import Check

if TYPE_CHECKING:
    from project import Project

GREETS = "grep -q hello src/greeting.txt"


@pytest.mark.rule("S28", "S33")
@pytest.mark.parametrize("lost", [".git/roxy", ".git/roxy/journal", ".git/roxy/journal/copy-0"])
def test_a_check_that_removes_the_copies_loses_nothing(project: Project, lost: str) -> None:
    project.greet(f"{GREETS} || {{ rm -rf {lost}; exit 1; }}")
    before = project.snapshot()
    project.roxy("verify")
    assert project.snapshot() == before


@pytest.mark.rule("S21")
def test_what_a_check_writes_into_the_scratch_folder_reaches_no_other_mutation(
    project: Project,
) -> None:
    marker = project.root.parent / "filter-ran"
    project.write("src/b.bin", b"good\0one\n")
    project.greet()
    project.commit()
    project.write("src/b.bin", b"evil\0one\n")
    project.write("mutations/b.patch", project.git("diff", "--binary", "--", "src/b.bin"))
    project.git("checkout", "--", "src/b.bin")
    smudge = f'touch "{marker}"; cat >/dev/null; printf other'
    meddle = (
        "for dir in .git/roxy/scratch/*; do"
        ' [ -d "$dir/info" ] || continue;'
        " echo '* filter=x' > \"$dir/info/attributes\";"
        f" git config -f \"$dir/config\" filter.x.smudge '{smudge}'; done"
    )
    project.write("roxy.toml", "")
    project.check(f"{meddle}; {GREETS}", name="meddles", covers=("src/greeting.txt",))
    project.check(
        "! grep -aq other src/b.bin",
        name="sleeps",
        covers=("src/b.bin",),
        mutation="mutations/b.patch",
    )
    done = project.roxy("verify")
    assert "rejected greeting/sleeps: the mutated run passed" in done.out
    assert not marker.exists()


@pytest.mark.rule("S50")
def test_locked_looks_at_the_lock_that_the_checks_left(project: Project) -> None:
    project.greet(f"echo 'version = 1' > roxy.lock; {GREETS}")
    assert project.roxy("verify").code == 0
    done = project.roxy("verify", "--all", "--locked")
    assert done.code == 1
    assert "missing entry `greeting/text`" in done.out


@pytest.mark.rule("S1", "S32")
def test_an_interrupted_verify_leaves_no_lock_that_a_check_forged(project: Project) -> None:
    marker = project.root.parent / "forged"
    forged = f'version = 1\n[claims.greeting]\ntext = "sha256:{"0" * 64}"\n'
    project.write("forged.lock", forged)
    project.greet(f'cp forged.lock roxy.lock; touch "{marker}"; sleep 1000')
    with project.started("verify") as roxy:
        until(marker.exists)
        roxy.send_signal(signal.SIGTERM)
        assert roxy.wait(HANG) == 128 + signal.SIGTERM
    assert b"sha256" not in project.read("roxy.lock")


@pytest.mark.rule("S10", "S48")
@pytest.mark.parametrize(
    "text",
    [
        "KEYa = 1",
        "x = {KEYa = 1}",
        "[[KEYa]]",
        '"KEYa" = {KEYa = 1}',
        r'"\"a"' + r'."\"a"' * 50_000 + " = 1",
        "x = " + "[" * 350 + "]" * 350 + "\nKEYa = 1",
        'x = ["""a"""", {KEYa = 1}]',
        "x = ['''a'''', {KEYa = 1}]",
    ],
)
def test_a_key_with_endless_dots_is_refused_at_once(project: Project, text: str) -> None:
    project.write("roxy.toml", text.replace("KEY", "a . " * 50_000) + "\n")
    done = project.roxy("status")
    assert done.code == 2
    assert "`roxy.toml` holds a key with too many dots\n  at roxy.toml:" in done.err


@pytest.mark.rule("S10", "S48")
@pytest.mark.parametrize(
    "line",
    [
        'description = "DOTS"',
        "description = 'a, DOTS = 1'",
        "# see DOTS",
        'description = """\nDOTS = 1\n"""',
        'description = "{ DOTS }" # [DOTS]',
        "description = '''\\\n\"DOTS = 1\n'''",
    ],
)
def test_dots_that_are_in_no_key_are_nobodys_trouble(project: Project, line: str) -> None:
    project.greet()
    dots = ".".join(map(str, range(300)))
    manifest = project.read("roxy.toml").decode()
    head = manifest.partition("[claims.greeting.checks")[0]
    header = "" if "[claims.greeting]" in head else "[claims.greeting]\n"
    project.write("roxy.toml", f"{header}{line.replace('DOTS', dots)}\n{manifest}")
    assert project.roxy("status").code == 0


@pytest.mark.rule("S26")
def test_a_folder_that_is_moved_away_and_back_is_remarked_on(project: Project) -> None:
    swap = "cp -a src new; mv src old; mv new src"
    project.greet(f"{swap}; {GREETS}; code=$?; rm -rf src; mv old src; exit $code")
    done = project.roxy("verify")
    assert "the folder `src` has a new ctime" in done.err


@pytest.mark.rule("S33", "S48")
@pytest.mark.parametrize("content", ["{", "[" * 100_000, '{"pid": 1e999, "started": 1, "boot": 1}'])
def test_a_damaged_note_of_a_run_is_passed_over(verified: Project, content: str) -> None:
    journal = verified.state / "journal"
    journal.mkdir(exist_ok=True)
    (journal / "run.json").write_text(content)
    done = verified.roxy("gate")
    assert (done.code, done.err) == (0, "")


@pytest.mark.rule("S36")
def test_a_check_that_is_rejected_while_its_patch_is_made_anew_loses_its_entry(
    project: Project,
) -> None:
    project.write("out", "1")
    project.greet(f"{GREETS} && test -e out")
    project.write(".gitignore", "out\n")
    project.write("src/greeting.txt", "zero\none\nhello\nthree\n")
    assert project.roxy("verify").code == 0
    (project.root / "out").unlink()
    done = project.roxy("refresh")
    assert "rejected greeting/text: the clean run failed" in done.out
    assert project.states() == {"greeting/text": "unverified"}


@pytest.mark.rule("S34", "S41")
def test_old_code_is_no_evidence_for_a_patch_of_the_same_bytes() -> None:
    check = Check("a", "b", "run", ("*",), ("m.patch",))
    old = check._replace(mutations=(), reproduces="0" * 40)
    assert fingerprint(check, [b"same"], {}) != fingerprint(old, [b"same"], {})


@pytest.mark.rule("S37", "S48")
def test_a_number_of_any_length_in_hexadecimal_is_no_bug(project: Project) -> None:
    project.greet()
    project.write("roxy.lock", f"version = 0x{'f' * 5000}\n")
    done = project.roxy("gate")
    assert (done.code, "holds a number that is too long" in done.err) == (2, True)
    assert project.roxy("verify", "--all").code == 0
    text = project.read("roxy.toml").decode()
    project.write("roxy.toml", text.replace("covers", f"at-least = 0x{'f' * 5000}\ncovers"))
    assert "holds a number that is too long" in project.roxy("gate").err


@pytest.mark.rule("S41")
def test_a_pattern_that_takes_long_to_compile_is_refused(project: Project) -> None:
    project.greet()
    text = project.read("roxy.toml").decode()
    long = "[a-z]" * 1000
    project.write("roxy.toml", text.replace("covers", f"fails-with = '{long}'\ncovers"))
    assert "is longer than 1,000 characters" in project.roxy("gate").err


def test_init_reads_a_makefile_and_a_pyproject_made_to_hold_it_up(project: Project) -> None:
    project.write("Makefile", "test " * 100_000 + "\n")
    inner = "1"
    for _ in range(40):
        inner = "{" + ".".join("a" * 90) + f" = {inner}}}"
    project.write("pyproject.toml", f"[dependency-groups]\nx = [{inner}]\n")
    assert project.roxy("init").code == 0


@pytest.mark.rule("S28", "S48")
def test_a_patch_is_not_saved_over_the_very_file_whose_edits_it_is_made_from(
    project: Project,
) -> None:
    project.greet()
    project.commit()
    edited = project.write("src/greeting.txt", "one\nhowdy\nthree\n").read_bytes()
    done = project.roxy("try", "--edits", "--save", "src/greeting.txt", "--force")
    assert (done.code, "so no patch can be saved there" in done.err) == (2, True)
    assert project.read("src/greeting.txt") == edited
    assert not (project.state / "kept").exists()


@pytest.mark.rule("S5", "S49")
def test_refresh_writes_nothing_into_the_git_directory_through_a_link(project: Project) -> None:
    project.greet()
    patch = project.root / "mutations/it.patch"
    patch.rename(project.root / ".git/it.patch")
    patch.symlink_to("../.git/it.patch")
    before = patch.read_bytes()
    project.write("src/greeting.txt", "zero\none\nhello\nthree\n")
    done = project.roxy("refresh", "--no-run")
    assert (done.code, "leads into the git directory" in done.err) == (2, True)
    assert patch.read_bytes() == before


@pytest.mark.rule("S18", "S41")
def test_show_does_not_call_a_patch_of_an_input_one_that_fits(project: Project) -> None:
    project.greet()
    project.write("tests/it.txt", "hello\n")
    project.mutation("tests/it.txt", "hello", "howdy")
    text = project.read("roxy.toml").decode()
    project.write("roxy.toml", text.replace("covers", 'inputs = ["tests/**"]\ncovers'))
    assert "which the check does not cover" in project.roxy("show").out


@pytest.mark.rule("S28", "S29")
@pytest.mark.parametrize("meddles", ["rm -f", "echo junk >", "git checkout -q --"])
def test_the_copy_of_an_edit_stays_when_the_patch_that_has_it_goes(
    project: Project, meddles: str
) -> None:
    project.greet(f"test -e .git/begun && {meddles} mutations/it.patch; {GREETS}")
    project.write("mutations/it.patch", "not yet\n")
    project.commit()
    project.write("src/greeting.txt", "one\nMY ONLY EDIT\nthree\n")
    project.write("mutations/it.patch", project.git("diff", "src").encode())
    project.write(".git/begun", "")
    done = project.roxy("try", "--edits", "--save", "mutations/it.patch")
    assert (done.code, "so nothing is saved" in done.err) == (2, True)
    (kept,) = (project.state / "kept").iterdir()
    assert kept.read_bytes() == b"one\nMY ONLY EDIT\nthree\n"


@pytest.mark.rule("S36")
def test_what_refresh_rejected_has_no_entry_even_if_refresh_then_fails(project: Project) -> None:
    flag = project.root / ".git/flag"
    project.greet(f"test ! -e '{flag}' && {GREETS}")
    project.write("src/other.txt", "one\nhello\nthree\n")
    patch = project.mutation("src/other.txt", "hello", "howdy", "mutations/other.patch")
    meddles = f"test ! -e '{flag}' || echo '# x' >>{patch}"
    project.check(f"{meddles}; grep -q hello src/other.txt", claim="other", mutation=patch)
    for name in ("greeting", "other"):
        project.write(f"src/{name}.txt", "zero\none\nhello\nthree\n")
    assert project.roxy("verify").code == 0
    flag.touch()
    assert project.roxy("refresh").code == 2
    assert project.states()["greeting/text"] == "unverified"


@pytest.mark.rule("S29")
def test_a_patch_that_only_the_disk_has_is_kept_before_another_takes_its_place(
    project: Project,
) -> None:
    project.greet()
    project.git("add", "src")
    old = project.read("mutations/it.patch")
    project.write("src/greeting.txt", "one\nbroken\nthree\n")
    done = project.roxy("try", "--edits", "--save", "mutations/it.patch")
    assert done.code == 0
    assert "what `mutations/it.patch` held is kept as" in done.err
    assert [one.read_bytes() for one in (project.state / "kept").iterdir()] == [old]


@pytest.mark.rule("S29")
def test_the_patch_of_another_check_is_not_overwritten_without_force(project: Project) -> None:
    project.greet()
    project.check(GREETS, claim="other")
    project.git("add", "src")
    edited = project.write("src/greeting.txt", "one\nbroken\nthree\n").read_bytes()
    done = project.roxy("try", "greeting", "--edits", "--save", "mutations/it.patch")
    assert (done.code, "not the mutation of this check alone" in done.err) == (2, True)
    assert project.read("src/greeting.txt") == edited


@pytest.mark.rule("S28")
def test_an_edit_of_roxy_toml_is_no_part_of_a_mutation(project: Project) -> None:
    project.greet()
    text = project.read("roxy.toml").decode().replace("src/**", "**")
    project.write("roxy.toml", text)
    project.commit()
    project.write("roxy.toml", text + "# more\n")
    done = project.roxy("try", "--edits", "--force")
    assert (done.code, "cannot be a part of a mutation" in done.err) == (2, True)
    assert project.read("roxy.toml").decode() == text + "# more\n"


@pytest.mark.rule("S43")
@pytest.mark.parametrize("value", ["bash_source", "bash_complete", "bogus", ""])
def test_no_variable_makes_a_gate_answer_without_judging(project: Project, value: str) -> None:
    project.greet()
    env = {"_ROXY_COMPLETE": value}
    gate = project.roxy("gate", "--wait", "1", env=env)
    assert (gate.code, gate.out) == (1, project.roxy("gate").out)
    assert project.roxy("verify", "--all", "--locked", env=env).code == 1
    env |= {"COMP_WORDS": "", "COMP_CWORD": "0"}
    assert project.roxy("gate", "--wait", "1", env=env).code == 1


@pytest.mark.rule("S48")
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_of_nonsense_is_no_bug(project: Project, shell: str) -> None:
    env = {"_ROXY_COMPLETE": f"{shell}_complete", "COMP_WORDS": "roxy ga", "COMP_CWORD": " "}
    done = project.roxy(env=env)
    assert done.code == 2
    assert done.err.startswith("error: what is to be completed makes no sense\n")


@pytest.mark.rule("S48")
def test_a_system_without_a_thread_to_give_is_no_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(BlockingIOError):
        git.call(["--version"], cwd="/", env=os.environ)
