"""The distillation tool on a fake BERT small enough to check by hand-written loops."""

from __future__ import annotations

import importlib.util
import json
import math
import struct
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

TOOL = Path(__file__).resolve().parents[1] / "tools/distill/distill.py"
HIDDEN, HEADS, INNER, LAYERS = 8, 2, 12, 2
VOCAB = ["[PAD]", "[CLS]", "[SEP]", *"abcdefghijklmnopq"]


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("distill", TOOL)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def fake_weights() -> dict[str, np.ndarray]:
    random = np.random.default_rng(7)
    shapes = {
        "embeddings.word_embeddings.weight": (len(VOCAB), HIDDEN),
        "embeddings.position_embeddings.weight": (4, HIDDEN),
        "embeddings.token_type_embeddings.weight": (2, HIDDEN),
        "embeddings.LayerNorm.weight": (HIDDEN,),
        "embeddings.LayerNorm.bias": (HIDDEN,),
    }
    for layer in range(LAYERS):
        name = f"encoder.layer.{layer}"
        for dense, rows, columns in [
            ("attention.self.query", HIDDEN, HIDDEN),
            ("attention.self.key", HIDDEN, HIDDEN),
            ("attention.self.value", HIDDEN, HIDDEN),
            ("attention.output.dense", HIDDEN, HIDDEN),
            ("intermediate.dense", INNER, HIDDEN),
            ("output.dense", HIDDEN, INNER),
        ]:
            shapes[f"{name}.{dense}.weight"] = (rows, columns)
            shapes[f"{name}.{dense}.bias"] = (rows,)
        for norm in ("attention.output.LayerNorm", "output.LayerNorm"):
            shapes[f"{name}.{norm}.weight"] = (HIDDEN,)
            shapes[f"{name}.{norm}.bias"] = (HIDDEN,)
    return {name: random.normal(size=shape).astype("<f4") for name, shape in shapes.items()}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    config = {
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "layer_norm_eps": 1e-12,
    }
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "vocab.txt").write_text("\n".join(VOCAB) + "\n")
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    body = b""
    for name, tensor in fake_weights().items():
        end = len(body) + tensor.nbytes
        header[name] = {
            "dtype": "F32",
            "shape": tensor.shape,
            "data_offsets": [len(body), end],
        }
        body += tensor.tobytes()
    encoded = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(encoded)) + encoded + body)
    return folder


def slow_forward(ids: list[int]) -> np.ndarray:
    """Run BERT for one sequence, a vector and a head at a time, with the exact erf."""
    w = {name: tensor.astype(float) for name, tensor in fake_weights().items()}

    def norm(name: str, x: np.ndarray) -> np.ndarray:
        spread = math.sqrt(sum((v - x.mean()) ** 2 for v in x) / len(x) + 1e-12)
        return np.asarray((x - x.mean()) / spread * w[f"{name}.weight"] + w[f"{name}.bias"])

    def dense(name: str, x: np.ndarray) -> np.ndarray:
        return np.asarray(w[f"{name}.weight"] @ x + w[f"{name}.bias"])

    states = [
        norm(
            "embeddings.LayerNorm",
            w["embeddings.word_embeddings.weight"][token]
            + w["embeddings.position_embeddings.weight"][place]
            + w["embeddings.token_type_embeddings.weight"][0],
        )
        for place, token in enumerate(ids)
    ]
    size = HIDDEN // HEADS
    for layer in range(LAYERS):
        name = f"encoder.layer.{layer}"
        query, key, value = (
            [dense(f"{name}.attention.self.{part}", x) for x in states]
            for part in ("query", "key", "value")
        )
        following = []
        for place, x in enumerate(states):
            mixed = np.zeros(HIDDEN)
            for head in range(HEADS):
                part = slice(head * size, (head + 1) * size)
                weights = [math.exp(query[place][part] @ k[part] / math.sqrt(size)) for k in key]
                for weight, v in zip(weights, value, strict=True):
                    mixed[part] += weight / sum(weights) * v[part]
            x = norm(
                f"{name}.attention.output.LayerNorm",
                x + dense(f"{name}.attention.output.dense", mixed),
            )
            inner = dense(f"{name}.intermediate.dense", x)
            inner = np.array([0.5 * v * (1 + math.erf(v / math.sqrt(2))) for v in inner])
            following.append(
                norm(f"{name}.output.LayerNorm", x + dense(f"{name}.output.dense", inner))
            )
        states = following
    return np.array(states)


