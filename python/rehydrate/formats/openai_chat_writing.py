"""OpenAI's chat completions: system messages, tools, messages, a tool message for each result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rehydrate.formats.neutral import (
    Call,
    Media,
    NeutralMessage,
    RenderedMessage,
    Result,
    Text,
    arguments,
    one_or_all,
)


def system(text: str) -> dict[str, Any]:
    """Return a system message."""
    return {"role": "system", "content": text}


def user(text: str) -> dict[str, Any]:
    """Return a message for a text of Rehydrate's own."""
    return {"role": "user", "content": text}


def own(entry: Any) -> Any:
    """Return a message unchanged: providers that use the chat format have keys of their own."""
    return entry


def request(tools: list[Any], system: list[Any], messages: list[Any]) -> dict[str, Any]:
    """Return the arguments of ``client.chat.completions.create``."""
    return {**({"tools": tools} if tools else {}), "messages": [*system, *messages]}


def write(messages: Sequence[NeutralMessage]) -> list[RenderedMessage]:
    """Return messages. OpenAI takes media only from the user, so media in a result follow in a user
    message behind all results of their turn. If a result is missing, they go before the calls."""
    sent: list[RenderedMessage] = []
    waiting: set[str | None] = set()
    for each in messages:
        made = [each.entry] if each.entry is not None else list(_messages(each))
        waiting -= {part.id for part in each.parts if isinstance(part, Result)}
        if waiting and len(made) > 1 and made[-1]["role"] == "user":
            sent.insert(len(sent) - 1, RenderedMessage(made.pop(), each.sources))
        sent += [RenderedMessage(message, each.sources) for message in made]
        waiting = {part.id for part in each.parts if isinstance(part, Call)}
    return sent


def mark(message: Any) -> None:
    """Return None: OpenAI caches prefixes without marks."""
    del message


def _messages(message: NeutralMessage) -> Iterator[dict[str, Any]]:
    if message.role == "system":
        if message.text:
            yield system(message.text)
    elif message.role == "assistant":
        texts = [
            {"type": "text", "text": part.text} for part in message.parts if type(part) is Text
        ]
        calls = [_call(part) for part in message.parts if isinstance(part, Call)]
        if texts or calls:
            content = one_or_all(texts, "text") if texts else None
            tool_calls = {"tool_calls": calls} if calls else {}
            yield {"role": "assistant", "content": content, **tool_calls}
    else:
        shown: list[dict[str, Any]] = []
        for part in message.parts:
            if isinstance(part, Result):
                answer = "\n\n".join(each.text for each in part.parts if isinstance(each, Text))
                shown += [_media(each) for each in part.parts if isinstance(each, Media)]
                yield {"role": "tool", "tool_call_id": part.id, "content": answer}
        for part in message.parts:
            if isinstance(part, Text):
                shown.append({"type": "text", "text": part.text})
            elif isinstance(part, Media):
                shown.append(_media(part))
        if shown:
            yield {"role": "user", "content": one_or_all(shown, "text")}


def _call(call: Call) -> dict[str, Any]:
    function = {"name": call.name, "arguments": arguments(call.input)}
    return {"id": call.id, "type": "function", "function": function}


def _media(media: Media) -> dict[str, Any]:
    if media.kind == "image":
        return {"type": "image_url", "image_url": {"url": media.url}}
    if not media.url.startswith("data:"):
        return {"type": "text", "text": f"[file: {media.url}]"}  # it takes files by content only
    return {
        "type": "file",
        "file": {"filename": media.name or "file.pdf", "file_data": media.url},
    }
