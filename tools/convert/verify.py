"""The check of a converted graph: its vectors are compared with a reference, on a few texts.

The texts are such as agents see; models are timed on them too. The reference is the forward pass in
plain numpy and float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tools.convert.bert import Architecture, Pooling, Weights

Array64: TypeAlias = NDArray[np.float64]


class Reference:
    """A BERT encoder with pooling, one text at a time, written as in the papers."""

    def __init__(self, architecture: Architecture, weights: Weights, pooling: Pooling) -> None:
        """Take the weights in double precision."""
        self.architecture = architecture
        self.pooling = pooling
        self.weights = weights

    def embed(self, ids: Sequence[int]) -> Array64:
        """Return the vector of one text, of length 1."""
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
    """Return x times the share of a normal distribution below x.

    >>> gelu(np.array([-10.0, 0.0, 1.0])).round(6).tolist()
    [-0.0, 0.0, 0.841345]
    """
    erf = np.frompyfunc(math.erf, 1, 1)  # numpy has none
    return x * 0.5 * (1 + np.asarray(erf(x / math.sqrt(2)), np.float64))


FLOAT32_COSINE = 0.99999
"""An fp32 graph below this is another model."""
INT8_COSINE = 0.95
"""An int8 graph below this gets a warning: test it on your task."""


class Check(NamedTuple):
    """Cosines between a graph's vectors and the reference's, over the texts of the check."""

    cosine_min: float
    cosine_mean: float


def compare(model: bytes, rows: Sequence[Sequence[int]], expected: NDArray[Any]) -> Check:
    """Run a graph on rows of token ids, one by one and as one padded batch; return the worse."""
    embed = _session(model)
    singly = np.concatenate([embed([row]) for row in rows])
    together = embed(rows)
    if not singly.shape == together.shape == expected.shape:
        return Check(math.nan, math.nan)
    cosines = np.minimum((singly * expected).sum(axis=1), (together * expected).sum(axis=1))
    # A NaN is a failure: minimum and mean carry it into the check.
    return Check(float(cosines.min()), float(cosines.mean()))


def _session(model: bytes) -> Callable[[Sequence[Sequence[int]]], NDArray[np.float32]]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3  # errors are raised; warnings would land in the user's terminal
    # Without VNNI, 8-bit products of x64 overflow 16 bits; this setting avoids that.
    options.add_session_config_entry("session.x64quantprecision", "1")
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    def embed(rows: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        ids = np.zeros((len(rows), max(map(len, rows))), np.int64)
        mask = np.zeros_like(ids)
        for place, row in enumerate(rows):
            ids[place, : len(row)] = row
            mask[place, : len(row)] = 1
        output: NDArray[np.float32] = session.run(None, {"input_ids": ids, "attention_mask": mask})[
            0
        ]
        return output

    return embed
