"""Anthropic messages: content blocks, results in the user's next message, thinking blocks.

A `system` entry is always kept. At the beginning of the list the rules skip it: the caller moves it
out when sending. In the middle, where newer models accept it, it belongs to the message before it
and to the assistant's that follows. Blocks that a client cannot pair or read (server
tools, compaction, unknown ones) are counted as text, pass through unchanged and never fail. A
server tool's result is usually in the assistant's own message. Where it follows in a later one,
both are one unit.

`write` makes the messages of a request; `mark` sets a cache mark on the last fit block.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rehydrate.formats._reading import (
    Path,
    Places,
    entries_without_thinking,
    is_call,
    read_entries,
    read_places,
    replace_texts,
    type_of,
)
from rehydrate.formats.calls import Input, Inputs, is_signed
from rehydrate.formats.neutral import (
    Call,
    Media,
    NeutralMessage,
    Part,
    RenderedMessage,
    Result,
    Text,
)
from rehydrate.messages import Conversation

NAME = "anthropic"
replace = replace_texts


def parse(entries: Sequence[Any]) -> Conversation:
    """Read Anthropic messages; raises InvalidMessageError for an entry that is no message."""
    return read_entries(NAME, entries)


def places(entry: Mapping[str, Any], index: int) -> Places:
    """Return the paths of an entry's texts: texts, text documents and results of client tools.

    Thinking, tool inputs, server tools, blocks with citations, unknown blocks and what the system
    says do not change.
    """
    return read_places(NAME, entry, index)


def inputs(entry: Mapping[str, Any]) -> Inputs:
    """Return the inputs of an entry's calls; None for server tools and for calls made by code."""
    return inputs_in(entry.get("content"), ("content",))


def inputs_in(content: object, path: Path) -> Inputs:
    """Return the inputs of the calls in the content at `path`."""
    if not isinstance(content, (list, tuple)):
        return []
    return [
        _input(block, (*path, part_index, "input"))
        for part_index, block in enumerate(content)
        if isinstance(block, Mapping) and is_call(type_of(block))
    ]


def _input(block: Mapping[str, Any], path: Path) -> Input | None:
    call, caller = block.get("id"), block.get("caller")
    by_code = isinstance(caller, Mapping) and type_of(caller) != "direct"
    if type_of(block) != "tool_use" or not isinstance(call, str) or by_code:
        return None
    return Input(call, block.get("name"), block.get("input"), (path,))


def signed(entry: Mapping[str, Any]) -> bool:
    """Return whether the message holds a thought or its signature."""
    return is_signed(entry.get("content"))


def without_thinking(entries: Sequence[Any]) -> list[Any]:
    """Return each entry without thinking blocks: itself, a copy, or None where nothing is left.

    A system message must precede the assistant's. So a message of nothing but thinking stays there,
    with a text that says so.
    """
    return entries_without_thinking(NAME, entries)


MARK = {"type": "ephemeral"}
_UNFIT = frozenset({"thinking", "redacted_thinking"})


def system(text: str) -> dict[str, Any]:
    """Return a system block."""
    return {"type": "text", "text": text}


def user(text: str) -> dict[str, Any]:
    """Return a message for a text of Rehydrate's own."""
    return {"role": "user", "content": [{"type": "text", "text": text}]}


def own(entry: Any) -> Any:
    """Return a message with role and content only; the API refuses other keys.

    >>> own({"role": "assistant", "content": "hi", "tool_calls": None})
    {'role': 'assistant', 'content': 'hi'}
    """
    return entry if len(entry) == 2 else {key: entry.get(key) for key in ("role", "content")}


def request(tools: list[Any], system: list[Any], messages: list[Any]) -> dict[str, Any]:
    """Return the arguments of ``client.messages.create``."""
    return {
        **({"tools": tools} if tools else {}),
        **({"system": system} if system else {}),
        "messages": messages,
    }


def write(messages: Sequence[NeutralMessage]) -> list[RenderedMessage]:
    """Return messages; a system entry amid them becomes a user message that says it is one, and so
    does a document of the assistant's, which the API takes from the user only (2026-10-21)."""
    sent: list[RenderedMessage] = []
    for each in messages:
        if each.role == "system":
            text = f"[system]\n{each.text}"
            sent += [RenderedMessage(user(text), each.sources)] if each.text else []
        elif each.entry is not None:
            sent.append(RenderedMessage(each.entry, each.sources))
        else:
            blocks = [block for part in each.parts for block in _blocks(part)]
            role = "assistant" if each.role == "assistant" else "user"
            documents = [block for block in blocks if block["type"] == "document"]
            if documents and role == "assistant":
                blocks = [block for block in blocks if block["type"] != "document"]
                content = [{"type": "text", "text": "[assistant]"}, *documents]
                sent.append(RenderedMessage({"role": "user", "content": content}, each.sources))
            if blocks:
                sent.append(RenderedMessage({"role": role, "content": blocks}, each.sources))
    return sent


