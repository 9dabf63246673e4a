"""What a cover glob means (S13): which paths it matches, and where below the top those can lie.

Braces are written out first and each alternative is read on its own. The regular expression that
comes of it never goes back over a choice that cannot matter, so matching costs about the length of
the path times that of the glob, whatever either holds.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from functools import cache, cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MAX_LENGTH = 4_096
"""Characters in one glob."""
MAX_ALTERNATIVES = 1_024
"""Alternatives that the braces of one glob may stand for."""
MAX_WRITTEN_OUT = 131_072
"""Characters in all alternatives of one glob together."""

# Possessive, so that a first `]` is never given back to close the class that it is a member of.
_ESCAPE_OR_CLASS = r"\\.|\[!?+\]?+(?:\\.|[^\]\\])*+\]"
# Not compiled here: most globs need none of them.
_PIECE = rf"(?s){_ESCAPE_OR_CLASS}|."
_BRACE_OR_RUN = rf"(?s)[{{}},]|(?:{_ESCAPE_OR_CLASS}|[^{{}},])+"
_CLASS_MEMBER = r"(?s)\\.|."
_SPECIAL = r"[*?\[\]{}\\]"

_Component = tuple[str, ...]
"""What stands between two slashes, in pieces as they are spelled: `a`, `\\*`, `*`, `[a-z]`."""
_ANY_DEPTH = ("*", "*")


class GlobError(ValueError):
    """A glob that means nothing: one plain sentence, and a hint where there is one to give."""

    def __init__(self, what: str, hint: str | None = None) -> None:
        super().__init__(what)
        self.hint = hint


class Glob:
    """A glob that can be asked. Made by `parse`."""

    def __init__(self, text: str, alternatives: Sequence[Sequence[_Component]]) -> None:
        self.text = text
        """As it was given."""
        self.prefixes = outermost(map(_prefix, alternatives))
        """Where a path that matches can lie: below a folder where it ends in `/`, that very path
        where it does not, anywhere where it is empty (S16). None of them lies within another."""
        self.is_plain = all(map(_is_plain, alternatives))
        """Whether it means all that lies there, so that no pattern has to tell."""
        self._alternatives = alternatives

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Its `match` takes a whole path, as `decode` gives it. Raises `GlobError`."""
        sources = [_translate(components, self.text) for components in self._alternatives]
        return re.compile(rf"(?:{'|'.join(sources)})\Z", re.DOTALL)

    @property
    def size(self) -> int:
        """Characters that it takes to say what it means, with all braces written out."""
        if not self.is_plain:
            return len(self.pattern.pattern)
        return sum(len(component) for one in self._alternatives for component in one)

    def matches(self, path: bytes) -> bool:
        """Whether the glob means `path`, which is relative to the top of the working tree."""
        return self.pattern.match(decode(path)) is not None

    def matching(self, paths: Sequence[bytes]) -> list[bytes]:
        """Return those of some sorted paths that the glob means, in their order."""
        match = None if self.is_plain else self.pattern.match
        found: list[bytes] = []
        for prefix in self.prefixes:
            some = _within(paths, prefix)
            found += some if match is None else [path for path in some if match(decode(path))]
        return found


def decode(path: bytes) -> str:
    """Return `path` as patterns see it: each byte that is not UTF-8 is one character (S15)."""
    return path.decode("utf-8", "surrogateescape")


@cache
def parse(text: str) -> Glob:
    """Return what `text` means. Raises `GlobError` where it means nothing (S13)."""
    parsed = Glob(text, [_components(alternative, text) for alternative in _written_out(text)])
    if not parsed.is_plain:
        _ = parsed.pattern  # a class may be one that no pattern can say
    return parsed


def outermost(prefixes: Iterable[bytes]) -> tuple[bytes, ...]:
    """Return `prefixes`, in order, without those that lie within another (S16)."""
    kept: list[bytes] = []
    folder: bytes | None = None
    for prefix in sorted(set(prefixes)):  # what a folder covers comes right after it
        if folder is not None and prefix.startswith(folder):
            continue
        kept.append(prefix)
        if not prefix or prefix.endswith(b"/"):
            folder = prefix
    return tuple(kept)


