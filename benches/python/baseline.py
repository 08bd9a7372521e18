"""A cold compaction compared with the plain Python that a user would write with MiniLM.

    python -m benches.python.baseline [FOLDER] [--units N]

FOLDER as for `bench_onnx.py`. The plain way runs once, for it takes a while; its careful variants
differ in how they embed alone. Needs the groups `bench` and `test`.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

import rehydrate
from benches.python import peers
from benches.python.inputs import QUERY, RATIO, generated_session, texts_of
from benches.python.minilm import find_minilm
from benches.python.session_model import BATCH, MAX_TOKENS, SessionModel
from benches.report.rows import Part, Row
from benches.report.size import SIZE
from rehydrate import _native

MEMORIES, RECALLED, DIMENSIONS = 10_000, 3, 384
ROUNDS = 5
THREADS = 2

Vectors = NDArray[np.float32]
Seconds = dict[str, float]


def plain_python(
    texts: Sequence[str], query: str, embed: Callable[[Sequence[str]], Vectors], memory: Any
) -> tuple[list[int], Seconds]:
    """Embed, recall, count, score, sort, pack; return the texts kept, and the time of each step."""
    took: Seconds = {}
    started = time.perf_counter()

    def lap(step: str) -> None:
        nonlocal started
        now = time.perf_counter()
        took[step] = now - started
        started = now

    vectors = embed([*texts, query])
    similarity = vectors[:-1] @ vectors[-1]
    lap("embedding")
    known = [1.0 - memory.search(vector, RECALLED).distances for vector in vectors[:-1]]
    coverage = [float(np.max(found, initial=0.0)) for found in known]
    lap("recall")
    encode = peers.encoding("o200k_base").encode_ordinary
    tokens = [len(encode(text)) for text in texts]
    lap("counting")
    names = [peers.names_of(text) for text in texts]
    lap("names")
    kept = peers.keep_best(tokens, [float(s) for s in similarity], names, RATIO, coverage)
    lap("scoring and packing")
    return kept, took


def measure(folder: Path, units: int) -> Part:
    """Run the plain ways once each, ours several times, in one process."""
    session = generated_session(units=units, size_bytes=500_000 * units // 305)
    texts = texts_of(session)
    peers.encoding("o200k_base")  # its tables are built before the clock runs
    ways = {
        f"plain: fp32, padded batches of {BATCH}": _embedder(folder, int8=False, batch=BATCH),
        "careful: fp32, one by one": _embedder(folder, int8=False, batch=1),
        "careful: int8, one by one": _embedder(folder, int8=True, batch=1),
    }
    ours = {
        "rehydrate": _ours(session, "builtin"),
        "rehydrate, MiniLM int8": _ours(session, str(folder)),
    }
    # Imported late: usearch 2.26 puts its symbols before everyone's, and an onnxruntime loaded
    # after it ends the process.
    memory = _memory()
    plain: Seconds = {}
    steps: dict[str, Seconds] = {}
    for way, embed in ways.items():
        _, steps[way] = plain_python(texts, QUERY, embed, memory)
        plain[way] = sum(steps[way].values())
        print(f"  {way}: {plain[way]:.1f} s", file=sys.stderr, flush=True)
    size = sum(len(text.encode()) for text in texts)
    about = (
        f"The session of {units} units: {len(texts):,} texts, {size / 1e6:.2f} MB, a query, a "
        f"ratio of {RATIO}. Plain Python is what a user would write: `tokenizers` and MiniLM in "
        f"`onnxruntime` in padded batches of {BATCH} cut at {MAX_TOKENS} tokens, numpy cosine, "
        f"`usearch` k={RECALLED} over {MEMORIES:,} memories, `tiktoken`, names by regular "
        "expression, the three-signal formula, a sort, greedy. Its models, its index and its "
        f"tables are loaded before. Both have {THREADS} threads; the plain way runs once, ours "
        f"{ROUNDS} times (medians), the built-in embedder, nothing seen before. Ours recalls "
        "nothing here, as no memory is given; the plain way without its recall is next to it."
    )
    return Part("Cold, against plain Python with MiniLM", about, _rows(ours, plain, steps))


def _rows(ours: Seconds, plain: Seconds, steps: dict[str, Seconds]) -> list[Row]:
    first = next(iter(plain))
    careful = ", ".join(
        f"{seconds / ours['rehydrate']:,.0f} x {way}" for way, seconds in list(plain.items())[1:]
    )
    unrecalled = (plain[first] - steps[first]["recall"]) / ours["rehydrate"]
    rows = [
        Row(
            "cold, balanced, query: plain Python takes",
            plain[first] / ours["rehydrate"],
            "x",
            200,
            500,
            more_is_better=True,
            beside=f"{ours['rehydrate'] * 1e3:.1f} ms against {plain[first]:.1f} s; without "
            f"recall {unrecalled:,.0f} x; {careful}",
            limit="The plain way is nearly all transformer; ours reads each text once for "
            "counts, words, names and vectors",
        ),
        Row(
            "cold, balanced, query, MiniLM int8: plain Python takes",
            plain[first] / ours["rehydrate, MiniLM int8"],
            "x",
            more_is_better=True,
            beside=f"{ours['rehydrate, MiniLM int8'] * 1e3:,.0f} ms",
            limit="The same transformer: 21 MFLOP a token",
        ),
    ]
    for way, seconds in plain.items():
        parts = ", ".join(f"{name} {took:.3g} s" for name, took in steps[way].items())
        rows.append(Row(f"peer: {way}", seconds, "s", beside=parts))
    return rows


def _ours(session: list[Any], embedder: str) -> float:
    """Return the seconds of a call with empty caches."""
    rehydrate.compact_context(session[:4], QUERY, RATIO, embedder=embedder)  # loads the model
    took = []
    for _ in range(ROUNDS):
        _native.clear_cache()
        gc.collect()
        started = time.perf_counter()
        rehydrate.compact_context(session, QUERY, RATIO, embedder=embedder)
        took.append(time.perf_counter() - started)
    return median(took)


def _embedder(folder: Path, *, int8: bool, batch: int) -> Callable[[Sequence[str]], Vectors]:
    model = SessionModel(folder, int8=int8, threads=THREADS)
    model.embed(["ready"], batch)
    return lambda texts: model.embed(texts, batch)


def _memory() -> Any:
    """Return an index of vectors of length 1; their texts do not matter to the time."""
    from usearch.index import Index  # type: ignore[import-not-found, unused-ignore]

    draw = np.random.default_rng(5).standard_normal((MEMORIES, DIMENSIONS), np.float32)
    draw /= np.linalg.norm(draw, axis=1, keepdims=True)
    index = Index(ndim=DIMENSIONS, metric="cos")
    index.add(np.arange(MEMORIES), draw)
    return index


def main() -> None:
    """Print the part."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--units", type=int, default=SIZE.baseline_units)
    asked = parser.parse_args()
    folder = find_minilm(asked.folder)
    if folder is None:
        sys.exit("baseline: no model")
    print(measure(folder, asked.units).to_json())


if __name__ == "__main__":
    main()