def mark(message: Any) -> Any | None:
    """Return a shallow copy with a cache mark on the last fit block.

    None if no block can: thinking and empty texts cannot.

    >>> mark({"role": "user", "content": "hi"})["content"][0]["cache_control"]
    {'type': 'ephemeral'}
    """
    if "role" not in message:
        return message if _is_marked(message) else {**message, "cache_control": MARK}
    content = message["content"]
    if isinstance(content, str):
        block = {"type": "text", "text": content, "cache_control": MARK}
        return {**message, "content": [block]} if content.strip() else None
    for index in range(len(content) - 1, -1, -1):
        block = content[index]
        if _is_fit(block) and _is_marked(block):
            return message  # the caller's own mark, which may have another time to live
        if _is_fit(block):
            marked = [*content]
            block = {"type": "text", "text": block} if isinstance(block, str) else block
            marked[index] = {**block, "cache_control": MARK}
            return {**message, "content": marked}
    return None


def marks_in(value: Any) -> list[Mapping[str, Any]]:
    """Return the cache marks of a tool, a block or a content; Converse's points too."""
    if isinstance(value, Mapping):
        if isinstance(point := value.get("cachePoint"), Mapping):
            return [point]
        own = [value["cache_control"]] if _is_marked(value) else []
        return own + (marks_in(value.get("content")) if value.get("type") == "tool_result" else [])
    if isinstance(value, (list, tuple)):
        return [mark for inner in value for mark in marks_in(inner)]
    return []


CACHE_MARKS = ("cache_control", "prompt_cache_breakpoint", "cachePoint")
"""The fields by which a client marks where a cached prefix ends. They move on in each request, and
say nothing to the model."""
_POINT = "cachePoint"
_DEEPEST_MARK = 16
"""Levels. A mark is on a block, or on one in a tool's result. What is deeper may be nested as deep
as Python can go."""


def unmarked(value: Any, levels: int = _DEEPEST_MARK) -> Any:
    """Return a tool, a block or a message of any provider's without cache marks.

    >>> block = {"type": "text", "text": "Hello.", "cache_control": {"type": "ephemeral"}}
    >>> unmarked({"role": "user", "content": [block]})
    {'role': 'user', 'content': [{'type': 'text', 'text': 'Hello.'}]}
    """
    if levels and isinstance(value, (list, tuple)):
        # Converse's mark is a block of its own.
        blocks = (each for each in value if not isinstance(each, Mapping) or _POINT not in each)
        return [unmarked(each, levels - 1) for each in blocks]
    if not levels or not isinstance(value, Mapping):
        return value
    # A call's input is the model's own, whatever its fields are named.
    return {
        name: unmarked(each, levels - 1) if name in ("content", "output") else each
        for name, each in value.items()
        if name not in CACHE_MARKS
    }


def _is_marked(block: Any) -> bool:
    return isinstance(block, Mapping) and block.get("cache_control") is not None


def _is_fit(block: Any) -> bool:
    if isinstance(block, str):
        return bool(block.strip())
    if not isinstance(block, Mapping) or type_of(block) in _UNFIT:
        return False
    return type_of(block) != "text" or bool(str(block.get("text") or "").strip())


def _blocks(part: Part) -> list[dict[str, Any]]:
    if isinstance(part, Text):
        return [{"type": "text", "text": part.text}]
    if isinstance(part, Media):
        return [_media(part)]
    if isinstance(part, Call):
        value = part.input if isinstance(part.input, Mapping) else {"input": part.input}
        return [{"type": "tool_use", "id": part.id, "name": part.name, "input": value}]
    return [_result(part)]


def _result(result: Result) -> dict[str, Any]:
    content: Any = [block for part in result.parts for block in _blocks(part)]
    if len(content) == 1 and "text" in content[0]:
        content = content[0]["text"]
    block = {"type": "tool_result", "tool_use_id": result.id, "content": content}
    return {**block, "is_error": True} if result.is_error else block


def _media(media: Media) -> dict[str, Any]:
    kind = "image" if media.kind == "image" else "document"
    head, comma, data = media.url.partition(",")
    if media.url.startswith("data:") and comma and head.endswith(";base64"):
        media_type = head[5:-7].partition(";")[0]
        source = {"type": "base64", "media_type": media_type, "data": data}
    else:
        source = {"type": "url", "url": media.url}
    return {"type": kind, "source": source}
