"""serve_http: the server over Streamable HTTP, on loopback, for those who have the token.

A page in a browser can send requests to loopback too. So the Host and the Origin of each request
must be this server's own, and each needs the token.
"""

from __future__ import annotations

import hmac
import json
import socket
from collections.abc import Callable
from typing import Any

import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.transport_security import TransportSecuritySettings
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rehydrate.integrations.loopback_http import HOST, LOOPBACK, MAX_BODY_BYTES, config_of

PATH = "/mcp"


def serve_http(
    server: Server[Any], bound: socket.socket, token: str, announce: Callable[[str], object]
) -> None:
    """Answer on this socket until the process is to stop; ``announce`` gets the address."""
    port = bound.getsockname()[1]
    announce(f"http://{HOST}:{port}{PATH}")
    uvicorn.Server(config_of(make_app(server, token, port))).run(sockets=[bound])


def make_app(server: Server[Any], token: str, port: int) -> ASGIApp:
    """Return the application of a server that listens on this port."""
    hosts = [f"{name}:{port}" for name in LOOPBACK]
    security = TransportSecuritySettings(
        allowed_hosts=hosts, allowed_origins=[f"http://{host}" for host in hosts]
    )
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        max_request_body_size=MAX_BODY_BYTES,
        transport_security=security,
    )
    return _WithToken(_AsInSchema(app), token)


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
