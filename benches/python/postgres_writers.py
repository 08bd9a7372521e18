"""Adds a second of many processes: `tools/postgres python -m benches.python.postgres_writers`.

Each process adds batches, in a namespace of its own, then all of them in one. A namespace has one
writer at a time, so the second figure is about what one process does. `--items 1` waits for the
disk with each item.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator
from typing import Any

from benches.python.memory_texts import texts
from rehydrate import Memory
from rehydrate.memory import MemoryItem, MemoryLimits

LIMITS = MemoryLimits(max_items=None, max_bytes=None)


def main() -> None:
    """Print a line for each way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--items", type=int, nargs="+", default=[100, 1], help="in a batch")
    options = parser.parse_args()
    url = os.environ.get("REHYDRATE_POSTGRES_URL") or sys.exit("run it under tools/postgres")
    with Memory.open(url) as memory:
        memory.namespaces()
    context = multiprocessing.get_context("spawn")
    for shares in (False, True):
        for items in options.items:
            start, out = context.Barrier(options.processes + 1), context.Queue()
            processes = [
                context.Process(
                    target=_write,
                    args=(url, number, items, shares, options.seconds, start, out),
                )
                for number in range(options.processes)
            ]
            for process in processes:
                process.start()
            start.wait()
            added = sum(out.get() for _ in processes)
            for process in processes:
                process.join()
            where = "one namespace" if shares else "a namespace each"
            print(
                f"{options.processes} processes, {where}, batches of {items}: "
                f"{added / options.seconds:,.0f} adds a second",
                flush=True,
            )


def _write(
    url: str, number: int, items: int, shares: bool, seconds: float, start: Any, out: Any
) -> None:
    namespace = f"{'shared' if shares else number} {items}"
    with Memory.open(url, namespace=namespace, redact=False, limits=LIMITS) as memory:
        kept = [*texts(4_000, seed=number)]
        stream = _numbered(kept, number)
        memory.add(next(stream))
        start.wait()
        added, end = 0, time.perf_counter() + seconds
        while time.perf_counter() < end:
            memory.add([MemoryItem(next(stream), source="bench") for _ in range(items)])
            added += items
    out.put(added)


def _numbered(kept: list[str], process: int) -> Iterator[str]:
    number = 0
    while True:
        yield f"{kept[number % len(kept)]} [{process}.{number}]"
        number += 1


if __name__ == "__main__":
    main()
