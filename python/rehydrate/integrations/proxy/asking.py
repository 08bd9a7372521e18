"""Asking back through the proxy: the model's own calls, which the client does not see.

A request whose messages were compacted offers two tools besides the client's own.
The proxy answers calls of them, sends the answers to the provider, and goes on with the next reply.
The client gets one answer, which the engine's `Replies` joins.

The provider saw more than the client did, and later requests must say the same again: it binds
thinking to what came before it, and caches by prefix. So an `Exchange` keeps what the client's own
message is in truth, and `with_exchanges` puts it back in later requests.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from rehydrate._native import Replies, RequestBody, result_entries, tool_definition, unmarked
from rehydrate._text import safe_error_text
from rehydrate.context.jit import Reader
from rehydrate.context.tool_calls import FETCH, REQUEST
from rehydrate.formats.calls import ToolCall
from rehydrate.messages import Provider

NAMES = [REQUEST.name, FETCH.name]
"""Of the tools whose calls the proxy answers."""
_CACHE_MARKS = ("cache_control", "prompt_cache_breakpoint", "cachePoint")


class Item:
    """One message of a request: as the client wrote it, and its value, which is read where it is
    needed. Most are not: what is known of a text, its value need not say again."""

    __slots__ = ("_value", "text")

    def __init__(self, text: str, value: Any = None) -> None:
        """Take the text; raises nothing, whatever it is."""
        self.text = text
        self._value = value

    @property
    def value(self) -> Any:
        """The message; raises ValueError where the text is no JSON."""
        if self._value is None:
            self._value = json.loads(self.text)
        return self._value


def texts_of(items: Sequence[Item], pieces: Iterable[int | str]) -> list[str]:
    """Return the text of each message, which is one of ours or an index of the client's."""
    return [items[each].text if isinstance(each, int) else each for each in pieces]


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
    for item in items:
        is_marked = any(mark in item.text for mark in _CACHE_MARKS)
        yield unmarked(item.value) if is_marked else item.value


@cache
def tool_texts(wire: Provider) -> tuple[str, ...]:
    """Return the tools as a request lists them."""
    return tuple(
        written(tool_definition(wire, each.name, each.description, each.schema))
        for each in (REQUEST, FETCH)
    )


class Exchange(NamedTuple):
    """What the messages of an answer are in truth."""

    shown: tuple[Any, ...]
    """The answer as the client has it: a message, or items of Responses."""
    entries: tuple[Any, ...]
    """What the provider sent and got."""
    results: tuple[Any, ...] = ()
    """Answers to our calls in the last reply: they come before the results of the client's."""

    def length_at(self, items: Sequence[Item], at: int) -> int:
        """Return how many of the client's messages from an index on are those of the answer."""
        wanted = [outline for each in self.shown if (outline := _outline(each))]
        if not wanted:
            return 0
        for index in range(at, len(items)):
            outline = _outline(items[index].value)
            if outline is not None and outline != wanted.pop(0):
                return 0
            if not wanted:
                return index + 1 - at
        return 0


def _outline(entry: Any) -> tuple[str, ...] | None:
    """Return what stays the same of an answer when a client sends it again; None for reasoning,
    which it may leave out."""
    if not isinstance(entry, Mapping):
        return (str(entry),)
    if entry.get("type") == "reasoning":
        return None
    content = entry.get("content")
    blocks = [{"text": content}] if isinstance(content, str) else list(content or ())
    blocks += [entry] if "call_id" in entry else entry.get("tool_calls") or ()
    texts = "".join([str(each.get("text") or "") for each in blocks if isinstance(each, Mapping)])
    ids = [each.get("call_id") or each.get("id") for each in blocks if isinstance(each, Mapping)]
    return ("".join(texts.split()), *[str(each) for each in ids if each])


def with_exchanges(items: Sequence[Item], known: Callable[[int], Sequence[Exchange]]) -> list[Item]:
    """Return a client's messages with what it did not see of their answers.

    ``known`` returns the answers that were given to the first so many messages.
    """
    found: list[Item] = []
    at = 0
    while at < len(items):
        lengths = [(each, each.length_at(items, at)) for each in known(at)]
        exchange, length = next((pair for pair in lengths if pair[1]), (None, 0))
        if exchange is None:
            found.append(items[at])
            at += 1
            continue
        found += [Item(written(each), each) for each in exchange.entries]
        at += length
        if exchange.results and at < len(items):  # in the message of the client's own results
            message = in_blocks(items[at].value)
            message = {**message, "content": [*exchange.results, *message["content"]]}
            found.append(Item(written(message), message))
            at += 1
    return found


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
        """Take the messages as they are sent, what finds the ``reader`` of the others, and what
        keeps an answer of which the client sees a part."""
        self._wire = wire
        self._body = body
        self._texts = [*texts]
        self._reader = reader
        self._keep = keep
        self._entries: list[Any] = []
        """What came after the client's messages."""
        self.answered = 0
        """Calls."""

    @property
    def is_streamed(self) -> bool:
        """Whether the client wants a stream of events."""
        return bool(self._body.fields.get("stream"))

    def replies(self) -> Replies:
        """Return what joins the replies to this request."""
        return Replies(self._wire, NAMES)

    def next_request(self, replies: Replies) -> bytes | None:
        """Answer our calls in the last reply, and return the body of the request that follows.

        None follows where there are no such calls, or where the client has calls to answer too.
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
