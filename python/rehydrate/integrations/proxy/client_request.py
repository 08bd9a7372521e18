"""One request of a client and its answer, over HTTP."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from time import perf_counter
from typing import Any
from urllib.parse import parse_qsl

import anyio
import httpx
from starlette.types import Message, Receive, Scope, Send

from rehydrate._native import Bill, end_to_end, error_event, is_own_request, refused_request
from rehydrate.cost.prices import Usage
from rehydrate.errors import InvalidArgumentError
from rehydrate.integrations.proxy.shortening import Outcome
from rehydrate.messages import Provider

HEADER = b"x-rehydrate"
_OF_KEYS = ("api-key", "authorization", "-auth")
_KEY_IN_QUERY = re.compile("key|token", re.I)
CONNECT_SECONDS = 30.0
"""A model may think for any time before it answers, and the client decides how long it waits."""


@dataclass
class ClientRequest:
    """One request and what is known of it."""

    method: str
    path: str
    query: str
    headers: list[tuple[bytes, bytes]]
    wire: Provider | None
    is_counting: bool
    outcome: Outcome = field(default_factory=Outcome)
    failure: str = ""
    seconds: float = 0.0
    """That the proxy took for it."""
    status: int = 0
    begun: float = field(default_factory=perf_counter)
    first_chunk: float = 0.0
    """When the answer's first part came, as `perf_counter` has it too; 0: none came."""
    is_streamed: bool = False
    """Whether the answer is a stream of events."""
    bill: Bill | None = None
    """The cost of the answer, if it is a model's."""

    @property
    def usage(self) -> Usage | None:
        """The tokens that the answer cost, as far as they were read; None if none were."""
        found = self.bill.usage() if self.bill else {}
        try:
            return Usage.billed(found) if found else None
        except (InvalidArgumentError, TypeError):
            return None

    @property
    def is_anthropic(self) -> bool:
        """Whether it is for Anthropic's API: its keys go to nobody else."""
        if self.wire is not None:
            return self.wire == "anthropic"
        return any(
            name == b"x-api-key" or name.startswith(b"anthropic-") or b"sk-ant-" in value
            for name, value in self.headers
        )

    @property
    def named(self) -> dict[str, str]:
        """The headers by name."""
        return {name.decode(): value.decode("latin-1") for name, value in self.headers}

    @property
    def key(self) -> str:
        """All that says whose request it is: headers of keys, and keys in the query."""
        said = [(name.decode(), value.decode("latin-1")) for name, value in self.headers]
        of_keys = [each for each in said if each[0].endswith(_OF_KEYS)]
        asked = [each for each in parse_qsl(self.query) if _KEY_IN_QUERY.search(each[0])]
        return json.dumps([of_keys, asked])

    @property
    def error(self) -> str:
        """The failure of the answer in one word; "" for none."""
        if not self.status:
            return "cancelled"
        return str(self.status) if self.status >= HTTPStatus.BAD_REQUEST else ""

    def attributes(self) -> dict[str, Any]:
        """Return the attributes of the answer for a span."""
        about: dict[str, Any] = {"http.response.status_code": self.status} if self.status else {}
        if self.failure:
            about["rehydrate.failure"] = self.failure
        if self.is_streamed:
            about["gen_ai.request.stream"] = True
            if self.first_chunk:
                about["gen_ai.response.time_to_first_chunk"] = self.first_chunk - self.begun
        return about

    def note(self) -> str:
        """Return the value of ``x-rehydrate``."""
        if self.failure:
            return f"untouched; failure={self.failure}"
        outcome = self.outcome
        if not outcome.before:
            return f"untouched; {outcome.untouched}" if outcome.untouched else "untouched"
        shown = f"before={outcome.before}; after={outcome.after}"
        if outcome.prefix:
            shown += f"; prefix={outcome.prefix}"
        answered = outcome.asking.answered if outcome.asking else 0
        return f"{shown}; answered={answered}" if answered else shown


