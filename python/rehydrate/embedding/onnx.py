"""OnnxModel: a transformer through ONNX Runtime; `load_model` finds and loads one."""

from __future__ import annotations

import atexit
import ctypes
import os
import struct
import sys
import threading
import time
from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from rehydrate import _native
from rehydrate._check import check_choice, check_type, check_whole
from rehydrate._concurrency.locks import ForkSafeLock
from rehydrate._concurrency.workers import waiting
from rehydrate.embedding.embedder import short_message
from rehydrate.embedding.model_files import (
    ModelFiles,
    Precision,
    check_weights_inside,
    find_model_folder,
    read_model_files,
)
from rehydrate.embedding.resilient import Breaker
from rehydrate.errors import EmbedderError, InvalidArgumentError, ModelError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from rehydrate.embedding.protocol import Model


API_VERSION = 17
"""The oldest supported interface: ONNX Runtime 1.17."""

OVERRIDE = "ORT_DYLIB_PATH"
"""The environment variable that names another library, as in Rust's `ort`."""

_REINSTALL = "reinstall it: pip install --force-reinstall onnxruntime"


class Library(NamedTuple):
    """A library that loaded, and its version."""

    path: Path
    version: str


def onnxruntime_library() -> Library:
    """Return the library to load, checked.

    Raises ModelError if there is none, or if it is damaged, too old, or another library.
    """
    named = os.environ.get(OVERRIDE)
    path = Path(named).absolute() if named else _in_the_wheel()
    return Library(path, _version(path))


def _in_the_wheel() -> Path:
    install = (
        "install it: pip install onnxruntime; where it has no wheel (musl, free-threaded macOS and "
        f"Windows), set {OVERRIDE} to a library you have"
    )
    spec = find_spec("onnxruntime")
    if spec is None:
        raise ModelError("onnxruntime", "the package is not installed", install)
    pattern = {"win32": "onnxruntime.dll", "darwin": "libonnxruntime*.dylib"}
    for folder in spec.submodule_search_locations or ():
        # The file's name ends in the version, and none has the plain name.
        found = sorted(Path(folder).glob("capi/" + pattern.get(sys.platform, "libonnxruntime.so*")))
        if found:
            return found[0].absolute()
    where = next(iter(spec.submodule_search_locations or ()), "onnxruntime")
    raise ModelError(where, "holds no ONNX Runtime library under capi/", _REINSTALL)


class _ApiBase(ctypes.Structure):
    """`OrtApiBase` of onnxruntime_c_api.h."""

    _fields_ = (
        ("get_api", ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint32)),
        ("get_version", ctypes.CFUNCTYPE(ctypes.c_char_p)),
    )


def _version(path: Path) -> str:
    remedy = f"correct {OVERRIDE} or unset it" if os.environ.get(OVERRIDE) else _REINSTALL
    if not path.is_file():
        raise ModelError(path, "no such file", remedy)
    if sys.platform.startswith("linux") and not _is_whole_elf(path):
        raise ModelError(path, "isn't a whole shared library", remedy)
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # read when the library starts
    try:
        entry = ctypes.CDLL(str(path)).OrtGetApiBase
    except (OSError, AttributeError) as error:
        problem = f"cannot be loaded as ONNX Runtime: {error}"
        raise ModelError(path, problem, remedy) from None
    entry.restype = ctypes.POINTER(_ApiBase)
    entry.argtypes = ()
    base = entry()
    if not base:
        raise ModelError(path, "answers with no interface at all", remedy)
    version = (base.contents.get_version() or b"").decode("ascii", "replace")
    parts = version.split(".")
    # An old library prints an error when asked for an interface that it lacks, so compare the
    # versions first.
    minor = int(parts[1]) if len(parts) > 1 and parts[1].isdecimal() else 0
    if minor < API_VERSION or not base.contents.get_api(API_VERSION):
        problem = f"is ONNX Runtime {version or 'of no version'}, needed: 1.{API_VERSION} or newer"
        upgrade = "upgrade it: pip install --upgrade onnxruntime"
        raise ModelError(path, problem, remedy if os.environ.get(OVERRIDE) else upgrade)
    return version


