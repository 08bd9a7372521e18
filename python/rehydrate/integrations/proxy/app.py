"""The proxy: requests go on to the provider, those of conversations shortened; answers come back.

An answer passes as it is, chunk by chunk, with one header more: ``x-rehydrate``. Whatever goes
wrong in here, the client's own request goes out.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.cookiejar import CookieJar, DefaultCookiePolicy
from time import perf_counter
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import anyio

from rehydrate._concurrency.async_wrappers import hand_over
from rehydrate._concurrency.workers import COMPUTING, STORING
from rehydrate._native import EventDecoder
from rehydrate._text import safe_error_text
from rehydrate.cost.prices import Usage
from rehydrate.errors import InvalidArgumentError, MissingPackageError
from rehydrate.integrations.proxy.asking import Asking, written
from rehydrate.integrations.proxy.kept import LOGGER
from rehydrate.integrations.proxy.shortening import Cut, Outcome, Shortener, UntouchedError
from rehydrate.messages import Provider

if TYPE_CHECKING:
    from rehydrate.agent.telemetry import Telemetry

try:
    import httpx
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import HTMLResponse, PlainTextResponse, Response
    from starlette.routing import Route
    from starlette.types import Receive, Scope, Send

    from rehydrate.integrations.loopback_http import MAX_BODY_BYTES, bound_socket, config_of
    from rehydrate.integrations.proxy.client_request import (
        CONNECT_SECONDS,
        Answer,
        ClientRequest,
        GoneError,
        Incoming,
        is_at_home,
        one_line,
        refusal,
        send_error,
        upstream_request,
    )
    from rehydrate.page.comparison import lists_side_by_side
    from rehydrate.page.html import render
except ImportError:
    raise MissingPackageError("rehydrate[proxy]", "brings the server of the proxy") from None

__all__ = ["Proxy", "bound_socket", "upstreams_of"]

UPSTREAMS = {"anthropic": "https://api.anthropic.com", "openai": "https://api.openai.com"}
_ROUTES: Mapping[str, tuple[Provider, bool]] = {
    "/v1/messages": ("anthropic", False),
    "/v1/messages/count_tokens": ("anthropic", True),
    "/chat/completions": ("openai_chat", False),
    "/responses": ("openai_responses", False),
}
"""By the end of a path: the wire, and whether it only counts."""
MAX_REPLIES = 12
"""Maximum replies in one answer: a model might ask back forever."""


def wire_of(method: str, path: str) -> tuple[Provider, bool] | None:
    """Return the API of a conversation's request, and whether it only counts; None: it is none.

    >>> wire_of("POST", "/v1/responses"), wire_of("POST", "/v1/files")
    (('openai_responses', False), None)
    """
    if method != "POST":
        return None
    return next((found for end, found in _ROUTES.items() if path.endswith(end)), None)


def upstreams_of(given: list[str]) -> dict[str, str]:
    """Return the address of each provider; raises InvalidArgumentError for anything else.

    >>> upstreams_of(["openai=http://127.0.0.1:11434"])["openai"]
    'http://127.0.0.1:11434'
    """
    found = dict(UPSTREAMS)
    for each in given:
        name, is_named, url = each.partition("=")
        names = [name] if is_named and name in UPSTREAMS else list(UPSTREAMS)
        url = (url if len(names) == 1 else each).rstrip("/")
        if not _is_address(url):
            shown = each.rpartition("@")[2]  # without a password
            raise InvalidArgumentError(
                f"upstream is {shown!r}; pass https://HOST, or anthropic=https://HOST"
            )
        found |= dict.fromkeys(names, url)
    return found


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        is_whole = bool(parts.hostname) and parts.port != 0
    except ValueError:  # brackets that don't close, a port that isn't one
        return False
    return parts.scheme in ("http", "https") and is_whole and not (parts.query or parts.fragment)


@dataclass
class Totals:
    """Figures of all requests since the start.

    >>> totals = Totals()
    >>> totals.add(Outcome(before=900, after=500, prefix="compacted"), 200, 0.25)
    >>> [line for line in totals.as_metrics().splitlines() if line.startswith("rehydrate_tokens")]
    ['rehydrate_tokens_before_total 900', 'rehydrate_tokens_after_total 500']
    """

    before: int = 0
    after: int = 0
    seconds: float = 0.0
    failures: int = 0
    prefixes: Counter[str] = field(default_factory=Counter)
    statuses: Counter[str] = field(default_factory=Counter)
    billed: Counter[str] = field(default_factory=Counter)

    def add(
        self, outcome: Outcome, status: int, seconds: float, usage: Usage | None = None
    ) -> None:
        """Count a request; a status of 0: its client went away."""
        self.before += outcome.before
        self.after += outcome.after
        self.seconds += seconds
        self.prefixes[outcome.prefix or "untouched"] += 1
        self.statuses[str(status)] += 1
        if usage is not None:
            self.billed.update(usage._asdict())

    def as_metrics(self) -> str:
        """Return them as Prometheus reads them."""
        lines = [
            *_metric("tokens_before_total", "Tokens as clients wrote them.", self.before),
            *_metric("tokens_after_total", "Tokens as they were sent.", self.after),
            *_metric("failures_total", "What went wrong in the proxy or upstream.", self.failures),
            *_metric("seconds_total", "Seconds that the proxy took.", round(self.seconds, 6)),
            *_metric("requests_total", "Requests by prefix.", self.prefixes, "prefix"),
            *_metric("responses_total", "Responses by status.", self.statuses, "status"),
            *_metric("billed_tokens_total", "Tokens that answers cost.", self.billed, "kind"),
        ]
        return "\n".join(lines) + "\n"


def _metric(name: str, words: str, value: float | Counter[str], label: str = "") -> Iterator[str]:
    yield f"# HELP rehydrate_{name} {words}"
    yield f"# TYPE rehydrate_{name} counter"
    if isinstance(value, Counter):
        for each, count in sorted(value.items()):
            yield f'rehydrate_{name}{{{label}="{each}"}} {count}'
    else:
        yield f"rehydrate_{name} {value}"


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
        telemetry: Telemetry | None = None,
    ) -> None:
        """Take the addresses of "anthropic" and "openai". With ``is_dry_run`` all requests go out
        as they are, and only the reports say what they would be. A body over ``max_body_bytes``
        passes unread. ``is_storing``: the shortener waits for a store. ``telemetry`` records each
        request that was looked at."""
        self._telemetry = telemetry
        self._shortener = shortener
        self._upstreams = dict(upstreams)
        self._is_dry_run = is_dry_run
        self._pool = STORING if is_storing else COMPUTING
        self._max_body_bytes = max_body_bytes
        self._client: httpx.AsyncClient
        self._log = logging.getLogger(LOGGER)
        self._causes: set[str] = set()
        self.totals = Totals()
        shortener.kept.on_failure = self.warn_once
        self.app = Starlette(
            routes=[
                Route("/rehydrate/metrics", self._metrics),
                Route("/rehydrate/", self._overview),
                Route("/rehydrate/{conversation:int}/{compaction:int}", self._compaction),
            ],
            lifespan=self._lifespan,
        )
        self.app.router.default = self._forward

    def server(self) -> uvicorn.Server:
        """Return a server of the application; the headers of answers are the provider's."""
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
        timeout = httpx.Timeout(None, connect=CONNECT_SECONDS)
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=128)
        cookies = CookieJar(DefaultCookiePolicy(allowed_domains=()))  # they are the clients'
        async with httpx.AsyncClient(
            timeout=timeout, limits=limits, cookies=cookies
        ) as self._client:
            yield

    async def _forward(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        path = scope.get("raw_path") or scope["path"].encode()
        method, query = scope["method"], scope["query_string"].decode("latin-1")
        found = wire_of(method, scope["path"])
        exchange = ClientRequest(
            method,
            f"/{path.decode('latin-1').lstrip('/')}",  # never a part of the host
            query,
            list(scope["headers"]),
            found[0] if found else None,
            bool(found and found[1]),
        )
        if refused := refusal(scope):
            exchange.outcome = Outcome(untouched=f"refused: {refused[1]}")
            await send_error(exchange, send, *refused, "refused", exchange.note())
            self._note(exchange)
            return
        content: bytes | AsyncIterator[bytes] | None
        incoming = Incoming(receive)
        if exchange.wire is not None:
            try:
                read = await incoming.read(self._max_body_bytes)
            except GoneError:
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
            asking = None if self._is_dry_run else exchange.outcome.asking
            if asking is None:
                await self._answer(exchange, content, send)
            else:
                await self._answer_asking(exchange, asking, read, send)
            group.cancel_scope.cancel()
        self._note(exchange)

    async def _shortened(self, exchange: ClientRequest, read: bytes) -> bytes:
        """Return the body to send: the client's own if anything fails."""
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
        self, exchange: ClientRequest, content: bytes | AsyncIterator[bytes] | None, send: Send
    ) -> None:
        async with (
            self._answering(exchange, send) as answer,
            self._reply(exchange, content) as response,
        ):
            await answer.pass_on(response)

    async def _answer_asking(
        self, exchange: ClientRequest, asking: Asking, own: bytes, send: Send
    ) -> None:
        """Answer the model's own calls, and send one answer made of all its replies.

        If that fails before the client has got anything, its ``own`` request goes out.
        """
        async with self._answering(exchange, send) as answer:
            try:
                await self._go_on(exchange, asking, answer)
            except (GoneError, httpx.HTTPError, httpx.InvalidURL):
                raise
            except Exception as error:
                exchange.failure = safe_error_text(error, "proxy")
                self.warn_once(exchange.failure)
                if answer.is_begun:
                    raise GoneError from None  # the client sees that its answer is cut
                async with self._reply(exchange, own) as response:
                    await answer.pass_on(response)

    async def _go_on(self, exchange: ClientRequest, asking: Asking, answer: Answer) -> None:
        replies, content = asking.replies(), exchange.outcome.body
        for _ in range(MAX_REPLIES):
            async with self._reply(exchange, content, is_read=True) as response:
                if response.status_code != HTTPStatus.OK:
                    await answer.fail(response)
                    return
                kind = response.headers.get("content-type", "")
                if asking.is_streamed and not kind.startswith("text/event-stream"):
                    await answer.pass_on(response)
                    return
                replies.begin()
                if asking.is_streamed:
                    await answer.start(response, is_changed=True)
                    decoder = EventDecoder()
                    async for chunk in response.aiter_bytes():
                        for data in decoder.feed(chunk):
                            await answer.send(replies.feed(data))
                    replies.finish()
                else:
                    replies.take(json.loads(await response.aread()))
            content = await hand_over(lambda: asking.next_request(replies), self._pool)
            if content is None:
                break
        else:
            raise UntouchedError(f"the model asked back {MAX_REPLIES} times")
        if asking.is_streamed:
            await answer.send(replies.end())
        else:
            joined = written(replies.joined()).encode()
            await answer.start(response, is_changed=True)
            await answer.send(joined)

    @asynccontextmanager
    async def _reply(
        self,
        exchange: ClientRequest,
        content: bytes | AsyncIterator[bytes] | None,
        *,
        is_read: bool = False,
    ) -> AsyncIterator[httpx.Response]:
        """Send a request upstream; ``is_read``: the reply must be one that can be read."""
        request = upstream_request(exchange, self._upstream(exchange), content)
        if is_read:
            request.headers["accept-encoding"] = "identity"
        response = await self._client.send(request, stream=True)
        try:
            yield response
        finally:
            with anyio.CancelScope(shield=True):
                await response.aclose()

    def _upstream(self, exchange: ClientRequest) -> str:
        return self._upstreams["anthropic" if exchange.is_anthropic else "openai"]

    @asynccontextmanager
    async def _answering(self, exchange: ClientRequest, send: Send) -> AsyncIterator[Answer]:
        """Send an answer; one that cannot be had is an error in the API's own shape."""
        answer = Answer(exchange, send, is_dry_run=self._is_dry_run)
        try:
            yield answer
            await answer.end()
        except GoneError:
            return
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            cause = f"upstream: {type(error).__name__}"
            host = httpx.URL(self._upstream(exchange)).netloc.decode()  # without a password
            self.warn_once(f"{cause} at {host}")
            exchange.failure = exchange.failure or cause
            if answer.is_begun:
                return  # the server closes the connection: the client sees that its answer is cut
            words = f"the provider cannot be reached ({type(error).__name__})"
            await send_error(exchange, send, 502, words, "upstream_unreachable", cause)

    def _note(self, exchange: ClientRequest) -> None:
        outcome = exchange.outcome
        usage = exchange.usage
        self.totals.add(outcome, exchange.status, exchange.seconds, usage)
        self._log.info(
            "%s %s %s: %s, %s, %.1f ms",
            exchange.method,
            one_line(exchange.path),
            one_line(outcome.model) or "-",
            exchange.note(),
            exchange.status or "the client went away",
            1e3 * exchange.seconds,
        )
        if self._telemetry is not None and outcome.before and not exchange.is_counting:
            self._telemetry.record_request(
                exchange.wire or "",
                outcome.model,
                perf_counter() - exchange.begun,
                before_tokens=outcome.before,
                tokens=outcome.before if self._is_dry_run else outcome.after,
                prefix=outcome.prefix,
                headers=exchange.named,
                attributes=exchange.attributes(),
                is_compacted=outcome.body is not None and not self._is_dry_run,
                error=exchange.error,
                usage=usage,
            )

    async def _metrics(self, request: Request) -> Response:
        if refused := refusal(request.scope):
            return PlainTextResponse(f"{refused[1]}\n", status_code=refused[0])
        return PlainTextResponse(self.totals.as_metrics(), media_type="text/plain; version=0.0.4")

    async def _overview(self, request: Request) -> Response:
        if not is_at_home(request.scope):
            return _REFUSAL
        page = render(
            "proxy.html",
            title="conversations",
            totals=self.totals,
            saved=self.totals.before - self.totals.after,
            conversations=self._shortener.shown(),
            is_dry_run=self._is_dry_run,
        )
        return HTMLResponse(page, headers=_PRIVATE)

    async def _compaction(self, request: Request) -> Response:
        if not is_at_home(request.scope):
            return _REFUSAL
        conversation, number = [request.path_params[key] for key in ("conversation", "compaction")]
        cut = self._shortener.compaction(conversation, number)
        if cut is None:
            return PlainTextResponse("it is not known, or not any more\n", status_code=404)
        title = f"conversation {conversation}, compaction {number}"
        return HTMLResponse(await hand_over(lambda: _page_of(cut, title)), headers=_PRIVATE)


def _page_of(cut: Cut, title: str) -> str:
    return lists_side_by_side(
        [json.loads(text) for text in cut.before],
        [(index, json.loads(text)) for index, text in cut.after],
        format=cut.wire,
        reasons=cut.reasons,
        target_tokens=cut.target_tokens,
        title=title,
    )


_REFUSAL = PlainTextResponse("only for a browser on this machine\n", status_code=403)
_PRIVATE = {"cache-control": "no-store", "referrer-policy": "no-referrer"}
