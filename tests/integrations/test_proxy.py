"""The proxy: requests extend one another, and all else passes as it is."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Mapping
from contextlib import closing
from datetime import timedelta
from itertools import product
from pathlib import Path
from typing import Any

import anthropic
import httpx
import openai
import pytest

pytest.importorskip("starlette", reason="the server of the proxy is not installed")

from rehydrate._native import RequestBody
from rehydrate.context.threads import Threads
from rehydrate.integrations.host_thread import HostThread
from rehydrate.integrations.proxy import Shortener, kept
from rehydrate.integrations.proxy.shortening import budget_of
from tests.integrations import harbour
from tests.integrations.proxied import (
    BUDGET,
    CLAUDE,
    CLIENTS,
    GPT,
    AnthropicClient,
    chat_body,
    echoing,
    sent_lists,
    served,
    talking,
    wait_until,
)
from tests.provider import StrictProvider
from tests.sizes import PATIENCE_SECONDS, sized

CLIENTS_AT_ONCE = sized(30, 100)


@pytest.mark.parametrize(
    ("client_type", "streams"),
    sized([*zip(CLIENTS, (True, False, True), strict=True)], [*product(CLIENTS, (False, True))]),
)
def test_requests_extend_one_another_between_compactions(client_type: Any, streams: bool) -> None:
    with talking(client_type, streams=streams) as (provider, proxy, client):
        for number in range(16):
            client.turn(number)
        metrics = proxy.get("/rehydrate/metrics").text
    assert provider.refusals == provider.overflows == []
    lists = sent_lists(provider.requests)
    assert len(lists) == 32
    assert harbour.breaks(lists) == proxy.proxy.totals.prefixes["compacted"] > 1
    assert proxy.proxy.totals.prefixes == {"new": 1, "compacted": harbour.breaks(lists)} | {
        "kept": 31 - harbour.breaks(lists)
    }
    assert len(lists[-1]) < len(client.messages) * 0.75
    billed = [exchange.billed.prompt for exchange in provider.requests if exchange.billed]
    assert max(billed) < 2 * BUDGET
    assert 'rehydrate_requests_total{prefix="compacted"}' in metrics


def test_thinking_is_accepted_by_models_that_bind_it_to_its_prefix() -> None:
    with talking(binds_thinking=None) as (provider, _, client):
        client.model = "claude-opus-5-5"
        for number in range(14):
            client.turn(number)
    assert provider.refusals == []
    assert harbour.breaks(sent_lists(provider.requests)) > 1


def test_a_request_within_the_budget_goes_out_byte_for_byte() -> None:
    with echoing() as (echo, proxy):
        body = chat_body(3)
        answer = proxy.post("/v1/chat/completions?a=%20b", body, authorization="Bearer k")
    path, headers, sent = echo.requests[0]
    assert sent == body
    assert path == b"/v1/chat/completions?a=%20b"
    assert headers[b"authorization"] == b"Bearer k"
    assert int(headers[b"content-length"]) == len(body)
    assert answer.status_code == 207
    assert answer.content == b"first," + body[:100]
    assert answer.headers["x-odd"] == "1"
    assert answer.headers["x-rehydrate"].endswith("prefix=new")


def test_all_but_the_messages_of_a_compacted_request_is_as_it_was() -> None:
    with echoing() as (echo, proxy):
        body = chat_body(900)
        answer = proxy.post("/v1/chat/completions", body, authorization="Bearer k")
    sent = echo.requests[0][2]
    before, after = RequestBody(body, "messages"), RequestBody(sent, "messages")
    assert answer.headers["x-rehydrate"].endswith("prefix=compacted")
    assert after.with_items([]) == before.with_items([])
    assert len(after.items) < len(before.items) / 2
    own = {item.text for item in before.items}
    assert {item.text for item in after.items} <= own  # the client's own words


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/v1/models", None),
        ("POST", "/v1/embeddings", b'{"input": ["a"]}'),
        ("POST", "/v1/files", b"\x00\xff" * 200_000),
        ("DELETE", "/v1/responses/resp_1", None),
        ("POST", "/v1/responses/resp_1/cancel", b""),
        ("POST", "/v1/chat/completions", b"no JSON \xff"),
        ("POST", "/v1/chat/completions", b'{"messages": [], "messages": []}'),
        ("POST", "/v1/chat/completions", b'{"messages": "text"}'),
        ("POST", "/v1/responses", b'{"input": "text"}'),
    ],
)
def test_all_other_requests_pass_as_they_are(method: str, path: str, body: bytes | None) -> None:
    with echoing() as (echo, proxy):
        answer = httpx.request(method, f"{proxy.url}{path}", content=body, trust_env=False)
    assert echo.requests[0][0] == path.encode() + b"?"
    assert echo.requests[0][2] == (body or b"")
    assert answer.headers["x-rehydrate"].startswith("untouched")
    assert answer.content == b"first," + (body or b"")[:100]


@pytest.mark.parametrize(
    "more", [{"previous_response_id": "resp_1"}, {"conversation": {"id": "conv_1"}}]
)
def test_what_the_provider_holds_is_not_compacted(more: Mapping[str, Any]) -> None:
    items = [{"role": "user", "content": f"Berth {n} is free."} for n in range(900)]
    body = json.dumps({"model": GPT, "input": items, **more}).encode()
    with echoing() as (echo, proxy):
        proxy.post("/v1/responses", body)
    assert echo.requests[0][2] == body


def test_a_compressed_request_passes_as_it_is() -> None:
    with echoing() as (echo, proxy):
        proxy.post("/v1/chat/completions", b"\x1f\x8b", **{"content-encoding": "gzip"})
    assert echo.requests[0][1][b"content-encoding"] == b"gzip"
    assert echo.requests[0][2] == b"\x1f\x8b"


def test_a_body_over_the_limit_passes_as_it_is() -> None:
    body = chat_body(900)
    with echoing(max_body_bytes=1_000) as (echo, proxy):
        answer = proxy.post("/v1/chat/completions", body)
    assert echo.requests[0][2] == body
    assert "limit" in answer.headers["x-rehydrate"]


def test_many_megabytes_are_read_and_go_on() -> None:
    size = sized(10_000_000, 50_000_000)
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * size}}
    body = json.dumps({"model": GPT, "messages": [{"role": "user", "content": [image]}]}).encode()
    with echoing() as (echo, proxy):
        answer = proxy.post("/v1/chat/completions", body)
    assert echo.requests[0][2] == body
    assert answer.headers["x-rehydrate"].endswith("prefix=new")


def test_a_dry_run_sends_what_came_and_says_what_it_would_do() -> None:
    body = chat_body(900)
    with echoing(is_dry_run=True) as (echo, proxy):
        answer = proxy.post("/v1/chat/completions", body)
        page = proxy.get("/rehydrate/").text
    assert echo.requests[0][2] == body
    assert answer.headers["x-rehydrate"].endswith("prefix=compacted; dry-run")
    assert "dry run: nothing was changed" in page


def test_our_own_failure_sends_what_came_and_is_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise RuntimeError("password=hunter2")

    monkeypatch.setattr(HostThread, "shown", fails)
    body = chat_body(900)
    with echoing() as (echo, proxy):
        answers = [proxy.post("/v1/chat/completions", body) for _ in range(3)]
    assert [each[2] for each in echo.requests] == [body] * 3
    assert {each.headers["x-rehydrate"] for each in answers} == {"untouched; failure=RuntimeError"}
    warned = [each for each in caplog.records if each.levelname == "WARNING"]
    assert len(warned) == 1
    assert "hunter2" not in caplog.text


@pytest.mark.filterwarnings("ignore:the messages were sent")
def test_what_cannot_be_compacted_goes_out_as_it_is() -> None:
    body = chat_body(2, text="Berth {} is free. " + "It has a crane. " * 60_000)  # it must stay
    with echoing(shortener=Shortener(budget_tokens=1_000)) as (echo, proxy):
        failed = proxy.post("/v1/chat/completions", body)
        answer = proxy.post("/v1/chat/completions", chat_body(3, text="x"))
    assert echo.requests[0][2] == body
    assert "failure=" in failed.headers["x-rehydrate"]
    assert answer.headers["x-rehydrate"].endswith("prefix=new")


def test_a_client_that_goes_away_ends_the_request_upstream() -> None:
    with echoing() as (echo, proxy):
        with httpx.stream("GET", f"{proxy.url}/hang", trust_env=False) as answer:
            assert next(answer.iter_raw()) == b"first,"
        assert echo.cancelled.wait(PATIENCE_SECONDS)
        with socket.create_connection(("127.0.0.1", int(proxy.url.rsplit(":", 1)[1]))) as client:
            echo.begun.clear()
            echo.cancelled.clear()
            head = b"POST /v1/chat/completions?hang HTTP/1.1\r\nHost: localhost\r\n"
            client.sendall(head + b"Content-Length: 2\r\n\r\n{}")
            assert echo.begun.wait(PATIENCE_SECONDS)
        assert echo.cancelled.wait(PATIENCE_SECONDS)
        wait_until(lambda: proxy.proxy.totals.statuses["207"] == 2)


@pytest.mark.parametrize("client_type", CLIENTS)
def test_an_upstream_that_is_gone_is_an_error_that_the_sdks_read(client_type: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        nowhere = f"http://127.0.0.1:{free.getsockname()[1]}"
    with served(nowhere) as proxy, closing(client_type(proxy.url)) as client:
        sdk = anthropic if client_type is AnthropicClient else openai
        with pytest.raises(sdk.InternalServerError, match="the provider cannot be reached"):
            client.turn(0)
        answer = proxy.post(client.path, b"{}")
    assert answer.status_code == 502
    assert "ConnectError" in answer.headers["x-rehydrate"]


def test_a_stream_that_the_provider_cuts_is_cut_for_the_client() -> None:
    with talking(streams=True) as (provider, _, client):
        provider.drop_next(midway=True)
        with pytest.raises(Exception, match="incomplete chunked read"):
            client.turn(0)
        client.messages.clear()
        client.turn(0)  # the proxy goes on
    assert provider.refusals == []


def test_errors_of_the_provider_pass_as_they_are() -> None:
    with talking() as (provider, _, client):
        provider.rate_limit_next(retry_after=7)
        with pytest.raises(anthropic.RateLimitError) as caught:
            client.turn(0)
    assert caught.value.response.headers["retry-after"] == "7"


def test_a_count_is_of_what_would_be_sent() -> None:
    with talking() as (provider, proxy, client):
        for number in range(10):
            client.turn(number)
        client.messages.append({"role": "user", "content": harbour.question(10)})
        request = client.request()
        del request["max_tokens"]
        counted = client._client.messages.count_tokens(**request).input_tokens
        client.ask()
    assert provider.refusals == []
    count, request_sent = provider.requests[-2:]
    assert count.path.endswith("/count_tokens")
    assert proxy.proxy.totals.prefixes["compacted"] >= 1
    assert sent_lists([count]) == sent_lists([request_sent])
    assert counted < sum(len(harbour.text_of(each)) for each in client.messages) / 3.5


def test_branches_of_a_conversation_share_its_prefix() -> None:
    """As the side questions of Claude Code, which extend the messages and are left again."""
    with talking() as (provider, proxy, client):
        while not proxy.proxy.totals.prefixes["compacted"]:
            client.turn(len(client.messages))
        for _ in range(3):
            before = list(client.messages)
            client.messages.append({"role": "user", "content": "Say it shorter."})
            client.ask()
            client.messages = before
            client.turn(len(client.messages))
    assert provider.refusals == []
    assert proxy.proxy.totals.prefixes["compacted"] == 1
    assert proxy.proxy.totals.prefixes["new"] == 1
    assert proxy.proxy.totals.prefixes["changed"] == 0


def test_a_restart_keeps_the_prefix_where_plans_are_stored(tmp_path: Path) -> None:
    place = tmp_path / "threads.db"
    with StrictProvider(harbour.reply) as provider:
        messages: list[Any] = []
        for _ in range(2):
            with Threads.open(place) as threads:
                shortener = Shortener(budget_tokens=BUDGET, threads=threads)
                with (
                    served(provider.url, shortener, is_storing=True) as proxy,
                    closing(AnthropicClient(proxy.url)) as client,
                ):
                    client.messages = messages
                    begun = len(provider.requests)
                    while len(provider.requests) < begun + 19:
                        client.turn(len(messages))
            assert proxy.proxy.totals.failures == 0
        lists = sent_lists(provider.requests)
        assert harbour.breaks(lists[:begun]) > 0  # before the restart
        assert harbour.breaks(lists[begun - 1 : begun + 1]) == 0
    assert provider.refusals == []
    assert b"Bearer" not in place.read_bytes()


def test_a_store_forgets_old_plans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = chat_body(900)
    with Threads.open(tmp_path / "threads.db") as threads:

        def prefix() -> str:
            shortener = Shortener(budget_tokens=BUDGET, threads=threads)
            return shortener.shorten("openai_chat", body, key="k").prefix

        assert [prefix(), prefix()] == ["compacted", "new"]
        monkeypatch.setattr(kept, "KEPT", timedelta(days=-1))
        assert prefix() == "compacted"


def test_a_store_forgets_old_plans_of_clients_that_do_not_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = chat_body(900)
    with Threads.open(tmp_path / "threads.db") as threads:
        for number in range(3):
            shortener = Shortener(budget_tokens=BUDGET, threads=threads)
            shortener.shorten("openai_chat", body, key=f"gone {number}")
        scopes = [each.name for each in threads.list(namespace="proxy")]
        plans = [threads.list(namespace=f"proxy {scope}") for scope in scopes]
        assert [*map(len, plans)] == [1, 1, 1]
        monkeypatch.setattr(kept, "KEPT", timedelta(days=-1))
        for number in range(3):
            shortener.shorten("openai_chat", chat_body(2), key=f"new {number}")
        assert threads.list(namespace="proxy") == []
        assert not any(threads.list(namespace=f"proxy {scope}") for scope in scopes)


def test_no_request_waits_until_all_old_plans_are_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Threads.open(tmp_path / "threads.db") as threads:
        threads.keep("gone", "2026-01-01", namespace="proxy")
        for number in range(3):
            threads.keep(f"{number}", "{}", format="openai_chat", namespace="proxy gone")
        monkeypatch.setattr(kept, "KEPT", timedelta(days=-1))
        monkeypatch.setattr(kept, "_MAX_SECONDS", 0.0)
        shortener = Shortener(budget_tokens=BUDGET, threads=threads)
        left = []
        for number in range(3):
            shortener.shorten("openai_chat", chat_body(2), key=f"new {number}")
            left.append(len(threads.list(namespace="proxy gone")))
        assert left == [2, 1, 0]
        assert threads.list(namespace="proxy") == []


def test_a_store_that_fails_is_logged_and_the_request_is_compacted(tmp_path: Path) -> None:
    threads = Threads.open(tmp_path / "threads.db")
    threads.close()
    body = chat_body(900)
    shortener = Shortener(budget_tokens=BUDGET, threads=threads)
    with echoing(shortener=shortener, is_storing=True) as (_, proxy):
        answer = proxy.post("/v1/chat/completions", body)
    assert answer.headers["x-rehydrate"].endswith("prefix=compacted")
    assert proxy.proxy.totals.failures > 0


def test_a_budget_is_within_the_window_of_the_model() -> None:
    windows = {
        **dict.fromkeys(("claude-opus-5-5", "claude-sonnet-4-6", "gpt-4.1"), 1_000_000),
        **dict.fromkeys(("gpt-6.1-sol", "gpt-5.6", "gpt-5.6-luna", "gpt-5.4"), 922_000),
        "gpt-5": 272_000,
        "gpt-4o-mini-2024-07-18": 128_000,
        "claude-haiku-4-5": 200_000,
    }
    for model, window in windows.items():
        assert budget_of(model, None).hard_tokens == window * 9 // 10, model


def test_keys_and_models_share_nothing() -> None:
    body = chat_body(900)
    other = body.replace(GPT.encode(), b"gpt-5.2")
    with echoing() as (_, proxy):
        path = "/v1/chat/completions"
        prefixes = [
            proxy.post(path, sent, authorization=key).headers["x-rehydrate"].rpartition("=")[2]
            for key, sent in [("a", body), ("b", body), ("a", other), ("a", body)]
        ]
    assert prefixes == ["compacted", "compacted", "compacted", "kept"]


def test_pages_show_conversations_and_their_compactions() -> None:
    with echoing() as (_, proxy):
        proxy.post("/v1/chat/completions", chat_body(900))
        overview, compaction = proxy.get("/rehydrate/"), proxy.get("/rehydrate/1/1")
        missing = proxy.get("/rehydrate/1/7")
    assert GPT in overview.text
    assert "conversation 1, compaction 1" in compaction.text
    assert "Berth 0 is free." in compaction.text  # what was left out is next to what stays
    assert "others are worth more for their tokens" in compaction.text
    assert missing.status_code == 404


def test_many_clients_at_once_keep_their_conversations() -> None:
    async def talk(client: anthropic.AsyncAnthropic, name: str) -> None:
        messages: list[Any] = []
        for turn in range(2):
            messages.append({"role": "user", "content": f"{name}: {harbour.question(turn)}"})
            said = await client.messages.create(model=CLAUDE, max_tokens=99, messages=messages)
            messages.append({"role": "assistant", "content": said.content[0].text})

    async def all_of_them(url: str) -> None:
        http = anthropic.DefaultAsyncHttpxClient(verify=False, trust_env=False)
        async with anthropic.AsyncAnthropic(
            api_key="key", base_url=url, max_retries=0, http_client=http
        ) as client:
            await asyncio.gather(*[talk(client, f"client {n}") for n in range(CLIENTS_AT_ONCE)])

    with (
        StrictProvider(lambda request, wire: "Berth 4.") as provider,
        served(provider.url, Shortener(budget_tokens=200)) as proxy,
    ):
        asyncio.run(all_of_them(proxy.url))
    assert provider.refusals == []
    assert len(provider.requests) == 2 * CLIENTS_AT_ONCE
    assert (
        proxy.proxy.totals.prefixes["new"] + proxy.proxy.totals.prefixes["compacted"]
        >= CLIENTS_AT_ONCE
    )
    assert proxy.proxy.totals.failures == 0


def test_the_async_client_of_openai_streams_through() -> None:
    async def ask(url: str) -> str:
        http = openai.DefaultAsyncHttpxClient(verify=False, trust_env=False)
        async with openai.AsyncOpenAI(
            api_key="key", base_url=f"{url}/v1", max_retries=0, http_client=http
        ) as client:
            stream = await client.chat.completions.create(
                model=GPT, messages=[{"role": "user", "content": "Which berth?"}], stream=True
            )
            return "".join([each.choices[0].delta.content or "" async for each in stream])

    with (
        StrictProvider(lambda request, wire: "Berth 4 is free.") as provider,
        served(provider.url) as proxy,
    ):
        assert asyncio.run(ask(proxy.url)) == "Berth 4 is free."
