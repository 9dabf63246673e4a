"""Git with nothing of anybody's: repositories made by hand, without objects, settings or hooks.

What git says here depends on its version, on the bytes it is given and on nothing else (S7, S21).
"""

from __future__ import annotations

import os
from typing import IO, TYPE_CHECKING

from roxy.core import files, git

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from roxy.core.git import Answer

SHA1, SHA256 = "sha1", "sha256"
_CONFIG = b"[core]\n\trepositoryformatversion = %d\n\tbare = false\n\tfilemode = true\n"
_SHA256_CONFIG = b"[extensions]\n\tobjectFormat = sha256\n"


class PrivateGit:
    """Git in repositories below one folder, each made when it is first needed."""

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self._folder = folder
        env = git.git_environment(environ)
        self._env = {
            name: value for name, value in env.items() if not name.startswith("GIT_CONFIG_")
        } | {
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_SYSTEM": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            # Git before 2.32 does not know the first two names.
            "HOME": str(folder),
            "XDG_CONFIG_HOME": str(folder),
        }
        self._made: dict[tuple[str, str], Path] = {}

    def call(
        self,
        arguments: Sequence[str | bytes],
        tree: Path,
        *,
        attributes: str = "",
        object_format: str = SHA1,
        settings: Mapping[str, str] | None = None,
        stdin: bytes | None = None,
        stdout: IO[bytes] | None = None,
    ) -> Answer:
        """Run git at the top of a work tree, in a repository that has nothing but `attributes`.

        Those are one line of `info/attributes`, which wins over every file in the work tree.
        """
        git_dir = self._git_dir(attributes, object_format)
        options = [f"--git-dir={git_dir}", f"--work-tree={tree}"]
        for name, value in {"core.attributesFile": os.devnull, **(settings or {})}.items():
            options += ["-c", f"{name}={value}"]
        return git.call([*options, *arguments], cwd=tree, env=self._env, stdin=stdin, stdout=stdout)

    def _git_dir(self, attributes: str, object_format: str) -> Path:
        made = self._made.get((attributes, object_format))
        if made is not None:
            return made
        made = self._folder / f"git-{len(self._made)}"
        for name in ("objects", "refs", "info"):
            files.make_folder(made / name)
        is_sha256 = object_format == SHA256
        files.write(made / "HEAD", b"ref: refs/heads/none\n")
        files.write(made / "config", _CONFIG % is_sha256 + _SHA256_CONFIG * is_sha256)
        files.write(made / "info" / "attributes", attributes.encode() + b"\n")
        self._made[attributes, object_format] = made
        return made
