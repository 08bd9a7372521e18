"""Connections that say nothing, or not all of it, are closed; too many are not taken."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

uvicorn = pytest.importorskip("uvicorn")
http = pytest.importorskip("rehydrate.integrations.loopback_http")

REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


@asynccontextmanager
async def served() -> AsyncIterator[int]:
    """Serve an application that says "ok"; its port."""

    async def ok(scope: object, receive: object, send: object) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})  # type: ignore[operator]
        await send({"type": "http.response.body", "body": b"ok"})  # type: ignore[operator]

    bound = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(ok, http=http.InTime, lifespan="off", log_level="critical")
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve(sockets=[bound]))
    while not server.started:
        await asyncio.sleep(0.01)
    try:
        yield bound.getsockname()[1]
    finally:
        server.should_exit = True
        await task


@pytest.mark.parametrize("begun", [b"", b"GET / HTTP/1.1\r\nHost: x\r\n", REQUEST + b"GET / H"])
def test_headers_that_do_not_come_end_the_connection(
    begun: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "HEADER_SECONDS", 0.2)

    async def run() -> bytes:
        async with served() as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(begun)
            reported = await asyncio.wait_for(reader.read(), 60)
            writer.close()
            return reported

    reported = asyncio.run(run())
    assert (b"ok" in reported) == begun.startswith(REQUEST)


def test_connections_beyond_the_bound_are_closed_and_the_others_are_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http, "MAX_CONNECTIONS", 4)

    async def run() -> list[bytes]:
        async with served() as port:
            opened = [await asyncio.open_connection("127.0.0.1", port) for _ in range(4)]
            late, writer = await asyncio.open_connection("127.0.0.1", port)
            refused = await asyncio.wait_for(late.read(), 60)
            writer.close()
            opened[0][1].write(REQUEST)
            answered = await asyncio.wait_for(opened[0][0].readuntil(b"ok"), 60)
            for _, each in opened:
                each.close()
            return [refused, answered[:12]]

    assert asyncio.run(run()) == [b"", b"HTTP/1.1 200"]
