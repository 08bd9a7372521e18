"""A memory's embedder besides the built-in model, and the vector space that each namespace holds.

The built-in model takes over where the embedder fails.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from rehydrate._check import check_type
from rehydrate.embedding.choice import model_of
from rehydrate.embedding.embedder import is_unnamed
from rehydrate.errors import InvalidArgumentError
from rehydrate.memory.items import Vectors

if TYPE_CHECKING:
    from rehydrate.embedding.protocol import Model
    from rehydrate.memory.store import MemoryStore


T = TypeVar("T")

_TROUBLES_KEPT = 20
_BATCH = 1_000


class Embedding:
    """The model that `embedder=` names, and the failures it had.

    The built-in model lives inside the store and is not asked here.
    """

    def __init__(self, embedder: Any) -> None:
        """Take the value of `Memory.open(embedder=)`."""
        if embedder is None:
            raise InvalidArgumentError(
                "embedder is None, but a memory's built-in model is part of its index; leave "
                '"auto", and search with fusion=(1, 1, 0) to go by words only'
            )
        self._model = model_of(embedder)
        if is_unnamed(getattr(self._model, "space", "")):
            raise InvalidArgumentError(
                "embedder has no name for its vector space, and a memory outlives this process; "
                'pass rehydrate.Embedder(function, space="the-model-v1")'
            )
        # By namespace; under None those of all of them.
        self._troubles: dict[str | None, tuple[str, ...]] = {}
        self._others: dict[str, str] = {}  # by namespace: what it held when ours was refused

    @property
    def is_builtin(self) -> bool:
        """Return whether the memory uses only the store's own model."""
        return self._model is None

    def troubles(self, namespace: str | None) -> tuple[str, ...]:
        """Return the failures in a namespace, or in all, each once, the newest last."""
        return self._troubles.get(namespace, ())

    def embed(self, texts: Sequence[str], namespace: str, instead: str) -> Vectors | None:
        """Return a vector for each text; None if there is no model or it gave no vector at all.

        `instead` completes the warning: it says what happens to a text without a vector.
        """
        if self._model is None or not texts:
            return None
        from rehydrate.embedding.choice import ask

        attempt = ask(self._model, texts)
        rows = attempt.rows
        reached = [rows is not None and bool(rows[at].any()) for at in range(len(texts))]
        lacking = sum(
            not has and bool(text.strip()) for text, has in zip(texts, reached, strict=True)
        )
        if attempt.troubles or lacking:
            why = "; ".join(attempt.troubles) or "vectors of zeros"
            self._note(
                namespace,
                f"embedder: {why}; {lacking} of {len(texts)} texts without a vector, {instead}",
            )
        return None if rows is None else Vectors(self._space(), rows)

    def offer(
        self,
        vectors: Vectors | None,
        store: MemoryStore,
        namespace: str,
        call: Callable[..., T],
    ) -> T:
        """Return ``call(vectors=vectors)``, or with None if the namespace holds another space.

        The store's refusal says so: other memories may bind a namespace to a model at any time.
        """
        if vectors is None:
            return call(vectors=None)
        check_type("vectors", vectors, Vectors, "pass rehydrate.memory.Vectors(space, rows)")
        try:
            done = call(vectors=vectors)
        except InvalidArgumentError:
            held = self._others.get(namespace)
            if held in {None, vectors.space}:
                held = store.stats(namespace=namespace).vector_space
            if held is None or held == vectors.space:
                raise
            self._others[namespace] = held
        else:
            self._others.pop(namespace, None)
            return done
        self._note(
            namespace,
            f"embedder: its space is {vectors.space!r}, and namespace {namespace!r} holds vectors "
            f"of {held!r}; the built-in model does the work. To change the model: drop_vectors(), "
            "then rebuild()",
        )
        return call(vectors=None)

    def add_vectors(self, store: MemoryStore, namespace: str) -> None:
        """Give the store a vector for each item; nothing if the built-in model does the work."""
        set_vectors = getattr(store, "set_vectors", None)
        if self.is_builtin or set_vectors is None:
            return
        items = store.list(namespace=namespace, limit=None)
        for start in range(0, len(items), _BATCH):
            batch = items[start : start + _BATCH]
            handles = [item.handle for item in batch]
            vectors = self.embed([item.text for item in batch], namespace, "found without it")

            def give(*, vectors: Vectors | None, handles: list[str] = handles) -> None:
                if vectors is not None:
                    set_vectors(handles, vectors, namespace=namespace)

            self.offer(vectors, store, namespace, give)

    def rows(self, rows: Any) -> Vectors:
        """Check rows of vectors that the caller computed with this same model."""
        import numpy as np

        if self._model is None:
            raise InvalidArgumentError(
                "recall was given vectors, but this memory goes by the built-in model, which "
                "weighs words by what the memory holds; pass the texts, or open it with embedder="
            )
        found = np.ascontiguousarray(rows, dtype=np.float32)
        if found.ndim != 2:
            raise InvalidArgumentError(
                f"vectors have shape {found.shape}; pass one of shape (texts, dimensions)"
            )
        return Vectors(self._space(), found)

    def _space(self) -> str:
        from rehydrate.embedding.onnx import NamedModel

        model: Model | NamedModel | None = self._model
        if isinstance(model, NamedModel):
            model = model.model()
        assert model is not None
        return model.space

    def _note(self, namespace: str, trouble: str) -> None:
        for whose in (namespace, None):
            kept = [one for one in self.troubles(whose) if one != trouble]
            self._troubles[whose] = (*kept, trouble)[-_TROUBLES_KEPT:]
