"""Reply: several replies of a provider as one answer, without the calls that the proxy answers.

Events of a stream pass as they come. An event that names a part by its place in the answer gets
the place that it has there. What ends a reply waits until it is known whether another follows.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from rehydrate.agent.anthropic import MessageAccumulator, resendable_blocks
from rehydrate.agent.openai import (
    ChatAccumulator,
    ResponseAccumulator,
    resendable_items,
    resendable_message,
)
from rehydrate.context.tool_calls import FETCH, REQUEST
from rehydrate.formats.calls import ToolCall
from rehydrate.messages import Provider

NAMES = (REQUEST.name, FETCH.name)
_CALLS = ("tool_use", "function_call", "function", None)
"""The types of calls; pieces of a call have none."""
_BETWEEN_TEXTS = "\n\n"
Event = dict[str, Any]


def is_ours(call: Mapping[str, Any]) -> bool:
    """Return whether the proxy answers a call; calls of a server's tools the provider answers.

    >>> is_ours({"type": "tool_use", "name": "ls"}), is_ours({"function": {"name": "fetch_whole"}})
    (False, True)
    >>> is_ours({"type": "mcp_call", "name": "fetch_whole"})
    False
    """
    return call.get("type") in _CALLS and has_our_name(call)


def has_our_name(tool: Mapping[str, Any]) -> bool:
    """Return whether a tool or a call has the name of a tool of the proxy."""
    return tool.get("name") in NAMES or (tool.get("function") or {}).get("name") in NAMES


class Reply(ABC):
    """One answer to a client. `begin` each reply, then `feed` its events or `take` it whole."""

    _joins: ClassVar[type[MessageAccumulator | ChatAccumulator | ResponseAccumulator]]
    """What joins the events of a reply."""

    def __init__(self) -> None:
        """Start without a reply."""
        self._bodies: list[dict[str, Any]] = []
        self._held: list[Event] = []
        """The events that end the reply."""
        self._places: dict[Any, int | None] = {}
        """Where each part of the reply is in the answer; None: nowhere."""
        self._shown_parts = 0
        self._replies = 0

    @abstractmethod
    def _visible(self, event: Event) -> Iterator[Event]:
        """Yield the events that the client gets of one; hold back what ends a reply."""

    def joined(self) -> dict[str, Any]:
        """Return the answer, of all replies."""
        return self._joined_of(self._bodies)

    @abstractmethod
    def _joined_of(self, bodies: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Return one answer of replies, without calls of ours."""

    @abstractmethod
    def _calls_in(self, body: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the calls of a reply that is complete."""

    @abstractmethod
    def _entries_in(self, body: Mapping[str, Any]) -> list[Any]:
        """Return a reply as messages of the next request."""

    @abstractmethod
    def _ending(self, event: Event, answer: Mapping[str, Any]) -> Event:
        """Return an event that was held back, as it ends this answer."""

    def begin(self) -> None:
        """Begin the next reply."""
        self._replies += 1
        self._held, self._places, self._accumulator = [], {}, self._joins()

    def feed(self, data: str) -> Iterator[bytes]:
        """Yield what the client gets of an event, which is JSON."""
        try:
            event = json.loads(data)
        except ValueError:  # [DONE], which `end` says
            return
        for each in self._visible(event):
            yield _framed(each)
        self._accumulator.add(event)

    def take(self, body: dict[str, Any]) -> None:
        """Take a reply that is whole."""
        self._bodies.append(body)

    def finish(self) -> None:
        """Take the reply whose events were fed, if it is whole."""
        body = self._accumulator.body()
        if body is not None:
            self._bodies.append(body)

    def end(self) -> Iterator[bytes]:
        """Yield what ends the stream."""
        answer = self.joined() if self.is_whole else {}
        for event in self._held:
            yield _framed(self._ending(event, answer) if answer else event)

    @property
    def is_whole(self) -> bool:
        """Whether the reply that was begun last came to its end."""
        return len(self._bodies) == self._replies

    @property
    def calls(self) -> list[ToolCall]:
        """The calls of the last reply that the proxy answers."""
        found = self._calls_in(self._bodies[-1]) if self.is_whole else []
        return [read for call in found if is_ours(call) and (read := ToolCall.read(call))]

    @property
    def has_others(self) -> bool:
        """Whether the last reply has calls for the client too."""
        return not all(map(is_ours, self._calls_in(self._bodies[-1])))

    @property
    def entries(self) -> list[Any]:
        """The last reply as messages of the next request; a call of ours that was cut off is not
        in it, since nothing answers it."""
        if not self.is_whole:
            return []
        return self._entries_in(
            self._bodies[-1] if self.calls else self._joined_of(self._bodies[-1:])
        )

    @property
    def shown(self) -> tuple[Any, ...]:
        """The answer as the client has it in its next request."""
        return tuple(self._entries_in(self.joined()))

    def _show(self, part: Any) -> None:
        self._places[part] = self._shown_parts
        self._shown_parts += 1


class MessagesReply(Reply):
    """Of Anthropic Messages."""

    _joins = MessageAccumulator

    def _visible(self, event: Event) -> Iterator[Event]:
        kind, block = event.get("type"), event.get("index")
        if kind in ("message_delta", "message_stop"):
            self._held.append(event)
        elif kind == "content_block_start" and is_ours(event["content_block"]):
            self._places[block] = None
        elif block is not None:
            if kind == "content_block_start":
                self._show(block)
            if (place := self._places.get(block)) is not None:
                yield {**event, "index": place}
        elif kind != "message_start" or self._replies == 1:
            yield event

    def _ending(self, event: Event, answer: Mapping[str, Any]) -> Event:
        return {**event, "usage": answer["usage"]} if event["type"] == "message_delta" else event

    def _joined_of(self, bodies: Sequence[dict[str, Any]]) -> dict[str, Any]:
        blocks = [block for body in bodies for block in body["content"] if not is_ours(block)]
        return {**bodies[-1], "content": blocks, "usage": _usage(bodies)}

    def _calls_in(self, body: Mapping[str, Any]) -> list[dict[str, Any]]:
        if body.get("stop_reason") != "tool_use":
            return []
        return [block for block in body["content"] if block.get("type") == "tool_use"]

    def _entries_in(self, body: Mapping[str, Any]) -> list[Any]:
        blocks = resendable_blocks(body["content"], "answer")
        return [{"role": "assistant", "content": blocks}] if blocks else []


class ChatReply(Reply):
    """Of Chat Completions."""

    _head: Mapping[str, Any] = {}
    """What each event of the answer has from the first."""
    _has_text_before = False

    _joins = ChatAccumulator

    def _visible(self, event: Event) -> Iterator[Event]:
        choices = event.get("choices")
        if not choices:
            if event.get("usage"):
                self._held.append({**event, **self._head})
            else:
                yield event
            return
        choice = choices[0]
        delta = dict(choice.get("delta") or {})
        if self._replies == 1:
            self._head = {key: event[key] for key in ("id", "created") if key in event}
        else:
            delta.pop("role", None)
        if (content := delta.get("content")) and self._has_text_before:
            delta["content"] = _joined_contents([_BETWEEN_TEXTS, content], "")
            self._has_text_before = False
        if "tool_calls" in delta:
            delta["tool_calls"] = list(self._visible_calls(delta["tool_calls"] or ()))
            if not delta["tool_calls"]:
                del delta["tool_calls"]
        shown = {**event, **self._head}
        if choice.get("finish_reason"):
            ending = {**choice, "delta": {}}
            self._held.append({**shown, "choices": [ending]})
            shown.pop("usage", None)
        elif self._held and event.get("usage"):  # some servers write a choice next to the usage
            self._held.append({**shown, "choices": []})
            del shown["usage"]
        if any(value is not None for value in delta.values()):
            yield {**shown, "choices": [{**choice, "delta": delta, "finish_reason": None}]}

    def _visible_calls(self, deltas: Any) -> Iterator[dict[str, Any]]:
        for delta in deltas:
            part = delta.get("index")
            if (delta.get("function") or {}).get("name"):
                if is_ours(delta):
                    self._places[part] = None
                elif self._places.get(part) is None or part is None:
                    self._show(part)
            place = self._places.get(part)
            if place is not None:
                yield {**delta, "index": place}

    def begin(self) -> None:
        """Begin the next reply."""
        self._has_text_before = bool(_contents(self._bodies))
        super().begin()

    def end(self) -> Iterator[bytes]:
        """Yield what ends the stream."""
        yield from super().end()
        yield b"data: [DONE]\n\n"

    def _ending(self, event: Event, answer: Mapping[str, Any]) -> Event:
        return {**event, "usage": answer["usage"]} if event.get("usage") else event

    def _joined_of(self, bodies: Sequence[dict[str, Any]]) -> dict[str, Any]:
        last = bodies[-1]
        choice = last["choices"][0]
        message = dict(choice["message"])
        if contents := _contents(bodies):
            message["content"] = _joined_contents(contents, _BETWEEN_TEXTS)
        calls = [call for call in message.pop("tool_calls", None) or () if not is_ours(call)]
        if calls:
            message["tool_calls"] = calls
        return {**last, "choices": [{**choice, "message": message}], "usage": _usage(bodies)}

    def _calls_in(self, body: Mapping[str, Any]) -> list[dict[str, Any]]:
        choice = body["choices"][0]
        if choice.get("finish_reason") in ("length", "content_filter"):
            return []
        return list(choice["message"].get("tool_calls") or ())

    def _entries_in(self, body: Mapping[str, Any]) -> list[Any]:
        message = body["choices"][0]["message"]
        return [resendable_message(message, message.get("tool_calls") or ())]


class ResponsesReply(Reply):
    """Of Responses. Reasoning waits for the item that follows it: it goes with our calls."""

    _joins = ResponseAccumulator

    _waiting: list[Event]
    _sequence = 0

    def begin(self) -> None:
        """Begin the next reply."""
        self._waiting = []
        super().begin()

    def _visible(self, event: Event) -> Iterator[Event]:
        for each in self._in_place(event):
            shown = {**each, "sequence_number": self._sequence}
            self._sequence += 1
            yield shown

    def _in_place(self, event: Event) -> Iterator[Event]:
        kind, part = str(event.get("type")), event.get("output_index")
        if kind in _ENDS:
            yield from self._let_go()
            self._held.append(event)
        elif part is None:
            if kind not in _BEGINNINGS or self._replies == 1:
                yield event
        elif kind == "response.output_item.added" and is_ours(event["item"]):
            self._waiting = []
            self._places[part] = None
        elif kind == "response.output_item.added" and event["item"].get("type") == "reasoning":
            yield from self._let_go()
            self._waiting = [event]
        elif self._waiting and part == self._waiting[0]["output_index"]:
            self._waiting.append(event)
        else:
            yield from self._let_go()
            if kind == "response.output_item.added":
                self._show(part)
            if (place := self._places.get(part)) is not None:
                yield {**event, "output_index": place}

    def _let_go(self) -> Iterator[Event]:
        if self._waiting:
            self._show(self._waiting[0]["output_index"])
        for event in self._waiting:
            yield {**event, "output_index": self._places[event["output_index"]]}
        self._waiting = []

    def _ending(self, event: Event, answer: Mapping[str, Any]) -> Event:
        # Clients check that all events are of one response.
        response = {**answer, "id": self._bodies[0].get("id")}
        self._sequence += 1
        return {**event, "response": response, "sequence_number": self._sequence - 1}

    def _joined_of(self, bodies: Sequence[dict[str, Any]]) -> dict[str, Any]:
        output = [item for body in bodies for item in _without_ours(body["output"])]
        return {**bodies[-1], "output": output, "usage": _usage(bodies)}

    def _calls_in(self, body: Mapping[str, Any]) -> list[dict[str, Any]]:
        if body.get("status", "completed") != "completed":
            return []
        return [item for item in body["output"] if item.get("type") == "function_call"]

    def _entries_in(self, body: Mapping[str, Any]) -> list[Any]:
        return resendable_items(body["output"], "answer")


_BEGINNINGS = ("response.created", "response.in_progress", "response.queued")
_ENDS = ("response.completed", "response.incomplete", "response.failed")
REPLIES: Mapping[Provider, type[Reply]] = {
    "anthropic": MessagesReply,
    "openai_chat": ChatReply,
    "openai_responses": ResponsesReply,
}


def error_event(raw: bytes, wire: Provider | None) -> bytes:
    r"""Return an error of the provider as the event that ends a stream.

    >>> error_event(b'{"error":{"message":"busy"}}', "openai_chat")
    b'data: {"error":{"message":"busy"}}\n\n'
    """
    try:
        error = json.loads(raw)
        assert isinstance(error, dict)
    except (ValueError, AssertionError):
        error = {"error": {"type": "api_error", "message": raw.decode(errors="replace")[:500]}}
    return _framed(error if wire == "openai_chat" else {"type": "error", **error})


def _without_ours(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    kept: list[dict[str, Any]] = []
    for before, item in zip([{}, *items], items, strict=False):
        if not is_ours(item):
            kept.append(item)
        elif before.get("type") == "reasoning":
            kept.pop()
    return kept


def _contents(bodies: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Return the contents of chat completions: texts, or lists of parts."""
    messages = [body["choices"][0]["message"] for body in bodies]
    return [content for each in messages if (content := each.get("content"))]


def _joined_contents(contents: Sequence[Any], between: str) -> Any:
    """Return contents as one, a text where all are.

    >>> _joined_contents(["a", "b"], ", "), _joined_contents(["a", [{"type": "image"}]], ", ")
    ('a, b', [{'type': 'text', 'text': 'a'}, {'type': 'image'}])
    """
    if all(isinstance(each, str) for each in contents):
        return between.join(contents)
    parts = [[{"type": "text", "text": e}] if isinstance(e, str) else e for e in contents]
    return [part for each in parts for part in each]


def _usage(bodies: Sequence[Mapping[str, Any]]) -> Any:
    return _added([body.get("usage") for body in bodies])


def _added(values: list[Any]) -> Any:
    """Return the sum of the numbers in objects of one shape.

    >>> _added([{"output": 3, "of": {"cached": 1}}, {"output": 4, "of": {"cached": 2}}])
    {'output': 7, 'of': {'cached': 3}}
    """
    last = values[-1]
    if isinstance(last, Mapping):
        same = [value for value in values if isinstance(value, Mapping)]
        names = {name: None for value in same for name in value}
        return {name: _added([value.get(name) for value in same]) for name in names}
    numbers = [
        value for value in values if isinstance(value, (int, float)) and not isinstance(value, bool)
    ]
    return sum(numbers) if numbers and not isinstance(last, (bool, str)) else last


def _framed(event: Event) -> bytes:
    """Return an event as a stream has it; those of Chat Completions have no type."""
    name = f"event: {event['type']}\n" if "type" in event else ""
    return f"{name}data: {json.dumps(event, separators=(',', ':'))}\n\n".encode()
