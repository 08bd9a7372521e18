"""Inverted lists and a graph of usearch against usearch's own package, with the same vectors.

`python -m benches.python.vector_indexes [--items 100000 1000000]`. A store holds vectors
of the built-in model (256 dimensions) or made ones (384, around topics), given as a user's own, and
is asked by both indexes.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benches.python.memory_peers import Rows, static_vectors
from benches.python.memory_texts import texts
from benches.report.rows import Part, Row, number
from benches.report.size import SIZE
from rehydrate import Memory
from rehydrate.memory import MemoryLimits, Vectors
from rehydrate.memory.items import VectorIndex

BATCH, NEIGHBOURS, AT_ONCE, THREADS = 1_000, 3, 1_000, 2
DIMENSIONS, TOPICS, SPREAD = 384, 400, 0.8
"""A made vector is a topic and noise of `SPREAD` times its length."""
NAMESPACE, SPACE = "bench", "bench-v1"
INDEXES: tuple[VectorIndex, ...] = ("lists", "usearch")
UNLIMITED, INDEX_BYTES = MemoryLimits(None, None, None), 16 << 30
"""A memory forgets what is beyond its limits, a million items as it comes; an index that isn't in
RAM is read at each question."""
ROUNDING = 1e-6
"""By how much two computations of a cosine may differ."""


class Space(NamedTuple):
    """Vectors of one model: those that are stored and those to ask for."""

    name: str
    stored: Rows
    asked: Rows


class Cost(NamedTuple):
    """Processor seconds of this process and bytes of the index's files."""

    seconds: float
    bytes: int


def made_vectors(count: int, seed: int) -> Rows:
    """Return vectors of length 1 around topics."""
    draw = np.random.default_rng(seed)
    topics = np.random.default_rng(7).normal(size=(TOPICS, DIMENSIONS)).astype(np.float32)
    rows = topics[draw.integers(TOPICS, size=count)]
    rows = rows + SPREAD * draw.standard_normal(rows.shape, dtype=np.float32)
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), dtype=np.float32)


