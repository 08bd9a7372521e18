"""Spans and instruments: what OpenTelemetry gets of turns, with the names of its conventions."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from rehydrate._text import logged_type, result_text
from rehydrate.cost.prices import Usage

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.metrics import Counter, Histogram, MeterProvider
    from opentelemetry.trace import Span, Tracer
    from opentelemetry.util.types import AttributeValue


Attributes = Mapping[str, "AttributeValue"]

_CALL_SECONDS = tuple(0.01 * 2**power for power in range(14))
_TURN_SECONDS = tuple(0.1 * 2**power for power in range(13))
_TOKENS = tuple(4**power for power in range(14))


class Instruments(NamedTuple):
    """The histograms and counters of one `Telemetry`."""

    tokens: Histogram
    durations: Mapping[str, Histogram]
    """In seconds, by the operation: chat, invoke_agent, execute_tool."""
    late_bound: Counter
    compactions: Counter
    prefix_breaks: Counter

    @classmethod
    def of(cls, provider: MeterProvider | None, version: str, schema_url: str) -> Instruments:
        """Make them; without a provider, use the program's global one."""
        from opentelemetry.metrics import get_meter

        meter = get_meter("rehydrate", version, provider, schema_url)

        def histogram(name: str, unit: str, about: str, buckets: tuple[float, ...]) -> Histogram:
            return meter.create_histogram(
                name, unit, about, explicit_bucket_boundaries_advisory=buckets
            )

        calls, turns, tokens = _CALL_SECONDS, _TURN_SECONDS, _TOKENS
        return cls(
            histogram("gen_ai.client.token.usage", "{token}", "Tokens used.", tokens),
            {
                "chat": histogram(
                    "gen_ai.client.operation.duration", "s", "A model's reply.", calls
                ),
                "invoke_agent": histogram("gen_ai.invoke_agent.duration", "s", "A turn.", turns),
                "execute_tool": histogram(
                    "gen_ai.execute_tool.duration", "s", "A tool call.", calls
                ),
            },
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

    def count_tokens(self, usage: Usage, attributes: Attributes) -> None:
        """Record the tokens that a reply is billed for."""
        self.tokens.record(usage.input, {**attributes, "gen_ai.token.type": "input"})
        self.tokens.record(usage.output, {**attributes, "gen_ai.token.type": "output"})


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


class Spans:
    """Starts and ends the spans of one `Telemetry`."""

    def __init__(
        self, tracer: Tracer, instruments: Instruments, *, content: bool, agent: str
    ) -> None:
        """Take the SDK's tracer, the metrics, whether texts are recorded, and the agent's name."""
        self._tracer = tracer
        self._instruments = instruments
        self._content = content
        self._agent = agent
        self._has_failed = False

    def start(
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
        from opentelemetry.trace import SpanKind

        start_ns = start_ns or time.time_ns()
        names = non_empty({"gen_ai.operation.name": operation, "gen_ai.agent.name": self._agent})
        span = self._tracer.start_span(
            f"{operation} {subject}".rstrip(),
            context=parent,
            kind=SpanKind.CLIENT if operation == "chat" else SpanKind.INTERNAL,
            attributes={**names, **attributes},
            start_time=start_ns,
        )
        return OpenSpan(span, operation, start_ns, metric_attributes)

    def end(self, opened: OpenSpan, error: str = "") -> None:
        """End a span and record its duration. An exporter's failure is logged, not raised."""
        end_ns = max(time.time_ns(), opened.start_ns)
        attributes = opened.metric_attributes
        try:
            if error:
                from opentelemetry.trace import StatusCode

                attributes = {**attributes, "error.type": error}
                opened.span.set_attribute("error.type", error)
                opened.span.set_status(StatusCode.ERROR)
            seconds = (end_ns - opened.start_ns) / NS_PER_SECOND
            self._instruments.durations[opened.operation].record(seconds, attributes)
            opened.span.end(end_ns)
        except Exception:
            self.log_failure()

    def record_content(self, opened: OpenSpan, name: str, value: Any) -> None:
        """Put a text, or anything else as JSON, on a span, unless content is not recorded."""
        if self._content:
            opened.span.set_attribute(name, result_text(value))

    def log_failure(self) -> None:
        """Log the type of the exception that is being handled, the first time only."""
        error = sys.exception()
        if not self._has_failed and error is not None:
            self._has_failed = True
            name = logged_type(error, "telemetry")
            _log.warning("telemetry failed (%s), and goes on; this is said once", name)


def context_of(opened: OpenSpan, parent: Context) -> Context:
    """Return the context in which the span is the current one."""
    from opentelemetry.trace import set_span_in_context

    return set_span_in_context(opened.span, parent)


def make_current(context: Context) -> None:
    """Make a context the current one of this task.

    The token is not kept: the turn may end in another task, which could not use it.
    """
    from opentelemetry.context import attach

    attach(context)


def non_empty(attributes: Mapping[str, AttributeValue | None]) -> dict[str, AttributeValue]:
    """Return the attributes without those that are None or empty."""
    return {name: value for name, value in attributes.items() if value is not None and value != ""}


def class_name(error: BaseException) -> str:
    """Return the full class name of an error, never its message: that may hold private text."""
    kind = type(error)
    name = kind.__qualname__
    return name if kind.__module__ == "builtins" else f"{kind.__module__}.{name}"
