"""Asking back through the proxy: the model's own calls, which the client does not see.

A request whose messages were compacted offers two tools besides the client's own.
The proxy answers calls of them, sends the answers to the provider, and goes on with the next reply.
The client gets one answer, which `replies.Reply` joins.

The provider saw more than the client did, and later requests must say the same again: it binds
thinking to what came before it, and caches by prefix. So an `Exchange` keeps what the client's own
message is in truth, and `with_exchanges` puts it back in later requests.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from rehydrate._document import skip_blank
from rehydrate._native import result_entries, tool_definition, unmarked
from rehydrate._text import safe_error_text
from rehydrate.context.jit import Reader
from rehydrate.context.tool_calls import FETCH, REQUEST
from rehydrate.formats.calls import ToolCall
from rehydrate.integrations.proxy.replies import REPLIES, Reply
from rehydrate.messages import Provider

_CACHE_MARKS = ("cache_control", "prompt_cache_breakpoint", "cachePoint")


class Item(NamedTuple):
    """One message of a request."""

    value: Any
    text: str
    """As the client wrote it."""


class Body(NamedTuple):
    """A request's JSON object."""

    text: str
    fields: dict[str, Any]
    """Its values, without the messages."""
    spans: dict[str, tuple[int, int]]
    """Where each of its values is in the text."""
    items: list[Item]
    """The messages; none where they are not a list."""
    key: str
    """The field of the messages."""

    def written(self, name: str) -> str:
        """Return a value as the client wrote it; "" where there is none."""
        start, end = self.spans.get(name, (0, 0))
        return self.text[start:end]

    def texts(self, pieces: Iterable[int | str]) -> list[str]:
        """Return the text of each message, which is one of ours or an index of the client's."""
        return [self.items[each].text if isinstance(each, int) else each for each in pieces]

    def with_items(self, texts: Sequence[str], tools: Sequence[str] = ()) -> bytes:
        """Return the body with other messages, these tools too, and all else as the client wrote
        it."""
        changes = [(*self.spans[self.key], f"[{','.join(texts)}]")]
        if tools and self.fields.get("tools"):
            end = self.spans["tools"][1] - 1
            changes.append((end, end, f",{','.join(tools)}"))
        elif tools:
            start, end = self.spans.get("tools", (0, 0))
            start, end = (start, end) if end else (self.text.index("{") + 1,) * 2
            field = f"[{','.join(tools)}]"
            changes.append((start, end, field if start < end else f'"tools":{field},'))
        text = self.text
        for start, end, changed in sorted(changes, reverse=True):
            text = f"{text[:start]}{changed}{text[end:]}"
        return text.encode()


def read_body(raw: bytes, key: str) -> Body:
    r"""Read a request whose messages are under this key; raises ValueError for any other text.

    >>> body = read_body(b'{"model": "m", "input": [{"a": 1}, {"b":2}], "n": 1}', "input")
    >>> body.fields, [item.text for item in body.items]
    ({'model': 'm', 'n': 1}, ['{"a": 1}', '{"b":2}'])
    >>> body.with_items(['{"b":2}'])
    b'{"model": "m", "input": [{"b":2}], "n": 1}'
    >>> body.with_items(['{"b":2}'], ['{"name":"f"}'])
    b'{"tools":[{"name":"f"}],"model": "m", "input": [{"b":2}], "n": 1}'
    """
    text = raw.decode()
    fields: dict[str, Any] = {}
    spans: dict[str, tuple[int, int]] = {}
    items: list[Item] = []

    def read_item(at: int) -> int:
        value, end = _read_value(text, at)
        items.append(Item(value, text[at:end]))
        return end

    def read_member(at: int) -> int:
        name, end = _read_value(text, at)
        if not isinstance(name, str) or name in spans:
            raise ValueError(f"{name!r} is no name, or is there twice")
        _, _, start = _read_mark(text, end, ":")
        if name == key and text.startswith("[", start):
            end = _read_parts(text, start, "]", read_item)
        else:
            fields[name], end = _read_value(text, start)
        spans[name] = start, end
        return end

    opening = skip_blank(text, 0)
    if not text.startswith("{", opening):
        raise ValueError("it isn't an object")
    if skip_blank(text, _read_parts(text, opening, "}", read_member)) < len(text):
        raise ValueError("there is more after the object")
    return Body(text, fields, spans, items, key)


_read_value = json.JSONDecoder().raw_decode
_mark = re.compile(r"[ \t\r\n]*([,:\]}])[ \t\r\n]*")


def _read_mark(text: str, at: int, marks: str) -> tuple[str, int, int]:
    """Return which of the marks comes next, where it ends, and where the next thing is."""
    found = _mark.match(text, at)
    if found is None or found[1] not in marks:
        raise ValueError(f"there is none of {marks!r} at {at}")
    return found[1], found.end(1), found.end()


def _read_parts(text: str, opening: int, closing: str, read: Callable[[int], int]) -> int:
    """Read each part of an object or an array, and return where it ends."""
    at = skip_blank(text, opening + 1)
    if text.startswith(closing, at):
        return at + 1
    mark, marks = "", "," + closing
    while mark != closing:
        mark, end, at = _read_mark(text, read(at), marks)
    return end


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
    for value, text in items:
        yield unmarked(value) if any(mark in text for mark in _CACHE_MARKS) else value


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

    def length_at(self, values: Sequence[Any], at: int) -> int:
        """Return how many of the client's messages from an index on are those of the answer."""
        wanted = [outline for each in self.shown if (outline := _outline(each))]
        if not wanted:
            return 0
        for index in range(at, len(values)):
            outline = _outline(values[index])
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
    values = [item.value for item in items]
    found: list[Item] = []
    at = 0
    while at < len(items):
        lengths = [(each, each.length_at(values, at)) for each in known(at)]
        exchange, length = next((pair for pair in lengths if pair[1]), (None, 0))
        if exchange is None:
            found.append(items[at])
            at += 1
            continue
        found += [Item(each, written(each)) for each in exchange.entries]
        at += length
        if exchange.results and at < len(items):  # in the message of the client's own results
            message = in_blocks(values[at])
            message = {**message, "content": [*exchange.results, *message["content"]]}
            found.append(Item(message, written(message)))
            at += 1
    return found


MAX_ANSWERS = 8
"""To the questions of one answer."""


class Asking:
    """One request whose model may ask back: what is sent, and what answers."""

    def __init__(
        self,
        wire: Provider,
        body: Body,
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

    def reply(self) -> Reply:
        """Return what joins the replies to this request."""
        return REPLIES[self._wire]()

    def next_request(self, reply: Reply) -> bytes | None:
        """Answer our calls in the last reply, and return the body of the request that follows.

        None follows where there are no such calls, or where the client has calls to answer too.
        """
        if not reply.calls:
            if self._entries and reply.is_whole:
                self._keep(Exchange(reply.shown, (*self._entries, *reply.entries)))
            return None
        results = [self._answer(call) for call in reply.calls]
        self.answered += len(results)
        if not reply.has_others:
            self._entries += [*reply.entries, *result_entries(results)]
            texts = [*self._texts, *map(written, self._entries)]
            return self._body.with_items(texts, tool_texts(self._wire))
        is_block = self._wire == "anthropic"
        entries = (*self._entries, *reply.entries, *(() if is_block else results))
        self._keep(Exchange(reply.shown, entries, tuple(results) if is_block else ()))
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
