"""A conversation as a text holds it, read so that kept entries can be written byte for byte.

A `Document` holds the entries next to their exact text. Dropped entries are cut out of the text.
Numbers, escapes, indentation and everything around the messages (an API request's `system` and
`tools`) are never rewritten. Values and error texts are those of `json`; where a value is in a text
that `json` has read, the engine finds (`parts_of`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from rehydrate import _native
from rehydrate._text import as_json
from rehydrate.errors import InvalidArgumentError

EXPECTED = "a JSON array of messages, JSON Lines, or a Claude Code transcript"

# The keys under which an object keeps its messages, best first: a request, a Responses request, a
# response, a trajectory of SWE-agent's.
_LISTS = ("messages", "input", "output", "history")


class Part(NamedTuple):
    """A member of an object or an entry of an array, and where it is in the text."""

    name: str
    """Of a member; an entry has none."""
    lead: int
    """Where the white space before it begins."""
    start: int
    """Where its value begins."""
    end: int


class Document(NamedTuple):
    """A file's entries and the text they were read from.

    `frame` is the inside of the brackets for an array, None for lines. `around` are the other keys
    of the object around the messages.
    """

    name: str
    text: str
    entries: list[Any]
    spans: list[Part]
    frame: tuple[int, int] | None = None
    around: tuple[str, ...] = ()

    def keep(self, indices: Collection[int], changed: Mapping[int, Any] | None = None) -> str:
        """Return the text with only these entries in it; with all of them, the same text.

        They are written in the order of the indices. `changed` maps indices to new entries: kept in
        part, or replaced by an outline.
        """
        changed = changed or {}
        if len(indices) == len(self.entries) and not changed:
            return self.text
        leads = [self.text[span.lead : span.start] for span in map(self.spans.__getitem__, indices)]
        kept = [self._entry(index, changed) for index in indices]
        if self.frame is None:
            return "".join([lead + entry for lead, entry in zip(leads, kept, strict=True)])
        opened, closed = self.frame
        if not kept:
            return self.text[:opened] + self.text[closed:]
        # The first kept entry goes where the first entry was. Each other follows its own white
        # space, and the bracket closes as it did after the last entry.
        leads[0] = self.text[: self.spans[0].start]
        written = ",".join([lead + entry for lead, entry in zip(leads, kept, strict=True)])
        return written + self.text[self.spans[-1].end :]

    def _entry(self, index: int, changed: Mapping[int, Any]) -> str:
        """Return the text of one entry; in a file of lines with its line break."""
        _, _, start, end = self.spans[index]
        if index not in changed:
            return self.text[start:end]
        written = as_json(changed[index])
        return written + "\n" if self.text[start:end].endswith("\n") else written

    def line_of(self, index: int) -> int:
        """Return the line on which an entry begins, from 1."""
        return self.text.count("\n", 0, self.spans[index].start) + 1


def document_of(name: str, text: str) -> Document:
    """Read the conversation in a text; raises InvalidArgumentError."""
    start = skip_blank(text, 0)
    try:
        match text[start : start + 1]:
            case "":
                raise InvalidArgumentError(f"{name} is empty; expected {EXPECTED}")
            case "[":
                return _list_document(name, text, json.loads(text), start)
            case "{":
                return _object_or_lines(name, text, start)
    except json.JSONDecodeError as error:
        raise _not_json(name, text, error, error.lineno) from None
    except RecursionError:
        raise InvalidArgumentError(f"{name} is nested too deeply; expected {EXPECTED}") from None
    except InvalidArgumentError:  # the same, from here
        raise
    except ValueError:  # more digits than Python reads
        raise InvalidArgumentError(
            f"{name} holds a number of thousands of digits; shorten it"
        ) from None
    opening = text[start : start + 30].splitlines()[0]
    raise InvalidArgumentError(
        f"{name} is not JSON: it begins with {opening!r}; expected {EXPECTED}"
    )


def decoded(data: bytes, name: str) -> str:
    """Return a file's bytes as text; raises InvalidArgumentError."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        remedy = "convert it, for example with iconv -f UTF-16 -t UTF-8"
        raise InvalidArgumentError(f"{name} is UTF-16, expected UTF-8; {remedy}")
    if data.startswith(b"\x1f\x8b"):
        raise InvalidArgumentError(
            f"{name} is compressed; unpack it: gunzip -c FILE | rehydrate compact -"
        )
    if b"\0" in data[:65_536]:
        raise InvalidArgumentError(f"{name} is a binary file; expected {EXPECTED}")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InvalidArgumentError(
            f"line {line} of {name} is not UTF-8 (byte 0x{data[error.start]:02x}); convert the "
            "file, for example with iconv -f LATIN1 -t UTF-8"
        ) from None


