"""Which repository roxy is in, and that nobody's settings change what git says of it (S4-S7)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import stranger
from project import Project
from roxy.core.errors import GitError, PlatformError, RoxyError, UsageError
from roxy.core.git import Repository, find_repository, git_environment

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NONSENSE = dict.fromkeys(
    (
        "GIT_ALTERNATE_OBJECT_DIRECTORIES",
        "GIT_ASKPASS",
        "GIT_ATTR_SOURCE",
        "GIT_CEILING_DIRECTORIES",
        "GIT_COMMON_DIR",
        "GIT_CONFIG",
        "GIT_CONFIG_PARAMETERS",
        "GIT_DEFAULT_HASH",
        "GIT_DIR",
        "GIT_EDITOR",
        "GIT_EXEC_PATH",
        "GIT_EXTERNAL_DIFF",
        "GIT_GRAFT_FILE",
        "GIT_IMPLICIT_WORK_TREE",
        "GIT_INDEX_FILE",
        "GIT_INTERNAL_SUPER_PREFIX",
        "GIT_NAMESPACE",
        "GIT_NO_REPLACE_OBJECTS",
        "GIT_OBJECT_DIRECTORY",
        "GIT_PAGER",
        "GIT_PREFIX",
        "GIT_REPLACE_REF_BASE",
        "GIT_SHALLOW_FILE",
        "GIT_SSH_COMMAND",
        "GIT_TEMPLATE_DIR",
        "GIT_WORK_TREE",
    ),
    "/nonsense/that/does/not/exist",
) | {
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "core.bare",
    "GIT_CONFIG_VALUE_0": "true",
    "GIT_DISCOVERY_ACROSS_FILESYSTEM": "maybe",
    "GIT_GLOB_PATHSPECS": "1",
    "GIT_ICASE_PATHSPECS": "1",
    "GIT_INDEX_VERSION": "99",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_NOGLOB_PATHSPECS": "1",
    "GIT_OPTIONAL_LOCKS": "1",
    "GIT_TEST_FSMONITOR": "/nonsense",
    "GIT_TRACE2_EVENT": "2",
    "GIT_TRACE_SETUP": "2",
}


ASK_FOR_FILES = """
import os
from pathlib import Path
from roxy.core.git import find_repository
repository = find_repository(Path.cwd(), os.environ)
print(repository.files([b"mutations/"]), flush=True)
print(repository.files([b"src/"]))
"""


def found(start: Path, **env: str) -> Repository:
    return find_repository(start, os.environ | env)


def refusal(start: Path, **env: str) -> str:
    """Return all that the error says when `start` is no place for roxy."""
    with pytest.raises(RoxyError) as caught:
        find_repository(start, os.environ | env)
    return " | ".join(f"{fault.what} @ {fault.where}" for fault in caught.value.faults)


def everything_said(repository: Repository) -> list[object]:
    """Ask all that roxy ever asks git about a working tree."""
    head = repository.head_blobs([b"roxy.toml", b"mutations/it.patch", b"none"])
    return [
        repository.root,
        repository.git_dir,
        repository.state,
        repository.files([b""]),
        repository.files([b"src/"]),
        repository.ignored_files([b""]),
        head,
        head and repository.blob(head[b"roxy.toml"], 1 << 20),
        repository.commit(),
        repository.is_dirty(),
        repository.attribute("filter", [b"src/greeting.txt"]),
        repository.conversion_settings(),
    ]


def submodule_of(project: Project, other: Project, path: str) -> Path:
    project.git(
        "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(other.root), path
    )
    project.commit()
    return project.root / path


def a_marker(folder: Path) -> tuple[Path, Path]:
    """Return a script and the file that shows that it ran."""
    marker, script = folder / "it ran", folder / "script"
    script.write_text(f"#!/bin/sh\necho \"$0 $*\" >>'{marker}'\ncat\n")
    script.chmod(0o755)
    return script, marker


# ------------------------------------------------------------------- where it is


@pytest.mark.rule("S4")
@pytest.mark.parametrize("folder", [".", "src", "src/very/deep", "-dash", "with space"])
def test_a_subdirectory_leads_to_the_top(project: Project, folder: str) -> None:
    project.write("roxy.toml", "")
    start = project.root / folder
    start.mkdir(parents=True, exist_ok=True)
    repository = found(start)
    assert repository.root == project.root
    assert repository.git_dir == project.root / ".git"
    assert repository.state == project.root / ".git/roxy"


@pytest.mark.rule("S4")
def test_status_and_verify_say_the_same_from_a_subdirectory_and_with_dash_c(
    verified: Project, tmp_path: Path
) -> None:
    (verified.root / "src/deep").mkdir()
    here = verified.roxy("status")
    assert here.code == 0
    assert verified.roxy("status", cwd=verified.root / "src/deep") == here
    assert verified.roxy("-C", str(verified.root), "status", cwd=tmp_path) == here
    assert verified.roxy("status", "-C", "src/deep") == here
    again = verified.roxy("verify", "--all", "--locked", "-C", "..", cwd=verified.root / "src")
    assert again.code == 0


@pytest.mark.rule("S4")
def test_status_exits_2_outside_a_repository(tmp_path: Path) -> None:
    done = Project(tmp_path).roxy("status")
    assert (done.code, done.out) == (2, "")
    assert "not a git repository" in done.err


@pytest.mark.rule("S4")
def test_a_bare_repository_is_refused(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet", "--bare", tmp_path / "bare"], check=True)
    assert "bare repository" in refusal(tmp_path / "bare")
    assert "bare repository" in refusal(tmp_path / "bare/refs")


@pytest.mark.rule("S4")
@pytest.mark.parametrize("folder", [".git", ".git/hooks", ".git/refs/heads"])
def test_the_inside_of_a_git_directory_is_refused(project: Project, folder: str) -> None:
    project.write("roxy.toml", "")
    assert "inside of a git directory" in refusal(project.root / folder)


@pytest.mark.rule("S4")
def test_a_repository_without_roxy_toml_is_refused(project: Project) -> None:
    (project.root / "src").mkdir()
    project.write("src/roxy.toml", "")
    said = refusal(project.root / "src")
    assert "there is no `roxy.toml`" in said
    assert str(project.root) in said


@pytest.mark.rule("S4", "S48")
@pytest.mark.parametrize("start", ["none", "src/greeting.txt"])
def test_a_start_that_is_no_folder_is_a_usage_error(project: Project, start: str) -> None:
    project.greet()
    with pytest.raises(UsageError, match="not a folder that can be entered"):
        found(project.root / start)


@stranger.as_root
@pytest.mark.rule("S4", "S48")
def test_a_start_that_cannot_be_entered_is_a_usage_error() -> None:
    with stranger.a_public_folder() as public:
        (public / "closed/below").mkdir(parents=True)
        (public / "closed").chmod(0o700)
        for start in ("closed", "closed/below"):
            done = stranger.roxy(public, "-C", start, "status")
            assert (done.code, done.out) == (2, "")
            assert "is not a folder that can be entered" in done.err


@pytest.mark.rule("S4", "S12")
def test_a_repository_without_a_commit_works(project: Project) -> None:
    project.greet()
    assert found(project.root).commit() is None
    assert project.roxy("verify").code == 0
    done = project.roxy("gate")
    assert (done.code, done.err) == (0, "")


@pytest.mark.rule("S4", "S5")
def test_in_a_submodule_the_submodule_is_the_repository(
    project: Project, make_project: Callable[[str], Project]
) -> None:
    other = make_project("other")
    other.write("roxy.toml", "")
    other.write("deep/file", "")
    other.commit()
    path = submodule_of(project, other, "libs/other")
    project.write("roxy.toml", "")
    inside, outside = found(path / "deep"), found(path.parent)
    assert inside.root == path
    assert inside.state == project.root / ".git/modules/libs/other/roxy"
    assert outside.root == project.root
    (path / "roxy.toml").unlink()
    assert "there is no `roxy.toml`" in refusal(path)


@pytest.mark.rule("S5")
def test_a_linked_worktree_has_a_state_folder_of_its_own(project: Project, tmp_path: Path) -> None:
    project.write("roxy.toml", "")
    project.write("src/a", "")
    project.commit()
    linked = tmp_path / "linked"
    project.git("worktree", "add", "--quiet", str(linked))
    repository = found(linked / "src")
    assert repository.root == linked
    assert repository.state == project.root / ".git/worktrees/linked/roxy"
    assert found(project.root).state == project.root / ".git/roxy"


@pytest.mark.rule("S4", "S5")
def test_a_worktree_of_a_bare_repository_is_a_working_tree(
    project: Project, tmp_path: Path
) -> None:
    project.write("roxy.toml", "")
    project.commit()
    project.git("clone", "--quiet", "--bare", ".", str(tmp_path / "bare"))
    linked = tmp_path / "linked"
    Project(tmp_path / "bare").git("worktree", "add", "--quiet", str(linked), "main")
    assert found(linked).root == linked
    assert found(linked).state == tmp_path / "bare/worktrees/linked/roxy"


@pytest.mark.rule("S5", "S7")
def test_a_separate_git_dir_holds_the_state(tmp_path: Path) -> None:
    root, git_dir = tmp_path / "root", tmp_path / "elsewhere"
    subprocess.run(["git", "init", "--quiet", f"--separate-git-dir={git_dir}", root], check=True)
    project = Project(root)
    project.greet()
    assert found(root).state == git_dir / "roxy"
    assert project.roxy("verify").code == 0
    assert (git_dir / "roxy/receipts").is_dir()
    assert sorted(path.name for path in root.iterdir()) == [
        ".git",
        "mutations",
        "roxy.lock",
        "roxy.toml",
        "src",
    ]


@pytest.mark.rule("S4", "S5", "S7")
def test_links_on_the_way_lead_to_where_they_point(project: Project, tmp_path: Path) -> None:
    project.write("roxy.toml", "")
    project.write("src/a", "")
    (tmp_path / "to-src").symlink_to(project.root / "src")
    (project.root / ".git").rename(tmp_path / "git-dir")
    (project.root / ".git").symlink_to(tmp_path / "git-dir")
    repository = found(tmp_path / "to-src")
    assert repository.root == project.root
    assert repository.state == tmp_path / "git-dir/roxy"


@pytest.mark.rule("S7")
@pytest.mark.parametrize("there", ["../elsewhere", "..", "src"])
def test_a_core_worktree_that_leads_elsewhere_is_refused(project: Project, there: str) -> None:
    project.greet()
    for name in ("../elsewhere/sub", "../roxy.toml"):
        (project.root / name).parent.mkdir(parents=True, exist_ok=True)
    (project.root.parent / "roxy.toml").write_text("")
    (project.root / "src/roxy.toml").write_text("")
    elsewhere = (project.root / there).resolve()
    project.git("config", "core.worktree", str(elsewhere))
    for start in (project.root, project.root / "src"):
        with pytest.raises(GitError) as caught:
            found(start)
        assert (
            str(caught.value)
            == f"git says that the working tree of this repository is `{elsewhere}`"
        )
    assert project.roxy("status").code == 2


@pytest.mark.rule("S7")
def test_a_core_worktree_that_names_the_tree_itself_changes_nothing(project: Project) -> None:
    project.greet()
    plain = everything_said(found(project.root))
    project.git("config", "core.worktree", str(project.root))
    assert everything_said(found(project.root)) == plain


@pytest.mark.rule("S7", "S15")
@pytest.mark.parametrize(
    "name", ["new\nline", "ends in newline\n", "a b  c", "q\"uo'te", "-dash", "\udcff", "true\n"]
)
def test_a_top_level_with_any_name_is_found(tmp_path: Path, name: str) -> None:
    project = Project.make(tmp_path / name / "top\n")
    project.write("roxy.toml", "")
    project.write("src/a", "")
    project.commit()
    linked = tmp_path / name / "linked\nworktree"
    project.git("worktree", "add", "--quiet", "-b", "other", str(linked))
    assert found(project.root / "src").root == project.root
    assert found(project.root).files([b"src/"]) == [b"src/a"]
    assert found(linked / "src").root == linked


@pytest.mark.rule("S7", "S15")
def test_verify_works_below_a_folder_with_newlines_and_spaces(tmp_path: Path) -> None:
    project = Project.make(tmp_path / " a\n b\x1b[31m " / "top\n")
    project.greet()
    assert project.roxy("verify").code == 0
    rejected = project.roxy("verify", "--all", "--json", "-C", str(project.root / "src"))
    assert rejected.code == 0
    assert project.states() == {"greeting/text": "verified"}


@pytest.mark.rule("S2")
@pytest.mark.parametrize("kind", ["missing", "not executable"])
def test_a_missing_git_is_named(project: Project, tmp_path: Path, kind: str) -> None:
    project.greet()
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "sh").symlink_to("/bin/sh")
    if kind == "not executable":
        (tools / "git").write_text("#!/bin/sh\n")
    with pytest.raises(PlatformError, match="`git` is not on PATH"):
        found(project.root, PATH=str(tools))
    (tools / "sh").unlink()
    with pytest.raises(PlatformError, match="`sh` is not on PATH"):
        found(project.root, PATH=str(tools))


# ------------------------------------------------------------------- whose it is


@stranger.as_root
@pytest.mark.rule("S7", "S43")
def test_git_is_quoted_when_the_repository_is_somebody_elses(project: Project) -> None:
    project.greet()
    stranger.give_away(project.root)
    for command in ("status", "gate", "verify"):
        done = project.roxy(command)
        assert (done.code, done.out) == (2, "")
        assert "detected dubious ownership in repository at" in done.err
        assert f"hint: `git config --global --add safe.directory {project.root}`, if" in done.err


@stranger.as_root
@pytest.mark.rule("S6", "S7")
def test_safe_directory_comes_through_the_environment(project: Project, tmp_path: Path) -> None:
    project.greet()
    project.commit()
    stranger.give_away(project.root)
    config = tmp_path / "gitconfig"
    config.write_text("[safe]\n\tdirectory = *\n")
    counted = {
        "GIT_CONFIG_COUNT": "3",
        "GIT_CONFIG_KEY_0": "core.excludesFile",
        "GIT_CONFIG_VALUE_0": str(tmp_path / "excludes"),
        "GIT_CONFIG_KEY_1": "Safe.Directory",
        "GIT_CONFIG_VALUE_1": str(project.root),
        "GIT_CONFIG_KEY_2": "core.bare",
        "GIT_CONFIG_VALUE_2": "true",
    }
    (tmp_path / "excludes").write_text("*\n")
    for env in (counted, {"GIT_CONFIG_GLOBAL": str(config)}):
        done = project.roxy("verify", "--all", env=env)
        assert (done.code, done.err) == (0, "")
        assert project.roxy("gate", env=env).code == 0


# ------------------------------------------------------------------- the environment


@pytest.mark.rule("S6")
def test_git_environment_carries_only_what_can_hold_safe_directory() -> None:
    environ = NONSENSE | {
        "HOME": "/home/me",
        "GIT_CONFIG_GLOBAL": "global",
        "GIT_CONFIG_SYSTEM": "system",
        "GIT_CONFIG_NOSYSTEM": "1",
        "LC_ALL": "de_DE.UTF-8",
    }
    ours = git_environment(environ)
    assert ours.pop("HOME") == "/home/me"
    assert ours.pop("LC_ALL") == "C"
    assert ours == {
        "GIT_CONFIG_GLOBAL": "global",
        "GIT_CONFIG_SYSTEM": "system",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_ALLOW_PROTOCOL": "none",
    }


@pytest.mark.rule("S6")
@pytest.mark.parametrize("count", ["", "x", "-1", "٣", "999999999999", "1e3", " 2"])
def test_git_environment_survives_any_count_of_settings(count: str) -> None:
    environ = {
        "GIT_CONFIG_COUNT": count,
        "GIT_CONFIG_KEY_0": "safe.directory",
        "GIT_CONFIG_VALUE_0": "/a",
    }
    ours = git_environment(environ)
    assert ours.get("GIT_CONFIG_COUNT", "1") == "1"
    assert ours.get("GIT_CONFIG_KEY_0", "safe.directory") == "safe.directory"


@pytest.mark.rule("S6")
def test_git_variables_of_the_caller_change_no_answer(project: Project) -> None:
    project.greet()
    project.write(".gitignore", "*.log\n")
    project.write("src/x.log", "")
    project.commit()
    plain = everything_said(found(project.root))
    settings = {name: NONSENSE[name] for name in NONSENSE if name.startswith("GIT_CONFIG_")}
    for name, value in (NONSENSE.items() - settings.items()) | {
        ("GIT_DIR", ""),
        ("GIT_DIR", ".git"),
    }:
        assert everything_said(found(project.root, **{name: value})) == plain, name
    assert everything_said(found(project.root, **settings)) == plain
    above = {"GIT_CEILING_DIRECTORIES": str(project.root)}
    assert everything_said(found(project.root / "src", **above)) == plain


@pytest.mark.rule("S6")
def test_git_variables_of_the_caller_change_no_command(verified: Project, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    env = NONSENSE | {"GIT_TRACE": str(trace), "GIT_TRACE2": str(trace)}
    lock = verified.read("roxy.lock")
    assert verified.roxy("gate", env=env) == verified.roxy("gate")
    done = verified.roxy("verify", "--all", env=env)
    assert (done.code, done.err) == (0, "")
    assert verified.read("roxy.lock") == lock
    assert not trace.exists()


@pytest.mark.rule("S6", "S23")
def test_check_environment_drops_what_is_local_to_a_repository_and_what_steers_a_shell(
    project: Project,
) -> None:
    project.write("roxy.toml", "")
    local = project.git("rev-parse", "--local-env-vars").split()
    assert {"GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE", "GIT_PREFIX"} <= set(local)
    steering = ["BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "PS4", "CDPATH", "BASH_FUNC_ls%%"]
    steering += ["GITHUB_ENV", "GITHUB_PATH", "GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY"]
    steering += ["ACTIONS_RUNTIME_TOKEN", "ACTIONS_ID_TOKEN_REQUEST_URL", "ACTIONS_TOKEN"]
    kept = {"ENVIRONMENT": "1", "GITHUB_SHA": "2", "ACTIONS_CACHE_URL": "3", "GIT_AUTHOR_NAME": "4"}
    env = dict.fromkeys([*local, *steering], "/nonsense") | kept
    given = found(project.root, **env).check_environment()
    assert given == os.environ | kept


@pytest.mark.rule("S6")
@pytest.mark.parametrize("place", ["normal", "linked"])
@pytest.mark.parametrize("arguments", [("-a",), ("--only", "--", "notes.txt")])
def test_roxy_says_the_same_inside_a_real_pre_commit_hook(
    project: Project, tmp_path: Path, place: str, arguments: tuple[str, ...]
) -> None:
    here = Project(tmp_path / "linked") if place == "linked" else project
    project.write("notes.txt", "one\n")
    project.greet('test -z "$GIT_DIR$GIT_INDEX_FILE$GIT_PREFIX" && grep -q hello src/greeting.txt')
    project.commit()
    if place == "linked":
        project.git("worktree", "add", "--quiet", str(here.root))
    (tmp_path / "seen").mkdir()
    script = (
        f"#!/bin/sh\ncd src && exec >'{tmp_path}/seen/out' 2>&1\n"
        f"env | grep ^GIT_ >'{tmp_path}/seen/env'\n"
        f"'{sys.executable}' -m roxy verify && '{sys.executable}' -m roxy gate\n"
    )
    hook = project.root / ".git/hooks/pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(script)
    hook.chmod(0o755)
    here.write("notes.txt", "two\n")
    here.write("src/untracked", "new\n")
    here.git("commit", "--quiet", "-m", "more", *arguments)
    assert "GIT_INDEX_FILE=" in (tmp_path / "seen/env").read_text()
    gate = here.roxy("gate")
    assert gate.code == 0
    assert (tmp_path / "seen/out").read_text().endswith(gate.err + gate.out)
    assert here.states() == {"greeting/text": "verified"}


# ------------------------------------------------------------------- the user's settings

SETTINGS = """
[apply]
	whitespace = fix
	ignoreWhitespace = change
