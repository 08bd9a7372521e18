"""What OpenTelemetry gets of requests that pass through the proxy."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk")

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from rehydrate.agent import Telemetry
from rehydrate.integrations.proxy import Shortener
from tests.integrations import harbour
from tests.integrations.proxied import (
    BUDGET,
    GPT,
    AnthropicClient,
    chat_body,
    echoing,
    served,
    wait_until,
)
from tests.provider import StrictProvider

PATH = "/v1/chat/completions"
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Recorded:
    def __init__(self) -> None:
        self._exporter, self._reader = InMemorySpanExporter(), InMemoryMetricReader()
        tracers = TracerProvider()
        tracers.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.telemetry = Telemetry(tracers, MeterProvider([self._reader]))

    def spans(self, count: int) -> list[ReadableSpan]:
        wait_until(lambda: len(self._exporter.get_finished_spans()) >= count)
        return list(self._exporter.get_finished_spans())

    def metrics(self) -> dict[str, Any]:
        found = self._reader.get_metrics_data()
        assert found is not None
        return {
            metric.name: list(metric.data.data_points)
            for resource in found.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }


def test_each_request_is_a_chat_span_and_compacted_ones_say_so() -> None:
    recorded = Recorded()
    with echoing(telemetry=recorded.telemetry) as (_, proxy):
        for count in (3, 900, 901):
            proxy.post(PATH, chat_body(count), traceparent=TRACE)
        proxy.post("/v1/embeddings", b"{}")
        spans = recorded.spans(3)
    assert [span.name for span in spans] == [f"chat {GPT}"] * 3
    assert {span.kind for span in spans} == {SpanKind.CLIENT}
    first, second, third = [dict(span.attributes or {}) for span in spans]
    assert first["gen_ai.operation.name"] == "chat"
    assert first["gen_ai.provider.name"] == "openai"
    assert first["rehydrate.prefix"] == "new"
    assert "gen_ai.conversation.compacted" not in first
    assert second["gen_ai.conversation.compacted"] is True
    assert second["rehydrate.prompt.tokens"] < second["rehydrate.before_tokens"]
    assert (second["rehydrate.prefix"], second["rehydrate.prefix.kept"]) == ("compacted", False)
    assert third["gen_ai.conversation.compacted"] is True  # what the model got is still compacted
    assert (third["rehydrate.prefix"], third["rehydrate.prefix.kept"]) == ("kept", True)
    assert third["http.response.status_code"] == 207
    parents = {span.parent.span_id for span in spans if span.parent}
    assert parents == {int(TRACE.split("-")[2], 16)}  # the client's trace goes on
    metrics = recorded.metrics()
    assert sum(point.count for point in metrics["gen_ai.client.operation.duration"]) == 3
    assert [point.value for point in metrics["rehydrate.compactions"]] == [1]
    saved = sum(
        each["rehydrate.before_tokens"] - each["rehydrate.prompt.tokens"]
        for each in (second, third)
    )
    assert [point.value for point in metrics["rehydrate.left_out.tokens"]] == [saved]


def test_a_stream_has_the_time_of_its_first_chunk_and_a_failure_its_status() -> None:
    recorded = Recorded()
    with (
        StrictProvider(harbour.reply) as provider,
        served(
            provider.url, Shortener(budget_tokens=BUDGET), telemetry=recorded.telemetry
        ) as proxy,
    ):
        client = AnthropicClient(proxy.url, streams=True)
        client.turn(0)
        provider.rate_limit_next(retry_after=7)
        with pytest.raises(Exception, match="rate"):
            client.turn(1)
        client.close()
        *fine, failed = recorded.spans(3)
    for span in fine:
        about = dict(span.attributes or {})
        assert about["gen_ai.request.stream"] is True
        taken = (span.end_time or 0) - (span.start_time or 0)
        assert 0 < about["gen_ai.response.time_to_first_chunk"] * 1e9 <= taken
    assert failed.status.status_code is StatusCode.ERROR
    assert (failed.attributes or {})["error.type"] == "429"


def test_a_dry_run_says_what_was_sent() -> None:
    recorded = Recorded()
    with echoing(telemetry=recorded.telemetry, is_dry_run=True) as (_, proxy):
        proxy.post(PATH, chat_body(900))
        (span,) = recorded.spans(1)
    about = dict(span.attributes or {})
    assert about["rehydrate.prompt.tokens"] == about["rehydrate.before_tokens"]
    assert "gen_ai.conversation.compacted" not in about
