"""Completion in real shells, and the schemas that the package has."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib import resources
from typing import TYPE_CHECKING

import jsonschema
import pytest
from click.shell_completion import ShellComplete

from project import HANG
from roxy.cli.commands import roxy
from roxy.cli.completion import SHELLS
from roxy.cli.invocation import Invocation
from roxy.cli.schema import names, text
from roxy.cli.streams import Stream, Streams
from roxy.core.exclusive import exclusive
from roxy.core.interrupts import Interrupts

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from project import Project

BASH = r"""
source <(roxy completion bash)
for words in "$@"; do
  COMP_WORDS=($words); [[ $words == *' ' ]] && COMP_WORDS+=('')
  COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); COMPREPLY=()
  _roxy_completion roxy
  echo "${COMPREPLY[@]}"
done
"""
SCRIPTS = {
    "zsh": 'autoload -Uz compinit && compinit -u; eval "$(roxy completion zsh)"; '
    'echo "$_comps[roxy]"',
    "fish": "roxy completion fish | source; complete --do-complete 'roxy schema err'",
}
ANSWERS = {"zsh": "_roxy_completion\n", "fish": "error\n"}


@pytest.fixture
def offered(project: Project) -> Project:
    """Return a project with two claims, whose patches are missing."""
    project.check("true", claim="login", name="web")
    project.check("true", claim="login", name="ios")
    project.check("true", claim="two words", name="a*b")
    return project


@pytest.fixture
def on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put roxy, run from source, on PATH."""
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "roxy").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m roxy "$@"\n')
    (tools / "roxy").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")


def completions(folder: Path, *words: str) -> list[str]:
    """Return what is offered in place of the last of some words, asked in this process."""
    null = Stream(-1, "utf-8")
    invocation = Invocation(Streams(null, null), os.environ, directory=str(folder))
    complete = ShellComplete(roxy, {"obj": invocation}, "roxy", "_ROXY_COMPLETE")
    *before, incomplete = words
    return [item.value for item in complete.get_completions(before, incomplete)]


def start(shell: str, *arguments: str, cwd: Path) -> str:
    done = subprocess.run(
        [shell, *arguments], cwd=cwd, check=True, capture_output=True, timeout=HANG
    )
    assert done.stderr == b""
    return done.stdout.decode()


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.usefixtures("on_path")
def test_bash_completes_commands_options_claims_and_checks(offered: Project) -> None:
    asked = ("roxy ver", "roxy verify --lo", "roxy verify login ", "roxy --color=n")
    answers = start("bash", "-c", BASH, "bash", *asked, cwd=offered.root).splitlines()
    assert answers[:3] == ["verify", "--locked", "login/web login/ios"]


@pytest.mark.parametrize("shell", SCRIPTS)
@pytest.mark.usefixtures("on_path")
def test_other_shells_take_their_script(shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell}")
    assert start(shell, "-c", SCRIPTS[shell], cwd=tmp_path) == ANSWERS[shell]


def test_names_are_completed_from_a_folder_below_and_while_another_roxy_is_at_work(
    offered: Project,
) -> None:
    folder = offered.root / "below"
    folder.mkdir()
    with exclusive(offered.state, "roxy verify", 0, Interrupts()):
        assert completions(folder, "verify", "log") == ["login", "login/web", "login/ios"]
        assert completions(folder, "verify", "login/w") == ["login/web"]


def test_a_name_that_a_shell_would_split_or_expand_is_not_offered(offered: Project) -> None:
    assert completions(offered.root, "verify", "t") == []


@pytest.mark.parametrize("manifest", [None, "[claims", "\xff", "[claims.a]\n"])
def test_nothing_is_offered_silently_where_there_is_no_sound_roxy_toml(
    project: Project, capfd: pytest.CaptureFixture[str], manifest: str | None
) -> None:
    if manifest is not None:
        project.write("roxy.toml", manifest.encode("latin-1"))
    assert completions(project.root, "verify", "") == []
    assert completions(project.root / "nowhere", "verify", "") == []
    assert capfd.readouterr() == ("", "")


def test_completion_reads_roxy_toml_of_the_folder_that_an_option_names(
    offered: Project, make_project: Callable[[str], Project]
) -> None:
    elsewhere = make_project("elsewhere").root
    assert completions(elsewhere, "-C", str(offered.root), "verify", "login/i") == ["login/ios"]


@pytest.mark.parametrize("shell", SHELLS)
def test_completion_prints_a_script_for_each_shell_and_for_the_one_in_use(
    project: Project, shell: str
) -> None:
    done = project.roxy("completion", "--json", env={"SHELL": f"/usr/bin/{shell}"})
    assert done.code == 0
    schema = json.loads(text("completion"))
    jsonschema.Draft7Validator(schema).validate(done.json)
    assert done.json["shell"] == shell
    assert f"_ROXY_COMPLETE={shell}_complete" in done.json["script"]


@pytest.mark.rule("S43", "S48")
@pytest.mark.parametrize("words", [("completion", "tcsh"), ("completion",)])
def test_a_shell_without_completion_is_a_usage_error(
    project: Project, words: tuple[str, ...]
) -> None:
    done = project.roxy(*words, env={"SHELL": "/bin/tcsh"})
    assert (done.code, done.out) == (2, "")
    assert "`tcsh`" in done.err


@pytest.mark.parametrize("command", ["verify", "show", "history", "try", "refresh"])
def test_each_command_that_takes_names_completes_them(offered: Project, command: str) -> None:
    assert completions(offered.root, command, "login/") == ["login/web", "login/ios"]


# Schemas.


@pytest.mark.rule("S47")
def test_schema_lists_every_schema_of_the_package_and_prints_each(project: Project) -> None:
    shipped = resources.files("roxy").joinpath("schemas")
    listed = project.roxy("schema").out.split()
    assert [f"{name}.json" for name in listed] == sorted(file.name for file in shipped.iterdir())
    assert listed == names()
    for name in listed:
        schema = json.loads(text(name))
        jsonschema.Draft7Validator.check_schema(schema)
    assert project.roxy("schema", "roxy.toml").out == text("roxy.toml")


@pytest.mark.rule("S47")
def test_the_list_of_schemas_has_a_document_too(project: Project) -> None:
    value = project.roxy("schema", "--json").json
    jsonschema.Draft7Validator(json.loads(text("schemas"))).validate(value)
    assert value["names"] == names()


@pytest.mark.rule("S48")
@pytest.mark.parametrize(
    ("name", "hint"), [("reprt", "did you mean `report`?"), ("../x", "the schemas are `")]
)
def test_a_schema_that_there_is_not_is_a_usage_error(
    project: Project, name: str, hint: str
) -> None:
    done = project.roxy("schema", name)
    assert (done.code, done.out) == (2, "")
    assert f"hint: {hint}" in done.err


def test_shells_complete_the_names_of_schemas(project: Project) -> None:
    assert completions(project.root, "schema", "rep") == ["report"]
