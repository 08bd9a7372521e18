"""open_store: the file or the server that a path names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rehydrate.errors import InvalidArgumentError
from rehydrate.memory.items import INDEX_BYTES, MemoryLimits

if TYPE_CHECKING:
    from rehydrate.memory.local import LocalStore
    from rehydrate.memory.postgres.store import PostgresStore

_SERVERS = ("postgresql://", "postgres://")
LANGUAGE = "english"
"""The text search configuration of namespaces on a server, unless one is named."""


def is_server(path: object) -> bool:
    """Return whether a path is the URL of a server.

    >>> is_server("postgresql://db/memories"), is_server("memory.db")
    (True, False)
    """
    return isinstance(path, str) and path.startswith(_SERVERS)


def open_store(
    path: str,
    *,
    limits: MemoryLimits,
    read_only: bool = False,
    index_bytes: int = INDEX_BYTES,
    language: str | None = None,
) -> LocalStore | PostgresStore:
    """Open a file, or what a URL names; raises StoreError."""
    if is_server(path):
        from rehydrate.memory.postgres.store import PostgresStore

        return PostgresStore(
            path,
            limits=limits,
            read_only=read_only,
            index_bytes=index_bytes,
            language=language or LANGUAGE,
        )
    if language is not None:
        raise InvalidArgumentError(
            f"language is {language!r}, but a file reads all languages alike; leave it out"
        )
    from rehydrate.memory.local import LocalStore

    return LocalStore(path, limits=limits, read_only=read_only, index_bytes=index_bytes)
