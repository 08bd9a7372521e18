"""What `rehydrate proxy` adds to a request, compared with a proxy that only passes on.

    python -m benches.python.proxy --table                # time, and memory over 10,000 requests
    python -m benches.python.proxy --table --memory 0     # the time alone

Three processes on loopback: an upstream that answers at once, a proxy of Starlette and httpx, and
`rehydrate proxy`. Each request goes through both, in turns, over one connection each. Conversations
grow from 40,000 tokens to 60,000, and are compacted once, at 50,000. Needs Linux.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from benches.python.resident import resident_bytes
from benches.python.server import text
from benches.report.rows import Part, Row
from rehydrate.tokens import count_tokens

BUDGET, LEAST, MOST = 50_000, 40_000, 60_000
REQUESTS = 1_000
WARM_UP = 60
"""Requests before the first that counts."""
FILLING = 300
"""Requests of `SHORT` new messages each, which fill the table of messages before memory counts."""
SHORT = 251
SAMPLES = 10
"""Of the memory."""
ANSWER = json.dumps(
    {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-5",
        "content": [{"type": "text", "text": "Berth 4."}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }
).encode()
TOOL = {
    "name": "lookup",
    "description": "Look something up.",
    "input_schema": {"type": "object", "properties": {"query": {"type": "string"}}},
}


def conversations(seed: int) -> Iterator[bytes]:
    """Yield requests without end: those of one conversation after another."""
    rng = random.Random(seed)
    while True:
        messages: list[dict[str, Any]] = []
        tokens = 0
        while tokens < MOST:
            turn = list(_turn(rng, len(messages)))
            messages += turn
            tokens += count_tokens(json.dumps(turn))
            if tokens >= LEAST:
                request = {
                    "model": "claude-sonnet-4-5",
                    "max_tokens": 1_000,
                    "system": "You are the harbour's assistant.",
                    "tools": [TOOL],
                    "messages": messages,
                }
                yield json.dumps(request).encode()


def short_messages(number: int) -> bytes:
    """Return a request of many messages that no other has."""
    said = [
        {"role": ("user", "assistant")[at % 2], "content": f"Berth {number * SHORT + at} is free."}
        for at in range(SHORT)
    ]
    return json.dumps({"model": "claude-sonnet-4-5", "messages": said}).encode()


def _turn(rng: random.Random, at: int) -> Iterator[dict[str, Any]]:
    said = [{"type": "text", "text": text(rng, 60, 300)}]
    call = {"type": "tool_use", "id": f"toolu_{at}", "name": "lookup"}
    result = {"type": "tool_result", "tool_use_id": f"toolu_{at}"}
    yield {"role": "user", "content": said}
    yield {"role": "assistant", "content": [{**call, "input": {"query": text(rng, 10, 40)}}]}
    yield {"role": "user", "content": [{**result, "content": text(rng, 400, 3_000)}]}
    yield {"role": "assistant", "content": [{"type": "text", "text": text(rng, 60, 600)}]}


async def upstream() -> None:
    """Answer each request at once."""
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(ANSWER)}"

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError):  # the proxy is gone
            while True:
                lines = (await reader.readuntil(b"\r\n\r\n")).lower().split(b"\r\n")
                sizes = [int(line[15:]) for line in lines if line.startswith(b"content-length:")]
                await reader.readexactly(sum(sizes))
                writer.write(f"{head}\r\n\r\n".encode() + ANSWER)

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    print(f"url: http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


def pass_through(url: str) -> None:
    """Serve a proxy that only passes on: what the other is compared with."""
    import httpx
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import StreamingResponse
    from starlette.routing import Route

    from rehydrate.integrations.loopback_http import bound_socket, config_of

    client = httpx.AsyncClient(timeout=None)
    dropped = (b"host", b"content-length", b"connection")

    async def forward(request: Request) -> StreamingResponse:
        headers = [pair for pair in request.headers.raw if pair[0] not in dropped]
        body = await request.body()
        sent = client.build_request("POST", url + request.url.path, content=body, headers=headers)
        answer = await client.send(sent, stream=True)
        return StreamingResponse(answer.aiter_raw(), answer.status_code, dict(answer.headers))

    bound = bound_socket(0)
    print(f"url: http://127.0.0.1:{bound.getsockname()[1]}", flush=True)
    app = Starlette(routes=[Route("/v1/messages", forward, methods=["POST"])])
    uvicorn.Server(config_of(app, ws="none", log_level="critical")).run(sockets=[bound])


class Process(NamedTuple):
    """A server on loopback."""

    number: int
    url: str

    def cpu_seconds(self) -> float:
        """Return what it has used of the processors."""
        fields = Path(f"/proc/{self.number}/stat").read_text("ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def started(*command: str) -> Iterator[Process]:
    """Start a server, which writes its address."""
    process = subprocess.Popen([sys.executable, "-m", *command], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield Process(process.pid, process.stdout.readline().removeprefix("url: ").strip())
    finally:
        process.terminate()
        process.wait()


class Client:
    """A connection that stays open."""

    def __init__(self, url: str) -> None:
        """Connect at the first request."""
        self._connection = http.client.HTTPConnection(urlsplit(url).netloc)

    def seconds(self, body: bytes) -> float:
        """Return how long a request takes."""
        headers = {"x-api-key": "k", "content-type": "application/json"}
        began = time.perf_counter()
        self._connection.request("POST", "/v1/messages", body, headers)
        answer = self._connection.getresponse()
        answer.read()
        assert answer.status == 200, answer.status
        return time.perf_counter() - began


class Figures(NamedTuple):
    """What was measured; times in milliseconds, memory in MB."""

    plain: list[float]
    ours: list[float]
    plain_cpu: float
    """Of a request."""
    ours_cpu: float
    resident: list[float]

    def added(self, part: float) -> float:
        """Return a percentile of the proxy's times, less the other's median."""
        ours = sorted(self.ours)
        return ours[min(int(len(ours) * part), len(ours) - 1)] - median(self.plain)

    def plain_tail(self) -> float:
        """Return the other's own 99th percentile, less its median."""
        plain = sorted(self.plain)
        return plain[int(len(plain) * 0.99)] - median(plain)


