"""open_store: the store of a file, which is the native engine's, or of a server."""

from __future__ import annotations

from importlib import import_module

from rehydrate._engine import LocalStore
from rehydrate.errors import InvalidArgumentError
from rehydrate.memory.items import INDEX_BYTES, MemoryLimits, VectorIndex
from rehydrate.memory.store import LANGUAGE, SharedStore, is_server, verify_place


def open_store(
    path: object,
    *,
    limits: MemoryLimits,
    read_only: bool = False,
    index_bytes: int = INDEX_BYTES,
    vectors: VectorIndex = "auto",
    language: str | None = None,
) -> SharedStore:
    """Open a file, or what a URL names; raises StoreError, and MissingPackageError where what the
    server needs is not installed."""
    where = verify_place(path)
    if is_server(where):
        if vectors != "auto":
            raise InvalidArgumentError(
                f"vectors is {vectors!r}, but a server has an index of its own; leave it out"
            )
        # Of a distribution of its own, so it is named and not imported.
        opened: SharedStore = import_module("rehydrate.memory.postgres.store").PostgresStore(
            where,
            limits=limits,
            read_only=read_only,
            index_bytes=index_bytes,
            language=language or LANGUAGE,
        )
        return opened
    if language is not None:
        raise InvalidArgumentError(
            f"language is {language!r}, but a file reads all languages alike; leave it out"
        )
    return LocalStore(
        where, limits=limits, read_only=read_only, index_bytes=index_bytes, vectors=vectors
    )
