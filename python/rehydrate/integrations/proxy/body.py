"""The body of a request as its client wrote it: its values, and where each of them is in the text.

What a proxy does not change it sends as the client's own bytes, so the places matter: a message
that is written again may differ in blanks, escapes or numbers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from json.decoder import scanstring  # type: ignore[attr-defined]  # typeshed lacks it
from typing import Any, NamedTuple

_decode = json.JSONDecoder().raw_decode
_blank = re.compile(r"[ \t\n\r]*").match
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
    fields: dict[str, Any] = {}
    texts: dict[str, str] = {}
    items: list[Item] | None = None
    start = end = 0

    def item(at: int) -> int:
        value, to = _decode(text, at)
        assert items is not None
        items.append(Item(value, text[at:to]))
        return int(to)

    def member(at: int) -> int:
        nonlocal items, start, end
        if not text.startswith('"', at):
            raise ValueError(f"a name is missing at {at}")
        name, at = scanstring(text, at + 1)
        at = _after(text, at, ":")
        if name in texts or (name == key and items is not None):
            raise ValueError(f"{name!r} is there twice")
        if name == key and text.startswith("[", at):
            items, start = [], at
            end = _read_list(text, at, "]", item)
            return end
        value, to = _decode(text, at)
        fields[name], texts[name] = value, text[at:to]
        return to

    last = _read_list(text, _skip(text, 0), "}", member)
    if _skip(text, last) != len(text):
        raise ValueError(f"something follows the object at {last}")
    return Body(text, fields, texts, items or [], start, end)


def _read_list(text: str, at: int, close: str, read: Callable[[int], int]) -> int:
    """Read what is between brackets, with commas; return where it ends."""
    at = _after(text, at, "{" if close == "}" else "[")
    if text.startswith(close, at):
        return at + 1
    while True:
        at = _skip(text, read(at))
        if text.startswith(close, at):
            return at + 1
        at = _after(text, at, ",")


def _skip(text: str, at: int) -> int:
    """Return where the text goes on after blanks; most clients write none, or one."""
    if text[at : at + 1] > " ":
        return at
    found = _blank(text, at)
    assert found is not None
    return found.end()


def _after(text: str, at: int, sign: str) -> int:
    """Return where the text goes on after a sign and blanks; raises ValueError without it."""
    at = _skip(text, at)
    if not text.startswith(sign, at):
        raise ValueError(f"{sign!r} is missing at {at}")
    return _skip(text, at + 1)


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
