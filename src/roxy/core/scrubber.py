"""The values of secrets, kept out of what a command prints before anybody stores or shows it.

Bytes in, bytes out; no clock, no disk, no environment. Whoever prints a secret may encode it first,
so three forms are known: as it is, percent-encoded as in URLs, and as part of something in base64.
The same text gives the same result, however it was cut into chunks.
"""

from __future__ import annotations

import base64
import re
from itertools import pairwise, product
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

MASK = b"***"
"""What stands in the place of a secret."""
SHORTEST = 4
"""Characters of the shortest value that is scrubbed; a shorter one may be part of anything."""

_DIGITS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_ALPHABETS = (_DIGITS + b"+/", _DIGITS + b"-_")
"""Of base64: the standard one, and the one for URLs and file names."""
_ALL_BITS = 63
_TELLING = 6
"""Characters of base64 that are seldom met by chance."""
_DIGIT = {character: digit for digit, character in enumerate(_ALPHABETS[0])}


class _Form:
    """One way to write a secret: a row of places, in each of which one of some pieces stands.

    Output nearly never holds a secret, so what can be looked for quickly comes first: each text in
    this form holds one of `needles` or of `hints`; the latter are many, and all begin with few bytes.
    """

    def __init__(
        self,
        places: Sequence[Sequence[bytes]],
        needles: Iterable[bytes],
        hints: Iterable[bytes] = (),
    ) -> None:
        self.needles = frozenset(needles)
        self.hints = frozenset(hints)
        self.longest = sum(max(map(len, pieces)) for pieces in places)
        """Bytes of the longest text in this form."""
        self.begins = frozenset(one + two for one, two in product(*places[:2]))
        self._places = places
        self._pattern = re.compile(b"".join(map(_either, places)))

    def end_in(self, data: bytes, begin: int) -> int:
        """Return where the secret that begins there ends, which is `begin` when there is none."""
        found = self._pattern.match(data, begin)
        return found.end() if found else begin

    def may_go_on(self, data: bytes, begin: int) -> bool:
        """Say whether more data could make a secret, or a longer one, of all from `begin` on."""
        reached = {begin}
        for pieces in self._places:
            if len(data) in reached:
                return True
            before, reached = reached, set()
            for at in before:
                for piece in pieces:
                    if data.startswith(piece, at):
                        reached.add(at + len(piece))
                    elif piece.startswith(data[at : at + len(piece)]):
                        return True  # the piece is cut off by the end
            if not reached:
                return False
        return False


class _Needle:
    """Some bytes to look for, again and again, in what hardly ever holds them."""

    def __init__(self, text: bytes) -> None:
        self._text = text
        self._bytes = tuple(set(text))
        self._absent = text[0]
        """One that was absent the last time; to look for a single byte is ten times faster."""

    def is_in(self, data: bytes) -> bool:
        if self._absent not in data:
            return False
        for byte in self._bytes:
            if byte not in data:
                self._absent = byte
                return False
        return self._text in data


class Secrets:
    """Some values that nobody may see, in all their forms; each has `SHORTEST` bytes or more."""

    def __init__(self, values: Iterable[bytes] = ()) -> None:
        forms = [form for value in dict.fromkeys(values) for form in _forms(value)]
        self.longest = max((form.longest for form in forms), default=0)
        """Bytes of the longest form; 0 when there is nothing to hide."""
        self._needles = [_Needle(text) for text in {one for form in forms for one in form.needles}]
        hints = {hint for form in forms for hint in form.hints}
        self._hint = re.compile(_any_begin(hints))
        self._hint_begins = {hint[0] for hint in hints}
        self._by_first: dict[int, list[_Form]] = {}
        seconds: dict[int, set[bytes]] = {}
        for form in forms:
            for first in {begin[0] for begin in form.begins}:
                self._by_first.setdefault(first, []).append(form)
            for begin in form.begins:
                seconds.setdefault(begin[0], set()).add(begin[1:2])
        self._begin = re.compile(
            b"|".join(
                rb"%s(?=%s|\Z)" % (re.escape(_byte(first)), _either(sorted(second)))
                for first, second in sorted(seconds.items())
            )
        )
        """Where a secret may begin, judged by two bytes."""

    def find(self, data: bytes) -> Iterator[tuple[int, int]]:
        """Give begin and end of each secret, ordered by begin; they may overlap."""
        if not self._may_hold_one(data):
            return
        for found in self._begin.finditer(data):
            begin = found.start()
            end = max(form.end_in(data, begin) for form in self._by_first[data[begin]])
            if end > begin:
                yield begin, end

    def _may_hold_one(self, data: bytes) -> bool:
        if any(needle.is_in(data) for needle in self._needles):
            return True
        is_likely = any(byte in data for byte in self._hint_begins)
        return is_likely and self._hint.search(data) is not None

    def begin_of_rest(self, data: bytes) -> int:
        """Return where the first secret begins that the end of the data may have cut off."""
        for found in self._begin.finditer(data, max(0, len(data) - self.longest + 1)):
            begin = found.start()
            if any(form.may_go_on(data, begin) for form in self._by_first[data[begin]]):
                return begin
        return len(data)


