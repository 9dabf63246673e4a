"""roxy.lock: for which checks there is evidence, and for exactly which code (S35-S37)."""

from __future__ import annotations

import re
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from roxy.core import regular_file, toml_text
from roxy.core.errors import LockfileError
from roxy.core.model import LOCKFILE
from roxy.core.regular_file import MEBIBYTE, MissingFileError, UnreadableFileError
from roxy.core.toml_text import TomlError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from roxy.core.model import Check
    from roxy.core.toml_outline import Key

VERSION = 1
MAX_LOCKFILE = 6 * MEBIBYTE

_FILE = LOCKFILE.decode()
_HEADER = "# Written by `roxy verify` from what it proved. Do not edit it by hand.\n"
_FINGERPRINT = re.compile(r"sha256:[0-9a-f]{64}")
_WRITE_ANEW = "run `roxy verify --all`, which writes it anew"


class Lockfile(NamedTuple):
    """What roxy.lock records. Says nothing of checks that it does not name."""

    fingerprints: Mapping[tuple[str, str], str] = MappingProxyType({})
    """`sha256:` and 64 hex digits by the names of claim and check."""

    def fingerprint(self, check: Check) -> str | None:
        """Return what was recorded for `check`, None where there is no evidence."""
        return self.fingerprints.get((check.claim, check.name))

    def with_entry(self, check: Check, fingerprint: str) -> Lockfile:
        """Return the lockfile that also says that `check` was verified for this fingerprint."""
        return Lockfile({**self.fingerprints, (check.claim, check.name): fingerprint})

    def without(self, check: Check) -> Lockfile:
        """Return the lockfile without evidence for `check` (S36)."""
        names = (check.claim, check.name)
        return Lockfile({key: value for key, value in self.fingerprints.items() if key != names})

    def only(self, checks: Iterable[Check]) -> Lockfile:
        """Return the lockfile without entries for anything but `checks` (S36)."""
        kept = {(check.claim, check.name) for check in checks}
        return Lockfile({key: value for key, value in self.fingerprints.items() if key in kept})


def parse(data: bytes) -> Lockfile:
    """Return what the bytes of a lockfile record. Raises `LockfileError` (S37)."""
    try:
        text = toml_text.decode(data)
        document = toml_text.parse(text)
    except TomlError as error:
        where = _FILE if error.place is None else f"{_FILE}:{error.place.line}:{error.place.column}"
        raise LockfileError(f"`{_FILE}` {error}", where, _WRITE_ANEW) from error
    return Lockfile(_Reader(text).fingerprints(document))


def dump(lockfile: Lockfile) -> bytes:
    """Return the only bytes that stand for `lockfile` (S35)."""
    import tomli_w  # noqa: PLC0415 - `status` and `gate` only read

    claims: dict[str, list[tuple[str, str]]] = {}
    for (claim, check), fingerprint in sorted(lockfile.fingerprints.items()):
        claims.setdefault(claim, []).append((check, fingerprint))
    tables = (_table(claim, tuple(checks)) for claim, checks in claims.items())
    return "\n".join((_HEADER + tomli_w.dumps({"version": VERSION}), *tables)).encode()


@cache
def _table(claim: str, checks: tuple[tuple[str, str], ...]) -> str:
    """Return what one claim adds; all but one of them are the same from result to result."""
    import tomli_w  # noqa: PLC0415 - as above

    return tomli_w.dumps({"claims": {claim: dict(checks)}})


def read(root: int) -> Lockfile:
    """Return the lockfile of the working tree whose top is the directory descriptor `root`.

    One that is not there records nothing. Raises `LockfileError` (S37).
    """
    try:
        return parse(regular_file.read(root, LOCKFILE, MAX_LOCKFILE, follow_links=False))
    except MissingFileError:
        return Lockfile()
    except UnreadableFileError as error:
        raise LockfileError(f"`{_FILE}` {error}", hint=_WRITE_ANEW) from error


class _Reader:
    """Turns the values of a lockfile into entries, or raises."""

    def __init__(self, text: str) -> None:
        self._text = text

    def fingerprints(self, document: dict[str, Any]) -> dict[tuple[str, str], str]:
        self._refuse_version(document.get("version"))
        if unknown := [key for key in document if key not in ("version", "claims")]:
            raise self._error((unknown[0],), f"has an unknown key `{unknown[0]}`")
        return {
            (claim, check): self._fingerprint(("claims", claim, check), value)
            for claim, checks in self._table(("claims",), document.get("claims", {})).items()
            for check, value in self._table(("claims", claim), checks).items()
        }

    def _refuse_version(self, version: object) -> None:
        if type(version) is not int or version < 1:
            raise self._error(("version",), f"has no `version = {VERSION}`")
        if version > VERSION:
            raise self._error(
                ("version",),
                f"was written by a newer roxy: its version is {version}, this one knows {VERSION}",
            )

    def _table(self, key: Key, value: object) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self._error(key, f"is damaged: `{key[-1]}` is not a table")
        return value

    def _fingerprint(self, key: Key, value: object) -> str:
        if not isinstance(value, str) or not _FINGERPRINT.fullmatch(value):
            raise self._error(key, f"is damaged: `{key[-1]}` is not `sha256:` and 64 hex digits")
        return value

    def _error(self, key: Key, what: str) -> LockfileError:
        from roxy.core.toml_outline import outline  # noqa: PLC0415 - most lockfiles are sound

        place = outline(self._text).place(key)
        where = f"{_FILE}:{place.line}:{place.column}" if place else _FILE
        return LockfileError(f"`{_FILE}` {what}", where, _WRITE_ANEW)
