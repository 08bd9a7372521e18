"""input_strings: the long strings in a tool's input, held without a copy of their own.

A parsed message has the input as compact JSON, a text that only the message holds. Its strings are
the entry's own objects where the entry holds values. Where the entry holds JSON, they are decoded
again from that JSON when they are needed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from rehydrate.formats._reading import is_langchain_message

_MAX_DEPTH = 8


class EncodedString(NamedTuple):
    """A long string in a JSON text, decoded again when it is needed."""

    json_text: str
    number: int
    """Its number among the long strings of the text."""
    least_characters: int
    """Shorter strings do not count."""

    def __str__(self) -> str:
        """Return the string."""
        return _decoded(self.json_text, self.least_characters)[self.number]


def input_strings(
    parsed_input: str, entry: Any, least_characters: int
) -> Iterator[tuple[str, str | EncodedString]]:
    """Yield the long strings of a tool's input, each with the object that holds it.

    ``parsed_input`` is the input as a message has it: the tool's name, a space, and JSON or another
    text.

    >>> entry = {"type": "tool_use", "name": "Write", "input": {"content": "a b c"}}
    >>> ((text, held),) = input_strings('Write {"content":"a b c"}', entry, 4)
    >>> text, held is entry["input"]["content"]
    ('a b c', True)
    """
    if len(parsed_input) < least_characters:
        return
    json_text = parsed_input.partition(" ")[2]
    own = {text: text for text in _strings_of_entry(entry) if len(text) >= least_characters}
    json_text = own.get(json_text, json_text)
    for number, text in enumerate(_long_strings(json_text, least_characters)):
        yield text, own.get(text) or EncodedString(json_text, number, least_characters)


def _strings_of_entry(entry: Any) -> Iterator[str]:
    """Yield every string that an entry holds; each object is visited once."""
    stack, visited = [entry], set()
    while stack:
        value = stack.pop()
        if isinstance(value, str):
            yield value
        elif id(value) not in visited:
            visited.add(id(value))
            inner = value if isinstance(value, (Mapping, list, tuple)) else _attributes(value)
            stack += inner.values() if isinstance(inner, Mapping) else inner


def _attributes(value: Any) -> Mapping[str, Any]:
    """Return the attributes of a LangChain message; none of other objects."""
    return getattr(value, "__dict__", {}) if is_langchain_message(value) else {}


@lru_cache(maxsize=32)
def _decoded(json_text: str, least_characters: int) -> tuple[str, ...]:
    return tuple(_long_strings(json_text, least_characters))


def _long_strings(json_text: str, least_characters: int) -> Iterator[str]:
    """Yield the long strings in a JSON text; a text that is not JSON is one string."""
    try:
        value = json.loads(json_text)
    except (ValueError, RecursionError):
        yield json_text
    else:
        yield from _long_strings_in(value, least_characters, 0)


def _long_strings_in(value: Any, least_characters: int, depth: int) -> Iterator[str]:
    if isinstance(value, str):
        if len(value) >= least_characters:
            yield value
    elif depth < _MAX_DEPTH and isinstance(value, (dict, list)):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _long_strings_in(inner, least_characters, depth + 1)
