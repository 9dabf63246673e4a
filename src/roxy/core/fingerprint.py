"""What "the same check" means: one number over everything that a verdict depends on (S34)."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from roxy.core.model import Check

PREFIX = "sha256:"


def fingerprint(check: Check, patches: Sequence[bytes], digests: Mapping[bytes, bytes]) -> str:
    """Return `sha256:` and 64 hex digits for one check.

    `patches` are the bytes of its mutations in list order; `digests` holds the 32 raw bytes of the
    SHA-256 of every covered file by its path. Names, description, globs and modes are not in it.
    """
    total = hashlib.sha256(b"roxy fingerprint 1\n")

    def add(name: bytes, value: bytes) -> None:
        total.update(b"%s\0%s" % (name, len(value).to_bytes(8, "big")))
        total.update(value)

    add(b"run", check.run.encode())
    for patch in patches:
        add(b"mutation", patch)
    for path in sorted(digests):
        add(b"path", path)
        add(b"content", digests[path])
    return PREFIX + total.hexdigest()
