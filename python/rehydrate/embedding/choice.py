"""The model of a call: what a model is, which one `embedder=` names, and its rows for some texts,
from the cache first."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from rehydrate._text import OwnMessageError
from rehydrate.embedding.cache import SHARED, VectorCache
from rehydrate.errors import InvalidArgumentError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from rehydrate.embedding.onnx import NamedModel

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

    Rows that are not finite, and rows of zeros, become zeros: "no vector". Raises RowsError where
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


class Choice(NamedTuple):
    """The models that compare texts with the query."""

    model: Model | NamedModel | None = None
    """The model besides the built-in one; None where there is no other."""
    has_builtin: bool = True
    """False: words alone decide."""


BUILTIN = Choice()


def choice_of(embedder: Any) -> Choice:
    """Return the choice for `embedder=`; a Choice is returned as it is. Raises InvalidArgumentError
    as `model_of` does.

    >>> choice_of("auto"), choice_of(None).has_builtin
    (Choice(model=None, has_builtin=True), False)
    """
    if isinstance(embedder, Choice):
        return embedder
    return Choice(model_of(embedder), embedder is not None)


def model_of(embedder: Any) -> Model | NamedModel | None:
    """Return the model that `embedder=` names besides the built-in one; None where it names none.

    Raises InvalidArgumentError for a value that is neither a name, a model nor a callable.
    """
    if embedder is None or (isinstance(embedder, str) and embedder in {"auto", "builtin"}):
        return None
    from rehydrate.embedding.embedder import of_function
    from rehydrate.embedding.onnx import may_name_a_model, named_model

    if isinstance(embedder, os.PathLike):
        embedder = str(os.fspath(embedder))
        return named_model(embedder)
    if isinstance(embedder, str):
        if may_name_a_model(embedder):
            return named_model(embedder)
    elif isinstance(embedder, Model):
        return embedder
    elif callable(embedder):
        return of_function(embedder)
    raise InvalidArgumentError(
        f"embedder is {embedder!r}; choose 'auto' or 'builtin' (the built-in model), None (no "
        "vectors), name a model's folder or 'org/name', or pass a rehydrate.Embedder, a model "
        "with space and embed, or a callable of list[str] -> array of shape (texts, dimensions)"
    )


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

    from rehydrate.embedding.embedder import short_message
    from rehydrate.embedding.onnx import NamedModel

    try:
        if isinstance(model, NamedModel):
            model = model.model(deadline)
        space = model.space
        cached = cache.get(space, texts)
        missing = [index for index, row in enumerate(cached) if row is None]
        fresh, troubles = _attempt(model, [texts[index] for index in missing], deadline)
    except Exception as error:
        return Attempt(None, (short_message(error),))
    widest = max((len(row) for row in cached if row is not None), default=0)
    dim = widest if fresh is None else fresh.shape[1]
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


def _attempt(model: Model, texts: list[str], deadline: float | None) -> Attempt:
    from rehydrate.embedding.embedder import Embedder

    if not texts:
        return Attempt(None, ())
    if isinstance(model, Embedder):
        return model.attempt(texts, deadline=deadline)
    rows, broken = unit_rows(model.embed(texts, deadline=deadline), len(texts))
    return Attempt(rows, (f"{broken} of its vectors are not finite",) if broken else ())
