"""Lists of a shape that gateways send to anyone: for a Claude they begin with the user."""

from __future__ import annotations

import random
from typing import Any

import pytest

from rehydrate import compact_context, validate
from rehydrate.errors import InvalidArgumentError
from rehydrate.formats import openai_to_langchain
from tests.linting.conftest import prose

USER = {"role": "user", "content": "hi"}


def session(seed: int) -> list[dict[str, Any]]:
    """Turns of short questions, long results and answers."""
    dice = random.Random(seed)
    messages: list[dict[str, Any]] = [{"role": "system", "content": "Be brief."}]
    for number in range(12):
        call = {"id": f"c{number}", "type": "function"}
        call["function"] = {"name": "look", "arguments": "{}"}
        messages += [
            {"role": "user", "content": prose(dice.randint(20, 120), seed * 100 + number)},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {
                "role": "tool",
                "tool_call_id": f"c{number}",
                "content": prose(dice.randint(100, 900), number),
            },
            {"role": "assistant", "content": prose(dice.randint(20, 120), number + 50)},
        ]
    return [*messages, {"role": "user", "content": "now?"}]


def firsts(messages: list[Any], **options: Any) -> str:
    """Who speaks first in what is kept, behind the system."""
    kept = compact_context(messages, target_ratio=0.15, **options).messages
    assert validate(kept) == []
    roles = [one["role"] if isinstance(one, dict) else one.type for one in kept]
    return next(role for role in roles if role != "system")


def test_a_chat_list_for_a_claude_begins_with_the_user():
    sessions = [session(seed) for seed in range(25)]
    plain = {firsts(one) for one in sessions}
    assert plain != {"user"}  # OpenAI does not ask for it
    assert {firsts(one, provider="anthropic") for one in sessions} == {"user"}
    assert {firsts(one, model="openrouter/anthropic/claude-sonnet-4.5") for one in sessions} == {
        "user"
    }
    assert {firsts(one, model="gpt-5") for one in sessions} == plain
    assert {firsts(one, provider="anthropic", thinking="strip") for one in sessions[:5]} == {"user"}


def test_langchains_list_begins_with_the_user_unless_it_is_for_openai():
    pytest.importorskip("langchain_core")
    lists = [openai_to_langchain(session(seed)[1:]) for seed in range(25)]
    assert {firsts(one) for one in lists} == {"human"}
    assert {firsts(one, provider="anthropic") for one in lists} == {"human"}
    assert {firsts(one, provider="openai_chat") for one in lists} != {"human"}


def test_a_list_of_one_provider_is_for_no_other():
    use = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    messages = [USER, {"role": "assistant", "content": [use]}]
    assert compact_context(messages, provider="anthropic").messages
    with pytest.raises(InvalidArgumentError, match="the messages are anthropic's"):
        compact_context(messages, provider="openai_chat")
    with pytest.raises(InvalidArgumentError, match="did you mean 'openai_chat'"):
        compact_context([USER], provider="openai")
