"""Models named by a folder or ``org/name``: loaded once, when first used."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from rehydrate._concurrency.locks import ForkSafeLock
from rehydrate._concurrency.pool import waiting
from rehydrate.embedding.breaker import Breaker
from rehydrate.embedding.known import said
from rehydrate.errors import EmbedderError

if TYPE_CHECKING:
    from rehydrate.embedding.protocol import Model

COOL_DOWN_S = 30.0
"""How long a model that could not be loaded is not tried again: a hub may take its time to fail."""

Load = Callable[[str], "Model"]


def _load_onnx(name: str) -> Model:
    from rehydrate.embedding.onnx import load_model

    return load_model(name)


class NamedModel:
    """A model that is loaded when first asked for, in a thread, so that a deadline holds."""

    def __init__(self, name: str, load: Load = _load_onnx) -> None:
        """Take the name; nothing is read yet."""
        self.name = name
        self._load = load
        self._breaker = Breaker(failures_to_open=1, cool_down_s=COOL_DOWN_S)
        self._lock = ForkSafeLock()
        self._pid = os.getpid()
        self._loaded: Model | None = None
        self._loading: threading.Event | None = None

    def model(self, deadline: float | None = None) -> Model:
        """The model itself.

        Raises EmbedderError where it cannot be loaded, or is not by `deadline`, an instant of
        ``time.monotonic``; the loading then goes on, and the next to ask may find it done.
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
            self._loaded = self._load(self.name)
            self._breaker.succeeded()
        except BaseException as error:
            self._breaker.failed(said(error))
        finally:
            with self._lock:
                self._loading = None
            loading.set()


_models: dict[str, NamedModel] = {}
_models_lock = ForkSafeLock()


def named_model(name: str) -> NamedModel:
    """The one model of that name in this process."""
    with _models_lock:
        return _models.setdefault(name, NamedModel(name))


def may_name_a_model(value: str) -> bool:
    """Whether a string means a model: a path, the name of a folder or of a converted model."""
    from rehydrate.embedding.home import find_model

    separators = tuple(filter(None, (os.sep, os.altsep, "/")))
    if any(separator in value for separator in separators) or Path(value).is_dir():
        return True
    return find_model(value) is not None
