"""A real repository with some files, and what mutations make of it."""

from __future__ import annotations

import os
import subprocess
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING

from roxy.core.git import find_repository
from roxy.core.mutation import Fit, Misfit, Scratch
from roxy.core.working_tree import Tree, content_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

PATH = "src/f.py"
LINES = [f"line {number}\n" for number in range(1, 101)]


@dataclass
class Lab:
    """A repository, and roxy's scratch in it."""

    root: Path
    scratch: Scratch

    @classmethod
    def make(cls, root: Path, files: Mapping[str, bytes], *init: str) -> Lab:
        root.mkdir(parents=True, exist_ok=True)
        subprocess.run(["git", "init", "--quiet", *init, root], check=True)
        for path, data in {"roxy.toml": b"", **files}.items():
            _write(root, path, data)
        repository = find_repository(root, os.environ)
        tree = Tree(repository.root)
        lab = cls(root, Scratch(repository, tree))
        weakref.finalize(lab, tree.close)
        return lab

    def git(self, *arguments: str | bytes) -> bytes:
        done = subprocess.run(["git", *arguments], cwd=self.root, check=True, capture_output=True)
        return done.stdout

    def write(self, path: str, data: bytes) -> None:
        _write(self.root, path, data)

    def commit(self) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "change")

    def diff(self, changes: Mapping[str, bytes], *options: str) -> bytes:
        """Return what `git diff` writes for some changes, which are taken back."""
        before = {path: (self.root / path).read_bytes() for path in changes}
        for path, data in changes.items():
            self.write(path, data)
        patch = self.git("diff", *options)
        for path, data in before.items():
            self.write(path, data)
        return patch

    def patch(self, path: str, old: bytes, new: bytes, *options: str) -> bytes:
        """Return a patch without an index line, from a file that git never had."""
        files = [self.root.parent / name for name in ("old", "new")]
        for file, data in zip(files, (old, new), strict=True):
            file.write_bytes(data)
        done = subprocess.run(
            ["git", "diff", "--no-index", *options, *files], check=False, capture_output=True
        )
        body = done.stdout[done.stdout.index(b"@@ ") :]
        return (
            b"diff --git a/%(n)b b/%(n)b\n--- a/%(n)b\n+++ b/%(n)b\n" % {b"n": path.encode()} + body
        )

    def fit(self, patch: bytes, *covered: str) -> dict[str, bytes]:
        """Return what the mutation makes of each file that it changes."""
        return made(self.fitted(patch, *covered))

    def fitted(self, patch: bytes, *covered: str) -> Fit | Misfit:
        paths = [os.fsencode(path) for path in covered] or self._listed()
        before = self._snapshot()
        fit = self.scratch.fit("mutations/it.patch", patch, paths)
        assert self._snapshot() == before
        return fit

    def reject(self, patch: bytes, *covered: str) -> tuple[str, str]:
        """Return the code and the text of the reason."""
        misfit = self.fitted(patch, *covered)
        assert isinstance(misfit, Misfit), misfit
        assert not any(
            word in misfit.reason.text for word in ("verified", "stale", "rejected", "\n")
        )
        return misfit.reason.code, misfit.reason.text.removeprefix("`mutations/it.patch` ")

    def _listed(self) -> list[bytes]:
        return self.git("ls-files", "-z", "--cached", "--others").split(b"\0")[:-1]

    def _snapshot(self) -> dict[Path, tuple[int, int, bytes]]:
        state = self.root / ".git" / "roxy"
        return {
            path: (path.lstat().st_mode, path.lstat().st_mtime_ns, _content(path))
            for path in self.root.rglob("*")
            if not path.is_relative_to(state) and path != state.parent
        }


def a_lab(folder: Path, files: Mapping[str, bytes] | None = None, *init: str) -> Lab:
    """Make a repository below a folder, with some files, committed."""
    lab = Lab.make(folder / "repository", files or {PATH: text()}, *init)
    lab.commit()
    return lab


def _content(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() and not path.is_symlink() else b""


def _write(root: Path, path: str, data: bytes) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)


def made(fit: Fit | Misfit) -> dict[str, bytes]:
    assert isinstance(fit, Fit), fit
    for edit in fit.edits:
        with edit.source.open("rb") as file:
            assert content_of(file.fileno()) == edit.new
    return {os.fsdecode(edit.path): edit.source.read_bytes() for edit in fit.edits}


def text(*replaced: tuple[int, str], lines: list[str] = LINES) -> bytes:
    """Return a hundred lines, some of them replaced; an empty text deletes the line."""
    changes = dict(replaced)
    return "".join(changes.get(number, line) for number, line in enumerate(lines, start=1)).encode()


BROKEN = text((50, "broken\n"))
