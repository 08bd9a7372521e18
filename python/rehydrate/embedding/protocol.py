"""Model: the protocol of an embedding model, and the check of its answers as rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from rehydrate._text import OwnMessageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Rows = NDArray[np.float32]


@runtime_checkable
class Model(Protocol):
    """An embedding model: the part of it that compaction uses.

    `space` names the vector space: vectors of two spaces are never compared or cached together.
    """

    space: str

    def embed(self, texts: Sequence[str], *, deadline: float | None = None) -> Rows:
        """Return vectors of the texts, shape (texts, dimensions), float32, each row of length 1.

        A row of zeros is not a vector: the model has none for the text, or did not reach it by
        `deadline`, an instant of ``time.monotonic``; texts come most important first. Raises if it
        cannot work at all.
        """


MAX_DIMENSIONS = 8_192
"""Maximum of a vector: the store compares rows as integers, whose sums must fit in 32 bits."""


class RowsError(OwnMessageError, ValueError):
    """An answer of the wrong shape."""


class Attempt(NamedTuple):
    """The result of embedding some texts: their rows (None: no vector at all), and the failures."""

    rows: Rows | None
    troubles: tuple[str, ...]


def unit_rows(found: Any, texts: int) -> tuple[Rows, int]:
    """Return an embedder's answer as rows of length 1, and how many of them were not finite.

    Rows that are not finite, and rows of zeros, become zeros: "no vector". Raises RowsError if
    the shape is not (texts, dimensions), or there are more dimensions than `MAX_DIMENSIONS`.

    >>> rows, broken = unit_rows([[0.0, 2.0], [float("nan"), 1.0], [0.0, 0.0]], 3)
    >>> rows.tolist(), broken
    ([[0.0, 1.0], [0.0, 0.0], [0.0, 0.0]], 1)
    """
    import numpy as np

    for step in ("detach", "cpu"):  # a tensor on a device, or with a gradient, is not an array yet
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
