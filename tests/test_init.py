"""`roxy init`: what it writes, what it leaves alone, and what it finds in a project."""

from __future__ import annotations

import errno
import json
import os
import tomllib
from importlib import resources
from typing import TYPE_CHECKING

import jsonschema
import pytest

from roxy.core import manifest, tree_writer
from roxy.core.errors import ConfigError
from roxy.core.exclusive import exclusive
from roxy.core.git import find_repository
from roxy.core.initiation import Did, Initiation, begin
from roxy.core.interrupts import Interrupts
from roxy.core.starter import AGENTS, BEGIN, END
from roxy.core.working_tree import Tree
from roxy.reports.init import NEXT

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from project import Project
    from roxy.core.surroundings import Command


def init(project: Project) -> Initiation:
    repository = find_repository(project.root, os.environ, needs_manifest=False)
    tree = Tree(repository.root)
    try:
        return begin(repository, tree, Interrupts())
    finally:
        tree.close()


def did(initiation: Initiation) -> dict[str, Did]:
    return {os.fsdecode(part.path): part.did for part in initiation.parts}


def commands(project: Project, files: Mapping[str, str]) -> tuple[Command, ...]:
    for path, text in files.items():
        project.write(path, text)
    return init(project).commands


# What it writes.


def test_init_in_an_empty_repository_writes_all_and_status_then_says_how_to_go_on(
    project: Project,
) -> None:
    done = project.roxy("init")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[:4] == [
        "wrote `roxy.schema.json`",
        "wrote `roxy.toml`",
        "wrote `mutations/README.md`",
        "wrote `AGENTS.md`",
    ]
    assert "proposed" not in done.out
    assert project.read("AGENTS.md").decode() == AGENTS
    status = project.roxy("status")
    assert status.code == 2
    assert status.err == (
        "error: no claim is declared\n  at roxy.toml\n"
        "hint: take the `# ` off the example that it holds, and make it yours\n"
    )


def test_the_second_init_changes_nothing_and_says_what_is_there(project: Project) -> None:
    init(project)
    before = project.snapshot()
    done = project.roxy("init")
    assert done.code == 0
    assert done.out.splitlines() == [
        "left `roxy.schema.json` as it is: it is there already",
        "left `roxy.toml` as it is: it is there already",
        "left `mutations` as it is: it is there already",
        "left `AGENTS.md` as it is: it is there already",
        "next: `roxy status`",
    ]
    assert project.snapshot() == before


def test_a_later_init_brings_the_schema_back_and_leaves_an_edited_one(project: Project) -> None:
    first = init(project)
    last = project.roxy("init").out
    schema = project.root / "roxy.schema.json"
    data = schema.read_bytes()
    schema.unlink()
    assert did(init(project))["roxy.schema.json"] is Did.WROTE
    assert schema.read_bytes() == data
    schema.write_text("mine")
    assert did(init(project))["roxy.schema.json"] is Did.FOUND
    assert schema.read_text() == "mine"
    assert last.endswith("next: `roxy status`\n")
    assert {os.fsdecode(part.path).partition("/")[0] for part in first.parts} <= {
        name.strip("/") for name in NEXT[-1].split("`")
    }
    told = project.roxy("init", "--help").out
    assert "roxy.schema.json" in told
    assert "mutations/README.md" in told


def test_the_first_line_leads_editors_to_the_schema_without_a_network(project: Project) -> None:
    init(project)
    first = project.read("roxy.toml").decode().splitlines()[0]
    assert first == "#:schema ./roxy.schema.json"
    shipped = resources.files("roxy").joinpath("schemas/roxy.toml.json").read_bytes()
    assert project.read("roxy.schema.json") == shipped


def test_the_example_without_its_hashes_is_a_sound_manifest(project: Project) -> None:
    project.write("src/it.py", "x = 1\n")
    project.write("tests/test_it.py", "import unittest\n")
    init(project)
    text = project.read("roxy.toml").decode()
    example = text[text.index("# [claims.") :]
    bare = "".join(line.removeprefix("# ").removeprefix("#") for line in example.splitlines(True))
    (claim,) = manifest.parse(bare)
    (check,) = claim.checks
    assert check.run == "python3 -m unittest discover -s tests"
    assert check.covers == ("src/**",)
    assert check.mutations == ("mutations/first.patch",)


@pytest.mark.parametrize("is_named", [True, False])
def test_the_hint_about_the_example_is_only_for_a_manifest_that_has_one(*, is_named: bool) -> None:
    text = "# [claims.first]\n" if is_named else "# claims\n"
    with pytest.raises(ConfigError) as error:
        manifest.parse("\n" + text)
    (fault,) = error.value.faults
    assert ("take the" in str(fault.hint)) is is_named


@pytest.mark.rule("S4")
def test_init_in_a_folder_below_works_at_the_top(project: Project) -> None:
    folder = project.root / "deep" / "down"
    folder.mkdir(parents=True)
    assert project.roxy("init", "-q", cwd=folder).out == ""
    assert (project.root / "roxy.toml").exists()
    assert list(folder.iterdir()) == []


