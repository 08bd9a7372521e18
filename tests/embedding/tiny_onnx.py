"""A transformer small enough to compute by hand: a table of vectors, no layer above it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper, save

WORDS = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", *"abcdefghijklmnopqrstuvwxyz", *map(str, range(10))]
VOCAB = [*WORDS, *(f"##{word}" for word in WORDS[4:])]
DIM = 8
TABLE = np.random.default_rng(5).normal(size=(len(VOCAB), DIM)).astype(np.float32)
NAN_WORD = "z"
"""The word whose vector is not a number."""

Output = Literal["states", "sentence"]


def write_model(
    folder: Path,
    *,
    output: Output = "states",
    name: str = "model.onnx",
    of_table: NDArray[np.float32] = TABLE,
) -> Path:
    """Write a model folder: token vectors (or their mean) and a WordPiece tokenizer of letters."""
    folder.mkdir(parents=True, exist_ok=True)
    table = of_table.copy()
    table[VOCAB.index(NAN_WORD)] = np.nan
    nodes = [helper.make_node("Gather", ["table", "input_ids"], ["last_hidden_state"])]
    dim = table.shape[1]
    rank = ["batch", "tokens", dim]
    if output == "sentence":
        nodes += [
            helper.make_node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
            helper.make_node("Unsqueeze", ["mask", "two"], ["mask3"]),
            helper.make_node("Mul", ["last_hidden_state", "mask3"], ["masked"]),
            helper.make_node("ReduceSum", ["masked", "one"], ["sentence_embedding"], keepdims=0),
        ]
        rank = ["batch", dim]
    result = "sentence_embedding" if output == "sentence" else "last_hidden_state"
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "tokens"])
        for name in ("input_ids", "attention_mask", "token_type_ids")
    ]
    graph = helper.make_graph(
        nodes,
        "tiny",
        inputs,
        [helper.make_tensor_value_info(result, TensorProto.FLOAT, rank)],
        [
            numpy_helper.from_array(table, "table"),
            numpy_helper.from_array(np.array([1]), "one"),
            numpy_helper.from_array(np.array([2]), "two"),
        ],
    )
    opset = [helper.make_opsetid("", 17)]
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    save(helper.make_model(graph, opset_imports=opset, ir_version=8), path)
    (folder / "tokenizer.json").write_text(json.dumps(_tokenizer()), encoding="utf-8")
    return folder


def expected(text: str, max_tokens: int = 256) -> np.ndarray:
    """Return the vector of words of single letters and digits, the slow way."""
    words = text.split()[: max_tokens - 2]
    rows = [TABLE[VOCAB.index(word)] for word in ["[CLS]", *words, "[SEP]"]]
    mean = np.mean(np.array(rows, dtype=np.float64), axis=0)
    return np.asarray(mean / np.linalg.norm(mean))


def _tokenizer() -> dict[str, Any]:
    special = [
        {"id": VOCAB.index(token), "content": token, "single_word": False, "lstrip": False}
        | {"rstrip": False, "normalized": False, "special": True}
        for token in ("[PAD]", "[CLS]", "[SEP]", "[UNK]")
    ]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": special,
        "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True}
        | {"strip_accents": None, "lowercase": True},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 2], "cls": ["[CLS]", 1]},
        "decoder": None,
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": {word: index for index, word in enumerate(VOCAB)},
        },
    }
