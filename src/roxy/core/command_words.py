"""Which files of the repository a check's command names: text in, paths out, nothing is run."""

from __future__ import annotations

import posixpath
import re
import shlex
from bisect import bisect_left
from typing import TYPE_CHECKING, NamedTuple

from roxy.core import glob

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_MODULE = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")
_WILD = re.compile(r"[*?\[]")
_SPLIT = re.compile(r"::|[=:,]")
_BREAKS = frozenset("();<>|&")
_TAKES_NO_FILE = frozenset(
    (
        "cd",
        "run",
        "make",
        "just",
        "npm",
        "npx",
        "pnpm",
        "yarn",
        "bun",
        "cargo",
        "go",
        "gradle",
        "mvn",
    )
)
"""Words after which a word is a folder to go to or a task, though it may be a file's name too."""
_DEPTH = 3
"""Commands within commands (`sh -c '...'`) that are looked into."""


class Named(NamedTuple):
    """One word of a command, and the files that it means."""

    word: str
    files: tuple[bytes, ...]


def named_files(run: str, known: KnownFiles) -> tuple[Named, ...]:
    """Return what the words of a command name among the files of a repository.

    Files, folders, globs, module names with what follows them, and the part of a word before `::`
    or after `=`. A word is also tried below each folder that the command goes to with `cd`.
    """
    found: dict[str, tuple[bytes, ...]] = {}
    for word, before, base in _words(run, _DEPTH):
        if before in _TAKES_NO_FILE or word in found:
            continue
        files = known.meant_by(word, base, is_module=before == "-m")
        if files:
            found[word] = files
    return tuple(Named(word, files) for word, files in found.items())


def _words(run: str, depth: int) -> Iterator[tuple[str, str, str]]:
    """Give each word with the one before it and the folder that the command is in by then."""
    before, base = "", ""
    for token in _tokens(run):
        if set(token) <= _BREAKS:
            before = ""
            continue
        if before == "cd":
            base = posixpath.join(base, token)
        if depth and re.search(r"\s", token):
            for word, one_before, inner in _words(token, depth - 1):
                yield word, one_before, posixpath.join(base, inner)
        yield token, before, base
        before = token


def _tokens(run: str) -> list[str]:
    lexer = shlex.shlex(run, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        return list(lexer)
    except ValueError:  # a quote that is not closed, say in a here-document
        return run.split()


class KnownFiles:
    """The files of a repository, asked by what a word could mean."""

    def __init__(self, paths: Sequence[bytes]) -> None:
        """Take their paths, which are sorted."""
        self._paths = paths
        self._known = frozenset(paths)

    def meant_by(self, word: str, base: str, *, is_module: bool) -> tuple[bytes, ...]:
        """Return the files that a word of a command means, which is in the folder `base` then."""
        for text in dict.fromkeys((word, *_SPLIT.split(word))):
            for folder in dict.fromkeys((base, "")):
                if files := self._path(text, folder) or self._module(text, folder, is_module):
                    return files
        return ()

    def _path(self, text: str, base: str) -> tuple[bytes, ...]:
        if not text or text.startswith("/"):
            return ()
        path = posixpath.normpath(posixpath.join(base, text))
        if path == "." or path.startswith(".."):
            return ()
        name = path.encode("utf-8", "surrogateescape")
        if name in self._known:
            return (name,)
        if _WILD.search(path):
            try:
                return tuple(glob.parse(path).matching(self._paths))
            except glob.GlobError:
                return ()
        start = bisect_left(self._paths, name + b"/")
        return tuple(self._paths[start : bisect_left(self._paths, name + b"0", start)])

    def _module(self, text: str, base: str, is_module: bool) -> tuple[bytes, ...]:  # noqa: FBT001
        """Return the module that a dotted name means, whatever of it is a class or a function."""
        if not _MODULE.fullmatch(text) or not (is_module or "." in text):
            return ()
        parts = text.split(".")
        for length in range(len(parts), 0, -1):
            stem = posixpath.normpath(posixpath.join(base, *parts[:length]))
            for ending in (".py", "/__main__.py", "/__init__.py"):
                if (name := f"{stem}{ending}".encode()) in self._known:
                    return (name,)
        return ()
