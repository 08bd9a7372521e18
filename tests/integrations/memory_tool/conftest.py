"""A memory, and the files that the memory tool keeps in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rehydrate import Memory
from rehydrate.integrations.memory_tool import MemoryFiles


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


@pytest.fixture
def memory(path: Path) -> Iterator[Memory]:
    with Memory.open(path, namespace="alice") as memory:
        yield memory


@pytest.fixture
def files(memory: Memory) -> MemoryFiles:
    return MemoryFiles(memory)
