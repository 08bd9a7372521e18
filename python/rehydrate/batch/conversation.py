"""A conversation in JSON, and its messages letter for letter as they stand there."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from rehydrate._text import as_json
from rehydrate.errors import InvalidArgumentError

_decode = json.JSONDecoder().raw_decode
_blank = re.compile(r"[ \t\r\n]*")


class JsonConversation(NamedTuple):
    """The messages of a JSON list, and where each stands in it."""

    text: str
    messages: list[Any]
    spans: list[tuple[int, int]]

    @classmethod
    def read(cls, text: str) -> JsonConversation:
        """Read a JSON list of messages; raises InvalidArgumentError for anything else.

        >>> read = JsonConversation.read('[{"role": "user", "content": "hi"}]')
        >>> read.messages, read.spans
        ([{'role': 'user', 'content': 'hi'}], [(1, 34)])
        """
        try:
            return _read(text)
        except json.JSONDecodeError as error:
            raise InvalidArgumentError(
                f"messages is no JSON list: {error.msg} at character {error.pos}; "
                "pass the JSON of a list of messages"
            ) from None
        except RecursionError:
            raise InvalidArgumentError(
                "messages is nested too deeply; pass the JSON of a list of messages"
            ) from None
        except ValueError:  # more digits than Python reads
            raise InvalidArgumentError(
                "messages holds a number of thousands of digits; shorten it"
            ) from None

    def written(self, kept: Sequence[Any], indices: Sequence[int]) -> str:
        """Return kept messages as JSON: those that did not change as they stand in the text.

        `indices` are those of `Compaction.indices`, parallel to the kept messages.
        """
        parts = []
        for message, index in zip(kept, indices, strict=True):
            if 0 <= index < len(self.messages) and message is self.messages[index]:
                start, end = self.spans[index]
                parts.append(self.text[start:end])
            else:
                parts.append(as_json(message))
        return f"[{','.join(parts)}]"


def _read(text: str) -> JsonConversation:
    messages: list[Any] = []
    spans: list[tuple[int, int]] = []
    position = _skip(text, 0)
    if text[position : position + 1] != "[":
        raise json.JSONDecodeError("Expecting '['", text, position)
    position = _skip(text, position + 1)
    if text[position : position + 1] == "]":
        _check_end(text, position + 1)
        return JsonConversation(text, messages, spans)
    while True:
        message, end = _decode(text, position)
        messages.append(message)
        spans.append((position, end))
        position = _skip(text, end)
        match text[position : position + 1]:
            case ",":
                position = _skip(text, position + 1)
            case "]":
                _check_end(text, position + 1)
                return JsonConversation(text, messages, spans)
            case _:
                raise json.JSONDecodeError("Expecting ',' or ']'", text, position)


def _check_end(text: str, position: int) -> None:
    rest = _skip(text, position)
    if rest != len(text):
        raise json.JSONDecodeError("Extra data", text, rest)


def _skip(text: str, position: int) -> int:
    """Return the position behind the white space that JSON allows."""
    blank = _blank.match(text, position)
    return blank.end() if blank else position
