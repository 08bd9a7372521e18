"""An HTTP/1.1 server on loopback: one thread, one event loop, any number of connections.

It supports only what the official SDKs do: they send a Content-Length and keep their connections.
All requests are answered on one thread, one after the other, so the handler needs no locks.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

_REASONS = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found"}


@dataclass(frozen=True, slots=True)
class Answer:
    """A response: one body, or the chunks of a stream; and how it fails."""

    status: int
    chunks: tuple[bytes, ...]
    is_stream: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)
    stall_seconds: float = 0.0
    drops: bool = False
    midway: bool = False
    """Whether it stalls or drops in the middle instead of before the first byte."""


def json_answer(status: int, body: Any, headers: Mapping[str, str] | None = None) -> Answer:
    return Answer(status, (json.dumps(body).encode(),), headers=headers or {})


Handler = Callable[[str, str, Mapping[str, str], bytes], Answer]
"""Takes a request's method, path, headers (names in lower case) and body; returns the answer."""


_ACCEPTING = 5
"""Passes of the loop until a connection that asyncio has accepted is one of ours."""


class LoopbackServer:
    """Serves on a free port of 127.0.0.1 from `start` to `stop`."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._loop: asyncio.AbstractEventLoop
        self._done: asyncio.Event
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="strict-provider", daemon=True)
        self._connections: set[asyncio.Task[None]] = set()
        self.port = 0

    def start(self) -> Self:
        self._thread.start()
        self._ready.wait()
        return self

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._done.set)
        self._thread.join()

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop, self._done = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0, backlog=1024)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._done.wait()
        for listening in server.sockets:
            self._loop.remove_reader(listening.fileno())
        for _ in range(_ACCEPTING):
            await asyncio.sleep(0)
        server.close()  # asyncio leaves a connection open that is just being accepted
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            # A client may close the connection at any time.
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                while await self._exchange(reader, writer):
                    pass
        except asyncio.CancelledError:
            pass  # the server stops; asyncio would log the task as failed
        finally:
            self._connections.discard(task)
            writer.close()
            with contextlib.suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; return whether the connection can be used again."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.split("\r\n")
        method, path, _ = first.split(" ", 2)
        pairs = (line.partition(":") for line in lines if line)
        headers = {name.lower(): value.strip() for name, _, value in pairs}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        answer = self._handler(method, path, headers, body)
        return await _send(writer, answer)


async def _send(writer: asyncio.StreamWriter, answer: Answer) -> bool:
    if not answer.midway:
        await asyncio.sleep(answer.stall_seconds)
        if answer.drops:
            return False
    writer.write(_head(answer))
    chunks = [_chunk(piece) for piece in answer.chunks] if answer.is_stream else answer.chunks
    if not answer.midway:
        writer.write(b"".join(chunks))
    else:
        whole = b"".join(chunks)
        # A stream is cut between two events, so that each event that arrives is whole.
        half = sum(map(len, chunks[: len(chunks) // 2])) if answer.is_stream else len(whole) // 2
        writer.write(whole[:half])
        await writer.drain()
        if answer.drops:
            return False
        await asyncio.sleep(answer.stall_seconds)
        writer.write(whole[half:])
    if answer.is_stream:
        writer.write(b"0\r\n\r\n")
    await writer.drain()
    return True


def _head(answer: Answer) -> bytes:
    if answer.is_stream:
        kind, length = "text/event-stream; charset=utf-8", "transfer-encoding: chunked"
    else:
        kind = "application/json"
        length = f"content-length: {sum(map(len, answer.chunks))}"
    extra = "".join(f"{name}: {value}\r\n" for name, value in answer.headers.items())
    reason = _REASONS.get(answer.status, "Error")
    status = f"HTTP/1.1 {answer.status} {reason}\r\n"
    return f"{status}content-type: {kind}\r\n{length}\r\n{extra}\r\n".encode("latin-1")


def _chunk(piece: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(piece), piece)
