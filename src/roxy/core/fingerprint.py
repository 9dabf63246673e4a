"""What "the same check" means: one number over everything that a verdict depends on (S34)."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from roxy.core.model import Check

PREFIX = "sha256:"


def fingerprint(check: Check, patches: Sequence[bytes], digests: Mapping[bytes, bytes]) -> str:
    """Return `sha256:` and 64 hex digits for one check.

    `patches` are the bytes of its mutations in list order; `digests` holds the 32 raw bytes of the
    SHA-256 of every covered file by its path. Names, description, globs and modes are not in it.
    """
    files = b"".join([of_file(path, digests[path]) for path in sorted(digests)])
    return fingerprint_of(check, patches, files)


def fingerprint_of(check: Check, patches: Sequence[bytes], files: bytes) -> str:
    """Do the same with what `of_file` makes of each file, one after the other by their paths."""
    broken_by = b"mutation" if check.reproduces is None else b"reproduces"
    total = hashlib.sha256(
        b"".join(
            (
                b"roxy fingerprint 1\n",
                _field(b"run", check.run.encode()),
                *(_field(broken_by, patch) for patch in patches),
                *_terms(check),
            )
        )
    )
    total.update(files)
    return PREFIX + total.hexdigest()


def _terms(check: Check) -> Iterable[bytes]:
    """Give the fields of what is set of the optional keys; a check without any has none."""
    if check.fails_with is not None:
        yield _field(b"fails-with", check.fails_with.encode())
    for name, value in check.env:
        yield _field(b"env", f"{name}={value}".encode())
    if check.ran is not None:
        yield _field(b"ran", check.ran.encode())
        yield _field(b"at-least", b"%d" % check.at_least)
    if check.strict:
        yield _field(b"strict", b"true")


def of_file(path: bytes, digest: bytes) -> bytes:
    """Return the fields of one file."""
    return b"path\0%b%b%b%b" % (len(path).to_bytes(8, "big"), path, _CONTENT, digest)


def _field(name: bytes, value: bytes) -> bytes:
    return b"%b\0%b%b" % (name, len(value).to_bytes(8, "big"), value)


_CONTENT = _field(b"content", bytes(32))[:-32]
"""What stands before each digest: its length is always the same."""
