"""Telemetry: OpenTelemetry's spans and metrics, made from the events of turns.

By the semantic conventions for generative AI in version 1.42.0-dev (github.com/open-telemetry/
semantic-conventions-genai; they are in development and have left the general conventions, whose
last version with them is 1.41.1): ``invoke_agent`` is a turn, ``chat {model}`` each time the model
is asked, ``execute_tool {name}`` each call, also of request_context. What the conventions have no
name for is named ``rehydrate.*``.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from rehydrate._engine import VERSION
from rehydrate.agent.events import (
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
from rehydrate.agent.spans import (
    SECOND,
    Instruments,
    Open,
    Spans,
    class_of,
    given,
    make_current,
    within,
)
from rehydrate.cost.prices import Usage
from rehydrate.errors import MissingPackageError

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider
    from opentelemetry.util.types import AttributeValue

    from rehydrate.agent.events import Turn


SCHEMA_URL = "https://opentelemetry.io/schemas/gen-ai-dev/1.42.0-dev"

_PROVIDERS = {"openai_chat": "openai", "openai_responses": "openai"}
_FINISH = {"answer": "stop", "calls": "tool_call", "refusal": "content_filter"}
_FINE = ("answer", "length", "refusal")


@dataclass(slots=True)
class _Running:
    """A turn while it runs."""

    started: TurnStarted
    open: Open
    outer: Context
    inside: Context
    around: _Running | None
    """The turn that this one is nested in: an agent may be a tool of another."""
    chat: Open | None = None
    tools: dict[str, Open] = field(default_factory=dict)
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
        """Take them; nothing is recorded yet."""
        try:
            from opentelemetry.trace import get_tracer
        except ImportError:
            raise MissingPackageError(
                "rehydrate[telemetry]", "makes OpenTelemetry's spans"
            ) from None
        tracer = get_tracer("rehydrate", VERSION, tracer_provider, SCHEMA_URL)
        self._measured = Instruments.of(meter_provider, VERSION, SCHEMA_URL)
        self._spans = Spans(tracer, self._measured, content=content, agent=agent)
        self._agent = agent

    def __call__(self, event: Event) -> None:
        """Take in an event of a turn."""
        try:
            if isinstance(event, TurnStarted):
                self._begin(event)
            elif (turn := _RUNNING.get().get(self)) is not None:
                self._go_on(turn, event)
        except Exception:
            self._spans.note_failure()

    def _begin(self, event: TurnStarted) -> None:
        from opentelemetry.context import get_current

        outer = get_current()
        measured = given({"gen_ai.agent.name": self._agent, "gen_ai.request.model": event.model})
        opened = self._spans.open(
            "invoke_agent", self._agent, outer, _conversation(event), measured
        )
        if event.query is not None:
            self._spans.say(opened, "gen_ai.input.messages", _message("user", event.query))
        running = _RUNNING.get()
        turn = _Running(event, opened, outer, within(opened, outer), running.get(self))
        _RUNNING.set({**running, self: turn})
        make_current(turn.inside)

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
        turn.chat = self._spans.open("chat", model, turn.inside, about, measured, start_ns)
        make_current(within(turn.chat, turn.inside))

    def _stream(self, turn: _Running) -> None:
        if turn.chat is not None and not turn.chat.has_text:
            turn.chat.has_text = True
            first = (time.time_ns() - turn.chat.start_ns) / SECOND
            turn.chat.span.set_attributes(
                {"gen_ai.request.stream": True, "gen_ai.response.time_to_first_chunk": first}
            )

    def _ask_again(self, turn: _Running, event: Retrying) -> None:
        self._end_chat(turn, class_of(event.error))
        turn.count("retries")
        # No event says when the wait is over.
        self._open_chat(turn, time.time_ns() + int(event.delay_seconds * SECOND))

    def _reply(self, turn: _Running, event: ModelReplied) -> None:
        if turn.chat is None:
            return
        finish = _FINISH.get(event.stop, event.stop)
        turn.chat.span.set_attributes(
            given(
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
        self._spans.say(turn.chat, "gen_ai.output.messages", said)
        turn.chat.measured = {
            **turn.chat.measured,
            **given({"gen_ai.response.model": event.model}),
        }
        self._measured.count_tokens(event.usage, turn.chat.measured)
        self._end_chat(turn)

    def _end_chat(self, turn: _Running, error: str = "") -> None:
        chat, turn.chat = turn.chat, None
        if chat is not None:
            self._spans.close(chat, error)
            make_current(turn.inside)

    # Tools

    def _start_tool(self, turn: _Running, event: ToolStarted) -> None:
        opened = self._open_tool(turn, event.tool, event.call_id, "function")
        turn.tools[event.call_id] = opened
        make_current(within(opened, turn.inside))
        self._spans.say(opened, "gen_ai.tool.call.arguments", event.arguments)

    def _end_tool(self, turn: _Running, event: ToolEnded) -> None:
        opened = turn.tools.pop(event.call_id, None)
        if opened is not None:
            opened.span.set_attribute("rehydrate.result.chars", event.chars)
            self._spans.say(opened, "gen_ai.tool.call.result", event.result)
            self._spans.close(opened, "tool_error" if event.is_error else "")
            make_current(turn.inside)

    def _answer_request(self, turn: _Running, event: ContextRequested) -> None:
        turn.count("context_requests")
        start_ns = time.time_ns() - int(event.elapsed_ms * 1e6)
        opened = self._open_tool(turn, event.tool, event.call_id, "datastore", start_ns)
        opened.span.set_attributes(
            given(
                {
                    "rehydrate.request.scope": event.scope,
                    "rehydrate.request.sections": event.found,
                    "rehydrate.request.tokens": event.tokens,
                    "rehydrate.request.remaining": event.remaining,
                }
            )
        )
        self._spans.say(opened, "gen_ai.retrieval.query.text", event.query)
        self._spans.close(opened, "tool_error" if event.is_error else "")

    def _open_tool(
        self, turn: _Running, tool: str, call_id: str, kind: str, start_ns: int = 0
    ) -> Open:
        measured = {"gen_ai.tool.name": tool, "gen_ai.tool.type": kind}
        about = {**measured, "gen_ai.tool.call.id": call_id}
        return self._spans.open("execute_tool", tool, turn.inside, about, measured, start_ns)

    # The end

    def _end(self, turn: _Running, ended: Turn) -> None:
        error = "" if ended.stopped in _FINE else str(ended.stopped)
        if ended.error is not None:
            error = class_of(ended.error)
        others = {key: one for key, one in _RUNNING.get().items() if key is not self}
        _RUNNING.set(others if turn.around is None else {**others, self: turn.around})
        if turn.chat is not None and time.time_ns() < turn.chat.start_ns:
            turn.chat = None  # it was still waiting to ask again; what never ends is not exported
        try:
            self._end_chat(turn, error or "_OTHER")
            for opened in turn.tools.values():
                self._spans.close(opened, error or "_OTHER")
            counts = {f"rehydrate.{name}": number for name, number in turn.counts.items()}
            turn.open.span.set_attributes(
                {
                    "rehydrate.stopped": ended.stopped,
                    "rehydrate.steps": ended.steps,
                    **given({"rehydrate.dollars": ended.dollars}),
                    **_usage(ended.usage),
                    **counts,
                }
            )
            self._spans.say(
                turn.open, "gen_ai.output.messages", _message("assistant", ended.answer)
            )
            self._spans.close(turn.open, error)
        finally:
            make_current(turn.outer)


def _conversation(started: TurnStarted) -> dict[str, AttributeValue]:
    return given(
        {
            "gen_ai.provider.name": _PROVIDERS.get(started.provider, started.provider),
            "gen_ai.request.model": started.model,
            "gen_ai.conversation.id": started.thread,
        }
    )


def _usage(usage: Usage) -> dict[str, AttributeValue]:
    return {
        "gen_ai.usage.input_tokens": usage.input,
        "gen_ai.usage.output_tokens": usage.output,
        "gen_ai.usage.cache_read.input_tokens": usage.read,
        "gen_ai.usage.cache_creation.input_tokens": usage.written + usage.written_1h,
    }


def _message(role: str, text: str, **more: str) -> list[dict[str, Any]]:
    return [{"role": role, "parts": [{"type": "text", "content": text}], **more}]
