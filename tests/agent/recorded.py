"""A Telemetry whose spans and metrics are kept in memory, and the events of a turn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from rehydrate.agent import (
    ContextRequested,
    Event,
    ModelReplied,
    PromptBuilt,
    SectionAdded,
    Telemetry,
    TextDelta,
    ToolEnded,
    ToolStarted,
    Turn,
    TurnEnded,
    TurnStarted,
)
from rehydrate.cost import Usage

MODEL = "claude-sonnet-4-5"
SECRET = "berth four is free"


class Recorder:
    """A Telemetry, and what it recorded."""

    def __init__(self, **options: Any) -> None:
        self.exporter, self.reader = InMemorySpanExporter(), InMemoryMetricReader()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        meters = MeterProvider([self.reader])
        self.telemetry = Telemetry(self.tracers, meters, **options)

    def send(self, *events: Event) -> Recorder:
        for event in events:
            self.telemetry(event)
        return self

    @property
    def spans(self) -> list[ReadableSpan]:
        return sorted(self.exporter.get_finished_spans(), key=lambda span: span.start_time or 0)

    def span(self, name: str) -> ReadableSpan:
        (found,) = [span for span in self.spans if span.name == name]
        return found

    def points(self, metric: str) -> list[Any]:
        data = self.reader.get_metrics_data()
        return [
            point
            for resource in (data.resource_metrics if data else [])
            for scope in resource.scope_metrics
            for each in scope.metrics
            if each.name == metric
            for point in each.data.data_points
        ]


@pytest.fixture(autouse=True)
def nothing_stays_current() -> Iterator[None]:
    yield
    assert not trace.get_current_span().get_span_context().is_valid


def started(thread: str = "", query: str | None = SECRET) -> TurnStarted:
    return TurnStarted(query, "anthropic", MODEL, thread)


def built(step: int = 1, *, kept: bool = True) -> PromptBuilt:
    return PromptBuilt(step, 900, 990, 400, kept, 3, 2.5)


def replied(step: int = 1, stop: Any = "answer", calls: int = 0) -> ModelReplied:
    usage = Usage(read=400, written=100, uncached=400, output=20)
    return ModelReplied(step, stop, calls, usage, 0.003, 40.0, f"{MODEL}-1", "msg_1", SECRET)


def ended(stopped: Any = "answer", **more: Any) -> TurnEnded:
    usage = Usage(read=400, uncached=500, output=20)
    return TurnEnded(Turn(SECRET, stopped, (), 1, usage, 0.003, **more))


TOOL = (
    ToolStarted(1, "toolu_1", "berths", {"quay": SECRET}),
    ToolEnded(1, "toolu_1", "berths", False, 18, 4.0, SECRET),
)
REQUEST = (
    SectionAdded("semantic:1", "semantic", 120, late_bound=True),
    SectionAdded("semantic:2", "semantic", 30, late_bound=True),
    ContextRequested(1, "toolu_2", "request_context", SECRET, "semantic", 2, 150, 1, False, 8.0),
)


def whole_turn(thread: str = "", tool: tuple[Event, ...] = TOOL) -> list[Event]:
    return [
        started(thread),
        SectionAdded("system", "hot", 40, late_bound=False),
        built(),
        replied(1, "calls", 2),
        *tool,
        *REQUEST,
        built(2),
        TextDelta(2, "berth "),
        TextDelta(2, "four"),
        replied(2),
        ended(),
    ]
