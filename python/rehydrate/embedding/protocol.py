"""Model: anything that turns texts into vectors of one space, and how an answer is read as rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from rehydrate._text import OwnWordsError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Rows = NDArray[np.float32]


@runtime_checkable
class Model(Protocol):
    """An embedding model, as far as compaction asks.

    `space` names the vector space: vectors of two spaces are never compared or cached together.
    """

    space: str

    def embed(self, texts: Sequence[str], *, deadline: float | None = None) -> Rows:
        """Vectors of the texts, shape (texts, dimensions), float32, each row of length 1.

        A row of zeros is no vector: the model knows nothing of the text, or did not reach it by
        `deadline`, an instant of ``time.monotonic``; texts come most important first. Raises where
        it cannot work at all.
        """


MAX_DIMENSIONS = 8_192
"""Of a vector: the store compares rows in whole numbers, whose sums fit in 32 bits up to here."""


class RowsError(OwnWordsError, ValueError):
    """An answer whose shape fits nothing."""


class Attempt(NamedTuple):
    """What came of embedding some texts: their rows (None: not one), and what went wrong."""

    rows: Rows | None
    troubles: tuple[str, ...]


def unit_rows(found: Any, texts: int) -> tuple[Rows, int]:
    """Whatever an embedder returned, as rows of length 1, and how many of them were not finite.

    Those, and rows of zeros, come back as zeros: "no vector". Raises RowsError where the shape is
    not (texts, dimensions), or there are more dimensions than `MAX_DIMENSIONS`.

    >>> rows, broken = unit_rows([[0.0, 2.0], [float("nan"), 1.0], [0.0, 0.0]], 3)
    >>> rows.tolist(), broken
    ([[0.0, 1.0], [0.0, 0.0], [0.0, 0.0]], 1)
    """
    import numpy as np

    for step in ("detach", "cpu"):  # a tensor on a device, or with a gradient, is no array yet
        if callable(ready := getattr(found, step, None)):
            found = ready()
    rows = np.asarray(found, dtype=np.float64)
    if rows.ndim != 2 or rows.shape[0] != texts or rows.shape[1] == 0:
        raise RowsError(f"shape {rows.shape} for {texts} texts")
    if rows.shape[1] > MAX_DIMENSIONS:
        raise RowsError(
            f"vectors of {rows.shape[1]:,} dimensions, the limit is {MAX_DIMENSIONS:,}; ask the "
            "model for fewer, or cut its vectors"
        )
    with np.errstate(all="ignore"):
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        units = (rows / lengths).astype(np.float32)
    finite = np.isfinite(lengths)
    whole = np.where(finite & (lengths > 0), units, np.float32(0))
    return whole, int((~finite).sum())
