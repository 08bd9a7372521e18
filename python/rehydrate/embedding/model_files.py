"""The files of a model folder: graph, tokenizer, maximum tokens and pooling.

It reads three layouts: ours (`python -m tools.convert`), a plain `model.onnx` next to
`tokenizer.json`, and that of sentence-transformers with its graph under `onnx/`.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, NamedTuple

from rehydrate._check import check_type, check_whole
from rehydrate.errors import InvalidArgumentError, ModelError

MANIFEST = "rehydrate.json"
"""The file that describes a model folder; a folder with it is one of ours."""

MODEL_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")


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


def find_model(name: str, environ: Mapping[str, str] = os.environ) -> Path | None:
    """Return the folder of the converted model of this name, or None if there is none.

    >>> find_model("minilm", {"REHYDRATE_HOME": "/nowhere"}) is None
    True
    """
    if not MODEL_NAME.fullmatch(name):
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
        if MODEL_NAME.fullmatch(folder.name) and (folder / MANIFEST).is_file()
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
    if it is in none of these places.
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
        problem = f"isn't a folder, and has no ONNX model in {hub_cache()}"
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


Precision = Literal["int8", "fp32"]

DEFAULT_MAX_TOKENS = 256
"""The default if no file sets it; sentence-transformers cuts MiniLM at this length."""

_DEFAULT_MAX_TOKENS_LIMIT = 512
_FEWEST_TOKENS = 8
_INT8 = ("model_int8.onnx", "model_quantized.onnx")
_AGAIN = "get the model again, or make it in a checkout: python -m tools.convert"


class ModelFiles(NamedTuple):
    """A model's files, and how to run them."""

    graph: Path
    tokenizer: Path
    precision: Precision
    max_tokens: int
    first_token: bool
    """Whether a text's vector is that of its first token, if the graph does not pool."""
    quantised_at_run_time: bool
    """Whether a text's vector depends on the other texts of its batch."""
    digest: str
    """Hash of graph, weights and tokenizer."""


def read_model_files(folder: Path, precision: Precision, max_tokens: int | None) -> ModelFiles:
    """Find and check the files of a model.

    Raises ModelError for files missing or damaged, InvalidArgumentError for a `max_tokens` that the
    model cannot take.
    """
    manifest = _read_json(folder / "rehydrate.json")
    graph, found = _graph(folder, precision)
    tokenizer = _existing(folder, ["tokenizer.json", "onnx/tokenizer.json"])
    if tokenizer is None:
        raise ModelError(folder, "holds no tokenizer.json", _AGAIN)
    hashes = []
    quantised = False
    for file in (graph, tokenizer):
        digest, dynamic = _read(file)
        quantised |= dynamic
        stated = _get(manifest, "files", file.name, "sha256")
        if stated is not None and stated != digest:
            problem = f"is damaged: its sha256 is {digest[:16]}..., rehydrate.json says {stated}"
            raise ModelError(file, problem, _AGAIN)
        hashes.append(digest[:16])
    hashes[0] = _with_weights(graph, hashes[0])
    return ModelFiles(
        graph=graph,
        tokenizer=tokenizer,
        precision=found,
        max_tokens=_max_tokens(folder, manifest, max_tokens),
        first_token=_first_token(folder, manifest),
        quantised_at_run_time=quantised or found == "int8",
        digest="-".join(hashes),
    )


def _graph(folder: Path, precision: Precision) -> tuple[Path, Precision]:
    if precision == "int8":
        quantised = _existing(folder, [f"{sub}{name}" for sub in ("", "onnx/") for name in _INT8])
        if quantised is not None:
            return quantised, "int8"
    graph = _existing(folder, ["model.onnx", "onnx/model.onnx"])
    if graph is not None:
        return graph, "fp32"
    remedy = _AGAIN
    if (folder / "model.safetensors").is_file():
        remedy = f"make it in a checkout: python -m tools.convert {folder}"
    raise ModelError(folder, "holds no model.onnx", remedy)


def _existing(folder: Path, names: list[str]) -> Path | None:
    return next((folder / name for name in names if (folder / name).is_file()), None)


@contextmanager
def _mapped(file: Path) -> Iterator[mmap.mmap]:
    try:
        with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as m:
            yield m
    except (OSError, ValueError) as error:  # an empty file cannot be mapped
        raise ModelError(file, f"cannot be read: {error}", _AGAIN) from None


def _read(file: Path) -> tuple[str, bool]:
    """Return a file's sha256, and whether it quantises at run time."""
    with _mapped(file) as content:
        return hashlib.sha256(content).hexdigest(), content.find(b"DynamicQuantize") >= 0


def check_weights_inside(graph: Path, version: str) -> None:
    """Raise ModelError if a graph may keep weights in another file, and this version of ONNX
    Runtime would follow its path, out of the folder too; 1.24 and later refuse that themselves."""
    numbers = [int(part) for part in version.split(".")[:2] if part.isdecimal()]
    if numbers >= [1, 24]:
        return
    with _mapped(graph) as content:
        if content.find(b"location") < 0:
            return
    raise ModelError(
        graph,
        f"may keep weights in other files, which ONNX Runtime {version} follows anywhere",
        "upgrade it: pip install --upgrade onnxruntime",
    )


def _with_weights(graph: Path, digest: str) -> str:
    """Return a digest of a graph and the weight files that it names. Weights above 2 GB, or
    exported so, are separate files; after new training only they may differ."""
    others = [file for file in sorted(graph.parent.iterdir()) if file != graph and file.is_file()]
    with _mapped(graph) as content:
        named = [file for file in others if content.find(file.name.encode()) >= 0]
    if not named:
        return digest
    combined = hashlib.sha256(digest.encode())
    for file in named:
        combined.update(f"{file.name}:{_read(file)[0]}".encode())
    return combined.hexdigest()[:16]


def _max_tokens(folder: Path, manifest: dict[str, Any], given: int | None) -> int:
    config = _read_json(folder / "config.json")
    longest = manifest.get("positions", config.get("max_position_embeddings"))
    if given is not None:
        check_whole("max_tokens", given, _FEWEST_TOKENS)
        if isinstance(longest, int) and given > longest:
            raise InvalidArgumentError(
                f"max_tokens is {given}, the model in {folder} takes {longest}; pass at most that"
            )
        return given
    sentence = _read_json(folder / "sentence_bert_config.json")
    for stated in (manifest.get("max_tokens"), sentence.get("max_seq_length")):
        if isinstance(stated, int) and stated >= _FEWEST_TOKENS:
            return min(stated, _DEFAULT_MAX_TOKENS_LIMIT)
    return DEFAULT_MAX_TOKENS


def _first_token(folder: Path, manifest: dict[str, Any]) -> bool:
    pooling = _read_json(folder / "1_Pooling" / "config.json")
    stated = manifest.get("pooling")
    return stated == "cls" if stated else pooling.get("pooling_mode_cls_token") is True


def _read_json(file: Path) -> dict[str, Any]:
    """Return the object in a file; an empty one if there is no such file."""
    try:
        content = json.loads(file.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(file, f"cannot be read as JSON: {error}", _AGAIN) from None
    if not isinstance(content, dict):
        raise ModelError(file, f"holds a {type(content).__name__}, expected an object", _AGAIN)
    return content


def _get(content: Any, *keys: str) -> Any:
    for key in keys:
        content = content.get(key) if isinstance(content, dict) else None
    return content
