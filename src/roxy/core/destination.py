"""Where a patch is saved: a file of the working tree, and the key of roxy.toml that names it."""

from __future__ import annotations

import os
import posixpath
import re
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roxy.core import files, glob, regular_file, toml_text, tree_writer
from roxy.core.errors import ConfigError, DiskError, UsageError
from roxy.core.events import Remarked
from roxy.core.kept import keep_copies
from roxy.core.manifest import MAX_MANIFEST
from roxy.core.model import LOCKFILE, MANIFEST
from roxy.core.mutation import Edit
from roxy.core.placement import is_blob
from roxy.core.replacement import replace
from roxy.core.toml_outline import outline
from roxy.core.toml_text import TomlError
from roxy.core.working_tree import Content

if TYPE_CHECKING:
    from roxy.core.events import Emit
    from roxy.core.model import Check
    from roxy.core.session import Session
    from roxy.core.toml_outline import Key, Outline

_BOM = b"\xef\xbb\xbf"
_DOTTED = re.compile(
    r"""(?:(?:[A-Za-z0-9_-]++|"(?:\\.|[^"\\\n])*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+)*+\Z"""
)
"""What stands before the last name of a key on its line, from the first name on."""
_BY_HAND = "let `mutation` in roxy.toml name the patch by hand"


@dataclass(frozen=True, slots=True)
class Destination:
    """A place that was found fit before anything ran."""

    path: str
    """From the top, as roxy.toml names it."""
    old: Content | None
    """What it held then."""
    key: Key | None
    """The value of roxy.toml that has to name it, there or not; None when it does already."""


def find_destination(
    session: Session, check: Check, start: Path, name: str, *, force: bool
) -> Destination:
    """Return where a patch for `check` goes; `name` is relative to `start`.

    Raises `UsageError` for what may not be written, or not without `force`.
    """
    path = _inside(session, start, name)
    own = {posixpath.normpath(one): one for one in check.mutations}
    seen = session.tree.look(path.encode())
    if seen is not None:
        if path not in own and any(glob.parse(one).matches(path.encode()) for one in check.globs):
            raise UsageError(
                f"`{path}` is what `{check.id}` is about, so no patch can be saved there",
                hint="save it as `mutations/NAME.patch`",
            )
        shared = _mutations_of_others(session, check)
        _refuse(path, seen, is_free=force or (path in own and path not in shared))
    key: Key | None = ("claims", check.claim, "checks", check.name, "mutation")
    if path in own:
        key = None
    elif len(check.mutations) > 1:
        raise UsageError(
            f"`{check.id}` has {len(check.mutations)} mutations, and nothing says which of them"
            f" `{path}` is for",
            hint="`--save` the file of one of them, or add the new one to the list by hand",
        )
    old = None if seen is None else session.tree.content(path.encode())
    destination = Destination(path, old, key)
    _pointed(session, destination)  # what cannot be done is said before anything runs
    return destination


def _inside(session: Session, start: Path, name: str) -> str:
    given = Path(os.path.normpath(start / name))
    folder = Path(os.path.realpath(given.parent))
    if not folder.is_relative_to(session.repository.root) or not given.name:
        raise UsageError(f"`{name}` is outside the working tree", hint="save the patch inside it")
    path = str(folder.relative_to(session.repository.root) / given.name)
    if ".git" in path.split("/") or path in (MANIFEST.decode(), LOCKFILE.decode()):
        raise UsageError(
            f"`{path}` is no place for a patch", hint="save it as `mutations/NAME.patch`"
        )
    if not path.isprintable():
        raise UsageError(f"`{path}` cannot be named in roxy.toml", hint="use a plain name")
    return path


def _refuse(path: str, seen: os.stat_result, *, is_free: bool) -> None:
    if not stat.S_ISREG(seen.st_mode):
        raise UsageError(f"`{path}` is no regular file", hint="save the patch under another name")
    if not is_free:
        raise UsageError(
            f"`{path}` is there, and it is not the mutation of this check alone",
            hint="save the patch under another name, or overwrite it with `--force`",
        )


def save(
    session: Session, destination: Destination, check: Check, patch: bytes, desk: Path, emit: Emit
) -> None:
    """Write a patch where it belongs, and let roxy.toml name it.

    What is overwritten changes in one go with roxy.toml, and is kept where HEAD does not have it.
    `desk` is a folder of roxy's own for the new contents. Raises `DiskError` and `ConfigError`.
    """
    path = destination.path.encode()
    new = {path: (destination.old, patch)}
    if destination.key is not None:
        data, pointed = _pointed(session, destination)
        new[MANIFEST] = (Content.of(data), pointed)
    if destination.old is None:
        _create(session, path, patch)
        del new[path]
    elif destination.old == Content.of(patch):
        _refuse_changed(session, destination)
        del new[path]
    elif destination.old.size:
        _keep_uncommitted(session, destination.path, emit)
    edits = []
    for number, (one, (old, data)) in enumerate(new.items()):
        source = desk / f"saved-{number}"
        files.write(source, data)
        if old is not None:
            edits.append(Edit(one, old, source, Content.of(data)))
    if not edits:
        return
    try:
        replace(session, check.id, edits, emit)
    except BaseException:
        if destination.old is None:
            emit(Remarked(f"`{destination.path}` is written, but roxy.toml does not name it yet"))
        raise


def _refuse_changed(session: Session, destination: Destination) -> None:
    """Raise `DiskError` unless a file that needs no change is still what it was."""
    session.tree.forget()
    with suppress(OSError):
        if session.tree.content(destination.path.encode()) == destination.old:
            return
    raise DiskError(
        f"somebody wrote `{destination.path}` meanwhile, so nothing is saved",
        hint="see what it holds now, then run the same command again",
    )


