"""rehydrate.json: what a converted model folder says of itself."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rehydrate.embedding.home import MANIFEST
from rehydrate.errors import InvalidArgumentError

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Manifest:
    """The model in a folder: the shape of its vectors, its files, where it comes from.

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
        """The file's bytes."""
        return (json.dumps(asdict(self), indent=2, ensure_ascii=False) + "\n").encode()

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        """The manifest in a folder.

        Raises:
            InvalidArgumentError: it is missing, damaged, or of a newer format.
        """
        file = folder / MANIFEST
        remedy = "convert the model again: rehydrate model convert SOURCE --force"
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
        """What all the files weigh together."""
        return sum(int(file["bytes"]) for file in self.files.values())
