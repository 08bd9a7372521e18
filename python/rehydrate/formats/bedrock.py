"""Amazon Bedrock's Converse messages: each block of a content has one key, which says what it is.

User and assistant alternate, so an assistant's message and the one after it are one unit: where
both go, the rest alternates still. A `system` entry at the beginning is for the `system` field.
The blocks are those of botocore's service model (1.44.8, 2026-11).

`request` joins messages of one role in a row.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import groupby
from operator import is_
from typing import Any

from rehydrate._text import as_base64
from rehydrate.formats._reading import (
    Places,
    compact_json,
    entries_without_thinking,
    is_call,
    read_entries,
    read_places,
    readable_texts,
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
    Text,
)
from rehydrate.formats.thinking import is_thinking
from rehydrate.messages import Conversation

NAME = "bedrock"
replace = replace_texts

CACHE_POINT = {"cachePoint": {"type": "default"}}
EMPTY = "(empty)"
"""A result of nothing: Converse refuses an empty text, and an error without a content."""

_MEDIA = ("image", "video", "audio")
# In the order in which the reader looks for them.
_KEYS = (
    *("text", "toolUse", "toolResult", "reasoningContent", *_MEDIA, "json", "document"),
    *("guardContent", "citationsContent", "searchResult", "toolAddition", "toolRemoval"),
)
_IMAGES = frozenset({"png", "jpeg", "gif", "webp"})
_OFFICE = "application/vnd.openxmlformats-officedocument."
_DOCUMENTS = {
    "application/pdf": "pdf",
    "text/csv": "csv",
    "application/msword": "doc",
    f"{_OFFICE}wordprocessingml.document": "docx",
    "application/vnd.ms-excel": "xls",
    f"{_OFFICE}spreadsheetml.sheet": "xlsx",
    "text/html": "html",
    "text/plain": "txt",
    "text/markdown": "md",
}
_MEDIA_TYPES = {kind: media_type for media_type, kind in _DOCUMENTS.items()}


def parse(entries: Sequence[Any]) -> Conversation:
    """Read Converse messages; raises InvalidMessageError for an entry that is no message."""
    return read_entries(NAME, entries)


def _blocks(content: object) -> list[Mapping[str, Any]]:
    """Return a content as blocks: a string is one text."""
    blocks = [content] if isinstance(content, str) and content else content
    if not isinstance(blocks, (list, tuple)):
        return []
    return [{"text": each} if isinstance(each, str) else each for each in blocks]


def _key(block: Mapping[str, Any]) -> str:
    """Return the key that says what a block is; "" for one of no kind of Converse's."""
    if type_of(block):
        return ""
    return next((key for key in _KEYS if block.get(key) is not None), "")


