"""Past tries, read from their receipts (S39). They explain; no state or verdict comes from them.

A receipt's name holds, in this order, when it was written, what check and what fingerprint it is
about (the first digits of a SHA-256 each) and the SHA-256 of its bytes. So what is asked for is
found by names, however many receipts there are, and few are ever read.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import re
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from roxy.core import regular_file
from roxy.core.model import Reason, Result
from roxy.core.regular_file import MEBIBYTE, UnreadableFileError
from roxy.core.status import Basis
from roxy.core.working_tree import FOLDER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from roxy.core.model import Check

SCHEMA = "roxy.receipt/1"
NONE = "none"
"""What stands in a name for a fingerprint that could not be taken."""
_CHECK_DIGITS = 8
_FINGERPRINT_DIGITS = 12
_LARGEST = 64 * MEBIBYTE
_LONGEST = 1e9
"""Seconds that no run takes."""
_LOOKED_AT = 300
"""Receipts, the newest, that are read because their name does not say which check they are about,
and notes of a start."""
_NAME = re.compile(
    r"(?P<stamp>\d{8}T\d{6}\.\d{6}Z)-(?:(?P<check>[0-9a-f]{8})-)?"
    r"(?P<fingerprint>none|[0-9a-f]{12})-(?P<sha256>[0-9a-f]{64})\.json",
    re.ASCII,
)
_NOTE = re.compile(r"started-(?P<stamp>\d{8}T\d{6}\.\d{6}Z)-(?P<pid>\d+)\.json", re.ASCII)
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)
LOG_NAME = re.compile(r"(?P<stamp>\d{8}T\d{6})-[0-9a-f]{8}\.log", re.ASCII)
"""How logs are called; nothing else in their folder is one."""


class DamagedError(Exception):
    """A receipt that tells nothing. The text goes on after its name."""


class Name(NamedTuple):
    """The name of a receipt, taken apart. Names sort by time."""

    file: str
    stamp: str
    check: str
    """The first digits of the SHA-256 of `claim/check`; empty where an older roxy wrote it."""
    fingerprint: str
    """The first digits of the fingerprint, or `none`."""
    sha256: str


class PastRun(NamedTuple):
    """One run as its receipt has it."""

    phase: str
    mutation: str | None
    exit: int | None
    signal: int | None
    timed_out: bool
    seconds: float
    log: str
    """The name of the log; there may be none of that name any more."""
    log_size: int
    log_sha256: str

    @property
    def passed(self) -> bool:
        """Whether the command ended with exit code 0."""
        return self.exit == 0


class Try(NamedTuple):
    """One try of one check, as its receipt has it."""

    name: Name
    time: str
    """When it ended: UTC, RFC 3339."""
    commit: str | None
    dirty: bool
    roxy: str
    claim: str
    check: str
    run: str
    covers: tuple[str, ...]
    mutations: tuple[tuple[str, str], ...]
    """The path and the SHA-256 of each patch."""
    options: Mapping[str, Any]
    """What else roxy.toml said of the check."""
    fingerprint: str | None
    files: Mapping[bytes, str]
    """The SHA-256 of each covered file by its path."""
    runs: tuple[PastRun, ...]
    result: str
    reason: Reason | None
    notes: tuple[str, ...]

    @property
    def id(self) -> str:
        """The check that was tried: `claim/check`."""
        return f"{self.claim}/{self.check}"

    @property
    def basis(self) -> Basis:
        """What the fingerprint was made from."""
        patches = tuple(sha256 for _, sha256 in self.mutations)
        return Basis(self.run, patches, self.files, self.options)


class CutShort(NamedTuple):
    """A try without a result, since its verify died: what the note of its start tells."""

    file: str
    stamp: str
    time: str
    id: str
    pid: int


class Archive:
    """All receipts of one working tree, listed once."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.damaged: dict[str, str] = {}
        """What is wrong with the receipts that were met and tell nothing, by file name."""

    @cached_property
    def names(self) -> list[Name]:
        """Every receipt, newest first."""
        matches = map(_NAME.fullmatch, self._listed)
        return [
            Name(one[0], one["stamp"], one["check"] or "", one["fingerprint"], one["sha256"])
            for one in matches
            if one
        ]

    @cached_property
    def _listed(self) -> list[str]:
        try:
            return sorted(os.listdir(self._folder), reverse=True)
        except OSError:
            return []

    @cached_property
    def _by_fingerprint(self) -> dict[str, list[Name]]:
        found: dict[str, list[Name]] = {}
        for name in self.names:
            found.setdefault(name.fingerprint, []).append(name)
        return found

    @cached_property
    def _last_names(self) -> dict[str, Name]:
        return {name.check: name for name in reversed(self.names)}

    @property
    def _folder(self) -> Path:
        return self.state / "receipts"

    @cached_property
    def cut_short(self) -> list[CutShort]:
        """The tries whose verify died, newest first."""
        matches = [one for name in self._listed if (one := _NOTE.fullmatch(name))]
        matches.sort(key=lambda one: one["stamp"], reverse=True)
        return [note for one in matches[:_LOOKED_AT] if (note := self._note(one))]

    def _note(self, match: re.Match[str]) -> CutShort | None:
        import json  # noqa: PLC0415 - a gate that names what changed does without

        try:
            note = json.loads(self._bytes(match[0]))
            check = _text(note["check"])
        except (UnreadableFileError, *_MISSHAPEN):
            self.damaged[match[0]] = "does not tell which check was tried"
            return None
        return CutShort(
            match[0],
            match["stamp"],
            _moment(note.get("time"), match["stamp"]),
            check,
            int(match["pid"][:18]),
        )

    def read(self, name: Name) -> Try | None:
        """Return what a receipt tells; None, and a word in `damaged`, when that is nothing."""
        try:
            return _parse(name, self._bytes(name.file))
        except (DamagedError, UnreadableFileError) as error:
            self.damaged[name.file] = str(error)
        return None

    def logs_named_in(self, name: Name) -> set[str] | None:
        """Return the logs that the bytes of a receipt name, damaged or not; None if unreadable."""
        try:
            text = self._bytes(name.file).decode("latin-1")
        except UnreadableFileError:
            return None
        return {match[0] for match in LOG_NAME.finditer(text)}

    def _bytes(self, name: str) -> bytes:
        try:
            folder = os.open(self._folder, FOLDER & ~os.O_NOFOLLOW)
        except OSError as error:
            raise UnreadableFileError(f"cannot be read: {error.strerror}") from error
        try:
            return regular_file.read(folder, os.fsencode(name), _LARGEST, follow_links=False)
        finally:
            os.close(folder)

    def evidence(self, check: Check, fingerprint: str) -> Try | None:
        """Return the try that some recorded evidence comes from, if it was on this machine.

        With `--locked` the same code can have been tried since, and rejected: that is none.
        """
        for name in self._names(check, fingerprint):
            one = self.read(name)
            if one and (one.result, one.fingerprint, one.id) == (
                *(Result.VERIFIED, fingerprint, check.id),
            ):
                return one
        return None

    def name_of_evidence(self, check: Check, fingerprint: str) -> Name | None:
        """Return the name of the same receipt, which is not taken apart for that.

        A receipt that names a hundred thousand files takes long to read as JSON. Lines that begin
        with one blank are those of the outermost table, as `receipts` writes it. None where the
        receipt is written in another way, too.
        """
        first = f'\n "fingerprint": "{fingerprint}"'.encode()
        last = f'\n "result": "{Result.VERIFIED}"'.encode()
        for name in self._names(check, fingerprint):
            try:
                data = self._bytes(name.file)
            except UnreadableFileError:
                continue
            is_whole = hashlib.sha256(data).hexdigest() == name.sha256
            if name.check and is_whole and data.find(first) >= 0 and data.rfind(last) >= 0:
                return name
        return None

    def _names(self, check: Check, fingerprint: str) -> Iterator[Name]:
        digits = ("", check_digits(check.id))
        names = self._by_fingerprint.get(fingerprint_digits(fingerprint), ())
        return (name for name in names if name.check in digits)

    def last_if_of(self, check: Check, fingerprint: str) -> Try | None:
        """Return the newest try of a check if it was of this very code."""
        last = self._last_names.get(check_digits(check.id))
        if last is None or last.fingerprint != fingerprint_digits(fingerprint):
            return None
        one = self.read(last)
        return one if one and (one.id, one.fingerprint) == (check.id, fingerprint) else None

    def last_of_each(self, checks: Iterable[Check]) -> dict[str, Try | CutShort]:
        """Return the newest try of each check that has one, by its id: one pass for all."""
        left = {check.id for check in checks}
        digits = {"", *map(check_digits, left)}
        last: dict[str, Try | CutShort] = {}
        for one in self._about(digits):
            if not left:
                break
            if one.id in left:
                left.remove(one.id)
                last[one.id] = one
        for note in reversed(self.cut_short):
            if note.id in left or (note.id in last and _stamp(last[note.id]) < note.stamp):
                last[note.id] = note
        return last

    def _about(self, digits: set[str]) -> Iterator[Try]:
        patience = _LOOKED_AT
        for name in self.names:
            if name.check in digits:
                patience -= not name.check
                if (name.check or patience >= 0) and (one := self.read(name)):
                    yield one

    def recent(self, is_wanted: Callable[[str], bool], most: int) -> list[Try | CutShort]:
        """Return the newest tries of all checks whose id is wanted, newest first."""
        found: list[Try | CutShort] = [one for one in self.cut_short if is_wanted(one.id)]
        tries = 0
        unwanted: set[str] = set()
        for name in self.names:
            if tries == most:
                break
            one = None if name.check in unwanted else self.read(name)
            if one is None:
                continue
            if is_wanted(one.id):
                found.append(one)
                tries += 1
            elif name.check == check_digits(one.id):
                unwanted.add(name.check)
        return sorted(found, key=_stamp, reverse=True)[:most]

    def of_check(self, check: Check, most: int) -> list[Try | CutShort]:
        """Return the newest tries of one check, newest first."""
        found: list[Try | CutShort] = [one for one in self.cut_short if one.id == check.id]
        tries = (one for one in self._about({"", check_digits(check.id)}) if one.id == check.id)
        found += itertools.islice(tries, most)
        return sorted(found, key=_stamp, reverse=True)[:most]


