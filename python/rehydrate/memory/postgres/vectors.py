"""Vectors on the way to the server: checked, and as pgvector reads them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rehydrate import _engine
from rehydrate.errors import InvalidArgumentError
from rehydrate.memory.items import Vectors
from rehydrate.memory.postgres.schema import DIMENSIONS

if TYPE_CHECKING:
    from rehydrate.memory.postgres.namespaces import Namespace


def checked_rows(vectors: Vectors | None, count: int) -> Any:
    """Return rows of vectors, a row for each text; raises InvalidArgumentError."""
    if vectors is None:
        return None
    import numpy as np

    rows = np.ascontiguousarray(vectors.rows, dtype=np.float32)
    if rows.ndim == 1 and count == 1:
        rows = rows.reshape(1, -1)
    if rows.ndim != 2 or len(rows) != count:
        raise InvalidArgumentError(
            f"vectors have shape {rows.shape} for {count} texts; give a row for each"
        )
    if not np.isfinite(rows).all():
        raise InvalidArgumentError("a vector holds NaN or infinity; give zeros for no vector")
    return rows


def verify_space(namespace: Namespace, space: str, dim: int) -> None:
    """Refuse vectors of another model than the namespace holds."""
    if (namespace.space, namespace.dim) != (space, dim):
        raise InvalidArgumentError(
            f"a vector of {space!r} ({dim} components) where this namespace has those of "
            f"{namespace.space!r} ({namespace.dim}); use that model"
        )


def as_vector(vector: Any) -> str:
    """Return a vector as pgvector reads it."""
    return f"[{','.join(f'{float(x):.6g}' for x in vector)}]"


def near(dim: int) -> str:
    """Return the column of vectors, so that the index of their dimension is used."""
    return f"(embedding::halfvec({dim}))" if dim in DIMENSIONS else "embedding"


def written(rows: Any) -> list[str]:
    """Return rows as pgvector reads them; "" for a row of zeros, which is no vector."""
    return [as_vector(row) if row.any() else "" for row in rows]


def near_texts(texts: Sequence[str], rows: Any) -> list[str]:
    """Return what the server's vector index holds of texts: rows, or the built-in model's."""
    return written(_engine.embed(texts) if rows is None else rows)
