"""Choice of the model that `embedder=` names, and its rows for some texts, from the cache first."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from rehydrate import _native
from rehydrate.embedding.protocol import Attempt, Model, unit_rows
from rehydrate.errors import InvalidArgumentError

if TYPE_CHECKING:
    from rehydrate.embedding.onnx import NamedModel


class Choice(NamedTuple):
    """The models that compare texts with the query."""

    model: Model | NamedModel | None = None
    """The model other than the built-in one; None if there is no other."""
    has_builtin: bool = True
    """False: words alone decide."""


BUILTIN: Choice = Choice()


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
    """Return the model that `embedder=` names besides the built-in one; None if it names none.

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
) -> Attempt:
    """Return the rows of `texts` from the cache and `model`, zeros if there is none.

    `deadline` is an instant of ``time.monotonic``; cached rows are returned even after it.
    """
    import numpy as np

    from rehydrate.embedding.embedder import short_message
    from rehydrate.embedding.onnx import NamedModel

    try:
        if isinstance(model, NamedModel):
            model = model.model(deadline)
        space = model.space
        cached = [
            None if row is None else np.frombuffer(row, np.float32)
            for row in _native.cached_vectors(space, texts)
        ]
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
        if row is not None and len(row) == dim:
            rows[index] = row
    if fresh is not None:
        rows[missing] = fresh
        _native.cache_vectors(space, [texts[index] for index in missing], fresh)
        others = [at for at, row in enumerate(cached) if row is not None and len(row) != dim]
        if others:  # of another model under the same name
            again, more = _attempt(model, [texts[at] for at in others], deadline)
            troubles = (*troubles, *more)
            if again is not None and again.shape[1] == dim:
                rows[others] = again
                _native.cache_vectors(space, [texts[at] for at in others], again)
    return Attempt(rows if rows.any() else None, troubles)


def _attempt(model: Model, texts: list[str], deadline: float | None) -> Attempt:
    from rehydrate.embedding.embedder import Embedder

    if not texts:
        return Attempt(None, ())
    if isinstance(model, Embedder):
        return model.attempt(texts, deadline=deadline)
    rows, broken = unit_rows(model.embed(texts, deadline=deadline), len(texts))
    return Attempt(rows, (f"{broken} of its vectors are not finite",) if broken else ())
