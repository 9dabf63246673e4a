"""The command line by itself: what it does without a repository."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import stat
import subprocess
import sys
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

import warm
from project import HANG
from roxy.cli import shortcut
from roxy.cli.boundary import run, wants_document
from roxy.cli.color import wants_color
from roxy.cli.commands import roxy
from roxy.cli.crash import record_crash
from roxy.cli.invocation import Invocation, Settings
from roxy.cli.main import answer
from roxy.cli.streams import Stream, Streams
from roxy.core.errors import Interrupted, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence


SOURCES = Path(__file__).parent.parent / "src"
COMMANDS = (
    *("init", "status", "verify", "gate", "show", "history"),
    *("try", "refresh", "doctor", "completion", "schema"),
)
ALL_OF_THEM = ", ".join(f"`{command}`" for command in COMMANDS)
EVERYWHERE = ("-C", "--wait", "--json", "--verbose", "--quiet", "--color", "--version", "--help")


def environment(**more: str) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "PYTHONPATH": str(SOURCES), "LANG": "C.UTF-8"} | more


def call(
    *arguments: str | bytes, env: dict[str, str] | None = None, **more: Any
) -> subprocess.CompletedProcess[bytes]:
    env = env or environment()
    if not more and (
        ended := warm.command(list(map(os.fsdecode, arguments)), Path.cwd(), env, HANG)
    ):
        return subprocess.CompletedProcess(arguments, *ended)
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | more
    return subprocess.run(
        [sys.executable, "-m", "roxy", *arguments],
        env=env,
        check=False,
        timeout=HANG,
        **streams,
    )


def shell(script: str) -> subprocess.CompletedProcess[bytes]:
    """Run a script in which `$roxy` starts roxy."""
    env = environment(roxy=f"{sys.executable} -m roxy")
    return subprocess.run(["sh", "-c", script], env=env, check=False, capture_output=True)


def an_invocation(**given: Any) -> Invocation:
    null = Stream(-1, "utf-8")
    return Invocation(Streams(null, null), {}, **given)


def settings_of(command: str, *after: str, before: Sequence[str] = ()) -> Settings:
    """The settings that a command would see, without what the command does."""
    invocation = an_invocation()
    with roxy.make_context("roxy", [*before, command], obj=invocation) as context:
        found = roxy.get_command(context, command)
        assert found is not None
        found.make_context(command, list(after), parent=context)
    return invocation.settings


# What is understood without click.

_WORDS = ("gate", "status", "--json", "-q", "--quiet", "-C", "there", "--color=never", "--wait=1")


@pytest.mark.rule("S44")
@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_plain_calls_mean_what_click_reads_in_them(count: int) -> None:
    understood = 0
    for words in itertools.product(_WORDS, repeat=count):
        plain = shortcut.read(words)
        if plain is None or words.count(plain[0]) > 1:  # one is the folder of -C
            continue
        understood += 1
        command, given = plain
        at = words.index(command)
        settings = settings_of(command, *words[at + 1 :], before=words[:at])
        assert settings == Settings(**given)
    assert understood > count


@pytest.mark.rule("S44")
@pytest.mark.parametrize(
    "words",
    [
        [],
        ["verify"],
        ["gate", "status"],
        ["gate", "-h"],
        ["gate", "-C"],
        ["gate", "-C", "-q"],
        ["gate", "--jso"],
        ["gate", "--wait", "1"],
        ["--color", "always", "gate"],
        ["gate", "x"],
    ],
)
def test_what_is_not_plain_is_left_to_click(words: list[str]) -> None:
    assert shortcut.read(words) is None


# Help and version.


@pytest.mark.rule("S44", "S47")
@pytest.mark.parametrize("where", list(itertools.product(["", *COMMANDS], ["", "after"])))
def test_version_stands_before_or_after_a_command(where: tuple[str, str]) -> None:
    command, is_after = where
    words = [command] if command else []
    done = call(*([*words, "--version"] if is_after else ["--version", *words]))
    assert (done.returncode, done.stdout, done.stderr) == (0, b"roxy 0.1.0\n", b"")


@pytest.mark.rule("S44")
@pytest.mark.parametrize("words", [["--help"], ["-h"], ["-h", "gate"]])
def test_help_names_the_commands_and_the_exit_codes(words: list[str]) -> None:
    done = call(*words)
    assert (done.returncode, done.stderr) == (0, b"")
    text = done.stdout.decode()
    assert all(re.search(rf"^  {command}  ", text, re.MULTILINE) for command in COMMANDS)
    assert "130, 143 and 129" in text


@pytest.mark.rule("S44")
@pytest.mark.parametrize("command", ["status", "show", "schema"])
def test_the_help_of_verbose_promises_no_runs_where_none_are(command: str) -> None:
    text = " ".join(call(command, "--help").stdout.decode().split())
    assert "Tell more: what the runs print, names of files, patches that no longer fit." in text


@pytest.mark.rule("S44")
@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_each_command_shows_examples_exit_codes_and_every_shared_option(
    command: str,
) -> None:
    text = call(command, "--help").stdout.decode()
    assert f"  Examples:\n    roxy {command}" in text
    assert "  Exit codes:\n    0  " in text
    assert all(option in text for option in EVERYWHERE)
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.rule("S43", "S45")
def test_roxy_alone_shows_its_help_on_stderr_and_judges_nothing() -> None:
    done = call()
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(b"Usage: roxy [OPTIONS] COMMAND")
    assert done.stderr.endswith(b"error: no command is given\nhint: start with `roxy status`\n")


@pytest.mark.parametrize("words", [["--version"], ["--help"], ["verify", "--help"]])
def test_help_and_version_load_nothing_that_works(words: list[str]) -> None:
    env = environment(PYTHONPROFILEIMPORTTIME="1")
    loaded = {line.split(b"|")[-1].strip() for line in call(*words, env=env).stderr.splitlines()}
    assert b"click" in loaded
    assert loaded.isdisjoint({b"rich", b"json", b"subprocess", b"roxy.core.git"})


# Mistakes.

MISTAKES = {
    ("stauts",): ("there is no command `stauts`", "did you mean `status`?"),
    ("frob",): ("there is no command `frob`", f"the commands are {ALL_OF_THEM}"),
    ("status", "--jsno"): ("there is no option `--jsno`", "did you mean `--json`?"),
    ("gate", "--frob"): ("there is no option `--frob`", "`roxy gate --help` tells what there is"),
    ("--wait",): ("option `--wait` requires an argument", "`roxy --help` tells what there is"),
    ("--wait", "-1", "status"): (
        "`--wait`: `-1` is not a number of seconds, 0 or more",
        "`roxy --help` tells what there is",
    ),
    ("status", "--color", "red"): (
        "`--color`: `red` is not one of `auto`, `always`, `never`",
        "`roxy status --help` tells what there is",
    ),
    ("gate", "login"): (
        "got unexpected extra argument (login)",
        "`roxy gate --help` tells what there is",
    ),
    **dict.fromkeys(
        [
            ("verify", "--locked"),
            ("verify", "--locked", "login"),
            ("verify", "--all", "--locked", "login"),
        ],
        (
            "`--locked` compares the whole of roxy.lock, so it needs `--all` and takes no NAME",
            "`roxy verify --all --locked`",
        ),
    ),
}


@pytest.mark.rule("S43", "S48", "S50")
@pytest.mark.parametrize("words", MISTAKES, ids=" ".join)
def test_a_mistake_is_told_with_a_hint(words: tuple[str, ...]) -> None:
    what, hint = MISTAKES[words]
    done = call(*words)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.decode() == f"error: {what}\nhint: {hint}\n"


@pytest.mark.rule("S47")
@pytest.mark.parametrize("words", MISTAKES, ids=" ".join)
def test_json_prints_an_error_document_wherever_it_stands(words: tuple[str, ...]) -> None:
    what, hint = MISTAKES[words]
    done = call("--json", *words)
    assert done.returncode == 2
    assert done.stderr.decode() == f"error: {what}\nhint: {hint}\n"
    value = json.loads(done.stdout)
    schema = json.loads(resources.files("roxy").joinpath("schemas/error.json").read_text())
    jsonschema.Draft7Validator(schema).validate(value)
    assert value["errors"] == [{"what": what, "where": None, "hint": hint}]


@pytest.mark.rule("S47")
@pytest.mark.parametrize(
    ("words", "is_wanted"),
    [
        (["--json", "frob"], True),
        (["status", "--frob", "--json"], True),
        (["verify", "--", "--json"], False),
        (["--jsonx"], False),
        ([], False),
    ],
)
def test_json_counts_also_where_the_rest_cannot_be_parsed(
    words: list[str], *, is_wanted: bool
) -> None:
    assert wants_document(words) is is_wanted


@pytest.mark.rule("S46", "S48")
def test_a_hostile_argument_is_told_escaped_on_one_line() -> None:
    done = call(b"\xff\x1b[31m\n\xe2\x80\xae")
    assert done.returncode == 2
    assert done.stderr.splitlines()[0] == (
        b"error: there is no command `\\xff\\u001b[31m\\u000a\\u202e`"
    )


# Options.


@pytest.mark.rule("S8", "S44")
@pytest.mark.parametrize("command", COMMANDS)
def test_options_mean_the_same_before_and_after_the_command(command: str) -> None:
    words = ["-C", "some/where", "--wait", "1.5", "--json", "-q", "--color", "never"]
    assert settings_of(command, before=words) == settings_of(command, *words)
    settings = settings_of(command, *words)
    assert (settings.directory, settings.wait, settings.color) == ("some/where", 1.5, "never")
    assert (settings.json, settings.quiet, settings.verbose) == (True, True, False)


@pytest.mark.rule("S8", "S44")
def test_options_that_are_absent_leave_the_defaults() -> None:
    settings = settings_of("status")
    assert (settings.start, settings.wait, settings.color) == (Path.cwd(), 0.0, "auto")
    assert (settings.json, settings.quiet, settings.verbose) == (False, False, False)


@pytest.mark.rule("S44")
def test_the_later_of_two_options_wins() -> None:
    settings = settings_of("gate", "-C", "b", before=["-C", "a", "--wait", "1"])
    assert (settings.directory, settings.wait) == ("b", 1)
    assert settings_of("gate", "--wait", "1", "--wait", "2").wait == 2


@pytest.mark.rule("S44")
@pytest.mark.parametrize(
    ("before", "after"), [(["-qv"], []), (["-q"], ["-v"]), ([], ["--quiet", "--verbose"])]
)
def test_verbose_and_quiet_do_not_go_together(before: list[str], after: list[str]) -> None:
    with pytest.raises(UsageError, match="do not go together"):
        settings_of("gate", *after, before=before)


@pytest.mark.rule("S8")
@pytest.mark.parametrize("text", ["-1", "nan", "inf", "1e999", "soon", ""])
def test_wait_takes_only_a_number_that_ends(text: str) -> None:
    assert call("--wait", text, "status").returncode == 2


@pytest.mark.rule("S48")
def test_a_folder_that_is_gone_is_no_place_to_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(UsageError, match="is gone"):
        _ = an_invocation().settings.start
    assert an_invocation(directory=str(tmp_path)).settings.start == tmp_path


@pytest.mark.rule("S46")
@pytest.mark.parametrize(
    ("choice", "environ", "is_terminal", "answer"),
    [
        ("always", {"NO_COLOR": "1", "TERM": "dumb"}, False, True),
        ("never", {"FORCE_COLOR": "1"}, True, False),
        ("auto", {"NO_COLOR": "1", "FORCE_COLOR": "1"}, True, False),
        ("auto", {"NO_COLOR": "", "FORCE_COLOR": "1"}, False, True),
        ("auto", {"NO_COLOR": "", "FORCE_COLOR": ""}, False, False),
        ("auto", {}, True, True),
        ("auto", {}, False, False),
        ("auto", {"TERM": "dumb"}, True, False),
    ],
)
def test_color_is_decided_by_the_first_that_has_an_opinion(
    choice: str, environ: dict[str, str], *, is_terminal: bool, answer: bool
) -> None:
    assert wants_color(choice, environ, is_terminal=is_terminal) is answer


@pytest.mark.rule("S46")
def test_color_always_also_marks_errors() -> None:
    done = call("--color", "always", "frob")
    assert done.stderr.startswith(b"\x1b[1;31merror\x1b[0m: there is no")


# The boundary.


class Trouble(dict[str, str]):
    """An environment that raises as soon as anybody goes through it, as is done to ask git."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self._error = error

    def items(self) -> Any:
        raise self._error


