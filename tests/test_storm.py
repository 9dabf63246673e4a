"""A whole verify on a machine that dies, or whose disk fails, at each of its calls in turn.

The suite is killed at every call that changes the disk or starts a process, and has a sample of
all else. `ROXY_STORM=all` tries everything, which takes an hour:

    ROXY_STORM=all .venv/bin/python -m pytest -q -s -n auto tests/test_storm.py
"""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

import pytest

from handshake import on_linux
from storm import ERRORS, Broken, Fault, Weather, build, in_own_process

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Series = list[Fault]
    """Each comes later than the one before, so the rest is let go where one is never reached."""
    Strike = Callable[..., "Tally"]

EVERYTHING = os.environ.get("ROXY_STORM") == "all"
SHARDS = 16 if EVERYTHING else 2
MANY = 1_000
"""More calls than any status makes."""


@dataclass
class Tally:
    """What was tried, and what came of it."""

    kills: int = 0
    failures: int = 0
    pairs: int = 0
    groups_ended: int = 0

    def count(self, fault: Fault) -> None:
        self.pairs += fault.second is not None
        self.kills += fault.second is None and fault.error == "kill"
        self.failures += fault.second is None and fault.error != "kill"

    def add(self, other: Tally) -> None:
        for name, count in asdict(other).items():
            setattr(self, name, getattr(self, name) + count)


@pytest.fixture(scope="module")
def tally() -> Iterator[Tally]:
    """Add up what is tried in this module, and tell it (`-s`)."""
    tally = Tally()
    yield tally
    counts = f"{tally.kills} kills, {tally.failures} failures, {tally.pairs} pairs"
    print(f"\nstorm: {counts}; none lost")  # noqa: T201


@pytest.fixture
def strike(tmp_path: Path, tally: Tally) -> Strike:
    """Return what tries a shard of some faults, each on a project of its own."""

    def strike(
        make: Callable[[Weather], Iterator[Series]],
        shard: int = 0,
        shards: int = SHARDS,
        *,
        background: str = "",
    ) -> Tally:
        build(tmp_path / "template", background)

        def try_shard(work: Path) -> tuple[dict[str, int], list[str]]:
            weather = Weather(tmp_path / "template", work, counts_all=EVERYTHING)
            tried, broken = try_all(weather, list(make(weather))[shard::shards])
            return asdict(tried), broken

        counts, broken = in_own_process(try_shard)
        assert not broken, "\n\n".join(broken)
        tally.add(Tally(**counts))
        return Tally(**counts)

    return strike


def try_all(weather: Weather, many: list[Series]) -> tuple[Tally, list[str]]:
    """Try faults, and go on after each that broke something."""
    tried, broken = Tally(), []
    for number, series in enumerate(many):
        for fault in series:
            try:
                if not weather.strike(fault, whole=EVERYTHING or number % 16 == 0):
                    break
            except Broken as error:
                broken.append(f"{fault}: {error}")
            tried.count(fault)
    tried.groups_ended = weather.groups_ended
    return tried, broken


# ------------------------------------------------------------------- what goes wrong


def kills(weather: Weather) -> Iterator[Series]:
    for number in range(len(weather.steps("kill"))):
        if EVERYTHING:
            yield [Fault("kill", number)]
        yield [Fault("kill", number, after=True)]


def failures(weather: Weather) -> Iterator[Series]:
    for error, share in (("EIO", 32), ("EACCES", 12), ("ENOSPC", 12)):
        steps = range(len(weather.steps(error)))
        for number in steps if EVERYTHING else steps[5 :: len(steps) // share]:
            yield [Fault(error, number)]
            if EVERYTHING:
                yield [Fault(error, number, after=True)]
                yield [Fault(error, number, lasting=True)]


def disks_that_become_read_only(weather: Weather) -> Iterator[Series]:
    """Let everything fail from some call on while files stand mutated."""
    steps = weather.steps("ENOSPC")
    where = [number for number, step in enumerate(steps) if step.startswith("rename_at")]
    for number in where if EVERYTHING else where[1:4]:
        yield [Fault("ENOSPC", number, after=True, lasting=True)]


def kills_in_the_runs(weather: Weather, every: int) -> list[Fault]:
    steps = weather.steps("kill")
    first = next(number for number, step in enumerate(steps) if "/journal" in step)
    return [Fault("kill", number, after=True) for number in range(first, len(steps), every)]


def pairs_of_kills(weather: Weather) -> Iterator[Series]:
    for number, first in enumerate(kills_in_the_runs(weather, 1 if EVERYTHING else 9)):
        seconds = range(MANY) if EVERYTHING else (number % 7 + 3, number % 11 + 10)
        yield [replace(first, second=Fault("kill", again, after=True)) for again in seconds]


def failed_recoveries(weather: Weather) -> Iterator[Series]:
    for number, first in enumerate(kills_in_the_runs(weather, 10 if EVERYTHING else 19)):
        for error in ERRORS:
            seconds = range(MANY) if EVERYTHING else (number * 5,)
            yield [replace(first, second=Fault(error, again)) for again in seconds]


def kills_beside_a_check(weather: Weather) -> Iterator[Series]:
    """Kill roxy from the moment that a check goes on until the note of it is gone."""
    is_on = False
    for number, step in enumerate(weather.steps("kill")):
        is_on = step.startswith("write pipe") or (is_on and not step.endswith("/run.json"))
        if is_on:
            yield [Fault("kill", number, after=True)]


# ------------------------------------------------------------------- what comes of it


@pytest.mark.slow
@pytest.mark.rule("S28", "S33", "S35")
@pytest.mark.parametrize("shard", range(SHARDS * 2))
def test_wherever_a_verify_is_killed_one_status_puts_everything_back(
    shard: int, strike: Strike
) -> None:
    assert strike(kills, shard, SHARDS * 2).kills > 100 / SHARDS


@pytest.mark.slow
@pytest.mark.rule("S28", "S43", "S48")
@pytest.mark.parametrize("shard", range(SHARDS))
def test_whatever_fails_in_a_verify_it_says_so_or_answers_all_the_same(
    shard: int, strike: Strike
) -> None:
    assert strike(failures, shard).failures > 50 / SHARDS


@pytest.mark.slow
@pytest.mark.rule("S33", "S48")
def test_a_disk_that_becomes_read_only_keeps_the_copies_and_the_error_names_them(
    strike: Strike,
) -> None:
    assert strike(disks_that_become_read_only, shards=1).failures > 0


@pytest.mark.slow
@pytest.mark.rule("S33")
@pytest.mark.parametrize("shard", range(SHARDS))
def test_wherever_the_recovery_is_killed_too_the_next_status_puts_everything_back(
    shard: int, strike: Strike
) -> None:
    assert strike(pairs_of_kills, shard).pairs > 0


@pytest.mark.slow
@pytest.mark.rule("S33", "S43", "S48")
@pytest.mark.parametrize("shard", range(SHARDS))
def test_whatever_fails_in_a_recovery_it_says_so_and_the_next_one_succeeds(
    shard: int, strike: Strike
) -> None:
    assert strike(failed_recoveries, shard).pairs > 0


@on_linux
@pytest.mark.slow
@pytest.mark.rule("S28", "S33")
@pytest.mark.parametrize("shard", range(SHARDS))
def test_wherever_a_verify_is_killed_one_status_ends_what_the_check_left(
    shard: int, strike: Strike
) -> None:
    tried = strike(kills_beside_a_check, shard, background="sleep 86400 &")
    assert tried.groups_ended > 0
