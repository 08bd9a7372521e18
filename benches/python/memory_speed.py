"""Speed of a memory and of peers: `python -m benches.python.memory_speed [--items N...]`.

One store grows from size to size and is measured at each. Peers end at 100,000 items but for FTS5.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benches.python.memory_peers import Chroma, Fts5, Rows, Usearch, static_vectors
from benches.python.memory_probe import probe
from benches.python.memory_texts import queries, texts
from benches.report.rows import Part, Row, number
from benches.report.size import SIZE
from rehydrate import Embedder, Memory
from rehydrate.memory import Fusion

WANTED_MS = {100_000: 3.0, 1_000_000: 15.0}
"""Targets of a search, the 99th percentile."""
RECALL_AT = 100_000
RECALL_MS, SINGLE_MS, STRICT = 60.0, 0.5, 0.90
"""Targets at `RECALL_AT` items: a batch of vectors, one vector (p99), the share of the nearest."""
INGEST = 5_000
BATCH = 1_000
"""Items of one call, which are of one source, in order."""
LIMIT = 5
NEIGHBOURS = 3
ASKED, ASKED_OF_PEERS, RECALLED, SINGLES = SIZE.searches, SIZE.peer_searches, 1_000, 100
CHROMA_MOST, VECTORS_MOST = 10_000, 100_000
"""Maximum items for Chroma, about a minute; and for usearch and a memory with its own vectors."""
THREADS = 2
"""Threads of usearch, for queries in one batch."""
EXACT, ROUNDING = 200, 1e-6
"""Vectors compared with an exact scan, and by how much two computations of a cosine differ."""
OWN_SPACE = "bench-v1"
NAMESPACE = "bench"


class Spread(NamedTuple):
    """Milliseconds of one call, over many; those of the calling thread on the processor."""

    p50: float
    p99: float
    busy_p50: float = 0.0
    busy_p99: float = 0.0

    def __str__(self) -> str:
        """Return both as a note next to a row."""
        return f"{number(self.p50)} / {number(self.p99)} ms"


class Grown:
    """The store and its peers, measured at every size, and their texts."""

    def __init__(self, folder: Path) -> None:
        """Create all of them empty."""
        self.file = folder / "memory.db"
        self.memory = Memory.open(self.file, namespace=NAMESPACE)
        self._own_file = folder / "own.db"
        self.own = self._open_own()
        self.fts5 = Fts5(folder / "fts5.db")
        self.usearch = Usearch(static_vectors(["."]).shape[1], THREADS)
        self.chroma = Chroma(folder / "chroma") if find_spec("chromadb") else None
        self.held: list[str] = []
        self.vectors: list[Rows] = []
        self.row_of: dict[str, int] = {}
        """The row of an item's vector, by its handle."""
        self.per_second: dict[str, float] = {}
        self.rows: list[Row] = []

    def add(self, more: list[str]) -> None:
        """Add texts batch by batch, and record how many a second each takes."""
        size = len(self.held) + len(more)
        with_vectors = size <= VECTORS_MOST
        vectors = [static_vectors(batch) for batch in _batches(more)] if with_vectors else []
        ways: dict[str, Callable[[], Any]] = {
            "ours": lambda: [
                self.memory.add(batch, source=f"source {len(self.held) // BATCH + place}")
                for place, batch in enumerate(_batches(more))
            ],
            "FTS5": lambda: [self.fts5.add(batch) for batch in _batches(more)],
        }
        if (chroma := self.chroma) is not None and size <= CHROMA_MOST:
            ways["Chroma"] = lambda: [chroma.add(batch) for batch in _batches(more)]
        if with_vectors:
            ways["usearch"] = lambda: [self.usearch.add(rows) for rows in vectors]
            ways["ours, with vectors"] = lambda: [
                self._add_own(batch, len(self.held) + BATCH * place)
                for place, batch in enumerate(_batches(more))
            ]
        for name, way in ways.items():
            self.per_second[name] = len(more) / _seconds(f"{name}: add {len(more):,}", way)
        settle = _seconds("ours: settle", self._settle)
        self.held += more
        self.vectors += vectors
        beside = "; ".join(
            f"{name} {self.per_second[name]:,.0f}" for name in ways if name != "ours"
        )
        self.rows.append(
            Row(
                f"add, {len(more):,} items until there are {size:,}",
                round(self.per_second["ours"]),
                "items/s",
                INGEST,
                more_is_better=True,
                beside=beside,
                limit=f"Batches of {BATCH:,}, each a transaction on the disk, secrets looked for; "
                f"the background indexed for {settle:.1f} s more",
            )
        )

    def _add_own(self, batch: Sequence[str], first: int) -> None:
        for row, item in enumerate(self.own.add(batch, source="own"), first):
            self.row_of.setdefault(item.handle, row)

    def _settle(self) -> None:
        """Build what the background would build, graphs too, and reopen."""
        for memory in (self.memory, self.own):
            memory._store.flush()  # type: ignore[attr-defined]
        self.memory.close()
        self.own.close()
        self.memory = Memory.open(self.file, namespace=NAMESPACE)
        self.own = self._open_own()

    def _open_own(self) -> Memory:
        embedder = Embedder(static_vectors, space=OWN_SPACE)
        return Memory.open(self._own_file, namespace=NAMESPACE, embedder=embedder)

    def measure(self) -> None:
        """Measure every row of this size."""
        size = len(self.held)
        asked = queries(self.held, ASKED)
        for query in asked[:20]:
            self.memory.search(query)
        self._search(size, asked)
        if size <= VECTORS_MOST:
            self._recall(size)
        self._singles(size, asked)
        self._settle()
        self._probe(size, asked[:ASKED_OF_PEERS])

    def _search(self, size: int, asked: Sequence[str]) -> None:
        ours = _spread(
            f"search among {size:,}", lambda query: self.memory.search(query, LIMIT), asked
        )
        few = asked[: ASKED_OF_PEERS if size <= VECTORS_MOST else ASKED_OF_PEERS // 8]
        peers = {"FTS5": _spread("FTS5", lambda query: self.fts5.search(query, LIMIT), few)}
        if size <= VECTORS_MOST:
            peers["usearch"] = _spread(
                "usearch", lambda query: self.usearch.search(static_vectors([query]), LIMIT), few
            )
        if (chroma := self.chroma) is not None and size <= CHROMA_MOST:
            peers["Chroma"] = _spread("Chroma", lambda query: chroma.search(query, LIMIT), few)
        beside = "; ".join(
            f"{name} {said} ({number(said.p99 / ours.p99)} x)" for name, said in peers.items()
        )
        way = (
            "The soft match on some hundreds of candidates is half of it; then every posting of "
            "every word, twice, and nine bytes an item to clear"
        )
        self.rows += [
            Row(
                f"search among {size:,}, p50",
                ours.p50,
                "ms",
                limit=f"On the processor {number(ours.busy_p50)}, p99 {number(ours.busy_p99)} ms; "
                "the rest waits for one",
            ),
            Row(
                f"search among {size:,}, p99",
                ours.p99,
                "ms",
                WANTED_MS.get(size),
                None,
                False,
                beside,
                way,
            ),
        ]
        others: tuple[Fusion, ...] = ("weighted", "reciprocal_rank")
        for name in others:
            search = partial(self.memory.search, limit=LIMIT, fusion=name)
            said = _spread(name, search, few)
            self.rows.append(Row(f"search among {size:,}, `{name}`, p99", said.p99, "ms"))

    def _recall(self, size: int) -> None:
        near = self.held[-RECALLED:]
        # Not the stored vectors themselves, which are nearest to themselves.
        rows = static_vectors([text[len(text) // 2 :] for text in near])
        by_text = min(
            _seconds("recall texts", lambda: self.memory.recall(near, NEIGHBOURS)) for _ in "12345"
        )
        by_row = min(
            _seconds("recall rows", lambda: self.own.recall(rows, NEIGHBOURS)) for _ in "12345"
        )
        peer = min(
            _seconds("usearch", lambda: self.usearch.search(rows, NEIGHBOURS)) for _ in "12345"
        )
        want = RECALL_MS if size == RECALL_AT else None
        said = f"recall(k={NEIGHBOURS}) of {len(near):,}"
        self.rows += [
            Row(
                f"{said} vectors among {size:,}",
                by_row * 1e3,
                "ms",
                want,
                beside=f"usearch, {THREADS} threads, {number(peer * 1e3)} ms "
                f"({number(peer / by_row)} x)",
                limit="Products with the rows of the nearest inverted lists: half of what the "
                "processor's multipliers could do",
            ),
            Row(
                f"{said} texts among {size:,}",
                by_text * 1e3,
                "ms",
                want,
                limit="Embedding included, then as for vectors",
            ),
            *self._nearest(size, rows),
        ]

    def _nearest(self, size: int, rows: Rows) -> list[Row]:
        """Return rows of one vector at a time, and of how many of the nearest are found."""
        judged = size == RECALL_AT
        one = _spread("recall one", lambda row: self.own.recall(row[None], NEIGHBOURS), rows)
        peer = _spread("usearch, one", lambda row: self.usearch.search(row[None], NEIGHBOURS), rows)
        among = np.concatenate(self.vectors)
        asked = rows[:EXACT]
        scanned = _seconds("exact scan", lambda: _strict(asked, among, []))
        ours = [
            [self.row_of[hit.handle] for hit in hits] for hits in self.own.recall(asked, NEIGHBOURS)
        ]
        theirs = self.usearch.search(asked, NEIGHBOURS)
        return [
            Row(
                f"recall(k={NEIGHBOURS}) of one vector among {size:,}, p99",
                one.p99,
                "ms",
                SINGLE_MS if judged else None,
                beside=f"p50 {number(one.p50)}; usearch {peer} ({number(peer.p99 / one.p99)} x)",
                limit="Products with the rows of the nearest inverted lists",
            ),
            Row(
                f"strict recall@{NEIGHBOURS} of vectors among {size:,}",
                _strict(asked, among, ours),
                "",
                STRICT if judged else None,
                more_is_better=True,
                beside=f"usearch {_strict(asked, among, theirs):.3f}; an exact scan (numpy) 1.000 "
                f"in {number(scanned * 1e3 * RECALLED / EXACT)} ms for {RECALLED:,}",
                limit="Most of what is missed is in lists that are not looked into; "
                "bytes hide 0.02",
            ),
        ]

    def _singles(self, size: int, asked: Sequence[str]) -> None:
        fresh = [
            f"{text} Noted as number {place}." for place, text in enumerate(self.held[:SINGLES])
        ]
        single = _spread("add one", lambda text: self.memory.add([text], source="single"), fresh)
        peer = _spread("FTS5", lambda text: self.fts5.add([text]), fresh)
        words = iter(asked)

        def add_and_find(text: str) -> None:
            self.memory.add([f"{text} Said again."], source="single")
            before = time.perf_counter()
            self.memory.search(next(words))
            after.append(time.perf_counter() - before)

        after: list[float] = []
        _spread("add one, search", add_and_find, fresh)
        self.rows += [
            Row(f"add of one item among {size:,}, p50", single.p50, "ms", beside=f"FTS5 {peer}"),
            Row(f"add of one item among {size:,}, p99", single.p99, "ms", limit="The disk's sync"),
            Row(f"search right after an add, among {size:,}, p99", _percentiles(after)[1], "ms"),
        ]

    def _probe(self, size: int, asked: Sequence[str]) -> None:
        said = probe(self.file, NAMESPACE, asked)
        stats = self.memory.stats()
        held = stats.items
        chars = sum(map(len, self.held)) / len(self.held)
        peers = [f"FTS5 {self.fts5.size() / size:,.0f} bytes"]
        if self.chroma is not None and size <= CHROMA_MOST:
            peers.append(f"Chroma {self.chroma.size() / size:,.0f} bytes")
        disk = (stats.store_bytes + stats.index_bytes) / held
        self.rows += [
            Row(f"open among {size:,}, files out of the page cache", said["open_ms"], "ms"),
            Row(
                f"the first search after opening, among {size:,}",
                said["first_search_ms"],
                "ms",
                limit="The index files are read from the disk and their checksums compared",
            ),
            Row(
                f"on disk per item, {chars:.0f} characters each, {size:,}",
                disk,
                "bytes",
                beside="; ".join(peers),
                limit=f"{stats.store_bytes / held:,.0f} are the store's file, "
                f"{stats.index_bytes / held:,.0f} the index",
            ),
            Row(
                f"in memory per item, {size:,}, after {len(asked)} searches",
                said["own_bytes"] / held,
                "bytes",
                beside=f"and {said['mapped_bytes'] / held:,.0f} of mapped files, which the kernel "
                "may take back",
            ),
        ]

    def close(self) -> None:
        """Close the files."""
        self.memory.close()
        self.own.close()
        self.fts5.close()


def measure(sizes: Sequence[int]) -> Part:
    """Measure at every size, the smallest first."""
    started = time.perf_counter()
    coming = texts(sizes[-1])
    with tempfile.TemporaryDirectory() as folder:
        grown = Grown(Path(folder))
        for size in sizes:
            grown.add([next(coming) for _ in range(size - len(grown.held))])
            grown.measure()
        grown.close()
    missing = [
        Row(f"search among {size:,}, p99", None, "ms", want, limit="`--items` left it out")
        for size, want in WANTED_MS.items()
        if size not in sizes
    ]
    about = (
        "One store from Python, as it comes: built-in embedder, redaction, `synchronous=FULL`. "
        "Items of 5 to 200 words, sentences and lines of code with names of which new ones keep "
        f"coming; {ASKED:,} different questions about them, {LIMIT} hits each, the embedding of "
        "the question included, one thread asks. Peers: FTS5 (SQLite, Porter's stems, any word, as "
        "durable), usearch (f16; vectors only), Chroma (local); the vectors of all are the "
        f"built-in model's; p50 / p99 of {ASKED_OF_PEERS}. "
        f"{time.perf_counter() - started:.0f} s in all."
    )
    return Part("Memory: how fast", about, [*grown.rows, *missing])


def _batches(items: Sequence[str]) -> Iterable[Sequence[str]]:
    return (items[start : start + BATCH] for start in range(0, len(items), BATCH))


def _strict(asked: Rows, among: Rows, found: Sequence[Sequence[int]]) -> float:
    """Return the share of each row's true nearest that are among the rows found.

    Equal texts have equal vectors: what is as near as the last of the nearest is one of them.
    """
    cosines = asked @ among.T
    least = np.partition(cosines, -NEIGHBOURS, axis=1)[:, -NEIGHBOURS] - ROUNDING
    right = sum(
        int(np.sum(cosines[row, list(indices)] >= least[row])) for row, indices in enumerate(found)
    )
    return right / (NEIGHBOURS * len(asked))


def _spread(name: str, call: Callable[[Any], Any], arguments: Iterable[Any]) -> Spread:
    taken, busy = [], []
    for argument in arguments:
        before, busy_before = time.perf_counter(), time.thread_time()
        call(argument)
        taken.append(time.perf_counter() - before)
        busy.append(time.thread_time() - busy_before)
    said = Spread(*_percentiles(taken), *_percentiles(busy))
    print(
        f"  {name}: {said}, busy {said.busy_p50:.2f} / {said.busy_p99:.2f}",
        file=sys.stderr,
    )
    return said


def _percentiles(seconds: Sequence[float]) -> tuple[float, float]:
    p50, p99 = np.percentile(seconds, (50, 99)) * 1e3
    return float(p50), float(p99)


def _seconds(name: str, call: Callable[[], Any]) -> float:
    before = time.perf_counter()
    call()
    taken = time.perf_counter() - before
    print(f"  {name}: {taken:.3f} s", file=sys.stderr, flush=True)
    return taken


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--items",
        type=int,
        nargs="+",
        default=SIZE.memory_items,
        help="sizes to measure at",
    )
    print(measure(sorted(parser.parse_args().items)).to_json())
