"""What git itself makes of a patch, in a work tree that holds nothing but the named files (S21).

The hunks already have their places, so git has nothing to search and nothing to guess. It must
leave the same files with the same modes, and in each the very bytes that roxy made.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

from roxy.core import files
from roxy.core.errors import GitError
from roxy.core.misfit import Code, MisfitError, name
from roxy.core.patch import render
from roxy.core.private_git import SHA1, SHA256
from roxy.core.splice import Group, Span, group
from roxy.core.working_tree import BLOCK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from roxy.core.desk import Desk
    from roxy.core.git import Answer
    from roxy.core.patch import Section
    from roxy.core.placement import Placed

_AS_IS = "* -text -ident -filter -whitespace !working-tree-encoding"
_APPLY = ("apply", "--unidiff-zero", "--whitespace=nowarn")
_SUMMARY = ("apply", "--numstat", "-z")
_SHA1_DIGITS = 40
_END = b"diff --git a/%(name)b b/%(name)b\n--- a/%(name)b\n+++ b/%(name)b\n@@ -1 +1 @@\n-\n+.\n"
_HOLDS_NONE = ("error: No valid patches in input", "error: unrecognized input")
"""How git, newer and older, says that nothing in a file is a patch. The newer words name an option
of git's that roxy has no use for."""
_PLAIN = re.compile(rb"(?:[A-Za-z0-9_+-][A-Za-z0-9_+.-]*/)*[A-Za-z0-9_+-][A-Za-z0-9_+.-]*")
"""Names that git takes for safe on every system, without being asked."""


@dataclass(frozen=True, slots=True)
class Summary:
    """What git says of one section."""

    path: bytes
    added: int | None
    """None for a binary one."""
    deleted: int | None


def unreadable(desk: Desk, patch: bytes) -> str | None:
    """Return why git cannot read a patch at all, mostly in its words (S19), else None."""
    answer = desk.git.call(["apply", "--numstat", "--check"], desk.empty_tree, stdin=patch)
    if answer.code != 128:  # noqa: PLR2004
        return None
    if answer.complaint.startswith(_HOLDS_NONE):
        return "it holds no patch"
    return answer.complaint or "it gave no reason"


def is_plain(summary: Sequence[Summary] | None) -> bool:
    """Say whether git reads a patch whole, and can have nothing against any name in it."""
    return summary is not None and all(
        _PLAIN.fullmatch(one.path) and (one.added or one.deleted) for one in summary
    )


def summarise(desk: Desk, patch: bytes, *options: str) -> tuple[Summary, ...] | None:
    """Return git's summary of every section in order, or None when it cannot read the patch."""
    answer = desk.git.call([*_SUMMARY, *options], desk.empty_tree, stdin=patch)
    if answer.code:
        return None
    return tuple(_summaries(answer.stdout))


def summarise_all(desk: Desk, patches: Sequence[bytes]) -> list[tuple[Summary, ...]] | None:
    """Do the same for several at once; None when git cannot read every one of them."""
    folder = desk.new_tree()
    end = secrets.token_hex(16)  # nobody's file, so that nobody can end a patch before its end
    files.write(folder / "end", _END % {b"name": end.encode()})
    names = []
    for number, patch in enumerate(patches):
        files.write(folder / str(number), patch)
        names += [str(folder / str(number)), str(folder / "end")]
    answer = desk.git.call([*_SUMMARY, *names], desk.empty_tree)
    if answer.code:
        return None
    found: list[tuple[Summary, ...]] = []
    begun: list[Summary] = []
    for summary in _summaries(answer.stdout):
        if summary.path == end.encode():
            found.append(tuple(begun))
            begun = []
        else:
            begun.append(summary)
    return found


def _summaries(stdout: bytes) -> Iterator[Summary]:
    for line in stdout.split(b"\0")[:-1]:
        added, deleted, path = line.split(b"\t", 2)
        yield Summary(path, _number(added), _number(deleted))


def _number(text: bytes) -> int | None:
    return None if text == b"-" else int(text)


@dataclass(frozen=True, slots=True)
class Part:
    """One file on its way through."""

    path: bytes
    section: Section
    stored: Path
    """The form that git stores of it."""
    executable: bool
    placed: Placed | None
    """None for a binary section."""


def prove(desk: Desk, parts: Sequence[Part]) -> Path:
    """Let git apply all parts at once and compare. Returns the work tree afterwards.

    Raises `MisfitError`.
    """
    groups = [_groups(part) for part in parts]
    tree, pieces = desk.new_tree(), desk.new_tree()
    text: list[bytes] = []
    pieces_text: list[bytes] = []
    for number, (part, some) in enumerate(zip(parts, groups, strict=True)):
        _lay_out(part, some, tree, text)
        _lay_out_pieces(part, some, pieces / str(number), pieces_text, number)
    before = _modes(tree)
    _apply(desk, tree, b"".join(text), parts)
    if pieces_text:
        _apply(desk, pieces, b"".join(pieces_text), parts)
    _compare_names(before, _modes(tree))
    for number, (part, some) in enumerate(zip(parts, groups, strict=True)):
        if part.placed is not None:
            made = [_in(tree, part.path)]
            made += [pieces / str(number) / str(piece) for piece in range(1, len(some))]
            if _assembled(part.placed, some, made) != part.placed.content.sha256:
                raise MisfitError(
                    Code.GIT_DIFFERS, f"is applied to {name(part.path)} by git in another way"
                )
    return tree


