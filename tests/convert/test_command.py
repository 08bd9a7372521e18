"""`python -m tools.convert`: one command makes a model that the command line lists."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from rehydrate import cli
from tests.convert.tiny import SHAPE, edit_json, random_weights, write_bert
from tools.convert import convert
from tools.convert.__main__ import main
from tools.convert.graph import quantize_rows
from tools.convert.verify import Reference
from tools.distill.distill import Bert


def test_one_command_makes_a_model_that_list_finds(bert, home, capfd):
    assert main([str(bert)]) == 0
    shown, said = capfd.readouterr()
    assert shown.startswith("tiny: 32 dimensions, 24 tokens, mean pooling\n")
    assert "fp32       model.onnx " in shown
    assert "int8       model_int8.onnx " in shown
    assert shown.endswith("next: rehydrate model bench tiny\n")
    assert "reading" in said

    assert cli.main(["model", "list"]) == 0
    head, line = capfd.readouterr().out.splitlines()
    assert head.split()[:4] == ["name", "dim", "tokens", "precision"]
    assert line.split()[:4] == ["tiny", "32", "24", "fp32+int8"]
    assert line.endswith(str(home / "tiny"))


def test_json_goes_to_standard_output_and_progress_does_not(bert, home, capfd):
    assert main([str(bert), "--json", "--name", "x", "--precision", "int8"]) == 0
    result = json.loads(capfd.readouterr().out)
    assert result["folder"] == str(home / "x")
    assert (result["name"], result["precisions"], result["warnings"]) == ("x", ["int8"], [])
    assert cli.main(["model", "list", "--json"]) == 0
    (listed,) = json.loads(capfd.readouterr().out)
    assert listed["sha256"] == {"int8": result["files"]["model_int8.onnx"]["sha256"]}
    assert (listed["where"], listed["dim"], listed["path"]) == ("home", 32, result["folder"])


def test_a_folder_can_be_named_and_is_what_comes_next(bert, home, tmp_path, capfd):
    folder = tmp_path / "here" / "it"
    assert main([str(bert), "-o", str(folder)]) == 0
    assert (folder / "rehydrate.json").is_file()
    assert capfd.readouterr().out.endswith(f"next: rehydrate model bench {folder}\n")
    assert not home.exists()


def test_a_model_that_is_there_stays_without_force(bert, capfd):
    assert main([str(bert)]) == 0
    assert main([str(bert)]) == 2
    assert capfd.readouterr().err.endswith("is there already; pass --force to replace it\n")
    assert main([str(bert), "--force"]) == 0


def test_a_model_that_is_not_understood_ends_in_one_line_and_exit_code_2(bert, capfd):
    edit_json(bert / "config.json", model_type="\x1b[31mgpt2")
    assert main([str(bert)]) == 2
    shown, said = capfd.readouterr()
    assert not shown
    assert "\x1b" not in said
    assert said.splitlines()[-1].startswith("convert: ")
    assert "model_type is" in said.splitlines()[-1]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit on a file's size to set")
def test_a_full_disk_leaves_no_files(bert, home):
    """The limit holds for root too; a read-only folder would not stop root."""
    import resource

    limit = Path(bert, "model.safetensors").stat().st_size // 2
    done = subprocess.run(
        [sys.executable, "-m", "tools.convert", str(bert)],
        env=dict(os.environ),
        cwd=Path(__file__).parents[2],
        capture_output=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    assert done.returncode == 2
    assert b"cannot be written: File too large" in done.stderr
    assert list(home.iterdir()) == []


# The graphs equal the plain forward pass, alone and in padded batches.


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
def test_tokens_under_the_mask_change_nothing(bert, tmp_path, load, precision):
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
