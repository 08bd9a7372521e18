"""serve_http: the server over Streamable HTTP, on loopback, for those who have the token.

A page in a browser can send requests to loopback too. So the Host and the Origin of each request
must be this server's own, and each needs the token.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import socket
from collections.abc import Callable
from typing import Any

import h11
import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.transport_security import TransportSecuritySettings
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

HOST = "127.0.0.1"
PATH = "/mcp"
MAX_BODY_BYTES = 64 * 2**20
"""Of one request: a conversation of a few million tokens."""
_SHUTDOWN_SECONDS = 2
"""An open stream of a client would keep the server from ending."""
HEADER_SECONDS = 10.0
"""In which the headers of a request must have come."""
MAX_CONNECTIONS = 128
"""At once; more are closed."""


def bound_socket(port: int) -> socket.socket:
    """Return a socket that listens on loopback; port 0 is any that is free. Raises OSError."""
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((HOST, port))
        bound.listen(128)
    except BaseException:
        bound.close()
        raise
    return bound


def serve_http(
    server: Server[Any], bound: socket.socket, token: str, announce: Callable[[str], object]
) -> None:
    """Answer on this socket until the process is to stop; ``announce`` gets the address."""
    port = bound.getsockname()[1]
    config = uvicorn.Config(
        make_app(server, token, port),
        log_level="error",
        access_log=False,
        lifespan="on",
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
        http=_InTime,
    )
    announce(f"http://{HOST}:{port}{PATH}")
    uvicorn.Server(config).run(sockets=[bound])


def make_app(server: Server[Any], token: str, port: int) -> ASGIApp:
    """Return the application of a server that listens on this port."""
    hosts = [f"{name}:{port}" for name in (HOST, "localhost", "[::1]")]
    security = TransportSecuritySettings(
        allowed_hosts=hosts, allowed_origins=[f"http://{host}" for host in hosts]
    )
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        max_request_body_size=MAX_BODY_BYTES,
        transport_security=security,
    )
    return _WithToken(_AsInSchema(app), token)


class _InTime(H11Protocol):
    """HTTP for clients that send their headers in time, and are not too many: whoever opens
    connections and says nothing would hold all of them."""

    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection, or close it."""
        super().connection_made(transport)
        if len(self.connections) > MAX_CONNECTIONS:
            transport.close()
            return
        self._wait_for_headers()

    def data_received(self, data: bytes) -> None:
        """Read on; once the headers are there, nothing is late."""
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._cancel()
        elif self._late is None:
            self._wait_for_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        self._cancel()
        super().connection_lost(exc)

    def _wait_for_headers(self) -> None:
        self._late = self.loop.call_later(HEADER_SECONDS, self.transport.close)

    def _cancel(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None


class _AsInSchema:
    """Mends two deviations of the SDK's transport.

    An error that answers no request has `"id": null` there, which the protocol's schema has not. A
    stream that a client wants to resume ends in a failure where events are not kept: it begins
    anew instead, as the protocol has it for servers that cannot replay.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = [each for each in scope["headers"] if each[0] != b"last-event-id"]
        start: Message | None = None
        body = b""

        async def mended(message: Message) -> None:
            nonlocal start, body
            if message["type"] == "http.response.start" and message["status"] >= 400:
                start = message
            elif start is None or message["type"] != "http.response.body":
                await send(message)
            else:
                body += message.get("body", b"")
                if not message.get("more_body", False):
                    await send(_with_length(start, shown := _without_null_id(body)))
                    await send({"type": "http.response.body", "body": shown})

        await self._app({**scope, "headers": headers}, receive, mended)


def _without_null_id(body: bytes) -> bytes:
    """Return the body of an error without an id that is null."""
    try:
        error = json.loads(body)
    except ValueError:
        return body
    if not isinstance(error, dict) or error.get("id", 0) is not None:
        return body
    del error["id"]
    return json.dumps(error).encode()


def _with_length(start: Message, body: bytes) -> Message:
    length = (b"content-length", str(len(body)).encode())
    given = start.get("headers", ())
    headers = [length if name.lower() == length[0] else (name, value) for name, value in given]
    return {**start, "headers": headers}


class _WithToken:
    """Passes on requests that have the token; all others are refused."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or self._has_token(scope):
            await self._app(scope, receive, send)
            return
        refusal = JSONResponse(
            {"error": "send the token that the server printed: Authorization: Bearer TOKEN"},
            status_code=401,
            headers={"WWW-Authenticate": "Bearer"},
        )
        await refusal(scope, receive, send)

    def _has_token(self, scope: Scope) -> bool:
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        # In a time that does not tell how much of it is right.
        return len(given) == 1 and hmac.compare_digest(given[0], self._expected)
