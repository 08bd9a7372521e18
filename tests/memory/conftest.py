"""Fixtures: a memory over each backend, the file and the plain reference store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rehydrate import Memory
from tests.memory.plain import PlainStore


@pytest.fixture(params=["plain", "local"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., Memory]]:
    """Return a function that opens new, empty memories; they are closed afterwards."""
    memories: list[Memory] = []

    def open_one(**options: Any) -> Memory:
        if request.param == "plain":
            memory = Memory(PlainStore(), **options)
        else:
            memory = Memory.open(tmp_path / f"memory{len(memories)}.db", **options)
        memories.append(memory)
        return memory

    yield open_one
    for memory in memories:
        memory.close()


@pytest.fixture
def memory(opened: Callable[..., Memory]) -> Memory:
    """A memory bound to the namespace "alice"."""
    return opened(namespace="alice")
