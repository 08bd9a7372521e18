"""Searches and recalls of a memory on PostgreSQL, at sizes.

A search is ranked by an index in this process (where it fits), by the engine over the server's
candidates, and by the contract's statement; next to it full-text search alone.
"""

from __future__ import annotations

import itertools
import math
import statistics
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from benches.python.memory_texts import queries, texts
from benches.report.rows import Row, number
from rehydrate import Memory
from rehydrate.memory import MemoryItem, MemoryLimits

NAMESPACE = "bench"
BATCH = 1_000
ASKED = 300
RECALLED = 1_000
HELD_ITEMS = 200_000
MOST_SECONDS = 60.0
LIMITS = MemoryLimits(max_items=None, max_bytes=None)
PLAIN_SQL = (
    "SELECT id, text, ts_rank_cd(words, plainto_tsquery('english', %(q)s), 32) AS rank "
    "FROM memory_chunks WHERE namespace = %(n)s AND words @@ plainto_tsquery('english', %(q)s) "
    "ORDER BY rank DESC LIMIT 5"
)


def rows(url: str, sizes: Sequence[int]) -> list[Row]:
    """Return the times at each size; items are added as sizes grow."""
    stream, about, found, written = texts(max(sizes)), list[str](), list[Row](), 0
    with Memory.open(url, namespace=NAMESPACE, redact=False, limits=LIMITS) as memory:
        for items in sorted(sizes):
            began, added = time.perf_counter(), items - written
            for start in range(written, items, BATCH):
                batch = list(itertools.islice(stream, min(BATCH, items - start)))
                about += batch[:: max(1, BATCH // 10)]
                memory.add([MemoryItem(text, source=f"source {start}") for text in batch])
            rate = added / (time.perf_counter() - began)
            written = items
            case = f"adds a second of one process, batches of {BATCH:,}, to {items:,} items"
            found.append(Row(case, rate, "", more_is_better=True, limit="The indexes of words"))
            found += _searches(url, items, queries(about, ASKED))
    return found


def _searches(url: str, items: int, asked: Sequence[str]) -> list[Row]:
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE memory_chunks")
        alone = Timed.of(
            lambda query: connection.execute(PLAIN_SQL, {"q": query, "n": NAMESPACE}).fetchall(),
            asked,
        )
    options = {"namespace": NAMESPACE, "redact": False, "limits": LIMITS}
    with Memory.open(url, index_bytes=1, **options) as server:  # type: ignore[arg-type]
        server.search(asked[0])
        candidates = Timed.of(server.search, asked)
        recalled = _once(lambda: server.recall(_texts(asked)))
        weighted = Timed.of(lambda query: server.search(query, fusion="weighted"), asked)
    beside = f"full-text search alone {alone}; the contract's statement {weighted}"
    limit = "The server reads what holds the words; the engine reads their texts"
    rows = [
        Row(f"{items:,} items: the server's candidates, p50", candidates.p50, "ms", beside=beside),
        Row(f"{items:,} items: the server's candidates, p99", candidates.p99, "ms", limit=limit),
        Row(f"{items:,} items: recall of {RECALLED:,} by the server's candidates", recalled, "ms"),
    ]
    if items > HELD_ITEMS:
        return rows
    with Memory.open(url, **options) as held_here:  # type: ignore[arg-type]
        first = _once(lambda: held_here.search(asked[0]))
        held = Timed.of(held_here.search, asked)
        recalled = _once(lambda: held_here.recall(_texts(asked)))
    return [
        *rows,
        Row(f"{items:,} items: an index in the process, p50", held.p50, "ms"),
        Row(f"{items:,} items: an index in the process, p99", held.p99, "ms"),
        Row(f"{items:,} items: its first search, which makes the index", first, "ms"),
        Row(f"{items:,} items: recall of {RECALLED:,} by an index in the process", recalled, "ms"),
    ]


class Timed(NamedTuple):
    """Milliseconds of searches; none if they do not end."""

    p50: float | None
    p99: float | None

    @classmethod
    def of(cls, ask: Callable[[str], object], asked: Sequence[str]) -> Timed:
        """Ask until the questions, or a minute, are over."""
        times, end = list[float](), time.perf_counter() + MOST_SECONDS
        for query in asked:
            try:
                times.append(_once(lambda: ask(query)))  # noqa: B023
            except Exception:
                return cls(None, None)
            if time.perf_counter() > end:
                break
        times.sort()
        return cls(statistics.median(times), times[math.ceil(0.99 * len(times)) - 1])

    def __str__(self) -> str:
        if self.p50 is None or self.p99 is None:
            return "beyond its timeout"
        return f"{number(self.p50)} / {number(self.p99)} ms"


def _once(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return (time.perf_counter() - began) * 1e3


def _texts(asked: Sequence[str]) -> list[str]:
    return [*itertools.islice(itertools.cycle(asked), RECALLED)]
