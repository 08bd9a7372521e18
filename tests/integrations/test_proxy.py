"""The proxy in front of the strict provider, with the real SDKs as its clients."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import anthropic
import httpx
import openai
import pytest
import uvicorn

from rehydrate.context.threads import Threads
from rehydrate.formats.anthropic import unmarked
from rehydrate.integrations import loopback_http
from rehydrate.integrations.host_thread import HostThread
from rehydrate.integrations.proxy import Proxy, Shortener, kept
from rehydrate.integrations.proxy.body import in_blocks, read_body
from tests.integrations import harbour
from tests.provider import Call, Exchange, ScriptedReply, StrictProvider
from tests.sizes import PATIENCE_SECONDS

BUDGET = 2_500
CLAUDE, GPT = "claude-opus-4-6", "gpt-5.1"
SCHEMA = {"type": "object", "properties": {"query": {"type": "string"}}}
ABOUT = "Look something up in the harbour's books."


class Served(NamedTuple):
    """A proxy that runs."""

    proxy: Proxy
    url: str

    def get(self, path: str, **headers: str) -> httpx.Response:
        return httpx.get(f"{self.url}{path}", headers=headers, trust_env=False)

    def post(self, path: str, body: bytes, **headers: str) -> httpx.Response:
        sent = {"content-type": "application/json", **headers}
        return httpx.post(
            f"{self.url}{path}", content=body, headers=sent, timeout=60, trust_env=False
        )


@contextmanager
def served(upstream: str, shortener: Shortener | None = None, **options: Any) -> Iterator[Served]:
    shortener = shortener or Shortener(budget_tokens=BUDGET)
    proxy = Proxy(shortener, {"anthropic": upstream, "openai": upstream}, **options)
    bound = loopback_http.bound_socket(0)
    server = proxy.server()
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
    thread.start()
    wait_until(lambda: server.started)
    try:
        yield Served(proxy, f"http://127.0.0.1:{bound.getsockname()[1]}")
    finally:
        server.should_exit = True
        thread.join()


def wait_until(holds: Any) -> None:
    for _ in range(int(PATIENCE_SECONDS * 100)):
        if holds():
            return
        time.sleep(0.01)
    raise AssertionError("it did not become true")


def sent_lists(exchanges: Sequence[Exchange]) -> list[list[Any]]:
    """Return the messages of each request, as a cache compares them."""
    return [
        [in_blocks(unmarked(each)) for each in harbour.messages_of(exchange.body or {})]
        for exchange in exchanges
    ]


class AnthropicClient:
    """A client that marks its last message, as Claude Code does, and so changes it later."""

    path = "/v1/messages"
    model = CLAUDE

    def __init__(self, url: str, *, streams: bool = False) -> None:
        http = anthropic.DefaultHttpxClient(verify=False, trust_env=False)
        self._client = anthropic.Anthropic(
            api_key="key", base_url=url, max_retries=0, http_client=http
        )
        self._streams = streams
        self.messages: list[Any] = []

    def request(self) -> dict[str, Any]:
        last = self.messages[-1]
        content = in_blocks(last)["content"]
        marked = {**content[-1], "cache_control": {"type": "ephemeral"}}
        messages = [*self.messages[:-1], {**last, "content": [*content[:-1], marked]}]
        tool = {"name": "lookup", "description": ABOUT, "input_schema": SCHEMA}
        return {
            "model": self.model,
            "max_tokens": 500,
            "system": harbour.INSTRUCTIONS,
            "messages": messages,
            "tools": [tool],
        }

    def ask(self) -> list[Any]:
        """Send the messages, add the answer, and return the results of its calls."""
        if self._streams:
            with self._client.messages.stream(**self.request()) as stream:
                said = stream.get_final_message()
        else:
            said = self._client.messages.create(**self.request())
        content = [block.to_dict() for block in said.content]
        self.messages.append({"role": "assistant", "content": content})
        return [
            {"type": "tool_result", "tool_use_id": block["id"], "content": found(block["input"])}
            for block in content
            if block["type"] == "tool_use"
        ]

    def close(self) -> None:
        self._client.close()

    def add(self, results: list[Any]) -> None:
        self.messages.append({"role": "user", "content": results})

    def turn(self, number: int) -> None:
        self.messages.append({"role": "user", "content": harbour.question(number)})
        while results := self.ask():
            self.add(results)


class ChatClient:
    path = "/v1/chat/completions"
    model = GPT

    def __init__(self, url: str, *, streams: bool = False) -> None:
        http = openai.DefaultHttpxClient(verify=False, trust_env=False)
        self._client = openai.OpenAI(
            api_key="key", base_url=f"{url}/v1", max_retries=0, http_client=http
        )
        self._streams = streams
        self.messages: list[Any] = [{"role": "system", "content": harbour.INSTRUCTIONS}]

    def ask(self) -> list[Any]:
        tool = {
            "type": "function",
            "function": {"name": "lookup", "description": ABOUT, "parameters": SCHEMA},
        }
        request: dict[str, Any] = {"model": self.model, "messages": self.messages, "tools": [tool]}
        if self._streams:
            with self._client.chat.completions.stream(**request) as stream:
                said = stream.get_final_completion().choices[0].message
        else:
            said = self._client.chat.completions.create(**request).choices[0].message
        calls = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.function.name, "arguments": call.function.arguments},
            }
            for call in said.tool_calls or ()
        ]
        more = {"tool_calls": calls} if calls else {}
        self.messages.append({"role": "assistant", "content": said.content, **more})
        return [
            {
                "role": "tool",
                "tool_call_id": call["id"],
                "content": found(json.loads(call["function"]["arguments"])),
            }
            for call in calls
        ]

    def close(self) -> None:
        self._client.close()

    def add(self, results: list[Any]) -> None:
        self.messages += results

    def turn(self, number: int) -> None:
        self.messages.append({"role": "user", "content": harbour.question(number)})
        while results := self.ask():
            self.add(results)


class ResponsesClient(ChatClient):
    path = "/v1/responses"

    def __init__(self, url: str, *, streams: bool = False) -> None:
        super().__init__(url, streams=streams)
        self.messages = []

    def ask(self) -> list[Any]:
        request: dict[str, Any] = {
            "model": self.model,
            "input": self.messages,
            "instructions": harbour.INSTRUCTIONS,
            "include": ["reasoning.encrypted_content"],
            "store": False,
            "tools": [
                {"type": "function", "name": "lookup", "parameters": SCHEMA, "strict": False}
            ],
        }
        if self._streams:
            with self._client.responses.stream(**request) as stream:
                said = stream.get_final_response()
        else:
            said = self._client.responses.create(**request)
        items = [item.to_dict() for item in said.output]
        for item in items:
            item.pop("parsed_arguments", None)
            for part in item.get("content") or ():
                part.pop("parsed", None)
        self.messages += items
        return [
            {
                "type": "function_call_output",
                "call_id": item["call_id"],
                "output": found(json.loads(item["arguments"])),
            }
            for item in items
            if item["type"] == "function_call"
        ]


CLIENTS = [AnthropicClient, ChatClient, ResponsesClient]


@contextmanager
def talking(
    client_type: Any = AnthropicClient, *, streams: bool = False, **settings: Any
) -> Iterator[tuple[StrictProvider, Served, Any]]:
    with (
        StrictProvider(harbour.reply, **settings) as provider,
        served(provider.url) as proxy,
        closing(client_type(proxy.url, streams=streams)) as client,
    ):
        yield provider, proxy, client


def found(arguments: Mapping[str, Any]) -> str:
    return harbour.looked_up(arguments["query"])


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("client_type", CLIENTS)
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
        for number in range(30):
            client.turn(number)
    assert provider.refusals == []
    assert harbour.breaks(sent_lists(provider.requests)) > 1


def chat_body(count: int, text: str = "Berth {} is free.", **more: Any) -> bytes:
    """Return a request with an odd but valid JSON text."""
    said = [{"role": "user", "content": text.format(n) + " \u00e9"} for n in range(count)]
    return json.dumps(
        {"model": GPT, "messages": said, "temperature": 1.0, **more}, indent=1
    ).encode()


class Echo:
    """An upstream that answers with what it got, byte for byte."""

    def __init__(self) -> None:
        self.requests: list[tuple[bytes, dict[bytes, bytes], bytes]] = []
        self.cancelled = threading.Event()
        self.begun = threading.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        parts, more = [], True
        while more:
            message = await receive()
            parts.append(message.get("body", b""))
            more = message.get("more_body", False)
        body = b"".join(parts)
        path = scope["raw_path"] + b"?" + scope["query_string"]
        self.requests.append((path, dict(scope["headers"]), body))
        headers = [(b"content-type", b"x/y"), (b"x-odd", b"1"), (b"set-cookie", b"a=b")]
        await send({"type": "http.response.start", "status": 207, "headers": headers})
        await send({"type": "http.response.body", "body": b"first,", "more_body": True})
        self.begun.set()
        if b"hang" in path:
            while (await receive())["type"] != "http.disconnect":
                pass
            self.cancelled.set()
            return
        await send({"type": "http.response.body", "body": body[:100], "more_body": False})


@contextmanager
def echoing(**options: Any) -> Iterator[tuple[Echo, Served]]:
    echo = Echo()
    bound = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        echo,
        lifespan="off",
        log_level="critical",
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
    thread.start()
    try:
        with served(f"http://127.0.0.1:{bound.getsockname()[1]}", **options) as proxy:
            yield echo, proxy
    finally:
        server.should_exit = True
        thread.join()


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
    before, after = read_body(body, "messages"), read_body(sent, "messages")
    assert answer.headers["x-rehydrate"].endswith("prefix=compacted")
    for one, other in [(0, "start"), (1, "end")]:
        place, place_before = after.spans["messages"][one], before.spans["messages"][one]
        if other == "start":
            assert after.text[:place] == before.text[:place_before]
        else:
            assert after.text[place:] == before.text[place_before:]
    assert len(after.items) < len(before.items) / 2
    written = {item.text for item in before.items}
    assert all(item.text in written for item in after.items)  # the client's own words


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


def test_fifty_megabytes_are_read_and_go_on() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 50_000_000}}
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
            head = (
                b"POST /v1/chat/completions?hang HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"
            )
            client.sendall(head)
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
        for number in range(16):
            client.turn(number)
        client.messages.append({"role": "user", "content": harbour.question(16)})
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
                    while len(provider.requests) < begun + 31:
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


def test_a_store_that_fails_is_logged_and_the_request_is_compacted(tmp_path: Path) -> None:
    threads = Threads.open(tmp_path / "threads.db")
    threads.close()
    body = chat_body(900)
    shortener = Shortener(budget_tokens=BUDGET, threads=threads)
    with echoing(shortener=shortener, is_storing=True) as (_, proxy):
        answer = proxy.post("/v1/chat/completions", body)
    assert answer.headers["x-rehydrate"].endswith("prefix=compacted")
    assert proxy.proxy.totals.failures > 0


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


def test_pages_show_conversations_and_are_only_for_this_machine() -> None:
    with echoing() as (_, proxy):
        proxy.post("/v1/chat/completions", chat_body(900, model="<b>gpt</b>"))
        overview, compaction = proxy.get("/rehydrate/"), proxy.get("/rehydrate/1/1")
        missing = proxy.get("/rehydrate/1/7")
        from_a_site = proxy.get("/rehydrate/", host="evil.example")
    assert "&lt;b&gt;gpt&lt;/b&gt;" in overview.text
    assert "conversation 1, compaction 1" in compaction.text
    assert (missing.status_code, from_a_site.status_code) == (404, 403)


def test_a_hundred_clients_at_once_keep_their_conversations() -> None:
    async def talk(client: anthropic.AsyncAnthropic, name: str) -> None:
        messages: list[Any] = []
        for turn in range(3):
            messages.append({"role": "user", "content": f"{name}: {harbour.question(turn)}"})
            said = await client.messages.create(model=CLAUDE, max_tokens=99, messages=messages)
            messages.append({"role": "assistant", "content": said.content[0].text})

    async def all_of_them(url: str) -> None:
        http = anthropic.DefaultAsyncHttpxClient(verify=False, trust_env=False)
        async with anthropic.AsyncAnthropic(
            api_key="key", base_url=url, max_retries=0, http_client=http
        ) as client:
            await asyncio.gather(*[talk(client, f"client {n}") for n in range(100)])

    with (
        StrictProvider(lambda request, wire: "Berth 4.") as provider,
        served(provider.url, Shortener(budget_tokens=200)) as proxy,
    ):
        asyncio.run(all_of_them(proxy.url))
    assert provider.refusals == []
    assert len(provider.requests) == 300
    assert proxy.proxy.totals.prefixes["new"] + proxy.proxy.totals.prefixes["compacted"] >= 100
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


def both(body: Mapping[str, Any], wire: str) -> Any:
    """Ask back, and call the client's tool at once."""
    said = harbour.since_user(body)
    asked = harbour.text_of(said[0]).partition(harbour.ASKED)[2].partition("?")[0]
    if not asked:
        return harbour.reply(body, wire)
    if len(said) > 1:
        is_there = harbour.code(asked) in "".join(map(harbour.text_of, said[1:]))
        return f"The code is {harbour.code(asked)}." if is_there else "I cannot say."
    calls = (
        Call("lookup", {"query": "crane"}),
        Call("request_context", {"query": f"code of the lock of {asked}"}),
    )
    return ScriptedReply("I ask.", calls=calls, thinking="Both at once.")


