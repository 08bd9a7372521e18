"""Embedding through the cache: each text once, valid rows only, and no exception."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from rehydrate import Embedder
from rehydrate.embedding.choice import ask
from tests.embedding.doubles import Counting, lengths

NUMBERS = itertools.count()


class Fixed:
    """A model that answers with these rows."""

    def __init__(self, rows: Any, space: str = "") -> None:
        self.space = space or f"fixed {next(NUMBERS)}"
        self.rows = rows
        self.asked: list[list[str]] = []

    def embed(self, texts: Sequence[str], *, deadline: float | None = None) -> Any:
        self.asked.append(list(texts))
        if isinstance(self.rows, Exception):
            raise self.rows
        return self.rows[: len(texts)]


def test_a_text_that_is_known_is_not_asked_for_again():
    asked = Counting()
    embedder = Embedder(asked)
    first = ask(embedder, ["a", "bb"])
    second = ask(embedder, ["bb", "ccc", "a"])
    assert asked.batches == [["a", "bb"], ["ccc"]]
    assert second.rows[2].tolist() == first.rows[0].tolist()
    assert ask(embedder, ["a"], deadline=0.0).rows is not None
    assert len(asked.batches) == 2


def test_embedders_of_one_named_space_share_what_is_known():
    asked = Counting()
    ask(Embedder(lengths, space="a model of test_ask"), ["a"])
    assert ask(Embedder(asked, space="a model of test_ask"), ["a"]).rows is not None
    assert asked.batches == []


def test_a_row_that_was_not_reached_is_asked_for_the_next_time():
    model = Fixed(np.array([[1.0, 0.0], [0.0, 0.0]]))
    assert ask(model, ["a", "b"]).rows.tolist() == [[1, 0], [0, 0]]
    model.rows = np.array([[0.0, 1.0]])
    assert ask(model, ["a", "b"]).rows.tolist() == [[1, 0], [0, 1]]
    assert model.asked == [["a", "b"], ["b"]]


@pytest.mark.parametrize(
    "rows",
    [OSError("gone"), np.ones(3), np.ones((1, 2)), [[object()]] * 2, "text"],
    ids=["raises", "flat", "too few", "no numbers", "text"],
)
def test_a_model_that_fails_is_an_attempt_without_rows(rows: Any):
    attempt = ask(Fixed(rows), ["a", "b"])
    assert attempt.rows is None
    assert "Error" in attempt.troubles[0]


def test_a_model_whose_every_row_is_zero_gave_nothing():
    assert ask(Fixed(np.zeros((2, 3))), ["a", "b"]).rows is None


def test_a_cached_vector_of_another_length_is_asked_for_again():
    def embedder(dim: int) -> Embedder:
        return Embedder(lambda texts: np.ones((len(texts), dim)), space="of-two-lengths")

    assert ask(embedder(2), ["one", "two"]).rows is not None
    for _ in range(2):
        rows, troubles = ask(embedder(3), ["one", "three"])
        assert rows is not None
        assert rows.shape == (2, 3)
        assert rows.any(axis=1).all()
        assert troubles == ()
