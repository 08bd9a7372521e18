"""JSON as it is written: where the members of a value stand in its text.

Values are cut in their source, not read and written anew, so that numbers, escapes, the order of
keys and white space stay as the tool gave them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from json import JSONDecoder
from typing import Any, NamedTuple

_SPACE = re.compile(r"[ \t\n\r]*")
_OPENING = re.compile(r'[ \t\n\r\ufeff]*(?:\[[ \t\n\r]*["{\[\]\-0-9tfn]|\{[ \t\n\r]*["}])')
_ROW = re.compile(r'\s*(?:\d{1,7}→)?\s*(?:\{\s*"|\[\s*["{\[\-0-9tfn])')

_NUMBER = re.compile(r" {0,7}\d{1,7}→")

# Numbers as they stand: reading them would cost time, and fails beyond 4,300 digits.
_DECODER = JSONDecoder(parse_int=str, parse_float=str, parse_constant=str)


class Member(NamedTuple):
    """One element of an array or one member of an object: where its value begins and ends."""

    key: str
    """"" in an array."""
    start: int
    end: int
    value: Any
    """As it was read, its numbers as strings."""


def looks_like_json(text: str) -> bool:
    """Whether it begins and ends like an array or an object."""
    found = _OPENING.match(text)
    if not found:
        return False
    opening = found[0].lstrip(" \t\n\r\ufeff")[0]
    return text[-4_096:].rstrip()[-1:] == ("]" if opening == "[" else "}")


def is_json(text: str) -> bool:
    """Whether the whole text is one array or object."""
    if not looks_like_json(text):
        return False
    try:
        start = skip(text, 1 if text[0] == "\ufeff" else 0)
        return skip(text, end_of(text, start)) == len(text)
    except (ValueError, RecursionError):
        return False


def are_rows(lines: list[str]) -> bool:
    """Whether nearly every line begins like an array or an object of its own."""
    return sum(1 for line in lines if _ROW.match(line)) > 0.9 * len(lines)


def row_number(line: str) -> int:
    """The length of the number that a tool put before a row."""
    found = _NUMBER.match(line)
    return found.end() if found else 0


def skip(text: str, at: int) -> int:
    """Where the next thing that is no white space stands."""
    found = _SPACE.match(text, at)
    return found.end() if found else at


def end_of(text: str, start: int) -> int:
    """Where the value that begins at `start` ends; raises ValueError, or RecursionError."""
    end = start
    for member in members(text, start):
        end = member.end
    end = skip(text, end if end > start else start + 1)
    if text[end : end + 1] not in ("]", "}"):
        raise ValueError(f"no end of the value at character {start}")
    return end + 1


def members(text: str, start: int) -> Iterator[Member]:
    """The members of the array or object that begins at `start`, in their order.

    Raises ValueError for what is no JSON, RecursionError for what is nested too deeply.

    >>> [member[:3] for member in members('{"a": 1, "b": [2]}', 0)]
    [('a', 6, 7), ('b', 14, 17)]
    """
    closing = {"[": "]", "{": "}"}[text[start]]
    at = skip(text, start + 1)
    if text[at : at + 1] == closing:
        return
    while True:
        key = ""
        if closing == "}":
            if text[at : at + 1] != '"':
                raise ValueError(f"no key at character {at}")
            key, at = _DECODER.raw_decode(text, at)
            at = skip(text, at)
            if text[at : at + 1] != ":":
                raise ValueError(f"no colon at character {at}")
            at = skip(text, at + 1)
        value, end = _DECODER.raw_decode(text, at)
        yield Member(key, at, end, value)
        at = skip(text, end)
        after = text[at : at + 1]
        if after == closing:
            return
        if after != ",":
            raise ValueError(f"no comma at character {at}")
        at = skip(text, at + 1)
