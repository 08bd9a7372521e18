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
from rehydrate.formats.cache_marks import CACHE_MARKS, unmarked


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
    spans: dict[str, tuple[int, int]]
    """Where each of its values is in the text."""
    items: list[Item]
    """The messages; none where they are not a list."""
    key: str
    """The field of the messages."""

    def written(self, name: str) -> str:
        """Return a value as the client wrote it; "" where there is none."""
        start, end = self.spans.get(name, (0, 0))
        return self.text[start:end]

    def with_items(self, texts: Sequence[str], tools: Sequence[str] = ()) -> bytes:
        """Return the body with other messages, these tools too, and all else as the client wrote
        it."""
        changes = [(*self.spans[self.key], f"[{','.join(texts)}]")]
        if tools and self.fields.get("tools"):
            end = self.spans["tools"][1] - 1
            changes.append((end, end, f",{','.join(tools)}"))
        elif tools:
            start, end = self.spans.get("tools", (0, 0))
            start, end = (start, end) if end else (self.text.index("{") + 1,) * 2
            field = f"[{','.join(tools)}]"
            changes.append((start, end, field if start < end else f'"tools":{field},'))
        text = self.text
        for start, end, changed in sorted(changes, reverse=True):
            text = f"{text[:start]}{changed}{text[end:]}"
        return text.encode()


def read_body(raw: bytes, key: str) -> Body:
    r"""Read a request whose messages are under this key; raises ValueError for any other text.

    >>> body = read_body(b'{"model": "m", "input": [{"a": 1}, {"b":2}], "n": 1}', "input")
    >>> body.fields, [item.text for item in body.items]
    ({'model': 'm', 'n': 1}, ['{"a": 1}', '{"b":2}'])
    >>> body.with_items(['{"b":2}'])
    b'{"model": "m", "input": [{"b":2}], "n": 1}'
    >>> body.with_items(['{"b":2}'], ['{"name":"f"}'])
    b'{"tools":[{"name":"f"}],"model": "m", "input": [{"b":2}], "n": 1}'
    """
    text = raw.decode()
    opening = skip_blank(text, 0)
    if not text.startswith("{", opening):
        raise ValueError("it isn't an object")
    fields: dict[str, Any] = json.loads(text)
    parts, _ = parts_of(text, opening)
    spans = {part.name: (part.start, part.end) for part in parts}
    if len(spans) < len(parts):
        (twice, _), *_ = Counter(part.name for part in parts).most_common(1)
        raise ValueError(f"{twice!r} is there twice")
    items: list[Item] = []
    if isinstance(fields.get(key), list):
        entries = zip(fields.pop(key), parts_of(text, spans[key][0])[0], strict=True)
        items = [Item(value, text[part.start : part.end]) for value, part in entries]
    return Body(text, fields, spans, items, key)


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
