"""Which time new content gets: always a later second, never far ahead of the clock (S30)."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from roxy.core.forward import SECOND, next_mtime, seconds_to_pass, seconds_to_wait

NOW = 1_800_000_000 * SECOND
HALF = SECOND // 2


def times() -> st.SearchStrategy[int]:
    """Times around a clock that stands somewhere in the second after `NOW`."""
    near = st.integers(NOW - 3 * SECOND, NOW + 4 * SECOND)
    whole = st.integers(-3, 4).map(lambda seconds: NOW + seconds * SECOND)
    return near | whole | whole.map(lambda time: time - 1) | st.integers(0, 2 * NOW)


def clocks() -> st.SearchStrategy[int]:
    return st.integers(NOW, NOW + SECOND - 1) | st.sampled_from([NOW, NOW + SECOND - 1])


@pytest.mark.rule("S30")
@pytest.mark.parametrize(
    ("previous", "now", "expected"),
    [
        pytest.param(0, NOW + HALF, NOW + HALF, id="long ago: now"),
        pytest.param(NOW - 1, NOW, NOW, id="the second before, by a nanosecond: now"),
        pytest.param(NOW, NOW, NOW + SECOND, id="this very moment: the next second"),
        pytest.param(NOW + 1, NOW + HALF, NOW + SECOND, id="this second: the next one"),
        pytest.param(NOW + SECOND - 1, NOW + 1, NOW + SECOND, id="later this second: the next one"),
        pytest.param(NOW + SECOND, NOW + HALF, None, id="the next second: wait"),
        pytest.param(NOW + 2 * SECOND - 1, NOW, None, id="the end of the next second: wait"),
        pytest.param(NOW + 2 * SECOND, NOW + HALF, NOW + HALF, id="further ahead: now"),
        pytest.param(NOW + 3600 * SECOND, NOW, NOW, id="an hour ahead: now"),
        pytest.param(-SECOND - 1, NOW, NOW, id="before 1970: now"),
    ],
)
def test_next_mtime_answers(previous: int, now: int, expected: int | None) -> None:
    assert next_mtime(previous, now) == expected


@pytest.mark.rule("S30")
@given(previous=times(), now=clocks())
def test_next_mtime_is_another_second_and_at_most_one_ahead(previous: int, now: int) -> None:
    given_time = next_mtime(previous, now)
    assume(given_time is not None)
    assert given_time is not None
    assert now <= given_time <= now + SECOND
    assert given_time // SECOND != previous // SECOND


@pytest.mark.rule("S30")
@given(previous=times(), now=clocks())
def test_next_mtime_is_a_later_second_unless_the_file_is_dated_further_ahead(
    previous: int, now: int
) -> None:
    given_time = next_mtime(previous, now)
    if given_time is not None and given_time // SECOND <= previous // SECOND:
        assert previous // SECOND > now // SECOND + 1


@pytest.mark.rule("S30")
@given(previous=times(), now=clocks())
def test_next_mtime_answers_after_seconds_to_wait_which_are_one_at_most(
    previous: int, now: int
) -> None:
    seconds = seconds_to_wait(previous, now)
    assert (seconds > 0) == (next_mtime(previous, now) is None)
    assert seconds <= 1
    if seconds > 0:
        assert next_mtime(previous, now + round(seconds * SECOND) + 1) is not None


@pytest.mark.rule("S30")
@given(first=times(), now=clocks(), pauses=st.lists(st.integers(0, 3 * SECOND), max_size=6))
def test_next_mtime_never_gives_two_contents_in_a_row_the_same_second(
    first: int, now: int, pauses: list[int]
) -> None:
    previous = first
    for pause in pauses:
        now += pause
        given_time = next_mtime(previous, now)
        while given_time is None:
            now += round(seconds_to_wait(previous, now) * SECOND) + 1
            given_time = next_mtime(previous, now)
        assert given_time // SECOND != previous // SECOND
        assert given_time <= now + SECOND
        previous = given_time


@pytest.mark.rule("S30")
@given(previous=times(), now=clocks())
def test_seconds_to_pass_a_time_that_was_set_are_two_at_most(previous: int, now: int) -> None:
    latest = next_mtime(previous, now)
    if latest is not None:
        seconds = seconds_to_pass(latest, now)
        assert 0 < seconds <= 2
        assert (now + round(seconds * SECOND) + 1) // SECOND > latest // SECOND


@pytest.mark.rule("S30")
def test_seconds_to_pass_is_zero_in_a_later_second() -> None:
    assert seconds_to_pass(NOW - 1, NOW) == 0
    assert seconds_to_pass(NOW, NOW + SECOND) == 0
    assert seconds_to_pass(NOW, NOW) == 1
