"""Vectors from the caller's embedder, and what a memory says it covers; a failure never fails."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from rehydrate import _engine
from rehydrate.messages import Conversation

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from rehydrate import _native

RECALLED_NEIGHBOURS = 3
"""How many of its nearest memories a message is compared with."""

Embedder = Callable[[list[str]], "ArrayLike"]
"""Texts to vectors, shape (texts, dimensions). A row of zeros or NaN is "no vector"."""


class Memory(Protocol):
    """A memory, as far as compaction asks: how near are the nearest k memories to each vector."""

    def recall(self, vectors: Any, k: int) -> ArrayLike:
        """Cosine similarities, shape (len(vectors), up to k), for float32 rows of length 1."""


def own_vectors(
    embedder: Embedder | None, conversation: Conversation, query: str | None, degraded: list[str]
) -> tuple[Any, Any]:
    """Vectors of the messages and the query from the caller's embedder; (None, None) without.

    Rows have length 1, or 0 where the embedder's row is no vector.
    """
    if embedder is None or not conversation.messages:
        return None, None
    import numpy as np

    texts = [message.text for message in conversation.messages]
    try:
        found = embedder([*texts, query] if query else texts)
        rows = np.asarray(found, dtype=np.float64)
        expected = len(texts) + bool(query)
        if rows.ndim != 2 or rows.shape[0] != expected or rows.shape[1] == 0:
            raise ValueError(f"shape {rows.shape} for {expected} texts")
    except Exception as error:
        degraded.append(f"embedder: {type(error).__name__}: {error}; went on without vectors")
        return None, None
    with np.errstate(all="ignore"):
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        units = (rows / lengths).astype(np.float32)
    rows = np.where(np.isfinite(lengths) & (lengths > 0), units, np.float32(0))
    return rows[: len(texts)], rows[-1] if query else None


def memory_coverage(
    memory: Memory | None, prepared: _native.Prepared, vectors: Any, degraded: list[str]
) -> list[float] | None:
    """Per message the largest similarity to what memory holds; None where nothing is known."""
    if memory is None or not prepared.message_tokens:
        return None
    if vectors is None:
        if prepared.dim is None:
            degraded.append("memory: no vectors to recall with; nothing counts as covered")
            return None
        vectors = _engine.message_vectors(prepared)
    try:
        recalled = memory.recall(vectors, RECALLED_NEIGHBOURS)
        rows = [_largest(row) for row in recalled]  # type: ignore[union-attr]
        if len(rows) != len(vectors):
            raise ValueError(f"{len(rows)} rows for {len(vectors)} vectors")
    except Exception as error:
        degraded.append(f"memory: {type(error).__name__}: {error}; nothing counts as covered")
        return None
    return rows


def _largest(similarities: Any) -> float:
    """The largest finite number of a row, or the number itself; 0 where there is none."""
    try:
        numbers = [float(similarity) for similarity in similarities]
    except TypeError:
        numbers = [float(similarities)]
    return max((number for number in numbers if math.isfinite(number)), default=0.0)
