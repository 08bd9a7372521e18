"""Odd values at the doors of a memory and of its file: a typed error, or an answer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rehydrate import Memory
from rehydrate._native import LocalStore
from rehydrate.errors import RehydrateError
from rehydrate.memory import MemoryItem, MemoryLimits, Vectors

ODD: list[Any] = [
    *(None, True, -1, 10**30, 1.5, float("nan"), "", "\ud800", b"x", [3], ["\ud800"], {}, object()),
    *(datetime(2024, 1, 1), datetime.max.replace(tzinfo=UTC), (1e300, 1, 1)),
    *(np.ones(3), Vectors("s", 3), Vectors("\ud800", np.ones((1, 3), np.float32))),
    Vectors("s", np.full((1, 3), np.nan, np.float32)),
]


@pytest.fixture(params=["memory", "store"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    path = tmp_path / "m.db"
    opened: Any = (
        Memory.open(path)
        if request.param == "memory"
        else LocalStore(path, limits=MemoryLimits(max_age_days=None))
    )
    opened.add([MemoryItem("The port is 8443.", source="ports.md")], namespace="n")
    yield opened
    opened.close()


@pytest.mark.parametrize("odd", ODD, ids=lambda value: type(value).__name__)
def test_no_odd_value_raises_anything_but_a_typed_error(store: Any, odd: Any) -> None:
    port = "The port is 8443."
    calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
        ("add", ([MemoryItem(port, source="ports.md")],), {"namespace": odd}),
        ("add", ([odd],), {}),
        ("add", ([MemoryItem(port, source="ports.md")],), {"vectors": odd}),
        ("get", (odd,), {}),
        ("list", (), {"limit": odd}),
        ("search", (odd,), {}),
        ("search", (port, odd), {}),
        ("search", (port,), {"fusion": odd}),
        ("search", (port,), {"vectors": odd}),
        *[("search", (port,), {name: odd}) for name in ("tiers", "sources", "after", "min_trust")],
        *[("list", (), {name: odd}) for name in ("kinds", "threads", "before", "unknown")],
        ("recall", ([port], odd), {}),
        ("recall", ([port],), {"vectors": odd}),
        ("forget", (odd,), {}),
        ("set_tier", (odd, "hot"), {}),
        ("set_tier", ("mem_1", odd), {}),
        ("link", (odd, "supersedes", "mem_1"), {}),
        ("purge", (), {"source": odd}),
        ("stats", (), {"namespace": odd}),
    ]
    for name, arguments, options in calls:
        with suppress(RehydrateError):
            getattr(store, name)(*arguments, **{"namespace": "n", **options})
    assert [hit.item.text for hit in store.search("port", namespace="n")] == [port]


@pytest.mark.parametrize("odd", ODD, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("option", ["limits", "index_bytes", "vectors", "read_only"])
def test_no_odd_option_raises_anything_but_a_typed_error(
    tmp_path: Path, option: str, odd: Any
) -> None:
    doors: list[Any] = [Memory.open, LocalStore]
    for door in doors:
        options: dict[str, Any] = {"limits": MemoryLimits(), option: odd}
        with suppress(RehydrateError):
            door(tmp_path / "m.db", **options).close()