def measured(requests: int, memory: int) -> Figures:
    """Send requests through both proxies, then ``memory`` more through ours."""
    with ExitStack() as stack:
        end = stack.enter_context(started("benches.python.proxy", "--upstream"))
        plain = stack.enter_context(started("benches.python.proxy", "--plain", end.url))
        options = ["--port", "0", "--quiet", "--budget", str(BUDGET), "--upstream", end.url]
        ours = stack.enter_context(started("rehydrate", "proxy", *options))
        pair = [(Client(plain.url), [], plain), (Client(ours.url), [], ours)]
        bodies = conversations(1)
        used = [0.0, 0.0]
        for number in range(-WARM_UP, requests):
            if number == 0:
                used = [process.cpu_seconds() for _, _, process in pair]
            body = next(bodies)
            for client, times, _ in pair if number % 2 else pair[::-1]:
                taken = client.seconds(body)
                if number >= 0:
                    times.append(1e3 * taken)
        cpu = [
            1e3 * (process.cpu_seconds() - before) / requests
            for (_, _, process), before in zip(pair, used, strict=True)
        ]
        resident = []
        for number in range(FILLING if memory else 0):
            pair[1][0].seconds(short_messages(number))
        for number in range(memory):
            pair[1][0].seconds(next(bodies))
            if (number + 1) % (memory // SAMPLES) == 0:
                resident.append(resident_bytes(ours.number) / 2**20)
        return Figures(pair[0][1], pair[1][1], *cpu, resident)


def rows(found: Figures, requests: int, memory: int) -> Iterator[Row]:
    """Yield what was measured."""
    tail = f"the plain proxy's own p99 is {found.plain_tail():.1f} ms over its median"
    cpu = f"CPU {found.ours_cpu:.1f} ms a request, plain {found.plain_cpu:.1f} ms"
    yield Row(
        f"added to a request at 50,000 tokens, p50 of {requests:,}",
        found.added(0.5),
        "ms",
        3,
        beside=f"plain proxy {median(found.plain):.1f} ms; {cpu}",
        limit="The body is read once more, and its messages are looked up",
    )
    yield Row(
        f"added to a request at 50,000 tokens, p99 of {requests:,}",
        found.added(0.99),
        "ms",
        30,
        beside=tail,
        limit="One in 30 is compacted, or is a conversation's first: all its messages are counted",
    )
    if memory:
        half = found.resident[len(found.resident) // 2 :]
        yield Row(
            f"growth of the memory in the second half of {memory:,} requests",
            half[-1] - half[0],
            "MB",
            5,
            beside=", ".join(f"{each:.0f}" for each in found.resident) + " MB",
            limit="Its tables are full before; a compaction is kept for its conversation, 6 kB",
        )


def main() -> None:
    """Print the part as JSON, or as lines; or be one of the servers."""
    parser = argparse.ArgumentParser(prog="python -m benches.python.proxy")
    parser.add_argument("--requests", type=int, default=REQUESTS)
    parser.add_argument("--memory", type=int, default=10 * REQUESTS)
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--upstream", action="store_true")
    parser.add_argument("--plain", metavar="URL")
    options = parser.parse_args()
    if options.upstream:
        asyncio.run(upstream())
    elif options.plain:
        pass_through(options.plain)
    else:
        found = measured(options.requests, options.memory)
        part = Part(
            "The proxy",
            "Each request goes through `rehydrate proxy` and through a plain one, in turns.",
            list(rows(found, options.requests, options.memory)),
        )
        table = "\n".join(f"| {' | '.join(row.cells())} |" for row in part.rows)
        print(table if options.table else part.to_json())


if __name__ == "__main__":
    main()
