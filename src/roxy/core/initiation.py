"""What `roxy init` puts into a working tree; of what is there, it only adds to AGENTS.md.

No lock is taken (S8): a verify needs a roxy.toml, so none can be at work while that is written; the
rest is new files. AGENTS.md could be covered by a check that runs at this moment, as it could be
edited by anybody then: the check is rejected, and what was written is kept and named (S26, S29).
"""

from __future__ import annotations

from enum import StrEnum
from importlib import resources
from typing import TYPE_CHECKING, NamedTuple

from roxy.core import regular_file, starter, tree_writer
from roxy.core.model import MANIFEST
from roxy.core.regular_file import MEBIBYTE, MissingFileError, UnreadableFileError
from roxy.core.surroundings import find_commands

if TYPE_CHECKING:
    from roxy.core.git import Repository
    from roxy.core.interrupts import Interrupts
    from roxy.core.surroundings import Command
    from roxy.core.working_tree import Tree

_AGENTS = b"AGENTS.md"
_MUTATIONS = b"mutations"
_MAX_AGENTS = 4 * MEBIBYTE
_FOLDER_MODE = 0o777  # less what the caller's umask takes


class Did(StrEnum):
    """What became of one part of a start."""

    WROTE = "wrote"
    ADDED = "added"
    """A paragraph to a file that was there."""
    FOUND = "found"
    """It was there already, and stays as it is."""
    LEFT = "left"
    """It could not be written."""


class Part(NamedTuple):
    """One file of a start."""

    path: bytes
    did: Did
    why: str | None = None
    """What is in the way, when it was left."""


class Initiation(NamedTuple):
    """What there is now, and what was found of the project."""

    parts: tuple[Part, ...]
    commands: tuple[Command, ...]
    """What could be a check's `run`; empty also when roxy.toml was there already."""


def begin(repository: Repository, tree: Tree, interrupts: Interrupts) -> Initiation:
    """Write what is missing and nothing else. Raises `GitError`, and `Interrupted` before that."""
    commands: tuple[Command, ...] = ()
    is_new = tree.look(MANIFEST) is None
    if is_new:
        with interrupts.breakable():
            commands = find_commands(tree, repository.files([b""]))
    parts = [_create(tree, starter.SCHEMA_FILE.encode(), _schema())]
    if is_new:
        parts.append(_create(tree, MANIFEST, starter.manifest(commands).encode()))
    else:
        parts.append(Part(MANIFEST, Did.FOUND))
    parts.append(_mutations(tree))
    parts.append(_agents(tree))
    return Initiation(tuple(parts), commands)


def _schema() -> bytes:
    return resources.files("roxy").joinpath("schemas/roxy.toml.json").read_bytes()


def _create(tree: Tree, path: bytes, data: bytes) -> Part:
    tree.forget()
    try:
        tree_writer.create_in_tree(tree, path, data)
    except FileExistsError:
        return Part(path, Did.FOUND)
    except OSError as error:
        return Part(path, Did.LEFT, error.strerror)
    return Part(path, Did.WROTE)


def _mutations(tree: Tree) -> Part:
    try:
        tree_writer.make_folder_in(tree, _MUTATIONS, _FOLDER_MODE)
    except FileExistsError:
        is_folder = (tree.root / "mutations").is_dir()
        return Part(_MUTATIONS, *((Did.FOUND,) if is_folder else (Did.LEFT, "is no folder")))
    except OSError as error:
        return Part(_MUTATIONS, Did.LEFT, error.strerror)
    return _create(tree, _MUTATIONS + b"/README.md", starter.MUTATIONS_README.encode())


def _agents(tree: Tree) -> Part:
    """Add the paragraph, through a link only where that stays within the tree."""
    if tree.look(_AGENTS) is None:
        return _create(tree, _AGENTS, starter.AGENTS.encode())
    try:
        with regular_file.inside(tree.fd, _AGENTS) as (folder, name):
            data = regular_file.read(folder, name, _MAX_AGENTS, follow_links=False)
            if b"\0" in data:
                return Part(_AGENTS, Did.LEFT, "is not UTF-8 text")
            more = starter.addition(data)
            if more is None:
                return Part(_AGENTS, Did.FOUND)
            tree_writer.append_to(folder, name, more)
    except MissingFileError:
        return Part(_AGENTS, Did.LEFT, "is a symbolic link that leads to nothing")
    except UnreadableFileError as error:
        return Part(_AGENTS, Did.LEFT, str(error))
    return Part(_AGENTS, Did.ADDED)
