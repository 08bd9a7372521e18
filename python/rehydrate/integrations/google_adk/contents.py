"""The entries of ADK's contents, and contents made from what the prompt kept."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rehydrate.errors import MissingPackageError
from rehydrate.formats._reading import compact_json
from rehydrate.integrations.chat_dicts import (
    CALL,
    Codec,
    Entry,
    call_of,
    content_of,
    media_part,
    other_part,
    plain_text,
    result_of,
    text_of,
    text_part,
    thinking_block,
)

try:
    from google.genai.types import Content, Part
except ImportError:
    raise MissingPackageError("rehydrate[google-adk]", "brings Google's ADK") from None

_EMPTY = text_part("")


class _Contents(Codec[Content]):
    """What a model said is one entry; of a user's content each result of a tool is one, and so is
    what is between results.

    >>> said = [Content(role="user", parts=[Part(text="Hello.")])]
    >>> [entry.chat for entry in _Contents().entries_of(said)]
    [{'role': 'user', 'content': 'Hello.'}]
    """

    joins_sections = True

    def entries(self, messages: Sequence[Content]) -> Iterator[Entry]:
        ids = _CallIds()
        for index, content in enumerate(messages):
            parts = self.parts(content)
            if content.role == "model":
                yield Entry(_with_ids(self.reply(content), parts, ids), index)
                continue
            start = 0
            for number, part in enumerate(parts):
                if part.function_response is not None:
                    if start < number:
                        yield _user(parts, index, slice(start, number))
                    yield Entry(_result(part, ids), index, slice(number, number + 1))
                    start = number + 1
            if start < len(parts):
                yield _user(parts, index, slice(start, len(parts)))

    def parts(self, message: Content) -> Sequence[Part]:
        return message.parts or []

    def pieces(self, part: Part, message: Content) -> list[dict[str, Any]]:
        if message.role != "model":
            return [_item(part)]
        if (call := part.function_call) is not None:
            return [call_of(call.id, call.name or "", compact_json(call.args or {}))]
        if part.thought:
            return [thinking_block(part.text or "")]
        item = _item(part)
        return [] if item == _EMPTY else [item]

    def section(self, text: str) -> Part:
        return Part(text=text)

    def with_parts(self, message: Content | None, parts: list[Part]) -> Content | None:
        if message is None:
            return Content(role="user", parts=parts)
        return message.model_copy(update={"parts": parts}) if parts else None

    def shown(
        self, message: Content, chat: Mapping[str, Any], now: Mapping[str, Any]
    ) -> list[Content]:
        return super().shown(message, chat, now) if message.parts else []

    def changed(
        self, part: Part, pieces: Sequence[Mapping[str, Any]], text: str | None, lost: bool
    ) -> Part:
        """The signature of a call stays with the call: Gemini refuses the call without it."""
        del lost
        if text is None:
            return part
        if any(piece["type"] == CALL for piece in pieces):
            assert part.function_call is not None
            called = part.function_call.model_copy(update={"args": json.loads(text)})
            return part.model_copy(update={"function_call": called})
        return part.model_copy(update={"text": text})

    def changed_parts(
        self, message: Content, parts: Sequence[Part], now: Mapping[str, Any]
    ) -> list[Part]:
        result = parts[0].function_response
        if result is None:
            return super().changed_parts(message, parts, now)
        cut = result.model_copy(update={"response": {"result": plain_text(now["content"])}})
        return [parts[0].model_copy(update={"function_response": cut})]


CODEC = _Contents()
entries_of, picked = CODEC.entries_of, CODEC.picked


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


def _with_ids(chat: dict[str, Any], parts: Sequence[Part], ids: _CallIds) -> dict[str, Any]:
    calls = [part.function_call for part in parts if part.function_call is not None]
    for made, call in zip(chat.get("tool_calls", ()), calls, strict=True):
        made["id"] = text_of(ids.of_call(call))
    return chat


def _result(part: Part, ids: _CallIds) -> dict[str, Any]:
    result = part.function_response
    assert result is not None
    text = result_text(result.response)
    files = [_media(each.inline_data or each.file_data) for each in result.parts or ()]
    content: Any = [text_part(text), *files] if files else text
    return result_of(ids.of_result(result), content)


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


def _media(media: Any) -> dict[str, Any]:
    name = getattr(media, "file_uri", None) or getattr(media, "display_name", None) or "inline"
    return media_part(name, getattr(media, "mime_type", None))
