"""OpenAI's chat dicts for a host's own messages: how they are made, and how they are read.

A host's messages are judged by them and not sent as them, so a picture is only named.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from rehydrate.formats._reading import compact_json, is_same_list
from rehydrate.integrations.host_thread import Shown

M = TypeVar("M")
"""A host's message."""


class Entry(NamedTuple):
    """One chat dict, and where it is from."""

    chat: dict[str, Any]
    message: int
    """The index of the host's message."""
    part: int | None = None
    """The index of its part in the message; None: it is the whole message."""


def text_of(value: Any) -> str:
    """Return a field as a text; the frameworks check the types of few fields.

    >>> text_of("Hello."), text_of(None), text_of(7)
    ('Hello.', '', '7')
    """
    return value if isinstance(value, str) else "" if value is None else compact_json(value)


def text_part(text: Any) -> dict[str, Any]:
    """Return a part of a content."""
    return {"type": TEXT, "text": text_of(text)}


def media_part(name: str, media_type: str | None) -> dict[str, Any]:
    """Return a part for a picture or a file of this name."""
    if (media_type or "").startswith("image/"):
        return {"type": "image_url", "image_url": {"url": f"image:{name}"}}
    return {"type": "file", "file": {"file_id": name}}


def other_part(value: Any) -> dict[str, Any]:
    """Return a part for what is neither text nor file: a server's call or result, a program.

    Its text for a model counts, and each picture or file in it.
    """
    return {"type": "server_tool_result", "content": value}


TEXT, CALL, THINKING = "text", "function", "thinking"
"""The types of the parts that a prompt may show in part, or leave out of a reply."""
STATE_PART = "compaction_summary"
"""The type of a part that the provider itself wrote in place of all before it."""


def content_of(parts: Sequence[dict[str, Any]]) -> Any:
    """Return a content of these parts: a text that is alone as a string, "" for none.

    >>> content_of([text_part("Hello.")])
    'Hello.'
    """
    is_text = len(parts) == 1 and parts[0]["type"] == TEXT
    return parts[0]["text"] if is_text else list(parts) or ""


def call_of(call_id: Any, name: Any, arguments: Any) -> dict[str, Any]:
    """Return a call of a tool; ``arguments`` are JSON, or values that are written as JSON."""
    function = {"name": text_of(name), "arguments": text_of({} if arguments is None else arguments)}
    return {"id": text_of(call_id), "type": CALL, "function": function}


def result_of(call_id: Any, content: Any) -> dict[str, Any]:
    """Return the result of a call."""
    return {"role": "tool", "tool_call_id": text_of(call_id), "content": content}


def thinking_block(text: Any, signature: Any = "") -> dict[str, Any]:
    """Return the model's thoughts."""
    return {"type": THINKING, "thinking": text_of(text), "signature": text_of(signature)}