@pytest.mark.rule("S43", "S48")
def test_a_bug_is_one_line_that_names_a_file_with_the_traceback(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert run(["verify"], Trouble(KeyError("a\nb"))) == 2
    out, err = capfd.readouterr()
    (path,) = tmp_path.iterdir()
    assert out == ""
    assert err == f"error: this is a bug in roxy, KeyError: the traceback is in `{path}`\n"
    assert "KeyError: 'a\\nb'" in path.read_text()


@pytest.mark.rule("S43", "S47")
def test_a_bug_has_an_error_document_too(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert run(["verify", "--json"], Trouble(RecursionError())) == 2
    (error,) = json.loads(capfd.readouterr().out)["errors"]
    assert "RecursionError" in error["what"]


@pytest.mark.rule("S32", "S43", "S47")
def test_an_interruption_without_a_report_has_its_code_and_a_document(
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert run(["--json", "verify"], Trouble(Interrupted(signal.SIGTERM))) == 143
    out, err = capfd.readouterr()
    assert json.loads(out)["errors"][0]["what"] == "interrupted by SIGTERM"
    assert err == "interrupted by SIGTERM\n"


class Impatient(list[str]):
    """Arguments that somebody interrupts with Ctrl-C while they are read."""

    def __getitem__(self, key: Any) -> Any:
        raise KeyboardInterrupt


@pytest.mark.rule("S43")
def test_ctrl_c_before_signals_are_handled_ends_with_130(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", Impatient())
    assert answer() == 130


@pytest.mark.rule("S43")
def test_a_crash_is_written_for_the_user_alone(tmp_path: Path) -> None:
    path = record_crash(tmp_path, ValueError("\ud800"))
    assert path is not None
    assert path.parent == tmp_path / "crashes"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "ValueError" in path.read_text()


@pytest.mark.rule("S43")
def test_a_crash_is_written_elsewhere_when_the_state_is_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, elsewhere = tmp_path / "file", tmp_path / "elsewhere"
    state.touch()
    elsewhere.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(elsewhere))
    path = record_crash(state, ValueError())
    assert path is not None
    assert path.parent == elsewhere


# Streams.


@pytest.mark.rule("S46")
@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("$roxy --help >&-", 0),
        ("$roxy --help 2>&-", 0),
        ("$roxy --version <&- >&- 2>&-", 0),
        ("$roxy frob >&-", 2),
        ("$roxy frob 2>&-", 2),
        ("$roxy --json frob >&-", 2),
    ],
)
def test_a_closed_stream_leaves_the_exit_code_right(script: str, code: int) -> None:
    done = shell(script)
    assert done.returncode == code
    assert b"Traceback" not in done.stderr
    assert b"Exception" not in done.stderr


@pytest.mark.rule("S46")
@pytest.mark.parametrize(("words", "code"), [(["--help"], 0), (["--json", "frob"], 2)])
def test_a_pipe_that_nobody_reads_ends_quietly(words: list[str], code: int) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = call(*words, stdout=writing)
    os.close(writing)
    assert done.returncode == code
    assert b"BrokenPipe" not in done.stderr
    assert (done.stderr == b"") is (code == 0)


@pytest.mark.rule("S43", "S48")
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has /dev/full")
def test_an_answer_that_found_no_room_is_no_answer() -> None:
    with Path("/dev/full").open("wb") as full:
        done = call("--help", stdout=full)
    assert done.returncode == 2
    assert done.stderr == (
        b"error: cannot write to standard output: No space left on device\n"
        b"hint: see to where it leads (space, permissions), then run the same command again\n"
    )


@pytest.mark.rule("S46")
@pytest.mark.parametrize(
    "env",
    [
        {"LC_ALL": "C"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"PYTHONIOENCODING": "latin-1"},
        {"PYTHONIOENCODING": "ascii:strict"},
    ],
)
def test_any_name_can_be_printed_in_any_locale(env: dict[str, str]) -> None:
    done = call("n\u00e9\u540d".encode(), env=environment(**env))
    assert done.returncode == 2
    assert done.stderr.startswith(b"error: there is no command `n")
    assert done.stderr.endswith(f"hint: the commands are {ALL_OF_THEM}\n".encode())


@pytest.mark.rule("S3")
def test_windows_gets_a_sentence_before_anything_is_loaded_that_it_lacks() -> None:
    program = (
        "import sys, os; sys.platform = 'win32'; sys.modules['fcntl'] = None; del os.O_NOFOLLOW\n"
        "from roxy.cli.main import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=False, timeout=60
    )
    assert done.returncode == 2
    assert done.stderr.startswith(b"error: roxy works on Linux and macOS, not on Windows\n")