def as_anthropic(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message as one of Anthropic's, of which the conversion is.

    >>> as_anthropic({"role": "user", "content": [{"text": "hi"}, {"cachePoint": {}}]})["content"]
    [{'type': 'text', 'text': 'hi', 'cache_control': {}}]
    """
    role, content = entry.get("role"), entry.get("content")
    made = _as_anthropic(_blocks(content), role == "assistant")
    return {"role": role, "content": made}


def _as_anthropic(blocks: Iterable[Mapping[str, Any]], is_assistant: bool) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    for block in blocks:
        if not type_of(block) and (mark := block.get("cachePoint")) is not None:
            before = made.pop() if made else {"type": "cachePoint"}
            made.append({**before, "cache_control": mark})
            continue
        key = _key(block)
        value = block.get(key)
        if key == "text":
            made.append({"type": "text", "text": value})
        elif key == "json":
            made.append({"type": "text", "text": compact_json(value)})
        elif isinstance(value, Mapping):
            made.append(_one_as_anthropic(key, value, is_assistant))
        else:
            made.append({"type": key} if key else dict(block))
    return made


def _one_as_anthropic(key: str, value: Mapping[str, Any], is_assistant: bool) -> dict[str, Any]:
    if key == "toolUse":
        kind = "server_tool_use" if value.get("type") == "server_tool_use" else "tool_use"
        call = {"type": kind, "id": value.get("toolUseId"), "name": value.get("name", "")}
        return {**call, "input": value.get("input")}
    if key == "toolResult":
        kind = "server_tool_result" if is_assistant and "type" in value else "tool_result"
        content: Any = value.get("content")
        if content is not None:
            content = _as_anthropic(_blocks(content), is_assistant)
        is_error = {"is_error": True} if value.get("status") == "error" else {}
        return {"type": kind, "tool_use_id": value.get("toolUseId"), "content": content, **is_error}
    if key == "reasoningContent":
        return {"type": "redacted_thinking"}
    if key in _MEDIA or key == "document":
        name = {"title": value["name"]} if isinstance(value.get("name"), str) else {}
        return {"type": key, **name, "source": _source(key, value)}
    texts = readable_texts(value)
    return {"type": "text", "text": "\n".join(texts)} if texts else {"type": key}


def _source(key: str, value: Mapping[str, Any]) -> dict[str, Any]:
    source, kind = value.get("source"), value.get("format")
    if not isinstance(source, Mapping):
        return {}
    if isinstance(source.get("text"), str):
        return {"type": "text", "media_type": "text/plain", "data": source["text"]}
    if isinstance(source.get("content"), (list, tuple)):
        content = _as_anthropic(_blocks(source["content"]), is_assistant=False)
        return {"type": "content", "content": content}
    data = source.get("bytes")
    if not isinstance(data, (bytes, bytearray, str)):
        return {}  # in S3, where other providers have no access
    media_type = _MEDIA_TYPES.get(str(kind)) or f"{key}/{kind}"
    data = data if isinstance(data, str) else as_base64(data)
    return {"type": "base64", "media_type": media_type, "data": data}


def places(entry: Mapping[str, Any], index: int) -> Places:
    """Return the paths of an entry's texts: texts, text documents and results.

    Reasoning, calls, JSON, guarded and cited texts and what the system says do not change.
    """
    return read_places(NAME, entry, index)


def inputs(entry: Mapping[str, Any]) -> Inputs:
    """Return the inputs of an entry's calls; None for those of the server's tools."""
    found: Inputs = []
    for number, block in enumerate(_blocks(entry.get("content"))):
        value = block.get("toolUse")
        if _key(block) == "toolUse" and isinstance(value, Mapping):
            call, path = value.get("toolUseId"), ("content", number, "toolUse", "input")
            is_own = isinstance(call, str) and "type" not in value
            found.append(
                Input(call, value.get("name"), value.get("input"), (path,)) if is_own else None
            )
        elif is_call(type_of(block)):
            found.append(None)
    return found


def signed(entry: Mapping[str, Any]) -> bool:
    """Return whether the message holds a thought or its signature."""
    return is_signed(entry.get("content"))


def without_thinking(entries: Sequence[Any]) -> list[Any]:
    """Return each entry without reasoning: itself, or a copy. None is left out, since user and
    assistant alternate: a message of nothing else says so."""
    return entries_without_thinking(NAME, entries)


def system(text: str) -> dict[str, Any]:
    """Return a system block."""
    return {"text": text}


def user(text: str) -> dict[str, Any]:
    """Return a message for a text of Rehydrate's own."""
    return {"role": "user", "content": [{"text": text}]}


def own(entry: Any) -> Any:
    """Return a message with role and content only, as a list; the API refuses all else. Media that
    were in JSON, in base64, are bytes again: botocore would encode the base64.

    >>> own({"role": "user", "content": "hi", "id": 1})
    {'role': 'user', 'content': [{'text': 'hi'}]}
    """
    content = entry.get("content")
    blocks = _blocks(content)
    sent = [_with_bytes(block) for block in blocks]
    is_same = not isinstance(content, str) and all(map(is_, sent, content or ()))
    if len(entry) == 2 and is_same:
        return entry
    return {"role": entry.get("role"), "content": content if is_same else sent}


def _with_bytes(block: Mapping[str, Any]) -> Mapping[str, Any]:
    key = _key(block)
    value = block.get(key)
    if not isinstance(value, Mapping):
        return block
    if key == "toolResult":
        content = value.get("content")
        sent = [_with_bytes(each) for each in _blocks(content)]
        is_same = not isinstance(content, str) and all(map(is_, sent, content or ()))
        return block if is_same else {key: {**value, "content": sent}}
    source = value.get("source") if key in _MEDIA or key == "document" else None
    data = source.get("bytes") if isinstance(source, Mapping) else None
    if not isinstance(source, Mapping) or not isinstance(data, str):
        return block
    try:
        return {key: {**value, "source": {**source, "bytes": b64decode(data)}}}
    except ValueError:
        return block


def system_blocks(message: Mapping[str, Any]) -> list[Any]:
    """Return what a system message says as blocks of the `system` field."""
    return [block for block in _blocks(message.get("content")) if not is_tool_change(block)]


def with_marks(blocks: Any) -> Any:
    """Return a list of tools or blocks with each cache point as a mark on what is before it.

    >>> with_marks([{"text": "Be brief."}, {"cachePoint": {"type": "default"}}])
    [{'text': 'Be brief.', 'cache_control': {'type': 'default'}}]
    """
    if not isinstance(blocks, (list, tuple)):
        return blocks
    made: list[Any] = []
    for block in blocks:
        point = block.get("cachePoint") if isinstance(block, Mapping) else None
        if point is None:
            made.append(block)
        elif made and isinstance(made[-1], Mapping):
            made[-1] = {**made[-1], "cache_control": point}
    return made


def tools_of(body: Mapping[str, Any]) -> Any:
    """Return the tools of a request's `toolConfig`, with their marks; None without one."""
    config = body.get("toolConfig")
    return with_marks(config.get("tools")) if isinstance(config, Mapping) else None


def is_tool_change(block: Mapping[str, Any]) -> bool:
    """Return whether a block adds or removes a tool, which only a message may do."""
    return "toolAddition" in block or "toolRemoval" in block


def request(tools: list[Any], system: list[Any], messages: list[Any]) -> dict[str, Any]:
    """Return the arguments of ``client.converse``, with one message where several in a row are of
    one role: user and assistant alternate."""
    joined = [_joined(list(run)) for _, run in groupby(messages, key=lambda each: each["role"])]
    return {
        **({"toolConfig": {"tools": list(_flat(tools))}} if tools else {}),
        **({"system": list(_flat(system))} if system else {}),
        "messages": joined,
    }


def _joined(run: Sequence[Any]) -> Any:
    if len(run) == 1:
        return run[0]
    blocks = [block for each in run for block in _blocks(each["content"])]
    # Results are first in their message.
    return {**run[0], "content": sorted(blocks, key=lambda block: "toolResult" not in block)}


def _flat(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        yield from value if isinstance(value, list) else [value]


def write(messages: Sequence[NeutralMessage]) -> list[RenderedMessage]:
    """Return messages; a system entry amid them becomes a user message that says it is one, and
    so do media of the assistant's, which the API takes from the user only (2026-11)."""
    sent: list[RenderedMessage] = []
    for each in messages:
        if each.role == "system":
            sent += (
                [RenderedMessage(user(f"[system]\n{each.text}"), each.sources)] if each.text else []
            )
            continue
        parts = (Text(each.entry["content"]),) if each.entry is not None else each.parts
        role, at = "assistant" if each.role == "assistant" else "user", (*each.sources, 0)[0]
        blocks = [_written(part, f"({at}) [{number}]") for number, part in enumerate(parts)]
        media = [block for block in blocks if not block.keys().isdisjoint({"image", "document"})]
        if media and role == "assistant":
            blocks = [block for block in blocks if block not in media]
            content = [{"text": "[assistant]"}, *media]
            sent.append(RenderedMessage({"role": "user", "content": content}, each.sources))
        elif any("document" in block for block in media) and not any("text" in b for b in blocks):
            blocks.append({"text": "(A document.)"})
        if blocks:
            sent.append(RenderedMessage({"role": role, "content": blocks}, each.sources))
    return sent


def _written(part: Part, suffix: str) -> dict[str, Any]:
    """Return a part as a block; no two documents have one suffix."""
    if isinstance(part, Text):
        return {"text": part.text}
    if isinstance(part, Media):
        return _medium(part, suffix)
    if isinstance(part, Call):
        value = part.input if isinstance(part.input, Mapping) else {"input": part.input}
        return {"toolUse": {"toolUseId": _fit_id(part.id), "name": part.name, "input": value}}
    inner = enumerate(part.parts)
    content = [_written(each, f"{suffix} [{number}]") for number, each in inner]
    result = {"toolUseId": _fit_id(part.id), "content": content or [{"text": EMPTY}]}
    return {"toolResult": {**result, "status": "error"} if part.is_error else result}


def _fit_id(call: str | None) -> str:
    """Return an id of at most 64 characters, the same for the same id."""
    call = call or ""
    if len(call) <= 64:
        return call
    return f"{call[:31]}-{blake2b(call.encode(), digest_size=16).hexdigest()}"


def _medium(media: Media, suffix: str) -> dict[str, Any]:
    """Return an image or a document; a text where Converse takes no such type, or an address."""
    head, _, data = media.url.partition(",")
    media_type = head[5:].partition(";")[0]
    try:
        content = b64decode(data) if head.endswith(";base64") else b""
    except ValueError:
        content = b""
    kind = media_type.removeprefix("image/")
    if content and media.kind == "image" and kind in _IMAGES:
        return {"image": {"format": kind, "source": {"bytes": content}}}
    if content and media_type in _DOCUMENTS:
        name = " ".join(re.sub(r"[^a-zA-Z0-9()\[\]-]", " ", media.name).split())[:100]
        named = {"format": _DOCUMENTS[media_type], "name": f"{name or 'document'} {suffix}"}
        return {"document": {**named, "source": {"bytes": content}}}
    what = media_type if media.url.startswith("data:") else media.url
    return {"text": f"[{media.kind}: {what}]"}


def mark(message: Any) -> Any | None:
    """Return a message with a cache point after its last fit block, or a tool or a system block and
    the cache point that follows it, as a list; None where there can be none.

    "Cache point cannot be inserted after reasoning block" (2026-07,
    https://github.com/anomalyco/opencode/issues/36517), nor after a document other than a PDF
    (2026-03, https://github.com/strands-agents/harness-sdk/issues/1966).

    >>> mark({"text": "Be brief."})
    [{'text': 'Be brief.'}, {'cachePoint': {'type': 'default'}}]
    """
    if "role" not in message:
        return message if "cachePoint" in message else [message, CACHE_POINT]
    content = _blocks(message["content"])
    for at in range(len(content), 0, -1):
        block = content[at - 1]
        if "cachePoint" in block:
            return message  # the caller's own, which may have another time to live
        document = block.get("document")
        is_pdf = not isinstance(document, Mapping) or document.get("format") == "pdf"
        if is_pdf and not is_thinking(block):
            return {**message, "content": [*content[:at], CACHE_POINT, *content[at:]]}
    return None
