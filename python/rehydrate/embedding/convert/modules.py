"""What follows the encoder: pooling and the length of a text, from sentence-transformers' files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal, NamedTuple

from rehydrate.embedding.convert.architecture import Architecture, read_json
from rehydrate.embedding.convert.errors import ConversionError

Pooling = Literal["mean", "cls"]

_MODULES = ("Transformer", "Pooling", "Normalize")
_REMEDY = "choose a model that pools by mean or [CLS] and has no layers behind"


class Pooled(NamedTuple):
    """How token vectors become one, and how many tokens of a text the model was made for."""

    pooling: Pooling
    max_tokens: int


def read_modules(folder: Path, architecture: Architecture) -> Pooled:
    """Pooling and length of a sentence-transformers folder.

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
            file, f"cannot be read ({type(error).__name__}: {error})", "get the file again"
        ) from None
    for kind in kinds:
        if kind not in _MODULES:
            problem = f"module {kind!r} is not built, supported: {', '.join(_MODULES)}"
            raise ConversionError(file, problem, _REMEDY)
    if kinds[:2] != ["Transformer", "Pooling"]:
        problem = f"modules are {', '.join(kinds) or 'none'}, expected Transformer, Pooling first"
        raise ConversionError(file, problem, _REMEDY)
    pooling = _pooling(paths["Pooling"] / "config.json", architecture)
    return Pooled(pooling, _max_tokens(folder, architecture))


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
    """`pooling_mode_mean_tokens` is spelled `mean` in newer files."""
    return key.removeprefix("pooling_mode_").removesuffix("_tokens").removesuffix("_token")


def _max_tokens(folder: Path, architecture: Architecture) -> int:
    for name, key in (
        ("sentence_bert_config.json", "max_seq_length"),
        ("tokenizer_config.json", "model_max_length"),
    ):
        file = folder / name
        value: Any = read_json(file).get(key) if file.exists() else None
        # Files without a limit of their own say 1e30.
        if isinstance(value, int | float) and value >= 3:
            return int(min(value, architecture.positions))
    return architecture.positions