def near_miss(glob: Glob, paths: Iterable[bytes]) -> str | None:
    """Return a hint for a glob that matches nothing, where `paths` tell what was meant (S14).

    It names a folder, differs in case, or is a file's name whose brackets were not escaped.
    """
    other_case = re.compile(glob.pattern.pattern, glob.pattern.flags | re.IGNORECASE)
    seen: set[str] = set()
    for path in paths:
        name = decode(path)
        if name == glob.text:
            escaped = re.sub(_SPECIAL, r"\\\g<0>", name)
            return f"for the file of that name, write `{escaped}`"
        if other_case.match(name):
            return f"`{name}` differs from it only in case"
        folder = name.rpartition("/")[0]
        while folder and folder not in seen:
            seen.add(folder)
            if glob.pattern.match(folder):
                return f"`{folder}` is a folder; for what is below it, write `{glob.text}/**`"
            folder = folder.rpartition("/")[0]
    return None


def _written_out(text: str) -> list[str]:
    """Return every alternative that the braces of `text` stand for, without those braces."""
    _refuse_text(text)
    if "{" not in text:
        return [text]
    stack: list[tuple[list[str], list[str]]] = []
    finished: list[str] = []
    heads = [""]
    for run in re.findall(_BRACE_OR_RUN, text):
        if run == "{":
            stack.append((finished, heads))
            finished, heads = [], [""]
        elif run == "," and stack:
            finished, heads = [*finished, *heads], [""]
        elif run == "}" and stack:
            tails = [*finished, *heads]
            finished, heads = stack.pop()
            if len(heads) * len(tails) > MAX_ALTERNATIVES:
                raise GlobError(f"`{text}` has more than {MAX_ALTERNATIVES:,} alternatives")
            heads = [head + tail for head in heads for tail in tails]
        else:
            heads = [head + run for head in heads]
    if stack:
        raise GlobError(f"`{text}` has a `{{` that is not closed", "for a `{` itself, write `\\{`")
    if sum(map(len, heads)) > MAX_WRITTEN_OUT:
        raise GlobError(f"`{text}` is too long once its braces are written out")
    return list(dict.fromkeys(heads))


def _refuse_text(text: str) -> None:
    if len(text) > MAX_LENGTH:
        raise GlobError(f"`{text[:40]}...` is longer than {MAX_LENGTH:,} characters")
    if "\0" in text:
        raise GlobError(f"`{text}` holds a NUL character, which no path does")
    pieces = _pieces(text)
    if "[" in pieces:
        raise GlobError(f"`{text}` has a `[` that is not closed", "for a `[` itself, write `\\[`")
    if "\\" in pieces:
        raise GlobError(f"`{text}` ends in a backslash that escapes nothing")


def _pieces(text: str) -> list[str]:
    return re.findall(_PIECE, text) if "[" in text or "\\" in text else list(text)


def _components(alternative: str, text: str) -> tuple[_Component, ...]:
    """Split one alternative of `text` at its slashes, and refuse what no path can match."""
    subject = f"`{text}`" if alternative == text else f"`{text}` also means `{alternative}`, which"
    components: list[list[str]] = [[]]
    for piece in _pieces(alternative):
        if piece in ("/", "\\/"):
            components.append([])
        else:
            components[-1].append(piece)
    if not alternative:
        raise GlobError(f"{subject} is empty")
    if not components[0]:
        raise GlobError(
            f"{subject} is absolute",
            f"globs start at the top of the working tree: `{alternative.lstrip('/')}`",
        )
    if not components[-1]:
        below = alternative.rstrip("/") + "/**"
        raise GlobError(f"{subject} ends in `/`", f"for what is below that folder, write `{below}`")
    if _literal(components[0]) == "." and components[1:]:
        del components[0]
    for component in components:
        _refuse_component(component, subject)
    return tuple(map(tuple, components))


