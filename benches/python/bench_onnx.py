"""MiniLM through ONNX Runtime on messages of mixed lengths, beside the ways a user would write it.

    python -m benches.python.bench_onnx [FOLDER] [--texts N] [--rounds N]

FOLDER holds `model.onnx` (fp32), `model_int8.onnx` and `tokenizer.json` (rehydrate model convert);
without it, see `minilm.py`. Every way runs once a round, in turn, on 2 threads, from text to
vectors, cut at 256 tokens; figures are medians over the rounds. Needs the extras `bench` and
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
from benches.report.rows import Part, Row
from rehydrate.embedding.onnx import load_model

MAX_TOKENS = 256
THREADS = 2
BATCH = 32
INT8, FP32 = "rehydrate int8", "rehydrate fp32"
PADDED = f"peer: onnxruntime fp32, padded batches of {BATCH}"
SORTED = f"peer: onnxruntime fp32, sorted batches of {BATCH}"
LIMIT = "int8 GEMM limit (the matrix products alone)"
SHAPE = {"layers": 6, "hidden": 384, "inner": 1536}


def measure(folder: Path, count: int, rounds: int) -> Part:
    """Every way, in turn."""
    texts = mixed_texts(count)
    peer = Peer(folder)
    tokens = sum(len(ids) for ids in peer.ids(texts))
    ours = {p: load_model(folder, precision=p, threads=THREADS) for p in ("int8", "fp32")}
    ways: dict[str, Callable[[], Any]] = {
        INT8: lambda: ours["int8"].embed(texts),
        FP32: lambda: ours["fp32"].embed(texts),
        PADDED: lambda: peer.padded(texts),
        SORTED: lambda: peer.padded(texts, ordered=True),
        "peer: onnxruntime fp32, one by one": lambda: peer.one_by_one(texts),
        "peer: onnxruntime int8, one by one": lambda: peer.one_by_one(texts, int8=True),
        LIMIT: lambda: peer.products(tokens),
    }
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    for number in range(rounds):
        for way, run in ways.items():
            start = time.perf_counter()
            run()
            seconds[way].append(time.perf_counter() - start)
            print(f"  round {number + 1}, {way}: {seconds[way][-1]:.2f} s", file=sys.stderr)
    rate = {way: tokens / statistics.median(taken) for way, taken in seconds.items()}
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
            limit="The matrix products (next row), then attention, layer norms and the "
            "quantising of each layer's input, which stay in fp32",
        ),
        Row(
            "int8, share of the int8 GEMM limit",
            rate[INT8] / rate[LIMIT] * 100,
            "%",
            beyond=50,
            more_is_better=True,
            beside=f"the products alone: {rate[LIMIT]:,.0f} tokens/s",
            limit=f"The limit multiplies {MAX_TOKENS} rows at a time; a text has as many rows as "
            "tokens, and all that is no product comes on top",
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
    parser.add_argument("--texts", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    folder = find_minilm(asked.folder)
    if folder is None:
        sys.exit("bench_onnx: no model")
    print(measure(folder, asked.texts, asked.rounds).to_json())


class Peer:
    """`onnxruntime` and `tokenizers` as their documentation shows them."""

    def __init__(self, folder: Path) -> None:
        import onnxruntime as ort
        from tokenizers import Tokenizer

        self._ort = ort
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(MAX_TOKENS)
        self._fp32 = self._session(str(folder / "model.onnx"))
        self._int8 = self._session(str(folder / "model_int8.onnx"))
        self._gemm = _gemm_sessions(self._session)

    def _session(self, model: str | bytes, threads: int = THREADS) -> Any:
        options = self._ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 4
        return self._ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    def ids(self, texts: list[str]) -> list[list[int]]:
        return [encoding.ids for encoding in self._tokenizer.encode_batch(texts)]

    def padded(self, texts: list[str], *, ordered: bool = False) -> None:
        rows = self.ids(texts)
        if ordered:
            rows.sort(key=len, reverse=True)
        for start in range(0, len(rows), BATCH):
            self._run(self._fp32, rows[start : start + BATCH])

    def one_by_one(self, texts: list[str], *, int8: bool = False) -> None:
        for row in self.ids(texts):
            self._run(self._int8 if int8 else self._fp32, [row])

    def products(self, tokens: int) -> None:
        """The int8 matrix products of so many tokens, each thread its half, in large pieces."""
        from threading import Thread

        feeds = {
            name: np.full((MAX_TOKENS, SHAPE[name]), 7, np.uint8) for name in ("hidden", "inner")
        }

        def work(session: Any) -> None:
            for _ in range(tokens // THREADS // MAX_TOKENS):
                session.run(None, feeds)

        threads = [Thread(target=work, args=(session,)) for session in self._gemm]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    @staticmethod
    def _run(session: Any, rows: list[list[int]]) -> None:
        ids = np.zeros((len(rows), max(map(len, rows))), np.int64)
        mask = np.zeros_like(ids)
        for place, row in enumerate(rows):
            ids[place, : len(row)] = row
            mask[place, : len(row)] = 1
        session.run(None, {"input_ids": ids, "attention_mask": mask})


def _gemm_sessions(session: Callable[..., Any]) -> list[Any]:
    """Sessions that do MiniLM's int8 products for 256 tokens, and nothing else."""
    from onnx import TensorProto, helper, numpy_helper

    hidden, inner = SHAPE["hidden"], SHAPE["inner"]
    draw = np.random.default_rng(3)
    nodes, constants, outputs = [], [], []
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
    return [session(model, 1) for _ in range(THREADS)]


if __name__ == "__main__":
    main()
