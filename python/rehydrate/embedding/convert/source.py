"""A model to convert: a sentence-transformers folder, or an installed package that holds one."""

from __future__ import annotations

import hashlib
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from rehydrate.embedding.convert.architecture import Architecture, read_architecture
from rehydrate.embedding.convert.errors import ConversionError
from rehydrate.embedding.convert.modules import Pooling, read_modules
from rehydrate.embedding.convert.tokenizer import WordPiece, read_tokenizer
from rehydrate.embedding.convert.weights import FILE, Weights, read_weights


class Source(NamedTuple):
    """Everything read and checked, before anything is built."""

    architecture: Architecture
    pooling: Pooling
    max_tokens: int
    tokenizer: WordPiece
    weights: Weights
    sha256: str


class Located(NamedTuple):
    """Where a model is, and what to call it."""

    folder: Path
    name: str


def locate(source: str | Path) -> Located:
    """The model folder that is meant: the path itself, or an installed package's `model` folder.

    The package is found without being imported, so that nothing of it runs.

    Raises:
        ConversionError: no such folder or package, or no model in it.
    """
    path = Path(source).expanduser()
    try:
        if path.is_dir():
            return _located_in(path)
    except OSError as error:
        raise ConversionError(path, f"cannot be read: {error.strerror}", "check it") from None
    if path.exists():
        remedy = "name the model's folder"
        if path.suffix == ".whl":
            remedy = f"install it, or unpack it: python -m zipfile -e {path} FOLDER"
        raise ConversionError(path, "is a file, expected a model's folder", remedy)
    places = _package_folders(str(source).replace("-", "_").replace(".", "_"))
    for place in places or ():
        if (place / "model" / "config.json").is_file():
            return Located(place / "model", str(source))
    found = "no folder and no installed package"
    if places is not None:
        found = "an installed package without a model"
    raise ConversionError(source, found, "name a sentence-transformers folder with safetensors")


def _located_in(path: Path) -> Located:
    for folder in (path, path / "model"):
        if (folder / "config.json").is_file():
            named = folder.resolve()
            return Located(folder, named.parent.name if named.name == "model" else named.name)
    raise ConversionError(path, "holds no config.json", "name the folder the model is in")


def _package_folders(module: str) -> list[Path] | None:
    """Where a package's files are; None where there is no such package."""
    try:
        spec = find_spec(module) if module.isidentifier() else None
    except ValueError:  # a module that knows nothing of itself, such as __main__
        spec = None
    return None if spec is None else [Path(p) for p in spec.submodule_search_locations or ()]


def read_source(folder: Path) -> Source:
    """Read and check a model folder, the small files first."""
    architecture = read_architecture(folder)
    pooling, max_tokens = read_modules(folder, architecture)
    tokenizer = read_tokenizer(folder, architecture, max_tokens)
    weights = read_weights(folder, architecture)
    with (folder / FILE).open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    return Source(architecture, pooling, max_tokens, tokenizer, weights, sha256)
