"""Fixtures: a memory over each backend, the file, PostgreSQL, the plain reference store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rehydrate import Memory
from tests.memory.plain import PlainStore
from tests.postgres_server import borrow_database, give_back


@pytest.fixture(params=["plain", "local", "postgres"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., Memory]]:
    """Return a function that opens new, empty memories; they are closed afterwards."""
    memories: list[Memory] = []
    databases: list[str] = []
    if request.param == "postgres":
        server: str = request.getfixturevalue("postgres_server")

    def open_one(**options: Any) -> Memory:
        if request.param == "plain":
            memory = Memory(PlainStore(), **options)
        elif request.param == "postgres":
            databases.append(borrow_database(server))
            memory = Memory.open(databases[-1], **options)
        else:
            memory = Memory.open(tmp_path / f"memory{len(memories)}.db", **options)
        memories.append(memory)
        return memory

    yield open_one
    for memory in memories:
        memory.close()
    for database in databases:
        give_back(database)


@pytest.fixture
def memory(opened: Callable[..., Memory]) -> Memory:
    """A memory bound to the namespace "alice"."""
    return opened(namespace="alice")
