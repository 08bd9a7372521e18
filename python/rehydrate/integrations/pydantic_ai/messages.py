"""The entries of Pydantic AI's messages, and messages made from what the prompt kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

from rehydrate.errors import MissingPackageError
from rehydrate.formats._reading import compact_json
from rehydrate.integrations.chat_dicts import (
    STATE_PART,
    Entry,
    assistant_chat,
    call_of,
    is_same_list,
    loses_thinking,
    other_part,
    plain_text,
    reply_content,
    result_of,
    text_of,
    text_part,
    texts_of,
    thinking_block,
)
from rehydrate.integrations.host_thread import Shown

try:
    from pydantic_ai.messages import (
        BinaryContent,
        ImageUrl,
        ModelMessage,
        ModelRequest,
        ModelResponse,
        TextPart,
        ThinkingPart,
        ToolCallPart,
        ToolReturnPart,
        UserPromptPart,
    )
except ImportError:
    raise MissingPackageError("rehydrate[pydantic-ai]", "brings Pydantic AI's agents") from None

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage


def entries_of(messages: Sequence[ModelMessage]) -> list[Entry]:
    """Return the entries of the messages, in order: a response is one, a request one a part.

    >>> messages = [ModelRequest([UserPromptPart("Hello.")]), ModelResponse([TextPart("Hi.")])]
    >>> [entry.chat for entry in entries_of(messages)]
    [{'role': 'user', 'content': 'Hello.'}, {'role': 'assistant', 'content': 'Hi.'}]
    """
    return list(_entries(messages))


def _entries(messages: Sequence[ModelMessage]) -> Iterator[Entry]:
    for index, message in enumerate(messages):
        if isinstance(message, ModelResponse):
            yield Entry(_response(message), index, None)
        else:
            for number, part in enumerate(message.parts or ()):
                yield Entry(_request_part(part), index, number)


def _response(message: ModelResponse) -> dict[str, Any]:
    parts, calls, thoughts = [], [], []
    for part in message.parts or ():
        if isinstance(part, ToolCallPart):
            calls.append(call_of(part.tool_call_id, part.tool_name, part.args_as_json_str()))
        elif isinstance(part, ThinkingPart):
            thoughts.append(thinking_block(part.content, part.signature or ""))
        else:
            parts += _reply_parts(part)
    return assistant_chat(reply_content(parts), calls, thoughts)


def _reply_parts(part: Any) -> list[dict[str, Any]]:
    """Return what a part of a response is, other than a call or a thought."""
    content = getattr(part, "content", None)
    if part.part_kind == "compaction":
        return [{"type": STATE_PART, "content": content or ""}]
    if isinstance(content, str) and part.part_kind not in _NATIVE_RETURNS:
        return [text_part(content)] if content else []
    if part.part_kind == "file":
        return [_media(content)]
    if part.part_kind == "speech":
        heard = text_part(part.transcript) if part.transcript else None
        return [each for each in (heard, _media(part.audio) if part.audio else None) if each]
    if part.part_kind in _NATIVE_RETURNS:
        return [other_part(_readable(content))]
    return [text_part(_text_of(part))]


_NATIVE_RETURNS = frozenset({"builtin-tool-return", "builtin-tool-search-return"})


_DEEPEST = 100
"""Levels of a provider's return in which files are looked for; what is deeper is a text."""


