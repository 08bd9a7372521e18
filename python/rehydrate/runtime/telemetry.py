"""Telemetry: OpenTelemetry's spans and metrics, made from the events of turns.

By the semantic conventions for generative AI in version 1.42.0-dev (github.com/open-telemetry/
semantic-conventions-genai; they are in development and have left the general conventions, whose
last version with them is 1.41.1): ``invoke_agent`` is a turn, ``chat {model}`` each time the model
is asked, ``execute_tool {name}`` each call, also of request_context. What the conventions have no
name for is named ``rehydrate.*``.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from rehydrate._engine import VERSION
from rehydrate.cache.cost import Usage
from rehydrate.errors import MissingPackageError
from rehydrate.runtime.events import (
    Compacted,
    ContextRequested,
    Event,
    ModelReplied,
    PromptBuilt,
    Retrying,
    SectionAdded,
    TextDelta,
    ToolEnded,
    ToolStarted,
    TurnEnded,
    TurnStarted,
)
from rehydrate.runtime.instruments import Attributes, Instruments
from rehydrate.runtime.results import result_text

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Span, TracerProvider
    from opentelemetry.util.types import AttributeValue

    from rehydrate.runtime.turn import Turn

SCHEMA_URL = "https://opentelemetry.io/schemas/gen-ai-dev/1.42.0-dev"

_PROVIDERS = {"openai_chat": "openai", "openai_responses": "openai"}
_FINISH = {"answer": "stop", "calls": "tool_call", "refusal": "content_filter"}
_FINE = ("answer", "length", "refusal")
_SECOND = 1_000_000_000
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Open:
    """A span that has begun."""

    span: Span
    operation: str
    start_ns: int
    measured: Attributes
    """What its metrics are told apart by."""
    has_text: bool = False


@dataclass(slots=True)
class _Running:
    """A turn while it runs."""

    started: TurnStarted
    open: _Open
    outer: Context
    inside: Context
    around: _Running | None
    """The turn that this one is nested in: an agent may be a tool of another."""
    chat: _Open | None = None
    tools: dict[str, _Open] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def count(self, name: str, number: int = 1) -> None:
        """Add to what the turn's span says in the end."""
        self.counts[name] = self.counts.get(name, 0) + number


# In a context variable, since events do not say which turn they are of: the tasks of a turn's tools
# inherit it, and the turns of other tasks have their own. One for all, as such variables last
# forever; a Telemetry finds its own turn in it.
_NONE: Mapping[Telemetry, _Running] = MappingProxyType({})
_RUNNING: ContextVar[Mapping[Telemetry, _Running]] = ContextVar("telemetry", default=_NONE)


