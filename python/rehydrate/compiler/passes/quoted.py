"""Quoted: the long strings in a tool's input, held so that they take no memory of their own.

What a tool was called with is read as compact JSON, a text that nobody else has. Its strings are
the entry's own where the entry holds objects; where it holds JSON, they are read again from that.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from rehydrate.formats._reading import is_langchain_message

_DEEPEST = 8


class Quoted(NamedTuple):
    """A long string in a JSON text: read again where it is wanted."""

    given: str
    number: int
    """Which of its long strings."""
    least: int

    def __str__(self) -> str:
        """The string."""
        return _read_again(self.given, self.least)[self.number]


def own_strings(said: str, entry: Any, least: int) -> Iterator[tuple[str, str | Quoted]]:
    """The strings of `least` characters and more in a tool's input, and what holds each.

    ``said`` is the input as it is read: the tool's name, a blank and JSON, or another text.

    >>> entry = {"type": "tool_use", "name": "Write", "input": {"content": "a b c"}}
    >>> ((text, held),) = own_strings('Write {"content":"a b c"}', entry, 4)
    >>> text, held is entry["input"]["content"]
    ('a b c', True)
    """
    if len(said) < least:
        return
    given = said.partition(" ")[2]
    own = {text: text for text in _own(entry) if len(text) >= least}
    given = own.get(given, given)
    for number, text in enumerate(_strings_in(given, least)):
        yield text, own.get(text) or Quoted(given, number, least)


def _own(entry: Any) -> Iterator[str]:
    """Every string that an entry holds, each object looked into once."""
    waiting, looked_into = [entry], set()
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield value
        elif id(value) not in looked_into:
            looked_into.add(id(value))
            inside = value if isinstance(value, (Mapping, list, tuple)) else _fields(value)
            waiting += inside.values() if isinstance(inside, Mapping) else inside


def _fields(value: Any) -> Mapping[str, Any]:
    """Those of a message object."""
    return getattr(value, "__dict__", {}) if is_langchain_message(value) else {}


@lru_cache(maxsize=32)
def _read_again(given: str, least: int) -> tuple[str, ...]:
    return tuple(_strings_in(given, least))


def _strings_in(given: str, least: int) -> Iterator[str]:
    try:
        value = json.loads(given)
    except (ValueError, RecursionError):
        yield given
    else:
        yield from _strings(value, least, 0)


def _strings(value: Any, least: int, depth: int) -> Iterator[str]:
    if isinstance(value, str):
        if len(value) >= least:
            yield value
    elif depth < _DEEPEST and isinstance(value, (dict, list)):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _strings(inner, least, depth + 1)
