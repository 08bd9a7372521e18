"""What sections, tools and history entries cost in tokens; the engine keeps counts by content."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rehydrate import _engine, formats
from rehydrate.formats._reading import compact_json
from rehydrate.ir.section import Section, changed
from rehydrate.ir.tool import ToolDef
from rehydrate.messages import Conversation, Message, Piece, PieceKind

COUNTER = "o200k_base"
"""By what everything in an IR is counted."""


def text_tokens(texts: Sequence[str]) -> list[int]:
    """Tokens of each text, all in one call."""
    if not texts:
        return []
    messages = [
        Message(place, "user", (Piece(text, PieceKind.TEXT),)) for place, text in enumerate(texts)
    ]
    return _engine.message_tokens(messages, COUNTER)


def entry_tokens(conversation: Conversation, entries: int) -> list[int]:
    """Tokens of each entry of the list that the conversation was read from; of one that is no
    message 0."""
    tokens = [0] * entries
    if conversation.messages:
        counts = _engine.message_tokens(conversation.messages, COUNTER)
        for message, count in zip(conversation.messages, counts, strict=True):
            tokens[message.index] += count
    return tokens


def counted_sections(sections: Sequence[Section], *, again: bool = False) -> list[Section]:
    """The sections with their tokens, of what they say and of their title; with `again` also those
    that come with a count."""
    missing = [place for place, one in enumerate(sections) if again or one.tokens is None]
    texts = {place: text for place in missing if (text := _text(sections[place])) is not None}
    counts = dict(zip(texts, text_tokens([*texts.values()]), strict=True))
    counted = list(sections)
    for place in missing:
        section = sections[place]
        tokens = counts[place] if place in counts else _message_tokens(section.content)
        if tokens != section.tokens:
            counted[place] = changed(section, tokens=tokens)
    return counted


def _text(section: Section) -> str | None:
    if not isinstance(section.content, str):
        return None
    return f"{section.title}\n{section.content}" if section.title else section.content


def _message_tokens(messages: Sequence[Any]) -> int:
    return sum(entry_tokens(formats.parse(messages), len(messages)))


def counted_tools(tools: Sequence[ToolDef]) -> list[ToolDef]:
    """The tools with the tokens of their definitions, as compact JSON."""
    counts = text_tokens([compact_json(_definition(tool)) for tool in tools])
    return [replace(tool, tokens=count) for tool, count in zip(tools, counts, strict=True)]


def _definition(tool: ToolDef) -> Mapping[str, Any]:
    if tool.raw is not None:
        return tool.raw
    return {"name": tool.name, "description": tool.description, "input_schema": tool.schema}
