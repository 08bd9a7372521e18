"""OpenAI's chat dicts of a host's own messages: what they are made of, and what is read of them.

A host's messages are judged by them and not sent as them, so a picture is only named.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import is_
from typing import Any, NamedTuple

from rehydrate.formats._reading import compact_json


class Entry(NamedTuple):
    """One chat dict, and where it is from."""

    chat: dict[str, Any]
    message: int
    """The index of the host's message."""
    part: Any = None
    """The index of its part in the message, or a slice of parts; None: it is the whole message."""


def text_of(value: Any) -> str:
    """Return a field as a text; the frameworks check the types of few fields.

    >>> text_of("Hello."), text_of(None), text_of(7)
    ('Hello.', '', '7')
    """
    return value if isinstance(value, str) else "" if value is None else compact_json(value)


def text_part(text: Any) -> dict[str, Any]:
    """Return a part of a content."""
    return {"type": "text", "text": text_of(text)}


def media_part(name: str, media_type: str | None) -> dict[str, Any]:
    """Return a part that stands for a picture or a file of this name."""
    if (media_type or "").startswith("image/"):
        return {"type": "image_url", "image_url": {"url": f"image:{name}"}}
    return {"type": "file", "file": {"file_id": name}}


def other_part(value: Any) -> dict[str, Any]:
    """Return a part for what is neither text nor file: a server's call or result, a program.

    What a model reads in it counts, and each picture or file in it.
    """
    return {"type": "server_tool_result", "content": value}


STATE_PART = "compaction_summary"
"""The type of a part that the provider itself wrote in place of all before it."""


def content_of(parts: Sequence[dict[str, Any]]) -> Any:
    """Return a content of these parts: a text that is alone as a string.

    >>> content_of([text_part("Hello.")])
    'Hello.'
    """
    is_text = len(parts) == 1 and parts[0]["type"] == "text"
    return parts[0]["text"] if is_text else list(parts)


def call_of(call_id: Any, name: Any, arguments: Any) -> dict[str, Any]:
    """Return a call of a tool; ``arguments`` are JSON, or what is written as JSON."""
    function = {"name": text_of(name), "arguments": text_of({} if arguments is None else arguments)}
    return {"id": text_of(call_id), "type": "function", "function": function}


def result_of(call_id: Any, content: Any) -> dict[str, Any]:
    """Return the result of a call."""
    return {"role": "tool", "tool_call_id": text_of(call_id), "content": content}


def thinking_block(text: Any, signature: Any = "") -> dict[str, Any]:
    """Return what the model thought."""
    return {"type": "thinking", "thinking": text_of(text), "signature": text_of(signature)}


def assistant_chat(
    content: Any, calls: Sequence[dict[str, Any]], thoughts: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """Return the chat dict of a reply.

    >>> assistant_chat("", [], [])
    {'role': 'assistant', 'content': ''}
    """
    chat: dict[str, Any] = {"role": "assistant", "content": content}
    if calls and not content:
        chat["content"] = None
    if thoughts:
        chat["reasoning_content"] = "\n\n".join(each["thinking"] for each in thoughts)
        chat["thinking_blocks"] = list(thoughts)
    if calls:
        chat["tool_calls"] = list(calls)
    return chat


def reply_content(parts: Sequence[dict[str, Any]]) -> Any:
    """Return the content of a reply with these parts; "" where it has none."""
    return content_of(parts) if parts else ""


def texts_of(content: Any) -> Iterator[str]:
    """Yield the texts of a content, in order."""
    if isinstance(content, str):
        yield content
    else:
        for part in content or ():
            if part["type"] == "text":
                yield part["text"]


def plain_text(content: Any) -> str:
    """Return a content of texts as one.

    >>> plain_text([text_part("Hello."), text_part("And?")])
    'Hello.\\n\\nAnd?'
    """
    return "\n\n".join(texts_of(content))


def loses_thinking(chat: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Return whether a reply is shown without what the model thought."""
    return "thinking_blocks" in chat and "thinking_blocks" not in now


def is_same_list(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """Return whether two lists have the very same objects."""
    return len(one) == len(other) and all(map(is_, one, other))
