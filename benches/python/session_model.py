"""A sentence-transformer by `onnxruntime` and `tokenizers`, as their documentation shows it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

MAX_TOKENS = 256
BATCH = 32


def open_session(model: str | bytes, threads: int) -> Any:
    """Open a session on the processor alone, with this many threads."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


class SessionModel:
    """Texts to vectors, in batches that are padded to their longest text."""

    def __init__(self, folder: Path, *, int8: bool, threads: int) -> None:
        """Load a graph of the folder and its tokenizer."""
        from tokenizers import Tokenizer

        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(MAX_TOKENS)
        name = "model_int8.onnx" if int8 else "model.onnx"
        self._session = open_session(str(folder / name), threads)

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the tokens of each text, cut."""
        return [encoding.ids for encoding in self._tokenizer.encode_batch(list(texts))]

    def embed(
        self, texts: Sequence[str], batch: int = BATCH, *, ordered: bool = False
    ) -> NDArray[np.float32]:
        """Return vectors of length 1; `ordered` takes the longest first, and returns that order."""
        rows = self.ids(texts)
        if ordered:
            rows.sort(key=len, reverse=True)
        found = [self._run(rows[start : start + batch]) for start in range(0, len(rows), batch)]
        vectors: NDArray[np.float32] = np.concatenate(found)
        return vectors

    def _run(self, rows: list[list[int]]) -> NDArray[np.float32]:
        ids = np.zeros((len(rows), max(map(len, rows))), np.int64)
        mask = np.zeros_like(ids)
        for place, row in enumerate(rows):
            ids[place, : len(row)] = row
            mask[place, : len(row)] = 1
        (found, *_) = self._session.run(None, {"input_ids": ids, "attention_mask": mask})
        if found.ndim == 3:
            found = (found * mask[:, :, None]).sum(1) / mask.sum(1, keepdims=True)
        vectors: NDArray[np.float32] = found / np.linalg.norm(found, axis=1, keepdims=True)
        return vectors
