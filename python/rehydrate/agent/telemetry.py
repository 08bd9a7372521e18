"""Telemetry: OpenTelemetry's spans and metrics, made from the events of turns.

It follows the semantic conventions for generative AI, version 1.42.0-dev (github.com/
open-telemetry/semantic-conventions-genai). They are in development; the general conventions had
them until version 1.41.1. ``invoke_agent`` is a turn, ``chat {model}`` a request to the model,
``execute_tool {name}`` a tool call, also of request_context. Names of our own begin with
``rehydrate.``.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from rehydrate._native import __version__
from rehydrate._text import logged_type, result_text
from rehydrate.agent import events
from rehydrate.cost.prices import Usage
from rehydrate.errors import MissingPackageError

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Span, TracerProvider
    from opentelemetry.util.types import AttributeValue

    from rehydrate.agent.events import Turn


Attributes = Mapping[str, "AttributeValue"]

_CALL_SECONDS = tuple(0.01 * 2**power for power in range(14))
_TURN_SECONDS = tuple(0.1 * 2**power for power in range(13))
_TOKENS = tuple(4**power for power in range(14))
_HISTOGRAMS: Mapping[str, tuple[str, str, Sequence[float]]] = {
    "gen_ai.client.token.usage": ("{token}", "Tokens used.", _TOKENS),
    "gen_ai.client.operation.duration": ("s", "A model's reply.", _CALL_SECONDS),
    "gen_ai.invoke_agent.duration": ("s", "A turn.", _TURN_SECONDS),
    "gen_ai.execute_tool.duration": ("s", "A tool call.", _CALL_SECONDS),
}
_COUNTERS = {
    "rehydrate.late_bound.tokens": ("{token}", "Context that models asked for."),
    "rehydrate.compactions": ("{compaction}", "Histories that were made shorter."),
    "rehydrate.prefix.breaks": ("{prompt}", "Prompts that lost what was cached."),
    "rehydrate.left_out.tokens": ("{token}", "What the proxy did not send."),
}
NS_PER_SECOND = 1_000_000_000
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class OpenSpan:
    """A span that has started and not ended."""

    span: Span
    operation: str
    start_ns: int
    metric_attributes: Attributes
    """The attributes of its duration in the metrics."""
    has_text: bool = False


def non_empty(attributes: Mapping[str, AttributeValue | None]) -> dict[str, AttributeValue]:
    """Return the attributes without those that are None or empty."""
    return {name: value for name, value in attributes.items() if value is not None and value != ""}


def class_name(error: BaseException) -> str:
    """Return the full class name of an error, never its message: that may hold private text."""
    kind = type(error)
    name = kind.__qualname__
    return name if kind.__module__ == "builtins" else f"{kind.__module__}.{name}"


_COMPACTED = "gen_ai.conversation.compacted"
"""Of a request whose history was compacted; it is true or not there."""
SCHEMA_URL = "https://opentelemetry.io/schemas/gen-ai-dev/1.42.0-dev"

_PROVIDERS = {
    "openai_chat": "openai",
    "openai_responses": "openai",
    "gemini": "gcp.gemini",
    "bedrock": "aws.bedrock",
}
_FINISH = {"answer": "stop", "calls": "tool_call", "refusal": "content_filter"}
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


class Telemetry:
    """Spans and metrics of turns: ``Interpreter(model, on_event=Telemetry())``.

    Without providers it uses the program's global ones. One Telemetry serves any number of turns
    and Interpreters at the same time. A turn's span is a child of the span that is current when the
    turn begins. During a request to the model or a tool call, its span is the current one.
    ``agent`` is the agent's name. With ``content`` the spans hold queries, replies, arguments and
    results; without it, numbers, names and ids only. To send spans to two places, give the provider
    two processors.

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

    def __init__(
        self,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        *,
        content: bool = False,
        agent: str = "",
    ) -> None:
        """Take the providers. Records nothing yet."""
        try:
            from opentelemetry import context, metrics, trace
        except ImportError:
            raise MissingPackageError(
                "rehydrate[telemetry]", "makes OpenTelemetry's spans"
            ) from None
        self._context, self._trace = context, trace
        self._tracer = trace.get_tracer("rehydrate", __version__, tracer_provider, SCHEMA_URL)
        meter = metrics.get_meter("rehydrate", __version__, meter_provider, SCHEMA_URL)
        self._histograms = {
            name: meter.create_histogram(
                name, unit, about, explicit_bucket_boundaries_advisory=buckets
            )
            for name, (unit, about, buckets) in _HISTOGRAMS.items()
        }
        self._counters = {
            name: meter.create_counter(name, *about) for name, about in _COUNTERS.items()
        }
        self._content = content
        self._agent = agent
        self._has_failed = False

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
        metric_attributes = non_empty(
            {"gen_ai.agent.name": self._agent, "gen_ai.request.model": event.model}
        )
        span = self._start(
            "invoke_agent", self._agent, outer, _conversation_attributes(event), metric_attributes
        )
        if event.query is not None:
            messages = _messages("user", event.query)
            self._record_content(span, "gen_ai.input.messages", messages)
        running = _running_turns.get()
        inside = self._make_current(span, outer)
        turn = _RunningTurn(event, span, outer, inside, running.get(self))
        _running_turns.set({**running, self: turn})

    def _make_current(self, opened: OpenSpan, parent: Context) -> Context:
        """Make the context in which a span is the current one that of this task; return it.

        The token is not kept: the turn may end in another task, which could not use it.
        """
        context = self._trace.set_span_in_context(opened.span, parent)
        self._context.attach(context)
        return context

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
                self._end_turn(turn, event.turn)

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

            named = non_empty(
                {
                    "gen_ai.provider.name": _PROVIDERS.get(provider, provider),
                    "gen_ai.request.model": model,
                }
            )
            about: dict[str, AttributeValue] = {
                "rehydrate.prompt.tokens": tokens,
                "rehydrate.before_tokens": before_tokens,
                "rehydrate.prefix": prefix,
                "rehydrate.prefix.kept": prefix in ("new", "kept"),
            }
            if is_compacted:
                about[_COMPACTED] = True
            start_ns = time.time_ns() - int(seconds * NS_PER_SECOND)
            opened = self._start(
                "chat",
                model,
                propagate.extract(headers),
                {**named, **about, **attributes},
                {"gen_ai.operation.name": "chat", **named},
                start_ns,
            )
            if prefix == "compacted":
                self._counters["rehydrate.compactions"].add(1, {"rehydrate.why": "budget"})
            if prefix in ("compacted", "changed"):
                self._counters["rehydrate.prefix.breaks"].add(1, named)
            if is_compacted:
                self._counters["rehydrate.left_out.tokens"].add(before_tokens - tokens, named)
            if usage is not None:
                self._record_usage(opened, usage)
            self._end(opened, error)
        except Exception:
            self._log_failure()

    # Requests to the model

    def _start_request(self, turn: _RunningTurn, event: events.PromptBuilt) -> None:
        self._end_chat(turn, "_OTHER")
        chat = self._start_chat(turn, time.time_ns())
        if not event.is_prefix_kept:
            turn.count("prefix.breaks")
            self._counters["rehydrate.prefix.breaks"].add(1, turn.span.metric_attributes)
        if turn.counts.get("compactions"):
            chat.span.set_attribute(_COMPACTED, True)
        chat.span.set_attributes(
            {
                "rehydrate.step": event.step,
                "rehydrate.prompt.tokens": event.tokens,
                "rehydrate.prompt.upper_bound_tokens": event.upper_bound_tokens,
                "rehydrate.prompt.shared_tokens": event.shared_tokens,
                "rehydrate.prompt.sections": event.sections,
                "rehydrate.prompt.seconds": event.elapsed_ms / 1e3,
                "rehydrate.prefix.kept": event.is_prefix_kept,
            }
        )

    def _start_chat(self, turn: _RunningTurn, start_ns: int) -> OpenSpan:
        attributes = _conversation_attributes(turn.started)
        metric_attributes = {"gen_ai.operation.name": "chat", **attributes}
        # Each conversation would be one more time series.
        metric_attributes.pop("gen_ai.conversation.id", None)
        turn.chat = chat = self._start(
            "chat", turn.started.model, turn.context, attributes, metric_attributes, start_ns
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
        finish = _FINISH.get(event.stop, event.stop)
        chat.span.set_attributes(
            non_empty(
                {
                    "gen_ai.response.model": event.model,
                    "gen_ai.response.id": event.response_id,
                    "gen_ai.response.finish_reasons": [finish],
                    "rehydrate.calls": event.calls,
                    "rehydrate.dollars": event.dollars,
                }
            )
        )
        messages = _messages("assistant", event.text, finish_reason=finish)
        self._record_content(chat, "gen_ai.output.messages", messages)
        named = non_empty({"gen_ai.response.model": event.model})
        chat.metric_attributes = {**chat.metric_attributes, **named}
        self._record_usage(chat, event.usage)
        self._end_chat(turn)

    def _record_usage(self, chat: OpenSpan, usage: Usage) -> None:
        chat.span.set_attributes(_usage_attributes(usage))
        tokens = self._histograms["gen_ai.client.token.usage"]
        for kind, count in (("input", usage.input), ("output", usage.output)):
            tokens.record(count, {**chat.metric_attributes, "gen_ai.token.type": kind})

    def _end_chat(self, turn: _RunningTurn, error: str = "") -> None:
        chat, turn.chat = turn.chat, None
        if chat is not None:
            self._end(chat, error)
            self._context.attach(turn.context)

    # Tool calls

    def _start_tool(self, turn: _RunningTurn, event: events.ToolStarted) -> None:
        opened = self._new_tool_span(turn, event.tool, event.call_id, "function")
        turn.tools[event.call_id] = opened
        self._make_current(opened, turn.context)
        self._record_content(opened, "gen_ai.tool.call.arguments", event.arguments)

    def _end_tool(self, turn: _RunningTurn, event: events.ToolEnded) -> None:
        opened = turn.tools.pop(event.call_id, None)
        if opened is not None:
            opened.span.set_attribute("rehydrate.result.chars", event.chars)
            self._record_content(opened, "gen_ai.tool.call.result", event.result)
            self._end(opened, "tool_error" if event.is_error else "")
            self._context.attach(turn.context)

    def _record_context_request(self, turn: _RunningTurn, event: events.ContextRequested) -> None:
        turn.count("context_requests")
        start_ns = time.time_ns() - int(event.elapsed_ms * 1e6)
        opened = self._new_tool_span(turn, event.tool, event.call_id, "datastore", start_ns)
        opened.span.set_attributes(
            non_empty(
                {
                    "rehydrate.request.scope": event.scope,
                    "rehydrate.request.sections": event.found,
                    "rehydrate.request.tokens": event.tokens,
                    "rehydrate.request.remaining": event.remaining,
                }
            )
        )
        self._record_content(opened, "gen_ai.retrieval.query.text", event.query)
        self._end(opened, "tool_error" if event.is_error else "")

    def _new_tool_span(
        self, turn: _RunningTurn, tool: str, call_id: str, kind: str, start_ns: int = 0
    ) -> OpenSpan:
        metric_attributes = {"gen_ai.tool.name": tool, "gen_ai.tool.type": kind}
        attributes = {**metric_attributes, "gen_ai.tool.call.id": call_id}
        return self._start(
            "execute_tool", tool, turn.context, attributes, metric_attributes, start_ns
        )

    # The end of a turn

    def _end_turn(self, turn: _RunningTurn, ended: Turn) -> None:
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
            turn.span.span.set_attributes(
                {
                    "rehydrate.stopped": ended.stopped,
                    "rehydrate.steps": ended.steps,
                    **non_empty({"rehydrate.dollars": ended.dollars}),
                    **_usage_attributes(ended.usage),
                    **counts,
                }
            )
            self._record_content(
                turn.span, "gen_ai.output.messages", _messages("assistant", ended.answer)
            )
            self._end(turn.span, error)
        finally:
            self._context.attach(turn.outer_context)

    # Spans

    def _start(
        self,
        operation: str,
        subject: str,
        parent: Context,
        attributes: Attributes,
        metric_attributes: Attributes,
        start_ns: int = 0,
    ) -> OpenSpan:
        """Start a span; it does not become the current one.

        ``attributes`` go on the span, ``metric_attributes`` on its duration.
        """
        kinds = self._trace.SpanKind
        start_ns = start_ns or time.time_ns()
        names = non_empty({"gen_ai.operation.name": operation, "gen_ai.agent.name": self._agent})
        span = self._tracer.start_span(
            f"{operation} {subject}".rstrip(),
            context=parent,
            kind=kinds.CLIENT if operation == "chat" else kinds.INTERNAL,
            attributes={**names, **attributes},
            start_time=start_ns,
        )
        return OpenSpan(span, operation, start_ns, metric_attributes)

    def _end(self, opened: OpenSpan, error: str = "") -> None:
        """End a span and record its duration. An exporter's failure is logged, not raised."""
        end_ns = max(time.time_ns(), opened.start_ns)
        attributes = opened.metric_attributes
        try:
            if error:
                attributes = {**attributes, "error.type": error}
                opened.span.set_attribute("error.type", error)
                opened.span.set_status(self._trace.StatusCode.ERROR)
            seconds = (end_ns - opened.start_ns) / NS_PER_SECOND
            name = "client.operation" if opened.operation == "chat" else opened.operation
            self._histograms[f"gen_ai.{name}.duration"].record(seconds, attributes)
            opened.span.end(end_ns)
        except Exception:
            self._log_failure()

    def _record_content(self, opened: OpenSpan, name: str, value: Any) -> None:
        """Put a text, or anything else as JSON, on a span, unless content is not recorded."""
        if self._content:
            opened.span.set_attribute(name, result_text(value))

    def _log_failure(self) -> None:
        """Log the type of the exception that is being handled, the first time only."""
        error = sys.exception()
        if not self._has_failed and error is not None:
            self._has_failed = True
            name = logged_type(error, "telemetry")
            _log.warning("telemetry failed (%s), and goes on; this is said once", name)


def _conversation_attributes(started: events.TurnStarted) -> dict[str, AttributeValue]:
    return non_empty(
        {
            "gen_ai.provider.name": _PROVIDERS.get(started.provider, started.provider),
            "gen_ai.request.model": started.model,
            "gen_ai.conversation.id": started.thread,
        }
    )


def _usage_attributes(usage: Usage) -> dict[str, AttributeValue]:
    return {
        "gen_ai.usage.input_tokens": usage.input,
        "gen_ai.usage.output_tokens": usage.output,
        "gen_ai.usage.cache_read.input_tokens": usage.read,
        "gen_ai.usage.cache_creation.input_tokens": usage.written + usage.written_1h,
    }


def _messages(role: str, text: str, **more: str) -> list[dict[str, Any]]:
    return [{"role": role, "parts": [{"type": "text", "content": text}], **more}]
