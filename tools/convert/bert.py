"""A BERT encoder's configuration, pooling and weights, read from its folder and checked.

The shape is read from config.json, pooling and the maximum length from sentence-transformers'
files, the weights from model.safetensors. A model that is not BERT is refused by name.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rehydrate._text import error_text
from rehydrate.errors import FileError, InvalidArgumentError

BERT_LIKE = "choose a BERT-like model (MiniLM, BGE, E5 and GTE in their first, English versions)"
_COMPLETE = "get the model's folder whole, as sentence-transformers saves it"


class ConversionError(FileError, InvalidArgumentError):
    """A model that cannot be converted; `path` is the file or folder."""


class Architecture(NamedTuple):
    """The values that the graph needs besides the weights."""

    layers: int
    heads: int
    hidden: int
    inner: int
    vocabulary: int
    positions: int
    kinds: int
    epsilon: float


def read_architecture(folder: Path) -> Architecture:
    """Read the architecture from config.json.

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
        problem = f"hidden_size {sizes['hidden']} isn't a multiple of {sizes['heads']} heads"
        raise ConversionError(file, problem, _COMPLETE)
    epsilon = config.get("layer_norm_eps", 1e-12)
    if not isinstance(epsilon, float) or not 0 < epsilon < 1:
        problem = f"layer_norm_eps is {epsilon!r}, expected a number between 0 and 1"
        raise ConversionError(file, problem, _COMPLETE)
    return Architecture(**sizes, epsilon=epsilon)


def read_json(file: Path) -> dict[str, Any]:
    """Return the JSON object in a file of the model."""
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


Pooling = Literal["mean", "cls"]

_MODULES = ("Transformer", "Pooling", "Normalize")
_REMEDY = "choose a model that pools by mean or [CLS] and has no layers behind"


def read_modules(folder: Path, architecture: Architecture) -> tuple[Pooling, int]:
    """Read the pooling of a sentence-transformers folder, and how many tokens it is made for.

    Raises:
        ConversionError: a module or a pooling that this converter does not build.
    """
    file = folder / "modules.json"
    try:
        modules = json.loads(file.read_bytes())
        paths = {module["type"].rpartition(".")[2]: folder / module["path"] for module in modules}
        kinds = [module["type"].rpartition(".")[2] for module in modules]
    except FileNotFoundError:
        remedy = "get the folder whole, as sentence-transformers saves it: pooling is said there"
        raise ConversionError(file, "no such file", remedy) from None
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise ConversionError(
            file, f"cannot be read ({error_text(error)})", "get the file again"
        ) from None
    for kind in kinds:
        if kind not in _MODULES:
            problem = f"module {kind!r} is not built, supported: {', '.join(_MODULES)}"
            raise ConversionError(file, problem, _REMEDY)
    if kinds[:2] != ["Transformer", "Pooling"]:
        problem = f"modules are {', '.join(kinds) or 'none'}, expected Transformer, Pooling first"
        raise ConversionError(file, problem, _REMEDY)
    pooling = _pooling(paths["Pooling"] / "config.json", architecture)
    return pooling, _max_tokens(folder, architecture)


def _pooling(file: Path, architecture: Architecture) -> Pooling:
    config = read_json(file)
    dim = config.get("word_embedding_dimension", config.get("embedding_dimension"))
    if dim not in (None, architecture.hidden):
        problem = f"pools {dim!r} dimensions, the encoder has {architecture.hidden}"
        raise ConversionError(file, problem, "get the file again")
    chosen = [_mode(key) for key, value in config.items() if value is True and "mode" in key]
    if isinstance(config.get("pooling_mode"), str):
        chosen = [config["pooling_mode"]]
    for pooling in ("mean", "cls"):
        if chosen == [pooling]:
            return pooling
    problem = f"pooling is {' + '.join(map(str, chosen)) or 'none'}, supported: mean or cls"
    raise ConversionError(file, problem, _REMEDY)


def _mode(key: str) -> str:
    """Return `mean` for `pooling_mode_mean_tokens`, as newer files spell it."""
    return key.removeprefix("pooling_mode_").removesuffix("_tokens").removesuffix("_token")


