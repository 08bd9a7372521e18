"""A memory's embedder besides the built-in model, and the vector space that each namespace holds.

The built-in model takes over where the embedder fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rehydrate._check import check_type
from rehydrate.embedding.choice import model_of
from rehydrate.embedding.embedder import is_unnamed
from rehydrate.errors import InvalidArgumentError
from rehydrate.memory.items import Vectors

if TYPE_CHECKING:
    from rehydrate.embedding.protocol import Model
    from rehydrate.memory.store import MemoryStore


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
        self._troubles: tuple[str, ...] = ()
        self._spaces: dict[str, str] = {}  # by namespace, as the store has it

    @property
    def is_builtin(self) -> bool:
        """Return whether the memory uses only the store's own model."""
        return self._model is None

    @property
    def troubles(self) -> tuple[str, ...]:
        """The failures, each once, the newest last."""
        return self._troubles

    def embed(self, texts: Sequence[str], instead: str) -> Vectors | None:
        """Return a vector for each text; None if there is no model or it gave no vector at all.

        `instead` completes the warning: it says what happens to a text without a vector.
        """
        if self._model is None or not texts:
            return None
        from rehydrate.embedding.choice import ask

        attempt = ask(self._model, texts)
        reached = [False] * len(texts) if attempt.rows is None else attempt.rows.any(axis=1)
        lacking = sum(
            not has and bool(text.strip()) for text, has in zip(texts, reached, strict=True)
        )
        if attempt.troubles or lacking:
            why = "; ".join(attempt.troubles) or "vectors of zeros"
            self._note(
                f"embedder: {why}; {lacking} of {len(texts)} texts without a vector, {instead}"
            )
        return None if attempt.rows is None else Vectors(self._space(), attempt.rows)

    def in_space(
        self, vectors: Vectors | None, store: MemoryStore, namespace: str
    ) -> Vectors | None:
        """Return the vectors if the namespace holds their space or none yet; else note it, return
        None."""
        if vectors is None:
            return None
        check_type("vectors", vectors, Vectors, "pass rehydrate.memory.Vectors(space, rows)")
        if namespace not in self._spaces:
            in_store = store.stats(namespace=namespace).vector_space
            self._spaces[namespace] = in_store or vectors.space
        held = self._spaces[namespace]
        if vectors.space == held:
            return vectors
        self._note(
            f"embedder: its space is {vectors.space!r}, and namespace {namespace!r} holds vectors "
            f"of {held!r}; the built-in model does the work. To change the model: drop_vectors(), "
            "then rebuild()"
        )
        return None

    def forget_space(self, namespace: str) -> None:
        """Ask the store again which space the namespace holds: its vectors are being removed."""
        self._spaces.pop(namespace, None)

    def add_vectors(self, store: MemoryStore, namespace: str) -> None:
        """Give the store a vector for each item; nothing if the built-in model does the work."""
        set_vectors = getattr(store, "set_vectors", None)
        if self.is_builtin or set_vectors is None:
            return
        items = store.list(namespace=namespace, limit=None)
        for start in range(0, len(items), _BATCH):
            batch = items[start : start + _BATCH]
            vectors = self.embed([item.text for item in batch], "found without it")
            vectors = self.in_space(vectors, store, namespace)
            if vectors is not None:
                set_vectors([item.handle for item in batch], vectors, namespace=namespace)

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

    def _note(self, trouble: str) -> None:
        kept = [one for one in self._troubles if one != trouble]
        self._troubles = (*kept, trouble)[-_TROUBLES_KEPT:]