def _keep_uncommitted(session: Session, name: str, emit: Emit) -> None:
    """Copy what is about to be overwritten to `kept/`, unless HEAD has it."""
    path = name.encode()
    head = (session.repository.head_blobs([path]) or {}).get(path)
    try:
        if is_blob(session.repository.root / name, head):
            return
        kept, _ = keep_copies(session.tree, session.repository.state / "kept", [path])
    except OSError as error:
        raise DiskError(
            f"cannot read `{name}`: {error.strerror}", hint="mend its permissions"
        ) from error
    emit(Remarked(f"what `{name}` held is kept as `{kept[0].place}`"))


def _mutations_of_others(session: Session, check: Check) -> set[str]:
    others = (one for one in session.manifest.checks if one.id != check.id)
    return {posixpath.normpath(path) for one in others for path in one.mutations}


def _create(session: Session, path: bytes, patch: bytes) -> None:
    tree = session.tree
    tree.forget()
    try:
        names = os.path.dirname(path).split(b"/")
        for depth in range(1, len(names) + 1):
            folder = b"/".join(names[:depth])
            if folder and tree.look(folder) is None:
                tree_writer.make_folder_in(tree, folder, 0o777)
        tree_writer.write_new(tree, path, patch, session.repository.state / "patch.new")
    except FileExistsError as error:
        raise DiskError(
            f"somebody made `{os.fsdecode(path)}` meanwhile", hint="save under another name"
        ) from error
    except OSError as error:
        raise DiskError(
            f"cannot write `{os.fsdecode(path)}`: {error.strerror}",
            hint="mend what is in the way, or save under another name",
        ) from error


# ------------------------------------------------------------------- the key of roxy.toml


def _pointed(session: Session, destination: Destination) -> tuple[bytes, bytes]:
    """Return roxy.toml as it is, and as it is when it names the patch."""
    try:
        data = regular_file.read(session.tree.fd, MANIFEST, MAX_MANIFEST, follow_links=False)
    except regular_file.UnreadableFileError as error:
        raise ConfigError(f"`roxy.toml` {error}", hint=_BY_HAND) from error
    if destination.key is None:
        return data, data
    return data, point(data, destination.key, destination.path)


def point(data: bytes, key: Key, path: str) -> bytes:
    """Return the bytes of a roxy.toml in which the value of `key` is `path`, and all else is as it was.

    A list of one keeps its brackets. Raises `ConfigError` where that cannot be done.
    """
    try:
        text = toml_text.decode(data)
        before = toml_text.parse(text)
        found = outline(text)
    except TomlError as error:
        raise ConfigError(f"`roxy.toml` {error}", hint=_BY_HAND) from error
    span = found.value((*key, 0)) or found.value(key)
    if span is not None:
        start, end = (_raw_offset(data, text, offset) for offset in span)
        forms = [data[:start] + _quoted(path, like=data[start:end]) + data[end:]]
    elif found.value((*key[:-1], "covers")) is not None and not _reproduces(before, key):
        forms = _with_one_more(data, found, key, path)
    else:
        raise ConfigError("roxy.toml does not say where the mutation is", hint=_BY_HAND)
    for new in forms:
        with suppress(TomlError):
            if toml_text.parse(toml_text.decode(new)) == _with(before, key, path):
                return new
    raise ConfigError("roxy.toml cannot be edited without changing more", hint=_BY_HAND)


def _reproduces(document: dict[str, Any], key: Key) -> bool:
    for name in key[:-1]:
        document = document[str(name)]
    return "reproduces" in document


def _with_one_more(data: bytes, found: Outline, key: Key, path: str) -> list[bytes]:
    """Return what the file may be with a new key behind `covers`: on a line of its own, or inline.

    Only one of them means what it should; which, its values tell.
    """
    covers = (*key[:-1], "covers")
    text, span, place = found.text, found.value(covers), found.place(covers)
    if span is None or place is None:
        return []
    before = text.split("\n")[place.line - 1][: place.column - 1]
    pair = f"{key[-1]} = ".encode() + _quoted(path, like=b"")
    line_end = text.find("\n", span[1])
    at = _raw_offset(data, text, len(text) if line_end < 0 else line_end)
    newline = b"\r\n" if b"\r\n" in data else b"\n"
    own_line = data[:at] + newline + before.encode() + pair + data[at:]
    dotted = _DOTTED.search(before)
    at = _raw_offset(data, text, span[1])
    inline = b", " + (dotted[0] if dotted else "").encode() + pair
    return [own_line, data[:at] + inline + data[at:]]


def _raw_offset(data: bytes, text: str, offset: int) -> int:
    """Return the place in a file of a character of its text, which has plain line feeds."""
    at = len(_BOM) if data.startswith(_BOM) else 0
    for line in text[:offset].split("\n")[:-1]:
        at += len(line.encode())
        at += 2 if data.startswith(b"\r\n", at) else 1
    return at + len(text[:offset].rpartition("\n")[2].encode())


def _quoted(path: str, *, like: bytes) -> bytes:
    """Return a TOML string, in the quotes that were there if it can be."""
    if like.startswith(b"'") and "'" not in path:
        return f"'{path}'".encode()
    escaped = path.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'.encode()


def _with(document: dict[str, Any], key: Key, path: str) -> dict[str, Any]:
    """Return a document in which one value is another."""
    name, rest = str(key[0]), key[1:]
    inner = document.get(name)
    if rest and isinstance(inner, dict):
        return {**document, name: _with(inner, rest, path)}
    return {**document, name: [path] if isinstance(inner, list) else path}
