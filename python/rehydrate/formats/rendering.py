"""Rendering: a history of any format in a provider's shape, and the requests of each provider."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from types import MappingProxyType
from typing import Any, NamedTuple

from rehydrate._native import own_entry, render_entries
from rehydrate.entry_id import EntryId
from rehydrate.formats import cache_marks
from rehydrate.messages import Provider

__all__ = ["RENDERERS", "Rendered", "RenderedMessage", "Renderer", "render_history"]

OF_HISTORY = "history: "
"""The beginning of each note on how a history was rendered."""

Lost = Mapping[str, frozenset[int]]
"""What was left out or changed, and the indices of its entries."""


class RenderedMessage(NamedTuple):
    """A message as it is sent, and the entries it is made of."""

    message: Any
    sources: tuple[int, ...]
    """Indices of its entries in the history."""


class Rendered(NamedTuple):
    """A history in a provider's shape."""

    system: list[RenderedMessage]
    """The system entries at the beginning, where the provider takes them in another field."""
    messages: list[RenderedMessage]
    lost: Lost = MappingProxyType({})
    """Content that was left out or changed."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on content that was left out or changed."""
        return notes_on(self.lost)


def render_history(
    entries: Sequence[Any],
    format: str,  # noqa: A002  the field's word
    provider: Provider,
    first: int = 0,
) -> Rendered:
    """Render a history in this format for a provider.

    ``first`` is the index of the first entry, where others are before it.
    Entries in the provider's own format stay the same objects, unless they have keys that it
    refuses. Raises InvalidMessageError for an entry that only its own provider can take.
    """
    return Rendered(*render_entries(entries, format, provider, first))


def notes_on(lost: Lost) -> tuple[str, ...]:
    """Return a sentence on each thing that was left out or changed.

    >>> notes_on({"thinking is not sent:": frozenset({4, 9})})
    ('history: thinking is not sent: of 2 entries, first history[4]',)
    """
    return tuple(
        [
            f"{OF_HISTORY}{what} of {len(places)} entr{'y' if len(places) == 1 else 'ies'}, first "
            f"{EntryId.of(min(places))}"
            for what, places in sorted(lost.items())
        ]
    )


_Request = Callable[[list[Any], list[Any], list[Any]], dict[str, Any]]


class Renderer(NamedTuple):
    """What a provider takes."""

    provider: Provider
    block_type: str | None
    """The type of a text block; "" where the block has none, None where a text is no block."""
    mark: Callable[[Any], Any | None]
    """Return a copy with a cache mark; None where no block can hold one."""
    request: _Request
    """Return the arguments of the SDK, of tools, system blocks and messages."""

    def system(self, text: str) -> dict[str, Any]:
        """Return a system block or message."""
        if self.block_type is None:
            return {"role": "system", "content": text}
        return {"type": self.block_type, "text": text} if self.block_type else {"text": text}

    def user(self, text: str) -> dict[str, Any]:
        """Return a message for a text of Rehydrate's own."""
        if self.provider == "gemini":
            return {"role": "user", "parts": [self.system(text)]}
        content = text if self.block_type is None else [self.system(text)]
        return {"role": "user", "content": content}

    def own(self, entry: Any) -> Any:
        """Return an entry of the provider's format without keys that it refuses.

        >>> RENDERERS["anthropic"].own({"role": "user", "content": "hi", "tool_calls": None})
        {'role': 'user', 'content': 'hi'}
        """
        return own_entry(self.provider, entry)


def _anthropic_request(tools: list[Any], system: list[Any], messages: list[Any]) -> dict[str, Any]:
    """Return the arguments of ``client.messages.create``."""
    return {
        **({"tools": tools} if tools else {}),
        **({"system": system} if system else {}),
        "messages": messages,
    }


def _chat_request(tools: list[Any], system: list[Any], messages: list[Any]) -> dict[str, Any]:
    """Return the arguments of ``client.chat.completions.create``."""
    return {**({"tools": tools} if tools else {}), "messages": [*system, *messages]}


def _responses_request(tools: list[Any], system: list[Any], messages: list[Any]) -> dict[str, Any]:
    """Return the arguments of ``client.responses.create``."""
    return {**({"tools": tools} if tools else {}), "input": [*system, *messages]}


def _bedrock_request(tools: list[Any], system: list[Any], messages: list[Any]) -> dict[str, Any]:
    """Return the arguments of ``client.converse``, with one message where several in a row are of
    one role: user and assistant alternate."""
    joined = [_joined(list(run)) for _, run in groupby(messages, key=lambda each: each["role"])]
    return {
        **({"toolConfig": {"tools": list(_flat(tools))}} if tools else {}),
        **({"system": list(_flat(system))} if system else {}),
        "messages": joined,
    }


def _gemini_request(tools: list[Any], system: list[Any], messages: list[Any]) -> dict[str, Any]:
    """Return the body of ``generateContent``: the ``contents`` of google-genai's
    ``client.models.generate_content``, and the fields of its ``config``."""
    declared = [tool for tool in tools if "name" in tool]
    groups = [{"functionDeclarations": declared}] if declared else []
    groups += [tool for tool in tools if "name" not in tool]
    return {
        **({"systemInstruction": {"parts": system}} if system else {}),
        **({"tools": groups} if groups else {}),
        "contents": messages,
    }


def _ai_sdk_request(tools: list[Any], system: list[Any], messages: list[Any]) -> dict[str, Any]:
    """Return the arguments of ``generateText``, of whose tools the host makes its own."""
    named = {tool["name"]: {key: tool[key] for key in tool if key != "name"} for tool in tools}
    return {
        **({"system": system} if system else {}),
        **({"tools": named} if named else {}),
        "messages": messages,
    }


def _joined(run: Sequence[Any]) -> Any:
    if len(run) == 1:
        return run[0]
    blocks = [block for each in run for block in cache_marks.bedrock_blocks(each["content"])]
    # Results are first in their message.
    return {**run[0], "content": sorted(blocks, key=lambda block: "toolResult" not in block)}


def _flat(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        yield from value if isinstance(value, list) else [value]


def _no_mark(_message: Any) -> None:
    """Return None: the provider caches prefixes without marks, or nobody knows which one it is."""


RENDERERS: Mapping[Provider, Renderer] = {
    each.provider: each
    for each in (
        Renderer("anthropic", "text", cache_marks.of_anthropic, _anthropic_request),
        Renderer("openai_chat", None, cache_marks.of_chat, _chat_request),
        Renderer("openai_responses", None, cache_marks.of_responses, _responses_request),
        Renderer("bedrock", "", cache_marks.of_bedrock, _bedrock_request),
        Renderer("gemini", "", _no_mark, _gemini_request),
        Renderer("ai_sdk", None, _no_mark, _ai_sdk_request),
    )
}
