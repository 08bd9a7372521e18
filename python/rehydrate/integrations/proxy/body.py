"""The body of a request as its client wrote it: its values, and where each of them is in the text.

What a proxy does not change it sends as the client's own bytes, so the places matter: a message
that is written again may differ in blanks, escapes or numbers.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from rehydrate._document import parts_of, skip_blank

MARKS = ("cache_control", "prompt_cache_breakpoint")
"""The fields by which a client marks where a cached prefix ends. They move on in each request, and
say nothing to the model."""
_NESTED = ("content", "output")


class Item(NamedTuple):
    """One message of a request."""

    value: Any
    text: str
    """As the client wrote it."""


class Body(NamedTuple):
    """A request's JSON object."""

    text: str
    fields: dict[str, Any]
    """Its values, without the messages."""
    texts: dict[str, str]
    """Its values as the client wrote them, without the messages."""
    items: list[Item]
    """The messages; none where they are not a list."""
    start: int
    """Where the list of messages begins."""
    end: int

    def with_items(self, texts: Sequence[str]) -> bytes:
        """Return the body with other messages, and all else as the client wrote it."""
        return f"{self.text[: self.start]}[{','.join(texts)}]{self.text[self.end :]}".encode()


def read_body(raw: bytes, key: str) -> Body:
    r"""Read a request whose messages are under this key; raises ValueError for any other text.

    >>> body = read_body(b'{"model": "m", "input": [{"a": 1}, {"b":2}], "n": 1}', "input")
    >>> body.fields, [item.text for item in body.items]
    ({'model': 'm', 'n': 1}, ['{"a": 1}', '{"b":2}'])
    >>> body.with_items(['{"b":2}'])
    b'{"model": "m", "input": [{"b":2}], "n": 1}'
    """
    text = raw.decode()
    opening = skip_blank(text, 0)
    if not text.startswith("{", opening):
        raise ValueError("it isn't an object")
    fields: dict[str, Any] = json.loads(text)
    texts: dict[str, str] = {}
    items: list[Item] = []
    start = end = 0
    parts, _ = parts_of(text, opening)
    if len(parts) > len(fields):
        twice = next(
            name for name, count in Counter(name for name, *_ in parts).items() if count > 1
        )
        raise ValueError(f"{twice!r} is there twice")
    for part in parts:
        if part.name == key and isinstance(fields[key], list):
            start, end = part.start, part.end
            entries = zip(fields.pop(key), parts_of(text, start)[0], strict=True)
            items = [Item(value, text[each.start : each.end]) for value, each in entries]
        else:
            texts[part.name] = text[part.start : part.end]
    return Body(text, fields, texts, items, start, end)


def unmarked(value: Any) -> Any:
    """Return a message without the marks of a cache; what has none is returned as it is.

    >>> block = {"type": "text", "text": "Hello.", "cache_control": {"type": "ephemeral"}}
    >>> unmarked({"role": "user", "content": [block]})
    {'role': 'user', 'content': [{'type': 'text', 'text': 'Hello.'}]}
    """
    if isinstance(value, list):
        return [unmarked(each) for each in value]
    if not isinstance(value, dict):
        return value
    # A call's input is the model's own, whatever its fields are named.
    return {
        name: unmarked(each) if name in _NESTED else each
        for name, each in value.items()
        if name not in MARKS
    }


def written(message: Any) -> str:
    """Return a message as JSON: the same text for the same message, at any time."""
    return json.dumps(message, separators=(",", ":"))


def in_blocks(message: Any) -> Any:
    """Return a message with its text as a block: clients change to blocks where a mark is to be."""
    content = message.get("content") if isinstance(message, dict) else None
    if not isinstance(content, str):
        return message
    return {**message, "content": [{"type": "text", "text": content}]}


def plain_values(items: Sequence[Item]) -> Iterator[Any]:
    """Yield the messages without the marks of a cache."""
    for value, text in items:
        yield unmarked(value) if any(mark in text for mark in MARKS) else value
