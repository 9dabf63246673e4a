"""Receipts by what people call them, past tries by the names of their checks, two tries compared."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from roxy.core import glob, plan, when
from roxy.core.errors import ConfigError, Fault, UsageError
from roxy.core.status import compare
from roxy.core.tries import Archive, Try, moment

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from roxy.core.model import Check, Details
    from roxy.core.session import Session
    from roxy.core.tries import CutShort, Name

_HASH = re.compile(r"[0-9a-f]{4,64}", re.ASCII)
_YEAR = 4
"""Characters of a time, at least."""
_MOST = 2
"""Receipts that can be shown at once."""


@dataclass(frozen=True, slots=True)
class History:
    """Past tries."""

    tries: tuple[Try | CutShort, ...]
    """Newest first."""
    damaged: Mapping[str, str]
    """What is wrong with each receipt that was met and tells nothing, by file name."""


@dataclass(frozen=True, slots=True)
class Contrast:
    """What differs between two tries."""

    first: Try
    second: Try
    details: Details
    keys: tuple[str, ...]
    """What else roxy.toml said otherwise of the check: names of keys."""

    @property
    def is_empty(self) -> bool:
        """Whether both were about the same code, checked in the same way."""
        now = self.details
        differs = now.command_changed or now.mutation_changed or self.keys
        return not (differs or now.changed or now.added or now.removed)


def look_back(session: Session, names: Sequence[str], most: int) -> History:
    """Return the newest tries of the checks that any of `names` means; of all without names.

    Checks that roxy.toml does not have any more count too. Raises `UsageError` for a name that is
    no check's, now or then.
    """
    with session.interrupts.breakable():
        archive = Archive(session.repository.state)
        tests = {name: _matcher(name) for name in names}

        def is_wanted(check: str) -> bool:
            return not tests or any(matches(check) for matches in tests.values())

        found = archive.recent(is_wanted, most)
        unknown = [
            name for name, matches in tests.items() if not any(matches(one.id) for one in found)
        ]
        if unknown:
            plan.select(session.manifest, unknown)
        return History(tuple(found), archive.damaged)


def _matcher(name: str) -> Callable[[str], bool]:
    """Return whether a name means the check with some id, as `plan.select` has it."""
    try:
        pattern = glob.parse(name)
    except glob.GlobError:
        pattern = None

    def matches(check: str) -> bool:
        claim = check.partition("/")[0]
        if name in (claim, check):
            return True
        return pattern is not None and any(
            pattern.matches(one.encode("utf-8", "surrogatepass")) for one in (claim, check)
        )

    return matches


def find(session: Session, words: Sequence[str]) -> tuple[tuple[Check, ...], list[Try]]:
    """Return the checks, or the one or two receipts, that `words` mean. Raises `UsageError`."""
    archive = Archive(session.repository.state)
    named = [_named(archive, word) for word in words]
    checks = _select(session, words, named)
    if checks:
        return checks, []
    if len(words) > _MOST:
        raise UsageError("at most two receipts can be shown", hint="`roxy history` lists them")
    tries = []
    for word, names in zip(words, named, strict=True):
        if len(names) > 1:
            raise UsageError(
                f"`{word}` means {len(names)} receipts", hint="give more of its time or its hash"
            )
        one = archive.read(names[0])
        if one is None:
            raise UsageError(f"the receipt `{names[0].file}` {archive.damaged[names[0].file]}")
        tries.append(one)
    return (), tries


def _select(
    session: Session, words: Sequence[str], named: Sequence[Sequence[Name]]
) -> tuple[Check, ...]:
    """Return the checks that words mean; none where they mean receipts."""
    try:
        return plan.select(session.manifest, words)
    except UsageError as error:
        if all(named):
            return ()
        if any(named) and len(error.faults) < len(words):
            raise UsageError(
                "checks and receipts are not shown together", hint="ask for one after the other"
            ) from error
        faults = [
            Fault(
                one.what.replace("claim or check", "claim, check or receipt"), one.where, one.hint
            )
            for one in error.faults
        ]
        raise UsageError.of(faults) from error
    except ConfigError:
        if named and all(named):
            return ()
        raise


def _named(archive: Archive, word: str) -> list[Name]:
    """Return the receipts that a word means: by file name, or the beginning of hash or time."""
    file = os.path.basename(word).removesuffix(".json") + ".json"
    exact = [name for name in archive.names if name.file == file]
    if exact:
        return exact
    is_hash = _HASH.fullmatch(word) is not None
    return [
        name
        for name in archive.names
        if (is_hash and name.sha256.startswith(word))
        or (len(word) >= _YEAR and any(one.startswith(word) for one in _times(name)))
    ]


def _times(name: Name) -> tuple[str, ...]:
    utc = moment(name)
    return name.stamp, utc, when.local(utc)


def contrast(first: Try, second: Try) -> Contrast:
    """Return what differs between two tries, seen from the first."""
    keys = [
        *(["covers"] if first.covers != second.covers else []),
        *sorted(
            key
            for key in first.options.keys() | second.options.keys()
            if first.options.get(key) != second.options.get(key)
        ),
    ]
    return Contrast(first, second, compare(first.basis, second.basis), tuple(keys))
