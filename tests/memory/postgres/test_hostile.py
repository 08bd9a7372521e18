"""Hostile text in every argument: kept as it is or refused by name, and the tables stay whole."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rehydrate import Memory
from rehydrate.context import Threads
from rehydrate.errors import InvalidArgumentError, UnknownHandleError
from rehydrate.memory import MemoryItem, Vectors
from rehydrate.memory.postgres import PostgresStore
from tests.postgres_server import TABLES

psycopg = pytest.importorskip("psycopg")

HOSTILE = [
    "'; DROP TABLE memory_chunks; --",
    "x' OR '1'='1",
    "a NUL \0 in it",
    "lone \ud800 surrogate",
    "\x1a0000 as an escape \x1a",
    '%s %(namespace)s {braces} $1 \\ "double"',
    "& | ! <-> ( ) : * 'unbalanced",
    "no\nline\r\x1b[31m",
    "記憶 🧠 שלום",
]
FIELDS = ("kind", "source", "thread", "tool", "principal")


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_in_every_argument(text: str, postgres: str, opened: Callable[..., Memory]):
    memory = opened(namespace="a", redact=False, index_bytes=1)
    (guard,) = memory.add("an apple that stays")

    def tried(call: Callable[[], Any]) -> Any:
        """Return the result; None where the argument is refused by a typed error."""
        try:
            return call()
        except (InvalidArgumentError, UnknownHandleError):
            return None

    for field in FIELDS:
        item = tried(lambda: MemoryItem(f"in {field}", **{field: text}))  # noqa: B023
        if item is not None and (added := tried(lambda: memory.add(item))):  # noqa: B023
            assert getattr(memory.get(added[0].handle), field) == text
    for name in ("kinds", "sources", "threads"):
        for hit in tried(lambda: memory.search("in", 50, **{name: [text]})) or []:  # noqa: B023
            assert getattr(hit.item, name.removesuffix("s")) == text
    if found := tried(lambda: memory.add("with metadata", metadata={text: [text]})):
        assert memory.get(found[0].handle).metadata == {text: [text]}
    assert tried(lambda: memory.get(text)) is None
    assert not tried(lambda: memory.forget(text))
    tried(lambda: memory.link(guard.handle, text, guard.handle))
    tried(lambda: memory.search(text))
    tried(lambda: memory.recall([text]))
    assert tried(lambda: PostgresStore(postgres, language=text)) is None
    if tried(lambda: memory.add("elsewhere", namespace=text)):
        assert [item.text for item in memory.list(namespace=text)] == ["elsewhere"]
    with Threads.open(postgres, namespace="a") as threads:
        if tried(lambda: threads.native.append_records("a", text, 0, [(1, 1.0, text)])):
            assert [*threads.native.records("a", text)] == [(1, 1.0, text)]
    for field in ("source", "thread"):
        tried(lambda: memory.purge(**{field: text}))  # noqa: B023
    assert memory.get(guard.handle).text == "an apple that stays"
    assert memory.verify().ok
    with psycopg.connect(postgres) as connection:
        for table in TABLES:
            connection.execute(f"SELECT count(*) FROM {table}")


def test_a_query_of_megabytes_is_answered(opened: Callable[..., Memory]):
    memory = opened(namespace="a", index_bytes=1)
    memory.add(["the zebra enclosure", "the pangolin house"])
    draw = random.Random(1)
    words = [f"word{draw.randrange(10_000_000)}" for _ in range(200_000)]
    assert memory.search(" ".join(["zebra", *words]))[0].item.text == "the zebra enclosure"
    assert len(memory.recall([" ".join(["pangolin", *words])])) == 1


@pytest.mark.parametrize("space", ["a NUL \0 in it", "lone \ud800", "x" * 5_000])
def test_a_name_of_a_model_that_no_store_takes_is_refused(
    space: str, opened: Callable[..., Memory]
):
    memory = opened(namespace="a")
    vectors = Vectors(space, np.ones((1, 4), np.float32))
    with pytest.raises(InvalidArgumentError):
        memory.add("an apple", vectors=vectors)
    assert memory.list() == []
