"""Spans: OpenTelemetry's spans and metrics; names, units and buckets are the conventions'."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rehydrate._native import __version__, usage_attributes
from rehydrate._text import logged_type
from rehydrate.cost.prices import Usage
from rehydrate.errors import MissingPackageError

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Span, TracerProvider
    from opentelemetry.util.types import AttributeValue

Attributes = Mapping[str, "AttributeValue"]

_CALL_SECONDS = tuple(0.01 * 2**power for power in range(14))
_TURN_SECONDS = tuple(0.1 * 2**power for power in range(13))
_TOKENS = tuple(4**power for power in range(14))
_OPERATION, _USAGE = "gen_ai.client.inference.operation.", "gen_ai.client.inference.usage."
_HISTOGRAMS: Mapping[str, tuple[str, str, Sequence[float]]] = {
    f"{_OPERATION}input_tokens": ("{token}", "Tokens of a prompt.", _TOKENS),
    f"{_OPERATION}output_tokens": ("{token}", "Tokens of a reply.", _TOKENS),
    "gen_ai.client.operation.duration": ("s", "A model's reply.", _CALL_SECONDS),
    "gen_ai.invoke_agent.duration": ("s", "A turn.", _TURN_SECONDS),
    "gen_ai.execute_tool.duration": ("s", "A tool call.", _CALL_SECONDS),
}
_COUNTERS = {
    f"{_USAGE}input_tokens": ("{token}", "Tokens of prompts, cached ones too."),
    f"{_USAGE}output_tokens": ("{token}", "Tokens of replies."),
    f"{_USAGE}cache_read.input_tokens": ("{token}", "Tokens that the cache had."),
    f"{_USAGE}cache_write.input_tokens": ("{token}", "Tokens written to the cache."),
    "rehydrate.late_bound.tokens": ("{token}", "Context that models asked for."),
    "rehydrate.compactions": ("{compaction}", "Histories that were made shorter."),
    "rehydrate.prefix.breaks": ("{prompt}", "Prompts that lost what was cached."),
    "rehydrate.left_out.tokens": ("{token}", "What the proxy did not send."),
}
_OF_DURATIONS = {
    "invoke_agent": ("gen_ai.agent.name", "gen_ai.request.model"),
    "chat": ("gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model"),
    "execute_tool": ("gen_ai.tool.name", "gen_ai.tool.type"),
}
"""The attributes that the metrics of an operation have of its span. A conversation's id is not one:
each would be one more time series."""
NS_PER_SECOND = 1_000_000_000
_log = logging.getLogger("rehydrate.agent.telemetry")


@dataclass(slots=True)
class OpenSpan:
    """A span that has started and not ended."""

    span: Span
    operation: str
    start_ns: int
    metric_attributes: dict[str, AttributeValue]
    """The attributes of its duration in the metrics."""
    has_text: bool = False
    usage: Usage = Usage()  # noqa: RUF009  it is a tuple


def class_name(error: BaseException) -> str:
    """Return the full class name of an error, never its message: that may hold private text."""
    kind = type(error)
    name = kind.__qualname__
    return name if kind.__module__ == "builtins" else f"{kind.__module__}.{name}"


class Spans:
    """Starts and ends spans, and keeps metrics. What a span is of is the subclass's to know."""

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
        self._tracer = trace.get_tracer("rehydrate", __version__, tracer_provider)
        meter = metrics.get_meter("rehydrate", __version__, meter_provider)
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

    def _make_current(self, opened: OpenSpan, parent: Context) -> Context:
        """Make the context in which a span is the current one that of this task; return it.

        The token is not kept: the turn may end in another task, which could not use it.
        """
        context = self._trace.set_span_in_context(opened.span, parent)
        self._context.attach(context)
        return context

    def _start(
        self,
        operation: str,
        subject: str,
        parent: Context,
        attributes: Attributes,
        start_ns: int = 0,
        *,
        is_remote: bool = False,
    ) -> OpenSpan:
        """Start a span; it does not become the current one."""
        kinds = self._trace.SpanKind
        start_ns = start_ns or time.time_ns()
        names = {"gen_ai.operation.name": operation, "gen_ai.agent.name": self._agent}
        every = {name: each for name, each in {**names, **attributes}.items() if each != ""}
        span = self._tracer.start_span(
            f"{operation} {subject}".rstrip(),
            context=parent,
            kind=kinds.CLIENT if is_remote or operation == "chat" else kinds.INTERNAL,
            attributes=every,
            start_time=start_ns,
        )
        measured = {name: every[name] for name in _OF_DURATIONS.get(operation, ()) if name in every}
        return OpenSpan(span, operation, start_ns, measured)

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
            if (duration := self._histograms.get(f"gen_ai.{name}.duration")) is not None:
                duration.record(seconds, attributes)
            if opened.operation == "chat":
                self._count_usage(opened.usage, attributes)
            opened.span.end(end_ns)
        except Exception:
            self._log_failure()

    def _set_usage(self, chat: OpenSpan, usage: Usage) -> None:
        chat.usage = usage
        chat.span.set_attributes(usage_attributes(usage))

    def _count_usage(self, usage: Usage, attributes: Attributes) -> None:
        """Record the tokens of a request that has ended: 0 where the provider gave none.

        No provider's usage is read by modality, so it is unknown.
        """
        counts = {
            "input_tokens": usage.input,
            "output_tokens": usage.output,
            "cache_read.input_tokens": usage.read,
            "cache_write.input_tokens": usage.written + usage.written_1h,
        }
        for name, count in counts.items():
            if (histogram := self._histograms.get(f"{_OPERATION}{name}")) is not None:
                histogram.record(count, attributes)
            without_error = {key: each for key, each in attributes.items() if key != "error.type"}
            modality = {**without_error, "gen_ai.token.modality": "unknown"}
            self._counters[f"{_USAGE}{name}"].add(count, modality)

    def _log_failure(self) -> None:
        """Log the type of the exception that is being handled, the first time only."""
        error = sys.exception()
        if not self._has_failed and error is not None:
            self._has_failed = True
            name = logged_type(error, "telemetry")
            _log.warning("telemetry failed (%s), and goes on; this is said once", name)
