"""Telemetry: OpenTelemetry's spans and metrics, made from the events of turns and by memories.

It follows the semantic conventions for generative AI, v0.1.0 (github.com/
open-telemetry/semantic-conventions-genai, as read on 2026-11-28), the first release of their own;
the general conventions had them until version 1.41.1. They are in development, and no schema URL
of v0.1.0 is known, so none is set. ``invoke_agent`` is a turn, ``chat {model}`` a request to the
model, ``execute_tool {name}`` a tool call, also of request_context; those of a memory are in
`traced_memory`. Names of our own begin with ``rehydrate.``.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from rehydrate._check import check_type
from rehydrate._native import (
    provider_name,
    span_attributes,
    span_texts,
)
from rehydrate._text import result_text
from rehydrate.agent import events
from rehydrate.agent.spans import NS_PER_SECOND, Attributes, OpenSpan, Spans, class_name
from rehydrate.cost.prices import Usage
from rehydrate.errors import MissingPackageError

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.util.types import AttributeValue

    from rehydrate.agent.traced_memory import Content, Record
    from rehydrate.memory.memory import Memory


_POSTGRES_PORT = 5432
"""That of a server whose URL has none."""
_COMPACTED = "gen_ai.conversation.compacted"
"""Set for a request that sends a compacted view of the conversation; it is true or not there."""

_NO_ERROR = ("answer", "length", "refusal")
"""Values of `Turn.stopped` that are not errors of the turn."""


@dataclass(slots=True)
class _RunningTurn:
    """The spans of a turn that runs."""

    started: events.TurnStarted
    span: OpenSpan
    outer_context: Context
    """The current context when the turn began."""
    context: Context
    """The context in which the turn's span is the current one."""
    parent: _RunningTurn | None
    """The turn of the same Telemetry that runs this one: an agent may be a tool of another."""
    chat: OpenSpan | None = None
    is_compacted: bool = False
    """Whether the last prompt is a compacted view of the conversation."""
    tools: dict[str, OpenSpan] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    """Totals for the turn's span, by attribute name."""

    def count(self, name: str, number: int = 1) -> None:
        self.counts[name] = self.counts.get(name, 0) + number


# An event does not name its turn, so a context variable does: the tasks of a turn's tools inherit
# it, and turns in other tasks have their own. One variable serves all Telemetry objects, because a
# ContextVar is never freed; each looks up its own turn in it.
_NO_TURNS: Mapping[Telemetry, _RunningTurn] = MappingProxyType({})
_running_turns: ContextVar[Mapping[Telemetry, _RunningTurn]] = ContextVar(
    "telemetry", default=_NO_TURNS
)


