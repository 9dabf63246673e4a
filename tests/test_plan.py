"""Which checks a command is about (S44), and which comes first (S30)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roxy.core.errors import UsageError
from roxy.core.model import Check, Claim, Manifest
from roxy.core.plan import next_job, select

if TYPE_CHECKING:
    from project import Project


def a_manifest(*ids: str) -> Manifest:
    claims: dict[str, list[Check]] = {}
    for one in ids:
        claim, _, name = one.partition("/")
        claims.setdefault(claim, []).append(
            Check(claim=claim, name=name, run="true", covers=("a",), mutations=("p",))
        )
    return Manifest(
        tuple(Claim(name, None, tuple(checks)) for name, checks in claims.items()), {"p": b""}
    )


MANIFEST = a_manifest(
    "login/web", "login/ios", "logout/web", "upload/web", "upload/a b", "l*/web", "é/ü", "web/login"
)


def ids(*names: str) -> list[str]:
    return [check.id for check in select(MANIFEST, names)]


@pytest.mark.rule("S44")
@pytest.mark.parametrize(
    ("names", "selected"),
    [
        ((), [check.id for check in MANIFEST.checks]),
        (("login",), ["login/web", "login/ios"]),
        (("login/ios",), ["login/ios"]),
        (("upload/a b",), ["upload/a b"]),
        (("log*",), ["login/web", "login/ios", "logout/web"]),
        (("*/ios",), ["login/ios"]),
        (("login/*",), ["login/web", "login/ios"]),
        (("log{in,out}/web",), ["login/web", "logout/web"]),
        (("[!l]*/web",), ["upload/web"]),
        (("?/?",), ["é/ü"]),
        (("*",), [check.id for check in MANIFEST.checks]),
        (("**",), [check.id for check in MANIFEST.checks]),
        (("*/*",), [check.id for check in MANIFEST.checks]),
        (("l*",), ["l*/web"]),  # a name before a glob
        (("l\\*",), ["l*/web"]),
        (("l*/*",), ["login/web", "login/ios", "logout/web", "l*/web"]),
        (("web",), ["web/login"]),  # a claim, never a check of some claim
        (("upload", "login/web"), ["login/web", "upload/web", "upload/a b"]),  # its own order
        (("login", "login/*", "login/web"), ["login/web", "login/ios"]),  # each once
    ],
)
def test_select_takes_claims_checks_and_globs_over_both(
    names: tuple[str, ...], selected: list[str]
) -> None:
    assert ids(*names) == selected


@pytest.mark.rule("S44")
@pytest.mark.parametrize(
    "name",
    [
        "",
        "Login",
        "login/",
        "/login",
        "login/web/",
        "ios",
        "nothing*",
        "[",
        "{",
        "a**",
        "\udcff",
        "\0",
    ],
)
def test_select_refuses_a_name_that_selects_nothing(name: str) -> None:
    with pytest.raises(UsageError) as caught:
        ids("login", name)
    (fault,) = caught.value.faults
    assert fault.what == f"no claim or check is called `{name}`"
    assert fault.hint


@pytest.mark.rule("S44", "S48")
def test_select_names_everything_that_selects_nothing_with_what_is_near() -> None:
    with pytest.raises(UsageError) as caught:
        ids("logn", "login", "login/wbe", "zzz")
    assert [(fault.what, fault.hint) for fault in caught.value.faults] == [
        ("no claim or check is called `logn`", "did you mean `login`?"),
        ("no claim or check is called `login/wbe`", "did you mean `login/web`?"),
        ("no claim or check is called `zzz`", "`roxy status` lists every check"),
    ]


@pytest.mark.rule("S44")
def test_verify_runs_only_what_is_named_and_leaves_the_other_entries(project: Project) -> None:
    project.greet("grep -q hello src/greeting.txt")
    project.check("grep -q hello src/greeting.txt # two", claim="other", name="one")
    project.check("exit 1", claim="other", name="two")
    assert project.roxy("verify", "nothing").code == 2
    assert not (project.root / "roxy.lock").exists()
    done = project.roxy("verify", "other/*")
    assert done.code == 1
    assert project.states() == {
        "greeting/text": "unverified",
        "other/one": "verified",
        "other/two": "unverified",
    }
    done = project.roxy("verify", "greeting")
    assert (done.code, done.out) == (0, "verified greeting/text\n1 verified\n")
    done = project.roxy("verify", "*/{one,text}")
    assert (done.code, done.out) == (0, "nothing to do: all 2 named checks are verified\n")


@pytest.mark.rule("S30")
@given(st.lists(st.booleans(), min_size=1, max_size=6))
def test_next_job_is_the_first_that_has_rested_or_else_the_first(rested: list[bool]) -> None:
    jobs = list(enumerate(rested))
    chosen = next_job(jobs, lambda job: job[1])
    assert chosen == next((job for job in jobs if job[1]), jobs[0])
