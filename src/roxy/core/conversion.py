"""The two forms of a file: on the disk, and as git stores it (S21).

Git converts between them as `.gitattributes` and two settings say: line ends, encoding, `$Id$`.
Patches are about the stored form. Filters are not among the conversions: none is ever run.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from roxy.core import files
from roxy.core.errors import GitError
from roxy.core.misfit import Code, MisfitError, name, unreadable
from roxy.core.working_tree import BLOCK, content_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from roxy.core.desk import Desk
    from roxy.core.git import Answer, Repository
    from roxy.core.working_tree import Content, Tree

ATTRIBUTES = b".gitattributes"
_ASKED = ("text", "crlf", "eol", "ident", "working-tree-encoding")
_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EINVAL})
_OFF = frozenset({"", "false", "no", "off", "0"})
_NOT_SET = frozenset({"unspecified", "unset"})


def content(path: Path) -> Content:
    """Return what one of roxy's own files holds."""
    with path.open("rb", buffering=0) as file:
        return content_of(file.fileno())


def find_rules(desk: Desk, tree: Tree, paths: Sequence[bytes]) -> Rules:
    """Return what is in force for some paths, as the `.gitattributes` of the tree are now.

    Those are copied, so that a check cannot change them under git's feet.

    Raises `MisfitError` when one of those cannot be read.
    """
    folder = desk.new_tree()
    has_attributes = _copy_attributes(tree, paths, folder)
    if not has_attributes and desk.settings.get("core.autocrlf", "").lower() in _OFF:
        return Rules(desk, folder, {}, has_attributes)
    answer = desk.git.call(
        ["check-attr", "-z", "--stdin", *_ASKED],
        folder,
        stdin=b"".join(path + b"\0" for path in paths),
    )
    if answer.code:
        raise GitError(f"git cannot read attributes: {answer.complaint}")
    values: dict[bytes, dict[str, str]] = {}
    fields = answer.stdout.split(b"\0")
    for path, key, value in zip(fields[0::3], fields[1::3], fields[2::3], strict=False):
        values.setdefault(path, {})[key.decode()] = value.decode("utf-8", "replace")
    return Rules(desk, folder, values, has_attributes)


def attribute_files(paths: Sequence[bytes]) -> list[bytes]:
    """Return where a `.gitattributes` would be about any of some paths."""
    above = {path[:end] for path in paths for end, byte in enumerate(path) if byte == ord("/")}
    return [place + b"/" + ATTRIBUTES if place else ATTRIBUTES for place in sorted({b"", *above})]


def _copy_attributes(tree: Tree, paths: Sequence[bytes], folder: Path) -> bool:
    found = False
    for path in attribute_files(paths):
        try:
            with tree.reading(path) as fd:
                to = folder / os.fsdecode(path)
                files.make_folder(to.parent)
                with files.Output(to) as output:
                    while block := os.read(fd, BLOCK):
                        output.write(block)
            found = True
        except OSError as error:  # git, too, takes nothing but a regular file
            if error.errno not in _ABSENT:
                raise unreadable(path, error) from error
    return found


@dataclass(frozen=True)
class Rules:
    """Which conversions are in force for some paths."""

    desk: Desk
    folder: Path
    values: Mapping[bytes, Mapping[str, str]]
    has_attributes: bool
    """Whether there is any `.gitattributes` above them."""

    def find(self, path: bytes, *, has_cr: bool, keeps_crlf: bool) -> Conversion | None:
        """Return a path's conversion, or None when both of its forms are the same for sure.

        With `keeps_crlf` line ends stay as they are, as git does for a patch with CRLF in it.
        """
        values = self.values.get(path)
        if values is None:
            return None
        has_ident = values["ident"] == "set"
        has_encoding = values["working-tree-encoding"] not in {*_NOT_SET, ""}
        line_ends = not keeps_crlf and self._converts_line_ends(values, has_cr=has_cr)
        if not (has_ident or has_encoding or line_ends):
            return None
        return Conversion(self.desk, self.folder, path, has_ident, has_encoding, keeps_crlf)

    def differing(
        self, repository: Repository, paths: Sequence[bytes]
    ) -> Iterator[tuple[bytes, str, str]]:
        """Give each attribute that git has otherwise in the repository itself. Raises `GitError`."""
        for key in _ASKED:
            for path, value in repository.attribute(key, paths).items():
                if value != self.values.get(path, {}).get(key, "unspecified"):
                    yield path, key, value

    def _converts_line_ends(self, values: Mapping[str, str], *, has_cr: bool) -> bool:
        settings = self.desk.settings
        autocrlf = settings.get("core.autocrlf", "").lower()
        text, crlf, eol = values["text"], values["crlf"], values["eol"]
        if text == "unset" or (text == "unspecified" and crlf == "unset"):
            return False
        is_text = any(value != "unspecified" for value in (text, crlf, eol))
        if not is_text and autocrlf in _OFF:
            return False
        writes_crlf = (
            eol == "crlf"
            or autocrlf not in {*_OFF, "input"}
            or settings.get("core.eol", "").lower() == "crlf"
        )
        return has_cr or writes_crlf


