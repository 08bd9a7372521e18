"""A namespace's model may be changed: its vectors are dropped, and another model's are added."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rehydrate import Embedder, Memory
from rehydrate.errors import InvalidArgumentError
from tests.memory.plain import PlainStore

TEXTS = ["the violin costs eight hundred", "staging listens on port 8443", "Anna prefers tea"]


def model(space: str, dimensions: int) -> Embedder:
    """Return a model that embeds by the letters of a text, so that every text has a vector."""

    def embed(texts: list[str]) -> np.ndarray:
        rows = np.zeros((len(texts), dimensions), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            for letter in text.encode():
                row[letter % dimensions] += 1
        return rows

    return Embedder(embed, space=space)


def reported(memory: Memory) -> list[tuple[str, str, object]]:
    """Return an item's data without its vector and its number of uses."""
    return [(item.handle, item.text, item.created) for item in memory.list(newest_first=False)]


def test_another_model_takes_over_and_nothing_else_changes(tmp_path: Path):
    path = tmp_path / "memory.db"
    with Memory.open(path, namespace="a", embedder=model("old", 16)) as memory:
        memory.add(TEXTS)
        memory.add(TEXTS, namespace="b")
        before = reported(memory)
    # As many dimensions: only the name differs.
    with Memory.open(path, namespace="a", embedder=model("new", 16)) as memory:
        memory.search("violin")
        assert "drop_vectors()" in memory.degraded[0]
        held = memory.stats().held_bytes
        assert memory.drop_vectors() == len(TEXTS)
        stats = memory.stats()
        assert (stats.vectors, stats.vector_space) == (0, None)
        assert stats.held_bytes == held - len(TEXTS) * 16 * 4
        assert memory.search("violin", 1)[0].item.text == TEXTS[0]
        assert memory.rebuild() == len(TEXTS)
        stats = memory.stats()
        assert (stats.vectors, stats.vector_space, stats.held_bytes) == (len(TEXTS), "new", held)
        for text in TEXTS:
            assert float(memory.recall([text], 1)[0][0]) == pytest.approx(1, abs=0.01)
        assert reported(memory) == before
        assert memory.stats(namespace="b").vector_space == "old"
        assert memory.verify().ok
    with Memory.open(path, namespace="a") as memory:
        assert memory.drop_vectors() == len(TEXTS)
        assert memory.drop_vectors() == 0
        assert memory.search("violin", 1)[0].item.text == TEXTS[0]


def test_a_store_without_it_says_what_to_do_instead():
    with pytest.raises(
        InvalidArgumentError, match="export_items, purge and import_items do the same"
    ):
        Memory(PlainStore(), namespace="a").drop_vectors()