def _refuse_component(component: Sequence[str], subject: str) -> None:
    if not component:
        raise GlobError(f"{subject} has nothing between two slashes")
    if (name := _literal(component)) in (".", ".."):
        raise GlobError(f"{subject} has a component `{name}`, which no path in the tree has")
    if _ANY_DEPTH in pairwise(component) and tuple(component) != _ANY_DEPTH:
        raise GlobError(
            f"{subject} has a `**` that is not a whole component",
            "`**/` crosses folders, `*` stays within one",
        )


def _literal(component: Sequence[str]) -> str | None:
    """Return the only name that the component matches, or None where it has a wildcard."""
    if any(piece in ("*", "?") or (piece[0] == "[" and piece[1:]) for piece in component):
        return None
    return "".join(piece[-1] for piece in component)


def _prefix(components: Sequence[_Component]) -> bytes:
    names: list[str] = []
    for component in components:
        name = _literal(component)
        if name is None:
            return "".join(f"{name}/" for name in names).encode("utf-8", "surrogateescape")
        names.append(name)
    return "/".join(names).encode("utf-8", "surrogateescape")


def _is_plain(components: Sequence[_Component]) -> bool:
    """Whether an alternative is a path, or all that is below one: then its prefix says it all."""
    *folders, last = components
    return None not in map(_literal, folders) and (last == _ANY_DEPTH or _literal(last) is not None)


def _within(paths: Sequence[bytes], prefix: bytes) -> Sequence[bytes]:
    """Return the slice of some sorted paths that has what lies at or below a prefix."""
    start = bisect_left(paths, prefix)
    if not prefix:
        return paths
    if prefix.endswith(b"/"):
        return paths[start : bisect_left(paths, prefix[:-1] + b"0", start)]  # `0` follows `/`
    return paths[start : start + (prefix in paths[start : start + 1])]


def _translate(components: Sequence[_Component], text: str) -> str:
    """Return the regular expression of one alternative.

    Between two `**` the leftmost fit leaves the most for what follows, so it alone is tried.
    """
    groups: list[list[str]] = [[]]
    for component in components:
        if component == _ANY_DEPTH:
            groups.append([])
        else:
            groups[-1].append(_translate_component(component, text))
    first, *middle = groups
    if not middle:
        return "/".join(first)
    last = middle.pop()
    source = "".join(f"{part}/" for part in first)
    for group in filter(None, middle):
        source += "(?>(?:.*?/)??" + "".join(f"{part}/" for part in group) + ")"
    return source + ("(?:.*/)?" + "/".join(last) if last else ".+")


def _translate_component(component: _Component, text: str) -> str:
    if component == ("*",):
        return "[^/]+"
    segments = [""]
    for piece in component:
        if piece == "*":
            segments.append("")
        elif piece == "?":
            segments[-1] += "[^/]"
        elif piece[0] == "[":
            segments[-1] += _translate_class(piece, text)
        else:
            segments[-1] += re.escape(piece[-1])
    first, *rest = segments
    if not rest:
        return first
    last = rest.pop()
    return first + "".join(f"(?>[^/]*?{segment})" for segment in rest) + f"[^/]*{last}"


def _translate_class(piece: str, text: str) -> str:
    negated = piece[1] == "!"
    members = re.findall(_CLASS_MEMBER, piece[2 if negated else 1 : -1])
    inside = ""
    while members:
        low = high = members.pop(0)[-1]
        if members[1:] and members[0] == "-":
            high = members[1][-1]
            del members[:2]
        if low > high:
            raise GlobError(f"`{text}` has a backward range `{low}-{high}`")
        inside += re.escape(low) if low == high else f"{re.escape(low)}-{re.escape(high)}"
    return f"[^/{inside}]" if negated else f"(?!/)[{inside}]"
