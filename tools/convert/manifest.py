"""The manifest of a converted model, and the folder that a model of a name goes to."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rehydrate.embedding.model_files import MANIFEST, MODEL_NAME, models_home
from rehydrate.errors import InvalidArgumentError

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


def model_folder(name: str, environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder for the model of this name, whether it exists or not.

    >>> model_folder("minilm", {"REHYDRATE_HOME": "/data"}).as_posix()
    '/data/models/minilm'

    Raises:
        InvalidArgumentError: a name that could lead out of the home, or that hides.
    """
    if not MODEL_NAME.fullmatch(name):
        raise InvalidArgumentError(
            f"model name is {name[:100]!r}, expected at most 100 letters, digits, '.', '_' or '-', "
            "the first no '.' or '-'; choose a plain name"
        )
    return models_home(environ) / name