def _is_whole_elf(path: Path) -> bool:
    """Return whether every section of an ELF file is there.

    The system's loader maps what the headers promise, and dies of SIGBUS if the file is shorter.
    """
    with path.open("rb") as file:
        header = file.read(64)
    if len(header) < 64 or header[:5] != b"\x7fELF\x02":
        return False
    order = "<" if header[5] == 1 else ">"
    (sections,) = struct.unpack_from(order + "Q", header, 40)
    size, count = struct.unpack_from(order + "HH", header, 58)
    return bool(path.stat().st_size >= sections + size * count)


DEFAULT_MAX_THREADS = 8
"""The default maximum. Each thread has a session with its own weights: 23 MB for MiniLM in int8."""


class OnnxModel:
    """A loaded sentence-transformer, made by `load_model`.

    Safe to share between threads, to keep across a fork, and to send to another process: both load
    it again there.
    """

    space: str
    """Name of the vector space: the model's hash, the runtime's version, the machine's
    instructions. Vectors of two spaces are never compared."""
    dim: int
    """Components of a vector."""
    max_tokens: int
    """Maximum tokens of a text; the rest is cut off."""
    precision: Precision
    """Precision of the graph that was found."""
    threads: int
    """Number of texts embedded in parallel."""
    path: Path
    """Path of the graph."""

    def __init__(self, folder: Path, files: ModelFiles, library: Library, threads: int) -> None:
        """Load the model; `load_model` calls this."""
        self.path = files.graph
        self.max_tokens = files.max_tokens
        self.precision = files.precision
        self.threads = threads
        self._folder = folder
        self._files = files
        self._library = library
        check_weights_inside(files.graph, library.version)
        self._load()
        self.dim = self._native.dim
        pooling = ":cls" if files.first_token else ""
        self.space = (
            f"onnx:{files.digest}:{files.max_tokens}{pooling}:ort-{library.version}:{_native.isa()}"
        )

    def embed(self, texts: Sequence[str], *, deadline: float | None = None) -> NDArray[np.float32]:
        """Return vectors of texts, shape (len(texts), dim), float32, rows of length 1.

        A row of zeros is not a vector: the text has no token, or was not reached by `deadline`, an
        instant of ``time.monotonic``. With a deadline, texts are embedded in the order given;
        without one, the longest first. The GIL is released meanwhile, and Ctrl-C works.

        Raises:
            InvalidArgumentError: something in `texts` is not a string.
            ModelError: the model failed.
        """
        import numpy as np

        if isinstance(texts, str):
            raise InvalidArgumentError("texts is one string, expected a list of them; pass [text]")
        batch = list(texts)
        for index, text in enumerate(batch):
            check_type(f"texts[{index}]", text, str, "pass a string")
        seconds = None if deadline is None else deadline - time.monotonic()
        self.warm_up()
        rows = self._native.embed(batch, seconds=seconds)
        return np.frombuffer(rows, dtype=np.float32).reshape(len(batch), self.dim)

    def warm_up(self) -> None:
        """Make the sessions ready. They are ready from the start, except in the child of a fork."""
        if self._process != os.getpid():
            self._load()

    def __repr__(self) -> str:
        """Show the graph's path and the settings."""
        return (
            f"OnnxModel({str(self.path)!r}, dim={self.dim}, max_tokens={self.max_tokens}, "
            f"threads={self.threads})"
        )

    def __reduce__(self) -> tuple[Callable[..., OnnxModel], tuple[Any, ...]]:
        """Load the same files again in another process."""
        return _load, (self._folder, self.precision, self.threads, self.max_tokens)

    def _load(self) -> None:
        # The sessions a fork inherited are dropped here, which leaks them on purpose: see
        # session.rs.
        _native.open_onnx(self._library.path)
        _close_at_exit()
        self._native = _native.OnnxModel(
            model=self._files.graph,
            tokenizer=self._files.tokenizer,
            threads=self.threads,
            max_tokens=self.max_tokens,
            first_token=self._files.first_token,
            by_length=not self._files.quantised_at_run_time,
        )
        self._process = os.getpid()


@cache
def _close_at_exit() -> None:
    atexit.register(_native.close_onnx)


