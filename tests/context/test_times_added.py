"""The time of what is added: one that no calendar has is refused at the door."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from rehydrate import Budget, Context, ContextJIT
from rehydrate.errors import InvalidArgumentError

HELLO = {"role": "user", "content": "Hello."}


@pytest.mark.parametrize(
    "at",
    [
        datetime.max,
        datetime.min,
        datetime.max.replace(tzinfo=UTC),
        datetime.min.replace(tzinfo=timezone(timedelta(hours=14))),
        datetime.max.replace(tzinfo=timezone(timedelta(hours=-12))),
    ],
)
def test_a_time_outside_the_calendar_is_refused_and_nothing_is_added(at):
    context = Context()
    with pytest.raises(
        InvalidArgumentError, match=r"at is datetime.*pass within the years 1 to 9999"
    ):
        context.add(HELLO, at=at)
    assert context.history == []


@pytest.mark.parametrize("at", [datetime.min, datetime.max - timedelta(seconds=1)])
def test_the_first_and_last_second_of_the_calendar_are_times(at):
    context = Context(budget=Budget(soft_tokens=400))
    for number in range(9):
        words = {"role": "user", "content": f"Berth {number}. " * 90}
        context.add(words, at=at.replace(tzinfo=UTC))
    context.prompt("Go on.")
    context.compact(200)
    entries, times = context.left_out()
    assert entries.entries
    assert {time.year for time in times} == {at.year}


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), None, "1", True, 1e30, -1e11, 10**400]
)
def test_what_a_clock_returns_is_checked_when_it_is_read(value):
    context = Context(clock=lambda: value)
    for call in (lambda: context.add(HELLO), lambda: context.prompt("Hello.")):
        with pytest.raises(InvalidArgumentError, match=r"clock is .*seconds since 1970"):
            call()
    assert context.history == []
    jit = ContextJIT(Context(), clock=lambda: value)
    asked = {"type": "tool_use", "id": "t", "name": "request_context", "input": {"query": "berth"}}
    with pytest.raises(InvalidArgumentError, match="clock is "):
        jit.handle(asked)


def test_a_line_of_a_transcript_at_the_end_of_time_gets_the_time_of_the_others():
    context = Context(format="claude_code", clock=lambda: 1e9)
    line = {
        "type": "user",
        "uuid": "u1",
        "message": HELLO,
        "timestamp": "9999-12-31T23:59:59.9999999Z",
    }
    context.add(line)
    context.prompt()
    assert context._thread.entries.time_at(0).year == 2001


@pytest.mark.parametrize("budget", [10**400, 0, -5, True, 1.5, "9"])
def test_a_compaction_to_what_is_no_number_of_tokens_is_refused(budget):
    context = Context()
    context.add(HELLO)
    with pytest.raises(
        InvalidArgumentError, match=r"budget_tokens is .*; pass a whole number from 1"
    ):
        context.compact(budget)