[core]
	autocrlf = true
	safecrlf = true
	quotePath = true
	fsmonitor = {script}
	hooksPath = {hooks}
	pager = {script}
	editor = {script}
	askPass = {script}
	sshCommand = {script}
	attributesFile = {attributes}
	untrackedCache = true
	preloadIndex = false
	ignoreCase = true
	fileMode = false
	checkStat = minimal
	trustctime = false
	symlinks = false
	abbrev = 4
	bigFileThreshold = 1
	splitIndex = true
	sparseCheckout = true
[diff]
	noprefix = true
	mnemonicPrefix = true
	external = {script}
	renames = copies
	ignoreSubmodules = all
	orderFile = {script}
	wsErrorHighlight = all
	algorithm = patience
	context = 0
[status]
	short = true
	branch = true
	showStash = true
	showUntrackedFiles = no
	relativePaths = true
	submoduleSummary = true
	aheadBehind = true
[color]
	ui = always
[column]
	ui = always
[alias]
	ls-files = "!{script}"
	status = "!{script}"
	apply = "!{script}"
[advice]
	statusHints = true
[filter "evil"]
	clean = {script} clean
	smudge = {script} smudge
	process = {script} process
	required = true
[diff "evil"]
	textconv = {script} textconv
	command = {script} diff
