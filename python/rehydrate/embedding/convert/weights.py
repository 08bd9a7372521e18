"""The weights of a BERT encoder from model.safetensors, each checked for presence and shape."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rehydrate.embedding.convert.architecture import Architecture
from rehydrate.embedding.convert.errors import ConversionError

Array: TypeAlias = NDArray[np.float32]
Weights: TypeAlias = Mapping[str, Array]

FILE = "model.safetensors"
_AGAIN = "get the file again"
_DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}


def read_weights(folder: Path, architecture: Architecture) -> dict[str, Array]:
    """Every tensor the encoder needs, as float32; what else the file holds is left.

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
    """Name and shape of every tensor that the forward pass reads."""
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