def _stamp(one: Try | CutShort) -> str:
    return one.name.stamp if isinstance(one, Try) else one.stamp


def moment(name: Name) -> str:
    """Return when a receipt was written: UTC, RFC 3339."""
    return _moment(None, name.stamp)


def file_name(stamp: str, check: str, fingerprint: str | None, sha256: str) -> str:
    """Return the name of a receipt for the check with the id `check`."""
    digits = NONE if fingerprint is None else fingerprint_digits(fingerprint)
    return f"{stamp}-{check_digits(check)}-{digits}-{sha256}.json"


def check_digits(check: str) -> str:
    """Return what stands for a check in names."""
    return hashlib.sha256(check.encode("utf-8", "surrogatepass")).hexdigest()[:_CHECK_DIGITS]


def fingerprint_digits(fingerprint: str) -> str:
    """Return what stands for a fingerprint in names."""
    return fingerprint.partition(":")[2][:_FINGERPRINT_DIGITS]


# ------------------------------------------------------------------- from JSON

_MISSHAPEN = (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError)
"""What JSON that roxy did not write can lead to."""


def _parse(name: Name, data: bytes) -> Try:
    """Return what the bytes of a receipt say. Raises `DamagedError`."""
    if hashlib.sha256(data).hexdigest() != name.sha256:
        raise DamagedError("is damaged: its bytes are not those that its name promises")
    import json  # noqa: PLC0415 - as above

    try:
        value = json.loads(data)
        if value["schema"] != SCHEMA:
            raise DamagedError("was written by another roxy")
        return _try(name, value)
    except _MISSHAPEN as error:
        raise DamagedError("is nothing that roxy wrote") from error