def thinking_back(body: Mapping[str, Any], wire: str) -> Any:
    """Ask back with a thought before the call, and one before the answer."""
    found = harbour.asking_back(body, wire)
    return replace(found, thinking="I think of it.")


class AskedBack(NamedTuple):
    """A conversation whose model asked for what was left out."""

    provider: StrictProvider
    client: Any
    code: str
    said: str
    """What the client got for it."""
    prefixes: Mapping[str, int]


def ask_back(
    client_type: Any,
    reply: Any,
    *,
    streams: bool,
    model: str | None = None,
    threads: Any = (None, None),
    **settings: Any,
) -> AskedBack:
    def shortener(number: int) -> Shortener:
        return Shortener(budget_tokens=2 * BUDGET, asks_back=True, threads=threads[number])

    with StrictProvider(reply, **settings) as provider:
        with (
            served(provider.url, shortener(0)) as proxy,
            closing(client_type(proxy.url, streams=streams)) as client,
        ):
            client.model = model or client_type.model
            for number in range(32):
                client.turn(number)
            sent = harbour.messages_of(provider.requests[-1].body or {})
            text = "".join(map(harbour.text_of, client.messages))
            asked = harbour.forgotten(re.findall(r"The lock of ([a-z ]+?) opens", text), sent)
            at = len(client.messages)
            client.messages.append({"role": "user", "content": f"{harbour.ASKED}{asked}?"})
            while results := client.ask():
                client.add(results)
            said = "".join(map(harbour.text_of, client.messages[at + 1 :]))
        with (
            served(provider.url, shortener(1)) as again,
            closing(client_type(again.url, streams=streams)) as later,
        ):
            later.messages, later.model = client.messages, client.model
            later.turn(33)
    prefixes = proxy.proxy.totals.prefixes + again.proxy.totals.prefixes
    return AskedBack(provider, client, harbour.code(asked), said, prefixes)


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("reply", [thinking_back, both])
@pytest.mark.parametrize("client_type", CLIENTS)
def test_a_model_asks_back_and_the_client_sees_one_answer(
    client_type: Any, reply: Any, streams: bool, tmp_path: Path
) -> None:
    with (
        Threads.open(tmp_path / "plans.db") as threads,
        Threads.open(tmp_path / "plans.db") as later,
    ):
        found = ask_back(client_type, reply, streams=streams, threads=(threads, later))
    assert found.provider.refusals == []
    assert found.code in found.said
    assert "I ask." in found.said
    assert "request_context" not in "".join(map(harbour.text_of, found.client.messages))
    # What the client did not see is there again after a restart.
    lists = sent_lists(found.provider.requests)
    assert "request_context" in "".join(map(harbour.text_of, lists[-1]))
    assert harbour.breaks(lists) == found.prefixes["compacted"]
    assert "changed" not in found.prefixes