class Telemetry:
    """Spans and metrics of turns: ``Interpreter(model, on_event=Telemetry())``.

    Without providers it uses the program's. One serves any number of turns at the same time, of any
    number of Interpreters: each turn's span is a child of the span that was current where it began,
    and while the model is asked or a tool runs, its span is the current one. ``agent`` is the name
    of what is run. With ``content`` spans hold what was said, asked and answered; without, numbers,
    names and ids only. To send them to two places, give the provider two processors.

    It never raises while a turn runs: what an exporter or a span processor throws is logged, once.
    Raises MissingPackageError without opentelemetry-api (``pip install rehydrate[telemetry]``).

    >>> from rehydrate.runtime.events import TurnStarted
    >>> telemetry = Telemetry(agent="harbour master")
    >>> telemetry(TurnStarted("Which berth is free?", "anthropic", "claude-sonnet-4-5"))
    """

    def __init__(
        self,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        *,
        content: bool = False,
        agent: str = "",
    ) -> None:
        """Take them; nothing is recorded yet."""
        try:
            from opentelemetry.trace import get_tracer
        except ImportError:
            raise MissingPackageError(
                "rehydrate[telemetry]", "makes OpenTelemetry's spans"
            ) from None
        self._tracer = get_tracer("rehydrate", VERSION, tracer_provider, SCHEMA_URL)
        self._measured = Instruments.of(meter_provider, VERSION, SCHEMA_URL)
        self._content = content
        self._agent = agent
        self._has_failed = False

    def __call__(self, event: Event) -> None:
        """Take in an event of a turn."""
        try:
            if isinstance(event, TurnStarted):
                self._begin(event)
            elif (turn := _RUNNING.get().get(self)) is not None:
                self._go_on(turn, event)
        except Exception:
            self._note_failure()

    def _begin(self, event: TurnStarted) -> None:
        from opentelemetry.context import get_current

        outer = get_current()
        measured = _given({"gen_ai.agent.name": self._agent, "gen_ai.request.model": event.model})
        opened = self._open("invoke_agent", self._agent, outer, _conversation(event), measured)
        if event.observation is not None:
            self._say(opened, "gen_ai.input.messages", _message("user", event.observation))
        running = _RUNNING.get()
        turn = _Running(event, opened, outer, _within(opened, outer), running.get(self))
        _RUNNING.set({**running, self: turn})
        _make_current(turn.inside)

    def _go_on(self, turn: _Running, event: Event) -> None:
        match event:
            case PromptBuilt():
                self._ask(turn, event)
            case TextDelta():
                self._stream(turn)
            case Retrying():
                self._ask_again(turn, event)
            case ModelReplied():
                self._reply(turn, event)
            case ToolStarted():
                self._start_tool(turn, event)
            case ToolEnded():
                self._end_tool(turn, event)
            case ContextRequested():
                self._answer_request(turn, event)
            case SectionAdded(late_bound=True):
                turn.count("late_bound.sections")
                turn.count("late_bound.tokens", event.tokens)
                self._measured.late_bound.add(event.tokens, {"rehydrate.source": event.source})
            case Compacted():
                if event.why == "overflow":
                    self._end_chat(turn, "rehydrate.errors.ContextOverflowError")
                turn.count("compactions")
                turn.count("compacted_tokens", event.before_tokens - event.after_tokens)
                self._measured.compactions.add(1, {"rehydrate.why": event.why})
            case TurnEnded():
                self._end(turn, event.turn)

    # The model

    def _ask(self, turn: _Running, event: PromptBuilt) -> None:
        self._end_chat(turn, "_OTHER")
        self._open_chat(turn, time.time_ns())
        if not event.is_prefix_kept:
            turn.count("prefix.breaks")
            self._measured.breaks.add(1, turn.open.measured)
        assert turn.chat is not None
        turn.chat.span.set_attributes(
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

    def _open_chat(self, turn: _Running, start_ns: int) -> None:
        about = _conversation(turn.started)
        measured = {"gen_ai.operation.name": "chat", **about}
        measured.pop("gen_ai.conversation.id", None)  # there is no end to them
        model = turn.started.model
        turn.chat = self._open("chat", model, turn.inside, about, measured, start_ns)
        _make_current(_within(turn.chat, turn.inside))

    def _stream(self, turn: _Running) -> None:
        if turn.chat is not None and not turn.chat.has_text:
            turn.chat.has_text = True
            first = (time.time_ns() - turn.chat.start_ns) / _SECOND
            turn.chat.span.set_attributes(
                {"gen_ai.request.stream": True, "gen_ai.response.time_to_first_chunk": first}
            )

    def _ask_again(self, turn: _Running, event: Retrying) -> None:
        self._end_chat(turn, _named(event.error))
        turn.count("retries")
        # No event says when the wait is over. Should the turn end before, the span never does, and
        # what never ends is not exported.
        self._open_chat(turn, time.time_ns() + int(event.delay_seconds * _SECOND))

    def _reply(self, turn: _Running, event: ModelReplied) -> None:
        if turn.chat is None:
            return
        finish = _FINISH.get(event.stop, event.stop)
        turn.chat.span.set_attributes(
            _given(
                {
                    "gen_ai.response.model": event.model,
                    "gen_ai.response.id": event.response_id,
                    "gen_ai.response.finish_reasons": [finish],
                    "rehydrate.calls": event.calls,
                    "rehydrate.dollars": event.dollars,
                }
            )
            | _usage(event.usage)
        )
        said = _message("assistant", event.text, finish_reason=finish)
        self._say(turn.chat, "gen_ai.output.messages", said)
        turn.chat.measured = {
            **turn.chat.measured,
            **_given({"gen_ai.response.model": event.model}),
        }
        self._measured.count_tokens(event.usage, turn.chat.measured)
        self._end_chat(turn)

    def _end_chat(self, turn: _Running, error: str = "") -> None:
        chat, turn.chat = turn.chat, None
        if chat is not None:
            self._close(chat, error)
            _make_current(turn.inside)

    # Tools

    def _start_tool(self, turn: _Running, event: ToolStarted) -> None:
        opened = self._open_tool(turn, event.tool, event.call_id, "function")
        turn.tools[event.call_id] = opened
        _make_current(_within(opened, turn.inside))
        self._say(opened, "gen_ai.tool.call.arguments", event.arguments)

    def _end_tool(self, turn: _Running, event: ToolEnded) -> None:
        opened = turn.tools.pop(event.call_id, None)
        if opened is not None:
            opened.span.set_attribute("rehydrate.result.chars", event.chars)
            self._say(opened, "gen_ai.tool.call.result", event.result)
            self._close(opened, "tool_error" if event.is_error else "")
            _make_current(turn.inside)

    def _answer_request(self, turn: _Running, event: ContextRequested) -> None:
        turn.count("context_requests")
        start_ns = time.time_ns() - int(event.elapsed_ms * 1e6)
        opened = self._open_tool(turn, event.tool, event.call_id, "datastore", start_ns)
        opened.span.set_attributes(
            _given(
                {
                    "rehydrate.request.scope": event.scope,
                    "rehydrate.request.sections": event.found,
                    "rehydrate.request.tokens": event.tokens,
                    "rehydrate.request.remaining": event.remaining,
                }
            )
        )
        self._say(opened, "gen_ai.retrieval.query.text", event.query)
        self._close(opened, "tool_error" if event.is_error else "")

    def _open_tool(
        self, turn: _Running, tool: str, call_id: str, kind: str, start_ns: int = 0
    ) -> _Open:
        measured = {"gen_ai.tool.name": tool, "gen_ai.tool.type": kind}
        about = {**measured, "gen_ai.tool.call.id": call_id}
        return self._open("execute_tool", tool, turn.inside, about, measured, start_ns)

    # The end

    def _end(self, turn: _Running, ended: Turn) -> None:
        error = "" if ended.stopped in _FINE else str(ended.stopped)
        if ended.error is not None:
            error = _named(ended.error)
        others = {key: one for key, one in _RUNNING.get().items() if key is not self}
        _RUNNING.set(others if turn.around is None else {**others, self: turn.around})
        try:
            self._end_chat(turn, error or "_OTHER")
            for opened in turn.tools.values():
                self._close(opened, error or "_OTHER")
            counts = {f"rehydrate.{name}": number for name, number in turn.counts.items()}
            turn.open.span.set_attributes(
                {
                    "rehydrate.stopped": ended.stopped,
                    "rehydrate.steps": ended.steps,
                    **_given({"rehydrate.dollars": ended.dollars}),
                    **_usage(ended.usage),
                    **counts,
                }
            )
            self._say(turn.open, "gen_ai.output.messages", _message("assistant", ended.answer))
            self._close(turn.open, error)
        finally:
            _make_current(turn.outer)

    # Spans

    def _open(
        self,
        operation: str,
        subject: str,
        parent: Context,
        about: Attributes,
        measured: Attributes,
        start_ns: int = 0,
    ) -> _Open:
        from opentelemetry.trace import SpanKind

        start_ns = start_ns or time.time_ns()
        named = _given({"gen_ai.operation.name": operation, "gen_ai.agent.name": self._agent})
        span = self._tracer.start_span(
            f"{operation} {subject}".rstrip(),
            context=parent,
            kind=SpanKind.CLIENT if operation == "chat" else SpanKind.INTERNAL,
            attributes={**named, **about},
            start_time=start_ns,
        )
        return _Open(span, operation, start_ns, measured)

    def _close(self, opened: _Open, error: str = "") -> None:
        """End it; what that fails at, whoever exports it, leaves everything else as it is."""
        end_ns = time.time_ns()
        if end_ns < opened.start_ns:
            return
        measured = opened.measured
        try:
            if error:
                from opentelemetry.trace import StatusCode

                measured = {**measured, "error.type": error}
                opened.span.set_attribute("error.type", error)
                opened.span.set_status(StatusCode.ERROR)
            seconds = (end_ns - opened.start_ns) / _SECOND
            getattr(self._measured, opened.operation).record(seconds, measured)
            opened.span.end(end_ns)
        except Exception:
            self._note_failure()

    def _say(self, opened: _Open, name: str, value: Any) -> None:
        """What was said, if it is to be recorded: a text, or anything else as JSON."""
        if self._content:
            opened.span.set_attribute(name, result_text(value))

    def _note_failure(self) -> None:
        if not self._has_failed:
            self._has_failed = True
            _log.warning("telemetry failed, and goes on; this is said once", exc_info=True)


def _conversation(started: TurnStarted) -> dict[str, AttributeValue]:
    return _given(
        {
            "gen_ai.provider.name": _PROVIDERS.get(started.provider, started.provider),
            "gen_ai.request.model": started.model,
            "gen_ai.conversation.id": started.thread,
        }
    )


def _within(opened: _Open, parent: Context) -> Context:
    from opentelemetry.trace import set_span_in_context

    return set_span_in_context(opened.span, parent)


def _make_current(context: Context) -> None:
    """Without a token: a turn may end in another task than it began in, where none is valid."""
    from opentelemetry.context import attach

    attach(context)


def _usage(usage: Usage) -> dict[str, AttributeValue]:
    return {
        "gen_ai.usage.input_tokens": usage.input,
        "gen_ai.usage.output_tokens": usage.output,
        "gen_ai.usage.cache_read.input_tokens": usage.read,
        "gen_ai.usage.cache_creation.input_tokens": usage.written + usage.written_1h,
    }


def _message(role: str, text: str, **more: str) -> list[dict[str, Any]]:
    return [{"role": role, "parts": [{"type": "text", "content": text}], **more}]


def _given(attributes: Mapping[str, AttributeValue | None]) -> dict[str, AttributeValue]:
    """Those that are known."""
    return {name: value for name, value in attributes.items() if value is not None and value != ""}


def _named(error: BaseException) -> str:
    """The class of an error; never its message, which may hold what was said."""
    kind = type(error)
    return (
        kind.__qualname__
        if kind.__module__ == "builtins"
        else f"{kind.__module__}.{kind.__qualname__}"
    )
