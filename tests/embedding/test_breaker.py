"""The circuit breaker: closed, open and half-open, for any order of events."""

from __future__ import annotations

from hypothesis import given, strategies as st

from rehydrate.embedding.resilient import Breaker
from tests.embedding.doubles import Clock


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