@pytest.mark.parametrize("reply", [thinking_back, both])
def test_thinking_stays_bound_to_what_the_client_did_not_see(reply: Any) -> None:
    found = ask_back(
        AnthropicClient, reply, streams=True, model="claude-opus-5-5", binds_thinking=None
    )
    assert found.provider.refusals == []
    assert found.code in found.said


def berths(body: Mapping[str, Any], wire: str) -> Any:
    """Ask once for what is no longer shown, then say what came."""
    last = harbour.messages_of(body)[-1]
    if last["role"] == "tool":
        return "It is free." if "Berth 17 is free." in last["content"] else "I cannot say."
    return Call("request_context", {"query": "Berth 17"})


@contextmanager
def asked_about_berths(**body: Any) -> Iterator[tuple[StrictProvider, Any]]:
    shortener = Shortener(budget_tokens=BUDGET, asks_back=True)
    with StrictProvider(berths) as provider, served(provider.url, shortener) as proxy:
        headers = {"authorization": "Bearer key"}
        path, request = "/v1/chat/completions", chat_body(900, **body)
        yield provider, lambda: proxy.post(path, request, **headers)


def test_what_a_client_gets_is_one_reply_and_the_tokens_of_all() -> None:
    with asked_about_berths() as (provider, ask):
        said = ask()
    assert said.json()["choices"][0]["message"]["content"] == "It is free."
    assert said.headers["x-rehydrate"].endswith("prefix=compacted; answered=1")
    billed = [exchange.billed for exchange in provider.requests]
    assert len(billed) == 2
    usage = said.json()["usage"]
    assert usage["prompt_tokens"] == sum(each.prompt for each in billed)
    offered = [tool["function"]["name"] for tool in provider.requests[0].body["tools"]]
    assert offered == ["request_context", "fetch_whole"]