def _object_or_lines(name: str, text: str, start: int) -> Document:
    value, end = json.JSONDecoder().raw_decode(text, start)
    rest = skip_blank(text, end)
    if rest == len(text):
        return _object_document(name, text, value, start)
    if "\n" in text[start:end]:
        line = text.count("\n", 0, rest) + 1
        raise InvalidArgumentError(
            f"line {line} of {name} begins a second JSON value; put each on a line of its own "
            "(jq -c .) or all in one array (jq -s .)"
        )
    return _lines_document(name, text)


def _list_document(
    name: str, text: str, entries: list[Any], start: int, around: tuple[str, ...] = ()
) -> Document:
    spans, closing = parts_of(text, start)
    return Document(name, text, entries, spans, (start + 1, closing), around)


def _object_document(name: str, text: str, value: dict[str, Any], start: int) -> Document:
    """Read an object around the messages, or the only line of a file of lines."""
    keys = list(value)
    is_entry = "role" in keys or "type" in keys
    for key in _LISTS:
        # An entry may have an output of its own; none has messages.
        if isinstance(value.get(key), list) and (key == "messages" or not is_entry):
            around = tuple(other for other in keys if other != key)
            opening = {part.name: part.start for part in parts_of(text, start)[0]}[key]
            return _list_document(name, text, value[key], opening, around)
    if is_entry:
        return _lines_document(name, text, whole=True)
    shown = ", ".join(keys[:6]) or "nothing"
    raise InvalidArgumentError(
        f"{name} is an object without a 'messages', 'input', 'output' or 'history' list (it holds "
        f"{shown}); "
        "pass one with it, or the list itself"
    )


def _lines_document(name: str, text: str, *, whole: bool = False) -> Document:
    """Read one entry a line; `whole`: one entry on all the lines."""
    entries: list[Any] = []
    spans: list[Part] = []
    lead = 0
    number = 0
    while lead < len(text):
        number += 1
        end = len(text) if whole else (text.find("\n", lead) + 1 or len(text))
        start = skip_blank(text, lead)
        if start < end:
            try:
                entry = json.loads(text[lead:end])
            except json.JSONDecodeError as error:
                raise _not_json(name, text, error, number) from None
            if _is_conversation(entry):
                raise InvalidArgumentError(
                    f"line {number} of {name} holds a whole conversation; compact one at a time: "
                    f"sed -n {number}p FILE | rehydrate compact -"
                )
            entries.append(entry)
            spans.append(Part("", lead, start, end))
        lead = end
    return Document(name, text, entries, spans)


def _is_conversation(entry: object) -> bool:
    if not isinstance(entry, dict) or {"role", "type"} & entry.keys():
        return False
    return "messages" in entry or any(isinstance(entry.get(key), list) for key in _LISTS)


def _not_json(name: str, text: str, error: json.JSONDecodeError, line: int) -> InvalidArgumentError:
    problem = error.msg.removesuffix(" at")
    if line > text.rstrip().count("\n"):
        remedy = "it is the last line: the file may have been cut off there"
    else:
        remedy = "correct the line or delete it"
    return InvalidArgumentError(
        f"line {line} of {name} is not JSON: {problem} at column {error.colno}; {remedy}"
    )


def parts_of(text: str, opening: int) -> tuple[list[Part], int]:
    """Return the parts of the object or the array whose bracket opens here, and where it closes.

    The text must be JSON. Raises RecursionError where it is nested too deeply.

    >>> parts_of('{"a": [1] }', 0)
    ([Part(name='a', lead=1, start=6, end=9)], 10)
    """
    found = _native.json_parts(text, opening)
    if found is None:
        raise RecursionError("JSON is nested too deeply")
    parts = list(map(Part._make, found))
    return parts, skip_blank(text, parts[-1].end if parts else opening + 1)


_blank = re.compile(r"[ \t\r\n]*")


def skip_blank(text: str, position: int) -> int:
    """Return the position after the white space that JSON allows."""
    blank = _blank.match(text, position)
    return blank.end() if blank else position