@pytest.mark.rule("S4", "S47")
def test_init_outside_a_repository_judges_nothing(project: Project, tmp_path: Path) -> None:
    done = project.roxy("init", "--json", cwd=tmp_path)
    assert done.code == 2
    assert done.json["schema"] == "roxy.error/1"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["project"]


@pytest.mark.rule("S47")
def test_init_has_a_document_that_its_schema_describes(project: Project) -> None:
    project.write("Makefile", "test:\n\ttrue\n")
    project.write("mutations", "a file\n")
    done = project.roxy("init", "--json")
    assert done.code == 1
    schema = json.loads(resources.files("roxy").joinpath("schemas/init.json").read_text())
    jsonschema.Draft7Validator(schema).validate(done.json)
    assert {part["path"]: part["did"] for part in done.json["parts"]} == {
        "roxy.schema.json": "wrote",
        "roxy.toml": "wrote",
        "mutations": "left",
        "AGENTS.md": "wrote",
    }
    assert [one["run"] for one in done.json["commands"]] == ["make test"]


# What it leaves alone.


@pytest.mark.parametrize("kind", ["file", "dangling link", "folder"])
def test_whatever_is_called_roxy_toml_stays(project: Project, kind: str) -> None:
    path = project.root / "roxy.toml"
    if kind == "file":
        path.write_bytes(b"\xff not even text")
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to("../outside.toml")
    before = project.snapshot()["roxy.toml"]
    assert did(init(project))["roxy.toml"] is Did.FOUND
    assert project.snapshot()["roxy.toml"] == before
    assert not (project.root.parent / "outside.toml").exists()


@pytest.mark.parametrize(
    ("before", "gap"),
    [
        (b"", b""),
        (b"# Agents\n", b"\n"),
        (b"# Agents", b"\n\n"),
        (b"# Agents\r\nRun it.\r\n", b"\r\n"),
        (b"# Agents\r\nRun it.", b"\r\n\r\n"),
        (b"\xef\xbb\xbfone\r\ntwo\nthree\r\n", b"\r\n"),
        (b"one\r\ntwo\nthree\nfour \xff\n", b"\n"),
    ],
)
def test_the_paragraph_is_added_once_behind_the_bytes_that_were_there(
    project: Project, before: bytes, gap: bytes
) -> None:
    project.write("AGENTS.md", before, 0o640)
    assert did(init(project))["AGENTS.md"] is Did.ADDED
    after = project.read("AGENTS.md")
    end = b"\r\n" if b"\r\n" in gap else b"\n"
    assert after == before + gap + AGENTS.encode().replace(b"\n", end)
    assert (project.root / "AGENTS.md").stat().st_mode & 0o777 == 0o640
    assert did(init(project))["AGENTS.md"] is Did.FOUND
    assert project.read("AGENTS.md") == after


def test_a_paragraph_that_somebody_changed_stays_theirs(project: Project) -> None:
    mine = BEGIN + b"\nOurs.\n" + END + b"\n"
    project.write("AGENTS.md", mine)
    assert did(init(project))["AGENTS.md"] is Did.FOUND
    assert project.read("AGENTS.md") == mine


def test_a_link_is_followed_within_the_tree_and_never_out_of_it(
    project: Project, tmp_path: Path
) -> None:
    agents = project.root / "AGENTS.md"
    project.write("docs/CLAUDE.md", "# Agents\n")
    agents.symlink_to("docs/CLAUDE.md")
    assert did(init(project))["AGENTS.md"] is Did.ADDED
    assert BEGIN in project.read("docs/CLAUDE.md")
    assert agents.is_symlink()
    outside = tmp_path / "outside.md"
    outside.write_text("# Not yours\n")
    for target, why in {
        outside: "is outside the working tree",
        tmp_path / "nothing.md": "is a symbolic link that leads to nothing",
    }.items():
        agents.unlink()
        agents.symlink_to(target)
        part = init(project).parts[-1]
        assert (part.did, part.why) == (Did.LEFT, why)
    assert outside.read_text() == "# Not yours\n"
    assert not (tmp_path / "nothing.md").exists()


@pytest.mark.parametrize(
    ("data", "why"), [(b"a\0b", "is not UTF-8 text"), (None, "is a directory")]
)
def test_an_agents_file_that_is_no_text_is_left_with_the_reason(
    project: Project, data: bytes | None, why: str
) -> None:
    if data is None:
        (project.root / "AGENTS.md").mkdir()
    else:
        project.write("AGENTS.md", data)
    part = init(project).parts[-1]
    assert (part.did, part.why) == (Did.LEFT, why)