def test_a_failure_after_a_question_is_the_providers_own() -> None:
    with asked_about_berths() as (provider, ask):
        provider.rate_limit_next(7, after=1)
        refused = ask()
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "7")
        assert refused.json()["error"]["code"] == "rate_limit_exceeded"
        provider.drop_next(after=1)
        assert ask().status_code == 502
        assert ask().json()["choices"][0]["message"]["content"] == "It is free."


def test_a_failure_after_a_question_ends_a_stream_with_an_error() -> None:
    with asked_about_berths(stream=True) as (provider, ask):
        provider.rate_limit_next(7, after=1)
        refused = ask()
    assert refused.status_code == 200
    assert '"rate_limit_exceeded"' in refused.text
    assert "[DONE]" not in refused.text


def test_a_model_that_asks_for_ever_gets_the_clients_own_request() -> None:
    def asking(body: Mapping[str, Any], wire: str) -> Any:
        offered = [tool["function"]["name"] for tool in body.get("tools") or ()]
        return Call("request_context", {"query": "Berth"}) if offered else "Enough."

    shortener = Shortener(budget_tokens=BUDGET, asks_back=True)
    with StrictProvider(asking) as provider, served(provider.url, shortener) as proxy:
        path, headers = "/v1/chat/completions", {"authorization": "Bearer key"}
        said = proxy.post(path, chat_body(900), **headers)
    assert said.json()["choices"][0]["message"]["content"] == "Enough."
    assert said.headers["x-rehydrate"].startswith("untouched; failure=")
    assert len(provider.requests) == 13
