"""TurnLimits and waits: what they are, and what is refused."""

import math
from random import Random

import pytest
from hypothesis import given, strategies as st

from rehydrate.agent import Retry, TurnLimits
from rehydrate.errors import InvalidArgumentError


@pytest.mark.parametrize("name", ["steps", "parallel_calls"])
@pytest.mark.parametrize("value", [0, -1, 1.5, True, None, "3"])
def test_a_count_is_a_whole_number_from_one_up(name, value):
    with pytest.raises(InvalidArgumentError, match=f"limits: {name} is {value!r}; pass"):
        TurnLimits(**{name: value})


@pytest.mark.parametrize("name", ["timeout", "dollars", "tool_timeout"])
@pytest.mark.parametrize("value", [0, -1, math.inf, math.nan, True, "3"])
def test_any_other_limit_is_a_number_above_zero_or_none(name, value):
    with pytest.raises(InvalidArgumentError, match=f"limits: {name} is {value!r}; pass"):
        TurnLimits(**{name: value})
    assert getattr(TurnLimits(**{name: None}), name) is None


@pytest.mark.parametrize("value", [-1, math.inf, math.nan, None])
@pytest.mark.parametrize("name", ["base_seconds", "max_seconds", "total_seconds"])
def test_a_wait_is_a_number_from_zero_up(name, value):
    with pytest.raises(InvalidArgumentError, match=f"retry: {name} is {value!r}; pass"):
        Retry(**{name: value})


def test_attempts_are_a_whole_number_from_one_up():
    with pytest.raises(InvalidArgumentError, match="retry: attempts is 0; pass"):
        Retry(attempts=0)


@given(
    failures=st.integers(1, 10_000),
    base=st.floats(1e-3, 1e6),
    longest=st.floats(0, 1e6),
    seed=st.integers(),
)
def test_waits_double_up_to_the_longest_and_lose_half_at_most(failures, base, longest, seed):
    retry = Retry(base_seconds=base, max_seconds=longest)
    full = min(base * 2.0 ** min(failures - 1, 900), longest)
    assert full / 2 <= retry.delay(failures, None, Random(seed)) <= full


@given(wish=st.floats(0, 1e9), failures=st.integers(1, 9))
def test_the_providers_own_wish_is_waited_for_exactly(wish, failures):
    assert Retry().delay(failures, wish, Random(1)) == wish


def test_the_same_seed_waits_the_same():
    waits = [
        [Retry().delay(n, None, random) for n in range(1, 6)] for random in map(Random, (1, 1, 2))
    ]
    assert waits[0] == waits[1] != waits[2]
