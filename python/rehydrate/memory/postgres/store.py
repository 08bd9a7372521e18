"""PostgresStore: a memory's items in PostgreSQL; the engine ranks what the server names."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Unpack

from rehydrate import _native
from rehydrate._native import checked_purge, read_server_text, server_text
from rehydrate.errors import InvalidArgumentError, StoreError, UnknownHandleError
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
    Vectors,
    VerifyReport,
)
from rehydrate.memory.postgres.adding import (
    REBUILT,
    NewItems,
    UseCounts,
    add_items,
    drop_vectors,
    figures,
    link,
    rebuild_some,
    set_vectors,
    verify,
)
from rehydrate.memory.postgres.connections import (
    PATIENCE_SECONDS,
    POOL_SIZE,
    STATEMENT_SECONDS,
    Connections,
    Cursor,
    verify_namespace,
)
from rehydrate.memory.postgres.held import HeldIndexes, checked_vectors, near_texts
from rehydrate.memory.postgres.queries import items_of
from rehydrate.memory.postgres.rows import TIER_CODES, Namespace, now_ms
from rehydrate.memory.postgres.schema import migrate, verify_schema
from rehydrate.memory.postgres.searching import Searcher
from rehydrate.memory.postgres.thread_records import ThreadRecords

_PAGE = 1_000
_NO_VECTORS = (
    "the server has no pgvector 0.8 and the namespace is too large for an index in this process: "
    "search and recall found what shares words, not what shares a meaning alone. Install it, run "
    "CREATE EXTENSION vector as a superuser, open the memory again and rebuild()"
)


class PostgresStore:
    """A store on a PostgreSQL server. `Memory.open("postgresql://...")` makes it.

    Any number of processes and machines may use one server. ``language`` is the text search
    configuration of namespaces that are made through this store: "english", "german", "simple"...
    ``statement_seconds`` limits each statement, ``patience_seconds`` the time for which a call
    tries again after a conflict or a lost connection, ``pool_size`` the connections of a process.
    """

    def __init__(
        self,
        url: str,
        *,
        limits: MemoryLimits = MemoryLimits(),  # noqa: B008  it is frozen
        read_only: bool = False,
        index_bytes: int = INDEX_BYTES,
        language: str = "english",
        statement_seconds: float = STATEMENT_SECONDS,
        patience_seconds: float = PATIENCE_SECONDS,
        pool_size: int = POOL_SIZE,
    ) -> None:
        """Connect, and make the tables if they are missing; raises StoreError."""
        self._connections = Connections(
            url,
            read_only=read_only,
            statement_seconds=statement_seconds,
            patience_seconds=patience_seconds,
            pool_size=pool_size,
        )
        self.path = self._connections.server
        self._threads = ThreadRecords(self._connections)
        with self._connections.single() as connection:
            if read_only:
                self._has_vectors = verify_schema(connection, self.path)
            else:
                self._has_vectors = migrate(connection, self.path, statement_seconds)
            known = connection.execute(
                "SELECT count(*) FROM pg_ts_config WHERE cfgname = %s", [server_text(language)]
            ).fetchone()
        if known is None or not known[0]:
            raise InvalidArgumentError(
                f"language is {language!r}; pass a text search configuration of the server, "
                "as psql's \\dF lists them"
            )
        self._connections.has_vectors = self._has_vectors
        self._language = language
        self._limits = limits
        self._indexes = HeldIndexes(index_bytes, self._has_vectors)
        self._searcher = Searcher(self._indexes, self._has_vectors)
        self._uses = UseCounts()

    @property
    def threads(self) -> ThreadRecords:
        """The threads on the same server; closing the store closes them."""
        return self._threads

    @property
    def degraded(self) -> tuple[str, ...]:
        """The parts that a call had to leave out, and how to get them."""
        return (_NO_VECTORS,) if self._searcher.lacked_vectors else ()

    def add(
        self, items: Sequence[MemoryItem], *, namespace: str, vectors: Vectors | None = None
    ) -> builtins.list[Added]:
        """Add all of the items or none, in one transaction."""
        verify_namespace(namespace)
        if not items:
            return []
        checked = checked_vectors(vectors, len(items))
        numbers = None if checked is None else checked.rows
        texts = [item.text for item in items]
        near = near_texts(texts, checked) if self._has_vectors else [None] * len(items)
        made = _native.server_rows(namespace, items, now_ms(), numbers)
        rows = [(*row, vector) for row, vector in zip(made, near, strict=True)]
        new = NewItems(items, rows, checked, self._has_vectors)

        def work(cursor: Cursor) -> builtins.list[bool]:
            self._uses.write(cursor, namespace)
            return add_items(cursor, namespace, new, self._language, self._limits)

        created = self._connections.write(namespace, work)
        embedded = [True] * len(items) if numbers is None else numbers.any(axis=1).tolist()
        return [
            Added(row[0], is_new, item.redactions, has_vector)
            for item, row, is_new, has_vector in zip(items, rows, created, embedded, strict=True)
        ]

    def get(self, handle: str, *, namespace: str) -> MemoryItem:
        """Return the item; raises UnknownHandleError."""
        _verified(handle)

        work = partial(
            items_of, namespace=namespace, filters={}, more="AND handle = %(handle)s", handle=handle
        )
        found = self._connections.read(namespace, work)
        if not found:
            raise UnknownHandleError(handle, namespace)
        return found[0][1]

    def list(
        self,
        *,
        namespace: str,
        limit: int | None = 100,
        newest_first: bool = True,
        **filters: Unpack[Filters],
    ) -> builtins.list[MemoryItem]:
        """Return items in the order in which they were added."""
        order, sign = ("DESC", "<") if newest_first else ("ASC", ">")
        left = math.inf if limit is None else limit
        found: builtins.list[MemoryItem] = []
        after: int | None = None
        while left > 0:
            count = int(min(left, _PAGE))
            further = "" if after is None else f"AND id {sign} %(after_id)s "
            more = f"{further}ORDER BY id {order} LIMIT %(count)s"
            page = partial(
                items_of,
                namespace=namespace,
                filters=filters,
                more=more,
                after_id=after,
                count=count,
            )
            items = self._connections.read(namespace, page)
            found += [item for _, item in items]
            if len(items) < count:
                break
            after = items[-1][0]
            left -= count
        return found

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
        """Return the best matches, best first.

        A small namespace is searched by an index in this process, which reads what changed since
        the last search. Of a large one the server names candidates by words, parts of words and
        meaning, in one statement; the engine ranks them. ``fusion="weighted"`` is one statement
        that also ranks on the server.
        """
        if not query.strip() or limit == 0:
            return []
        checked = checked_vectors(vectors, 1)

        def work(cursor: Cursor) -> builtins.list[Hit]:
            return self._searcher.search(cursor, query, limit, namespace, fusion, checked, filters)

        hits = self._connections.read(namespace, work)
        full = self._uses.count(namespace, [hit.handle for hit in hits])
        if full is not None and not self._connections.read_only:
            self._flush_uses(full)
        return hits

    def recall(
        self,
        texts: Sequence[str],
        k: int = 3,
        *,
        namespace: str,
        vectors: Vectors | None = None,
    ) -> builtins.list[builtins.list[Recalled]]:
        """Return the k nearest items of each text or row, as the embedded store does."""
        asked = [*texts] or [""] * (0 if vectors is None else len(vectors.rows))
        checked = checked_vectors(vectors, len(asked))
        if not asked:
            return []

        def work(cursor: Cursor) -> builtins.list[builtins.list[Recalled]]:
            return self._searcher.recall(cursor, asked, k, namespace, checked)

        return self._connections.read(namespace, work)

    def forget(self, handles: str | Sequence[str], *, namespace: str) -> int:
        """Remove items and return how many there were."""
        return self._delete(namespace, _HELD, {"handles": _verified(handles), "now": now_ms()})

    def _delete(self, name: str, condition: str, parameters: dict[str, Any]) -> int:
        return self._change(name, lambda cursor, row: row.delete(cursor, condition, parameters))

    def _change(
        self, name: str, change: Callable[[Cursor, Namespace], int], *, long: bool = True
    ) -> int:
        """Change items of a namespace with its row locked; return how many, 0 without a row."""

        def work(cursor: Cursor) -> int:
            row = Namespace.find(cursor, name, lock=True)
            if row is None:
                return 0
            count = change(cursor, row)
            row.save(cursor)
            return count

        return self._connections.write(name, work, long=long)

    def purge(
        self,
        *,
        namespace: str,
        source: str | None = None,
        thread: str | None = None,
        everything: bool = False,
    ) -> int:
        """Remove all of a source, of a thread, or of the namespace.

        The rows are gone at once, in every process. Their bytes leave the table's file with the
        server's next vacuum, and write-ahead logs and backups as the server's settings say.
        """
        checked_purge(source, thread, everything)
        self._indexes.drop(namespace)
        if not everything:
            column, value = ("source", source) if source is not None else ("thread", thread)
            condition = (
                f"hashtextextended({column}, 0) = hashtextextended(%(value)s, 0) "
                f"AND {column} = %(value)s"
            )
            return self._delete(namespace, condition, {"value": server_text(value or "")})

        def work(cursor: Cursor) -> int:
            row = Namespace.find(cursor, namespace, lock=True)
            cursor.execute("DELETE FROM memory_threads WHERE namespace = %s", [namespace])
            if row is None:
                return 0
            cursor.execute(
                "WITH gone AS (DELETE FROM memory_chunks WHERE namespace = %s RETURNING true) "
                "SELECT count(*) FROM gone",
                [namespace],
            )
            ((gone,),) = cursor.fetchall()
            cursor.execute("DELETE FROM memory_namespaces WHERE namespace = %s", [namespace])
            return int(gone)

        return self._connections.write(namespace, work, long=True)

    def set_tier(self, handles: str | Sequence[str], tier: Tier, *, namespace: str) -> int:
        """Move items to a tier and return how many moved."""
        held = {"handles": _verified(handles), "now": now_ms()}
        return self._change(
            namespace,
            lambda cursor, row: row.set_tier(cursor, TIER_CODES[tier], _HELD, held),
            long=False,
        )

    def link(self, handle: str, relation: str, other: str, *, namespace: str) -> bool:
        """Link an item to another and return whether the link is new."""
        _verified([handle, other])

        def work(cursor: Cursor) -> bool:
            if Namespace.find(cursor, namespace, lock=True) is None:
                raise UnknownHandleError(handle, namespace)
            return link(cursor, namespace, handle, relation, other, now_ms())

        return self._connections.write(namespace, work)

    def set_vectors(self, handles: Sequence[str], vectors: Vectors, *, namespace: str) -> int:
        """Set vectors of another model on items and return how many of the items exist."""
        checked = checked_vectors(vectors, len(handles))
        assert checked is not None
        return self._change(
            namespace,
            lambda cursor, row: set_vectors(cursor, row, handles, checked, self._has_vectors),
        )

    def drop_vectors(self, *, namespace: str) -> int:
        """Remove all vectors and the name of their model; return how many items had one."""
        return self._change(namespace, partial(drop_vectors, has_vectors=self._has_vectors))

    def stats(self, *, namespace: str) -> MemoryStats:
        """Return figures of the namespace."""

        def work(cursor: Cursor) -> MemoryStats:
            held = self._indexes.held_bytes(namespace)
            return figures(cursor, namespace, self._limits, held)

        return self._connections.read(namespace, work, long=True)

    def namespaces(self) -> builtins.list[str]:
        """Return the namespaces that were added to and not purged, in alphabetical order.

        A role that row-level security holds to one namespace sees none here.
        """

        def work(cursor: Cursor) -> builtins.list[str]:
            cursor.execute("SELECT namespace FROM memory_namespaces")
            return sorted([name for (name,) in cursor.fetchall()])

        return self._connections.read(None, work)

    def sources(self, *, namespace: str) -> builtins.list[str]:
        """Return the sources of the namespace's items, in alphabetical order."""

        def work(cursor: Cursor) -> builtins.list[str]:
            cursor.execute(
                "SELECT DISTINCT source FROM memory_chunks WHERE namespace = %s AND source <> '' "
                "AND (expires IS NULL OR expires > %s)",
                [namespace, now_ms()],
            )
            return sorted([read_server_text(source) for (source,) in cursor.fetchall()])

        return self._connections.read(namespace, work)

    def verify(self) -> VerifyReport:
        """Check each text by its handle, each record of a thread by its hash, and the counts."""

        def work(cursor: Cursor) -> builtins.list[str]:
            cursor.execute(
                "SELECT namespace FROM memory_namespaces UNION SELECT namespace FROM memory_threads"
            )
            return sorted([name for (name,) in cursor.fetchall()])

        items, problems = 0, []
        for name in self._connections.read(None, work):
            count, found = self._connections.read(name, partial(verify, namespace=name), long=True)
            items += count
            problems += found
        return VerifyReport(items, tuple(problems))

    def rebuild(self, *, namespace: str | None = None) -> int:
        """Make the words and the server's vectors of items again; return how many there are."""
        names = self.namespaces() if namespace is None else [namespace]
        return sum(self._rebuild(name) for name in names)

    def _rebuild(self, name: str) -> int:
        self._indexes.drop(name)
        last, count = 0, 0
        while True:

            def work(cursor: Cursor, last: int = last) -> builtins.list[int]:
                return rebuild_some(cursor, name, last, self._has_vectors)

            ids = self._connections.write(name, work, long=True)
            count += len(ids)
            if len(ids) < REBUILT:
                return count
            last = ids[-1]

    def close(self) -> None:
        """Write what searches counted, then close the connections."""
        if not self._connections.read_only:
            self._flush_uses(*self._uses.namespaces())
        self._connections.close()

    def _flush_uses(self, *namespaces: str) -> None:
        with suppress(StoreError):  # counts are not a promise: nobody waits for them
            for name in namespaces:
                work = partial(self._uses.write, namespace=name)
                self._connections.write(name, work, patience=0)


_HELD = "handle = ANY(%(handles)s) AND (expires IS NULL OR expires > %(now)s)"


def _verified(handles: str | Sequence[str]) -> builtins.list[str]:
    """Return handles as a list; raises InvalidArgumentError for one that cannot be."""
    wanted = [handles] if isinstance(handles, str) else [*handles]
    for handle in wanted:
        if "\0" in handle or not handle.isascii():
            raise InvalidArgumentError(f"{handle[:12]!r} isn't a handle; handles begin with 'mem_'")
    return wanted
