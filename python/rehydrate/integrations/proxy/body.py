"""The body of a request as its client wrote it: its values, and where each of them is in the text.

What a proxy does not change it sends as the client's own bytes, so the places matter: a message
that is written again may differ in blanks, escapes or numbers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from rehydrate._json_text import check_end, decode, read_array, read_object, skip_blank
from rehydrate.formats.anthropic import CACHE_MARKS, unmarked


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
    fields: dict[str, Any] = {}
    texts: dict[str, str] = {}
    items: list[Item] | None = None
    start = end = 0

    def member(name: str, at: int) -> int:
        nonlocal items, start, end
        if name in texts or (name == key and items is not None):
            raise ValueError(f"{name!r} is there twice")
        if name == key and text.startswith("[", at):
            values, spans, inside = read_array(text, at)
            items = [Item(v, text[s.start : s.end]) for v, s in zip(values, spans, strict=True)]
            start, end = at, inside[1] + 1
            return end
        value, to = decode(text, at)
        fields[name], texts[name] = value, text[at:to]
        return int(to)

    opening = skip_blank(text, 0)
    if not text.startswith("{", opening):
        raise ValueError("it isn't an object")
    check_end(text, read_object(text, opening, member))
    return Body(text, fields, texts, items or [], start, end)


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
        yield unmarked(value) if any(mark in text for mark in CACHE_MARKS) else value
