"""The proxy in front of the strict provider or of an echo, with the real SDKs as its clients."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any, NamedTuple

import anthropic
import httpx
import openai
import uvicorn

from rehydrate._native import in_blocks, unmarked
from rehydrate.integrations import loopback_http
from rehydrate.integrations.proxy import Proxy, Shortener
from tests.integrations import harbour
from tests.provider import Exchange, StrictProvider
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
            "messages": (),
            "extra_body": {"messages": messages},  # the SDK walks all others: that is slow
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
        request: dict[str, Any] = {
            "model": self.model,
            "messages": (),
            "tools": [tool],
            "extra_body": {"messages": self.messages},
        }
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
            "input": (),
            "extra_body": {"input": self.messages},
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
        return outputs_of(items)


def outputs_of(items: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The results of the calls among items of Responses."""
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
    client_type: Any = AnthropicClient,
    *,
    streams: bool = False,
    telemetry: Any = None,
    **settings: Any,
) -> Iterator[tuple[StrictProvider, Served, Any]]:
    with (
        StrictProvider(harbour.reply, **settings) as provider,
        served(provider.url, telemetry=telemetry) as proxy,
        closing(client_type(proxy.url, streams=streams)) as client,
    ):
        yield provider, proxy, client


def found(arguments: Mapping[str, Any]) -> str:
    return harbour.looked_up(arguments["query"])


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
        self.status, self.answer = 207, b""
        """The answer in place of what it got."""
        self.headers = [(b"content-type", b"x/y"), (b"x-odd", b"1"), (b"set-cookie", b"a=b")]

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
        start = {"type": "http.response.start", "status": self.status, "headers": self.headers}
        await send(start)
        if self.answer:
            size = max(100, len(self.answer) // 200)
            for at in range(0, len(self.answer), size):  # cut anywhere
                part = self.answer[at : at + size]
                await send({"type": "http.response.body", "body": part, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
            return
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
