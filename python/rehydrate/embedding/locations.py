"""Locations of models: a folder, a converted model by name, or one in the Hugging Face Hub's cache.

Converted models have one folder each in `$REHYDRATE_HOME/models` if that variable is set; else in
`rehydrate/models` in the user's cache (`$XDG_CACHE_HOME`, `%LOCALAPPDATA%` on Windows, `~/.cache`).

A model in no cache is fetched only through `huggingface_hub`, where that package is installed.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rehydrate._check import check_type
from rehydrate.errors import InvalidArgumentError, ModelError

MANIFEST = "rehydrate.json"
"""The file that describes a model folder; a folder with it is one of ours."""

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")


def models_home(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of all converted models; it need not exist.

    >>> models_home({"REHYDRATE_HOME": "/data/rehydrate"}).as_posix()
    '/data/rehydrate/models'
    >>> models_home({"XDG_CACHE_HOME": "/var/cache/me"}).as_posix()
    '/var/cache/me/rehydrate/models'
    """
    if home := environ.get("REHYDRATE_HOME"):
        return Path(home).expanduser() / "models"
    cache = environ.get("XDG_CACHE_HOME")
    if not cache and sys.platform == "win32":
        cache = environ.get("LOCALAPPDATA")
    return (Path(cache) if cache else Path.home() / ".cache") / "rehydrate" / "models"


def model_folder(name: str, environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder for the model of this name, whether it exists or not.

    >>> model_folder("minilm", {"REHYDRATE_HOME": "/data"}).as_posix()
    '/data/models/minilm'

    Raises:
        InvalidArgumentError: a name that could lead out of the home, or that hides.
    """
    if not _NAME.fullmatch(name):
        raise InvalidArgumentError(
            f"model name is {name[:100]!r}, expected at most 100 letters, digits, '.', '_' or '-', "
            "the first no '.' or '-'; choose a plain name"
        )
    return models_home(environ) / name


def find_model(name: str, environ: Mapping[str, str] = os.environ) -> Path | None:
    """Return the folder of the converted model of this name, or None where there is none.

    >>> find_model("minilm", {"REHYDRATE_HOME": "/nowhere"}) is None
    True
    """
    if not _NAME.fullmatch(name):
        return None
    folder = models_home(environ) / name
    return folder if (folder / MANIFEST).is_file() else None


def installed_models(environ: Mapping[str, str] = os.environ) -> list[Path]:
    """Return the folders of all converted models, sorted by name.

    >>> installed_models({"REHYDRATE_HOME": "/nowhere"})
    []
    """
    home = models_home(environ)
    if not home.is_dir():
        return []
    return sorted(
        folder
        for folder in home.iterdir()
        if _NAME.fullmatch(folder.name) and (folder / MANIFEST).is_file()
    )


FILES = (
    "tokenizer.json",
    "config.json",
    "rehydrate.json",
    "sentence_bert_config.json",
    "1_Pooling/config.json",
    "model.onnx",
    "model_int8.onnx",
    "onnx/model.onnx",
    "onnx/model_int8.onnx",
    "onnx/model_quantized.onnx",
)
"""The files fetched of a repository: a graph, its tokenizer, and their settings."""

_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]{0,95}(/[A-Za-z0-9][\w.-]{0,95})?", re.ASCII)
_OWNER = "sentence-transformers"
_MAKE = (
    "pass a folder with model.onnx and tokenizer.json, or make one in a checkout: "
    "python -m tools.convert"
)


def find_model_folder(name_or_path: str | os.PathLike[str]) -> Path:
    """Find a model's folder: a path, a converted model's name, or `org/name` on the hub.

    As on the hub, a name without an owner means one of sentence-transformers. Raises ModelError
    where it is in none of these places.
    """
    check_type("name_or_path", name_or_path, (str, os.PathLike), "pass a model's folder or name")
    path = Path(name_or_path).expanduser()
    if path.is_dir():
        return path.absolute()
    if path.is_file():
        return path.absolute().parent
    name = os.fspath(name_or_path)
    if converted := find_model(name):
        return converted.absolute()
    if not _REPOSITORY.fullmatch(name) or ".." in name:
        raise ModelError(name, "no such folder", _MAKE)
    repository = name if "/" in name else f"{_OWNER}/{name}"
    snapshot = cached_snapshot(repository)
    if snapshot is not None and _is_usable(snapshot):
        return snapshot
    return _fetch(repository, snapshot)


def hub_cache(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the hub's cache folder, by the hub's own rules.

    >>> hub_cache({"HF_HOME": "/data/hf"}).as_posix()
    '/data/hf/hub'
    """
    if folder := environ.get("HF_HUB_CACHE") or environ.get("HUGGINGFACE_HUB_CACHE"):
        return Path(folder).expanduser()
    if home := environ.get("HF_HOME"):
        return Path(home).expanduser() / "hub"
    cache = environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "huggingface" / "hub"


def cached_snapshot(repository: str, environ: Mapping[str, str] = os.environ) -> Path | None:
    """Return the newest cached snapshot of a repository, as its main branch names it."""
    folder = hub_cache(environ) / ("models--" + repository.replace("/", "--"))
    try:
        commit = (folder / "refs" / "main").read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return None
    snapshot = folder / "snapshots" / commit
    return snapshot if re.fullmatch(r"\w+", commit) and snapshot.is_dir() else None


def _is_usable(folder: Path) -> bool:
    graphs = [name for name in FILES if name.endswith(".onnx")]
    return (folder / "tokenizer.json").is_file() and any((folder / g).is_file() for g in graphs)


def _fetch(repository: str, snapshot: Path | None) -> Path:
    remedy = _MAKE
    if snapshot is not None and (snapshot / "model.safetensors").is_file():
        remedy = f"convert what is there, in a checkout: python -m tools.convert {snapshot}"
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in {"1", "TRUE", "YES", "ON"}:
        raise ModelError(repository, f"has no ONNX model in {hub_cache()}, and offline", remedy)
    if find_spec("huggingface_hub") is None:
        problem = f"is no folder, and has no ONNX model in {hub_cache()}"
        install = "; or, to fetch it, pip install huggingface_hub"
        raise ModelError(repository, problem, remedy + install)
    try:
        hub: Any = import_module("huggingface_hub")
        folder = Path(hub.snapshot_download(repository, allow_patterns=list(FILES)))
    except Exception as error:
        reason = str(error).strip().partition("\n")[0]
        problem = f"could not be fetched: {type(error).__name__}: {reason}"
        raise ModelError(repository, problem, remedy) from error
    if not _is_usable(folder):
        problem = "has no ONNX model and tokenizer.json on the hub"
        raise ModelError(repository, problem, remedy)
    return folder