def _groups(part: Part) -> list[Group]:
    placed = part.placed
    if placed is None:
        return [Group(Span(0, part.stored.stat().st_size), (), 0)]
    return group(part.section.hunks, placed.spans, placed.shift, placed.base.stat().st_size)


def _in(tree: Path, path: bytes) -> Path:
    return tree / os.fsdecode(path)


# ------------------------------------------------------------------- what git is given


def _lay_out(part: Part, groups: Sequence[Group], tree: Path, text: list[bytes]) -> None:
    """Put the file, or the part of it that holds the first hunks, in its place in the tree."""
    base = part.stored if part.placed is None else part.placed.base
    to = _in(tree, part.path)
    files.make_folder(to.parent)
    _copy(base, groups[0].span, to, 0o700 if part.executable else 0o600)
    text.append(part.section.header)
    if part.section.binary is not None:
        text.append(part.section.binary)
    text += render(groups[0].hunks, groups[0].shift)


def _lay_out_pieces(
    part: Part, groups: Sequence[Group], folder: Path, text: list[bytes], number: int
) -> None:
    """Put what holds the other hunks into files with plain names."""
    if part.placed is None or len(groups) == 1:
        return
    files.make_folder(folder)
    for piece, some in enumerate(groups[1:], start=1):
        _copy(part.placed.base, some.span, folder / str(piece), 0o600)
        text.append(
            b"diff --git a/%(name)b b/%(name)b\n--- a/%(name)b\n+++ b/%(name)b\n"
            % {b"name": b"%d/%d" % (number, piece)}
        )
        text += render(some.hunks, some.shift)


def _copy(source: Path, span: Span, to: Path, mode: int) -> None:
    with files.Output(to, mode) as output:
        _read(source, span, output.write)


def _read(source: Path, span: Span, write: Callable[[bytes], object]) -> None:
    with source.open("rb", buffering=0) as file:
        file.seek(span.begin)
        left = span.end - span.begin
        while left and (block := file.read(min(left, BLOCK))):
            write(block)
            left -= len(block)


# ------------------------------------------------------------------- what git made of it


def _apply(desk: Desk, tree: Path, text: bytes, parts: Iterable[Part]) -> None:
    ids = (part.section.old_id or "" for part in parts)
    object_format = SHA256 if any(len(one) > _SHA1_DIGITS for one in ids) else SHA1

    def call(*options: str) -> Answer:
        return desk.git.call(
            [*_APPLY, *options],
            tree,
            attributes=_AS_IS,
            object_format=object_format,
            settings={"core.autocrlf": "false"},
            stdin=text,
        )

    answer = call()
    if not answer.code:
        return
    _refuse_renames(desk, text)
    if not call("--check").code:  # so it was the writing that failed
        raise GitError(f"git cannot apply a patch in roxy's own folder: {answer.complaint}")
    raise MisfitError(Code.GIT_REFUSES, f"is refused by `git apply`: {answer.complaint}")


def _refuse_renames(desk: Desk, text: bytes) -> None:
    """Raise when a section leads from one file to another without saying so in its header."""
    there, back = summarise(desk, text), summarise(desk, text, "-R")
    for new, old in zip(there or (), back or (), strict=False):
        if new.path != old.path:
            raise MisfitError(Code.RENAMES, f"renames {name(old.path)} to {name(new.path)}")


def _modes(tree: Path) -> dict[bytes, int]:
    """Return the mode of everything in a tree that is not a folder, by its path."""
    modes = {}
    left = [b""]
    while left:
        folder = left.pop()
        with os.scandir(os.path.join(os.fsencode(tree), folder)) as entries:
            for entry in entries:
                path = os.path.join(folder, entry.name)
                if entry.is_dir(follow_symlinks=False):
                    left.append(path)
                else:
                    modes[path] = entry.stat(follow_symlinks=False).st_mode
    return modes


def _compare_names(before: dict[bytes, int], after: dict[bytes, int]) -> None:
    """Raise unless the same regular files are there, each as executable as it was."""
    for path in sorted(before.keys() | after.keys()):
        if path not in after:
            raise MisfitError(Code.DELETES, f"deletes {name(path)}")
        if path not in before or not stat.S_ISREG(after[path]):
            raise MisfitError(Code.CREATES, f"creates {name(path)}")
        if (before[path] ^ after[path]) & stat.S_IXUSR:
            raise MisfitError(Code.CHANGES_MODE, f"changes the mode of {name(path)}")


def _assembled(placed: Placed, groups: Sequence[Group], made: Sequence[Path]) -> bytes:
    """Return the digest of the base with each group's part as git left it."""
    digest = hashlib.sha256()
    at = 0
    for some, piece in zip(groups, made, strict=True):
        _read(placed.base, Span(at, some.span.begin), digest.update)
        _read(piece, Span(0, piece.stat().st_size), digest.update)
        at = some.span.end
    _read(placed.base, Span(at, placed.base.stat().st_size), digest.update)
    return digest.digest()
