"""OnnxModel: a transformer through ONNX Runtime, and `load_model`, which finds and loads one."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from rehydrate import _engine
from rehydrate.embedding.hub import find_model_folder
from rehydrate.embedding.library import Library, onnxruntime_library
from rehydrate.embedding.model_files import ModelFiles, Precision, read_model_files
from rehydrate.errors import InvalidArgumentError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from rehydrate import _native

MAX_THREADS_UNASKED = 8
"""Each thread has a session, and each session the weights: 23 MB for MiniLM in int8."""


class OnnxModel:
    """A sentence-transformer, loaded. Made by `load_model`.

    Safe to share between threads, to keep across a fork, and to send to another process: both load
    it anew there.
    """

    space: str
    """Names the vector space: the model's hash, the runtime's version, the machine's instructions.
    Vectors of two spaces are never compared."""
    dim: int
    """Components of a vector."""
    max_tokens: int
    """Tokens of a text that count; what follows is cut off."""
    precision: Precision
    """Of the graph that was found."""
    threads: int
    """Texts embedded side by side."""
    path: Path
    """The graph."""

    def __init__(self, folder: Path, files: ModelFiles, library: Library, threads: int) -> None:
        """Load; `load_model` calls this."""
        self.path = files.graph
        self.max_tokens = files.max_tokens
        self.precision = files.precision
        self.threads = threads
        self._folder = folder
        self._files = files
        self._library = library
        self._load()
        self.dim = self._native.dim
        pooling = ":cls" if files.first_token else ""
        self.space = (
            f"onnx:{files.digest}:{files.max_tokens}{pooling}:ort-{library.version}:{_engine.isa()}"
        )

    def embed(self, texts: Sequence[str], *, deadline: float | None = None) -> NDArray[np.float32]:
        """Vectors of texts, shape (len(texts), dim), float32, rows of length 1.

        A row of zeros is no vector: the text has no token, or was not reached by `deadline`, an
        instant of ``time.monotonic``. With a deadline, texts are taken in the order given, without
        one the longest first. The interpreter is free meanwhile, and Ctrl-C is heard.

        Raises:
            InvalidArgumentError: something in `texts` is no string.
            ModelError: the model failed.
        """
        import numpy as np

        if isinstance(texts, str):
            raise InvalidArgumentError("texts is one string, expected a list of them; pass [text]")
        batch = list(texts)
        for index, text in enumerate(batch):
            if not isinstance(text, str):
                kind = type(text).__name__
                raise InvalidArgumentError(f"texts[{index}] is of type {kind}, expected a string")
        seconds = None if deadline is None else deadline - time.monotonic()
        self.warm_up()
        rows = self._native.embed(batch, seconds=seconds)
        return np.frombuffer(rows, dtype=np.float32).reshape(len(batch), self.dim)

    def warm_up(self) -> None:
        """Have the sessions ready. They are from the start; after a fork, the child's are not."""
        if self._process != os.getpid():
            self._load()

    def __repr__(self) -> str:
        """Where it is from, and how it runs."""
        return (
            f"OnnxModel({str(self.path)!r}, dim={self.dim}, max_tokens={self.max_tokens}, "
            f"threads={self.threads})"
        )

    def __reduce__(self) -> tuple[Callable[..., OnnxModel], tuple[Any, ...]]:
        """Another process loads the same files."""
        return _load, (self._folder, self.precision, self.threads, self.max_tokens)

    def _load(self) -> None:
        # What a fork inherited is dropped here, which leaks it on purpose: see session.rs.
        self._native: _native.OnnxModel = _engine.load_onnx(
            self._library.path,
            model=self._files.graph,
            tokenizer=self._files.tokenizer,
            threads=self.threads,
            max_tokens=self.max_tokens,
            first_token=self._files.first_token,
            by_length=not self._files.quantised_at_run_time,
        )
        self._process = os.getpid()


def load_model(
    name_or_path: str | os.PathLike[str],
    *,
    precision: Precision = "int8",
    threads: int | None = None,
    max_tokens: int | None = None,
) -> OnnxModel:
    """Load a BERT-like sentence-transformer in ONNX.

    `name_or_path` is a folder with `model.onnx` and `tokenizer.json` (or sentence-transformers'
    layout), the name of a model made by ``rehydrate model convert``, or ``org/name`` in the cache
    of the Hugging Face Hub, or on it where `huggingface_hub` is installed.

    `precision="int8"` takes the quantised graph where there is one, "fp32" never does. `threads`
    texts are embedded side by side (default: one a CPU, at most 8). `max_tokens` is where a text is
    cut (default: what the model was made for, at most 512).

    >>> load_model("/models/minilm")  # doctest: +SKIP
    OnnxModel('/models/minilm/model_int8.onnx', dim=384, max_tokens=256, threads=2)
    >>> load_model("/nowhere")
    Traceback (most recent call last):
    rehydrate.errors.ModelError: /nowhere: no such folder; pass a folder with model.onnx and \
tokenizer.json, or make one: rehydrate model convert

    Raises:
        ModelError: no such model, or a file of it, or ONNX Runtime's library, cannot be used.
        InvalidArgumentError: an argument outside its limits.
    """
    if precision not in get_args(Precision):
        raise InvalidArgumentError(f"precision is {precision!r}; choose 'int8' or 'fp32'")
    if threads is not None and not (isinstance(threads, int) and 1 <= threads <= 256):
        raise InvalidArgumentError(f"threads is {threads!r}, expected a whole number from 1 to 256")
    return _load(find_model_folder(name_or_path), precision, threads, max_tokens)


def _load(
    folder: Path, precision: Precision, threads: int | None, max_tokens: int | None
) -> OnnxModel:
    files = read_model_files(folder, precision, max_tokens)
    return OnnxModel(
        folder, files, onnxruntime_library(), threads or min(_cpus(), MAX_THREADS_UNASKED)
    )


def _cpus() -> int:
    """CPUs this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
