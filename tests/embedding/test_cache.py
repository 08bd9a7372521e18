"""The vector cache: stored rows are found under their space, within a limit of bytes."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from hypothesis import given, strategies as st

from rehydrate.embedding.cache import VectorCache
from rehydrate.embedding.resilient import Breaker
from tests.embedding.doubles import Clock

ROW_BYTES = 256 + 4 * 4


def row(value: float) -> np.ndarray:
    return np.full(4, value, np.float32)


def test_a_row_is_found_under_its_own_space_only():
    cache = VectorCache()
    cache.put("one", ["text"], [row(1)])
    assert cache.get("one", ["text"])[0].tolist() == [1] * 4
    assert cache.get("two", ["text"]) == [None]
    assert cache.get("one", ["other"]) == [None]


def test_the_least_recently_used_go_first():
    cache = VectorCache(3 * ROW_BYTES)
    cache.put("s", ["a", "b", "c"], [row(1), row(2), row(3)])
    cache.get("s", ["a"])
    cache.put("s", ["d"], [row(4)])
    found = cache.get("s", ["a", "b", "c", "d"])
    assert [known is not None for known in found] == [True, False, True, True]


def test_a_row_of_zeros_is_no_vector_and_is_asked_for_again():
    cache = VectorCache()
    cache.put("s", ["late"], [row(0)])
    assert cache.get("s", ["late"]) == [None]


def test_what_happens_to_an_array_afterwards_does_not_reach_the_cache():
    cache = VectorCache()
    batch = np.ones((2, 4), np.float32)
    cache.put("s", ["a", "b"], batch)
    batch[:] = 7
    (found,) = cache.get("s", ["a"])
    assert found.tolist() == [1] * 4
    with pytest.raises(ValueError, match="read-only"):
        found[0] = 7


def test_any_text_has_a_key():
    cache = VectorCache()
    texts = ["", "\ud800", "\x00", "א", "🙂"]
    cache.put("s", texts, [row(n + 1) for n in range(5)])
    assert [found[0] for found in cache.get("s", texts)] == [1, 2, 3, 4, 5]


def test_it_forgets_everything_when_told():
    cache = VectorCache()
    cache.put("s", ["a"], [row(1)])
    cache.clear()
    assert (len(cache), cache.bytes_held, cache.get("s", ["a"])) == (0, 0, [None])


@given(
    st.lists(st.tuples(st.sampled_from("abcdefgh"), st.integers(1, 9)), max_size=60),
    st.integers(0, 5),
)
def test_it_holds_the_latest_rows_and_never_more_than_its_bound(
    puts: list[tuple[str, int]], fits: int
):
    cache = VectorCache(fits * ROW_BYTES)
    latest: dict[str, int] = {}
    for text, value in puts:
        cache.put("s", [text], [row(value)])
        latest.pop(text, None)
        latest[text] = value
        assert cache.bytes_held <= cache.capacity_bytes
        assert cache.bytes_held == len(cache) * ROW_BYTES
    expected = dict(list(latest.items())[max(0, len(latest) - fits) :])
    found = dict(zip("abcdefgh", cache.get("s", list("abcdefgh")), strict=True))
    assert {text: int(r[0]) for text, r in found.items() if r is not None} == expected


def test_threads_may_share_it():
    cache = VectorCache(50 * ROW_BYTES)
    wrong = []

    def work(seed: int) -> None:
        for n in range(300):
            text = f"{(n * seed) % 100}"
            cache.put("s", [text], [row(1 + int(text))])
            (found,) = cache.get("s", [text])
            if found is not None and found[0] != 1 + int(text):
                wrong.append(text)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in (1, 3, 7, 11)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert cache.bytes_held == len(cache) * ROW_BYTES <= cache.capacity_bytes


# The circuit breaker: closed, open and half-open, for any order of events.


def breaker_at(clock: Clock, failures: int = 3) -> Breaker:
    return Breaker(failures_to_open=failures, cool_down=30.0, clock=clock)


def test_it_opens_after_that_many_failures_in_a_row():
    breaker = breaker_at(Clock())
    for _ in range(2):
        breaker.failed("down")
    breaker.succeeded()
    for _ in range(2):
        breaker.failed("down")
    assert breaker.state == "closed"
    assert breaker.allows()
    breaker.failed("down")
    assert breaker.state == "open"
    assert not breaker.allows()


def test_after_the_cool_down_one_call_is_let_through():
    clock = Clock()
    breaker = breaker_at(clock, failures=1)
    breaker.failed("down")
    clock.pass_(29.9)
    assert not breaker.allows()
    clock.pass_(0.2)
    assert breaker.state == "half-open"
    assert breaker.allows()
    assert not breaker.allows(), "a second call beside the trial"


def test_the_trial_closes_it_or_opens_it_again():
    clock = Clock()
    breaker = breaker_at(clock, failures=1)
    breaker.failed("down")
    clock.pass_(31)
    assert breaker.allows()
    breaker.failed("still down")
    assert breaker.state == "open"
    assert "2 failures in a row, the last still down; tried again in 30 s" in str(breaker)
    clock.pass_(31)
    assert breaker.allows()
    breaker.succeeded()
    assert breaker.state == "closed"


def test_a_trial_that_never_reports_blocks_for_one_cool_down_only():
    clock = Clock()
    breaker = breaker_at(clock, failures=1)
    breaker.failed("down")
    clock.pass_(31)
    assert breaker.allows()
    clock.pass_(31)
    assert breaker.allows()


@given(st.lists(st.sampled_from(["ok", "fail", "ask", "wait"]), max_size=60), st.integers(1, 4))
def test_it_refuses_only_within_a_cool_down_of_enough_failures(events: list[str], limit: int):
    clock = Clock()
    breaker = breaker_at(clock, failures=limit)
    in_a_row, blocked_until = 0, clock()
    for event in events:
        if event == "ok":
            breaker.succeeded()
            in_a_row, blocked_until = 0, clock()
        elif event == "fail":
            breaker.failed("down")
            in_a_row += 1
            blocked_until = clock() + 30 if in_a_row >= limit else blocked_until
        elif event == "wait":
            clock.pass_(17)
        else:
            assert breaker.allows() == (in_a_row < limit or clock() >= blocked_until)
            if in_a_row >= limit and clock() >= blocked_until:
                blocked_until = clock() + 30
