"""OpenTelemetry's spans of requests that pass through the proxy."""

from __future__ import annotations

import gzip
import json
from typing import Any

import httpx
import pytest

pytest.importorskip("opentelemetry.sdk")
pytest.importorskip("starlette", reason="the server of the proxy is not installed")

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
    CLIENTS,
    GPT,
    AnthropicClient,
    ChatClient,
    chat_body,
    echoing,
    served,
    talking,
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


USED = "gen_ai.usage."


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("client_type", CLIENTS)
def test_spans_say_what_answers_cost(client_type: Any, streams: bool) -> None:
    recorded = Recorded()
    with talking(client_type, streams=streams, telemetry=recorded.telemetry) as parts:
        provider, proxy, client = parts
        for number in range(5):
            client.turn(number)
        spans = recorded.spans(10)
        metrics = proxy.get("/rehydrate/metrics").text
    about = [dict(span.attributes or {}) for span in spans]
    if streams and client_type is ChatClient:  # the client did not ask for it
        assert not any(name.startswith(USED) for each in about for name in each)
        return
    bills = [exchange.billed for exchange in provider.requests if exchange.billed]
    assert [each[f"{USED}input_tokens"] for each in about] == [each.prompt for each in bills]
    assert [each[f"{USED}output_tokens"] for each in about] == [each.output for each in bills]
    read = [each[f"{USED}cache_read.input_tokens"] for each in about]
    written = [each[f"{USED}cache_write.input_tokens"] for each in about]
    assert read == [each.read for each in bills]
    assert written == [each.written_5m + each.written_1h for each in bills]
    output = sum(each.output for each in bills)
    assert f'rehydrate_billed_tokens_total{{kind="output"}} {output}' in metrics
    metered = recorded.metrics()
    (spent,) = metered["gen_ai.client.inference.operation.output_tokens"]
    assert (spent.sum, spent.count) == (output, len(about))
    (spent,) = metered["gen_ai.client.inference.usage.output_tokens"]
    assert spent.value == output


BILL = {"prompt_tokens": 900, "completion_tokens": 7, "total_tokens": 907}
STREAM = b"".join(
    b"data: " + json.dumps({"choices": [], "text": "x" * size, "usage": usage}).encode() + b"\n\n"
    for size, usage in ((10, None), (2_000_000, None), (400, BILL))
)


@pytest.mark.parametrize("is_compressed", [False, True])
@pytest.mark.parametrize(
    ("kind", "answer", "tokens"),
    [
        ("application/json", json.dumps({"id": "c1", "usage": BILL}).encode(), 900),
        ("text/event-stream", STREAM[:100] + b"\n\n" + STREAM[-600:], 900),
        ("text/event-stream", STREAM, 900),  # an event over the limit is left out
        ("application/json", json.dumps({"usage": BILL, "data": "x" * 2_000_000}).encode(), None),
        ("application/json", json.dumps({"usage": {"prompt_tokens": "many"}}).encode(), None),
        ("application/json", json.dumps({"usage": {"prompt_tokens": -1}}).encode(), None),
        ("application/json", b'{"usage": {"inputTokens": 1, "cacheDetails": [1]}}', None),
        ("application/json", b'{"usage": [1], "message": 7, "response": {"usage": 5}}', None),
        ("application/json", b"[" * 100_000, None),
        ("application/json", b"\xff\xfe{", None),
        ("text/event-stream", b'data: {"usage": {"input_tokens": NaN}}\n\ndata: "usage"\n\n', None),
    ],
)
def test_no_byte_of_an_answer_waits_for_its_bill(
    kind: str, answer: bytes, tokens: int | None, is_compressed: bool
) -> None:
    recorded = Recorded()
    with echoing(telemetry=recorded.telemetry) as (echo, proxy):
        echo.status, echo.answer = 200, gzip.compress(answer) if is_compressed else answer
        echo.headers = [(b"content-type", kind.encode())]
        if is_compressed:
            echo.headers.append((b"content-encoding", b"gzip"))
        got = _raw(proxy.url)
        (span,) = recorded.spans(1)
    assert got == echo.answer
    assert (span.attributes or {}).get(f"{USED}input_tokens") == tokens
    assert (span.attributes or {})["http.response.status_code"] == 200


@pytest.mark.parametrize("encoding", [b"gzip", b"deflate", b"unheard-of"])
def test_an_answer_that_is_not_compressed_as_it_says_passes_as_it_is(encoding: bytes) -> None:
    recorded = Recorded()
    with echoing(telemetry=recorded.telemetry) as (echo, proxy):
        echo.status, echo.answer = 200, b"this is not compressed " * 40
        echo.headers.append((b"content-encoding", encoding))
        assert _raw(proxy.url) == echo.answer
        (span,) = recorded.spans(1)
    assert not any(name.startswith(USED) for name in span.attributes or {})
    assert proxy.proxy.totals.failures == 0


def _raw(url: str) -> bytes:
    with httpx.stream("POST", f"{url}{PATH}", content=chat_body(3), trust_env=False) as answer:
        return b"".join(answer.iter_raw())
