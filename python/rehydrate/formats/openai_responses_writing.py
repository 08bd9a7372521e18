"""OpenAI's Responses: input items; a call and its output are items of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rehydrate.formats.neutral import (
    Call,
    Media,
    NeutralMessage,
    Part,
    RenderedMessage,
    Result,
    Text,
    arguments,
    one_or_all,
)

_CHAT_KEYS = frozenset(
    {
        *("name", "tool_calls", "function_call", "refusal", "audio", "annotations"),
        *("reasoning", "reasoning_content", "reasoning_details"),
    }
)


def system(text: str) -> dict[str, Any]:
    """Return a system message."""
    return {"role": "system", "content": text}


def user(text: str) -> dict[str, Any]:
    """Return a message for a text of Rehydrate's own."""
    return {"role": "user", "content": text}


def own(entry: Any) -> Any:
    """Return a message without chat's keys beside its content; an item unchanged.

    >>> own({"role": "assistant", "content": "hi", "tool_calls": None})
    {'role': 'assistant', 'content': 'hi'}
    """
    if "role" not in entry or _CHAT_KEYS.isdisjoint(entry):
        return entry
    return {key: value for key, value in entry.items() if key not in _CHAT_KEYS}


def request(tools: list[Any], system: list[Any], messages: list[Any]) -> dict[str, Any]:
    """Return the arguments of ``client.responses.create``."""
    return {**({"tools": tools} if tools else {}), "input": [*system, *messages]}


def write(messages: Sequence[NeutralMessage]) -> list[RenderedMessage]:
    """Return the messages as items."""
    return [
        RenderedMessage(item, each.sources)
        for each in messages
        for item in ([each.entry] if each.entry is not None else _items(each))
    ]


def mark(message: Any) -> None:
    """Return None: OpenAI caches prefixes without marks."""
    del message


def _items(message: NeutralMessage) -> Iterator[dict[str, Any]]:
    if message.role == "system":
        if message.text:
            yield system(message.text)
    elif message.role == "assistant":
        if message.text:
            yield {"role": "assistant", "content": message.text}
        for part in message.parts:
            if isinstance(part, Call):
                yield {
                    "type": "function_call",
                    "call_id": part.id,
                    "name": part.name,
                    "arguments": arguments(part.input),
                }
    else:
        for part in message.parts:
            if isinstance(part, Result):
                output = _content(part.parts) if part.parts else ""
                yield {"type": "function_call_output", "call_id": part.id, "output": output}
        rest = [part for part in message.parts if isinstance(part, (Text, Media))]
        if rest:
            yield {"role": "user", "content": _content(rest)}


def _content(parts: Sequence[Part]) -> Any:
    shown: list[dict[str, Any]] = []
    for part in parts:
        if isinstance(part, Text):
            shown.append({"type": "input_text", "text": part.text})
        elif isinstance(part, Media):
            shown.append(_media(part))
    return one_or_all(shown, "input_text")


def _media(media: Media) -> dict[str, Any]:
    if media.kind == "image":
        return {"type": "input_image", "image_url": media.url, "detail": "auto"}
    if media.url.startswith("data:"):
        name = media.name or "file.pdf"
        return {"type": "input_file", "filename": name, "file_data": media.url}
    return {"type": "input_file", "file_url": media.url}
