"""Test doubles of the embedding tests.

Clock()        a clock that a test moves
Counting(f)    an embedder that records the texts it gets
lengths        an embedder whose vectors depend only on the text
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now

    def pass_(self, seconds: float) -> None:
        self.now += seconds


def lengths(texts: list[str]) -> list[list[float]]:
    """Return a direction for each text, from its length and its first letter."""
    return [[1.0 + len(text), 1.0 + ord(text[:1] or " ") % 7, 1.0] for text in texts]


class Counting:
    """Records the texts it gets, and answers as `function` does."""

    def __init__(self, function: Callable[[list[str]], Any] = lengths) -> None:
        self.function = function
        self.batches: list[list[str]] = []

    def __call__(self, texts: list[str]) -> Any:
        self.batches.append(texts)
        return self.function(texts)

    @property
    def texts(self) -> list[str]:
        return [text for batch in self.batches for text in batch]


class Tensor:
    """A tensor as in torch: an array only once it is detached and on the CPU."""

    def __init__(self, rows: Any, ready: int = 0) -> None:
        self.rows, self.ready = rows, ready

    def detach(self) -> Tensor:
        return Tensor(self.rows, self.ready + 1)

    def cpu(self) -> Tensor:
        return Tensor(self.rows, self.ready + 1)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        import numpy as np

        if self.ready < 2:
            raise TypeError("can't convert a device tensor that requires grad")
        return np.asarray(self.rows, dtype=dtype)
