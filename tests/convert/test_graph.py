"""The graphs equal the plain forward pass, alone and in padded batches."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from tests.convert.tiny import SHAPE, random_weights, write_bert
from tools.convert import convert
from tools.convert.graph import quantize_rows
from tools.convert.verify import Reference
from tools.distill.distill import Bert

WEIGHTS = random_weights()
CLOSE = {"rtol": 0, "atol": 3e-6}


def rows_of(*lengths: int, seed: int = 1) -> list[list[int]]:
    random = np.random.default_rng(seed)
    return [random.integers(5, SHAPE.vocabulary, length).tolist() for length in lengths]


def reference(rows: list[list[int]], pooling: str = "mean") -> np.ndarray:
    plain = Reference(SHAPE, WEIGHTS, pooling)
    return np.stack([plain.embed(row) for row in rows])


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_the_fp32_graph_equals_the_plain_forward_pass(tmp_path, load, pooling):
    folder = write_bert(tmp_path / "bert", pooling=pooling)
    embed = load(convert(folder, tmp_path / "out").folder / "model.onnx")
    rows = rows_of(1, 2, 7, 24, SHAPE.positions)
    expected = reference(rows, pooling)
    for row, vector in zip(rows, expected, strict=True):
        np.testing.assert_allclose(embed([row])[0], vector, **CLOSE)
    np.testing.assert_allclose(embed(rows), expected, **CLOSE)


def test_the_two_poolings_are_two_models(bert):
    rows = rows_of(9)
    assert reference(rows)[0] @ reference(rows, "cls")[0] < 0.99


@pytest.mark.parametrize("precision", ["model.onnx", "model_int8.onnx"])
def test_what_stands_under_the_mask_changes_nothing(bert, tmp_path, load, precision):
    file = convert(bert, tmp_path / "out").folder / precision
    rows = rows_of(3, 20)
    quiet, loud = (load(file, padding=padding)(rows) for padding in (0, SHAPE.vocabulary - 1))
    # int8 takes its scale from the whole batch, padding included.
    tolerance = 1e-6 if precision == "model.onnx" else 0.05
    np.testing.assert_allclose(quiet, loud, rtol=0, atol=tolerance)


def test_vectors_have_length_1_in_both_precisions(bert, tmp_path, load):
    folder = convert(bert, tmp_path / "out").folder
    for file in ("model.onnx", "model_int8.onnx"):
        vectors = load(folder / file)(rows_of(2, 5, 11))
        assert (vectors.shape, vectors.dtype) == ((3, SHAPE.hidden), np.float32)
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-6)


def test_int8_is_near_fp32_and_smaller(bert, tmp_path, load):
    folder = convert(bert, tmp_path / "out").folder
    full, small = folder / "model.onnx", folder / "model_int8.onnx"
    rows = rows_of(4, 9, 16, 24)
    cosines = [(load(full)([row]) @ load(small)([row]).T).item() for row in rows]
    assert 0.97 < min(cosines) < 1
    assert small.stat().st_size < 0.6 * full.stat().st_size


def test_the_reference_agrees_with_the_distillers_forward_pass(tmp_path):
    """Two independent implementations: one for a text, one for equally long rows."""
    rows = rows_of(12, 12, 12)
    hidden = Bert(write_bert(tmp_path / "bert"))(np.array(rows)).mean(axis=1)
    hidden /= np.linalg.norm(hidden, axis=1, keepdims=True)
    np.testing.assert_allclose(reference(rows), hidden, rtol=0, atol=1e-6)


@settings(max_examples=50)
@given(
    st.lists(
        st.lists(st.floats(-1e3, 1e3, width=32), min_size=3, max_size=3), min_size=1, max_size=9
    )
)
def test_a_quantised_row_is_within_half_a_step(matrix):
    values = np.array(matrix, np.float32)
    rows, scales = quantize_rows(values)
    assert (np.abs(rows * scales[:, None] - values) <= scales[:, None] * 0.5001).all()
    assert rows.min() >= -127
