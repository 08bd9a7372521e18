"""MiniLM through ONNX Runtime on messages of mixed lengths, and the ways a user would write it.

    python -m benches.python.bench_onnx [FOLDER] [--texts N] [--rounds N]

FOLDER holds `model.onnx` (fp32), `model_int8.onnx` and `tokenizer.json` (python -m tools.convert);
without it, see `minilm.py`. Every way runs once a round, in turn, on 2 threads, from text to
vectors, cut at 256 tokens; figures are medians over the rounds. Needs the groups `bench` and
`convert`.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benches.python.minilm import find_minilm
from benches.python.mixed_texts import mixed_texts
from benches.python.session_model import BATCH, MAX_TOKENS, SessionModel, open_session
from benches.report.rows import Part, Row
from benches.report.size import SIZE
from rehydrate.embedding import load_model

THREADS = 2
INT8, FP32 = "rehydrate int8", "rehydrate fp32"
PADDED = f"peer: onnxruntime fp32, padded batches of {BATCH}"
SORTED = f"peer: onnxruntime fp32, sorted batches of {BATCH}"
LIMIT = "int8 GEMM limit (the matrix products alone)"
SHAPE = {"layers": 6, "hidden": 384, "inner": 1536}


def measure(folder: Path, count: int, rounds: int) -> Part:
    """Run every way, in turn."""
    texts = mixed_texts(count)
    fp32 = SessionModel(folder, int8=False, threads=THREADS)
    int8 = SessionModel(folder, int8=True, threads=THREADS)
    products = Products()
    tokens = sum(len(ids) for ids in fp32.ids(texts))
    ours = {p: load_model(folder, precision=p, threads=THREADS) for p in ("int8", "fp32")}
    ways: dict[str, Callable[[], Any]] = {
        INT8: lambda: ours["int8"].embed(texts),
        FP32: lambda: ours["fp32"].embed(texts),
        PADDED: lambda: fp32.embed(texts),
        SORTED: lambda: fp32.embed(texts, ordered=True),
        "peer: onnxruntime fp32, one by one": lambda: fp32.embed(texts, 1),
        "peer: onnxruntime int8, one by one": lambda: int8.embed(texts, 1),
        LIMIT: lambda: products.run(tokens),
    }
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    for number in range(rounds):
        for way, run in ways.items():
            start = time.perf_counter()
            run()
            seconds[way].append(time.perf_counter() - start)
            print(f"  round {number + 1}, {way}: {seconds[way][-1]:.2f} s", file=sys.stderr)
    done = dict.fromkeys(ways, tokens) | {LIMIT: products.tokens(tokens)}
    rate = {way: done[way] / statistics.median(taken) for way, taken in seconds.items()}
    about = (
        f"MiniLM, from text to vectors: {len(texts)} texts, half chat, half coding session, "
        f"{tokens:,} tokens, {tokens / len(texts):.0f} on average, cut at {MAX_TOKENS}; {THREADS} "
        f"threads each; medians of {rounds} rounds that take turns."
    )
    return Part("MiniLM through ONNX Runtime", about, _rows(rate))


def _rows(rate: dict[str, float]) -> list[Row]:
    def against_padded(way: str) -> str:
        return f"{rate[way] / rate[PADDED]:.2f} times the padded batches"

    rows = [
        Row(
            f"int8, against padded fp32 batches of {BATCH} in onnxruntime",
            rate[INT8] / rate[PADDED],
            "x",
            4,
            more_is_better=True,
            beside=f"{rate[INT8]:,.0f} tokens/s; padded {rate[PADDED]:,.0f}; sorted by length "
            f"first {rate[SORTED]:,.0f}",
            limit="The products with the weights (next row); then all that is none: attention, "
            "layer norms, quantising each layer's input",
        ),
        Row(
            "int8, share of the int8 GEMM limit",
            rate[INT8] / rate[LIMIT] * 100,
            "%",
            60,
            more_is_better=True,
            beside=f"the products alone: {rate[LIMIT]:,.0f} tokens/s",
            limit=f"The limit multiplies {MAX_TOKENS} rows at a time; a text has as many rows as "
            "tokens, and what isn't a product with weights comes on top",
        ),
        Row(
            f"fp32, against padded fp32 batches of {BATCH} in onnxruntime",
            rate[FP32] / rate[PADDED],
            "x",
            more_is_better=True,
            beside=f"{rate[FP32]:,.0f} tokens/s",
            limit="The same products at the same precision: what is won is the padding",
        ),
    ]
    for way, value in rate.items():
        if way not in {INT8, FP32, LIMIT}:
            rows.append(
                Row(way, value, "tokens/s", more_is_better=True, beside=against_padded(way))
            )
    return rows


def main() -> None:
    """Print the part."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--texts", type=int, default=SIZE.model_texts)
    parser.add_argument("--rounds", type=int, default=SIZE.model_rounds)
    asked = parser.parse_args()
    folder = find_minilm(asked.folder)
    if folder is None:
        sys.exit("bench_onnx: no model")
    print(measure(folder, asked.texts, asked.rounds).to_json())


class Products:
    """Only MiniLM's int8 matrix products: a lower limit for the time of any int8 pass."""

    def __init__(self) -> None:
        self._sessions = _gemm_sessions()

    def tokens(self, tokens: int) -> int:
        """Return how many tokens `run` multiplies: whole pieces, as many for each thread."""
        return tokens // (THREADS * MAX_TOKENS) * THREADS * MAX_TOKENS

    def run(self, tokens: int) -> None:
        """Run the products of about this many tokens, each thread its half, in large pieces."""
        from threading import Thread

        feeds = {
            name: np.full((MAX_TOKENS, SHAPE[name]), 7, np.uint8) for name in ("hidden", "inner")
        }

        def work(session: Any) -> None:
            for _ in range(self.tokens(tokens) // (THREADS * MAX_TOKENS)):
                session.run(None, feeds)

        threads = [Thread(target=work, args=(session,)) for session in self._sessions]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def _gemm_sessions() -> list[Any]:
    """Return sessions that do only MiniLM's int8 products for 256 tokens."""
    from onnx import TensorProto, helper, numpy_helper

    hidden, inner = SHAPE["hidden"], SHAPE["inner"]
    draw = np.random.default_rng(3)
    nodes: list[Any] = []
    constants: list[Any] = []
    outputs: list[Any] = []
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.UINT8, [MAX_TOKENS, SHAPE[name]])
        for name in ("hidden", "inner")
    ]
    for layer in range(SHAPE["layers"]):
        for source, deep in (
            ("hidden", 3 * hidden),
            ("hidden", hidden),
            ("hidden", inner),
            ("inner", hidden),
        ):
            name = f"{layer}.{len(nodes)}"
            weights = draw.integers(-9, 9, (SHAPE[source], deep), np.int8)
            constants.append(numpy_helper.from_array(weights, f"w{name}"))
            nodes.append(helper.make_node("MatMulInteger", [source, f"w{name}"], [f"o{name}"]))
            outputs.append(helper.make_tensor_value_info(f"o{name}", TensorProto.INT32, None))
    graph = helper.make_graph(nodes, "products", inputs, outputs, constants)
    opset = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString()
    return [open_session(model, 1) for _ in range(THREADS)]


if __name__ == "__main__":
    main()
