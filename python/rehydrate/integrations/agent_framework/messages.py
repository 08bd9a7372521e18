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
                    chat = {"role": "tool", "tool_call_id": content.call_id or ""}
                    yield Entry({**chat, "content": _answer(content)}, index, number)
        elif message.role == "assistant":
            yield Entry(_said(message.contents), index, None)
        else:
            role = "system" if message.role in ("system", "developer") else "user"
            yield Entry({"role": role, "content": _content(message.contents)}, index, None)


def _answer(content: Content) -> Any:
    media = _media_of(content)
    text = _result_text(content)
    return [_text(text), *map(_item, media)] if media else text


def _result_text(content: Content) -> str:
    result = content.result
    return result if isinstance(result, str) else "" if result is None else compact_json(result)


def _media_of(content: Content) -> list[Content]:
    return [item for item in content.items or () if item.type in _MEDIA]


_MEDIA = frozenset({"data", "uri", "hosted_file"})


def _said(contents: Sequence[Content]) -> dict[str, Any]:
    chat: dict[str, Any] = {"role": "assistant", "content": ""}
    texts, calls, thoughts = [], [], []
    for content in contents:
        if _is_call(content, contents):
            arguments = _arguments(content)
            function = {"name": content.name or "", "arguments": arguments}
            calls.append({"id": content.call_id or "", "type": "function", "function": function})
        elif content.type == "text_reasoning":
            thoughts.append(content.text or "")
        elif text := _text_of(content):
            texts.append(text)
    if texts:
        chat["content"] = texts[0] if len(texts) == 1 else [_text(text) for text in texts]
    elif calls:
        chat["content"] = None
    if thoughts:
        chat["reasoning_content"] = "\n\n".join(thoughts)
        chat["thinking_blocks"] = [
            {"type": "thinking", "thinking": thought, "signature": ""} for thought in thoughts
        ]
    if calls:
        chat["tool_calls"] = calls
    return chat


def _is_call(content: Content, contents: Sequence[Content]) -> bool:
    """Return whether a tool's message answers it; the provider's own tools answer beside it."""
    if content.type != "function_call" or content.hosted or content.informational_only:
        return False
    answers = (each for each in contents if each.type == "function_result")
    return all(each.call_id != content.call_id for each in answers)


def _arguments(content: Content) -> str:
    arguments = content.arguments
    return arguments if isinstance(arguments, str) else compact_json(arguments or {})


def _content(contents: Sequence[Content]) -> Any:
    if len(contents) == 1 and contents[0].type not in _MEDIA:
        return _text_of(contents[0])
    return [_item(content) for content in contents]


def _item(content: Content) -> dict[str, Any]:
    if content.type not in _MEDIA:
        return _text(_text_of(content))
    name = content.file_id or (content.uri or "")[:64]
    if (content.media_type or "").startswith("image/"):
        return {"type": "image_url", "image_url": {"url": f"image:{name}"}}
    return {"type": "file", "file": {"file_id": name}}


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _text_of(content: Content) -> str:
    """Return the text of a content of any type, for its size and its words."""
    if content.type == "text":
        return content.text or ""
    if content.type in _MEDIA:
        return f"[{content.media_type or content.type}]"
    known = content.to_dict(exclude={"raw_representation", "additional_properties"})
    return compact_json({key: value for key, value in known.items() if value is not None})


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
            made.append(Message("user", [_plain(chat["content"])]))
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
    is_same = len(contents) == len(message.contents) and all(map(_is, contents, message.contents))
    if is_same:
        return message
    made = copy(message)
    made.contents = contents
    return made


def _is(one: object, other: object) -> bool:
    return one is other


def _plain(content: Any) -> str:
    return content if isinstance(content, str) else "\n\n".join(part["text"] for part in content)


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
    loses_thinking = "thinking_blocks" in chat and "thinking_blocks" not in now
    texts, calls = _texts(now["content"]), iter(now.get("tool_calls") or ())
    made: list[Content] = []
    for content in message.contents:
        changes: dict[str, Any] = {}
        if message.role == "assistant" and content.type == "text_reasoning":
            if not loses_thinking:
                made.append(content)
            continue
        if message.role == "assistant" and _is_call(content, message.contents):
            arguments = next(calls)["function"]["arguments"]
            if arguments != _arguments(content):
                changes["arguments"] = arguments
            if loses_thinking and "fc_id" in content.additional_properties:
                kept = {k: v for k, v in content.additional_properties.items() if k != "fc_id"}
                changes["additional_properties"] = kept
        elif content.type not in _MEDIA and (text := _text_of(content)):
            shown = next(texts)
            if shown != text and content.type == "text":
                changes["text"] = shown
        made.append(_copy(content, **changes) if changes else content)
    return made


def _texts(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    else:
        for part in content or ():
            if part["type"] == "text":
                yield part["text"]
