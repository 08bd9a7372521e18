"""A network between: a relay that holds all bytes for some time, each way."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit


@contextmanager
def distant(url: str, round_trip_seconds: float) -> Iterator[str]:
    """Return a URL by which the server is this far away."""
    parts = urlsplit(url)
    loop, ready, ports = asyncio.new_event_loop(), threading.Event(), list[int]()

    tasks: set[asyncio.Task[None]] = set()

    async def relay(near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        far, there = await asyncio.open_connection(parts.hostname, parts.port)
        tasks.update(asyncio.ensure_future(pass_on(*ways)) for ways in ((near, there), (far, back)))

    async def pass_on(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await source.read(65_536):
                loop.call_later(round_trip_seconds / 2, target.write, data)
        loop.call_later(round_trip_seconds, target.close)

    async def listen() -> None:
        server = await asyncio.start_server(relay, "127.0.0.1", 0)
        ports.append(server.sockets[0].getsockname()[1])
        ready.set()

    async def ended() -> None:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def serve() -> None:
        loop.run_until_complete(listen())
        loop.run_forever()
        loop.run_until_complete(ended())
        loop.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    ready.wait()
    user = parts.netloc.rpartition("@")[0]
    yield parts._replace(netloc=f"{user + '@' if user else ''}127.0.0.1:{ports[0]}").geturl()
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