@dataclass(frozen=True)
class Conversion:
    """The way of one file from the disk to its stored form, and back."""

    desk: Desk
    folder: Path
    path: bytes
    has_ident: bool
    has_encoding: bool
    keeps_crlf: bool

    def to_git(self, source: Path) -> Path:
        """Return the stored form of `source`."""
        return self._to_git(source)

    def checked_out(self, stored: Path) -> Path:
        """Return what `git checkout-index` would write of a stored form."""
        return self._to_disk(stored)

    def to_disk(self, outcome: Path, stored: Path, raw: Path) -> Path:
        """Return the form on the disk of `outcome`, made from `stored`, which stands for `raw`.

        Only the lines that differ from `stored` may differ from `raw`, and `$Id$`. So where git
        would write the file in another way than it is on the disk, its bytes are taken as they
        are, if they are the stored ones as well; or else there is no saying what the patch means.
        """
        before = content(raw)
        if self._written_by_git(stored, raw) == before:
            made = self._to_disk(outcome)
            if self.has_encoding and content(self._to_git(made)) != content(outcome):
                raise self._failure(f"{name(self.path)} cannot hold what it writes there")
            return made
        if content(stored) == before:
            return outcome
        raise self._failure(
            f"fits {name(self.path)} only as git would write it, with other line ends or in another"
            " encoding than it has on the disk"
        )

    def _written_by_git(self, stored: Path, raw: Path) -> Content:
        """Return what git would write, with each `$Id$` as it is on the disk."""
        if self.has_ident:
            stored = self._to_git(raw, "-ident")
        return content(self._to_disk(stored, "-ident"))

    def _to_git(self, source: Path, *attributes: str) -> Path:
        arguments: list[str | bytes] = ["hash-object", b"--path=" + self.path, str(source)]
        answer = self._call([*arguments, "-w"], attributes)
        if answer.code:
            again = self._call(arguments, attributes)
            if not again.code and not again.stderr:  # so it was the writing that failed
                raise GitError(f"git cannot store a file for roxy: {answer.complaint}")
            raise self._failure(f"cannot be fitted: git does not convert {self._named(answer)}")
        return self._object(answer.stdout.strip(), ["blob"], attributes)

    def _to_disk(self, source: Path, *attributes: str) -> Path:
        answer = self._call(["hash-object", "-w", "--no-filters", str(source)], attributes)
        if answer.code:
            raise GitError(f"git cannot store a file for roxy: {answer.complaint}")
        options: list[str | bytes] = ["--filters", b"--path=" + self.path]
        return self._object(answer.stdout.strip(), options, attributes)

    def _object(
        self, object_id: bytes, options: Sequence[str | bytes], attributes: Sequence[str]
    ) -> Path:
        to = self.desk.fresh()
        with os.fdopen(files.create(to), "wb") as file:
            answer = self._call(["cat-file", *options, object_id], attributes, file)
        if answer.code:
            raise GitError(f"git cannot give a file to roxy: {answer.complaint}")
        if answer.stderr:  # a character that the encoding lacks; git goes on without converting
            raise self._failure(f"cannot be fitted: git does not convert {self._named(answer)}")
        return to

    def _named(self, answer: Answer) -> str:
        return f"{name(self.path)}: {answer.complaint}"

    def _failure(self, text: str) -> MisfitError:
        return MisfitError(Code.CANNOT_CONVERT, text)

    def _call(
        self,
        arguments: Sequence[str | bytes],
        attributes: Sequence[str],
        stdout: IO[bytes] | None = None,
    ) -> Answer:
        in_force = [*attributes, *(["-text"] if self.keeps_crlf else [])]
        return self.desk.git.call(
            arguments,
            self.folder,
            attributes=" ".join(["*", *in_force]) if in_force else "",
            object_format=self.desk.object_format,
            settings=self.desk.settings,
            stdout=stdout,
        )
