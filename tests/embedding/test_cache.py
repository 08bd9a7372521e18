"""The cache of vectors: rows are found under their space. The circuit breaker."""

from __future__ import annotations

import itertools
import threading

import numpy as np
from hypothesis import given, strategies as st

from rehydrate import _native
from rehydrate.embedding.resilient import Breaker
from rehydrate.process import clear_cache
from tests.embedding.doubles import Clock

SPACES = (f"space {number} of test_cache" for number in itertools.count())


def row(value: float) -> np.ndarray:
    return np.full((1, 4), value, np.float32)


def held(space: str, *texts: str) -> list[list[float] | None]:
    found = _native.cached_vectors(space, texts)
    return [None if one is None else np.frombuffer(one, np.float32).tolist() for one in found]


def test_a_row_is_found_under_its_own_space_only():
    one, two = next(SPACES), next(SPACES)
    _native.cache_vectors(one, ["text"], row(1))
    assert held(one, "text", "other") == [[1] * 4, None]
    assert held(two, "text") == [None]


def test_the_last_row_of_a_text_is_the_one_that_is_found():
    space = next(SPACES)
    for value in (1, 2, 2, 3):
        _native.cache_vectors(space, ["text"], row(value))
    assert held(space, "text") == [[3] * 4]


def test_a_row_of_zeros_is_no_vector_and_is_asked_for_again():
    space = next(SPACES)
    _native.cache_vectors(space, ["late"], row(0))
    assert held(space, "late") == [None]


def test_what_happens_to_an_array_afterwards_does_not_reach_the_cache():
    space, batch = next(SPACES), np.ones((2, 4), np.float32)
    _native.cache_vectors(space, ["a", "b"], batch)
    batch[:] = 7
    assert held(space, "a") == [[1] * 4]


def test_any_text_has_a_key():
    space, texts = next(SPACES), ["", "\ud800", "?", "\x00", "א", "🙂"]
    _native.cache_vectors(space, texts, np.concatenate([row(n + 1) for n in range(6)]))
    assert [found and found[0] for found in held(space, *texts)] == [1, 2, 3, 4, 5, 6]


def test_it_forgets_everything_on_request():
    space = next(SPACES)
    _native.cache_vectors(space, ["a"], row(1))
    clear_cache()
    assert (_native.cached_bytes(), held(space, "a")) == (0, [None])


def test_threads_may_share_it():
    space, wrong = next(SPACES), []

    def work(seed: int) -> None:
        for n in range(300):
            number = (n * seed) % 100
            _native.cache_vectors(space, [f"{number}"], row(1 + number))
            if held(space, f"{number}") not in ([[1 + number] * 4], [None]):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in (1, 3, 7, 11)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


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
    assert not breaker.allows(), "a second call next to the trial"


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
