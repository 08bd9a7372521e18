"""Random operations of tenants with nearly equal items: no tenant sees another's item."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from rehydrate import Memory
from rehydrate.errors import UnknownHandleError
from rehydrate.memory import MemoryItem
from tests.memory.plain import is_meant
from tests.memory.stress.truth import VOCABULARY

TENANTS = ("acme", "Acme", "acme ", "acme/sub", "ac'me\" OR 1=1 --", "עברית", "a\u0301cme", "ácme")
"""Names that a careless comparison would mix up."""
START = datetime(2024, 1, 1, tzinfo=UTC)
KINDS, SOURCES, SESSIONS = ("note", "fact", "rule"), ("s0", "s1", "s2", "s3"), ("", "x", "y")
WORDS = VOCABULARY[:60]


def new_item(tenant: int, chance: random.Random) -> MemoryItem:
    """Return an item with one of a few texts; its tool, which no search reads, names the tenant."""
    text = " ".join(chance.choices(WORDS, k=4)) + chance.choice(
        ["", " the shared sentence", " מילה"]
    )
    return MemoryItem(
        text,
        kind=chance.choice(KINDS),
        tier=chance.choice(["hot", "warm", "cold"]),
        source=chance.choice(SOURCES),
        thread=chance.choice(SESSIONS),
        tool=f"tenant {tenant}",
        trust=chance.choice([0.0, 0.3, 0.7, 1.0]),
        time=START + timedelta(days=chance.randrange(100)),
    )


def filters(chance: random.Random) -> Any:
    """Return a random subset of the filters."""
    every = {
        "kinds": chance.sample(KINDS, 2),
        "sources": chance.sample(SOURCES, 2),
        "threads": chance.sample(SESSIONS, 2),
        "tiers": chance.sample(["hot", "warm", "cold"], 2),
        "after": START + timedelta(days=chance.randrange(50)),
        "before": START + timedelta(days=chance.randrange(50, 100)),
        "min_trust": chance.choice([0.3, 0.5, 0.7]),
    }
    return {name: value for name, value in every.items() if chance.random() < 0.25}


def query(chance: random.Random) -> str:
    return chance.choice(
        [
            " ".join(chance.choices(WORDS, k=2)),
            "the shared sentence",
            chance.choice(WORDS)[:2],
            chance.choice(WORDS)[1:5],
            "tenant 3",
            "מילה",
            chance.choice(TENANTS),
        ]
    )


def check(
    memory: Memory, place: int, held: list[dict[str, MemoryItem]], chance: random.Random
) -> None:
    """Run one random query of a tenant."""
    mine, tenant = held[place], TENANTS[place]
    other = chance.choice([n for n in range(len(TENANTS)) if n != place])
    fusion = chance.choice([None, "calibrated", "weighted", "reciprocal_rank", (0.0, 0.0, 1.0)])
    match chance.choices(["search", "recall", "get", "list", "write"], [5, 2, 2, 2, 1])[0]:
        case "search":
            wanted = filters(chance)
            limit = chance.choice([1, 5, 200])
            hits = memory.search(query(chance), limit, namespace=tenant, fusion=fusion, **wanted)
            assert len(hits) <= limit
            items = [hit.item for hit in hits]
            assert len({item.handle for item in items}) == len(items)
            _are_own(items, place, mine)
            assert all(is_meant(item, wanted) for item in items), f"not meant by {wanted}"
        case "recall":
            rows = memory.recall([query(chance), query(chance)], 5, namespace=tenant)
            near = {one.handle for row in rows for one in row}
            assert near <= mine.keys(), f"{near - mine.keys()} are not of {tenant!r}"
        case "get":
            foreign = [handle for handle in held[other] if handle not in mine]
            for handle in chance.sample(foreign, min(3, len(foreign))):
                with suppress(UnknownHandleError):
                    memory.get(handle, namespace=tenant)
                    raise AssertionError(f"{tenant!r} gets {handle} of {TENANTS[other]!r}")
                assert memory.forget(handle, namespace=tenant) == 0
                assert memory.set_tier(handle, "hot", namespace=tenant) == 0
            for handle in chance.sample(sorted(mine), min(3, len(mine))):
                _are_own([memory.get(handle, namespace=tenant)], place, mine)
        case "list":
            wanted = filters(chance)
            items = memory.list(namespace=tenant, limit=None, **wanted)
            _are_own(items, place, mine)
            meant = {handle for handle, item in mine.items() if is_meant(item, wanted)}
            assert {item.handle for item in items} == meant
        case "write":
            _write(memory, place, mine, chance)


def _write(memory: Memory, place: int, mine: dict[str, MemoryItem], chance: random.Random) -> None:
    tenant = TENANTS[place]
    if chance.random() < 0.3 and mine:
        if chance.random() < 0.2:
            assert memory.purge(namespace=tenant, everything=True) == len(mine)
            mine.clear()
        else:
            named = {chance.choice(["source", "thread"]): "s1" if chance.random() < 0.7 else "x"}
            ((field, value),) = named.items()
            gone = [handle for handle, item in mine.items() if getattr(item, field) == value]
            assert memory.purge(namespace=tenant, **named) == len(gone)
            for handle in gone:
                del mine[handle]
    if len(mine) < 400:
        items = [new_item(place, chance) for _ in range(chance.choice([1, 20]))]
        for one, item in zip(memory.add(items, namespace=tenant), items, strict=True):
            mine.setdefault(one.handle, item)
    elif mine:
        some = chance.sample(sorted(mine), 5)
        assert memory.forget(some, namespace=tenant) == 5
        for handle in some:
            del mine[handle]


def _are_own(items: list[MemoryItem], place: int, mine: dict[str, MemoryItem]) -> None:
    for item in items:
        assert item.namespace == TENANTS[place], f"{item.handle} of {item.namespace!r}"
        assert item.tool == f"tenant {place}", f"{TENANTS[place]!r} sees an item of {item.tool}"
        assert item.handle in mine, f"{item.handle} was never added, or is purged"
        assert item.text == mine[item.handle].text


def run_trials(folder: Path, trials: int, seed: int, say: Callable[[str], None]) -> str:
    """Run all queries; return what was seen, in a line."""
    chance = random.Random(seed)
    held: list[dict[str, MemoryItem]] = [{} for _ in TENANTS]
    with Memory.open(folder / "memory.db") as memory:
        for place, tenant in enumerate(TENANTS):
            batch = [new_item(place, chance) for _ in range(300)]
            added = memory.add(batch, namespace=tenant)
            for one, item in zip(added, batch, strict=True):
                held[place].setdefault(one.handle, item)
        memory.rebuild()
        for trial in range(trials):
            try:
                check(memory, chance.randrange(len(TENANTS)), held, chance)
            except AssertionError as error:
                raise AssertionError(f"query {trial} (--seed {seed}): {error}") from error
            if trial % 1_000 == 999:
                say(f"{trial + 1} queries")
        for place, tenant in enumerate(TENANTS):
            assert memory.stats(namespace=tenant).items == len(held[place])
        report = memory.verify()
        assert report.ok, report.problems
    return f"{trials} queries of {len(TENANTS)} tenants: never an item of another one"
