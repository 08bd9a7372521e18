"""The forward pass in plain numpy and float64: what the graphs are compared with."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from rehydrate.embedding.convert.architecture import Architecture
from rehydrate.embedding.convert.modules import Pooling
from rehydrate.embedding.convert.weights import Weights

Array64: TypeAlias = NDArray[np.float64]


class Reference:
    """A BERT encoder with pooling, one text at a time, as the papers write it."""

    def __init__(self, architecture: Architecture, weights: Weights, pooling: Pooling) -> None:
        """Take the weights in double precision."""
        self.architecture = architecture
        self.pooling = pooling
        self.weights = weights

    def embed(self, ids: Sequence[int]) -> Array64:
        """The vector of one text, of length 1."""
        x = self._row("word_embeddings", list(ids)) + self._row(
            "position_embeddings", slice(len(ids))
        )
        x = self._norm("embeddings.LayerNorm", x + self._row("token_type_embeddings", 0))
        for layer in range(self.architecture.layers):
            name = f"encoder.layer.{layer}"
            attended = self._attend(f"{name}.attention.self", x)
            attended = self._linear(f"{name}.attention.output.dense", attended)
            x = self._norm(f"{name}.attention.output.LayerNorm", x + attended)
            inner = self._linear(f"{name}.intermediate.dense", x)
            outer = self._linear(f"{name}.output.dense", gelu(inner))
            x = self._norm(f"{name}.output.LayerNorm", x + outer)
        pooled = x.mean(axis=0) if self.pooling == "mean" else x[0]
        return np.asarray(pooled / np.linalg.norm(pooled))

    def _attend(self, name: str, x: Array64) -> Array64:
        heads = self.architecture.heads
        query, key, value = (
            self._linear(f"{name}.{part}", x).reshape(len(x), heads, -1).swapaxes(0, 1)
            for part in ("query", "key", "value")
        )
        scores = query @ key.swapaxes(1, 2) / math.sqrt(query.shape[-1])
        odds = np.exp(scores - scores.max(axis=-1, keepdims=True))
        mixed = odds / odds.sum(axis=-1, keepdims=True) @ value
        return np.asarray(mixed.swapaxes(0, 1).reshape(x.shape))

    def _linear(self, name: str, x: Array64) -> Array64:
        return np.asarray(x @ self._get(f"{name}.weight").T + self._get(f"{name}.bias"))

    def _norm(self, name: str, x: Array64) -> Array64:
        centred = x - x.mean(axis=-1, keepdims=True)
        deviation = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + self.architecture.epsilon)
        weight, bias = self._get(f"{name}.weight"), self._get(f"{name}.bias")
        return np.asarray(centred / deviation * weight + bias)

    def _row(self, table: str, place: int | slice | list[int]) -> Array64:
        return np.asarray(self.weights[f"embeddings.{table}.weight"][place], np.float64)

    def _get(self, name: str) -> Array64:
        return self.weights[name].astype(np.float64)


def gelu(x: Array64) -> Array64:
    """x times the share of a normal distribution below x.

    >>> gelu(np.array([-10.0, 0.0, 1.0])).round(6).tolist()
    [-0.0, 0.0, 0.841345]
    """
    erf = np.frompyfunc(math.erf, 1, 1)  # numpy has none
    return x * 0.5 * (1 + np.asarray(erf(x / math.sqrt(2)), np.float64))
