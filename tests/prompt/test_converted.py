"""A history that goes on is converted from where it is new, as if it were converted whole."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, strategies as st

from rehydrate.errors import InvalidMessageError
from rehydrate.formats.rendering import Rendered, render_history
from rehydrate.prompt import PROVIDERS, History
from rehydrate.prompt.laying_out import RenderedRows, rendered_rows
from tests.strategies import conversations, damaged


class Converted:
    """Renders histories that go on from one another, each with what the last one became."""

    def __init__(self) -> None:
        self._history = History()
        self._last: RenderedRows | None = None

    def of(self, history: History, provider: Any) -> Rendered:
        known = history.rows_of(self._history.stamp)
        self._last = rendered_rows(history, provider, known, self._last)
        self._history = history
        return self._last.rendered


def grown(history: History, entries: Any) -> History:
    first = history.indices[-1] + 1 if history.entries else 0
    indices = tuple(range(first, first + len(entries)))
    return history.followed_by(
        History(tuple(entries), history.format, (1,) * len(entries), indices)
    )


@given(st.data())
@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_history_that_grows_is_converted_as_a_whole_one(
    provider: Any, data: st.DataObject
) -> None:
    format_, entries = data.draw(conversations())
    if data.draw(st.booleans()):
        entries = data.draw(damaged(entries))
    converted = Converted()
    ends = data.draw(st.sets(st.integers(1, max(len(entries), 1))))
    history = History((), format_)
    for end in sorted({*ends, len(entries)}):
        history = grown(history, entries[len(history.entries) : end])
        with suppress(InvalidMessageError):
            whole = render_history(history.entries, format_, provider)
            assert converted.of(history, provider) == whole
            assert converted.of(history, provider).notes == whole.notes


@given(st.data())
@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_history_that_loses_entries_is_converted_as_a_whole_one(
    provider: Any, data: st.DataObject
) -> None:
    """A compaction takes units out, and the next messages come behind what stays."""
    format_, entries = data.draw(conversations())
    converted, left = Converted(), list(entries)
    history = History((), format_)
    while left:
        count = data.draw(st.integers(1, 3))
        shown = [row for row in range(len(history.entries)) if data.draw(st.integers(0, 3))]
        history = grown(history.select(shown), left[:count])
        del left[:count]
        with suppress(InvalidMessageError):
            whole = render_history(history.entries, format_, provider)
            assert converted.of(history, provider) == whole


def test_entries_that_stood_in_one_message_may_part() -> None:
    user = {"role": "user", "content": "a"}
    one = {"role": "assistant", "content": "b"}
    made = {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
    call = {"role": "assistant", "content": None, "tool_calls": [made]}
    result = {"role": "tool", "tool_call_id": "c1", "content": "a.py"}
    more = {"role": "user", "content": "d"}
    converted = Converted()
    history = grown(History((), "openai_chat"), (user, one, call, result))
    for each in (history, grown(history.select((0, 1)), (more,))):
        whole = render_history(each.entries, "openai_chat", "anthropic")
        assert converted.of(each, "anthropic") == whole


def test_what_was_there_stays_the_very_object() -> None:
    history = grown(History((), "openai_chat"), [{"role": "system", "content": "Be brief."}])
    converted = Converted()
    messages: list[Any] = []
    for turn in range(40):
        call = {"id": f"c{turn}", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
        entries: list[Any] = [
            {"role": "user", "content": f"Question {turn}."},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{turn}", "content": "a.py"},
        ]
        history = grown(history, entries)
        later = converted.of(history, "anthropic").messages
        known = len(messages) - 2  # the last turn is read again
        assert all(
            one.message is two.message for one, two in zip(messages[:known], later, strict=False)
        )
        messages = later
