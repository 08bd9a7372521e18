"""A history that goes on is converted from where it is new, as if it were converted whole."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, strategies as st

from rehydrate.errors import InvalidMessageError
from rehydrate.formats.rendering import render_history
from rehydrate.prompt import PROVIDERS, ConvertedHistory, History
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