def test_a_disk_that_is_full_leaves_nothing_half_written(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write("AGENTS.md", "# Agents\n")

    def write_half(fd: int, data: bytes) -> None:
        os.write(fd, data[: len(data) // 2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(tree_writer, "write_all", write_half)
    initiation = init(project)
    assert set(did(initiation).values()) == {Did.LEFT}
    assert all("no space left" in str(part.why).lower() for part in initiation.parts)
    assert [name for name, seen in project.snapshot().items() if seen[0] == "file"] == ["AGENTS.md"]
    assert project.read("AGENTS.md") == b"# Agents\n"


def test_mutations_that_are_there_stay_as_they_are(project: Project) -> None:
    project.write("mutations/mine.patch", "x")
    assert did(init(project))["mutations"] is Did.FOUND
    assert os.listdir(project.root / "mutations") == ["mine.patch"]


@pytest.mark.rule("S8")
def test_init_waits_for_nobody_since_it_only_makes_new_files(project: Project) -> None:
    with exclusive(project.state, "roxy verify", 0, Interrupts()):
        assert project.roxy("init").code == 0


# What it finds.

PACKAGE = json.dumps({"scripts": {"test": "vitest run"}})
FOUND = {
    "npm": ({"package.json": PACKAGE, "package-lock.json": "", "src/a.ts": ""}, "npm test", ["src/**"]),
    "no lock": ({"package.json": PACKAGE, "index.js": ""}, "npm test", ["*.js"]),
    "pnpm": (
        {"package.json": PACKAGE, "pnpm-lock.yaml": "", "apps/a.vue": "", "packages/b.ts": ""},
        "pnpm test",
        ["apps/**", "packages/**"],
    ),
    "yarn": ({"package.json": PACKAGE, "yarn.lock": "", "lib/a.js": ""}, "yarn test", ["lib/**"]),
    "bun": ({"package.json": PACKAGE, "bun.lock": "", "src/a.test.ts": ""}, "bun run test", []),
    "pytest settings": (
        {"pyproject.toml": "[tool.pytest.ini_options]\n", "test_a.py": "", "acme/__init__.py": ""},
        "python3 -m pytest -q",
        ["acme/**"],
    ),
    "pytest asked for": (
        {
            "pyproject.toml": '[dependency-groups]\ndev = ["pytest>=8"]\n',
            "uv.lock": "",
            "tests/test_a.py": "",
            "a.py": "",
        },
        "uv run python -m pytest -q",
        ["*.py"],
    ),
    "pytest imported": (
        {"tests/a_test.py": "import pytest\n", "src/a.py": "", ".venv/bin/python": ""},
        ".venv/bin/python -m pytest -q",
        ["src/**"],
    ),
    "unittest": (
        {"tests/test_a.py": "from unittest import TestCase\n", "tests/__init__.py": ""},
        "python3 -m unittest discover -s tests -t .",
        [],
    ),
    "cargo": ({"Cargo.toml": "", "src/lib.rs": ""}, "cargo test --quiet", ["src/**"]),
    "go": (
        {"go.mod": "", "cmd/main.go": "", "cmd/main_test.go": ""},
        "go test ./...",
        ["cmd/**"],
    ),
    "make": ({"Makefile": "lint test: all\n\ttrue\n", "main.c": ""}, "make test", ["*.c"]),
}  # fmt: skip


@pytest.mark.parametrize("case", FOUND)
def test_the_command_that_a_project_has_is_proposed_with_covers_that_exist(
    project: Project, case: str
) -> None:
    files, run, covers = FOUND[case]
    (command,) = commands(project, files)
    assert (command.run, list(command.covers)) == (run, covers)
    text = project.read("roxy.toml").decode()
    assert f"# run = {json.dumps(run)}  # {command.why}\n" in text
    assert tomllib.loads(text) == {}


NOTHING = {
    "npm's own words": {"package.json": '{"scripts": {"test": "echo \\"Error: no test specified\\""}}'},
    "no script": {"package.json": '{"scripts": {"build": "x"}}'},
    "no object": {"package.json": "[1]"},
    "broken": {"package.json": "{", "pyproject.toml": "[", "Makefile": "\0"},
    "deep": {"package.json": "[" * 100_000},
    "python without tests": {"pyproject.toml": "[tool.pytest.ini_options]\n", "a.py": ""},
    "go without tests": {"go.mod": "", "main.go": ""},
    "make with a variable": {"Makefile": "test := 1\ntests: x\n.PHONY: test\n\ttest: no\n"},
    "ignored": {".gitignore": "*.json\n", "package.json": PACKAGE},
    "a name that TOML would read": {'a"\n[claims.x]_test.go': "", "go.mod": ""},
}  # fmt: skip


@pytest.mark.parametrize("case", NOTHING)
def test_nothing_is_proposed_that_is_not_there(project: Project, case: str) -> None:
    assert commands(project, NOTHING[case]) == ()
    text = project.read("roxy.toml").decode()
    assert '# run = "COMMAND"' in text
    assert tomllib.loads(text) == {}


def test_every_command_that_is_found_is_told(project: Project) -> None:
    files = {"package.json": PACKAGE, "Makefile": "test:\n", "src/a.ts": ""}
    assert [one.run for one in commands(project, files)] == ["npm test", "make test"]
    assert '# # or: run = "make test"' in project.read("roxy.toml").decode()
