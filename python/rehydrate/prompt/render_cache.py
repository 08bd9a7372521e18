"""Digests: whether two prompts send the same, cache marks aside.

Known: what was found out about a conversation's messages when its last prompt was compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

from rehydrate import formats
from rehydrate.formats import anthropic_writing
from rehydrate.formats._reading import compact_json
from rehydrate.messages import Message

_MARK = "cache_control"


def digest_of(value: Any) -> str:
    """128 bits, hexadecimal, of a tool, a system block or a message as it is sent.

    A cache mark changes nothing, nor does the block that a lone text becomes to carry one. The
    order of keys does: a model reads a tool's input in it.

    >>> marked = {"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}
    >>> digest_of({"role": "user", "content": [marked]}) == digest_of(
    ...     {"role": "user", "content": "hi"}
    ... )
    True
    """
    return digest_and_mark(value)[0]


def digest_and_mark(value: Any) -> tuple[str, bool]:
    """The digest, and whether there may be a cache mark: its name stands somewhere in it."""
    text = compact_json(_plain(value))
    may_be_marked = _MARK in text
    if may_be_marked:
        text = compact_json(_plain(_unmarked(value)))
    hashed = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16)
    return hashed.hexdigest(), may_be_marked


def _plain(value: Any) -> Any:
    """A message of one text as that text."""
    content = value.get("content") if isinstance(value, Mapping) else None
    if isinstance(content, (list, tuple)) and len(content) == 1:
        (block,) = content
        if isinstance(block, Mapping) and len(block) == 2 and block.get("type") == "text":
            return {**value, "content": block.get("text")}
    return value


def _unmarked(value: Any) -> Any:
    if isinstance(value, Mapping):
        kind = value.get("type")
        # What a tool is called with is the model's own: a key of this name in it is no mark.
        return {
            key: inner if key == "input" and kind == "tool_use" else _unmarked(inner)
            for key, inner in value.items()
            if key != _MARK
        }
    if isinstance(value, (list, tuple)):
        return [_unmarked(inner) for inner in value]
    return value


class Sight(NamedTuple):
    """What a message is, as its segment says it."""

    value: Any
    """Held, so that no other object can take its place under its id."""
    digest: str
    blocks: int
    is_marked: bool


class Known:
    """For prompts that extend one another: what is the very same object is looked at once.

    Messages that a prompt was made of must not be changed while this is in use. One prompt at a
    time; the messages of the last one are held.
    """

    __slots__ = ("_framed", "_framed_now", "_now", "_read", "_sections", "_seen", "_valid")

    def __init__(self) -> None:
        """Nothing is known yet."""
        self._seen: dict[int, Sight] = {}
        self._now: dict[int, Sight] = {}
        self._framed: dict[int, tuple[object, Any]] = {}
        self._framed_now: dict[int, tuple[object, Any]] = {}
        self._read: dict[int, tuple[Any, Message]] = {}
        self._sections: dict[int, object] = {}
        self._valid: list[Any] = []

    def sight(self, value: Any) -> Sight:
        """The digest of what is sent, its blocks and whether there is a cache mark in it."""
        found = self._seen.get(id(value)) or self._now.get(id(value))
        if found is None:
            content = value.get("content")
            blocks = len(content) if isinstance(content, (list, tuple)) else 1
            digest, may_be_marked = digest_and_mark(value)
            is_marked = may_be_marked and bool(
                anthropic_writing.marks_in(content if content else value)
            )
            found = Sight(value, digest, blocks, is_marked)
        self._now[id(value)] = found
        return found

    def framed(self, of: object, make: Callable[[], Any]) -> Any:
        """The message that a section, or a constant, was sent as; made where it is new."""
        found = self._framed.get(id(of)) or self._framed_now.get(id(of)) or (of, make())
        self._framed_now[id(of)] = found
        return found[1]

    def has_sent(self, section: object) -> bool:
        """Whether this very section was in the last prompt."""
        return id(section) in self._sections

    def send(self, sections: Iterable[object]) -> None:
        """Note the sections of this prompt, duplicates aside."""
        self._sections = {id(section): section for section in sections}

    def read(self, message: Any, provider: str) -> Message:
        """A message of the provider's, read by itself, without its texts."""
        found = self._read.get(id(message))
        if found is None:
            (read,) = formats.parse([message], provider).messages
            found = self._read[id(message)] = message, read._replace(pieces=())
        return found[1]

    def unchanged_from(self, values: Sequence[Any]) -> int:
        """From where on a prompt must be checked: all before it was, and was as it is now.

        It is where the assistant began to speak inside of the last prompt, so that what came before
        was checked together with it: no call before it is open.
        """
        same = 0
        for value, before in zip(values, self._valid, strict=False):
            if value is not before:
                break
            same += 1
        for place in range(same - 1, 0, -1):
            if _role(values[place]) == "assistant" and _role(values[place - 1]) == "user":
                return place
        return 0

    def keep(self, values: Sequence[Any]) -> None:
        """Note that this prompt was sent and is valid; forget what is in it no more."""
        self._seen, self._now = self._now, {}
        self._framed, self._framed_now = self._framed_now, {}
        self._valid = list(values)
        here = set(map(id, values))
        self._read = {key: found for key, found in self._read.items() if key in here}


def _role(message: Any) -> Any:
    return message.get("role") if isinstance(message, Mapping) else None
