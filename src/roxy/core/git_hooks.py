"""Git hooks that call roxy, and why a call would not reach it. The hooks are read, never run."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from itertools import zip_longest
from typing import TYPE_CHECKING

from roxy.core import regular_file
from roxy.core.finding import Finding, Severity
from roxy.core.regular_file import MEBIBYTE, UnreadableFileError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from roxy.core.git import Repository

_BEFORE = frozenset(
    (
        *("exec", "env", "time", "command", "nohup", "!", "{"),
        *("if", "then", "else", "elif", "while", "until", "do"),
    )
)
"""Words that a command may stand behind."""
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)
_BREAKS = frozenset("();<>|&")
_ARGUMENT = re.compile(r"-?-?[a-zA-Z][\w-]*")


def look_at_hooks(repository: Repository) -> Iterator[Finding]:
    """Give what is wrong with each hook that calls roxy. Raises `GitError`."""
    used = repository.place_of("hooks").absolute()
    own = _own_hooks(repository)
    folders = [used]
    if used.name == "_":  # husky has wrappers there, and the hooks one folder up
        folders.append(used.parent)
    for folder in folders:
        for path, calls in _hooks(folder):
            yield from _faults(repository, path, calls, needs_mode=folder == used)
    if not _is_same(used, own):
        for path, _ in _hooks(own):
            yield Finding(
                Severity.WARNING,
                "hook-not-used",
                "git does not run this hook, which calls roxy: `core.hooksPath` leads elsewhere",
                f"`{path}`",
                f"move the call into `{used}`, or unset `core.hooksPath`",
            )


def _own_hooks(repository: Repository) -> Path:
    """Return the hooks folder that git uses when nobody says otherwise."""
    return repository.place_of("config").absolute().parent / "hooks"


def _is_same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False


def _hooks(folder: Path) -> Iterator[tuple[Path, list[str]]]:
    """Give each hook of a folder that calls roxy, with the words that it calls it by."""
    try:
        names = sorted(name for name in os.listdir(folder) if not name.endswith(".sample"))
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return
    try:
        for name in names:
            try:
                data = regular_file.read(fd, os.fsencode(name), MEBIBYTE, follow_links=True)
            except UnreadableFileError:
                continue
            if calls := list(_calls(data.decode("utf-8", "surrogateescape"))):
                yield folder / name, calls
    finally:
        os.close(fd)


def _calls(script: str) -> Iterator[str]:
    """Give each command word of a shell script that is roxy and has an argument."""
    for line in script.splitlines():
        if "roxy" not in line:
            continue
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        try:
            words = list(lexer)
        except ValueError:
            words = line.split()
        is_command = True
        for word, after in zip_longest(words, words[1:], fillvalue=""):
            if set(word) <= _BREAKS:
                is_command = True
            elif is_command and os.path.basename(word) == "roxy" and _ARGUMENT.fullmatch(after):
                yield word
                is_command = False
            else:
                is_command = is_command and (word in _BEFORE or bool(_ASSIGNMENT.fullmatch(word)))


def _faults(
    repository: Repository, path: Path, calls: list[str], *, needs_mode: bool
) -> Iterator[Finding]:
    if needs_mode and not os.access(path, os.X_OK):
        yield Finding(
            Severity.ERROR,
            "hook-not-executable",
            "this hook calls roxy, but git does not run it: it is not executable",
            f"`{path}`",
            f"`chmod +x {shlex.quote(str(path))}`",
        )
    for word in dict.fromkeys(calls):
        if not _is_found(repository, word):
            yield Finding(
                Severity.ERROR,
                "hook-without-roxy",
                f"this hook calls `{word}`, which is not "
                + ("on PATH" if "/" not in word else "there"),
                f"`{path}`",
                "install roxy where the hook finds it, or name its full path",
            )


def _is_found(repository: Repository, word: str) -> bool:
    if "$" in word or "~" in word or "`" in word:
        return True  # only a shell could tell
    if "/" in word:
        return os.access(repository.root / word, os.X_OK)  # a hook starts at the top
    return shutil.which(word, path=repository.environ.get("PATH", os.defpath)) is not None