[merge "evil"]
	driver = {script} merge
[credential]
	helper = "!{script}"
[gpg]
	program = {script}
[commit]
	gpgSign = true
[log]
	showSignature = true
[submodule]
	recurse = true
[grep]
	lineNumber = true
[index]
	version = 4
	sparse = true
[feature]
	manyFiles = true
[push]
	default = nothing
"""
HOOKS = [
    "applypatch-msg",
    "pre-applypatch",
    "post-applypatch",
    "pre-commit",
    "prepare-commit-msg",
    "commit-msg",
    "post-commit",
    "post-checkout",
    "post-merge",
    "post-index-change",
    "reference-transaction",
    "fsmonitor-watchman",
    "fsmonitor-watchmanv2",
    "post-rewrite",
    "pre-auto-gc",
]


@pytest.mark.rule("S7", "S21")
def test_settings_hooks_and_filters_of_the_user_change_nothing_and_run_nothing(
    verified: Project, sealed: Path, tmp_path: Path
) -> None:
    verified.write("other.txt", "other\n")
    verified.commit()
    gate, lock = verified.roxy("gate"), verified.read("roxy.lock")
    script, marker = a_marker(tmp_path)
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    for folder in (hooks, verified.root / ".git/hooks"):
        folder.mkdir(exist_ok=True)
        for name in HOOKS:
            shutil.copy2(script, folder / name)
    attributes = tmp_path / "attributes"
    attributes.write_text("* filter=evil diff=evil merge=evil eol=crlf\n")
    (verified.root / ".git/info").mkdir(exist_ok=True)
    verified.write(".git/info/attributes", "other.txt filter=evil\n")
    config = sealed / ".gitconfig"
    config.write_text(
        config.read_text()
        + SETTINGS.format(script=script, hooks=hooks, attributes=attributes).replace(
            "autocrlf = true", "autocrlf = false"
        )
    )
    os.utime(verified.root / "other.txt", (1, 1))  # now only its content can tell
    assert verified.roxy("gate") == gate
    done = verified.roxy("verify", "--all")
    assert (done.code, done.err) == (0, "")
    assert verified.read("roxy.lock") == lock
    assert not marker.exists()
    assert sorted(os.listdir(hooks)) == sorted(HOOKS)


@pytest.mark.rule("S7", "S20")
@pytest.mark.parametrize("autocrlf", ["true", "input"])
def test_a_users_autocrlf_changes_no_result_for_a_tree_with_lf(
    verified: Project, sealed: Path, autocrlf: str
) -> None:
    lock = verified.read("roxy.lock")
    with (sealed / ".gitconfig").open("a") as config:
        config.write(f"[core]\n\tautocrlf = {autocrlf}\n")
    assert verified.roxy("verify", "--all").code == 0
    assert verified.read("roxy.lock") == lock


@pytest.mark.rule("S7", "S12")
def test_files_leaves_out_what_core_excludesfile_ignores(project: Project, sealed: Path) -> None:
    project.write("roxy.toml", "")
    project.write("src/a", "")
    project.write("src/mine.swp", "")
    with (sealed / ".gitconfig").open("a") as config:
        config.write(f"[core]\n\texcludesFile = {sealed}/ignore\n")
    (sealed / "ignore").write_text("*.swp\n")
    repository = found(project.root)
    assert repository.files([b"src/"]) == [b"src/a"]
    assert repository.ignored_files([b"src/"]) == [b"src/mine.swp"]


@pytest.mark.rule("S7", "S12")
def test_files_lists_a_file_beside_one_that_differs_in_case(project: Project, sealed: Path) -> None:
    project.write("roxy.toml", "")
    project.write("src/name.py", "")
    project.commit()
    if (project.root / "src/NAME.py").exists():
        pytest.skip("this disk takes both names for one")
    project.write("src/NAME.py", "")
    for config in (sealed / ".gitconfig", project.root / ".git/config"):
        with config.open("a") as file:
            file.write("[core]\n\tignoreCase = true\n")
        assert found(project.root).files([b"src/"]) == [b"src/NAME.py", b"src/name.py"]


@pytest.mark.rule("S7", "S20")
def test_a_partial_clone_fetches_nothing(project: Project, tmp_path: Path) -> None:
    project.greet()
    project.commit()
    script, marker = a_marker(tmp_path)
    for key, value in {
        "core.repositoryFormatVersion": "1",
        "extensions.partialClone": "origin",
        "protocol.allow": "always",
        "remote.origin.promisor": "true",
        "remote.origin.url": f"ext::{script} %S",
        "remote.origin.uploadpack": str(script),
    }.items():
        project.git("config", key, value)
    repository = found(project.root)
    head = repository.head_blobs([b"roxy.toml"])
    assert head is not None
    object_id = head[b"roxy.toml"]
    (project.root / ".git/objects" / object_id[:2] / object_id[2:]).unlink()
    assert repository.blob(object_id, 1 << 20) is None
    project.write("roxy.toml", project.read("roxy.toml") + b"\n")
    done = project.roxy("status")
    assert (done.code, done.err) == (0, "warning: `roxy.toml` differs from HEAD\n")
    assert not marker.exists()


@stranger.as_root
@pytest.mark.rule("S7", "S12")
def test_a_folder_that_git_cannot_list_is_not_taken_for_empty() -> None:
    with stranger.a_public_folder() as public:
        project = Project.make(public / "project")
        project.greet()
        project.write("src/closed/new.txt", "")
        project.commit()
        stranger.give_away(project.root)
        (project.root / "src/closed").chmod(0o311)
        done = stranger.python(project.root, "-c", ASK_FOR_FILES)
    assert done.out == "[b'mutations/it.patch']\n"
    assert "git does not see every file here" in done.err
    assert "could not open directory 'src/closed/'" in done.err


# ------------------------------------------------------------------- what it answers


@pytest.mark.rule("S39")
def test_is_dirty_says_whether_a_tracked_file_differs(project: Project) -> None:
    project.greet()
    repository = found(project.root)
    assert not repository.is_dirty()
    project.git("add", "src")
    assert repository.is_dirty()
    project.commit()
    assert not repository.is_dirty()
    project.write("untracked", "")
    os.utime(project.root / "src/greeting.txt", (1, 1))
    assert not repository.is_dirty()
    before = project.read("src/greeting.txt")
    project.write("src/greeting.txt", before.upper())
    assert repository.is_dirty()
    project.write("src/greeting.txt", before)
    assert not repository.is_dirty()
    (project.root / "src/greeting.txt").unlink()
    assert repository.is_dirty()


@pytest.mark.rule("S7", "S39")
@pytest.mark.parametrize("driver", ["evil", "e=v.i-l"])
def test_is_dirty_runs_no_filter(project: Project, tmp_path: Path, driver: str) -> None:
    script, marker = a_marker(tmp_path)
    project.write("roxy.toml", "")
    project.write("kept.txt", "hello\n")
    project.write("shouted.txt", "hello\n")
    project.write(".gitattributes", f"*.txt filter={driver}\n")
    project.git("config", f"filter.{driver}.clean", "cat")
    project.commit()
    project.git("config", f"filter.{driver}.clean", f"{script} clean")
    project.git("config", f"filter.{driver}.process", f"{script} process")
    project.git("config", f"filter.{driver}.required", "true")
    repository = found(project.root)
    os.utime(project.root / "kept.txt", (1, 1))
    assert not repository.is_dirty()
    project.write("shouted.txt", "HELLO\n")
    assert repository.is_dirty()
    assert not marker.exists()


@pytest.mark.rule("S7", "S21")
def test_settings_of_conversions_are_those_in_force(project: Project, sealed: Path) -> None:
    project.write("roxy.toml", "")
    repository = found(project.root)
    assert repository.conversion_settings() == {}
    with (sealed / ".gitconfig").open("a") as config:
        config.write("[core]\n\tautocrlf = input\n\teol = crlf\n")
    assert repository.conversion_settings() == {"core.autocrlf": "input", "core.eol": "crlf"}
    project.git("config", "core.autocrlf", "false")
    assert repository.conversion_settings()["core.autocrlf"] == "false"
    with (project.root / ".git/config").open("a") as config:
        config.write("[core]\n\tautocrlf\n")  # without a value, which means true
    assert repository.conversion_settings()["core.autocrlf"] == "true"


@pytest.mark.rule("S12")
def test_files_takes_more_paths_than_one_call_can_hold(project: Project) -> None:
    names = [f"{'long' * 40}/{number:04}.txt" for number in range(1200)]
    for name in names:
        project.write(name, "")
    project.write("roxy.toml", "")
    listed = found(project.root).files([name.encode() for name in reversed(names)])
    assert listed == [name.encode() for name in names]


@pytest.mark.rule("S48")
def test_a_damaged_index_is_told_in_gits_words(project: Project) -> None:
    project.greet()
    project.commit()
    project.write(".git/index", "garbage")
    done = project.roxy("status")
    assert (done.code, done.out) == (2, "")
    assert "git cannot list the files here: " in done.err
    assert "Traceback" not in done.err
