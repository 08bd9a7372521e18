"""A BERT of a few thousand weights in a sentence-transformers folder, to be converted."""

from __future__ import annotations

import json
import string
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from tools.convert.bert import Architecture, expected_shapes

MAX_TOKENS = 24
WORDS = ("the", "test", "fails", "lo", "##gin", "file", "is", "here")
VOCABULARY = (
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
    *string.ascii_lowercase,
    *(f"##{letter}" for letter in string.ascii_lowercase),
    *string.digits,
    *".,:;!?'",
    *WORDS,
)
SHAPE = Architecture(
    layers=2,
    heads=4,
    hidden=32,
    inner=64,
    vocabulary=len(VOCABULARY),
    positions=40,
    kinds=2,
    epsilon=1e-12,
)


def write_bert(folder: Path, *, pooling: str = "mean", seed: int = 7) -> Path:
    """Write the whole folder, as sentence-transformers saves one."""
    folder.mkdir(parents=True)
    (folder / "1_Pooling").mkdir()
    config = {
        "model_type": "bert",
        "hidden_act": "gelu",
        "num_hidden_layers": SHAPE.layers,
        "num_attention_heads": SHAPE.heads,
        "hidden_size": SHAPE.hidden,
        "intermediate_size": SHAPE.inner,
        "vocab_size": SHAPE.vocabulary,
        "max_position_embeddings": SHAPE.positions,
        "type_vocab_size": SHAPE.kinds,
        "layer_norm_eps": SHAPE.epsilon,
    }
    modules = [
        {"idx": place, "path": path, "type": f"sentence_transformers.models.{kind}"}
        for place, (kind, path) in enumerate(
            [("Transformer", ""), ("Pooling", "1_Pooling"), ("Normalize", "2_Normalize")]
        )
    ]
    pools = {
        "word_embedding_dimension": SHAPE.hidden,
        "pooling_mode_cls_token": pooling == "cls",
        "pooling_mode_mean_tokens": pooling == "mean",
        "pooling_mode_max_tokens": pooling == "max",
        "include_prompt": True,
    }
    for name, content in (
        ("config.json", config),
        ("modules.json", modules),
        ("1_Pooling/config.json", pools),
        ("sentence_bert_config.json", {"max_seq_length": MAX_TOKENS}),
        ("tokenizer_config.json", {"do_lower_case": True}),
    ):
        (folder / name).write_text(json.dumps(content), encoding="utf-8")
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n", encoding="utf-8")
    save_file(random_weights(seed), folder / "model.safetensors")
    return folder


def random_weights(seed: int = 7) -> dict[str, np.ndarray[Any, np.dtype[np.float32]]]:
    """Return weights large enough for uneven attention and for the bend of Gelu."""
    random = np.random.default_rng(seed)
    weights = {}
    for name, shape in expected_shapes(SHAPE):
        values = random.normal(0, 0.5 if len(shape) == 2 else 0.2, shape)
        if name.endswith("LayerNorm.weight"):
            values += 1
        weights[name] = values.astype(np.float32)
    return weights


def edit_json(file: Path, **changes: Any) -> None:
    """Change entries of a JSON object in a file."""
    content = json.loads(file.read_bytes())
    file.write_text(json.dumps({**content, **changes}), encoding="utf-8")
