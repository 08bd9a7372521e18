"""A history that goes on is converted from where it is new, as if it were converted whole."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, strategies as st

from rehydrate.errors import InvalidMessageError
from rehydrate.formats.rendering import render_history
from rehydrate.prompt import PROVIDERS, History
from rehydrate.prompt.render_cache import ConvertedHistory
from tests.strategies import conversations, damaged


@given(st.data())
@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_history_that_grows_is_converted_as_a_whole_one(
    provider: Any, data: st.DataObject
) -> None:
    format_, entries = data.draw(conversations())
    if data.draw(st.booleans()):
        entries = data.draw(damaged(entries))
    converted = ConvertedHistory()
    ends = data.draw(st.sets(st.integers(1, max(len(entries), 1))))
    for end in sorted({*ends, len(entries)}):
        history = History(tuple(entries[:end]), format_)
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
    converted, left = ConvertedHistory(), list(entries)
    shown: list[Any] = []
    while left:
        count = data.draw(st.integers(1, 3))
        shown = [entry for entry in shown if data.draw(st.integers(0, 3))] + left[:count]
        del left[:count]
        history = History(tuple(shown), format_)
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
    converted = ConvertedHistory()
    for entries in ((user, one, call, result), (user, one, more)):
        whole = render_history(entries, "openai_chat", "anthropic")
        assert converted.of(History(entries, "openai_chat"), "anthropic") == whole


def test_what_was_there_stays_the_very_object() -> None:
    entries: list[Any] = [{"role": "system", "content": "Be brief."}]
    converted = ConvertedHistory()
    messages: list[Any] = []
    for turn in range(40):
        call = {"id": f"c{turn}", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
        entries += [
            {"role": "user", "content": f"Question {turn}."},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{turn}", "content": "a.py"},
        ]
        later = converted.of(History(tuple(entries), "openai_chat"), "anthropic").messages
        known = len(messages) - 2  # the last turn is read again
        assert all(
            one.message is two.message for one, two in zip(messages[:known], later, strict=False)
        )
        messages = later
