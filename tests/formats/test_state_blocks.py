"""Summaries that a provider wrote by itself: it ignores all before them, so they always stay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from rehydrate import Budget, Context, compact_context
from rehydrate.formats import FORMATS, parse
from rehydrate.messages import FORMAT_NAMES

Block = dict[str, Any]
WRITTEN = "The boat is the Halvard; its mast is 24.5 m high. " * 200
BLOCKS: dict[str, Block] = {
    "as text": {"type": "compaction", "content": WRITTEN},
    "signed": {"type": "compaction", "content": WRITTEN, "signature": "c2ln"},
    "encrypted": {"type": "compaction", "encrypted_content": "gAAA" * 2_000},
    "OpenAI's": {"type": "compaction_summary", "id": "cmp_1", "encrypted_content": "gAAA" * 2_000},
}
TURNS = [
    ("user" if number % 2 == 0 else "assistant", f"Words {number} about buoy {number}. " * 12)
    for number in range(40)
]
AT = 3


def _chat(block: Block) -> list[Any]:
    messages: list[Any] = [{"role": role, "content": text} for role, text in TURNS]
    messages[AT]["content"] = [block, {"type": "text", "text": "We go on."}]
    return [*messages, {"role": "user", "content": "Which buoy is red?"}]


def _litellm(block: Block) -> list[Any]:
    messages = _chat(block)
    fields = {"compaction_blocks": [block]}
    messages[AT] |= {"content": "We go on.", "provider_specific_fields": fields}
    return messages


def _langchain(block: Block) -> list[Any]:
    return [
        (HumanMessage if each["role"] == "user" else AIMessage)(each["content"])
        for each in _chat(block)
    ]


def _claude_code(block: Block) -> list[Any]:
    return [{"type": each["role"], "message": each} for each in _chat(block)]


def _responses(block: Block) -> list[Any]:
    messages = _chat(block)
    messages[AT : AT + 1] = [block, {"role": "assistant", "content": "We go on."}]
    return messages


def _codex(block: Block) -> list[Any]:
    return [{"type": "response_item", "payload": item} for item in _responses(block)]


def _gemini(block: Block) -> list[Any]:
    return [
        {
            "role": "model" if each["role"] == "assistant" else "user",
            "parts": _parts(each["content"]),
        }
        for each in _chat(block)
    ]


def _ai_sdk_ui(block: Block) -> list[Any]:
    return [
        {
            "id": str(number),
            "role": each["role"],
            "parts": [{"type": "text", **part} for part in _parts(each["content"])],
        }
        for number, each in enumerate(_chat(block))
    ]


def _parts(content: Any) -> list[Any]:
    return [{"text": content}] if isinstance(content, str) else content


PLACES: dict[str, tuple[str, Callable[[Block], list[Any]]]] = {
    "ai_sdk": ("ai_sdk", _chat),
    "ai_sdk_ui": ("ai_sdk_ui", _ai_sdk_ui),
    "anthropic": ("anthropic", _chat),
    "bedrock": ("bedrock", _chat),
    "claude_code": ("claude_code", _claude_code),
    "codex": ("codex", _codex),
    "gemini": ("gemini", _gemini),
    "langchain": ("langchain", _langchain),
    "a block in chat": ("openai_chat", _chat),
    "LiteLLM's field": ("openai_chat", _litellm),
    "plain": ("plain", _chat),
    "openai_responses": ("openai_responses", _responses),
}


def test_every_format_has_its_place_for_a_state_block() -> None:
    assert {name for name, _ in PLACES.values()} == set(FORMAT_NAMES) == set(FORMATS)


@pytest.mark.parametrize("kind", BLOCKS)
@pytest.mark.parametrize("place", PLACES)
def test_a_summary_of_the_providers_own_is_kept_at_every_size(place: str, kind: str) -> None:
    name, make = PLACES[place]
    messages = make(BLOCKS[kind])
    (state,) = parse(messages, name).bound
    for ratio in (0.05, 0.2, 0.5, 0.7):
        for model in ("", "claude-opus-4-6", "claude-opus-5-5"):
            small = compact_context(messages, target_ratio=ratio, format=name, model=model)
            assert any(each is messages[state] for each in small.messages), (ratio, model)
            assert len(small.messages) < len(messages)


@pytest.mark.parametrize("place", PLACES)
def test_only_the_last_summary_counts_since_the_provider_ignores_what_is_before_it(
    place: str,
) -> None:
    name, make = PLACES[place]
    earlier, later = make(BLOCKS["signed"]), make(BLOCKS["encrypted"])
    bound = parse([*earlier, *later], name).bound
    assert [index - len(earlier) for index in bound] == [*parse(later, name).bound]


@pytest.mark.parametrize("kind", BLOCKS)
def test_a_context_sends_the_summary_after_each_compaction(kind: str) -> None:
    context = Context(
        provider="anthropic", model="claude-opus-4-6", budget=Budget(soft_tokens=3_600)
    )
    for number, message in enumerate(_chat(BLOCKS[kind])):
        context.add(message)
        if message["role"] == "user" and number > AT:
            sent = [each["content"] for each in context.prompt().request["messages"]]
            assert any(type(content) is list and BLOCKS[kind] in content for content in sent)
    assert context.usage.compactions
    assert len(context.prompt().request["messages"]) < len(TURNS)


def test_thinking_after_a_summary_is_bound_to_it_in_a_transcript_too() -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
    lines = _claude_code(BLOCKS["signed"])
    lines[AT + 2]["message"]["content"] = [thought, {"type": "text", "text": "We sail on."}]
    small = compact_context(
        lines,
        budget_tokens=5_000,
        granularity="message",
        model="claude-opus-5-5",
        pin=[AT + 1, AT + 2],
    )
    assert lines[0] not in small.messages
    assert any(each is lines[AT + 2] for each in small.messages)
    assert small.stats.stripped == 0
