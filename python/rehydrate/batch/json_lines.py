"""A table in JSON Lines: an object a line, with ``id``, ``messages`` and perhaps ``query``.

The messages are kept letter for letter.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from rehydrate import _native
from rehydrate._concurrency.workers import usable_cores
from rehydrate._native import as_unicode
from rehydrate._text import as_json
from rehydrate.errors import InvalidArgumentError

Part = tuple[str, int, int]
"""A member's name, "" for an entry, and where its value begins and ends."""


class JsonConversation(NamedTuple):
    """The messages of a JSON list, and where each is in it."""

    text: str
    messages: list[Any]
    spans: list[Part]

    @classmethod
    def read(cls, text: str) -> JsonConversation:
        """Read a JSON list of messages; raises InvalidArgumentError for anything else.

        >>> read = JsonConversation.read('[{"role": "user", "content": "hi"}]')
        >>> read.messages, read.spans
        ([{'role': 'user', 'content': 'hi'}], [('', 1, 34)])
        """
        with _said_of("messages", "no JSON list", "pass the JSON of a list of messages"):
            return cls(text, *_parts(text, "["))

    def written(self, kept: Sequence[Any], indices: Sequence[int]) -> str:
        """Return kept messages as JSON: those that did not change as they are in the text.

        `indices` are those of `Compaction.indices`, parallel to the kept messages.
        """
        parts = []
        for message, index in zip(kept, indices, strict=True):
            if 0 <= index < len(self.messages) and message is self.messages[index]:
                _, start, end = self.spans[index]
                parts.append(self.text[start:end])
            else:
                parts.append(as_json(message))
        return f"[{','.join(parts)}]"


@contextmanager
def _said_of(subject: str, wanted: str, remedy: str) -> Iterator[None]:
    """Raise InvalidArgumentError for JSON that the block cannot read."""
    try:
        yield
    except json.JSONDecodeError as error:
        raise InvalidArgumentError(
            f"{subject} is {wanted}: {error.msg} at character {error.pos}; {remedy}"
        ) from None
    except RecursionError:
        raise InvalidArgumentError(f"{subject} is nested too deeply; {remedy}") from None
    except ValueError:  # more digits than Python reads
        raise InvalidArgumentError(
            f"{subject} holds a number of thousands of digits; shorten it"
        ) from None


_HEAD_BYTES = 64 << 10


def is_table(path: Path) -> bool:
    """Return whether a file of lines is a table: its first line is an object with messages and an
    id, or one of several with messages.

    A single object with messages is the body of a request, and so a conversation.
    """
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES).removeprefix(b"\xef\xbb\xbf").lstrip()
        if not head.startswith(b"{") or b'"messages"' not in head:
            return False
        file.seek(0)
        line = next((line for line in file if line.strip(b"\xef\xbb\xbf \t\r\n")), b"")
        has_more = any(following.strip() for following in file)
    try:
        row = json.loads(line.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return False
    if not isinstance(row, dict) or {"role", "type"} & row.keys() or "messages" not in row:
        return False
    return has_more or "id" in row


class LineRow(NamedTuple):
    """The content of a line: its id as text, the JSON of its messages, and its query."""

    id: str | None
    messages: str
    query: str | None

    @classmethod
    def read(cls, line: bytes) -> LineRow:
        """Read a line; raises InvalidArgumentError for one that is not a row.

        >>> LineRow.read(b'{"id": 7, "messages": [{"role":"user"} ], "query": null}')
        LineRow(id='7', messages='[{"role":"user"} ]', query=None)
        """
        try:
            text = line.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise InvalidArgumentError(
                f"the line is no UTF-8 from byte {error.start} on; pass UTF-8"
            ) from None
        remedy = "pass an object with id and messages on each line"
        with _said_of("the line", "no JSON object", remedy):
            fields = _fields(text)
        if "messages" not in fields:
            names = ", ".join(list(fields)[:8]) or "nothing"
            raise InvalidArgumentError(f"the line has no messages (it has {names}); {remedy}")
        value, written = fields["messages"]
        name = fields.get("id", (None, ""))[0]
        query = fields.get("query", (None, ""))[0]
        if not isinstance(query, (str, type(None))):
            raise InvalidArgumentError(f"query is of type {type(query).__name__}; pass a text")
        return cls(
            None if name is None else as_unicode(name if isinstance(name, str) else as_json(name)),
            value if isinstance(value, str) else written,
            query,
        )


def _fields(text: str) -> dict[str, tuple[Any, str]]:
    """Return the values of an object's fields, each with its text letter for letter."""
    values, parts = _parts(text, "{")
    return {name: (values[name], text[start:end]) for name, start, end in parts}


def _parts(text: str, bracket: str) -> tuple[Any, list[Part]]:
    """Return the value of a JSON text that begins with this bracket, and its parts."""
    opening = len(text) - len(text.lstrip(" \t\r\n"))
    if text[opening : opening + 1] != bracket:
        raise json.JSONDecodeError(f"Expecting {bracket!r}", text, opening)
    value, parts = json.loads(text), _native.json_parts(text, opening)
    if parts is None:
        raise RecursionError("JSON is nested too deeply")
    return value, parts


T = TypeVar("T")

MAX_THREADS = 4
"""More threads than these only wait for the interpreter's lock."""
_TAKEN_ROWS = 8
_SAMPLED_ROWS = 64
_SHORT_CHARS = 8_000
"""Rows whose mean is shorter are done sooner by one thread (benches/python/batch/threads.py)."""


def usable_threads(threads: int | None, rows: _native.ArrowRows, column: str) -> int:
    """Return the number of threads; None means those that help: a thread a core, at most 4, and
    one alone for short texts."""
    if threads is not None:
        return threads
    sample = [len(text) for text in rows.texts(column, 0, _SAMPLED_ROWS) if text is not None]
    if sum(sample) < len(sample) * _SHORT_CHARS:
        return 1
    return min(usable_cores(), MAX_THREADS)


def spread(rows: int, work: Callable[[int, int], list[T]], threads: int) -> list[T]:
    """Return what `work(start, end)` returns for all rows, in order.

    The first exception ends it, and is raised.
    """

    def part(start: int) -> list[T]:
        was_alone = _native.set_alone(True)
        try:
            return work(start, min(start + _TAKEN_ROWS, rows))
        finally:
            _native.set_alone(was_alone)

    starts = range(0, rows, _TAKEN_ROWS)
    if min(threads, len(starts)) <= 1:
        return list(chain.from_iterable(map(part, starts)))
    with ThreadPoolExecutor(min(threads, len(starts)), "rehydrate-batch") as pool:
        return list(chain.from_iterable(pool.map(part, starts)))
