"""A text that ends in a question ranks behind one that answers it."""

from __future__ import annotations

import pytest

from rehydrate import Memory

ANSWERS = "The harbour crane has got a green colour, they say."
ASKS = "What of the colour of the harbour crane?"


def first(memory: Memory, *texts: str) -> str:
    memory.add(list(texts), source="talk", namespace="harbour")
    (hit,) = memory.search("colour of the harbour crane", 1, namespace="harbour")
    return hit.item.text


@pytest.mark.parametrize("texts", [(ASKS, ANSWERS), (ANSWERS, ASKS)], ids=["before", "behind"])
def test_who_asks_comes_after_who_answers(tmp_path, texts: tuple[str, str]):
    with Memory.open(tmp_path / "m.db") as memory:
        assert first(memory, *texts) == ANSWERS


def test_without_the_question_mark_the_nearer_words_come_first(tmp_path):
    with Memory.open(tmp_path / "m.db") as memory:
        assert first(memory, ASKS.replace("?", "."), ANSWERS) == ASKS.replace("?", ".")
