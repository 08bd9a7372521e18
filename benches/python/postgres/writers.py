"""Adds a second of many processes on one server.

Each process adds batches, in a namespace of its own, then all of them in one. A namespace has one
writer at a time, so the second figure is about what one process does. Batches of one wait for the
disk with each item.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator
from typing import Any

from benches.python.memory_texts import texts
from benches.report.rows import Row
from rehydrate import Memory
from rehydrate.memory import MemoryItem, MemoryLimits

PROCESSES, SECONDS = 8, 10.0
IN_A_BATCH = (100, 1)
LIMITS = MemoryLimits(max_items=None, max_bytes=None)


def rows(url: str) -> list[Row]:
    """Return the adds a second of each way."""
    found = []
    with Memory.open(url) as memory:
        memory.namespaces()
    context = multiprocessing.get_context("spawn")
    for shares in (False, True):
        for items in IN_A_BATCH:
            start, out = context.Barrier(PROCESSES + 1), context.Queue()
            processes = [
                context.Process(
                    target=_write,
                    args=(url, number, items, shares, SECONDS, start, out),
                )
                for number in range(PROCESSES)
            ]
            for process in processes:
                process.start()
            start.wait()
            added = sum(out.get() for _ in processes)
            for process in processes:
                process.join()
            where = "one namespace" if shares else "a namespace each"
            found.append(
                Row(
                    f"adds a second of {PROCESSES} processes, {where}, batches of {items}",
                    added / SECONDS,
                    "",
                    more_is_better=True,
                    limit="The indexes of words" if items > 1 else "The disk's sync",
                )
            )
    return found


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
