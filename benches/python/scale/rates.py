"""What one call costs, measured: calls of stored threads, searches and additions, transcripts."""

from __future__ import annotations

import gc
import itertools
import json
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from benches.python.inputs import generated_session
from benches.python.memory_texts import queries, texts
from benches.python.resident import resident_bytes
from benches.python.scale.processes import Cost, Meter
from benches.python.scale.round_trips import distant
from rehydrate import Budget, Memory
from rehydrate.batch import compact_batch
from rehydrate.context import BackgroundCompaction, Context, Threads
from rehydrate.memory import MemoryItem, MemoryLimits

BUDGET = Budget(soft_tokens=24_000, hard_tokens=48_000)
UNLIMITED = MemoryLimits(max_items=None, max_bytes=None)
OWN_ITEMS = 1_000
"""Memories of one user."""
TEAM_ITEMS = 100_000
"""Memories of a team, in one namespace."""
_FAR_SECONDS = 0.03


class Taken:
    """Milliseconds of each call: of this process's processor time, and on the clock."""

    def __init__(self) -> None:
        """Start with none."""
        self.apps: list[float] = []
        self.walls: list[float] = []

    def time(self, call: Callable[[], object]) -> None:
        """Make a call."""
        began, spent = time.perf_counter(), time.process_time()
        call()
        self.apps.append((time.process_time() - spent) * 1e3)
        self.walls.append((time.perf_counter() - began) * 1e3)


class Rate(NamedTuple):
    """What one call costs, on average; the last two are of each call."""

    name: str
    app_ms: float
    """Processor time of the process that calls."""
    server_ms: float
    """Processor time of the server's processes."""
    wal_bytes: float
    disk_bytes: float
    apps_ms: tuple[float, ...]
    walls_ms: tuple[float, ...]

    @classmethod
    def of(cls, name: str, cost: Cost, taken: Taken, calls: int | None = None) -> Rate:
        """Divide by the number of calls, or of what each of them did."""
        calls = calls or len(taken.walls)
        return cls(
            name,
            cost.app_seconds * 1e3 / calls,
            cost.server_seconds * 1e3 / calls,
            cost.wal_bytes / calls,
            cost.disk_bytes / calls,
            tuple(taken.apps),
            tuple(taken.walls),
        )


class Sizes(NamedTuple):
    """Bytes of memory in the process, and what Python does about them."""

    context: float
    """A live context, its share of the caches included."""
    collection_ms: float
    """Its share of a full garbage collection, which stops the process."""
    held_item: float
    """A memory in an index that the process holds."""


class Rates(NamedTuple):
    """All that the plan and the simulation are made from."""

    call: Rate
    """A prompt of a live thread, with the entries added before it."""
    reopen: Rate
    """A stored thread, opened again."""
    load: Rate
    """The first search of a user's memory in a process: its index is made."""
    search: Rate
    """A search by an index in the process."""
    far_search: Rate
    """A search of a team's memory by the server's candidates."""
    add: Rate
    """A memory added, in batches of a hundred."""
    sizes: Sizes
    trips: float
    """Round trips to the server that a call waits for."""
    transcripts: dict[int, float]
    """By bytes of a transcript: transcripts a second of one core."""


