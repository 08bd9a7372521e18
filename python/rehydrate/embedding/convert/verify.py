"""Is a converted graph the model it was made from? Its vectors beside those of the reference."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

FLOAT32_COSINE = 0.99999
"""An fp32 graph below this is another model."""
INT8_COSINE = 0.95
"""An int8 graph below this deserves a warning: judge it by what it is for."""


class Check(NamedTuple):
    """Cosines between a graph's vectors and the reference's, over the texts of the check."""

    cosine_min: float
    cosine_mean: float


def compare(model: bytes, rows: Sequence[Sequence[int]], expected: NDArray[Any]) -> Check:
    """Run a graph on rows of token ids, one by one and as one padded batch; the worse counts."""
    embed = _session(model)
    singly = np.concatenate([embed([row]) for row in rows])
    together = embed(rows)
    if not singly.shape == together.shape == expected.shape:
        return Check(math.nan, math.nan)
    cosines = np.minimum((singly * expected).sum(axis=1), (together * expected).sum(axis=1))
    # A NaN is no small difference: minimum and mean carry it into the check.
    return Check(float(cosines.min()), float(cosines.mean()))


def _session(model: bytes) -> Callable[[Sequence[Sequence[int]]], NDArray[np.float32]]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3  # errors are raised; warnings would land in the user's terminal
    # Without VNNI, 8-bit products of x64 overflow 16 bits; this takes a way that does not.
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