def decode(data: bytes) -> tuple[np.ndarray, np.ndarray]:
    assert data[:8] == b"RHYSTAT1"
    rows, dim = struct.unpack_from("<II", data, 8)
    scales = np.frombuffer(data, "<f4", rows, 16)
    return scales, np.frombuffer(data, "i1", rows * dim, 16 + 4 * rows).reshape(rows, dim)


def test_the_batched_transformer_equals_the_loops(tool: ModuleType, model: Path) -> None:
    embedded = tool.Bert(model).embed_tokens(len(VOCAB), cls=1, sep=2)
    expected = [slow_forward([1, token, 2]).mean(axis=0) for token in range(len(VOCAB))]
    np.testing.assert_allclose(embedded, expected, atol=2e-6)


def test_batches_of_any_size_give_the_same_vectors(
    tool: ModuleType, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = tool.Bert(model).embed_tokens(len(VOCAB), cls=1, sep=2)
    monkeypatch.setattr(tool, "BATCH", 3)
    np.testing.assert_allclose(tool.Bert(model).embed_tokens(len(VOCAB), cls=1, sep=2), whole)


def test_principal_axes_are_ordered_uncorrelated_and_signed(tool: ModuleType) -> None:
    vectors = np.random.default_rng(1).normal(size=(40, 6)) * [1, 5, 2, 4, 0.5, 3] + 9
    rotated = tool.principal(vectors, 4)
    covariance = rotated.T @ rotated
    assert np.all(np.diff(np.diag(covariance)) < 0)
    np.testing.assert_allclose(covariance, np.diag(np.diag(covariance)), atol=1e-9)
    mirrored = tool.principal(vectors[:, ::-1], 4)
    np.testing.assert_allclose(mirrored, rotated)


def test_quantised_rows_stay_within_half_a_step(tool: ModuleType) -> None:
    rows = np.random.default_rng(2).normal(size=(30, 5))
    rows[3] = 0.0
    scales, quantised = decode(tool.encode(rows))
    assert quantised.max() <= 127 and quantised.min() >= -127
    assert not quantised[3].any()
    error = np.abs(scales[:, None].astype(float) * quantised - rows)
    assert np.all(error <= scales[:, None] * 0.5 + 1e-12)


def test_common_words_weigh_less_than_rare_ones(tool: ModuleType) -> None:
    weighted = tool.zipf(np.ones((3, 2)))
    np.testing.assert_allclose(weighted[:, 0], np.log([2.0, 3.0, 4.0]))


def test_the_file_is_the_pipeline_and_the_same_every_time(tool: ModuleType, model: Path) -> None:
    data = tool.distill(model, dim=4)
    assert data == tool.distill(model, dim=4)
    scales, quantised = decode(data)
    assert len(data) == 16 + 4 * len(VOCAB) + 4 * len(VOCAB)
    rows = tool.zipf(tool.principal(tool.Bert(model).embed_tokens(len(VOCAB), cls=1, sep=2), dim=4))
    np.testing.assert_allclose(scales[:, None] * quantised, rows, atol=scales.max())


def test_the_wrong_weights_are_refused(
    tool: ModuleType, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["distill", str(model)])
    with pytest.raises(SystemExit, match="expected 53aa"):
        tool.main()


def test_check_compares_without_writing(
    tool: ModuleType, model: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    digest = tool.hashlib.sha256((model / "model.safetensors").read_bytes()).hexdigest()
    monkeypatch.setattr(tool, "WEIGHTS_SHA256", digest)
    output = tmp_path / "static.bin"

    def run(*flags: str) -> int:
        monkeypatch.setattr(sys, "argv", ["distill", str(model), "--output", str(output), *flags])
        return int(tool.main())

    assert run() == 0
    assert run("--check") == 0
    changed = output.read_bytes()[:-1] + bytes([output.read_bytes()[-1] ^ 1])
    output.write_bytes(changed)
    assert run("--check") == 1
    assert output.read_bytes() == changed
