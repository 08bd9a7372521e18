"""A query of one or two characters finds the same items as a scan of every text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from rehydrate import Memory

TEXTS = st.text(st.sampled_from("abAB12 .-#+>שלום記憶存のドé"), min_size=1, max_size=12)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    path: Path = tmp_path_factory.mktemp("short") / "memory.db"
    with Memory.open(path) as memory:
        yield memory


@settings(max_examples=60)
@given(texts=st.lists(TEXTS, min_size=1, max_size=12, unique=True), data=st.data())
def test_whatever_holds_the_characters_is_found(
    store: Memory, texts: list[str], data: st.DataObject
):
    memory = store.within("one")
    memory.purge(everything=True)
    memory.add(texts)
    text = data.draw(st.sampled_from(texts))
    start = data.draw(st.integers(0, len(text) - 1))
    query = text[start : start + data.draw(st.integers(1, 2))].strip()
    if query:
        found = {hit.item.text for hit in memory.search(query, 100)}
        assert {text for text in texts if query.lower() in text.lower()} <= found
