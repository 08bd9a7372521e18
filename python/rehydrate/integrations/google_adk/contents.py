"""The entries of ADK's contents, and contents made from what the prompt kept."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rehydrate.errors import MissingPackageError
from rehydrate.formats._reading import compact_json
from rehydrate.integrations.chat_dicts import (
    Entry,
    assistant_chat,
    call_of,
    content_of,
    is_same_list,
    loses_thinking,
    media_part,
    other_part,
    plain_text,
    reply_content,
    result_of,
    text_part,
    texts_of,
    thinking_block,
)
from rehydrate.integrations.host_thread import Shown

try:
    from google.genai.types import Content, Part
except ImportError:
    raise MissingPackageError("rehydrate[google-adk]", "brings Google's ADK") from None


def entries_of(contents: Sequence[Content]) -> list[Entry]:
    """Return the entries of the contents, in order.

    What a model said is one; of a user's content each result of a tool is one, and so is what
    is between results.

    >>> said = [Content(role="user", parts=[Part(text="Hello.")])]
    >>> [entry.chat for entry in entries_of(said)]
    [{'role': 'user', 'content': 'Hello.'}]
    """
    return list(_entries(contents))


def _entries(contents: Sequence[Content]) -> Iterator[Entry]:
    calls = _CallIds()
    for index, content in enumerate(contents):
        parts = content.parts or []
        if content.role == "model":
            yield Entry(_model(parts, calls), index, slice(0, len(parts)))
            continue
        start = 0
        for number, part in enumerate(parts):
            if part.function_response is not None:
                if start < number:
                    yield _user(parts, index, slice(start, number))
                yield Entry(_result(part, calls), index, slice(number, number + 1))
                start = number + 1
        if start < len(parts):
            yield _user(parts, index, slice(start, len(parts)))


class _CallIds:
    """The ids of calls. Gemini needs none: ADK takes its own away, and pairs by order."""

    def __init__(self) -> None:
        self._count = 0
        self._open: list[tuple[str, str]] = []

    def of_call(self, call: Any) -> str:
        self._count += 1
        made = call.id or f"call_{self._count}"
        self._open.append((call.name or "", made))
        return made

    def of_result(self, result: Any) -> str:
        if result.id:
            return str(result.id)
        named = (each for each in self._open if each[0] == result.name)
        found = next(named, None)
        if found is None:
            return "call_unknown"
        self._open.remove(found)
        return found[1]


def _model(parts: Sequence[Part], calls: _CallIds) -> dict[str, Any]:
    said, made, thoughts = [], [], []
    for part in parts:
        if (call := part.function_call) is not None:
            arguments = compact_json(call.args or {})
            made.append(call_of(calls.of_call(call), call.name or "", arguments))
        elif part.thought:
            thoughts.append(thinking_block(part.text or ""))
        elif (item := _item(part)) != _EMPTY:
            said.append(item)
    return assistant_chat(reply_content(said), made, thoughts)


def _result(part: Part, calls: _CallIds) -> dict[str, Any]:
    result = part.function_response
    assert result is not None
    text = result_text(result.response)
    files = [_media(each.inline_data or each.file_data) for each in result.parts or ()]
    content: Any = [text_part(text), *files] if files else text
    return result_of(calls.of_result(result), content)


def result_text(response: Mapping[str, Any] | None) -> str:
    """Return what a tool answered: ADK puts what is not a dict under `result`.

    >>> result_text({"result": "Berth 4."}), result_text({"berth": 4})
    ('Berth 4.', '{"berth":4}')
    """
    only = (response or {}).get("result") if len(response or {}) == 1 else None
    return only if isinstance(only, str) else compact_json(response or {})


def _user(parts: Sequence[Part], index: int, those: slice) -> Entry:
    content = content_of([_item(part) for part in parts[those]])
    return Entry({"role": "user", "content": content}, index, those)


def _item(part: Part) -> dict[str, Any]:
    if part.inline_data or part.file_data:
        return _media(part.inline_data or part.file_data)
    if part.text is not None:
        return text_part(part.text)
    known = part.model_dump(mode="json", exclude_none=True, exclude={"thought_signature"})
    return other_part(known) if known else text_part("")


_EMPTY = text_part("")


def _media(media: Any) -> dict[str, Any]:
    name = getattr(media, "file_uri", None) or getattr(media, "display_name", None) or "inline"
    return media_part(name, getattr(media, "mime_type", None))


def picked(
    contents: Sequence[Content], entries: Sequence[Entry], shown: Sequence[Shown]
) -> list[Content]:
    """Return the contents that a prompt shows; ``entries`` are those of the contents.

    A section of context becomes a part of the user's content that it is before, so that none
    comes between a call and its result.
    """
    made: list[Content] = []
    open_index, parts = -1, list[Part]()  # of the user's content that is being made
    waiting: list[Part] = []

    def close() -> None:
        nonlocal parts
        if parts:
            whole = contents[open_index] if open_index >= 0 else None
            made.append(_content(whole, parts))
        parts = []

    for index, chat in shown:
        if index is None:
            waiting.append(Part(text=plain_text(chat["content"])))
            continue
        entry = entries[index]
        content = contents[entry.message]
        own = (content.parts or [])[entry.part]
        if entry.message != open_index:
            close()
        if content.role == "model":
            open_index, parts = -1, waiting
            close()
            if kept := _changed_model(own, entry.chat, chat):  # it may have been thinking alone
                made.append(_content(content, kept))
        else:
            open_index = entry.message
            parts += [*waiting, *_changed(own, entry.chat, chat)]
        waiting = []
    if open_index < 0:
        parts = waiting
    else:
        parts += waiting
    close()
    return made


def _content(whole: Content | None, parts: list[Part]) -> Content:
    """Return a content with these parts; the very object where they are all that it has."""
    if whole is None:
        return Content(role="user", parts=parts)
    own = whole.parts or []
    return whole if is_same_list(parts, own) else whole.model_copy(update={"parts": parts})


def _changed(
    parts: Sequence[Part], chat: Mapping[str, Any], now: Mapping[str, Any]
) -> Sequence[Part]:
    """Return a user's parts with what is shown of them; the parts themselves where that is all."""
    if chat is now or chat == now:
        return parts
    result = parts[0].function_response
    if result is not None:
        cut = result.model_copy(update={"response": {"result": plain_text(now["content"])}})
        return [parts[0].model_copy(update={"function_response": cut})]
    content = now["content"]
    items = [text_part(content)] if isinstance(content, str) else content
    pairs = zip(parts, items, strict=True)
    return [_shortened(part, str(item.get("text", ""))) for part, item in pairs]


def _shortened(part: Part, text: str) -> Part:
    return part if part.text in (None, text) else part.model_copy(update={"text": text})


def _changed_model(
    parts: Sequence[Part], chat: Mapping[str, Any], now: Mapping[str, Any]
) -> list[Part]:
    """Return what a model said with what is shown of it.

    The signature of a call stays with the call: Gemini refuses the call without it.
    """
    if chat is now or chat == now:
        return list(parts)
    keeps_thinking = not loses_thinking(chat, now)
    texts = texts_of(now["content"])
    calls = iter(now.get("tool_calls") or ())
    made: list[Part] = []
    for part in parts:
        if part.function_call is not None:
            arguments = next(calls)["function"]["arguments"]
            made.append(_called(part, arguments))
        elif part.thought:
            if keeps_thinking:
                made.append(part)
        elif part.text:
            made.append(_shortened(part, next(texts)))
        else:
            made.append(part)
    return made


def _called(part: Part, arguments: str) -> Part:
    call = part.function_call
    assert call is not None
    if compact_json(call.args or {}) == arguments:
        return part
    changed = call.model_copy(update={"args": json.loads(arguments)})
    return part.model_copy(update={"function_call": changed})
