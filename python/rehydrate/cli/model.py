"""`rehydrate model`: lists and times embedding models."""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from rehydrate.cli.options import Commands, json_option, option, read, whole
from rehydrate.cli.terminal import Column, Failure, Terminal, answer, say, size, table


def _threads(text: str) -> tuple[int, ...]:
    return tuple(map(whole, text.split(",")))


command = Commands()
part = command.within(
    "model",
    "list and time embedding models",
    "A model is made in a checkout of Rehydrate, by python -m tools.convert (docs/models.md).\n",
)


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


@part(
    "the converted models, and those in the Hugging Face cache that hold ONNX",
    json_option("the models"),
)
def _list(options: argparse.Namespace) -> None:
    models = [*_home(), *_hub(os.environ)]
    if models or options.json:
        answer(options, models, lambda terminal: _table(models, terminal))
    else:
        from rehydrate.embedding.model_files import models_home

        say(f"no models in {models_home()}; python -m tools.convert makes one, in a checkout")


def _home() -> Iterator[Listed]:
    from rehydrate.embedding.model_files import MANIFEST, installed_models

    for folder in installed_models():
        try:
            manifest = json.loads((folder / MANIFEST).read_bytes())
            files = manifest["files"].values()
            yield Listed(
                name=folder.name,
                where="home",
                dim=manifest["dim"],
                max_tokens=manifest["max_tokens"],
                precisions=tuple(manifest["precisions"]),
                bytes=sum(int(file["bytes"]) for file in files),
                sha256={file["precision"]: file["sha256"] for file in files if "precision" in file},
                path=str(folder),
            )
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            remedy = "convert it again, in a checkout: python -m tools.convert SOURCE --force"
            say(f"rehydrate: warning: {folder / MANIFEST} cannot be read: {error}; {remedy}")


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
            try:
                dim = json.loads((snapshot / "config.json").read_bytes())["hidden_size"]
            except (OSError, ValueError, KeyError, TypeError):
                dim = None
            yield Listed(
                name=repository.name.removeprefix("models--").replace("--", "/"),
                where="hub",
                dim=dim if isinstance(dim, int) else None,
                max_tokens=None,
                precisions=("fp32",),
                bytes=sum(file.stat().st_size for file in (graphs[0], snapshot / "tokenizer.json")),
                sha256={},
                path=str(snapshot),
            )


def _table(models: list[Listed], terminal: Terminal) -> Iterator[str]:
    digests = [model.sha256.get("int8") or model.sha256.get("fp32") or "" for model in models]
    columns = [
        Column("name", [terminal.safe(model.name) for model in models]),
        Column("dim", [str(model.dim or "?") for model in models], ">", 2),
        Column("tokens", [str(model.max_tokens or "?") for model in models], ">", 3),
        Column("precision", ["+".join(model.precisions) for model in models]),
        Column("size", [size(model.bytes) for model in models], ">", 1),
        Column("sha256", [digest[:12] for digest in digests], rank=4),
        Column("path", [terminal.safe(model.path) for model in models]),
    ]
    longest = max((len(model.path) for model in models), default=0)
    yield from table(columns, terminal._replace(width=terminal.width + 2 * longest))  # paths whole


SAMPLES = 32
TEXTS = (
    "Yes.",
    "The login test fails since yesterday; can you find out why?",
    "Thanks! Please also add a test for the empty list, and keep the function's name as it is.",
    "I looked at src/auth/session.py. The token is compared before it is decoded, so that a token "
    "with padding never matches. The fix is to decode both sides first and then to compare them "
    "with hmac.compare_digest, which takes the same time whatever the difference.",
    "def mean(values: list[float]) -> float:\n    if not values:\n        raise ValueError('no "
    "values')\n    return sum(values) / len(values)\n",
    '{"order_id": "A-20417", "status": "delayed", "items": [{"sku": "KB-11", "count": 2}, '
    '{"sku": "MS-07", "count": 1}], "eta": "2024-05-17T09:00:00Z"}',
    'Traceback (most recent call last):\n  File "app.py", line 41, in <module>\n    main()\n  '
    'File "app.py", line 22, in main\n    rows = load(sys.argv[1])\nFileNotFoundError: [Errno 2] '
    "No such file or directory: 'data/rows.csv'",
    "Wir fliegen am Freitag nach Lissabon und brauchen noch ein Zimmer für zwei Nächte.",
    "お誕生日おめでとう。 מזל טוב! С днём рождения.",
    "We met at the harbour in the morning and walked along the old wall to the market, where she "
    "bought a red scarf for her sister and I bought bread, olives and two small cups. It began to "
    "rain at noon. We waited under the roof of the station, talked about the summer of the long "
    "strike, about her brother's boat and about the letter that never came, and she said that she "
    "would paint the kitchen yellow if the landlord let her. In the evening the train was late by "
    "forty minutes. At home the cat had slept on the clean laundry again, the soup was cold, and "
    "there was a note from the neighbour about the broken lamp in the yard, which I promised to "
    "repair on Saturday if someone holds the ladder.",
)


