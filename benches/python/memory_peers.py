"""Peers of a memory: plain SQLite FTS5, usearch, and a Chroma database."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rehydrate import _native

Rows = NDArray[np.float32]

_WORD = re.compile(r"\w+")


def static_vectors(texts: Sequence[str]) -> Rows:
    """Return vectors of the built-in model, so that all peers share one, without a download."""
    values, dimensions = _native.embed(texts)
    return np.frombuffer(values, dtype=np.float32).reshape(len(texts), dimensions)


class Fts5:
    """Full-text search as SQLite's documentation shows it: Porter's stems, any word matches."""

    name = "FTS5"

    def __init__(self, path: Path | None = None) -> None:
        """Open it in memory, or in a file that is as durable as a store."""
        self._path = path
        self._connection = sqlite3.connect(path or ":memory:")
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.execute("CREATE VIRTUAL TABLE item USING fts5(text, tokenize = 'porter')")
        self._held = 0

    def add(self, texts: Sequence[str]) -> None:
        """Add texts in one transaction."""
        with self._connection:
            self._connection.executemany(
                "INSERT INTO item (rowid, text) VALUES (?, ?)",
                list(enumerate(texts, self._held)),
            )
        self._held += len(texts)

    def search(self, query: str, limit: int) -> list[int]:
        """Return the indices of the best, best first."""
        words = dict.fromkeys(_WORD.findall(query.lower()))
        asked = " OR ".join(f'"{word}"' for word in words)
        rows = self._connection.execute(
            "SELECT rowid FROM item WHERE item MATCH ? ORDER BY rank LIMIT ?", (asked, limit)
        )
        return [place for (place,) in rows]

    def size(self) -> int:
        """Bytes on disk."""
        self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return 0 if self._path is None else self._path.stat().st_size

    def close(self) -> None:
        """Close the file."""
        self._connection.close()


class Usearch:
    """A graph of vectors only: no texts, nothing on disk until it is saved."""

    name = "usearch"

    def __init__(self, dimensions: int, threads: int) -> None:
        """Half precision, otherwise the defaults."""
        # usearch crashes where onnxruntime's library is loaded after it.
        import onnxruntime  # noqa: F401
        from usearch.index import Index

        self._index = Index(ndim=dimensions, metric="cos", dtype="f16")
        self._threads = threads

    def add(self, vectors: Rows) -> None:
        """Add vectors; their keys are their indices."""
        keys = np.arange(len(self._index), len(self._index) + len(vectors))
        self._index.add(keys, vectors, threads=self._threads)

    def search(self, vectors: Rows, limit: int) -> Any:
        """Return keys of the nearest, nearest first: a row for each vector."""
        return self._index.search(vectors, limit, threads=min(self._threads, len(vectors))).keys


class Chroma:
    """A local Chroma database with the built-in model as its embedding function."""

    name = "Chroma"

    def __init__(self, folder: Path) -> None:
        """Create a new one."""
        import chromadb
        from chromadb.config import Settings

        settings = Settings(anonymized_telemetry=False, is_persistent=True)
        self._folder = folder
        self._client = chromadb.PersistentClient(str(folder), settings)
        self._collection = self._client.create_collection(
            "memory", embedding_function=None, configuration={"hnsw": {"space": "cosine"}}
        )
        self._held = 0

    def add(self, texts: Sequence[str]) -> None:
        """Add texts in one batch."""
        ids = [str(place) for place in range(self._held, self._held + len(texts))]
        vectors: Any = static_vectors(texts)
        self._collection.add(ids, documents=list(texts), embeddings=vectors)
        self._held += len(texts)

    def search(self, query: str, limit: int) -> list[int]:
        """Return the indices of the nearest, nearest first."""
        vector: Any = static_vectors([query])
        found = self._collection.query(vector, n_results=limit)
        return [int(place) for place in found["ids"][0]]

    def size(self) -> int:
        """Bytes on disk."""
        return sum(file.stat().st_size for file in self._folder.rglob("*") if file.is_file())
