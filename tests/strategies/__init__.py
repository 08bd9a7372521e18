"""Hypothesis strategies: valid conversations of every format, subsets of units, small damages.

conversations()             (format name, entries) of any format
BY_FORMAT                   the strategy of each: anthropic_conversations(), codex_rollouts() ...
damaged(entries)            the same with one to three entries dropped, doubled, swapped ...
kept_units(conversation)    positions of units that a compaction may keep
"""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st

from tests.strategies.ai_sdk import ai_sdk_conversations, ai_sdk_ui_conversations
from tests.strategies.anthropic import anthropic_conversations, claude_code_transcripts
from tests.strategies.clouds import bedrock_conversations, gemini_conversations
from tests.strategies.damage import damaged, kept_units, opens_with_user, survivors
from tests.strategies.openai import (
    codex_rollouts,
    langchain_messages,
    openai_chat_conversations,
    openai_responses_items,
)
from tests.strategies.parts import Draw, Entry, texts

__all__ = [
    "BY_FORMAT",
    "Draw",
    "Entry",
    "ai_sdk_conversations",
    "ai_sdk_ui_conversations",
    "anthropic_conversations",
    "bedrock_conversations",
    "claude_code_transcripts",
    "codex_rollouts",
    "conversations",
    "damaged",
    "gemini_conversations",
    "kept_units",
    "langchain_messages",
    "openai_chat_conversations",
    "openai_responses_items",
    "opens_with_user",
    "plain_conversations",
    "survivors",
    "texts",
]


def plain_conversations(max_turns: int = 12) -> st.SearchStrategy[list[Entry]]:
    """Generate role/content messages, sometimes with a system one first."""
    roles = st.sampled_from(["user", "user", "assistant", "tool", "tool_result"])
    message = st.builds(lambda role, text: {"role": role, "content": text}, roles, texts)
    system = st.builds(lambda text: [{"role": "system", "content": text}], texts)
    rest = st.lists(message, max_size=max_turns)
    return st.builds(lambda head, tail: head + tail, st.one_of(st.just([]), system), rest)


BY_FORMAT: dict[str, Callable[[], st.SearchStrategy[list[Entry]]]] = {
    "anthropic": anthropic_conversations,
    "bedrock": bedrock_conversations,
    "gemini": gemini_conversations,
    "ai_sdk": ai_sdk_conversations,
    "ai_sdk_ui": ai_sdk_ui_conversations,
    "openai_chat": openai_chat_conversations,
    "openai_responses": openai_responses_items,
    "langchain": langchain_messages,
    "claude_code": claude_code_transcripts,
    "codex": codex_rollouts,
    "plain": plain_conversations,
}


def conversations() -> st.SearchStrategy[tuple[str, list[Entry]]]:
    """Generate a format's name and a valid conversation of it."""
    return st.sampled_from(sorted(BY_FORMAT)).flatmap(
        lambda name: st.tuples(st.just(name), BY_FORMAT[name]())
    )