def _max_tokens(folder: Path, architecture: Architecture) -> int:
    for name, key in (
        ("sentence_bert_config.json", "max_seq_length"),
        ("tokenizer_config.json", "model_max_length"),
    ):
        file = folder / name
        value: Any = read_json(file).get(key) if file.exists() else None
        # Files without a limit of their own hold 1e30.
        if isinstance(value, int | float) and value >= 3:
            return int(min(value, architecture.positions))
    return architecture.positions


Array: TypeAlias = NDArray[np.float32]
Weights: TypeAlias = Mapping[str, Array]

FILE = "model.safetensors"
_AGAIN = "get the file again"
_DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}


def read_weights(folder: Path, architecture: Architecture) -> dict[str, Array]:
    """Read every tensor the encoder needs, as float32; other tensors in the file are skipped.

    Raises:
        ConversionError: the file is missing or damaged, or a tensor is missing, of another shape
            or type, or not finite.
    """
    import safetensors

    file = folder / FILE
    deserialize: Any = safetensors.deserialize  # untyped, and the only way that reads bfloat16
    try:
        stored = {name.removeprefix("bert."): tensor for name, tensor in deserialize(_read(file))}
    except safetensors.SafetensorError as error:
        raise ConversionError(file, f"is damaged ({error})", _AGAIN) from None
    weights = {}
    for name, shape in expected_shapes(architecture):
        if name not in stored:
            problem = f"tensor {name!r} is missing; the file holds {len(stored)} others"
            raise ConversionError(file, problem, "check that config.json is this model's")
        tensor = stored[name]
        if tuple(tensor["shape"]) != shape:
            problem = f"tensor {name!r} is {_times(tensor['shape'])}, expected {_times(shape)}"
            raise ConversionError(file, problem, "check that config.json is this model's")
        if tensor["dtype"] not in _DTYPES:
            problem = f"tensor {name!r} is {tensor['dtype']}, supported: {', '.join(_DTYPES)}"
            raise ConversionError(file, problem, "save the model in float32")
        array = _as_float32(tensor["data"], tensor["dtype"]).reshape(shape)
        if not np.isfinite(array).all():
            raise ConversionError(file, f"tensor {name!r} holds NaN or infinity", _AGAIN)
        weights[name] = array
    return weights


def expected_shapes(architecture: Architecture) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield name and shape of every tensor that the forward pass reads."""
    hidden, inner = architecture.hidden, architecture.inner

    def pair(name: str, *shape: int) -> Iterator[tuple[str, tuple[int, ...]]]:
        yield f"{name}.weight", shape
        yield f"{name}.bias", shape[:1]

    yield "embeddings.word_embeddings.weight", (architecture.vocabulary, hidden)
    yield "embeddings.position_embeddings.weight", (architecture.positions, hidden)
    yield "embeddings.token_type_embeddings.weight", (architecture.kinds, hidden)
    yield from pair("embeddings.LayerNorm", hidden)
    for layer in range(architecture.layers):
        name = f"encoder.layer.{layer}"
        for part in ("query", "key", "value"):
            yield from pair(f"{name}.attention.self.{part}", hidden, hidden)
        yield from pair(f"{name}.attention.output.dense", hidden, hidden)
        yield from pair(f"{name}.attention.output.LayerNorm", hidden)
        yield from pair(f"{name}.intermediate.dense", inner, hidden)
        yield from pair(f"{name}.output.dense", hidden, inner)
        yield from pair(f"{name}.output.LayerNorm", hidden)


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        found = sorted(other.name for other in file.parent.glob("*.bin"))
        if found:
            problem = f"no such file, only {found[0]}, a pickle, which could run any code"
            remedy = "save the model with safe_serialization=True, or get its safetensors"
        else:
            problem, remedy = "no such file", "get the model's folder whole, with its safetensors"
        raise ConversionError(file, problem, remedy) from None
    except OSError as error:
        raise ConversionError(file, f"cannot be read: {error.strerror}", "check it") from None


def _as_float32(data: bytes, dtype: str) -> Array:
    values = np.frombuffer(data, _DTYPES[dtype])
    if dtype == "BF16":  # the upper half of a float32
        return (values.astype(np.uint32) << 16).view(np.float32)
    return values.astype(np.float32)


def _times(shape: object) -> str:
    assert isinstance(shape, list | tuple)
    return " x ".join(map(str, shape))
