"""Agent Framework's messages as OpenAI chat dicts, and back.

The dicts are for judging what a prompt shows. What is sent are the messages themselves, picked by
their indices; only one of which the prompt shows less is a changed copy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from typing import Any, NamedTuple

from rehydrate.errors import MissingPackageError
from rehydrate.formats._reading import compact_json
from rehydrate.integrations.chat_dicts import (
    assistant_chat,
    call_of,
    content_of,
    is_same_list,
    loses_thinking,
    media_part,
    other_part,
    plain_text,
    reply_content,
    text_part,
    texts_of,
    thinking_block,
)
from rehydrate.integrations.host_thread import Shown

try:
    from agent_framework import Content, Message
except ImportError:
    raise MissingPackageError("rehydrate[agent-framework]", "brings Agent Framework") from None


class Entry(NamedTuple):
    """One chat dict, and where it is from."""

    chat: dict[str, Any]
    message: int
    """The index of its message."""
    content: int | None
    """The index of its result in a tool's message; None: it is a whole message."""


def entries_of(messages: Sequence[Message]) -> list[Entry]:
    """Return the entries of the messages, in order: each is one, a tool's has one a result.

    >>> [entry.chat for entry in entries_of([Message("user", ["Hello."])])]
    [{'role': 'user', 'content': 'Hello.'}]
    """
    return list(_entries(messages))


def _entries(messages: Sequence[Message]) -> Iterator[Entry]:
    for index, message in enumerate(messages):
        if message.role == "tool":
            for number, content in enumerate(message.contents):
                if content.type == "function_result":
                    chat = {"role": "tool", "tool_call_id": _text(content.call_id)}
                    yield Entry({**chat, "content": _answer(content)}, index, number)
        elif message.role == "assistant":
            yield Entry(_said(message.contents), index, None)
        else:
            role = "system" if message.role in ("system", "developer") else "user"
            said = content_of([_item(each) for each in message.contents])
            yield Entry({"role": role, "content": said}, index, None)


def _answer(content: Content) -> Any:
    media = _media_of(content)
    text = _result_text(content)
    return [text_part(text), *map(_item, media)] if media else text


def _result_text(content: Content) -> str:
    return _text(content.result)


def _text(value: Any) -> str:
    """Return a field as a text; the framework checks no field's type."""
    return value if isinstance(value, str) else "" if value is None else compact_json(value)


def _media_of(content: Content) -> list[Content]:
    return [item for item in content.items or () if item.type in _MEDIA]


_MEDIA = frozenset({"data", "uri", "hosted_file"})


def _said(contents: Sequence[Content]) -> dict[str, Any]:
    parts, calls, thoughts = [], [], []
    for content in contents:
        if _is_call(content, contents):
            calls.append(call_of(_text(content.call_id), _text(content.name), _arguments(content)))
        elif content.type == "text_reasoning":
            thoughts.append(thinking_block(_text(content.text)))
        elif (item := _item(content)) != _EMPTY:
            parts.append(item)
    return assistant_chat(reply_content(parts), calls, thoughts)


def _is_call(content: Content, contents: Sequence[Content]) -> bool:
    """Return whether a tool's message answers it; the provider's own tools answer beside it."""
    if content.type != "function_call" or content.hosted or content.informational_only:
        return False
    answers = (each for each in contents if each.type == "function_result")
    return all(each.call_id != content.call_id for each in answers)


def _arguments(content: Content) -> str:
    arguments = content.arguments
    return arguments if isinstance(arguments, str) else compact_json(arguments or {})


def _item(content: Content) -> dict[str, Any]:
    if _text(content.type) in _MEDIA:
        return media_part(_text(content.file_id or content.uri)[:64], _text(content.media_type))
    if content.type == "text":
        return text_part(_text(content.text))
    known = content.to_dict(exclude={"raw_representation", "additional_properties"})
    return other_part({key: value for key, value in known.items() if value is not None})


_EMPTY = text_part("")


def picked(
    messages: Sequence[Message], entries: Sequence[Entry], shown: Sequence[Shown]
) -> list[Message]:
    """Return the messages that a prompt shows; ``entries`` are those of the messages.

    The results of one tool message stay in one; a section of context is a user's message.
    """
    made: list[Message] = []
    open_index, results = -1, list[Content]()

    def close() -> None:
        nonlocal open_index
        if open_index >= 0:
            made.append(_with_contents(messages[open_index], results[:]))
        open_index = -1
        results.clear()

    for index, chat in shown:
        entry = None if index is None else entries[index]
        if entry is None or entry.message != open_index:
            close()
        if entry is None:
            made.append(Message("user", [plain_text(chat["content"])]))
            continue
        message = messages[entry.message]
        if entry.content is not None:
            open_index = entry.message
            content = message.contents[entry.content]
            results.append(_changed_result(content, entry.chat, chat))
        elif chat is entry.chat or chat == entry.chat:
            made.append(message)
        elif contents := _changed(message, entry.chat, chat):  # it may have been thinking alone
            made.append(_with_contents(message, contents))
    close()
    return made


def _with_contents(message: Message, contents: list[Content]) -> Message:
    """Return a message with these contents; the very object where they are all that it has."""
    if is_same_list(contents, message.contents):
        return message
    made = copy(message)
    made.contents = contents
    return made


def _copy(content: Content, **changes: Any) -> Content:
    made = copy(content)
    made.raw_representation = None  # a client may send that instead
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def _changed_result(content: Content, chat: Mapping[str, Any], now: Mapping[str, Any]) -> Content:
    if chat is now or chat == now:
        return content
    shown = now["content"]
    text = shown if isinstance(shown, str) else shown[0]["text"]
    return _copy(content, result=text, items=[Content.from_text(text), *_media_of(content)])


def _changed(message: Message, chat: Mapping[str, Any], now: Mapping[str, Any]) -> list[Content]:
    """Return the contents with what is shown of them.

    OpenAI refuses the id of what reasoning led to without the reasoning.
    """
    is_without_thinking = loses_thinking(chat, now)
    texts, calls = texts_of(now["content"]), iter(now.get("tool_calls") or ())
    made: list[Content] = []
    for content in message.contents:
        changes: dict[str, Any] = {}
        if message.role == "assistant" and content.type == "text_reasoning":
            if not is_without_thinking:
                made.append(content)
            continue
        if message.role == "assistant" and _is_call(content, message.contents):
            arguments = next(calls)["function"]["arguments"]
            if arguments != _arguments(content):
                changes["arguments"] = arguments
            if is_without_thinking and "fc_id" in content.additional_properties:
                kept = {k: v for k, v in content.additional_properties.items() if k != "fc_id"}
                changes["additional_properties"] = kept
        elif content.type == "text" and (content.text or message.role != "assistant"):
            shown = next(texts)
            if shown != content.text:
                changes["text"] = shown
        made.append(_copy(content, **changes) if changes else content)
    return made