def load_model(
    name_or_path: str | os.PathLike[str],
    *,
    precision: Precision = "int8",
    threads: int | None = None,
    max_tokens: int | None = None,
) -> OnnxModel:
    """Load a BERT-like sentence-transformer in ONNX.

    `name_or_path` is a folder with `model.onnx` and `tokenizer.json` (or sentence-transformers'
    layout), the name of a model made by ``python -m tools.convert``, or ``org/name`` in the cache
    of the Hugging Face Hub, or on it if `huggingface_hub` is installed.

    `precision="int8"` takes the quantised graph if there is one, "fp32" never does. `threads` texts
    are embedded in parallel (default: one per CPU, at most 8). `max_tokens` is where a text is cut
    (default: what the model was made for, at most 512).

    >>> load_model("/models/minilm")  # doctest: +SKIP
    OnnxModel('/models/minilm/model_int8.onnx', dim=384, max_tokens=256, threads=2)
    >>> load_model("/nowhere")
    Traceback (most recent call last):
    rehydrate.errors.ModelError: /nowhere: no such folder; pass a folder with model.onnx and \
tokenizer.json, or make one in a checkout: python -m tools.convert

    Raises:
        ModelError: no such model, or a file of it, or ONNX Runtime's library, cannot be used.
        InvalidArgumentError: an argument outside its limits.
    """
    check_choice("precision", precision, get_args(Precision))
    check_whole("threads", threads, 1, 256, or_none=True)
    return _load(find_model_folder(name_or_path), precision, threads, max_tokens)


def _load(
    folder: Path, precision: Precision, threads: int | None, max_tokens: int | None
) -> OnnxModel:
    files = read_model_files(folder, precision, max_tokens)
    if threads is None:  # one a CPU that this process may use
        has_some = hasattr(os, "sched_getaffinity")
        cpus = len(os.sched_getaffinity(0)) if has_some else os.cpu_count() or 1
        threads = min(cpus, DEFAULT_MAX_THREADS)
    return OnnxModel(folder, files, onnxruntime_library(), threads)


COOL_DOWN_S = 30.0
"""Seconds before a failed load is tried again: a hub may take long to fail."""


class NamedModel:
    """A model that is loaded on first use, in a thread, so that a deadline holds."""

    def __init__(self, name: str) -> None:
        """Take the name; nothing is read yet."""
        self.name = name
        self._breaker = Breaker(failures_to_open=1, cool_down=COOL_DOWN_S)
        self._lock = ForkSafeLock()
        self._pid = os.getpid()
        self._loaded: Model | None = None
        self._loading: threading.Event | None = None

    def model(self, deadline: float | None = None) -> Model:
        """Return the model itself.

        Raises EmbedderError if it cannot be loaded, or not by `deadline`, an instant of
        ``time.monotonic``. The loading then goes on, and the next caller may find it done.
        """
        if self._loaded is not None:
            return self._loaded
        with self._lock:
            if self._loaded is not None:  # meanwhile
                return self._loaded
            if self._loading is None or self._pid != os.getpid():  # a fork leaves the thread behind
                if not self._breaker.allows():
                    raise EmbedderError(f"model {self.name!r} cannot be loaded: {self._breaker}")
                self._pid = os.getpid()
                self._loading = threading.Event()
                threading.Thread(target=self._load_now, args=(self._loading,), daemon=True).start()
            loading = self._loading
        with waiting():
            loading.wait(None if deadline is None else max(0.0, deadline - time.monotonic()))
        if self._loaded is not None:
            return self._loaded
        if loading.is_set():
            raise EmbedderError(f"model {self.name!r} cannot be loaded: {self._breaker}")
        raise EmbedderError(f"model {self.name!r} is still being loaded")

    def _load_now(self, loading: threading.Event) -> None:
        try:
            self._loaded = load_model(self.name)
            self._breaker.succeeded()
        except BaseException as error:
            self._breaker.failed(short_message(error))
        finally:
            with self._lock:
                self._loading = None
            loading.set()


_models: dict[str, NamedModel] = {}
_models_lock = ForkSafeLock()


def named_model(name: str) -> NamedModel:
    """Return the one model of that name in this process; a folder goes by its absolute path."""
    folder = Path(name).expanduser()
    if folder.exists():
        name = str(folder.absolute())
    with _models_lock:
        return _models.setdefault(name, NamedModel(name))


def may_name_a_model(value: str) -> bool:
    """Return whether a string can be a model: a path, a folder's name or a converted model's."""
    from rehydrate.embedding.model_files import find_model

    separators = tuple(filter(None, (os.sep, os.altsep, "/")))
    if any(separator in value for separator in separators) or Path(value).is_dir():
        return True
    return find_model(value) is not None
