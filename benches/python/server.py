"""A server under load: what `prompt` and `aprompt` cost, and what the event loop feels of it.

    python -m benches.python.server --seconds 60 --clients 20   # both calls, in turn
    python -m benches.python.server --waiters                   # 45 wait for one slow context
    python -m benches.python.server --estimates                 # what context/estimate.py says

Three processes on loopback: clients, a FastAPI server with a Context for each conversation, and a
fake provider that answers after 80 to 250 ms. Needs fastapi, uvicorn and httpx (group `test`).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import rehydrate
from benches.python.resident import resident_bytes
from rehydrate import Budget, Context

CONVERSATIONS = 40
BEGUN_TURNS = 20
SOFT_TOKENS = 50_000
CALLS = ("prompt", "aprompt")
SAID = """
ferry berth billing harbour port error index quota session token deploy rollback staging release
ledger invoice customer latency retry timeout cluster region bucket schema migration
"""
WORDS = SAID.split()


def text(rng: random.Random, least: int, most: int) -> str:
    """Return words and numbers, within these numbers of characters."""
    size, said, length = rng.randint(least, most), [], 0
    while length < size:
        word = rng.choice(WORDS) + (str(rng.randint(0, 9_999)) if rng.random() < 0.15 else "")
        said.append(word)
        length += len(word) + 1
    return " ".join(said)


def share(values: list[float], part: float) -> float:
    """Return a percentile."""
    ordered = sorted(values)
    return round(ordered[min(len(ordered) - 1, int(len(ordered) * part))], 2) if ordered else 0.0


def rss_mb() -> float:
    """Return the resident memory of the process."""
    return round(resident_bytes() / 2**20, 1)


async def heartbeat(lags: list[float]) -> None:
    """Record how late the loop is, every 5 ms."""
    while True:
        began = time.perf_counter()
        await asyncio.sleep(0.005)
        lags.append((time.perf_counter() - began - 0.005) * 1e3)


def provider_app() -> Any:
    """Return an app that answers like Anthropic's Messages API after a delay, sometimes by a
    call."""
    from fastapi import FastAPI

    app, rng = FastAPI(), random.Random(1)

    @app.post("/v1/messages")
    async def messages(sent: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(rng.uniform(0.08, 0.25))
        last = sent["messages"][-1]["content"]
        content: list[dict[str, Any]] = [{"type": "text", "text": text(rng, 300, 2_500)}]
        is_answered = isinstance(last, list) and any(b["type"] == "tool_result" for b in last)
        if not is_answered and rng.random() < 0.3:
            asked, id_ = {"query": text(rng, 10, 60)}, f"toolu_{rng.getrandbits(64):x}"
            content.append({"type": "tool_use", "id": id_, "name": "look_up", "input": asked})
        return {"content": content}

    return app


def server_app(call: str, provider: str) -> Any:
    """Return the server: one Context for each conversation, called by `prompt` or `aprompt`."""
    import httpx
    from fastapi import FastAPI

    tool = {"name": "look_up", "description": "Look something up.", "input_schema": {}}
    prompts: list[float] = []
    lags: list[float] = []
    kept: dict[str, tuple[Context, asyncio.Lock]] = {}
    rng = random.Random(2)
    http = httpx.AsyncClient(base_url=provider, timeout=120)

    def conversation(id_: str) -> tuple[Context, asyncio.Lock]:
        if id_ not in kept:
            context = Context(
                system="You are a helpful agent.",
                tools=[tool],
                budget=Budget(soft_tokens=SOFT_TOKENS, hard_tokens=10**9),
            )
            own = random.Random(id_)
            for _ in range(BEGUN_TURNS):
                context.add({"role": "user", "content": text(own, 200, 1_500)})
                context.add({"role": "assistant", "content": text(own, 300, 2_500)})
            kept[id_] = context, asyncio.Lock()
        return kept[id_]

    async def prompted(context: Context, said: str | None) -> dict[str, Any]:
        began = time.perf_counter()
        compiled = context.prompt(said) if call == "prompt" else await context.aprompt(said)
        prompts.append((time.perf_counter() - began) * 1e3)
        return {**compiled.request, "model": "fake", "max_tokens": 1_000}

    @asynccontextmanager
    async def life(_: Any) -> AsyncIterator[None]:
        beating = asyncio.create_task(heartbeat(lags))
        yield
        beating.cancel()
        await http.aclose()

    app = FastAPI(lifespan=life)

    @app.post("/chat/{id_}")
    async def chat(id_: str, sent: dict[str, Any]) -> dict[str, int]:
        context, turn = conversation(id_)
        said: str | None = sent["text"]
        async with turn:
            for step in range(4):
                answer = await http.post("/v1/messages", json=await prompted(context, said))
                content = answer.raise_for_status().json()["content"]
                context.add({"role": "assistant", "content": content})
                said, calls = None, [each for each in content if each["type"] == "tool_use"]
                if not calls:
                    return {"steps": step + 1}
                results = [
                    {
                        "type": "tool_result",
                        "tool_use_id": each["id"],
                        "content": text(rng, 500, 9_000),
                    }
                    for each in calls
                ]
                context.add({"role": "user", "content": results})
        return {"steps": 4}

    @app.get("/stats")
    async def stats() -> dict[str, Any]:
        usages = [context.usage for context, _ in kept.values()]
        found = {
            "prompts": len(prompts),
            "prompt_p50_ms": share(prompts, 0.5),
            "prompt_p99_ms": share(prompts, 0.99),
            "prompt_max_ms": share(prompts, 1),
            "lag_p50_ms": share(lags, 0.5),
            "lag_p99_ms": share(lags, 0.99),
            "lag_max_ms": share(lags, 1),
            "rss_mb": rss_mb(),
            "compactions": sum(usage.compactions for usage in usages),
            "tokens_p50": share([usage.tokens for usage in usages], 0.5),
        }
        prompts.clear()
        lags.clear()
        return found

    return app


def run_role(role: str, port: int, call: str, provider: str) -> None:
    import uvicorn

    app = provider_app() if role == "provider" else server_app(call, provider)
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning", access_log=False)


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


async def until_up(port: int) -> None:
    while True:
        with suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            return
        await asyncio.sleep(0.05)


async def drive(port: int, seconds: float, clients: int) -> dict[str, Any]:
    """Return what the server measured under this many clients for this time."""
    import httpx

    latencies: list[float] = []
    limits = httpx.Limits(max_connections=clients + 4)
    at = f"http://127.0.0.1:{port}"
    async with httpx.AsyncClient(base_url=at, timeout=120, limits=limits) as http:
        for number in range(CONVERSATIONS):  # first prompts, and the imports they need
            await http.post(f"/chat/{number}", json={"text": "Hello there."})
        await http.get("/stats")
        end = time.monotonic() + seconds

        async def client(number: int) -> None:
            rng = random.Random(number)
            while time.monotonic() < end:
                began = time.perf_counter()
                path = f"/chat/{rng.randrange(CONVERSATIONS)}"
                answer = await http.post(path, json={"text": text(rng, 100, 2_500)})
                answer.raise_for_status()
                latencies.append((time.perf_counter() - began) * 1e3)

        await asyncio.gather(*(client(number) for number in range(clients)))
        stats: dict[str, Any] = (await http.get("/stats")).json()
    return {
        "requests": len(latencies),
        "http_p50_ms": share(latencies, 0.5),
        "http_p99_ms": share(latencies, 0.99),
        **stats,
    }


def measure(call: str, seconds: float, clients: int) -> dict[str, Any]:
    """Make one run, with processes of its own."""
    ports = free_port(), free_port()
    provider = f"http://127.0.0.1:{ports[0]}"
    started = [
        subprocess.Popen(
            [
                *(sys.executable, "-m", "benches.python.server", "--role", role),
                *("--port", str(port), "--call", call, "--provider", provider),
            ]
        )
        for role, port in zip(("provider", "server"), ports, strict=True)
    ]
    try:
        for port in ports:
            asyncio.run(until_up(port))
        found = asyncio.run(drive(ports[1], seconds, clients))
    finally:
        for process in started:
            process.terminate()
            process.wait()
    return {"call": call, "seconds": seconds, "clients": clients, **found}


async def waiters(count: int = 45, slow_seconds: float = 1.0) -> dict[str, Any]:
    """Measure how long another conversation waits while many wait for one slow context."""

    def slow(_: object) -> str:
        time.sleep(slow_seconds)
        return "At seven."

    slow_context, other = Context(slow, timeout=None), Context()
    other.prompt("Hello.")
    other.add({"role": "assistant", "content": "Hello."})
    tasks = [asyncio.create_task(slow_context.aprompt(f"{number}?")) for number in range(count)]
    await asyncio.sleep(0.1)
    began = time.perf_counter()
    await other.aprompt("And when?")
    waited = (time.perf_counter() - began) * 1e3
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return {"waiters": count, "slow_seconds": slow_seconds, "other_waited_ms": round(waited, 1)}


def estimates() -> list[dict[str, Any]]:
    """Return the minimum of some runs of `context/estimate.py`."""
    from rehydrate.context.prompt_builder import prompt_ms

    rng = random.Random(3)

    def least(context: Context, entries: Callable[[], list[Any]], runs: int = 9) -> float:
        took = []
        for _ in range(runs):
            context.add({"role": "assistant", "content": "Yes."}, *entries())
            began = time.perf_counter()
            context.prompt("And?")
            took.append((time.perf_counter() - began) * 1e3)
        return round(min(took), 2)

    def context_of(messages: int) -> Context:
        context = Context(budget=Budget(10**6, 10**9))
        for number in range(messages):
            role = ("user", "assistant")[number % 2]
            context.add({"role": role, "content": text(rng, 200, 1_500)})
        context.prompt("Hello.")
        return context

    rows = [
        ("visible entries", visible, least(context_of(visible), list), visible, 2, 2)
        for visible in (0, 100, 200, 400, 800)
    ]
    for new in (10, 40, 100):

        def several(new: int = new) -> list[Any]:
            return [{"role": "user", "content": text(rng, 200, 400)} for _ in range(new)]

        rows.append(("new entries", new, least(context_of(20), several, 3), 20, new, new * 70))
    for chars in (5_000, 20_000, 50_000):

        def long(chars: int = chars) -> list[Any]:
            lines = [text(rng, 60, 80) for _ in range(chars // 70)]
            return [{"role": "user", "content": "\n".join(lines)}]

        rows.append(("new chars", chars, least(context_of(20), long, 5), 20, 3, chars // 4))
    return [
        {"of": of, "size": size, "took_ms": took, "estimate_ms": round(prompt_ms(*sizes), 2)}
        for of, size, took, *sizes in rows
    ]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seconds", type=float, default=60)
    arguments.add_argument("--clients", type=int, default=20)
    arguments.add_argument("--call", choices=CALLS)
    arguments.add_argument("--waiters", action="store_true")
    arguments.add_argument("--estimates", action="store_true")
    arguments.add_argument("--role", choices=("provider", "server"), help=argparse.SUPPRESS)
    arguments.add_argument("--port", type=int, help=argparse.SUPPRESS)
    arguments.add_argument("--provider", default="", help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.role:
        run_role(given.role, given.port, given.call or "aprompt", given.provider)
        return
    if given.waiters:
        rows = [asyncio.run(waiters())]
    elif given.estimates:
        rows = estimates()
    else:
        calls = CALLS if given.call is None else (given.call,)
        rows = [measure(call, given.seconds, given.clients) for call in calls]
    print(json.dumps({"version": rehydrate.__version__, "rows": rows}, indent=2))


if __name__ == "__main__":
    main()