def _try(name: Name, value: dict[str, Any]) -> Try:
    check = dict(value["check"])
    reason = value.get("reason")
    return Try(
        name=name,
        time=_moment(value.get("time"), name.stamp),
        commit=_optional(value.get("commit")),
        dirty=bool(value.get("dirty")),
        roxy=_text(value.get("roxy", "")),
        claim=_text(check.pop("claim")),
        check=_text(check.pop("check")),
        run=_text(check.pop("run")),
        covers=tuple(map(_text, check.pop("covers", ()))),
        mutations=tuple(
            (_text(one["path"]), _text(one["sha256"])) for one in check.pop("mutations")
        ),
        options=check,
        fingerprint=_optional(value["fingerprint"]),
        files={
            path.encode("utf-8", "surrogateescape"): _text(digest)
            for path, digest in value["files"].items()
        },
        runs=tuple(map(_run, value["runs"])),
        result=_text(value["result"]),
        reason=reason and Reason(_text(reason["code"]), _text(reason["text"])),
        notes=tuple(map(_text, value.get("notes", ()))),
    )


def _run(value: dict[str, Any]) -> PastRun:
    seconds = float(value["seconds"])
    log = _text(value["log"])
    if not 0 <= seconds < _LONGEST or not LOG_NAME.fullmatch(log):
        raise ValueError("no run of roxy's")
    return PastRun(
        phase=_text(value["phase"]),
        mutation=_optional(value["mutation"]),
        exit=_number(value["exit"]),
        signal=_number(value["signal"]),
        timed_out=value.get("timed_out") is True,
        seconds=seconds,
        log=log,
        log_size=int(value["log_size"]),
        log_sha256=_text(value["log_sha256"]),
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("not a text")
    return value


def _optional(value: object) -> str | None:
    return None if value is None else _text(value)


def _number(value: object) -> int | None:
    if value is not None and type(value) is not int:
        raise TypeError("not a number")
    return value


def _moment(value: object, stamp: str) -> str:
    """Return when something was; from its name when it does not tell itself."""
    if isinstance(value, str) and _MOMENT.fullmatch(value):
        return value
    date, clock = stamp[:8], stamp[9:15]
    return f"{date[:4]}-{date[4:6]}-{date[6:]}T{clock[:2]}:{clock[2:4]}:{clock[4:]}Z"
