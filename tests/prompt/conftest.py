"""A memory with a few notes about servers, and a lunch, in it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from rehydrate import Memory
from rehydrate.memory import MemoryItem

PORTS = "The staging server listens on port 8443."
NOTES = (
    MemoryItem(PORTS, source="notes/servers.md", time=datetime(2026, 2, 17, tzinfo=UTC), trust=0.6),
    MemoryItem(
        "Production runs in Frankfurt on three machines.",
        source="notes/servers.md",
        time=datetime(2026, 2, 19, tzinfo=UTC),
    ),
    MemoryItem("Lunch was at noon.", source="diary", time=datetime(2026, 2, 19, 12, tzinfo=UTC)),
)


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    """Bound to the namespace "alice"."""
    with Memory.open(tmp_path / "memory.db", namespace="alice") as opened:
        opened.add(NOTES)
        yield opened
