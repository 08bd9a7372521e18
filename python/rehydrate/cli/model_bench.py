"""`rehydrate model bench`: times a model on this machine, next to the built-in one."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from rehydrate.cli.options import add_command, whole
from rehydrate.cli.terminal import Terminal, say, show, table

SAMPLES = 32


class Timed(NamedTuple):
    """One model's speed: the median of the rounds, and the time to load it."""

    model: str
    precision: str
    threads: int
    texts_per_second: float
    tokens_per_second: float | None
    ready_ms: float


def add_parser(parts: Any) -> None:
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
        show(_table(rows, len(texts), tokens, terminal), terminal)
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


def _table(rows: list[Timed], texts: int, tokens: int | None, terminal: Terminal) -> Iterator[str]:
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
