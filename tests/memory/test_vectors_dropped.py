"""A namespace's model may be changed: its vectors are dropped, and another model's are added."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from rehydrate import Embedder, Memory
from rehydrate.errors import InvalidArgumentError
from rehydrate.memory import Vectors
from tests.memory.plain import PlainStore
from tests.postgres_server import borrow_database, give_back

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


@pytest.fixture(params=["local", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Return the path of a file, or the URL of a server."""
    if request.param == "local":
        yield str(tmp_path / "memory.db")
    else:
        url = borrow_database(request.getfixturevalue("postgres_server"))
        yield url
        give_back(url)


def answers(memory: Memory) -> list[object]:
    """Return what each call that takes vectors says of a memory with the first of the texts."""
    return [
        memory.add(TEXTS[0])[0].embedded,
        [hit.item.text for hit in memory.search("violin", 1)],
        [row[0].handle for row in memory.recall(["violin"], 1)] == [memory.list()[-1].handle],
    ]


@pytest.mark.parametrize("dimensions", [16, 8])
def test_a_model_that_another_memory_chose_meanwhile_fails_no_call(place: str, dimensions: int):
    with (
        Memory.open(place, namespace="a", embedder=model("one", 16)) as one,
        Memory.open(place, namespace="a", embedder=model("two", dimensions)) as two,
    ):
        assert one.search("violin") == one.recall(["violin"])[0] == []
        two.add(TEXTS)
        said = "its space is 'one', and namespace 'a' holds vectors of 'two'"
        assert answers(one)[1:] == [[TEXTS[0]], True]
        assert [said in trouble for trouble in one.degraded] == [True]
        assert not one.add("a fourth text")[0].embedded
        # Another memory changes the model: this one's fits now, and the other's does not.
        with Memory.open(place, namespace="a", embedder=model("one", 16)) as third:
            third.drop_vectors()
            assert third.rebuild() == 4
        assert one.recall(np.ones((1, 16), dtype=np.float32), 1) != [[]]
        assert one.add("a fifth text")[0].embedded
        assert two.degraded == ()
        assert answers(two)[1:] == [[TEXTS[0]], True]
        assert [trouble.split("'")[1] for trouble in two.degraded] == ["two"]
        assert two.rebuild() == 5
        # And once more: what was refused before is known, and the note is of today.
        one.drop_vectors()
        two.rebuild()
        assert (one.stats().vector_space, len(two.degraded)) == ("two", 1)
        assert answers(two)[1:] == [[TEXTS[0]], True]


def test_vectors_that_are_wrong_in_themselves_are_still_refused(place: str):
    with Memory.open(place, namespace="a", embedder=model("one", 16)) as memory:
        memory.add(TEXTS)
        with pytest.raises(InvalidArgumentError, match="4 components"):
            memory.recall(np.ones((1, 4), dtype=np.float32))
        for rows in (np.ones((4, 8), np.float32), np.full((2, 16), np.nan, np.float32)):
            with pytest.raises(InvalidArgumentError, match=r"a row for each|NaN or infinity"):
                memory.recall(TEXTS[:2], vectors=Vectors("one", rows))


def test_another_number_of_vectors_is_refused_with_both_numbers(place: str):
    said = r"vectors have shape \(2, 16\) for 3 texts; give a row for each"
    rows = Vectors("one", np.ones((2, 16), dtype=np.float32))
    with Memory.open(place, namespace="a", embedder=model("one", 16)) as memory:
        handles = [added.handle for added in memory.add(TEXTS)]
        store = memory._store
        for call in (
            lambda: memory.recall(["a", "b", "c"], vectors=rows),
            lambda: memory.add(["a", "b", "c"], vectors=rows),
            lambda: store.set_vectors(handles, rows, namespace="a"),
        ):
            with pytest.raises(InvalidArgumentError, match=said):
                call()


def test_a_store_without_it_says_what_to_do_instead():
    with pytest.raises(
        InvalidArgumentError, match="export_items, purge and import_items do the same"
    ):
        Memory(PlainStore(), namespace="a").drop_vectors()


def test_items_without_vectors_are_recalled_by_the_built_in_model(tmp_path: Path):
    path = tmp_path / "memory.db"
    with Memory.open(path, namespace="a") as memory:
        memory.add(TEXTS)
        expected = memory.recall(TEXTS, 2)
    with Memory.open(path, namespace="a", embedder=model("new", 16)) as memory:
        assert memory.recall(TEXTS, 2) == expected
        assert memory.recall([], 2) == []
        memory.rebuild()
        assert [row[0].handle for row in memory.recall(TEXTS, 2)] == [
            row[0].handle for row in expected
        ]


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_a_vector_that_is_not_finite_is_refused_and_empties_no_row(tmp_path: Path, number: float):
    with Memory.open(tmp_path / "m.db", namespace="a", embedder=model("m", 4)) as memory:
        memory.add(TEXTS)
        rows = np.ones((3, 4), np.float32)
        rows[1, 2] = number
        vectors = Vectors("m", rows)
        for call in (
            lambda: memory.recall(TEXTS, vectors=vectors),
            lambda: memory.recall(rows),
            lambda: memory.search("violin", vectors=Vectors("m", rows[1:2])),
            lambda: memory.add(TEXTS, source="s", vectors=vectors),
        ):
            with pytest.raises(InvalidArgumentError, match="zeros for no vector"):
                call()
        assert len(memory.list()) == len(TEXTS)
