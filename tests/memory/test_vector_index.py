"""A graph of usearch and inverted lists find the same; a graph is as safe as every index file."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rehydrate import Embedder, Memory
from rehydrate.errors import InvalidArgumentError
from rehydrate.memory import Vectors
from tests.stress.programs import run_python

NUMBER, DIM = 4_200, 24
"""A file of 4,096 vectors is the smallest with a graph."""
SPACE = "by number"


def rows_of(seed: int, number: int) -> Any:
    """Vectors of length 1 around 60 topics."""
    random = np.random.default_rng(seed)
    topics = np.random.default_rng(7).normal(size=(60, DIM))
    rows = topics[random.integers(60, size=number)] + 0.9 * random.normal(size=(number, DIM))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


STORED, ASKED = rows_of(1, NUMBER), rows_of(2, 200)


def by_number(texts: list[str]) -> Any:
    return STORED[[int(text.split()[1]) for text in texts]]


def open_memory(path: Path, vectors: Any) -> Memory:
    embedder = Embedder(by_number, space=SPACE)
    return Memory.open(path, namespace="a", embedder=embedder, vectors=vectors)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A memory whose one large file has graphs; tests only read it."""
    path = tmp_path_factory.mktemp("graph") / "memory.db"
    with open_memory(path, "usearch") as memory:
        memory.add([f"item {number}" for number in range(NUMBER)])
        memory.add(["item 5 of another tenant"], namespace="b")
        memory.rebuild()
    return path


@pytest.fixture
def memory(path: Path) -> Iterator[Memory]:
    with open_memory(path, "usearch") as memory:
        yield memory


def found(memory: Memory, asked: Any = ASKED) -> list[list[tuple[str, float]]]:
    return [[tuple(one) for one in row] for row in memory.recall(asked, 3)]


def numbers(memory: Memory, rows: list[list[tuple[str, float]]]) -> list[set[int]]:
    handles = {handle for row in rows for handle, _ in row}
    number = {handle: int(memory.get(handle).text.split()[1]) for handle in handles}
    return [{number[handle] for handle, _ in row} for row in rows]


def share_found(memory: Memory, kept: Any = slice(None)) -> float:
    """The share of the true three nearest among the `kept` that are found."""
    ids = np.arange(NUMBER)[kept]
    nearest = ids[np.argsort(-(ASKED @ STORED[ids].T), axis=1)[:, :3]]
    rows = numbers(memory, found(memory))
    hits = sum(len(row & {*map(int, true)}) for row, true in zip(rows, nearest, strict=True))
    return hits / nearest.size


def test_a_graph_finds_as_many_of_the_nearest_as_lists(path: Path):
    with open_memory(path, "usearch") as memory:
        graph = share_found(memory)
    with open_memory(path, "lists") as memory:
        assert share_found(memory) >= 0.9
    assert graph >= 0.9


def test_a_batch_is_many_single_questions_from_any_number_of_threads(memory: Memory):
    expected = found(memory)
    got: dict[int, Any] = {}

    def ask(first: int) -> None:
        got.update({at: found(memory, ASKED[at : at + 1])[0] for at in range(first, 200, 40)})

    # More than may walk at once.
    threads = [threading.Thread(target=ask, args=(first,)) for first in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [got[at] for at in range(200)] == expected


def test_what_is_forgotten_or_of_another_tenant_is_never_found(tmp_path: Path):
    with open_memory(tmp_path / "memory.db", "usearch") as memory:
        memory.add([f"item {number}" for number in range(NUMBER)])
        memory.add([f"item {number} of b" for number in range(0, NUMBER, 2)], namespace="b")
        memory.rebuild()
        items = {int(item.text.split()[1]): item.handle for item in memory.list(limit=NUMBER)}
        memory.forget([handle for number, handle in items.items() if number % 3])
        assert share_found(memory, slice(None, None, 3)) >= 0.9
        memory.forget([handle for number, handle in items.items() if number >= 90])
        assert {len(row) for row in found(memory)} == {3}
        assert max(max(row) for row in numbers(memory, found(memory))) < 90


def test_other_openings_take_the_graph_or_leave_it(path: Path, tmp_path: Path):
    with open_memory(path, "auto") as memory:
        small = found(memory)  # fewer vectors than from where a graph is quicker
    with open_memory(path, "lists") as memory:
        assert found(memory) == small
    other = tmp_path / "memory.db"
    with open_memory(other, "lists") as memory:
        memory.add([f"item {number}" for number in range(NUMBER)])
        memory.rebuild()
        before, bytes_before = found(memory), memory.stats().index_bytes
    with open_memory(other, "usearch") as memory:
        assert found(memory) == before, "until there is a graph"
        for _ in range(2_400):  # in the background
            if memory.stats().index_bytes > bytes_before:
                break
            time.sleep(0.05)
        assert memory.stats().index_bytes > bytes_before
        assert share_found(memory) >= 0.9


def test_a_damaged_graph_is_made_again(path: Path, tmp_path: Path):
    shutil.copytree(path.parent, tmp_path, dirs_exist_ok=True)
    path = tmp_path / path.name
    with open_memory(path, "usearch") as memory:
        expected = found(memory)
    for file in path.with_name("memory.db-index").glob("*.segment"):
        spoilt = bytearray(file.read_bytes())
        spoilt[-len(spoilt) // 3 :: 977] = b"\xff" * len(spoilt[-len(spoilt) // 3 :: 977])
        file.write_bytes(spoilt)
    with open_memory(path, "usearch") as memory:
        assert memory.verify().problems == ()
        memory.rebuild()
        assert found(memory) == expected


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_a_child_walks_a_graph_of_its_own(path: Path):
    ended = run_python(
        f"""
        import os, threading
        from pathlib import Path
        from tests.memory.test_vector_index import ASKED, found, open_memory

        memory = open_memory(Path({str(path)!r}), "usearch")
        expected, over = found(memory), threading.Event()

        def walk():
            while not over.is_set():
                assert found(memory) == expected

        threads = [threading.Thread(target=walk) for _ in range(2)]
        [thread.start() for thread in threads]
        for _ in range(8):
            child = os.fork()
            if not child:
                with open_memory(Path({str(path)!r}), "usearch") as own:
                    os._exit(0 if found(own) == expected else 1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        over.set()
        [thread.join() for thread in threads]
        print("done")
        """
    )
    assert ended.out.strip() == "done", ended.err


@pytest.mark.parametrize("vectors", ["hnsw", "list", None, 3, ""])
def test_another_index_is_refused_before_a_file_is_made(tmp_path: Path, vectors: Any):
    with pytest.raises(InvalidArgumentError, match="vectors is"):
        Memory.open(tmp_path / "memory.db", vectors=vectors)
    assert not list(tmp_path.iterdir())


def test_vectors_of_a_callers_own_are_walked_too(memory: Memory):
    assert memory.recall(ASKED[:3], 3) == memory.recall(
        ["a", "b", "c"], 3, vectors=Vectors(SPACE, ASKED[:3])
    )
