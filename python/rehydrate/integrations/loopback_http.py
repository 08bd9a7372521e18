"""A server of HTTP for clients on this machine: its socket, and limits of what clients may hold."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from rehydrate.errors import InvalidArgumentError

HOST = "127.0.0.1"
LOOPBACK = (HOST, "localhost", "[::1]")
"""The names by which a client on this machine may call the server."""
MAX_BODY_BYTES = 64 * 2**20
"""Maximum bytes of one request: a conversation of a few million tokens."""
_SHUTDOWN_SECONDS = 2
"""An open stream of a client would keep the server from ending."""
HEADER_SECONDS = 10.0
"""Maximum time until the headers of a request are there."""
MAX_CONNECTIONS = 128
"""At once; more are closed."""


def bound_socket(port: int, host: str = HOST) -> socket.socket:
    """Return a socket that listens on this machine; port 0 is any that is free.

    Raises InvalidArgumentError for a port that cannot be used.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
        bound.listen(128)
    except OSError as error:
        bound.close()
        raise InvalidArgumentError(
            f"{host} port {port} cannot be used: {error.strerror}; pass another"
        ) from None
    return bound


def config_of(app: ASGIApp, **more: Any) -> uvicorn.Config:
    """Return a server's settings for an application, with the limits and without logs."""
    settings: dict[str, Any] = {"log_level": "error", **more}
    return uvicorn.Config(
        app,
        access_log=False,
        lifespan="on",
        proxy_headers=False,  # X-Forwarded-For names a client that any page could make up
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
        http=InTime,
        **settings,
    )


class InTime(H11Protocol):
    """HTTP for clients that send their headers in time, and are not too many: a client that opens
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