class Answer:
    """The answer to a client."""

    def __init__(self, exchange: ClientRequest, send: Send, *, is_dry_run: bool) -> None:
        """Answer this request."""
        self._exchange = exchange
        self._send = send
        self._is_dry_run = is_dry_run
        self.is_begun = False

    async def start(self, response: httpx.Response, *, is_changed: bool = False) -> None:
        """Send the status and the headers, once; ``is_changed``: the body is not as it came."""
        if self.is_begun:
            return
        self._exchange.status = response.status_code
        kind = response.headers.get("content-type", "")
        self._exchange.is_streamed = kind.startswith("text/event-stream")
        dropped = [b"content-length", b"content-encoding"] if is_changed else []
        headers = end_to_end(response.headers.raw, dropped)
        note = f"{self._exchange.note()}{'; dry-run' if self._is_dry_run else ''}"
        headers.append((HEADER, one_line(note).encode()))
        self.is_begun = True
        if self._exchange.wire and not self._exchange.is_counting and response.is_success:
            self._exchange.bill = Bill(is_streamed=self._exchange.is_streamed)
        await self._send(start_message(response.status_code, headers))

    async def send(self, chunk: bytes) -> None:
        """Send a part of the body, which is not compressed."""
        await self._pass(chunk)
        if self._exchange.bill:
            self._exchange.bill.feed(chunk)

    async def _passed(self, raw: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for chunk in raw:
            await self._pass(chunk)
            yield chunk

    async def _pass(self, chunk: bytes) -> None:
        if chunk:
            self._exchange.first_chunk = self._exchange.first_chunk or perf_counter()
            await self._send({"type": "http.response.body", "body": chunk, "more_body": True})

    async def end(self) -> None:
        """Say that the body is complete."""
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def pass_on(self, response: httpx.Response) -> None:
        """Send a reply as it comes; a copy of what was sent is read for its bill."""
        await self.start(response)
        raw = response.aiter_raw()
        if self._exchange.bill:
            kind = {"content-encoding": response.headers.get("content-encoding", "")}
            sent = httpx.Response(200, headers=kind, content=self._passed(raw))
            with suppress(httpx.DecodingError):
                async for part in sent.aiter_bytes():
                    self._exchange.bill.feed(part)
        async for chunk in raw:
            await self._pass(chunk)

    async def fail(self, response: httpx.Response) -> None:
        """Send an error of the provider: as it came, or as an event where a stream has begun."""
        if not self.is_begun:
            await self.start(response, is_changed=True)
            await self.send(await response.aread())
            return
        await self.send(error_event(await response.aread(), self._exchange.wire))


class GoneError(Exception):
    """The client went away before it had sent its body."""


class Incoming:
    """The body of a client's request, and whether the client is still there."""

    def __init__(self, receive: Receive) -> None:
        """Read from here."""
        self._receive = receive
        self.is_whole = False
        self._is_read = anyio.Event()

    async def read(self, most: int) -> bytes:
        """Return the body; if it is longer, at least so much of it."""
        parts: list[bytes] = []
        size = 0
        while not self.is_whole and size <= most:
            part = await self._next()
            parts.append(part)
            size += len(part)
        return b"".join(parts)

    async def rest(self, read: bytes) -> AsyncIterator[bytes]:
        """Yield what was read, and what comes after."""
        if read:
            yield read
        while not self.is_whole:
            part = await self._next()
            if part:
                yield part

    def end(self) -> None:
        """Note that the body has ended."""
        self.is_whole = True
        self._is_read.set()

    async def until_gone(self, scope: anyio.CancelScope) -> None:
        """Cancel the scope when the client goes away after it has sent its body."""
        await self._is_read.wait()
        while (await self._receive())["type"] != "http.disconnect":
            pass
        scope.cancel()

    async def _next(self) -> bytes:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise GoneError
        if not message.get("more_body", False):
            self.end()
        body: bytes = message.get("body", b"")
        return body


def refusal(scope: Scope) -> tuple[int, str] | None:
    """Return the status and the reason for a request that does not go on; None: it does."""
    path = scope.get("raw_path") or scope["path"].encode()
    return refused_request(_client(scope), path, scope["headers"])


def is_at_home(scope: Scope) -> bool:
    """Whether a request is from this machine, and from no page of another site."""
    return is_own_request(_client(scope), scope["headers"])


def _client(scope: Scope) -> str | None:
    client = scope.get("client")
    return client and str(client[0])


def upstream_request(
    exchange: ClientRequest, upstream: str, content: bytes | AsyncIterator[bytes] | None
) -> httpx.Request:
    """Return the request as it goes on to the provider."""
    dropped = [b"host", b"expect", *([b"content-length"] if isinstance(content, bytes) else ())]
    query = f"?{exchange.query}" if exchange.query else ""
    url = f"{upstream}{exchange.path}{query}"
    return httpx.Request(
        exchange.method,
        url,
        headers=end_to_end(exchange.headers, dropped),
        content=content,
        extensions={"timeout": httpx.Timeout(None, connect=CONNECT_SECONDS).as_dict()},
    )


async def send_error(
    exchange: ClientRequest, send: Send, status: int, words: str, code: str, note: str
) -> None:
    """Answer with an error of ours, in the API's own shape; ``code`` is OpenAI's."""
    exchange.status = status
    is_ours = status >= HTTPStatus.INTERNAL_SERVER_ERROR
    about: dict[str, Any] = {"message": f"rehydrate proxy: {words}"}
    body: dict[str, Any]
    if exchange.is_anthropic:
        kind = "api_error" if is_ours else "invalid_request_error"
        body = {"type": "error", "error": {"type": kind, **about}}
    else:
        kind = "server_error" if is_ours else "invalid_request_error"
        body = {"error": {**about, "type": kind, "param": None, "code": code}}
    content = json.dumps(body).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(content)).encode()),
        (HEADER, one_line(note).encode()),
    ]
    if not is_ours:
        headers.append((b"connection", b"close"))  # its body may be unread
    await send(start_message(status, headers))
    await send({"type": "http.response.body", "body": content})


_FIRST_UNKNOWN = 600


def start_message(status: int, headers: list[tuple[bytes, bytes]]) -> Message:
    """Return the message that begins an answer. A status that HTTP doesn't have becomes a bad
    gateway's: the server would close the connection without a word.

    >>> start_message(999, [])["status"], start_message(529, [])["status"]
    (502, 529)
    """
    shown = status if status < _FIRST_UNKNOWN else 502
    return {"type": "http.response.start", "status": shown, "headers": headers}


def one_line(text: str) -> str:
    """Return a text as a header or a line of a log may have it.

    >>> one_line("gpt\\n10:00 POST")
    'gpt?10:00 POST'
    """
    return "".join(c if " " <= c <= "~" else "?" for c in text[:500])
