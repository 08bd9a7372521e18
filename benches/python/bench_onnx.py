"""MiniLM through ONNX Runtime on messages of mixed lengths, beside the ways a user would write it.

    python -m benches.python.bench_onnx FOLDER [--texts N] [--rounds N]

FOLDER holds `model.onnx` (fp32), `model_int8.onnx` and `tokenizer.json` (rehydrate model convert).
Texts are those of $REHYDRATE_DATA (real chats and coding sessions) where it is, generated ones
elsewhere. Every way runs once a round, in turn, on 2 threads, from text to vectors, cut at 256
tokens; figures are medians over the rounds. Needs the extra `bench`, and onnxruntime.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benches.python.inputs import generated_chat, generated_session, texts_of
from rehydrate.embedding.onnx import load_model

MAX_TOKENS = 256
THREADS = 2
BATCH = 32
SHAPE = {"layers": 6, "hidden": 384, "inner": 1536}


def main() -> None:
    parser = argparse.ArgumentParser(description="MiniLM through ONNX Runtime, tokens a second.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--texts", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    texts = mixed_texts(options.texts)
    peer = Peer(options.folder)
    tokens = sum(len(ids) for ids in peer.ids(texts))
    ours = {p: load_model(options.folder, precision=p, threads=THREADS) for p in ("int8", "fp32")}
    ways: dict[str, Callable[[], Any]] = {
        f"onnxruntime fp32, padded batches of {BATCH}": lambda: peer.padded(texts),
        f"onnxruntime fp32, sorted batches of {BATCH}": lambda: peer.padded(texts, ordered=True),
        "onnxruntime fp32, one by one": lambda: peer.one_by_one(texts),
        "onnxruntime int8, one by one": lambda: peer.one_by_one(texts, int8=True),
        "rehydrate fp32": lambda: ours["fp32"].embed(texts),
        "rehydrate int8": lambda: ours["int8"].embed(texts),
        "int8 GEMM limit (the matrix products alone)": lambda: peer.products(tokens),
    }
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(options.rounds):
        for way, run in ways.items():
            start = time.perf_counter()
            run()
            seconds[way].append(time.perf_counter() - start)
    base = statistics.median(next(iter(seconds.values())))
    print(f"{len(texts)} texts, {tokens} tokens, mean {tokens / len(texts):.0f}, {THREADS} threads")
    for way, taken in seconds.items():
        median = statistics.median(taken)
        print(f"{way:<46}{tokens / median:>9,.0f} tokens/s{base / median:>7.2f} x")


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


def mixed_texts(count: int) -> list[str]:
    """Half chat, half coding session, drawn the same way every time."""
    chat, code = list(_chats()), list(_sessions())
    draw = random.Random(0)
    half = count // 2
    texts = draw.sample(chat, min(half, len(chat))) + draw.sample(code, min(half, len(code)))
    draw.shuffle(texts)
    return texts


def _data() -> Path | None:
    folder = Path(os.environ.get("REHYDRATE_DATA", ""))
    return folder if (folder / "locomo_dev.json").is_file() else None


def _chats() -> Iterator[str]:
    data = _data()
    if data is None:
        yield from dict.fromkeys(texts_of(generated_chat(2_000)))
        return
    conversations = json.loads((data / "locomo_dev.json").read_text(encoding="utf-8"))
    yield from dict.fromkeys(_turns(conversations))


def _turns(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("text"), str) and "speaker" in value:
            yield value["text"]
        for inner in value.values():
            yield from _turns(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _turns(inner)


def _sessions() -> Iterator[str]:
    data = _data()
    found: dict[str, None] = {}
    if data is None:
        found |= dict.fromkeys(texts_of(generated_session()))
    else:
        for file in sorted((data / "claude_code").glob("*.jsonl")):
            lines = file.read_text(encoding="utf-8").splitlines()
            found |= dict.fromkeys(texts_of([json.loads(line) for line in lines if line.strip()]))
    yield from (text for text in found if text.strip())


if __name__ == "__main__":
    main()
