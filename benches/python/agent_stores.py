"""What the stores inside Anthropic's agents take: RehydrateSessionStore and the memory tool.

    python -m benches.python.agent_stores [--turns 200]

The turns are those of the real Claude Code that the Claude Agent SDK brings, against the strict
provider, with and without the store.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from claude_agent_sdk import ClaudeSDKClient

from benches.report.rows import Part, Row, number
from rehydrate import Memory
from rehydrate.integrations.claude_agent_sdk import RehydrateSessionStore
from rehydrate.integrations.memory_tool import MemoryFiles
from tests.integrations import harbour
from tests.integrations.claude_cli import Machine
from tests.provider import Call, ScriptedReply, StrictProvider

LINES = 2_000
FILES = 200


def row(name: str, seconds: list[float], beside: str = "") -> Row:
    """Return the median as a row, next to the 99th percentile."""
    ordered = sorted(seconds)
    p99 = ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]
    if len(ordered) > 1:
        beside = f"p99 {number(1e3 * p99)} ms; {beside}".removesuffix("; ")
    limit = "The disk's sync" if "append" in name else ""
    return Row(name, 1e3 * statistics.median(ordered), "ms", beside=beside, limit=limit)


def reading(body: Any, _wire: str) -> ScriptedReply:
    """Call a tool, then answer."""
    if len(harbour.since_user(body)) == 1:
        return ScriptedReply("I look.", calls=(Call("Bash", {"command": "cat ports.txt"}),))
    return ScriptedReply("8443.")


def line(count: int) -> Any:
    """Return a transcript line of usual size."""
    message = {"role": "user", "content": harbour.words(f"line {count}", 120)}
    return {"type": "user", "uuid": f"u-{count}", "message": message}


async def timed(work: Callable[[], Awaitable[object]]) -> float:
    """Return how long it took."""
    started = time.perf_counter()
    await work()
    return time.perf_counter() - started


async def store_alone(folder: Path) -> list[Row]:
    """Measure what appends and loads take."""
    store = RehydrateSessionStore(folder / "alone.db")
    key: Any = {"project_key": "p", "session_id": "s"}
    added = [
        await timed(lambda n=n: store.append(key, [line(5 * n + part) for part in range(5)]))
        for n in range(LINES // 5)
    ]
    loaded = [await timed(lambda: store.load(key))]
    again = RehydrateSessionStore(folder / "alone.db")
    first = await timed(lambda: again.append(key, [line(0), line(LINES)]))
    store.close()
    again.close()
    return [
        row("append of 5 lines", added),
        row(f"load of {LINES:,} lines", loaded),
        row(f"first append of a process to {LINES:,} lines", [first]),
    ]


async def turns(folder: Path, count: int, *, stores: bool) -> Row:
    """Measure what a turn of Claude Code takes."""
    machine = Machine(folder / f"machine-{stores}")
    (machine.work / "ports.txt").write_text("staging 8443\n", encoding="utf-8")
    store = RehydrateSessionStore(folder / "turns.db")

    async def turn(client: ClaudeSDKClient, number: int) -> None:
        await client.query(f"Which port has berth {number}?")
        async for _ in client.receive_response():
            pass

    with StrictProvider(reading, keeps_bodies=False) as provider:
        options = machine.options(provider, **({"session_store": store} if stores else {}))
        async with ClaudeSDKClient(options) as client:
            taken = [await timed(lambda n=n: turn(client, n)) for n in range(count)]
    refused = len(provider.refusals)
    name = f"turn of Claude Code, {'with' if stores else 'without'} the store"
    store.close()
    return row(
        name, taken, f"{refused} refused, {provider.usage.read:,} tokens read from the cache"
    )


def memory_tool(folder: Path) -> list[Row]:
    """Measure what each command takes, among many files."""
    rows = []
    with Memory.open(folder / "memory.db", namespace="bench") as memory:
        files = MemoryFiles(memory)
        commands: dict[str, Callable[[str, int], dict[str, Any]]] = {
            "create": lambda path, n: {"path": path, "file_text": harbour.words(f"f{n}", 300)},
            "view": lambda path, _: {"path": path},
            "insert": lambda path, n: {"path": path, "insert_line": 0, "insert_text": f"L {n}"},
            "str_replace": lambda path, n: {"path": path, "old_str": f"L {n}\n", "new_str": "M"},
            "rename": lambda path, _: {"old_path": path, "new_path": f"{path}.old"},
            "delete": lambda path, _: {"path": f"{path}.old"},
        }
        for name, arguments in commands.items():
            taken = []
            for n in range(FILES):
                path = f"/memories/{n % 10}/{n}.md"
                started = time.perf_counter()
                _, is_error = files.answer({"command": name, **arguments(path, n)})
                taken.append(time.perf_counter() - started)
                if is_error:
                    raise SystemExit(f"{name} failed")
            rows.append(row(f"memory tool: {name}, {FILES} files of 2 KB", taken))
    return rows


def main() -> None:
    """Print the part as JSON."""
    parser = argparse.ArgumentParser(prog="python -m benches.python.agent_stores")
    parser.add_argument("--turns", type=int, default=200)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = asyncio.run(store_alone(folder))
        for stores in (False, True):
            rows.append(asyncio.run(turns(folder, given.turns, stores=stores)))
        rows += memory_tool(folder)
    about = (
        f"{given.turns} turns of the real Claude Code that the Claude Agent SDK brings, with "
        "RehydrateSessionStore and without, at the strict provider; the memory tool's commands."
    )
    print(Part("Sessions and files of Anthropic's agents", about, rows).to_json())


if __name__ == "__main__":
    main()
