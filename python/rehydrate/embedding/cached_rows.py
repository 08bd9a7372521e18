"""Ask a model for vectors: from the cache first, the rest from the model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rehydrate.embedding.cache import SHARED, VectorCache
from rehydrate.embedding.embedder import Embedder, short_message
from rehydrate.embedding.onnx import NamedModel
from rehydrate.embedding.protocol import Attempt, Model, unit_rows

if TYPE_CHECKING:
    from rehydrate.embedding.cache import Row


def ask(
    model: Model | NamedModel,
    texts: Sequence[str],
    *,
    deadline: float | None = None,
    cache: VectorCache = SHARED,
) -> Attempt:
    """Return the rows of `texts` from the cache and `model`, zeros where there is none.

    `deadline` is an instant of ``time.monotonic``; cached rows are returned even after it.
    """
    import numpy as np

    try:
        if isinstance(model, NamedModel):
            model = model.model(deadline)
        space = model.space
        cached = cache.get(space, texts)
        missing = [index for index, row in enumerate(cached) if row is None]
        fresh, troubles = _attempt(model, [texts[index] for index in missing], deadline)
    except Exception as error:
        return Attempt(None, (short_message(error),))
    dim = fresh.shape[1] if fresh is not None else _widest(cached)
    if not dim:
        return Attempt(None, troubles)
    rows = np.zeros((len(texts), dim), np.float32)
    for index, row in enumerate(cached):
        if row is not None and len(row) == dim:  # else of another model under the same name
            rows[index] = row
    if fresh is not None:
        rows[missing] = fresh
        cache.put(space, [texts[index] for index in missing], fresh)
    return Attempt(rows if rows.any() else None, troubles)


def _widest(rows: Sequence[Row | None]) -> int:
    return max((len(row) for row in rows if row is not None), default=0)


def _attempt(model: Model, texts: list[str], deadline: float | None) -> Attempt:
    if not texts:
        return Attempt(None, ())
    if isinstance(model, Embedder):
        return model.attempt(texts, deadline=deadline)
    rows, broken = unit_rows(model.embed(texts, deadline=deadline), len(texts))
    return Attempt(rows, (f"{broken} of its vectors are not finite",) if broken else ())
