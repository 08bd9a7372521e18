"""A conversation in JSON, and its messages letter for letter as they stand there."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from rehydrate._json_text import check_end, read_array, skip_blank
from rehydrate._text import as_json
from rehydrate.errors import InvalidArgumentError


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
    opening = skip_blank(text, 0)
    if text[opening : opening + 1] != "[":
        raise json.JSONDecodeError("Expecting '['", text, opening)
    messages, spans, (_, closing) = read_array(text, opening, "',' or ']'")
    check_end(text, closing + 1)
    return JsonConversation(text, messages, [(span.start, span.end) for span in spans])
