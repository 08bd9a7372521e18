"""`rehydrate model list`: the models that can be used without a network."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from rehydrate.cli.output import say, show
from rehydrate.cli.terminal import Terminal, display_width, pad


class Listed(NamedTuple):
    """One model: in `where` home or hub, with the hash of each precision's graph where known."""

    name: str
    where: str
    dim: int | None
    max_tokens: int | None
    precisions: tuple[str, ...]
    bytes: int
    sha256: dict[str, str]
    path: str


def add_parser(parts: Any) -> None:
    """Declare the command and its options."""
    parser = parts.add_parser(
        "list",
        help="the models that are here",
        description="The converted models, and those in the Hugging Face cache that hold ONNX.",
    )
    parser.add_argument("--json", action="store_true", help="the models as JSON")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print every model that is found."""
    models = [*_home(), *_hub(os.environ)]
    terminal = Terminal.of(sys.stdout)
    if options.json:
        show([json.dumps([model._asdict() for model in models], indent=2)], terminal)
    elif models:
        show(_table(models, terminal), terminal)
    else:
        from rehydrate.embedding.home import models_home

        say(f"no models in {models_home()}; next: rehydrate model convert --help")
    return 0


def _home() -> Iterator[Listed]:
    from rehydrate.embedding.home import installed_models
    from rehydrate.embedding.manifest import Manifest
    from rehydrate.errors import InvalidArgumentError

    for folder in installed_models():
        try:
            manifest = Manifest.read(folder)
        except InvalidArgumentError as error:
            say(f"rehydrate: warning: {error}")
            continue
        yield Listed(
            name=folder.name,
            where="home",
            dim=manifest.dim,
            max_tokens=manifest.max_tokens,
            precisions=manifest.precisions,
            bytes=manifest.file_bytes,
            sha256={
                file["precision"]: file["sha256"]
                for file in manifest.files.values()
                if "precision" in file
            },
            path=str(folder),
        )


def _hub(environ: Mapping[str, str]) -> Iterator[Listed]:
    """Models with a tokenizer and an ONNX graph in the cache that huggingface_hub fills."""
    home = environ.get("HF_HOME") or str(Path.home() / ".cache" / "huggingface")
    cache = Path(environ.get("HF_HUB_CACHE") or Path(home) / "hub")
    for repository in sorted(cache.glob("models--*")):
        for snapshot in sorted(repository.glob("snapshots/*")):
            graphs = [
                file
                for file in (snapshot / "model.onnx", snapshot / "onnx" / "model.onnx")
                if file.is_file()
            ]
            if not graphs or not (snapshot / "tokenizer.json").is_file():
                continue
            yield Listed(
                name=repository.name.removeprefix("models--").replace("--", "/"),
                where="hub",
                dim=_hidden_size(snapshot / "config.json"),
                max_tokens=None,
                precisions=("fp32",),
                bytes=sum(file.stat().st_size for file in (graphs[0], snapshot / "tokenizer.json")),
                sha256={},
                path=str(snapshot),
            )


def _hidden_size(file: Path) -> int | None:
    try:
        size = json.loads(file.read_bytes())["hidden_size"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return size if isinstance(size, int) else None


def _table(models: list[Listed], terminal: Terminal) -> Iterator[str]:
    rows = [("name", "dim", "tokens", "precision", "MB", "sha256", "path")]
    for model in models:
        known = model.sha256.get("int8") or model.sha256.get("fp32") or ""
        rows.append(
            (
                terminal.safe(model.name),
                str(model.dim or "?"),
                str(model.max_tokens or "?"),
                "+".join(model.precisions),
                f"{model.bytes / 1e6:.1f}",
                known[:12],
                terminal.safe(model.path),
            )
        )
    widths = [max(map(display_width, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = zip(row, widths, "<>><><<", strict=True)
        yield "  ".join([pad(*cell) for cell in cells]).rstrip()