def measure(url: str, *, threads: int, units: int, users: int) -> Rates:
    """Measure all of it on the server of this URL."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        meter = Meter(connection)
        call, reopen, context_bytes, collection_ms = _threads(url, meter, threads, units)
        add, load, search, held_item = _own_memories(url, meter, users)
        far_search = _team_memory(url, meter, connection)
    sizes = Sizes(context_bytes, collection_ms, held_item)
    rates = {size: _transcripts(size) for size in (4_000, 12_000, 30_000, 100_000, 500_000)}
    return Rates(call, reopen, load, search, far_search, add, sizes, _trips(url), rates)


def _threads(url: str, meter: Meter, count: int, units: int) -> tuple[Rate, Rate, float, float]:
    """Threads whose agents work in turn: each entry is added, each answer has its prompt."""
    with Threads.open(url, namespace="scale", durability="turn") as stored:

        def opened(number: int) -> Context:
            return Context(
                threads=stored,
                thread=f"t-{number}",
                budget=BUDGET,
                background=BackgroundCompaction(),
            )

        sessions = [generated_session(units, units * 2_000, number=n) for n in range(count)]
        opened(count).prompt("Hello.")  # tables and models are made by the first
        empty = _collection_ms()
        before = resident_bytes()
        contexts = [opened(number) for number in range(count)]
        calls = Taken()
        with meter:
            for step in range(max(map(len, sessions))):
                for context, session in zip(contexts, sessions, strict=True):
                    if step < len(session):
                        _step(context, session, step, calls)
        call = Rate.of("call", meter.cost, calls)
        gc.collect()
        collection_ms = (_collection_ms() - empty) / count
        context_bytes = (resident_bytes() - before) / count
        for context in contexts:
            context.close()
        again = Taken()
        with meter:
            for number in range(count):
                again.time(lambda number=number: opened(number).prompt("Go on."))
        return call, Rate.of("reopen", meter.cost, again), context_bytes, collection_ms


def _collection_ms() -> float:
    began = time.process_time()
    gc.collect()
    return (time.process_time() - began) * 1e3


def _step(context: Context, session: list[Any], step: int, taken: Taken) -> None:
    entry = session[step]
    if entry["role"] == "assistant":
        context.add(entry)
        return

    def call() -> None:
        context.add(entry)
        context.prompt()

    taken.time(call)


def _own_memories(url: str, meter: Meter, users: int) -> tuple[Rate, Rate, Rate, float]:
    """Memories of many users, each with an index in the process once it is asked."""
    options: dict[str, Any] = {"limits": UNLIMITED, "redact": False}
    said, about = texts(users * OWN_ITEMS), list[str]()
    with Memory.open(url, namespace="nobody", **options) as memory:
        memory.add("a first memory")
        adds = Taken()
        with meter:
            for user in range(users):
                for found in _batches(said, OWN_ITEMS, 100):
                    about += found[:2]
                    items = [MemoryItem(text, source=f"notes/{user}") for text in found]
                    adds.time(lambda: memory.add(items, namespace=f"user-{user}"))  # noqa: B023
        add = Rate.of("add", meter.cost, adds, users * OWN_ITEMS)
        asked = queries(about, 20)
        memory.search(asked[0], namespace="user-0")
        gc.collect()
        before = resident_bytes()
        firsts = Taken()
        with meter:
            for user in range(1, users):
                firsts.time(lambda: memory.search(asked[0], namespace=f"user-{user}"))  # noqa: B023
        load = Rate.of("load", meter.cost, firsts)
        gc.collect()
        held_item = (resident_bytes() - before) / ((users - 1) * OWN_ITEMS)
        later = Taken()
        with meter:
            for query, user in itertools.product(asked, range(1, users)):
                later.time(lambda: memory.search(query, namespace=f"user-{user}"))  # noqa: B023
        return add, load, Rate.of("search", meter.cost, later), held_item


def _team_memory(url: str, meter: Meter, connection: Any) -> Rate:
    """Search one memory that is too large for an index in the process."""
    said, about = texts(TEAM_ITEMS, seed=9), list[str]()
    with Memory.open(url, namespace="team", limits=UNLIMITED, redact=False, index_bytes=1) as team:
        for number, found in enumerate(_batches(said, TEAM_ITEMS, 1_000)):
            about += found[::100]
            team.add([MemoryItem(text, source=f"source {number}") for text in found])
        connection.execute("VACUUM ANALYZE memory_chunks")
        asked, searches = queries(about, 200), Taken()
        team.search(asked[0])
        with meter:
            for query in asked:
                searches.time(lambda: team.search(query))  # noqa: B023
        return Rate.of("far search", meter.cost, searches)


def _trips(url: str) -> float:
    """Return how often a call waits for the network: what it takes longer where that is slow."""
    quickest = []
    for seconds in (0.0, _FAR_SECONDS):
        with (
            distant(url, seconds) as there,
            Threads.open(there, namespace="far", durability="turn") as stored,
        ):
            stored.list()  # a connection
            with Context(threads=stored, thread=f"far-{seconds}") as context:
                calls = Taken()
                for number in range(20):
                    calls.time(lambda: context.prompt(f"Question {number}"))  # noqa: B023
                    context.add({"role": "assistant", "content": f"Answer {number}"})
                quickest.append(min(calls.walls))
    return (quickest[1] - quickest[0]) / 1e3 / _FAR_SECONDS


def _transcripts(size_bytes: int) -> float:
    import pyarrow as pa

    rows = max(20, min(1_000, 20_000_000 // size_bytes))
    units = max(4, size_bytes // 1_000)
    sessions = [generated_session(units, size_bytes, number=5_000 + row) for row in range(rows)]
    table = pa.table({"id": range(rows), "messages": [json.dumps(each) for each in sessions]})
    began = time.process_time()
    compact_batch(table, threads=1, messages=True)
    return rows / (time.process_time() - began)


def _batches(said: Iterator[str], count: int, size: int) -> Iterator[list[str]]:
    for start in range(0, count, size):
        yield list(itertools.islice(said, min(size, count - start)))