class Scrubber:
    """Takes one stream of bytes and gives it back without the secrets.

    It holds back what may still become a secret, so always less than the longest form has.
    """

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets
        self._held = b""
        self._masked = 0
        """How many bytes of `_held` belong to a secret whose mask has been given out."""

    def scrub(self, chunk: bytes, *, is_last: bool = False) -> bytes:
        """Return what can be told now that `chunk` has come; with `is_last`, all that is left."""
        if not self._secrets.longest:
            return chunk
        data = self._held + chunk
        rest = len(data) if is_last else self._secrets.begin_of_rest(data)
        done, told = self._masked, []
        for begin, end in self._secrets.find(data):
            if begin >= rest:
                break
            if begin >= done:
                told += [data[done:begin], MASK]
            done = max(done, end)
        told.append(data[done:rest])
        self._held, self._masked = data[rest:], max(done - rest, 0)
        return b"".join(told)


# ------------------------------------------------------------------- the forms


def _forms(value: bytes) -> Iterator[_Form]:
    yield _in_urls(value)
    for before in range(3):
        yield _in_base64(value, before)


def _in_urls(value: bytes) -> _Form:
    """Return the form in which any byte may be percent-encoded, so perhaps none is."""
    encoded = [tuple(_encoded(byte)) for byte in value]
    places = [(*pieces, _byte(byte)) for pieces, byte in zip(encoded, value, strict=True)]
    # Either an encoded byte has another one behind it, or all bytes but the last stand as they are.
    hints = (
        piece + following
        for pieces, (_, others) in zip(encoded, pairwise(places), strict=False)
        for piece, following in product(pieces, others)
    )
    return _Form(places, [value[:-1]], hints)


def _encoded(byte: int) -> Iterator[bytes]:
    if byte == ord(" "):
        yield b"+"
    for high, low in product(*({digit, digit.upper()} for digit in f"{byte:02x}")):
        yield f"%{high}{low}".encode()


def _in_base64(value: bytes, before: int) -> _Form:
    """Return the form in base64 behind some other bytes, of which the number modulo 3 counts.

    A digit at either end has bits of its neighbours too: there, any with the value's bits may be.
    """
    behind = -(before + len(value)) % 3
    zeros, ones = (
        [_DIGIT[digit] for digit in base64.b64encode(other * before + value + other * behind)]
        for other in (b"\0", b"\xff")
    )
    sure = [zero for zero, one in zip(zeros, ones, strict=True) if zero == one]
    places = [
        tuple(
            {
                _byte(alphabet[digit])
                for digit in range(64)
                if digit & ~unsure == zero
                for alphabet in _ALPHABETS
            }
        )
        for zero, one in zip(zeros, ones, strict=True)
        if (unsure := zero ^ one) != _ALL_BITS
    ]
    needles = {bytes(alphabet[digit] for digit in sure) for alphabet in _ALPHABETS}
    common = max(re.split(rb"[^%s]" % _DIGITS, min(needles)), key=len)
    return _Form(places, needles if len(common) < _TELLING else [common])


def _byte(value: int) -> bytes:
    return bytes((value,))


def _any_begin(words: Iterable[bytes]) -> bytes:
    """Return a pattern that finds words, in time that hardly depends on how many they are."""
    by_first: dict[bytes, list[bytes]] = {}
    for word in words:
        if not word:
            return b""  # whatever follows
        by_first.setdefault(word[:1], []).append(word[1:])
    branches = [re.escape(first) + _any_begin(rests) for first, rests in sorted(by_first.items())]
    return branches[0] if len(branches) == 1 else b"(?:%s)" % b"|".join(branches)


def _either(pieces: Sequence[bytes]) -> bytes:
    """Return the pattern of any of some pieces; what stands first is tried first."""
    escaped = [re.escape(piece) for piece in pieces]
    return escaped[0] if len(escaped) == 1 else b"(?:%s)" % b"|".join(escaped)