class Timed(NamedTuple):
    """One model's speed: the median of the rounds, and the time to load it."""

    model: str
    precision: str
    threads: int
    texts_per_second: float
    ready_ms: float


@part(
    "time a model and the built-in one: texts a second, in turns",
    option("MODEL", "a folder, a name that `rehydrate model list` shows, or OWNER/NAME on the hub"),
    option("FILE", "a conversation to take texts from; default: a small mix", nargs="?"),
    option("--precision", "both: as far as it has them", ("fp32", "int8", "both"), "both"),
    option("--threads N,N", "threads to time it with; default: 1,2", _threads, (1, 2)),
    option("--rounds N", "times each is timed", whole, 5),
    json_option("the figures"),
)
def _bench(options: argparse.Namespace) -> None:
    import statistics

    texts = _texts(options.file)
    folder = _folder(options.model)
    contenders = list(_contenders(options, folder))
    seconds: list[list[float]] = [[] for _ in contenders]
    for number in range(options.rounds):
        say(f"  round {number + 1} of {options.rounds}")
        fresh = _uncached(texts, number)
        for times, (_, embed) in zip(seconds, contenders, strict=True):
            started = time.perf_counter()
            embed(fresh)
            times.append(time.perf_counter() - started)
    rows = [
        timed._replace(texts_per_second=len(texts) / statistics.median(times))
        for times, (timed, _) in zip(seconds, contenders, strict=True)
    ]
    shown = {"texts": len(texts), "rounds": options.rounds, "models": rows}
    answer(options, shown, lambda terminal: _speeds(rows, len(texts), terminal))


def _folder(name: str) -> Path:
    """Return a model's folder; the hub is not asked for a name without an owner, often mistyped."""
    from rehydrate.embedding.model_files import cached_snapshot, find_model, find_model_folder

    is_file = Path(name).expanduser().exists()
    is_here = is_file or find_model(name) or cached_snapshot(f"sentence-transformers/{name}")
    if "/" not in name and not is_here:
        raise Failure(
            f"{name!r} isn't a model here; pass a folder, a name that rehydrate model list shows, "
            "or OWNER/NAME, which is fetched from the hub"
        )
    return find_model_folder(name)


def _contenders(
    options: argparse.Namespace, folder: Path
) -> Iterator[tuple[Timed, Callable[[list[str]], Any]]]:
    """Yield every variant, loaded. One of the two precisions may be missing, which is printed."""
    from rehydrate import _engine
    from rehydrate.embedding.onnx import load_model
    from rehydrate.errors import ModelError

    yield _ready("built-in", 1, "int8", _engine.embed, time.perf_counter())
    wanted: tuple[Any, ...] = (options.precision,)
    precisions = ("fp32", "int8") if options.precision == "both" else wanted
    missing: ModelError | None = None
    for precision in precisions:
        for threads in options.threads:
            side_by_side = "one thread" if threads == 1 else f"{threads} threads"
            say(f"  loading {options.model} {precision}, {side_by_side}")
            started = time.perf_counter()
            try:
                model = load_model(folder, precision=precision, threads=threads)
                ready = _ready(options.model, threads, model.precision, model.embed, started)
            except ModelError as error:
                if precision == precisions[-1]:
                    raise
                missing = error
                break
            if missing:
                say(f"  without fp32: {missing}")
                missing = None
            # A model without int8 loads its fp32 graph instead.
            if model.precision != precision and len(precisions) > 1:
                say(f"  without int8: {options.model} has no such graph")
                break
            yield ready


def _ready(
    model: str, threads: int, precision: str, embed: Callable[[list[str]], Any], started: float
) -> tuple[Timed, Callable[[list[str]], Any]]:
    embed(["Ready?"])
    ready_ms = (time.perf_counter() - started) * 1e3
    return Timed(model, precision, threads, 0.0, ready_ms), embed


def _texts(file: str | None) -> list[str]:
    """Return the texts of a conversation, or a mix of about a hundred tokens each."""
    if file is None:
        return [
            "\n".join([TEXTS[(3 * index + step) % len(TEXTS)] for step in range(1 + index % 3)])
            for index in range(SAMPLES)
        ]
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


def _speeds(rows: list[Timed], texts: int, terminal: Terminal) -> Iterator[str]:
    yield f"{texts:,} texts"
    yield ""
    columns = [
        Column("model", [terminal.safe(row.model) for row in rows]),
        Column("precision", [row.precision for row in rows]),
        Column("threads", [str(row.threads) for row in rows], ">"),
        Column("texts/s", [f"{row.texts_per_second:,.0f}" for row in rows], ">"),
        Column("ready ms", [f"{row.ready_ms:,.0f}" for row in rows], ">"),
    ]
    yield from table(columns, terminal)