def measure(sizes: Sequence[int]) -> Part:
    """Measure every size and space in a store of its own."""
    about = (
        "A store, asked by inverted lists and by a graph of usearch, beside usearch's own package "
        f"in turn (bytes, its defaults; {THREADS} threads to build and for many at once). "
        "text: 256 dimensions, the built-in model's vectors of benches/python/memory_texts.py, "
        f"asked with halves of texts; made: {DIMENSIONS} dimensions around {TOPICS} topics. "
        f"{SIZE.searches:,} single questions, {AT_ONCE:,} at once. Strict recall@{NEIGHBOURS}: the "
        "share of the true nearest, by an exact scan. A build makes the built-in model's index too."
    )
    rows: list[Row] = []
    for size in sizes:
        held = list(texts(size))
        near = [text[len(text) // 2 :] for text in held[-AT_ONCE:]]
        stored = np.concatenate([static_vectors(batch) for batch in _batches(held)])
        rows += _of_space(held, Space(f"text, {size:,}", stored, static_vectors(near)))
        stored = made_vectors(size, 1)
        rows += _of_space(held, Space(f"made, {size:,}", stored, made_vectors(AT_ONCE, 2)))
    return Part("Vector indexes", about, rows)


def _of_space(held: Sequence[str], space: Space) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "memory.db"
        row_of = _fill(file, held, space.stored)
        built, peer = _peer(space.stored)
        peers = f"usearch's package {number(built)} CPU-s"
        for index in INDEXES:
            cost = _rebuilt(file, index)
            beside = f"{number(cost.bytes / 1e6)} MB of index files; {peers}"
            yield Row(f"{space.name}: build, {index}", cost.seconds, "CPU-s", beside=beside)
            yield from _answers(file, index, space, row_of, peer)


def _fill(file: Path, held: Sequence[str], stored: Rows) -> dict[str, int]:
    """Add the texts with their vectors; return the row of each by its handle."""
    rows: dict[str, int] = {}
    with _opened(file, "lists") as memory:
        for place, batch in enumerate(_batches(held)):
            first = place * BATCH
            vectors = Vectors(SPACE, stored[first : first + len(batch)])
            for row, added in enumerate(memory.add(batch, vectors=vectors), first):
                rows.setdefault(added.handle, row)
    return rows


def _opened(file: Path, index: VectorIndex) -> Memory:
    return Memory.open(
        file,
        namespace=NAMESPACE,
        vectors=index,
        redact=False,
        limits=UNLIMITED,
        index_bytes=INDEX_BYTES,
    )


def _rebuilt(file: Path, index: VectorIndex) -> Cost:
    before = time.process_time()
    with _opened(file, index) as memory:
        memory.rebuild()
        seconds = time.process_time() - before
        return Cost(_note(f"{index}: built", seconds), memory.stats().index_bytes)


def _answers(
    file: Path, index: VectorIndex, space: Space, row_of: dict[str, int], peer: Any
) -> Iterator[Row]:
    with _opened(file, index) as memory:

        def ours(rows: Rows) -> list[list[int]]:
            found = memory.recall((), NEIGHBOURS, vectors=Vectors(SPACE, rows))
            return [[row_of[hit.handle] for hit in hits] for hits in found]

        def theirs(rows: Rows) -> Any:
            return peer.search(rows, NEIGHBOURS, threads=min(THREADS, len(rows))).keys

        some = space.asked[: SIZE.searches]
        one, peers_one = _in_turn((ours, theirs), [row[None] for row in some])
        yield Row(
            f"{space.name}: one question, {index}, p50",
            one[0],
            "ms",
            beside=f"p99 {number(one[1])}; usearch's package "
            f"{number(peers_one[0])}, p99 {number(peers_one[1])} ms",
        )
        many, peers_many = (_cpu(lambda way=way: way(space.asked)) for way in (ours, theirs))
        yield Row(
            f"{space.name}: {AT_ONCE:,} at once, {index}",
            many * 1e3,
            "CPU-ms",
            beside=f"usearch's package {number(peers_many * 1e3)} CPU-ms",
        )
        yield Row(
            f"{space.name}: strict recall@{NEIGHBOURS}, {index}",
            _strict(space.stored, some, ours(some)),
            "",
            more_is_better=True,
            beside=f"usearch's package {_strict(space.stored, some, theirs(some)):.3f}",
        )


def _strict(stored: Rows, asked: Rows, found: Sequence[Sequence[int]]) -> float:
    """Return the share of each row's true nearest that are among the rows found."""
    best = np.full((len(asked), NEIGHBOURS), -2.0, dtype=np.float32)
    for start in range(0, len(stored), 50_000):
        both = np.concatenate([best, asked @ stored[start : start + 50_000].T], axis=1)
        best = -np.partition(-both, NEIGHBOURS - 1, axis=1)[:, :NEIGHBOURS]
    least = best.min(axis=1) - ROUNDING
    right = sum(
        int(np.sum(stored[list(rows)] @ asked[at] >= least[at])) for at, rows in enumerate(found)
    )
    return right / (NEIGHBOURS * len(asked))


def _peer(stored: Rows) -> tuple[float, Any]:
    # usearch crashes where onnxruntime's library is loaded after it.
    import onnxruntime  # noqa: F401
    from usearch.index import Index

    index = Index(ndim=stored.shape[1], metric="cos", dtype="i8")
    before = time.process_time()
    index.add(np.arange(len(stored)), stored, threads=THREADS)
    return _note("usearch's package: built", time.process_time() - before), index


def _in_turn(
    ways: Sequence[Callable[[Rows], Any]], questions: Sequence[Rows]
) -> list[tuple[float, float]]:
    """Call the ways in turn; return each way's p50 and p99 in milliseconds."""
    taken: list[list[float]] = [[] for _ in ways]
    for rows in questions:
        for way, seconds in zip(ways, taken, strict=True):
            before = time.perf_counter()
            way(rows)
            seconds.append(time.perf_counter() - before)
    return [(float(p[0]), float(p[1])) for p in (np.percentile(s, (50, 99)) * 1e3 for s in taken)]


def _cpu(call: Callable[[], Any]) -> float:
    taken = []
    for _ in range(3):
        before = time.process_time()
        call()
        taken.append(time.process_time() - before)
    return min(taken)


def _note(name: str, seconds: float) -> float:
    print(f"  {name}: {seconds:.1f} CPU-s", file=sys.stderr, flush=True)
    return seconds


def _batches(items: Sequence[str]) -> Iterator[Sequence[str]]:
    return (items[start : start + BATCH] for start in range(0, len(items), BATCH))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, nargs="+", default=[100_000])
    part = measure(sorted(parser.parse_args().items))
    print(part.to_json())
