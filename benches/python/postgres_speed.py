"""Speed of a memory on PostgreSQL: `tools/postgres python -m benches.python.postgres_speed`.

`--items N...` names the sizes. At each: a search ranked by an index in this process (where it
fits), by the engine over the server's candidates, and by the contract's statement; adds a second.
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence

from benches.python.memory_texts import queries, texts
from rehydrate import Memory
from rehydrate.memory import MemoryItem, MemoryLimits

NAMESPACE = "bench"
BATCH = 1_000
ASKED = 300
RECALLED = 1_000
LIMITS = MemoryLimits(max_items=None, max_bytes=None)
PLAIN_SQL = (
    "SELECT id, text, ts_rank_cd(words, plainto_tsquery('english', %(q)s), 32) AS rank "
    "FROM memory_chunks WHERE namespace = %(n)s AND words @@ plainto_tsquery('english', %(q)s) "
    "ORDER BY rank DESC LIMIT 5"
)


def main() -> None:
    """Print a line a measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, nargs="+", default=[100_000])
    parser.add_argument("--seconds", type=float, default=60.0, help="the most for each measure")
    options = parser.parse_args()
    url = os.environ.get("REHYDRATE_POSTGRES_URL") or sys.exit("run it under tools/postgres")
    stream, about = texts(max(options.items)), list[str]()
    written, memory = 0, Memory.open(url, namespace=NAMESPACE, redact=False, limits=LIMITS)
    for items in sorted(options.items):
        started, added = time.perf_counter(), 0
        for start in range(written, items, BATCH):
            found = list(itertools.islice(stream, min(BATCH, items - start)))
            about += found[:: max(1, BATCH // 10)]
            memory.add([MemoryItem(text, source=f"source {start}") for text in found])
            added += len(found)
        seconds = time.perf_counter() - started
        written = items
        print(f"{items:,} items: {added / max(seconds, 1e-9):,.0f} adds a second", flush=True)
        _searches(url, items, queries(about, ASKED), options.seconds)
    memory.close()


def _searches(url: str, items: int, asked: Sequence[str], seconds: float) -> None:
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE memory_chunks")
        _report(
            f"{items:,}: full-text search alone (all words)",
            lambda query: connection.execute(PLAIN_SQL, {"q": query, "n": NAMESPACE}).fetchall(),
            asked,
            seconds,
        )
    options = {"namespace": NAMESPACE, "redact": False, "limits": LIMITS}
    with Memory.open(url, index_bytes=1, **options) as server:  # type: ignore[arg-type]
        server.search(asked[0])
        _report(f"{items:,}: candidates, ranked by the engine", server.search, asked, seconds)
        started = time.perf_counter()
        found = server.recall(_texts(asked))
        held = sum(bool(row) for row in found)
        taken = time.perf_counter() - started
        print(f"{items:,}: recall of {len(found)}: {taken * 1000:,.0f} ms, {held} answered")
        _report(
            f"{items:,}: the contract's statement",
            lambda query: server.search(query, fusion="weighted"),
            asked,
            seconds,
        )
    with Memory.open(url, **options) as held_here:  # type: ignore[arg-type]
        started = time.perf_counter()
        held_here.search(asked[0])
        taken = time.perf_counter() - started
        print(f"{items:,}: first search of a process: {taken:.2f} s", flush=True)
        _report(f"{items:,}: as it comes", held_here.search, asked, seconds)
        started = time.perf_counter()
        held_here.recall(_texts(asked))
        taken = time.perf_counter() - started
        print(f"{items:,}: recall of {RECALLED}: {taken * 1000:,.0f} ms, as it comes", flush=True)


def _texts(asked: Sequence[str]) -> list[str]:
    return [*itertools.islice(itertools.cycle(asked), RECALLED)]


def _report(name: str, ask: Callable[[str], object], asked: Sequence[str], seconds: float) -> None:
    times, end = [], time.perf_counter() + seconds
    for query in asked:
        started = time.perf_counter()
        try:
            ask(query)
        except Exception as error:
            print(f"{name}: {error}", flush=True)
            return
        times.append((time.perf_counter() - started) * 1000)
        if time.perf_counter() > end:
            break
    times.sort()
    p99 = times[math.ceil(0.99 * len(times)) - 1]
    print(f"{name}: p50 {statistics.median(times):.1f}, p99 {p99:.1f} ms", flush=True)


if __name__ == "__main__":
    main()
