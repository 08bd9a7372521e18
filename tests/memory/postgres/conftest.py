"""Fixtures of the tests that only PostgreSQL has: stores on one database, closed afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from rehydrate import Memory
from tests.postgres_server import borrow_database, drop_database, give_back, new_database


@pytest.fixture
def postgres(request: pytest.FixtureRequest, postgres_server: str) -> Iterator[str]:
    """The URL of a database without a row; where tests change more than rows, one of its own."""
    if request.path.stem in ("test_search", "test_hostile", "test_threads", "test_ui_messages"):
        url = borrow_database(postgres_server)
        yield url
        give_back(url)
        return
    url = new_database(postgres_server)
    yield url
    drop_database(url)


@pytest.fixture
def opened(postgres: str) -> Iterator[Callable[..., Memory]]:
    """Return a function that opens memories on one database."""
    memories: list[Memory] = []

    def open_one(url: str = postgres, **options: Any) -> Memory:
        memories.append(Memory.open(url, **options))
        return memories[-1]

    yield open_one
    for memory in memories:
        memory.close()
