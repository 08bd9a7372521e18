"""MemoryStore: the protocol of a memory's backend; open_store: a name means a file or a server.

`rehydrate.testing` checks an implementation. `ThreadStore` is the protocol of a backend of threads.
"""

from __future__ import annotations

import builtins
import os
import re
from collections.abc import Sequence
from importlib import import_module
from typing import Protocol, Unpack, cast, runtime_checkable

from rehydrate._check import check_path
from rehydrate._native import LocalStore
from rehydrate.errors import InvalidArgumentError
from rehydrate.memory.items import (
    INDEX_BYTES,
    Added,
    Filters,
    Fusion,
    Hit,
    MemoryItem,
    MemoryLimits,
    MemoryStats,
    Recalled,
    Tier,
    VectorIndex,
    Vectors,
    VerifyReport,
)


@runtime_checkable
class MemoryStore(Protocol):
    """Storage of memories: the file that `Memory.open` opens, or a backend of yours.

    Every call names a namespace and never sees items of another one. Implementations are safe to
    share between threads. An added item is found by the next call and survives a crash. Errors are
    those of `rehydrate.errors`.
    """

    def add(
        self, items: Sequence[MemoryItem], /, *, namespace: str, vectors: Vectors | None = None
    ) -> builtins.list[Added]:
        """Add all of the items or none. The same text from the same source is one item.

        A handle depends only on namespace, source and text, so an export keeps its handles.
        A namespace holds vectors of one space, the first: here, in `search` and in `recall`
        InvalidArgumentError refuses those of another.
        """

    def get(self, handle: str, *, namespace: str) -> MemoryItem:
        """Return the item, its text as it was added. Raises UnknownHandleError."""

    def list(
        self,
        *,
        namespace: str,
        limit: int | None = 100,
        newest_first: bool = True,
        **filters: Unpack[Filters],
    ) -> builtins.list[MemoryItem]:
        """Return items in the order in which they were added, newest first or oldest first."""

    def search(
        self,
        query: str,
        limit: int = 5,
        *,
        namespace: str,
        fusion: Fusion | None = None,
        vectors: Vectors | None = None,
        **filters: Unpack[Filters],
    ) -> builtins.list[Hit]:
        """Return the best matches, best first; by words, trigrams and meaning."""

    def recall(
        self,
        texts: Sequence[str],
        k: int = 3,
        *,
        namespace: str,
        vectors: Vectors | None = None,
    ) -> builtins.list[builtins.list[Recalled]]:
        """Return the k items nearest in meaning to each text, nearest first.

        With `vectors`, each row is a query, and the texts may be left out.
        """

    def forget(self, handles: str | Sequence[str], *, namespace: str) -> int:
        """Remove items and return how many there were."""

    def purge(
        self,
        *,
        namespace: str,
        source: str | None = None,
        thread: str | None = None,
        everything: bool = False,
    ) -> int:
        """Remove all of a source, of a thread, or of the namespace; return how many items there
        were."""

    def set_tier(self, handles: str | Sequence[str], tier: Tier, *, namespace: str) -> int:
        """Move items to a tier and return how many moved."""

    def link(self, handle: str, relation: str, other: str, *, namespace: str) -> bool:
        """Link an item to another and return whether the link is new.

        Raises UnknownHandleError if the namespace does not hold both.
        """

    def stats(self, *, namespace: str) -> MemoryStats:
        """Return figures of the namespace."""

    def namespaces(self) -> Sequence[str]:
        """Return the namespaces that were added to and not purged, in alphabetical order."""

    def verify(self) -> VerifyReport:
        """Check everything that is stored."""

    def rebuild(self, *, namespace: str | None = None) -> int:
        """Rebuild the index of a namespace, or of all; return how many items it holds."""

    def close(self) -> None:
        """Close the store; a second call does nothing."""


ThreadRow = tuple[str, int, int, int, int]
"""A thread without its records: name, milliseconds since 1970 of its making and its last change,
number of records, bytes."""


class ThreadStore(Protocol):
    """Append-only logs of conversations: in a memory's file, or on a server.

    A record is a kind, a time in seconds since 1970, and a body. Every call names a namespace.
    """

    @property
    def path(self) -> str:
        """The file or the server, for errors."""

    def thread(self, namespace: str, name: str) -> ThreadRow | None:
        """Return what a thread is, None if there is none of that name."""

    def threads(self, namespace: str) -> Sequence[ThreadRow]:
        """Return the threads of a namespace, the last changed first."""

    def append_records(
        self, namespace: str, name: str, expected: int, records: Sequence[tuple[int, float, str]]
    ) -> ThreadRow:
        """Add records after the `expected` ones; a thread of none is made.

        Raises StoreConflictError if the thread has another number of records.
        """

    def records(
        self, namespace: str, name: str, *, start: int = 0, limit: int = ...
    ) -> Sequence[tuple[int, float, str]]:
        """Return records from a number on, in their order."""

    def replace_records(
        self,
        namespace: str,
        name: str,
        expected: int,
        bodies: Sequence[tuple[int, str]],
        added: Sequence[tuple[int, float, str]] = (),
    ) -> None:
        """Put other bodies in place of some records, and add records, all of it or nothing."""

    def purge_thread(self, namespace: str, name: str) -> int:
        """Delete a thread; return how many records it had."""


class SharedStore(MemoryStore, Protocol):
    """A store of memories and of threads: the file or the server that a path names."""

    @property
    def path(self) -> str:
        """The file, or the server without its password."""

    @property
    def threads(self) -> ThreadStore:
        """The threads in the same place; closing the store closes them."""


_SERVERS = ("postgresql://", "postgres://")
_LOST_SLASH = re.compile(r"postgres(?:ql)?:[\\/](?![\\/])")
LANGUAGE = "english"
"""The text search configuration of namespaces on a server, unless one is named."""


def is_server(path: object) -> bool:
    """Return whether a path is the URL of a server.

    >>> is_server("postgresql://db/memories"), is_server("memory.db")
    (True, False)
    """
    return isinstance(path, str) and path.startswith(_SERVERS)


def verify_place(path: object) -> str:
    """Return the path of a file or the URL of a server; raises InvalidArgumentError for others.

    The address of something else is not quoted: it may hold a password.
    """
    check_path("path", path, "pass the path of a file")
    where = os.fspath(cast("str | os.PathLike[str]", path))
    if isinstance(where, str) and _LOST_SLASH.match(where):
        raise InvalidArgumentError(
            "path is a Path made of a URL, which took a slash out of it; pass the URL as a string"
        )
    if not isinstance(where, str) or not where or ("://" in where and not is_server(where)):
        shown = f"{where.partition('://')[0]}://..." if "://" in str(where) else path
        raise InvalidArgumentError(
            f"path is {shown!r}; pass the path of a file, or postgresql://user@host/database"
        )
    return where


def open_store(
    path: object,
    *,
    limits: MemoryLimits,
    read_only: bool = False,
    index_bytes: int = INDEX_BYTES,
    vectors: VectorIndex = "auto",
    language: str | None = None,
) -> SharedStore:
    """Open a file, or what a URL names; raises StoreError, and MissingPackageError if what the
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
