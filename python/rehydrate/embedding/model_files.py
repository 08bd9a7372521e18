"""The files of a model folder: graph, tokenizer, maximum tokens and pooling.

It reads three layouts: ours (`python -m tools.convert`), a plain `model.onnx` next to
`tokenizer.json`, and that of sentence-transformers with its graph under `onnx/`.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import mmap
import struct
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from rehydrate._check import check_whole
from rehydrate.embedding.locations import MANIFEST
from rehydrate.errors import InvalidArgumentError, ModelError

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Manifest:
    """The model in a folder: the shape of its vectors, its files, its origin.

    `files` maps a file's name to its `sha256`, its `bytes` and, for a graph, its `precision`.
    `max_tokens` is the length the model was made for, `positions` the longest its graph takes.
    """

    name: str
    dim: int
    max_tokens: int
    positions: int
    pooling: str
    normalize: bool
    precisions: tuple[str, ...]
    opset: int
    files: dict[str, dict[str, Any]]
    source: dict[str, str]
    checks: dict[str, dict[str, float]]
    converter: str
    format: int = FORMAT

    def to_json(self) -> bytes:
        """Return the bytes of the manifest file."""
        return (json.dumps(asdict(self), indent=2, ensure_ascii=False) + "\n").encode()

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        """Read the manifest in a folder.

        Raises:
            InvalidArgumentError: it is missing, damaged, or of a newer format.
        """
        file = folder / MANIFEST
        remedy = "convert it again, in a checkout: python -m tools.convert SOURCE --force"
        try:
            content = json.loads(file.read_bytes())
            content["precisions"] = tuple(content["precisions"])
            manifest = cls(**content)
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise InvalidArgumentError(f"{file} cannot be read: {error}; {remedy}") from None
        if manifest.format != FORMAT:
            raise InvalidArgumentError(
                f"{file} has format {manifest.format!r}, this version reads {FORMAT}; {remedy}"
            )
        return manifest

    @property
    def file_bytes(self) -> int:
        """Return the total size of the files."""
        return sum(int(file["bytes"]) for file in self.files.values())


Precision = Literal["int8", "fp32"]

DEFAULT_MAX_TOKENS = 256
"""The default where no file sets it; sentence-transformers cuts MiniLM at this length."""

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
    """Whether a text's vector is that of its first token, where the graph does not pool."""
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
    _check_growth(tokenizer)
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


def _read(file: Path) -> tuple[str, bool]:
    """Return a file's sha256, and whether it quantises at run time."""
    try:
        with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as m:
            return hashlib.sha256(m).hexdigest(), m.find(b"DynamicQuantize") >= 0
    except (OSError, ValueError) as error:  # an empty file cannot be mapped
        raise ModelError(file, f"cannot be read: {error}", _AGAIN) from None


MAX_GROWTH = 256
"""How many characters a tokenizer may make of one: a few replacements of replacements would take
all memory for a short text."""


def _check_growth(tokenizer: Path) -> None:
    """Raise ModelError for a tokenizer that makes too much of a text before it reads it."""
    content = _read_json(tokenizer)
    try:
        growth = _growth(content.get("normalizer")) * _growth(content.get("pre_tokenizer"))
    except (RecursionError, TypeError, ValueError, AttributeError):
        return  # no tokenizer: whoever reads it says so
    if growth > MAX_GROWTH:
        problem = f"makes up to {growth:.3g} characters of one; the limit is {MAX_GROWTH}"
        raise ModelError(tokenizer, problem, _AGAIN)


def _growth(step: Any) -> float:
    """Return how many characters one may become in a step of a tokenizer, and in those inside."""
    if not isinstance(step, dict):
        return 1.0
    inside = [*(step.get("normalizers") or ()), *(step.get("pretokenizers") or ())]
    growth = float(math.prod(map(_growth, inside)))
    kind = step.get("type")
    if kind == "Replace":
        replaced = step["pattern"].get("String") or ""
        content = len(step["content"])
        # A regular expression may match between any two characters.
        growth *= max(content / len(replaced), 1.0) if replaced else 1.0 + content
    elif kind == "Prepend":
        growth *= 1.0 + len(step["prepend"])
    elif kind == "Precompiled":
        growth *= _longest_of(step["precompiled_charsmap"])
    return growth


def _longest_of(charsmap: str) -> float:
    """Return the longest text that SentencePiece's table puts in a character's place."""
    blob = base64.b64decode(charsmap)
    (trie,) = struct.unpack_from("<I", blob)
    return float(max(map(len, blob[4 + trie :].split(b"\0")), default=1) or 1)


def check_weights_inside(graph: Path, version: str) -> None:
    """Raise ModelError where a graph may keep weights in another file, and this version of ONNX
    Runtime would follow its path, out of the folder too; 1.24 and later refuse that themselves."""
    numbers = [int(part) for part in version.split(".")[:2] if part.isdecimal()]
    if numbers >= [1, 24]:
        return
    with graph.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as m:
        if m.find(b"location") < 0:
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
    try:
        with (
            graph.open("rb") as opened,
            mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as whole,
        ):
            named = [file for file in others if whole.find(file.name.encode()) >= 0]
    except (OSError, ValueError) as error:
        raise ModelError(graph, f"cannot be read: {error}", _AGAIN) from None
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
    """Return the object in a file; an empty one where there is no such file."""
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