def reply_chat(pieces: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return the chat dict of a reply: its calls, its thoughts and its other fields.

    >>> reply_chat([])
    {'role': 'assistant', 'content': ''}
    """
    kinds: dict[str, list[dict[str, Any]]] = {CALL: [], THINKING: []}
    said: list[dict[str, Any]] = []
    for piece in pieces:
        kinds.get(piece["type"], said).append(piece)
    calls, thoughts = kinds[CALL], kinds[THINKING]
    content = content_of(said)
    chat = {"role": "assistant", "content": None if calls and not content else content}
    if thoughts:
        chat["reasoning_content"] = "\n\n".join(each["thinking"] for each in thoughts)
        chat["thinking_blocks"] = thoughts
    if calls:
        chat["tool_calls"] = calls
    return chat


def texts_of(content: Any) -> Iterator[str]:
    """Yield the texts of a content, in order."""
    if isinstance(content, str):
        yield content
    else:
        for part in content or ():
            if part["type"] == TEXT:
                yield part["text"]


def plain_text(content: Any) -> str:
    """Return a content of texts as one.

    >>> plain_text([text_part("Hello."), text_part("And?")])
    'Hello.\\n\\nAnd?'
    """
    return "\n\n".join(texts_of(content))


class Codec(ABC, Generic[M]):
    """Turns a host's messages into chat dicts, and these into messages again where they are shown.

    A message is one entry, or one for each of some of its parts. A host names its parts; the rest
    is the same for all.
    """

    joins_sections = False
    """Whether a section of context becomes a part of the user's message that it is before, so that
    none comes between a call and its result; else it is a message of its own."""

    @abstractmethod
    def entries(self, messages: Sequence[M]) -> Iterator[Entry]:
        """Yield the entries of the messages, in order."""

    @abstractmethod
    def parts(self, message: M) -> Sequence[Any]:
        """Return the parts of a message."""

    @abstractmethod
    def pieces(self, part: Any, message: M) -> list[dict[str, Any]]:
        """Return the parts of a chat dict that a part becomes: one, mostly."""

    @abstractmethod
    def with_parts(self, message: M | None, parts: list[Any]) -> M | None:
        """Return a copy of a message with other parts, None if that says nothing; without a
        message, a new one of the user."""

    @abstractmethod
    def section(self, text: str) -> Any:
        """Return the part that a section of context is."""

    @abstractmethod
    def changed(
        self, part: Any, pieces: Sequence[Mapping[str, Any]], text: str | None, lost: bool
    ) -> Any:
        """Return a copy of a part with another text (for a call, its arguments); None: its own.
        ``lost``: the model's thinking is not shown."""

    def changed_part(self, part: Any, now: Mapping[str, Any]) -> Any:
        """Return the shown form of a part that is an entry of its own."""
        del now
        return part

    def loses_thinking(self, message: M, chat: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
        """Return whether a reply is shown without the model's thoughts."""
        del message
        return "thinking_blocks" in chat and "thinking_blocks" not in now

    def chat(self, role: str, message: M) -> dict[str, Any]:
        """Return the chat dict of a message that is one entry."""
        pieces = [each for part in self.parts(message) for each in self.pieces(part, message)]
        if role == "assistant":
            return reply_chat(pieces)
        is_system = role in ("system", "developer")
        return {"role": "system" if is_system else "user", "content": content_of(pieces)}

    def entries_of(self, messages: Sequence[M]) -> list[Entry]:
        """Return the entries of the messages, in order."""
        return list(self.entries(messages))

    def picked(
        self, messages: Sequence[M], entries: Sequence[Entry], shown: Sequence[Shown]
    ) -> list[M]:
        """Return the messages that a prompt shows, the same objects if all of one is shown.

        ``entries`` are those of the messages.
        """
        runs: list[tuple[int | None, list[Any]]] = []
        """The parts of each message that is made, and which one it is; None: a new one."""
        waiting: list[Any] = []
        """Sections that join the next message of the user."""
        joins_last = False
        for index, chat in shown:
            if index is None:
                section = self.section(plain_text(chat["content"]))
                if self.joins_sections:
                    waiting.append(section)
                else:
                    runs.append((None, [section]))
                continue
            said, place, part = entries[index]
            is_whole = chat is said or chat == said
            joins_last = part is not None
            if part is not None:
                if not runs or runs[-1][0] != place:
                    runs.append((place, []))
                own = self.parts(messages[place])[part]
                runs[-1][1].extend([*waiting, own if is_whole else self.changed_part(own, chat)])
            else:
                if waiting:
                    runs.append((None, waiting))
                message = messages[place]
                parts = (
                    list(self.parts(message)) if is_whole else self._changed(message, said, chat)
                )
                runs.append((place, parts))
            waiting = []
        if waiting and joins_last:
            runs[-1][1].extend(waiting)
        elif waiting:
            runs.append((None, waiting))
        made = (self._made(None if n is None else messages[n], parts) for n, parts in runs)
        return [message for message in made if message is not None]

    def _made(self, message: M | None, parts: list[Any]) -> M | None:
        """Return a message of these parts: itself if they are its own, None for nothing."""
        if message is not None and is_same_list(parts, self.parts(message)):
            return message
        return self.with_parts(message, parts)

    def _changed(self, message: M, chat: Mapping[str, Any], now: Mapping[str, Any]) -> list[Any]:
        """Return the parts of a message that is one entry as they are shown."""
        lost = self.loses_thinking(message, chat, now)
        texts, calls = texts_of(now["content"]), iter(now.get("tool_calls") or ())
        made: list[Any] = []
        for part in self.parts(message):
            pieces = self.pieces(part, message)
            changed: str | None = None
            for piece in pieces:
                if piece["type"] == CALL:
                    own, text = piece["function"]["arguments"], next(calls)["function"]["arguments"]
                elif piece["type"] == TEXT:
                    own, text = piece["text"], next(texts)
                else:
                    continue
                changed = changed if text == own else text
            if not (lost and any(piece["type"] == THINKING for piece in pieces)):
                made.append(self.changed(part, pieces, changed, lost))
        return made