class Telemetry(Spans):
    """Spans and metrics of turns: ``Interpreter(model, on_event=Telemetry())``.

    Without providers it uses the program's global ones. One Telemetry serves any number of turns
    and Interpreters at the same time. A turn's span is a child of the span that is current when the
    turn begins. During a request to the model or a tool call, its span is the current one.
    ``agent`` is the agent's name. With ``content`` the spans hold queries, replies, arguments and
    results; without it, numbers, names and ids only. To send spans to two places, give the provider
    two processors. `trace_memory` makes spans of what a memory is asked.

    It never raises during a turn: an error of an exporter or a span processor is logged once.
    Raises MissingPackageError without opentelemetry-api (``pip install rehydrate[telemetry]``).

    >>> from rehydrate import Context
    >>> from rehydrate.agent.interpreter import Interpreter
    >>> from rehydrate.testing.scripted_model import ScriptedModel
    >>> telemetry = Telemetry(agent="harbour master")
    >>> agent = Interpreter(ScriptedModel(["Berth 4."]), jit=False, on_event=telemetry)
    >>> agent.run(Context(), "Which berth is free?").answer
    'Berth 4.'
    """

    def __call__(self, event: events.Event) -> None:
        """Record an event of a turn."""
        try:
            if isinstance(event, events.TurnStarted):
                self._start_turn(event)
            elif (turn := _running_turns.get().get(self)) is not None:
                self._continue_turn(turn, event)
        except Exception:
            self._log_failure()

    def _start_turn(self, event: events.TurnStarted) -> None:
        outer = self._context.get_current()
        span = self._start("invoke_agent", self._agent, outer, span_attributes(event))
        self._record_content(span, event)
        running = _running_turns.get()
        inside = self._make_current(span, outer)
        turn = _RunningTurn(event, span, outer, inside, running.get(self))
        _running_turns.set({**running, self: turn})

    def _continue_turn(self, turn: _RunningTurn, event: events.Event) -> None:
        match event:
            case events.PromptBuilt():
                self._start_request(turn, event)
            case events.TextDelta():
                self._record_first_chunk(turn)
            case events.Retrying():
                self._retry_request(turn, event)
            case events.ModelReplied():
                self._end_request(turn, event)
            case events.ToolStarted():
                self._start_tool(turn, event)
            case events.ToolEnded():
                self._end_tool(turn, event)
            case events.ContextRequested():
                self._record_context_request(turn, event)
            case events.SectionAdded(late_bound=True):
                turn.count("late_bound.sections")
                turn.count("late_bound.tokens", event.tokens)
                late_bound = self._counters["rehydrate.late_bound.tokens"]
                late_bound.add(event.tokens, {"rehydrate.source": event.source})
            case events.Compacted():
                if event.why == "overflow":
                    self._end_chat(turn, "rehydrate.errors.ContextOverflowError")
                turn.count("compactions")
                turn.count("compacted_tokens", event.before_tokens - event.after_tokens)
                self._counters["rehydrate.compactions"].add(1, {"rehydrate.why": event.why})
            case events.TurnEnded():
                self._end_turn(turn, event)

    def record_request(
        self,
        provider: str,
        model: str,
        seconds: float,
        *,
        before_tokens: int,
        tokens: int,
        prefix: str,
        headers: Mapping[str, str],
        attributes: Attributes,
        is_compacted: bool = False,
        error: str = "",
        usage: Usage | None = None,
    ) -> None:
        """Record a request of another program that has ended, which the proxy passed on.

        ``headers`` are the client's: its trace goes on. ``attributes`` go on the span too.
        """
        try:
            from opentelemetry import propagate

            about: dict[str, AttributeValue] = {
                "gen_ai.provider.name": provider_name(provider),
                "gen_ai.request.model": model,
                "rehydrate.prompt.tokens": tokens,
                "rehydrate.before_tokens": before_tokens,
                "rehydrate.prefix": prefix,
                "rehydrate.prefix.kept": prefix in ("new", "kept"),
            }
            if is_compacted:
                about[_COMPACTED] = True
            start_ns = time.time_ns() - int(seconds * NS_PER_SECOND)
            client = propagate.extract(headers)
            opened = self._start("chat", model, client, {**about, **attributes}, start_ns)
            named = {**opened.metric_attributes}
            named.pop("gen_ai.operation.name", None)
            if prefix == "compacted":
                self._counters["rehydrate.compactions"].add(1, {"rehydrate.why": "budget"})
            if prefix in ("compacted", "changed"):
                self._counters["rehydrate.prefix.breaks"].add(1, named)
            if is_compacted:
                self._counters["rehydrate.left_out.tokens"].add(before_tokens - tokens, named)
            if usage is not None:
                self._set_usage(opened, usage)
            self._end(opened, error)
        except Exception:
            self._log_failure()

    def trace_memory(self, memory: Memory) -> Memory:
        """Return the same memory, each operation of which is a span: ``search_memory``,
        ``create_memory``, ``update_memory`` and ``delete_memory``, a child of the span that is
        current.

        ``memory`` is any `Memory`, of a file, a server or a store of yours; it goes on without
        spans. The namespace is the store's id. With ``content`` the spans hold the query and the
        records, without their secrets.

        >>> import tempfile
        >>> from rehydrate import Memory
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with Telemetry().trace_memory(Memory.open(f"{folder}/memory.db")) as memory:
        ...         added = memory.add("Staging listens on 8443.", namespace="alice")
        ...         memory.search("staging", namespace="alice")[0].snippet
        'Staging listens on 8443.'
        """
        from rehydrate.agent.traced_memory import TracedMemory
        from rehydrate.memory.memory import Memory

        check_type("memory", memory, Memory, "pass a rehydrate.Memory")
        return TracedMemory.of(memory, self._memory_span)

    @contextmanager
    def _memory_span(self, operation: str, namespace: str | None, place: str) -> Iterator[Record]:
        """Hold the span of an operation open, as the current one."""
        opened = token = None
        about: dict[str, AttributeValue] = {"gen_ai.memory.store.id": namespace or ""}
        try:
            # A server's URL may name several hosts.
            is_remote = "://" in place
            first = urlsplit(place).netloc.partition(",")[0] if is_remote else ""
            server = urlsplit(f"//{first}")
            if server.hostname:
                about["server.address"] = server.hostname
                about["server.port"] = server.port or _POSTGRES_PORT
            outer = self._context.get_current()
            opened = self._start(operation, "", outer, about, is_remote=is_remote)
            token = self._context.attach(self._trace.set_span_in_context(opened.span, outer))
        except Exception:
            self._log_failure()

        def record(attributes: Attributes, content: Content | None = None) -> None:
            try:
                if opened is None or not opened.span.is_recording():
                    return
                opened.span.set_attributes(attributes)
                if self._content and content is not None:
                    texts = {name: result_text(each) for name, each in content().items()}
                    opened.span.set_attributes(texts)
            except Exception:
                self._log_failure()

        error = ""
        try:
            yield record
        except BaseException as raised:
            error = class_name(raised)
            raise
        finally:
            if token is not None:
                self._context.detach(token)
            if opened is not None:
                self._end(opened, error)

    # Requests to the model

    def _start_request(self, turn: _RunningTurn, event: events.PromptBuilt) -> None:
        self._end_chat(turn, "_OTHER")
        turn.is_compacted = event.is_compacted
        chat = self._start_chat(turn, time.time_ns())
        if not event.is_prefix_kept:
            turn.count("prefix.breaks")
            self._counters["rehydrate.prefix.breaks"].add(1, turn.span.metric_attributes)
        chat.span.set_attributes(span_attributes(event))
        self._record_content(chat, event)

    def _start_chat(self, turn: _RunningTurn, start_ns: int) -> OpenSpan:
        attributes = span_attributes(turn.started)
        if turn.is_compacted:
            attributes = {**attributes, _COMPACTED: True}
        turn.chat = chat = self._start(
            "chat", turn.started.model, turn.context, attributes, start_ns
        )
        self._make_current(chat, turn.context)
        return chat

    def _record_first_chunk(self, turn: _RunningTurn) -> None:
        if turn.chat is not None and not turn.chat.has_text:
            turn.chat.has_text = True
            seconds = (time.time_ns() - turn.chat.start_ns) / NS_PER_SECOND
            turn.chat.span.set_attributes(
                {"gen_ai.request.stream": True, "gen_ai.response.time_to_first_chunk": seconds}
            )

    def _retry_request(self, turn: _RunningTurn, event: events.Retrying) -> None:
        self._end_chat(turn, class_name(event.error))
        turn.count("retries")
        # No event marks the end of the wait, so the next span starts when the wait should end.
        self._start_chat(turn, time.time_ns() + int(event.delay_seconds * NS_PER_SECOND))

    def _end_request(self, turn: _RunningTurn, event: events.ModelReplied) -> None:
        chat = turn.chat
        if chat is None:
            return
        chat.span.set_attributes(span_attributes(event))
        self._record_content(chat, event)
        if event.model:
            chat.metric_attributes["gen_ai.response.model"] = event.model
        self._set_usage(chat, event.usage)
        self._end_chat(turn)

    def _end_chat(self, turn: _RunningTurn, error: str = "") -> None:
        chat, turn.chat = turn.chat, None
        if chat is not None:
            self._end(chat, error)
            self._context.attach(turn.context)

    # Tool calls

    def _start_tool(self, turn: _RunningTurn, event: events.ToolStarted) -> None:
        opened = self._start("execute_tool", event.tool, turn.context, span_attributes(event))
        turn.tools[event.call_id] = opened
        self._make_current(opened, turn.context)
        self._record_content(opened, event)

    def _end_tool(self, turn: _RunningTurn, event: events.ToolEnded) -> None:
        opened = turn.tools.pop(event.call_id, None)
        if opened is not None:
            opened.span.set_attributes(span_attributes(event))
            self._record_content(opened, event)
            self._end(opened, "tool_error" if event.is_error else "")
            self._context.attach(turn.context)

    def _record_context_request(self, turn: _RunningTurn, event: events.ContextRequested) -> None:
        turn.count("context_requests")
        start_ns = time.time_ns() - int(event.elapsed_ms * 1e6)
        opened = self._start(
            "execute_tool", event.tool, turn.context, span_attributes(event), start_ns
        )
        self._record_content(opened, event)
        self._end(opened, "tool_error" if event.is_error else "")

    # The end of a turn

    def _end_turn(self, turn: _RunningTurn, event: events.TurnEnded) -> None:
        ended = event.turn
        error = "" if ended.stopped in _NO_ERROR else str(ended.stopped)
        if ended.error is not None:
            error = class_name(ended.error)
        others = {key: each for key, each in _running_turns.get().items() if key is not self}
        _running_turns.set(others if turn.parent is None else {**others, self: turn.parent})
        if turn.chat is not None and time.time_ns() < turn.chat.start_ns:
            turn.chat = None  # still in the wait for a retry; only a span that ends is exported
        try:
            self._end_chat(turn, error or "_OTHER")
            for opened in turn.tools.values():
                self._end(opened, error or "_OTHER")
            counts = {f"rehydrate.{name}": number for name, number in turn.counts.items()}
            turn.span.span.set_attributes({**span_attributes(event), **counts})
            self._record_content(turn.span, event)
            self._end(turn.span, error)
        finally:
            self._context.attach(turn.outer_context)

    def _record_content(self, opened: OpenSpan, event: events.Event) -> None:
        """Put the event's texts on a span, unless content is not recorded."""
        if self._content:
            opened.span.set_attributes(span_texts(event))


def program_telemetry() -> Telemetry | None:
    """Return a recorder for the program's own providers if OpenTelemetry is installed, such as
    those that `opentelemetry-instrument` sets. Without providers it records nothing."""
    try:
        return Telemetry()
    except MissingPackageError:
        return None
