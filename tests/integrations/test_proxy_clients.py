"""Other clients of the proxy: async SDKs, LiteLLM, Codex' form of Responses, slow readers, and
those whose provider dies."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import anthropic
import httpx
import openai
import pytest

pytest.importorskip("starlette", reason="the server of the proxy is not installed")

import uvicorn

from rehydrate.integrations.proxy import Shortener
from tests.integrations import harbour
from tests.integrations.proxied import (
    CLAUDE,
    GPT,
    SCHEMA,
    ResponsesClient,
    chat_body,
    outputs_of,
    sent_lists,
    served,
    talking,
    wait_until,
)
from tests.provider import ScriptedReply, StrictProvider


def test_async_clients_stream_through_compactions() -> None:
    async def of_anthropic(url: str) -> int:
        http = anthropic.DefaultAsyncHttpxClient(verify=False, trust_env=False)
        messages: list[Any] = []
        async with anthropic.AsyncAnthropic(
            api_key="key", base_url=url, max_retries=0, http_client=http
        ) as client:
            for turn in range(8):
                messages.append({"role": "user", "content": harbour.words(f"a{turn}", 250)})
                async with client.messages.stream(
                    model=CLAUDE, max_tokens=99, messages=messages
                ) as stream:
                    said = await stream.get_final_text()
                messages.append({"role": "assistant", "content": said})
        return len(messages)

    async def of_openai(url: str) -> int:
        http = openai.DefaultAsyncHttpxClient(verify=False, trust_env=False)
        messages: list[Any] = []
        async with openai.AsyncOpenAI(
            api_key="key", base_url=f"{url}/v1", max_retries=0, http_client=http
        ) as client:
            for turn in range(8):
                messages.append({"role": "user", "content": harbour.words(f"o{turn}", 250)})
                async with client.chat.completions.stream(model=GPT, messages=messages) as stream:
                    said = (await stream.get_final_completion()).choices[0].message.content
                messages.append({"role": "assistant", "content": said})
        return len(messages)

    async def both(url: str) -> None:
        assert await asyncio.gather(of_anthropic(url), of_openai(url)) == [16, 16]

    with (
        StrictProvider(lambda request, wire: "Berth 4.") as provider,
        served(provider.url, Shortener(budget_tokens=1_000)) as proxy,
    ):
        asyncio.run(both(proxy.url))
    assert provider.refusals == []
    totals = proxy.proxy.totals
    assert totals.failures == 0
    assert totals.prefixes["new"] == 2
    breaks = [
        harbour.breaks(sent_lists([each for each in provider.requests if path in each.path]))
        for path in ("messages", "completions")
    ]
    assert sum(breaks) == totals.prefixes["compacted"]
    assert min(breaks) > 0


@pytest.mark.filterwarnings("ignore")  # LiteLLM's own, of what it imports late
def test_litellm_talks_through_compactions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # it asks the network otherwise
    litellm = pytest.importorskip("litellm")
    messages: list[Any] = []

    def ask(url: str, turn: int) -> str:
        messages.append({"role": "user", "content": harbour.words(f"l{turn}", 250)})
        about = {"model": f"openai/{GPT}", "api_base": f"{url}/v1", "api_key": "key"}
        if turn % 2:
            parts = litellm.completion(messages=messages, stream=True, **about)
            said = "".join([part.choices[0].delta.content or "" for part in parts])
        else:
            said = litellm.completion(messages=messages, **about).choices[0].message.content
        messages.append({"role": "assistant", "content": said})
        return said

    with (
        StrictProvider(lambda request, wire: "Berth 4.") as provider,
        served(provider.url, Shortener(budget_tokens=1_000)) as proxy,
    ):
        assert {ask(proxy.url, turn) for turn in range(8)} == {"Berth 4."}
    assert provider.refusals == []
    breaks = harbour.breaks(sent_lists(provider.requests))
    assert breaks == proxy.proxy.totals.prefixes["compacted"] > 0


class CodexClient(ResponsesClient):
    """As Codex writes requests: by hand, streamed, nothing stored, with reasoning that only the
    provider can read."""

    def __init__(self, url: str, *, streams: bool = True) -> None:
        super().__init__(url, streams=streams)
        self._http = httpx.Client(base_url=url, trust_env=False, timeout=60)

    def ask(self) -> list[Any]:
        request = {
            "model": self.model,
            "instructions": harbour.INSTRUCTIONS,
            "input": self.messages,
            "tools": [
                {"type": "function", "name": "lookup", "parameters": SCHEMA, "strict": False}
            ],
            "tool_choice": "auto",
            "parallel_tool_calls": False,
            "reasoning": {"effort": "medium", "summary": "auto"},
            "store": False,
            "stream": True,
            "include": ["reasoning.encrypted_content"],
            "prompt_cache_key": "0199a213-81c0-7800-8aa1-bbab2a035a53",
        }
        headers = {"authorization": "Bearer key", "originator": "codex_cli_rs", "session_id": "s"}
        with self._http.stream("POST", "/v1/responses", json=request, headers=headers) as answer:
            assert answer.status_code == 200, answer.read()
            lines = [line[6:] for line in answer.iter_lines() if line.startswith("data: {")]
        events = [json.loads(line) for line in lines]
        assert events[-1]["type"] == "response.completed"
        items = [each["item"] for each in events if each["type"] == "response.output_item.done"]
        self.messages += items
        return outputs_of(items)

    def close(self) -> None:
        super().close()
        self._http.close()


def test_codex_form_of_responses_keeps_its_encrypted_reasoning() -> None:
    with talking(CodexClient, streams=True) as (provider, proxy, client):
        for number in range(16):
            client.turn(number)
        said = client.messages
    assert provider.refusals == provider.overflows == []
    lists = sent_lists(provider.requests)
    assert harbour.breaks(lists) == proxy.proxy.totals.prefixes["compacted"] > 1
    keys = {(each.body or {})["prompt_cache_key"] for each in provider.requests}
    assert len(keys) == 1
    sealed = {each["encrypted_content"] for each in said if each.get("type") == "reasoning"}
    sent = [each for each in lists[-1] if each.get("type") == "reasoning"]
    assert len(sealed) == 32
    assert 0 < len(sent) < len(sealed)
    assert {each["encrypted_content"] for each in sent} <= sealed


class Flood:
    """An upstream whose answer is long."""

    size = 64 * 2**20

    def __init__(self) -> None:
        self.sent = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        while (await receive()).get("more_body"):
            pass
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        chunk = b"data: " + b"x" * 65_528 + b"\n\n"
        while self.sent < self.size:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
            self.sent += len(chunk)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


@contextmanager
def running(app: Any, port: int = 0) -> Iterator[int]:
    """Serve an application; yield its port."""
    bound = socket.create_server(("127.0.0.1", port))
    config = uvicorn.Config(
        app, lifespan="off", log_level="critical", timeout_graceful_shutdown=1, ws="none"
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
    thread.start()
    try:
        wait_until(lambda: server.started)
        yield bound.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()
        bound.close()


def test_a_slow_reader_holds_its_provider_back_and_nobody_else() -> None:
    flood = Flood()
    with running(flood) as port, served(f"http://127.0.0.1:{port}") as proxy:
        own = int(proxy.url.rsplit(":", 1)[1])
        with socket.create_connection(("127.0.0.1", own)) as slow:
            slow.sendall(b"POST /v1/x HTTP/1.1\r\nHost: [::1]\r\nContent-Length: 2\r\n\r\n{}")
            wait_until(lambda: flood.sent)
            stood = -1
            while stood != flood.sent:  # until nothing moves any more
                stood = flood.sent
                time.sleep(0.5)
            assert proxy.get("/rehydrate/metrics").status_code == 200
        assert stood < flood.size / 2  # the rest waits at the provider, not in the proxy


def test_a_provider_that_dies_and_comes_back_is_found_again() -> None:
    def app_that_says(words: bytes) -> Any:
        async def app(scope: Any, receive: Any, send: Any) -> None:
            while (await receive()).get("more_body"):
                pass
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": words})

        return app

    with running(app_that_says(b"first")) as port:
        pass  # its port is free again
    with served(f"http://127.0.0.1:{port}") as proxy:
        answers = []
        for words in (b"first", b"second"):
            with running(app_that_says(words), port):
                answers += [proxy.post("/v1/chat/completions", chat_body(3)) for _ in range(3)]
            answers.append(proxy.post("/v1/chat/completions", chat_body(3)))
    assert [each.content[:6] for each in answers if each.status_code == 200] == (
        [b"first"] * 3 + [b"second"] * 3
    )
    assert [each.status_code for each in answers if each.status_code != 200] == [502, 502]


NOON = "It is noon at the harbour, and all is well. " * 500


def test_a_client_that_lets_the_provider_compact_keeps_the_last_block() -> None:
    def reply(request: Any, wire: Any) -> ScriptedReply:
        count = len(str(request))
        summary = f"The user goes from berth to berth; {count} so far."
        return ScriptedReply(f"Ship {count}. {NOON}", thinking=f"{count}.", summary=summary)

    said: list[Any] = []
    trigger = {"type": "input_tokens", "value": 50_000}
    more: Any = {
        "betas": ["compact-2026-01-12"],
        "context_management": {"edits": [{"type": "compact_20260112", "trigger": trigger}]},
        "thinking": {"type": "adaptive"},
    }
    with (
        StrictProvider(reply, binds_thinking=None) as provider,
        served(provider.url, Shortener(budget_tokens=80_000)) as proxy,
        anthropic.DefaultHttpxClient(verify=False, trust_env=False) as http,
    ):
        client = anthropic.Anthropic(
            api_key="key", base_url=proxy.url, max_retries=0, http_client=http
        )
        for turn in range(14):
            said.append({"role": "user", "content": f"What is at berth {turn}? {NOON}"})
            answer = client.beta.messages.create(
                model="claude-opus-5-5", max_tokens=4_000, messages=said, **more
            )
            said.append({"role": "assistant", "content": [b.to_dict() for b in answer.content]})
        assert provider.refusals == []
        sent = (provider.requests[-1].body or {})["messages"]
    assert proxy.proxy.totals.prefixes["compacted"] > 0
    own, left = ([b for b in _blocks(each) if b["type"] == "compaction"] for each in (said, sent))
    assert len(own) > 1
    assert left == [block for block in own if block in left]
    assert left[-1] == own[-1] or own[-1] in _blocks(said[-1:])


def _blocks(messages: Any) -> list[Any]:
    contents = [each["content"] for each in messages if isinstance(each["content"], list)]
    return [block for content in contents for block in content]
