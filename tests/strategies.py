"""Values for the properties: what hypothesis draws, shared by the tests."""

from __future__ import annotations

from hypothesis import strategies as st

from roxy.core.lockfile import Lockfile
from roxy.core.model import Check, Claim

_GLOB_PIECES = ("a", "b", "ab", "*", "**", "/", "/**/", "**/", "/**", "?", "\\", "!", "-", ".", ",")
_GLOB_PIECES += ("{a,b}", "{a/,}", "{", "}", "[ab]", "[!a]", "[a-b]", "[]a]", "[!]]", "[^b]", "[")
_GLOB_PIECES += ("]", "\\*", "[a\\]]", "[/a]", "[!/]", "{*,b}", "{**,a}/", "{a,{b,?}}", "./")


def names() -> st.SearchStrategy[str]:
    """Names that a claim or a check may have (S10)."""
    characters = st.characters(exclude_categories=("Cc", "Cs"), exclude_characters="/")
    return st.text(characters, min_size=1, max_size=12).filter(lambda name: name[0] != "-")


def fingerprints() -> st.SearchStrategy[str]:
    return st.binary(min_size=32, max_size=32).map(lambda digest: f"sha256:{digest.hex()}")


def lockfiles() -> st.SearchStrategy[Lockfile]:
    entries = st.dictionaries(st.tuples(names(), names()), fingerprints(), max_size=8)
    return entries.map(Lockfile)


def commands() -> st.SearchStrategy[str]:
    characters = st.characters(exclude_categories=("Cs",), exclude_characters="\0\r")
    return st.text(characters, min_size=1, max_size=30).filter(str.strip)


def claims() -> st.SearchStrategy[tuple[Claim, ...]]:
    """The claims of a manifest without a fault."""
    return st.lists(names(), min_size=1, max_size=3, unique=True).flatmap(
        lambda claim_names: st.tuples(*map(_claim, claim_names))
    )


@st.composite
def _claim(draw: st.DrawFn, name: str) -> Claim:
    check_names = draw(st.lists(names(), min_size=1, max_size=3, unique=True))
    return Claim(
        name,
        draw(st.none() | commands()),
        tuple(
            Check(
                claim=name,
                name=check_name,
                run=draw(commands()),
                covers=tuple(draw(st.lists(st.sampled_from(("src/**", "a.py")), min_size=1))),
                mutations=tuple(
                    draw(st.lists(st.sampled_from("xyz"), min_size=1, max_size=3, unique=True))
                ),
            )
            for check_name in check_names
        ),
    )


def globs() -> st.SearchStrategy[str]:
    """Texts over few characters that are globs, or nearly."""
    pieces = st.lists(st.sampled_from(_GLOB_PIECES), max_size=6).map("".join)
    return pieces | st.text("ab/*?[]{},!-\\.^", max_size=9)


def paths() -> st.SearchStrategy[bytes]:
    """Paths as git prints them, made of what is special in globs, some of it not UTF-8."""
    name = st.lists(
        st.sampled_from([b"a", b"b", b"-", b"]", b"^", b"!", b",", b"{", b"*", b"\n", b"\xff"]),
        min_size=1,
        max_size=3,
    ).map(b"".join)
    return st.lists(name, min_size=1, max_size=4).map(b"/".join)
