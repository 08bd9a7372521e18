"""Choice of the model that `embedder=` names."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from rehydrate.errors import InvalidArgumentError

if TYPE_CHECKING:
    from rehydrate.embedding.onnx import NamedModel
    from rehydrate.embedding.protocol import Model


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
    from rehydrate.embedding.protocol import Model

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
