"""The native engine's counters and vectors for Python, and its needs of a process.

The rest is the engine's own, as `_native.pyi` describes it.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

from rehydrate import _native

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]


CounterName = Literal["words", "chars", "o200k_base", "cl100k_base"]

COUNTERS: tuple[CounterName, ...] = ("words", "chars", "o200k_base", "cl100k_base")
"""Token counters inside the build."""

CustomCounter = Callable[[str], int]

atexit.register(_native.before_exit)
if hasattr(os, "register_at_fork"):  # Windows does not fork
    os.register_at_fork(
        before=_native.before_fork,
        after_in_parent=_native.after_fork,
        after_in_child=_native.after_fork,
    )


def message_vectors(prepared: _native.Prepared) -> Vectors:
    """Return the built-in model's vectors, shape (messages, 256), float32.

    Rows have length 1, or 0 for a text without known words.
    """
    import numpy as np

    dim = prepared.dim or 0
    return np.frombuffer(prepared.vectors(), dtype=np.float32).reshape(-1, dim)


def embed(texts: Sequence[str]) -> Vectors:
    """Return the built-in model's vectors of texts, shape (texts, 256), float32."""
    import numpy as np

    rows, dim = _native.embed(list(texts))
    return np.frombuffer(rows, dtype=np.float32).reshape(-1, dim)
