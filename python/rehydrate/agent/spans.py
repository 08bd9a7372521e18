"""Spans: begins and ends OpenTelemetry's spans, and measures how long they took.

Instruments: the metrics of turns, with the names and buckets of OpenTelemetry's conventions.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from rehydrate._text import result_text, type_of
from rehydrate.cost.prices import Usage

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.metrics import Counter, Histogram, MeterProvider
    from opentelemetry.trace import Span, Tracer
    from opentelemetry.util.types import AttributeValue


SECOND = 1_000_000_000
"""In nanoseconds."""
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Open:
    """A span that has begun."""

    span: Span
    operation: str
    start_ns: int
    measured: Attributes
    """What its metrics are told apart by."""
    has_text: bool = False


class Spans:
    """Where one Telemetry's spans come from."""

    def __init__(self, tracer: Tracer, measured: Instruments, *, content: bool, agent: str) -> None:
        """Take the SDK's parts, whether texts are recorded, and the agent's name."""
        self._tracer = tracer
        self._measured = measured
        self._content = content
        self._agent = agent
        self._has_failed = False

    def open(
        self,
        operation: str,
        subject: str,
        parent: Context,
        about: Attributes,
        measured: Attributes,
        start_ns: int = 0,
    ) -> Open:
        """Begin one; ``about`` is on the span, ``measured`` on its time. It is not made current."""
        from opentelemetry.trace import SpanKind

        start_ns = start_ns or time.time_ns()
        named = given({"gen_ai.operation.name": operation, "gen_ai.agent.name": self._agent})
        span = self._tracer.start_span(
            f"{operation} {subject}".rstrip(),
            context=parent,
            kind=SpanKind.CLIENT if operation == "chat" else SpanKind.INTERNAL,
            attributes={**named, **about},
            start_time=start_ns,
        )
        return Open(span, operation, start_ns, measured)

    def close(self, opened: Open, error: str = "") -> None:
        """End it; what that fails at, whoever exports it, leaves everything else as it is."""
        end_ns = max(time.time_ns(), opened.start_ns)
        measured = opened.measured
        try:
            if error:
                from opentelemetry.trace import StatusCode

                measured = {**measured, "error.type": error}
                opened.span.set_attribute("error.type", error)
                opened.span.set_status(StatusCode.ERROR)
            seconds = (end_ns - opened.start_ns) / SECOND
            getattr(self._measured, opened.operation).record(seconds, measured)
            opened.span.end(end_ns)
        except Exception:
            self.note_failure()

    def say(self, opened: Open, name: str, value: Any) -> None:
        """What was said, if it is to be recorded: a text, or anything else as JSON."""
        if self._content:
            opened.span.set_attribute(name, result_text(value))

    def note_failure(self) -> None:
        """Log the type of the exception that is being handled, if it is the first."""
        error = sys.exception()
        if not self._has_failed and error is not None:
            self._has_failed = True
            name = type_of(error, "telemetry")
            _log.warning("telemetry failed (%s), and goes on; this is said once", name)


def within(opened: Open, parent: Context) -> Context:
    """The context in which it is the current span."""
    from opentelemetry.trace import set_span_in_context

    return set_span_in_context(opened.span, parent)


def make_current(context: Context) -> None:
    """In this task; without a token, which another task, where the turn may end, cannot use."""
    from opentelemetry.context import attach

    attach(context)


def given(attributes: Mapping[str, AttributeValue | None]) -> dict[str, AttributeValue]:
    """Those that are known."""
    return {name: value for name, value in attributes.items() if value is not None and value != ""}


def class_of(error: BaseException) -> str:
    """The class of an error; never its message, which may hold what was said."""
    kind = type(error)
    name = kind.__qualname__
    return name if kind.__module__ == "builtins" else f"{kind.__module__}.{name}"


Attributes = Mapping[str, "AttributeValue"]

_CALL_SECONDS = tuple(0.01 * 2**power for power in range(14))
_TURN_SECONDS = tuple(0.1 * 2**power for power in range(13))
_TOKENS = tuple(4**power for power in range(14))


class Instruments(NamedTuple):
    """What is measured of turns, of a model's replies and of tools."""

    tokens: Histogram
    chat: Histogram
    """Seconds, as of the other operations."""
    invoke_agent: Histogram
    execute_tool: Histogram
    late_bound: Counter
    compactions: Counter
    breaks: Counter

    @classmethod
    def of(cls, provider: MeterProvider | None, version: str, schema_url: str) -> Instruments:
        """Make them; without a provider, the program's is used."""
        from opentelemetry.metrics import get_meter

        meter = get_meter("rehydrate", version, provider, schema_url)

        def histogram(name: str, unit: str, about: str, buckets: tuple[float, ...]) -> Histogram:
            return meter.create_histogram(
                name, unit, about, explicit_bucket_boundaries_advisory=buckets
            )

        calls, turns, tokens = _CALL_SECONDS, _TURN_SECONDS, _TOKENS
        return cls(
            histogram("gen_ai.client.token.usage", "{token}", "Tokens used.", tokens),
            histogram("gen_ai.client.operation.duration", "s", "A model's reply.", calls),
            histogram("gen_ai.invoke_agent.duration", "s", "A turn.", turns),
            histogram("gen_ai.execute_tool.duration", "s", "A tool call.", calls),
            meter.create_counter(
                "rehydrate.late_bound.tokens", "{token}", "Context that models asked for."
            ),
            meter.create_counter(
                "rehydrate.compactions", "{compaction}", "Histories that were made shorter."
            ),
            meter.create_counter(
                "rehydrate.prefix.breaks", "{prompt}", "Prompts that lost what was cached."
            ),
        )

    def count_tokens(self, usage: Usage, about: Attributes) -> None:
        """What a reply is billed for."""
        self.tokens.record(usage.input, {**about, "gen_ai.token.type": "input"})
        self.tokens.record(usage.output, {**about, "gen_ai.token.type": "output"})
