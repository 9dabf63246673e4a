"""What the how-to pages tell people to type exists, and their hooks do what they say."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from project import HANG
from roxy.cli.commands import roxy
from roxy.cli.invocation import Invocation
from roxy.cli.streams import Stream, Streams

if TYPE_CHECKING:
    from project import Project

DOCS = Path(__file__).resolve().parent.parent / "docs"
PAGES = {path.name: path.read_text() for path in sorted(DOCS.glob("how-to-*.md"))}
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CALL = re.compile(r"^\s*(?:\$ |- run: |- )roxy (.*)$", re.MULTILINE)
CALLS = sorted({call for page in PAGES.values() for call in CALL.findall(page)})


def block(page: str, kind: str, holds: str) -> str:
    """Return the one block of a kind that holds some text."""
    found = [text for name, text in BLOCK.findall(PAGES[page]) if name == kind and holds in text]
    assert len(found) == 1
    return str(found[0])


def run(command: str, stdin: str, project: Project) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        ["sh", "-c", command],
        cwd=project.root,
        input=stdin.encode(),
        capture_output=True,
        check=False,
        timeout=HANG,
    )


@pytest.fixture
def _roxy_on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "roxy").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m roxy "$@"\n')
    (tools / "roxy").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")


def test_there_are_calls_to_look_at() -> None:
    assert len(CALLS) > 5
    assert "verify --all --locked" in CALLS


@pytest.mark.rule("S44")
@pytest.mark.parametrize("call", CALLS)
def test_every_call_in_a_how_to_is_one_that_roxy_understands(call: str) -> None:
    null = Stream(-1, "utf-8")
    invocation = Invocation(Streams(null, null), {})
    command, *arguments = call.split()
    with roxy.make_context("roxy", [command], obj=invocation) as context:
        found = roxy.get_command(context, command)
        assert found is not None
        found.make_context(command, arguments, parent=context)


@pytest.mark.usefixtures("_roxy_on_path")
def test_the_hook_for_claude_code_and_codex_turns_every_no_into_2(verified: Project) -> None:
    settings = json.loads(block("how-to-agents.md", "json", '"Stop"'))
    (group,) = settings["hooks"]["Stop"]
    (hook,) = group["hooks"]
    done = run(hook["command"], "{}", verified)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    verified.write("src/greeting.txt", "one\nhello\nfour\n")
    done = run(hook["command"], "{}", verified)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"greeting/text" in done.stderr
    verified.write("roxy.toml", "[")
    done = run(hook["command"], "{}", verified)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"error" in done.stderr


@pytest.mark.usefixtures("_roxy_on_path")
def test_the_hook_for_cursor_answers_only_when_a_finished_turn_left_work(
    verified: Project,
) -> None:
    assert json.loads(block("how-to-agents.md", "json", '"stop"'))["version"] == 1
    script = block("how-to-agents.md", "sh", "followup_message")
    completed = json.dumps({"status": "completed", "loop_count": 0})
    assert run(script, completed, verified).stdout == b""
    verified.write("src/greeting.txt", "one\nhello\nfour\n")
    done = run(script, completed, verified)
    assert done.returncode == 0
    assert json.loads(done.stdout).keys() == {"followup_message"}
    aborted = run(script, json.dumps({"status": "aborted"}), verified)
    assert (aborted.returncode, aborted.stdout) == (0, b"")
