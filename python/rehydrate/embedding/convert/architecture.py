"""The shape of a BERT encoder, read from config.json; what is not BERT is refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from rehydrate.embedding.convert.errors import ConversionError

BERT_LIKE = "choose a BERT-like model (MiniLM, BGE, E5 and GTE in their first, English versions)"
_COMPLETE = "get the model's folder whole, as sentence-transformers saves it"


class Architecture(NamedTuple):
    """What the graph needs to know beside the weights."""

    layers: int
    heads: int
    hidden: int
    inner: int
    vocabulary: int
    positions: int
    kinds: int
    epsilon: float


def read_architecture(folder: Path) -> Architecture:
    """The architecture that config.json describes.

    Raises:
        ConversionError: something in it is not what this converter builds.
    """
    file = folder / "config.json"
    config = read_json(file)
    for key, supported, default in (
        ("model_type", "bert", None),
        ("hidden_act", "gelu", "gelu"),
        ("position_embedding_type", "absolute", "absolute"),
        ("is_decoder", False, False),
        ("add_cross_attention", False, False),
    ):
        value = config.get(key, default)
        if value != supported:
            raise ConversionError(file, f"{key} is {value!r}, supported: {supported!r}", BERT_LIKE)
    sizes = {
        name: _positive_int(file, config, key)
        for name, key in (
            ("layers", "num_hidden_layers"),
            ("heads", "num_attention_heads"),
            ("hidden", "hidden_size"),
            ("inner", "intermediate_size"),
            ("vocabulary", "vocab_size"),
            ("positions", "max_position_embeddings"),
            ("kinds", "type_vocab_size"),
        )
    }
    if sizes["hidden"] % sizes["heads"]:
        problem = f"hidden_size {sizes['hidden']} is no multiple of {sizes['heads']} heads"
        raise ConversionError(file, problem, _COMPLETE)
    epsilon = config.get("layer_norm_eps", 1e-12)
    if not isinstance(epsilon, float) or not 0 < epsilon < 1:
        problem = f"layer_norm_eps is {epsilon!r}, expected a number between 0 and 1"
        raise ConversionError(file, problem, _COMPLETE)
    return Architecture(**sizes, epsilon=epsilon)


def read_json(file: Path) -> dict[str, Any]:
    """The JSON object in a file of the model's."""
    try:
        content = json.loads(file.read_bytes())
    except FileNotFoundError:
        raise ConversionError(file, "no such file", _COMPLETE) from None
    except (OSError, ValueError, RecursionError) as error:
        raise ConversionError(file, f"cannot be read as JSON ({error})", _COMPLETE) from None
    if not isinstance(content, dict):
        problem = f"holds a {type(content).__name__}, expected an object"
        raise ConversionError(file, problem, _COMPLETE)
    return content


def _positive_int(file: Path, config: dict[str, Any], key: str) -> int:
    value = config.get(key)
    if type(value) is not int or value < 1:
        raise ConversionError(file, f"{key} is {value!r}, expected a positive integer", _COMPLETE)
    return value
