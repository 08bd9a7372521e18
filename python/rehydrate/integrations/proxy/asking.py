"""Asking back through the proxy: the model's own calls, which the client does not see.

A request whose messages were compacted offers two tools besides the client's own.
The proxy answers calls of them, sends the answers to the provider, and goes on with the next reply.
The client gets one answer, which the engine's `Replies` joins.

The provider saw more than the client did, and later requests must say the same again: it binds
thinking to what came before it, and caches by prefix. So an `Exchange` keeps what the client's own
message is in truth, and the engine's `with_exchanges` puts it back in later requests.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any, NamedTuple

from rehydrate._native import (
    Replies,
    RequestBody,
    RequestItem,
    result_entries,
    tool_definition,
)
from rehydrate._text import safe_error_text
from rehydrate.context.jit import Reader
from rehydrate.context.tool_calls import FETCH, REQUEST
from rehydrate.formats.calls import ToolCall
from rehydrate.messages import Provider

NAMES = [REQUEST.name, FETCH.name]
"""Names of the tools whose calls the proxy answers."""


def texts_of(items: Sequence[RequestItem], pieces: Iterable[int | str]) -> list[str]:
    """Return the text of each message, which is one of ours or an index of the client."""
    return [items[each].text if isinstance(each, int) else each for each in pieces]


def written(message: Any) -> str:
    """Return a message as JSON: the same text for the same message, at any time."""
    return json.dumps(message, separators=(",", ":"))


@cache
def tool_texts(wire: Provider) -> tuple[str, ...]:
    """Return the tools as a request lists them."""
    return tuple(
        written(tool_definition(wire, each.name, each.description, each.schema))
        for each in (REQUEST, FETCH)
    )


class Exchange(NamedTuple):
    """An answer as the client has it, and as it really was."""

    shown: tuple[Any, ...]
    """The answer as the client has it: a message, or items of Responses."""
    entries: tuple[Any, ...]
    """The messages that the provider sent and got."""
    results: tuple[Any, ...] = ()
    """Answers to our calls in the last reply: they come before the results of the client."""


MAX_ANSWERS = 8
"""To the questions of one answer."""


class Asking:
    """One request whose model may ask back: what is sent, and what answers."""

    def __init__(
        self,
        wire: Provider,
        body: RequestBody,
        texts: Sequence[str],
        reader: Callable[[], Reader],
        keep: Callable[[Exchange], None],
    ) -> None:
        """Take the messages as they are sent, a function that finds the ``reader`` of the others,
        and one that keeps an answer of which the client sees a part."""
        self._wire = wire
        self._body = body
        self._texts = [*texts]
        self._reader = reader
        self._keep = keep
        self._entries: list[Any] = []
        """The messages after the client's own."""
        self.answered = 0
        """Calls."""

    @property
    def is_streamed(self) -> bool:
        """Whether the client wants a stream of events."""
        return bool(self._body.fields.get("stream"))

    def replies(self) -> Replies:
        """Return an object that joins the replies to this request."""
        return Replies(self._wire, NAMES)

    def next_request(self, replies: Replies) -> bytes | None:
        """Answer our calls in the last reply, and return the body of the request that follows.

        None follows if there are no such calls, or if the client has calls to answer too.
        """
        calls = list(filter(None, map(ToolCall.read, replies.calls)))
        if not calls:
            if self._entries and replies.is_whole:
                self._keep(Exchange(replies.shown, (*self._entries, *replies.entries)))
            return None
        results = [self._answer(call) for call in calls]
        self.answered += len(results)
        if not replies.has_others:
            self._entries += [*replies.entries, *result_entries(results)]
            texts = [*self._texts, *map(written, self._entries)]
            return self._body.with_items(texts, tool_texts(self._wire))
        is_block = self._wire == "anthropic"
        entries = (*self._entries, *replies.entries, *(() if is_block else results))
        self._keep(Exchange(replies.shown, entries, tuple(results) if is_block else ()))
        return None

    def _answer(self, call: ToolCall) -> Any:
        if self.answered >= MAX_ANSWERS:
            limit = f"{call.name}: {MAX_ANSWERS} calls in one turn are the limit"
            return call.result(f"{limit}; answer with what you have", is_error=True)
        try:
            return self._reader().answer_to(call).result
        except Exception as error:
            why = safe_error_text(error, call.name)
            return call.result(f"{call.name}: {why}; answer with what you have", is_error=True)
