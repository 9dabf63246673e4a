"""The fingerprint of S34, worked out again from the rule alone; nothing of roxy's is used."""

from __future__ import annotations

import hashlib
import os
import struct
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def recomputed(run: str, patches: Sequence[bytes], files: Mapping[bytes, bytes]) -> str:
    """Return what roxy.lock must have for a check whose covered files hold these bytes."""
    fields = [(b"run", run.encode()), *((b"mutation", patch) for patch in patches)]
    for path in sorted(files):
        fields += [(b"path", path), (b"content", hashlib.sha256(files[path]).digest())]
    digest = hashlib.sha256(b"roxy fingerprint 1\n")
    for name, value in fields:
        digest.update(name + b"\0" + struct.pack(">Q", len(value)) + value)
    return f"sha256:{digest.hexdigest()}"


def regular_files(top: Path, folder: str) -> dict[bytes, bytes]:
    """Return what the regular files below a folder hold, by their paths from the top."""
    found = {}
    for here, _, names in os.walk(top / folder):
        for name in names:
            path = Path(here, name)
            if path.is_file() and not path.is_symlink():
                found[os.fsencode(path.relative_to(top))] = path.read_bytes()
    return found
