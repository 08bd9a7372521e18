"""The proxy: requests go on to the provider, those of conversations shortened; answers come back.

An answer passes as it is, chunk by chunk, with one header more: ``x-rehydrate``. Whatever goes
wrong in here, the client's own request goes out.
"""

from __future__ import annotations

import ipaddress
import json
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any
from urllib.parse import urlsplit

import anyio

from rehydrate._concurrency.async_wrappers import hand_over
from rehydrate._concurrency.workers import COMPUTING, STORING
from rehydrate._text import safe_error_text
from rehydrate.errors import InvalidArgumentError, MissingPackageError
from rehydrate.integrations.proxy.shortening import LOGGER, Outcome, Shortener, UntouchedError
from rehydrate.messages import Provider

try:
    import httpx
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import HTMLResponse, PlainTextResponse, Response
    from starlette.routing import Mount, Route
    from starlette.types import Message, Receive, Scope, Send

    from rehydrate.integrations.loopback_http import (
        LOOPBACK,
        MAX_BODY_BYTES,
        bound_socket,
        config_of,
    )
    from rehydrate.integrations.proxy.reports import Totals, compaction_page, overview_page
except ImportError:
    raise MissingPackageError("rehydrate[proxy]", "brings the server of the proxy") from None

__all__ = ["Proxy", "bound_socket", "upstreams_of"]

HEADER = b"x-rehydrate"
UPSTREAMS = {"anthropic": "https://api.anthropic.com", "openai": "https://api.openai.com"}
_ROUTES: Mapping[str, tuple[Provider, bool]] = {
    "/v1/messages": ("anthropic", False),
    "/v1/messages/count_tokens": ("anthropic", True),
    "/chat/completions": ("openai_chat", False),
    "/responses": ("openai_responses", False),
}
"""By the end of a path: the wire, and whether it only counts."""
_OF_ONE_HOP = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer "
    b"transfer-encoding upgrade".split()
)
_CONNECT_SECONDS = 30.0
"""A model may think for any time before it answers, and the client decides how long it waits."""


def wire_of(method: str, path: str) -> tuple[Provider, bool] | None:
    """Return the API whose conversation a request is, and whether it only counts; None: no one's.

    >>> wire_of("POST", "/v1/responses"), wire_of("POST", "/v1/files")
    (('openai_responses', False), None)
    """
    if method != "POST":
        return None
    return next((found for end, found in _ROUTES.items() if path.endswith(end)), None)


def upstreams_of(given: list[str]) -> dict[str, str]:
    """Return the address of each provider; raises InvalidArgumentError for what is no address.

    >>> upstreams_of(["openai=http://127.0.0.1:11434"])["openai"]
    'http://127.0.0.1:11434'
    """
    found = dict(UPSTREAMS)
    for each in given:
        name, is_named, url = each.partition("=")
        names = [name] if is_named and name in UPSTREAMS else list(UPSTREAMS)
        url = (url if len(names) == 1 else each).rstrip("/")
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query:
            raise InvalidArgumentError(
                f"upstream is {each!r}; pass https://HOST, or anthropic=https://HOST"
            )
        found |= dict.fromkeys(names, url)
    return found


@dataclass
class _Exchange:
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

    @property
    def is_anthropic(self) -> bool:
        """Whether it is for Anthropic's API."""
        if self.wire is not None:
            return self.wire == "anthropic"
        return any(name in (b"anthropic-version", b"x-api-key") for name, _ in self.headers)

    @property
    def key(self) -> str:
        """The client's key, as its header has it."""
        by_name = dict(self.headers)
        found = by_name.get(b"x-api-key") or by_name.get(b"authorization") or b""
        return found.decode("latin-1")

    def note(self) -> str:
        """Return what ``x-rehydrate`` says."""
        if self.failure:
            return f"untouched; failure={self.failure}"
        outcome = self.outcome
        if not outcome.before:
            return f"untouched; {outcome.untouched}" if outcome.untouched else "untouched"
        shown = f"before={outcome.before}; after={outcome.after}"
        return f"{shown}; prefix={outcome.prefix}" if outcome.prefix else shown


