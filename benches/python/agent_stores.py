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

from rehydrate import Memory
from rehydrate.integrations.claude_agent_sdk import RehydrateSessionStore
from rehydrate.integrations.memory_tool import MemoryFiles
from tests.integrations import harbour
from tests.integrations.claude_cli import Machine
from tests.provider import Call, ScriptedReply, StrictProvider

LINES = 2_000
FILES = 200


def shown(name: str, seconds: list[float]) -> str:
    """Return p50 and p99 in milliseconds."""
    ordered = sorted(seconds)
    p99 = ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]
    return f"{name:44} {1e3 * statistics.median(ordered):8.2f} {1e3 * p99:8.2f} ms"


def reading(body: Any, _wire: str) -> ScriptedReply:
    """Call a tool, then answer."""
    if len(harbour.since_user(body)) == 1:
        return ScriptedReply("I look.", calls=(Call("Bash", {"command": "cat ports.txt"}),))
    return ScriptedReply("8443.")


def line(number: int) -> Any:
    """Return a transcript line of usual size."""
    message = {"role": "user", "content": harbour.words(f"line {number}", 120)}
    return {"type": "user", "uuid": f"u-{number}", "message": message}


async def timed(work: Callable[[], Awaitable[object]]) -> float:
    """Return how long it took."""
    started = time.perf_counter()
    await work()
    return time.perf_counter() - started


async def store_alone(folder: Path) -> None:
    """Print what appends and loads take."""
    store = RehydrateSessionStore(folder / "alone.db")
    key: Any = {"project_key": "p", "session_id": "s"}
    added = [
        await timed(lambda n=n: store.append(key, [line(5 * n + part) for part in range(5)]))
        for n in range(LINES // 5)
    ]
    print(shown("append of 5 lines", added))
    print(shown(f"load of {LINES:,} lines", [await timed(lambda: store.load(key))]))
    again = RehydrateSessionStore(folder / "alone.db")
    first = await timed(lambda: again.append(key, [line(0), line(LINES)]))
    print(shown(f"first append of a process to {LINES:,} lines", [first]))
    store.close()
    again.close()


async def turns(folder: Path, count: int, *, stores: bool) -> None:
    """Print what a turn of Claude Code takes."""
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
    print(f"{shown(name, taken)}   {refused} refused, {provider.usage.read:,} tokens read")
    store.close()


def memory_tool(folder: Path) -> None:
    """Print what each command takes, among many files."""
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
            for number in range(FILES):
                path = f"/memories/{number % 10}/{number}.md"
                started = time.perf_counter()
                _, is_error = files.answer({"command": name, **arguments(path, number)})
                taken.append(time.perf_counter() - started)
                if is_error:
                    raise SystemExit(f"{name} failed")
            print(shown(f"{name}, {FILES} files of 2 KB", taken))


def main() -> None:
    """Print all figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=200)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print(f"{'':44} {'p50':>8} {'p99':>8}")
        asyncio.run(store_alone(folder))
        for stores in (False, True):
            asyncio.run(turns(folder, given.turns, stores=stores))
        memory_tool(folder)


if __name__ == "__main__":
    main()