def _readable(value: Any, depth: int = 0) -> Any:
    """Return what a provider's own tool returned, with a part for each file in it."""
    is_file = isinstance(value, BinaryContent | bytes) or hasattr(value, "force_download")
    if is_file:
        return _media(value)
    if depth == _DEEPEST:
        return compact_json(value)
    if is_dataclass(value) and not isinstance(value, type):
        value = {each.name: getattr(value, each.name) for each in fields(value)}
    if isinstance(value, Mapping):
        return {key: _readable(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_readable(item, depth + 1) for item in value]
    dump = getattr(value, "model_dump", None)
    return dump(mode="json") if callable(dump) else value


def _request_part(part: Any) -> dict[str, Any]:
    if isinstance(part, UserPromptPart):
        return {"role": "user", "content": _content(part.content)}
    if isinstance(part, ToolReturnPart):
        text = part.model_response_str()
        content: Any = [text_part(text), *map(_media, part.files)] if part.files else text
        return result_of(part.tool_call_id, content)
    kind = part.part_kind
    if kind == "retry-prompt" and part.tool_name is not None:
        return result_of(part.tool_call_id, _text_of(part))
    # What the framework notes of instructions, tools and settings is kept as system text is.
    role = "user" if kind in _SAID_BY_USER else "system"
    return {"role": role, "content": _text_of(part)}


_SAID_BY_USER = frozenset({"retry-prompt", "retry-feedback", "speech"})


def _content(content: Any) -> Any:
    """Return what a user said as a text, or as one part for each of its items."""
    if not isinstance(content, list | tuple):
        return text_of(content)
    return [_item(item) for item in content]


def _item(item: Any) -> dict[str, Any]:
    text = _said(item)
    return _media(item) if text is None else text_part(text)


def _said(item: Any) -> str | None:
    """Return an item's text; None where it is a file."""
    if isinstance(item, str):
        return item
    if getattr(item, "kind", "") == "cache-point":
        return ""
    text = getattr(item, "content", None)
    return text if isinstance(text, str) else None


def _media(item: Any) -> dict[str, Any]:
    is_image = isinstance(item, ImageUrl) or (isinstance(item, BinaryContent) and item.is_image)
    if not is_image:
        return {"type": "file", "file": {"file_id": str(getattr(item, "identifier", ""))}}
    url = item.url if isinstance(item, ImageUrl) else f"image:{item.identifier}"
    return {"type": "image_url", "image_url": {"url": url}}


def _text_of(part: Any) -> str:
    """Return the text of a part of any kind, for its size and its words."""
    content = getattr(part, "content", None)
    if isinstance(content, str):
        return content
    known = {key: getattr(part, key, None) for key in ("tool_name", "args", "content")}
    return compact_json({key: value for key, value in known.items() if value is not None})


def picked(
    messages: Sequence[ModelMessage], entries: Sequence[Entry], shown: Sequence[Shown]
) -> list[ModelMessage]:
    """Return the messages that a prompt shows.

    ``entries`` are those of the messages. A section of context becomes a part of the request that
    it is before, so that none comes between a call and its result.
    """
    made: list[ModelMessage] = []
    request: _Request | None = None
    waiting: list[Any] = []
    for index, chat in shown:
        if index is None:
            waiting.append(UserPromptPart(plain_text(chat["content"])))
            continue
        entry = entries[index]
        message = messages[entry.message]
        if request is not None and request.index != entry.message:
            made.append(request.message())
            request = None
        if isinstance(message, ModelResponse):
            if waiting:
                made.append(ModelRequest(parts=waiting))
                waiting = []
            made.append(_changed_response(message, entry.chat, chat))
            continue
        if request is None:
            request = _Request(entry.message, message)
        request.parts += waiting
        request.parts.append(_changed_part(message.parts[entry.part or 0], entry.chat, chat))
        waiting = []
    if request is not None:
        request.parts += waiting
        made.append(request.message())
    elif waiting:
        made.append(ModelRequest(parts=waiting))
    return made


class _Request:
    """A request of which some parts are shown."""

    def __init__(self, index: int, whole: ModelRequest) -> None:
        self.index = index
        self.parts: list[Any] = []
        self._whole = whole

    def message(self) -> ModelRequest:
        """Return the request; the very object where all of it is shown, and nothing else."""
        whole = self._whole
        return whole if is_same_list(self.parts, whole.parts) else replace(whole, parts=self.parts)


def _changed_part(part: Any, chat: Mapping[str, Any], now: Mapping[str, Any]) -> Any:
    """Return a request's part with what is shown of it; the part itself where that is all."""
    if chat is now or chat == now or not isinstance(part, (ToolReturnPart, UserPromptPart)):
        return part
    content = now["content"]
    if isinstance(part, ToolReturnPart) and part.files:
        return replace(part, content=[content[0]["text"], *part.files])
    if not isinstance(part.content, str) and isinstance(part, UserPromptPart):
        items = zip(part.content, content, strict=True)
        return replace(part, content=[_changed_item(item, shown) for item, shown in items])
    return replace(part, content=content)


def _changed_item(item: Any, shown: Mapping[str, Any]) -> Any:
    text = _said(item)
    return item if text is None or text == shown["text"] else shown["text"]


def _changed_response(
    message: ModelResponse, chat: Mapping[str, Any], now: Mapping[str, Any]
) -> ModelResponse:
    """Return a response with what is shown of it; the response itself where that is all.

    OpenAI refuses the id of what reasoning led to without the reasoning, and takes it without an
    id; only a call of its own tools needs one, and keeps the reasoning.
    """
    if chat is now or chat == now:
        return message
    has_own_tools = any(part.part_kind in _OWN_TOOLS for part in message.parts)
    keeps_thinking = has_own_tools or not loses_thinking(chat, now)
    texts, calls = texts_of(now["content"]), iter(now.get("tool_calls") or ())
    parts: list[Any] = []
    for part in message.parts:
        if isinstance(part, ThinkingPart):
            if keeps_thinking:
                parts.append(part)
            continue
        changes: dict[str, Any] = {}
        if isinstance(part, ToolCallPart):
            arguments = next(calls)["function"]["arguments"]
            if arguments != part.args_as_json_str():
                changes["args"] = arguments
        else:
            for own in _reply_parts(part):
                if own["type"] == "text" and (shown := next(texts)) != own["text"]:
                    changes |= {"content": shown} if isinstance(part, TextPart) else {}
        if not keeps_thinking and getattr(part, "id", None) is not None:
            changes["id"] = None
        parts.append(replace(part, **changes) if changes else part)
    return replace(message, parts=parts)


_OWN_TOOLS = frozenset({"builtin-tool-call", "builtin-tool-search-call"})