class Proxy:
    """The application; `app` is what a server runs."""

    def __init__(
        self,
        shortener: Shortener,
        upstreams: Mapping[str, str] = UPSTREAMS,
        *,
        is_dry_run: bool = False,
        is_storing: bool = False,
        max_body_bytes: int = MAX_BODY_BYTES,
    ) -> None:
        """Take the addresses of "anthropic" and "openai". With ``is_dry_run`` all requests go out
        as they are, and only the reports say what they would be. A body over ``max_body_bytes``
        passes unread. ``is_storing``: the shortener waits for a store."""
        self._shortener = shortener
        self._upstreams = dict(upstreams)
        self._is_dry_run = is_dry_run
        self._pool = STORING if is_storing else COMPUTING
        self._max_body_bytes = max_body_bytes
        self._client: httpx.AsyncClient
        self._log = logging.getLogger(LOGGER)
        self._causes: set[str] = set()
        self.totals = Totals()
        shortener.on_failure = self.warn_once
        self.app = Starlette(
            routes=[
                Route("/rehydrate/metrics", self._metrics),
                Route("/rehydrate/{conversation:int}/{compaction:int}", self._compaction),
                Route("/rehydrate", self._overview),
                Route("/rehydrate/", self._overview),
                Mount("/", app=self._forward),
            ],
            lifespan=self._lifespan,
        )

    def server(self) -> uvicorn.Server:
        """Return what serves the application; the headers of answers are the provider's."""
        bare = {"server_header": False, "date_header": False, "log_level": "critical"}
        return uvicorn.Server(config_of(self.app, ws="none", **bare))

    def warn_once(self, cause: str) -> None:
        """Log a failure, the first time that it has this cause."""
        self.totals.failures += 1
        if cause not in self._causes:
            self._causes.add(cause)
            self._log.warning("failed: %s", cause)

    @asynccontextmanager
    async def _lifespan(self, _app: Starlette) -> AsyncIterator[None]:
        timeout = httpx.Timeout(None, connect=_CONNECT_SECONDS)
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=128)
        async with httpx.AsyncClient(timeout=timeout, limits=limits) as self._client:
            yield

    async def _forward(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        path = scope.get("raw_path") or scope["path"].encode()
        method, query = scope["method"], scope["query_string"].decode("latin-1")
        found = wire_of(method, scope["path"])
        exchange = _Exchange(
            method,
            f"/{path.decode('latin-1').lstrip('/')}",  # never a part of the host
            query,
            list(scope["headers"]),
            found[0] if found else None,
            bool(found and found[1]),
        )
        content: bytes | AsyncIterator[bytes] | None
        incoming = _Incoming(receive)
        if exchange.wire is not None:
            try:
                read = await incoming.read(self._max_body_bytes)
            except _GoneError:
                return
            content = read
            if incoming.is_whole and len(read) <= self._max_body_bytes:
                content = await self._shortened(exchange, read)
            else:
                exchange.outcome = Outcome(untouched="the body is over the limit")
                content = incoming.rest(read)
        else:
            names = {name for name, _ in exchange.headers}
            has_body = b"content-length" in names or b"transfer-encoding" in names
            content = incoming.rest(b"") if has_body else None
            if content is None:
                incoming.end()
        async with anyio.create_task_group() as group:  # the client may go at any time
            group.start_soon(incoming.until_gone, group.cancel_scope)
            await self._answer(exchange, content, send)
            group.cancel_scope.cancel()
        self._note(exchange)

    async def _shortened(self, exchange: _Exchange, read: bytes) -> bytes:
        """Return what to send in place of a body: the body itself where anything fails."""
        assert exchange.wire is not None
        wire, key, begun = exchange.wire, exchange.key, perf_counter()
        try:
            if any(name == b"content-encoding" for name, _ in exchange.headers):
                raise UntouchedError("the body is compressed")
            exchange.outcome = await hand_over(
                lambda: self._shortener.shorten(
                    wire, read, key=key, is_counting=exchange.is_counting
                ),
                self._pool,
            )
        except UntouchedError as why:
            exchange.outcome = Outcome(untouched=str(why))
        except Exception as error:
            exchange.failure = safe_error_text(error, "proxy")
            self.warn_once(exchange.failure)
        exchange.seconds = perf_counter() - begun
        sent = exchange.outcome.body
        return read if sent is None or self._is_dry_run else sent

    async def _answer(
        self, exchange: _Exchange, content: bytes | AsyncIterator[bytes] | None, send: Send
    ) -> None:
        upstream = self._upstreams["anthropic" if exchange.is_anthropic else "openai"]
        is_begun = False
        try:
            request = _upstream_request(exchange, upstream, content)
            response = await self._client.send(request, stream=True)
            try:
                exchange.status = response.status_code
                headers = [
                    (name.lower(), value)
                    for name, value in response.headers.raw
                    if name.lower() not in _OF_ONE_HOP
                ]
                note = f"{exchange.note()}{'; dry-run' if self._is_dry_run else ''}"
                headers.append((HEADER, _header_value(note)))
                await send(_start(response.status_code, headers))
                is_begun = True
                async for chunk in response.aiter_raw():
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
            finally:
                with anyio.CancelScope(shield=True):
                    await response.aclose()
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except _GoneError:
            return
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            cause = f"upstream: {type(error).__name__}"
            self.warn_once(f"{cause} at {upstream}")
            exchange.failure = exchange.failure or cause
            if is_begun:
                return  # the server closes the connection: the client sees that its answer is cut
            exchange.status = 502
            response_ = _unreachable(exchange, type(error).__name__)
            await send(_start(502, [*response_.raw_headers, (HEADER, _header_value(cause))]))
            await send({"type": "http.response.body", "body": response_.body})

    def _note(self, exchange: _Exchange) -> None:
        outcome = exchange.outcome
        self.totals.add(outcome, exchange.status, exchange.seconds)
        self._log.info(
            "%s %s %s: %s, %s, %.1f ms",
            exchange.method,
            exchange.path,
            outcome.model or "-",
            exchange.note(),
            exchange.status or "the client went away",
            1e3 * exchange.seconds,
        )

    async def _metrics(self, _request: Request) -> Response:
        return PlainTextResponse(self.totals.as_metrics(), media_type="text/plain; version=0.0.4")

    async def _overview(self, request: Request) -> Response:
        if not _is_at_home(request):
            return _REFUSAL
        page = overview_page(self.totals, self._shortener.shown(), self._is_dry_run)
        return HTMLResponse(page)

    async def _compaction(self, request: Request) -> Response:
        if not _is_at_home(request):
            return _REFUSAL
        numbers = request.path_params["conversation"], request.path_params["compaction"]
        ir = self._shortener.compaction(*numbers)
        if ir is None:
            return PlainTextResponse("it is not known, or not any more\n", status_code=404)
        return HTMLResponse(await hand_over(lambda: compaction_page(ir, *numbers)))


class _GoneError(Exception):
    """The client went away before it had sent its body."""


class _Incoming:
    """The body of a client's request, and whether the client is still there."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self.is_whole = False
        self._is_read = anyio.Event()

    async def read(self, most: int) -> bytes:
        """Return the body; where it is longer, at least so much of it."""
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
        """Note that there is no more of the body."""
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
            raise _GoneError
        if not message.get("more_body", False):
            self.end()
        body: bytes = message.get("body", b"")
        return body


def _upstream_request(
    exchange: _Exchange, upstream: str, content: bytes | AsyncIterator[bytes] | None
) -> httpx.Request:
    dropped = _OF_ONE_HOP | {b"host", b"expect"}
    if isinstance(content, bytes):
        dropped |= {b"content-length"}
    headers = [(name, value) for name, value in exchange.headers if name not in dropped]
    query = f"?{exchange.query}" if exchange.query else ""
    url = f"{upstream}{exchange.path}{query}"
    return httpx.Request(
        exchange.method,
        url,
        headers=headers,
        content=content,
        extensions={"timeout": httpx.Timeout(None, connect=_CONNECT_SECONDS).as_dict()},
    )


def _unreachable(exchange: _Exchange, cause: str) -> Response:
    """Return the error of an API that cannot be reached, in its own shape."""
    words = f"rehydrate proxy: the provider cannot be reached ({cause})"
    error: dict[str, Any]
    if exchange.is_anthropic:
        error = {"type": "error", "error": {"type": "api_error", "message": words}}
    else:
        fields = {"type": "server_error", "param": None, "code": "upstream_unreachable"}
        error = {"error": {"message": words, **fields}}
    return Response(json.dumps(error), 502, media_type="application/json")


def _start(status: int, headers: list[tuple[bytes, bytes]]) -> Message:
    return {"type": "http.response.start", "status": status, "headers": headers}


def _header_value(text: str) -> bytes:
    """Return a text as a header may have it."""
    return "".join(c if " " <= c <= "~" else "?" for c in text)[:500].encode()


_REFUSAL = PlainTextResponse("only for a browser on this machine\n", status_code=403)


def _is_at_home(request: Request) -> bool:
    """Whether it is from this machine, and no page of another site that a name leads here."""
    client, name = request.client, request.url.hostname or ""
    try:
        is_near = client is not None and ipaddress.ip_address(client.host).is_loopback
    except ValueError:
        is_near = False
    return is_near and (name in LOOPBACK or name == "::1")
