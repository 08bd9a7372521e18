"""Batches and a plain loop: rows a second, and the cores that were used.

    python -m benches.python.batch.threads [--rows 2000] [--units 30] [--bytes 30000]

Each way gets transcripts of its own, so that none finds another's texts in the cache.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa

import rehydrate
from benches.python.inputs import generated_session
from rehydrate.batch import compact_batch


def transcripts(first: int, rows: int, units: int, size_bytes: int) -> Any:
    """Return a table of generated transcripts, numbered from `first` on."""
    sessions = (generated_session(units, size_bytes, number=first + row) for row in range(rows))
    return pa.table({"id": range(rows), "messages": [json.dumps(each) for each in sessions]})


def loop(table: Any) -> list[list[int]]:
    """Compact one conversation after the other."""
    texts = (text.as_py() for text in table["messages"])
    return [list(rehydrate.compact_context(json.loads(text)).indices) for text in texts]


def batch(threads: int) -> Callable[[Any], list[list[int]]]:
    """Return `compact_batch` with so many threads."""

    def compacted(table: Any) -> list[list[int]]:
        kept: list[list[int]] = pa.table(compact_batch(table, threads=threads))["kept"].to_pylist()
        return kept

    return compacted


def main() -> None:
    """Print a line for each way."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=2_000)
    parser.add_argument("--units", type=int, default=30)
    parser.add_argument("--bytes", type=int, default=30_000)
    options = parser.parse_args()
    ways = {"a loop over compact_context": loop, "compact_batch, 1 thread": batch(1)}
    ways["compact_batch, 2 threads"] = batch(2)
    loop(transcripts(0, 4, options.units, options.bytes))
    for number, (name, way) in enumerate(ways.items(), 1):
        first = number * options.rows
        table = transcripts(first, options.rows, options.units, options.bytes)
        rehydrate.process.clear_cache()
        wall, cpu = time.perf_counter(), time.process_time()
        kept = way(table)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        sample = table.slice(0, 20)
        assert kept[:20] == loop(sample)
        print(f"{name:30} {options.rows / wall:8,.0f} rows/s  {cpu / wall:.2f} cores")


if __name__ == "__main__":
    main()
