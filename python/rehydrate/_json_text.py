"""JSON read with the position of each value, so that values can be cut out letter for letter."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple

decode = json.JSONDecoder().raw_decode
"""Return the value that begins at a position, and where it ends."""
_blank = re.compile(r"[ \t\r\n]*")


class Span(NamedTuple):
    """Position of an entry in the text; `lead` is where the white space before it begins."""

    lead: int
    start: int
    end: int


def read_array(
    text: str, opening: int, expected: str = "',' delimiter"
) -> tuple[list[Any], list[Span], tuple[int, int]]:
    """Return the entries of the array whose bracket opens here, their positions, and its inside.

    Raises JSONDecodeError; `expected` is what it says of something else after an entry.
    """
    entries: list[Any] = []
    spans: list[Span] = []
    lead = opening + 1
    position = skip_blank(text, lead)
    if text[position : position + 1] == "]":
        return entries, spans, (lead, position)
    while True:
        entry, end = decode(text, position)
        entries.append(entry)
        spans.append(Span(lead, position, end))
        position = skip_blank(text, end)
        match text[position : position + 1]:
            case ",":
                lead = position + 1
                position = skip_blank(text, lead)
            case "]":
                return entries, spans, (opening + 1, position)
            case _:
                raise json.JSONDecodeError(f"Expecting {expected}", text, position)


def read_object(text: str, opening: int, read: Callable[[str, int], int]) -> int:
    """Return where the object ends whose brace opens here.

    `read` gets the name of each member and where its value begins, and returns where that ends.
    Raises JSONDecodeError.
    """
    position = skip_blank(text, opening + 1)
    if text.startswith("}", position):
        return position + 1
    while True:
        if not text.startswith('"', position):
            raise json.JSONDecodeError("Expecting a name in double quotes", text, position)
        name, position = decode(text, position)
        position = skip_blank(text, position)
        if not text.startswith(":", position):
            raise json.JSONDecodeError("Expecting ':' delimiter", text, position)
        position = skip_blank(text, read(name, skip_blank(text, position + 1)))
        match text[position : position + 1]:
            case ",":
                position = skip_blank(text, position + 1)
            case "}":
                return position + 1
            case _:
                raise json.JSONDecodeError("Expecting ',' delimiter", text, position)


def check_end(text: str, position: int) -> None:
    """Raise JSONDecodeError where more than white space is left."""
    rest = skip_blank(text, position)
    if rest != len(text):
        raise json.JSONDecodeError("Extra data", text, rest)


def skip_blank(text: str, position: int) -> int:
    """Return the position after the white space that JSON allows."""
    blank = _blank.match(text, position)
    return blank.end() if blank else position
