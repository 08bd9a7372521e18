"""PostgresStore: a memory's items in PostgreSQL; the engine ranks what the server names."""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

from rehydrate import _engine
from rehydrate._concurrency.locks import ForkSafeLock
from rehydrate.errors import InvalidArgumentError, UnknownHandleError
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
from rehydrate.memory.postgres import queries
from rehydrate.memory.postgres.connections import (
    PATIENCE_SECONDS,
    STATEMENT_SECONDS,
    Connections,
)
from rehydrate.memory.postgres.held import (
    ENTRY_COLUMNS,
    HeldIndex,
    HeldIndexes,
    grown,
    number_of,
    step_of,
)
from rehydrate.memory.postgres.letters import decoded, encoded
from rehydrate.memory.postgres.limits import enforce
from rehydrate.memory.postgres.namespaces import Namespace
from rehydrate.memory.postgres.rows import (
    COLUMNS,
    TIER_CODES,
    ItemRow,
    conditions,
    item_of,
    milliseconds,
    now_ms,
    values_of,
    verify_item,
    verify_namespace,
)
from rehydrate.memory.postgres.schema import migrate, verify_schema
from rehydrate.memory.postgres.thread_records import ThreadRecords

if TYPE_CHECKING:
    from rehydrate.memory.postgres.cursor import Cursor

WEIGHTED = (0.5, 0.3, 0.2)
"""Weights of words, trigrams and meaning in the contract's statement."""
_BATCH_ITEMS = 500
_BATCH_CHARS = 4_000_000
_PAGE = 1_000
_USES_KEPT = 256
_RECALLED_PER_TEXT = 8
_NO_VECTORS = (
    "the server has no pgvector 0.8 and the namespace is too large for an index in this process: "
    "search named no candidates by meaning, recall found nothing. Install it, run CREATE EXTENSION "
    "vector as a superuser, open the memory again and rebuild()"
)


class PostgresStore:
    """A store on a PostgreSQL server. `Memory.open("postgresql://...")` makes it.

    Any number of processes and machines may use one server. ``language`` is the text search
    configuration of namespaces that are made through this store: "english", "german", "simple"...
    ``statement_seconds`` limits each statement, ``patience_seconds`` the time for which a call
    tries again after a conflict or a lost connection.
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
    ) -> None:
        """Connect, and make the tables if they are missing; raises StoreError."""
        self._connections = Connections(
            url,
            read_only=read_only,
            statement_seconds=statement_seconds,
            patience_seconds=patience_seconds,
        )
        self.path = self._connections.server
        self._threads = ThreadRecords(self._connections)
        with self._connections.single() as connection:
            make = verify_schema if read_only else migrate
            self._has_vectors = make(connection, self.path)
            known = connection.execute(
                "SELECT count(*) FROM pg_ts_config WHERE cfgname = %s", [language]
            ).fetchone()
        if known is None or not known[0]:
            raise InvalidArgumentError(
                f"language is {language!r}; pass a text search configuration of the server, "
                "as psql's \\dF lists them"
            )
        self._lacked_vectors = False
        self._language = language
        self._limits = limits
        self._indexes = HeldIndexes(index_bytes, self._has_vectors)
        self._uses: dict[tuple[str, str], int] = {}
        self._uses_lock = ForkSafeLock()

    @property
    def threads(self) -> ThreadRecords:
        """The threads on the same server; closing the store closes them."""
        return self._threads

    @property
    def degraded(self) -> tuple[str, ...]:
        """What a call had to leave out, and how to get it."""
        return (_NO_VECTORS,) if self._lacked_vectors else ()

    def add(
        self, items: Sequence[MemoryItem], *, namespace: str, vectors: Vectors | None = None
    ) -> builtins.list[Added]:
        """Add all of the items or none, in one transaction."""
        verify_namespace(namespace)
        for item in items:
            verify_item(item)
        if not items:
            return []
        rows = _checked_rows(vectors, len(items))
        handles = _engine.handles(namespace, [(item.source, item.text) for item in items])
        near = self._embeddings([item.text for item in items], rows)

        def work(cursor: Cursor) -> builtins.list[bool]:
            return self._add(cursor, items, namespace, handles, vectors, rows, near)

        created = self._connections.write(namespace, work)
        embedded = [True] * len(items) if rows is None else rows.any(axis=1).tolist()
        return [
            Added(handle, is_new, item.redactions, has_vector)
            for item, handle, is_new, has_vector in zip(
                items, handles, created, embedded, strict=True
            )
        ]

    def _add(
        self,
        cursor: Cursor,
        items: Sequence[MemoryItem],
        name: str,
        handles: Sequence[str],
        vectors: Vectors | None,
        rows: Any,
        near: Sequence[str] | None,
    ) -> builtins.list[bool]:
        now = now_ms()
        namespace = Namespace.make(cursor, name, self._language)
        if vectors is not None and rows is not None:
            namespace.settle_space(vectors.space, rows.shape[1])
        # An expired item makes room.
        namespace.delete(
            cursor,
            "handle = ANY(%(handles)s) AND expires <= %(now)s",
            {"handles": list(handles), "now": now},
        )
        cursor.execute(
            "SELECT handle FROM memory_chunks WHERE namespace = %s AND handle = ANY(%s)",
            [name, list(handles)],
        )
        there = {handle for (handle,) in cursor.fetchall()}
        created, fresh = [], []
        for at, handle in enumerate(handles):
            created.append(handle not in there)
            if handle not in there:
                there.add(handle)
                fresh.append(at)
        for batch in _batches(fresh, items):
            self._insert(cursor, namespace, batch, items, handles, rows, near, now)
        for item, handle in zip(items, handles, strict=True):
            for link in item.links:
                _link(cursor, name, handle, link.relation, link.handle, now)
        self._write_uses(cursor, name)
        enforce(cursor, namespace, self._limits, now)
        namespace.save(cursor)
        return created

    def _insert(
        self,
        cursor: Cursor,
        namespace: Namespace,
        batch: Sequence[int],
        items: Sequence[MemoryItem],
        handles: Sequence[str],
        rows: Any,
        near: Sequence[str] | None,
        now: int,
    ) -> None:
        values = [values_of(items[at], now) for at in batch]
        columns: dict[str, builtins.list[Any]] = {
            name: [value[name] for value in values] for name in values[0]
        }
        columns["handle"] = [handles[at] for at in batch]
        columns["vector"] = [
            rows[at].tobytes() if rows is not None and rows[at].any() else None for at in batch
        ]
        if rows is not None:
            extra = 4 * rows.shape[1]
            columns["bytes"] = [
                size + (extra if vector else 0)
                for size, vector in zip(columns["bytes"], columns["vector"], strict=True)
            ]
        columns["sequence"] = [namespace.sequence + 1 + number for number in range(len(batch))]
        types = {name: kind for name, kind in _TYPES.items() if name != "indexed"}
        names = [*types]
        chosen = [f"{name}::json" if types[name] == "json" else name for name in names]
        taken = [f"%({name})s::{_ARRAYS.get(types[name], types[name])}[]" for name in names]
        names.append("words")
        chosen.append("to_tsvector(%(language)s::regconfig, indexed)")
        read = [*types, "indexed"]
        taken.append("%(indexed)s::text[]")
        if self._has_vectors and near is not None:
            columns["embedding"] = [near[at] for at in batch]
            names.append("embedding")
            chosen.append("nullif(embedding, '')::halfvec")
            read.append("embedding")
            taken.append("%(embedding)s::text[]")
        cursor.execute(
            f"INSERT INTO memory_chunks (namespace, {', '.join(names)}) "
            f"SELECT %(namespace)s, {', '.join(chosen)} FROM unnest({', '.join(taken)}) "
            f"WITH ORDINALITY AS new({', '.join(read)}, number) ORDER BY number",
            {**columns, "namespace": namespace.namespace, "language": namespace.language},
        )
        namespace.sequence += len(batch)
        namespace.items += len(batch)
        namespace.bytes += sum(columns["bytes"])

    def get(self, handle: str, *, namespace: str) -> MemoryItem:
        """Return the item; raises UnknownHandleError."""
        verify_namespace(namespace)
        _verify_handle(handle)

        def work(cursor: Cursor) -> MemoryItem | None:
            now = now_ms()
            where = conditions(namespace, {}, now)
            cursor.execute(
                f"SELECT {', '.join(COLUMNS)} FROM memory_chunks WHERE {where.sql} "
                "AND handle = %(handle)s",
                {**where.parameters, "handle": handle},
            )
            found = _items(cursor, cursor.fetchall(), namespace, now)
            return found[0][1] if found else None

        item = self._connections.read(namespace, work)
        if item is None:
            raise UnknownHandleError(handle, namespace)
        return item

    def list(
        self,
        *,
        namespace: str,
        limit: int | None = 100,
        newest_first: bool = True,
        **filters: Unpack[Filters],
    ) -> builtins.list[MemoryItem]:
        """Return items in the order in which they were added."""
        verify_namespace(namespace)
        order, sign = ("DESC", "<") if newest_first else ("ASC", ">")
        left = math.inf if limit is None else limit
        found: builtins.list[MemoryItem] = []
        after: int | None = None
        while left > 0:
            count = int(min(left, _PAGE))

            def page(
                cursor: Cursor, after: int | None = after, count: int = count
            ) -> builtins.list[tuple[int, MemoryItem]]:
                now = now_ms()
                where = conditions(namespace, filters, now)
                further = "" if after is None else f" AND id {sign} %(after_id)s"
                cursor.execute(
                    f"SELECT {', '.join(COLUMNS)} FROM memory_chunks "
                    f"WHERE {where.sql}{further} ORDER BY id {order} LIMIT %(count)s",
                    {**where.parameters, "after_id": after, "count": count},
                )
                return _items(cursor, cursor.fetchall(), namespace, now)

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
        verify_namespace(namespace)
        if not query.strip() or limit == 0:
            return []
        rows = _checked_rows(vectors, 1)

        def work(cursor: Cursor) -> builtins.list[Hit]:
            return self._search(cursor, query, limit, namespace, fusion, vectors, rows, filters)

        hits = self._connections.read(namespace, work)
        return self._count_uses(namespace, hits)

    def _search(
        self,
        cursor: Cursor,
        query: str,
        limit: int,
        name: str,
        fusion: Fusion | None,
        vectors: Vectors | None,
        rows: Any,
        filters: Filters,
    ) -> builtins.list[Hit]:
        now = now_ms()
        namespace = Namespace.find(cursor, name)
        if namespace is None:
            return []
        where = conditions(name, filters, now)
        if vectors is not None and namespace.space is not None:
            _verify_space(namespace, vectors.space, rows.shape[1])
        elif vectors is not None:
            rows = None  # nothing here has a vector of the caller's
        if queries.is_scan(query) and rows is None:
            found = [
                (number, score, score, 1.0, math.nan)
                for number, score in queries.scan(cursor, query, where, limit)
            ]
        elif fusion == "weighted":
            found = [
                (number, score, text, trigram, math.nan if cosine is None else cosine)
                for number, score, text, trigram, cosine in queries.weighted(
                    cursor, namespace, query, where, limit, self._near(query, rows), WEIGHTED
                )
            ]
        else:
            found = self._ranked(cursor, namespace, query, limit, fusion, rows, filters, now)
        items = dict(
            _items(cursor, queries.rows_of(cursor, [x[0] for x in found], where), name, now)
        )
        kept = [hit for hit in found if hit[0] in items][:limit]
        texts = [items[hit[0]].text for hit in kept]
        return [
            Hit(
                items[number],
                text[start:end],
                score,
                words,
                trigram,
                None if math.isnan(cosine) else cosine,
            )
            for (number, score, words, trigram, cosine), text, (start, end) in zip(
                kept, texts, _engine.snippets(texts, query), strict=True
            )
        ]

    def _ranked(
        self,
        cursor: Cursor,
        namespace: Namespace,
        query: str,
        limit: int,
        fusion: Fusion | None,
        rows: Any,
        filters: Filters,
        now: int,
    ) -> builtins.list[tuple[int, float, float, float, float]]:
        """Return the engine's ranking: of the whole namespace, or of the server's candidates."""
        held = self._indexes.current(cursor, namespace)
        arguments: dict[str, Any] = {
            "limit": limit * 2 if filters.get("min_trust") else limit,
            "now_ms": now,
            "vector": rows,
            "fusion": fusion,
        }
        if held.is_whole:
            return held.index.search(query, **arguments, **_numbers(filters))
        self._lacked_vectors |= not self._has_vectors
        where = conditions(namespace.namespace, filters, now)
        near = self._near(query, rows)
        ids = queries.candidates(cursor, namespace, held, query, where, limit, near)
        index = self._with_candidates(cursor, namespace, held, ids)
        found: builtins.list[tuple[int, float, float, float, float]]
        found = index.search(query, allowed=ids, **arguments)
        return found

    def _with_candidates(
        self, cursor: Cursor, namespace: Namespace, held: HeldIndex, ids: Sequence[int]
    ) -> Any:
        cursor.execute(
            f"SELECT {ENTRY_COLUMNS} FROM memory_chunks WHERE namespace = %s AND id = ANY(%s)",
            [namespace.namespace, list(ids)],
        )
        return grown(held.index, cursor.fetchall(), [], namespace.dim)

    def recall(
        self,
        texts: Sequence[str],
        k: int = 3,
        *,
        namespace: str,
        vectors: Vectors | None = None,
    ) -> builtins.list[builtins.list[Recalled]]:
        """Return the k nearest items of each text or row, as the embedded store does."""
        verify_namespace(namespace)
        rows = None if vectors is None else _checked_rows(vectors, len(vectors.rows))
        queries_ = [*texts] or [""] * (0 if rows is None else len(rows))
        if not queries_:
            return []

        def work(cursor: Cursor) -> builtins.list[builtins.list[Recalled]]:
            return self._recall(cursor, queries_, k, namespace, vectors, rows)

        return self._connections.read(namespace, work)

    def _recall(
        self,
        cursor: Cursor,
        texts: Sequence[str],
        k: int,
        name: str,
        vectors: Vectors | None,
        rows: Any,
    ) -> builtins.list[builtins.list[Recalled]]:
        namespace = Namespace.find(cursor, name)
        nothing: builtins.list[builtins.list[Recalled]] = [[] for _ in texts]
        if namespace is None:
            return nothing
        if vectors is not None:
            if namespace.space is None:
                return nothing
            _verify_space(namespace, vectors.space, rows.shape[1])
        held = self._indexes.current(cursor, namespace)
        index, arguments = held.index, {"now_ms": now_ms(), "vectors": rows}
        if not held.is_whole:
            if not self._has_vectors:
                self._lacked_vectors = True
                return nothing
            ids = self._nearest(cursor, namespace, texts, rows, max(_RECALLED_PER_TEXT, k))
            index = self._with_candidates(cursor, namespace, held, ids)
            arguments["allowed"] = ids
        if rows is not None:
            found = index.recall(texts, k=k, **arguments)
        else:
            found = index.recall(texts, k=max(k, 2), centred=True, **arguments)
            if all(len(row) < 2 for row in found):  # one item has nothing in common with others
                alone = index.recall(texts, k=1, **arguments)
                found = [[(number, 2 * cosine - 1) for number, cosine in row] for row in alone]
        cursor.execute(
            "SELECT id, handle FROM memory_chunks WHERE namespace = %s AND id = ANY(%s)",
            [name, list({number for row in found for number, _ in row})],
        )
        handles = dict(cursor.fetchall())
        return [
            [Recalled(handles[number], cosine) for number, cosine in row if number in handles][:k]
            for row in found
        ]

    def _nearest(
        self, cursor: Cursor, namespace: Namespace, texts: Sequence[str], rows: Any, each: int
    ) -> builtins.list[int]:
        """Return the ids of the nearest of each text, in one statement."""
        near = _engine.embed(texts) if rows is None else rows
        dim = near.shape[1]
        column = queries.near(dim)
        cursor.execute(
            "SELECT DISTINCT near.id FROM unnest(%(vectors)s::text[]) AS asked(vector), "
            "LATERAL (SELECT id FROM memory_chunks WHERE namespace = %(namespace)s "
            f"AND (expires IS NULL OR expires > %(now)s) AND vector_dims(embedding) = {dim} "
            f"ORDER BY {column} <=> asked.vector::halfvec({dim}) LIMIT %(each)s) AS near",
            {
                "vectors": [queries.as_vector(row) for row in near if row.any()],
                "namespace": namespace.namespace,
                "now": now_ms(),
                "each": each,
            },
        )
        return [number for (number,) in cursor.fetchall()]

    def forget(self, handles: str | Sequence[str], *, namespace: str) -> int:
        """Remove items and return how many there were."""
        wanted = [handles] if isinstance(handles, str) else [*handles]
        for handle in wanted:
            _verify_handle(handle)
        return self._delete(
            namespace,
            "handle = ANY(%(handles)s) AND (expires IS NULL OR expires > %(now)s)",
            {"handles": wanted, "now": now_ms()},
        )

    def _delete(self, name: str, condition: str, parameters: dict[str, Any]) -> int:
        verify_namespace(name)

        def work(cursor: Cursor) -> int:
            namespace = Namespace.lock(cursor, name)
            if namespace is None:
                return 0
            gone = namespace.delete(cursor, condition, parameters)
            namespace.save(cursor)
            return gone

        return self._connections.write(name, work, long=True)

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
        verify_namespace(namespace)
        self._indexes.drop(namespace)
        if not everything:
            column, value = ("source", source) if source is not None else ("thread", thread)
            condition = (
                f"hashtextextended({column}, 0) = hashtextextended(%(value)s, 0) "
                f"AND {column} = %(value)s"
            )
            return self._delete(namespace, condition, {"value": encoded(value or "")})

        def work(cursor: Cursor) -> int:
            row = Namespace.lock(cursor, namespace)
            cursor.execute("DELETE FROM memory_threads WHERE namespace = %s", [namespace])
            if row is None:
                return 0
            cursor.execute("DELETE FROM memory_chunks WHERE namespace = %s", [namespace])
            gone = cursor.rowcount
            cursor.execute("DELETE FROM memory_namespaces WHERE namespace = %s", [namespace])
            return gone

        return self._connections.write(namespace, work, long=True)

    def set_tier(self, handles: str | Sequence[str], tier: Tier, *, namespace: str) -> int:
        """Move items to a tier and return how many moved."""
        verify_namespace(namespace)
        wanted = [handles] if isinstance(handles, str) else [*handles]
        for handle in wanted:
            _verify_handle(handle)

        def work(cursor: Cursor) -> int:
            row = Namespace.lock(cursor, namespace)
            if row is None:
                return 0
            moved = row.set_tier(
                cursor,
                TIER_CODES[tier],
                "handle = ANY(%(handles)s) AND (expires IS NULL OR expires > %(now)s)",
                {"handles": wanted, "now": now_ms()},
            )
            row.save(cursor)
            return moved

        return self._connections.write(namespace, work)

    def link(self, handle: str, relation: str, other: str, *, namespace: str) -> bool:
        """Link an item to another and return whether the link is new."""
        verify_namespace(namespace)
        _verify_handle(handle)
        _verify_handle(other)

        def work(cursor: Cursor) -> bool:
            if Namespace.lock(cursor, namespace) is None:
                raise UnknownHandleError(handle, namespace)
            return _link(cursor, namespace, handle, relation, other, now_ms())

        return self._connections.write(namespace, work)

    def set_vectors(self, handles: Sequence[str], vectors: Vectors, *, namespace: str) -> int:
        """Set vectors of another model on items and return how many of the items exist."""
        verify_namespace(namespace)
        rows = _checked_rows(vectors, len(handles))

        def work(cursor: Cursor) -> int:
            row = Namespace.lock(cursor, namespace)
            if row is None or rows is None:
                return 0
            row.settle_space(vectors.space, rows.shape[1])
            near = ", embedding = nullif(near, '')::halfvec" if self._has_vectors else ""
            cursor.execute(
                "WITH new AS (SELECT * FROM unnest(%(handles)s::text[], %(vectors)s::bytea[], "
                "%(near)s::text[]) WITH ORDINALITY AS new(handle, vector, near, number)), "
                "old AS (SELECT here.id, coalesce(length(here.vector), 0) AS size "
                "FROM memory_chunks AS here JOIN new USING (handle) "
                "WHERE namespace = %(namespace)s) UPDATE memory_chunks "
                "SET vector = new.vector, sequence = %(sequence)s + new.number, "
                "bytes = bytes + coalesce(length(new.vector), 0) - old.size" + near + " "
                "FROM new, old WHERE memory_chunks.handle = new.handle "
                "AND memory_chunks.id = old.id AND namespace = %(namespace)s "
                "RETURNING coalesce(length(memory_chunks.vector), 0) - old.size",
                {
                    "handles": [*handles],
                    "vectors": [one.tobytes() if one.any() else None for one in rows],
                    "near": [queries.as_vector(one) if one.any() else "" for one in rows],
                    "namespace": namespace,
                    "sequence": row.sequence,
                },
            )
            changes = [size for (size,) in cursor.fetchall()]
            row.sequence += len(handles)
            row.bytes += sum(changes)
            row.save(cursor)
            return len(changes)

        return self._connections.write(namespace, work, long=True)

    def drop_vectors(self, *, namespace: str) -> int:
        """Remove all vectors and the name of their model; return how many items had one."""
        verify_namespace(namespace)

        def work(cursor: Cursor) -> int:
            row = Namespace.lock(cursor, namespace)
            if row is None:
                return 0
            near = ", embedding = NULL" if self._has_vectors and row.space is not None else ""
            cursor.execute(
                "WITH old AS (SELECT id, length(vector) AS size, row_number() OVER (ORDER BY id) "
                "AS number FROM memory_chunks WHERE namespace = %(namespace)s "
                "AND vector IS NOT NULL) UPDATE memory_chunks SET vector = NULL, "
                "sequence = %(sequence)s + old.number, bytes = bytes - old.size" + near + " "
                "FROM old WHERE memory_chunks.id = old.id RETURNING old.size",
                {"namespace": namespace, "sequence": row.sequence},
            )
            sizes = [size for (size,) in cursor.fetchall()]
            row.sequence += len(sizes)
            row.bytes -= sum(sizes)
            row.space = row.dim = None
            row.save(cursor)
            return len(sizes)

        return self._connections.write(namespace, work, long=True)

    def stats(self, *, namespace: str) -> MemoryStats:
        """Return figures of the namespace."""
        verify_namespace(namespace)

        def work(cursor: Cursor) -> MemoryStats:
            row = Namespace.find(cursor, namespace)
            cursor.execute(
                "SELECT count(*) FILTER (WHERE tier = 0), count(*) FILTER (WHERE tier = 1), "
                "count(*) FILTER (WHERE tier = 2), count(vector), "
                "(SELECT count(*) FROM memory_links WHERE namespace = %(namespace)s), "
                "(SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relkind = 'r' "
                "AND relname LIKE 'memory\\_%%' AND pg_table_is_visible(oid)) "
                "FROM memory_chunks WHERE namespace = %(namespace)s",
                {"namespace": namespace},
            )
            found = cursor.fetchone()
            assert found is not None
            hot, warm, cold, vectors, links, size = found
            return MemoryStats(
                namespace=namespace,
                items=hot + warm + cold,
                hot=hot,
                warm=warm,
                cold=cold,
                held_bytes=0 if row is None else row.bytes,
                links=links,
                demoted=0 if row is None else row.demoted,
                dropped=0 if row is None else row.dropped,
                vectors=vectors,
                vector_space=None if row is None else row.space,
                indexed=hot + warm + cold,
                pending=0,
                index_bytes=self._indexes.held_bytes(namespace),
                store_bytes=int(size or 0),
                limits=self._limits,
            )

        return self._connections.read(namespace, work, long=True)

    def namespaces(self) -> builtins.list[str]:
        """Return the namespaces that were added to and not purged, in alphabetical order.

        A role that row-level security holds to one namespace sees none here.
        """

        def work(cursor: Cursor) -> builtins.list[str]:
            cursor.execute("SELECT namespace FROM memory_namespaces")
            return sorted([name for (name,) in cursor.fetchall()])

        return self._connections.read("", work)

    def verify(self) -> VerifyReport:
        """Check that each text is the one that its handle was made of, and the counts."""
        items, problems = 0, []
        for name in self.namespaces():
            count, found = self._connections.read(name, partial(_verify, namespace=name), long=True)
            items += count
            problems += found
        return VerifyReport(items, tuple(problems))

    def rebuild(self, *, namespace: str | None = None) -> int:
        """Make the words and the server's vectors of items anew; return how many there are."""
        names = self.namespaces() if namespace is None else [verify_namespace(namespace)]
        return sum(self._rebuild(name) for name in names)

    def _rebuild(self, name: str) -> int:
        self._indexes.drop(name)
        last, count = 0, 0
        while True:

            def work(cursor: Cursor, last: int = last) -> builtins.list[int]:
                return self._rebuild_some(cursor, name, last)

            ids = self._connections.write(name, work, long=True)
            count += len(ids)
            if len(ids) < _BATCH_ITEMS:
                return count
            last = ids[-1]

    def _rebuild_some(self, cursor: Cursor, name: str, last: int) -> builtins.list[int]:
        from rehydrate.memory.postgres.rows import words_of

        row = Namespace.lock(cursor, name)
        if row is None:
            return []
        cursor.execute(
            "SELECT id, text, vector FROM memory_chunks WHERE namespace = %s AND id > %s "
            "ORDER BY id LIMIT %s",
            [name, last, _BATCH_ITEMS],
        )
        found = cursor.fetchall()
        texts = [decoded(text) for _, text, _ in found]
        near = ", embedding = nullif(new.near, '')::halfvec" if self._has_vectors else ""
        cursor.execute(
            "UPDATE memory_chunks SET words = to_tsvector(%(language)s::regconfig, new.indexed)"
            + near
            + " FROM unnest(%(ids)s::bigint[], %(indexed)s::text[], %(near)s::text[]) "
            "AS new(id, indexed, near) WHERE memory_chunks.id = new.id",
            {
                "language": row.language,
                "ids": [number for number, _, _ in found],
                "indexed": [words_of(text) for text in texts],
                "near": self._rebuilt_embeddings(texts, [vector for _, _, vector in found], row),
            },
        )
        return [number for number, _, _ in found]

    def _rebuilt_embeddings(
        self, texts: Sequence[str], vectors: Sequence[bytes | None], row: Namespace
    ) -> builtins.list[str]:
        import numpy as np

        if not self._has_vectors or not texts:
            return [""] * len(texts)
        if row.space is None:
            return self._embeddings(texts, None) or [""] * len(texts)
        return [
            "" if vector is None else queries.as_vector(np.frombuffer(vector, dtype=np.float32))
            for vector in vectors
        ]

    def close(self) -> None:
        """Write what searches counted, then close the connections."""
        with self._uses_lock:
            names = {name for name, _ in self._uses}
        for name in names:
            self._flush_uses(name)
        self._connections.close()

    def _embeddings(self, texts: Sequence[str], rows: Any) -> builtins.list[str] | None:
        """Return what the server's vector index holds of texts; "" where there is none."""
        if not self._has_vectors:
            return None
        near = _engine.embed(texts) if rows is None else rows
        return [queries.as_vector(row) if row.any() else "" for row in near]

    def _near(self, query: str, rows: Any) -> Any:
        """Return the query's vector for the server; None where it has no vectors."""
        if not self._has_vectors:
            return None
        row = _engine.embed([query])[0] if rows is None else rows[0]
        return row if row.any() else None

    def _count_uses(self, namespace: str, hits: builtins.list[Hit]) -> builtins.list[Hit]:
        if self._connections.read_only:
            return hits
        with self._uses_lock:
            for hit in hits:
                key = (namespace, hit.handle)
                self._uses[key] = self._uses.get(key, 0) + 1
            is_full = len(self._uses) >= _USES_KEPT
        if is_full:
            self._flush_uses(namespace)
        return hits

    def _flush_uses(self, namespace: str) -> None:
        from rehydrate.errors import StoreError

        try:
            self._connections.write(namespace, lambda cursor: self._write_uses(cursor, namespace))
        except StoreError:
            return  # counts are no promise

    def _write_uses(self, cursor: Cursor, namespace: str) -> None:
        with self._uses_lock:
            uses = {key: count for key, count in self._uses.items() if key[0] == namespace}
            for key in uses:
                del self._uses[key]
        if uses:
            cursor.execute(
                "UPDATE memory_chunks SET uses = uses + counted, used = %(now)s FROM "
                "unnest(%(handles)s::text[], %(counts)s::bigint[]) AS found(shown, counted) "
                "WHERE namespace = %(namespace)s AND handle = shown",
                {
                    "now": now_ms(),
                    "handles": [handle for _, handle in uses],
                    "counts": [*uses.values()],
                    "namespace": namespace,
                },
            )


_ARRAYS = {"json": "text"}
_TYPES = {
    "handle": "text",
    "sequence": "bigint",
    "tier": "smallint",
    **dict.fromkeys(("kind", "source", "thread", "tool", "principal"), "text"),
    "trust": "float8",
    "confidence": "float8",
    "parents": "json",
    "time": "bigint",
    "created": "bigint",
    "expires": "bigint",
    "metadata": "json",
    "redactions": "json",
    "bytes": "bigint",
    "text": "text",
    "vector": "bytea",
    "indexed": "text",
}


def _items(
    cursor: Cursor, rows: Sequence[Any], namespace: str, now: int
) -> list[tuple[int, MemoryItem]]:
    found = [ItemRow._make(row) for row in rows]
    links = queries.links_of(cursor, namespace, [row.id for row in found], now)
    return [(row.id, item_of(row, namespace, links.get(row.id, ()))) for row in found]


def _batches(fresh: Sequence[int], items: Sequence[MemoryItem]) -> list[list[int]]:
    """Divide items into statements of bounded size."""
    batches: list[list[int]] = []
    size = 0
    for at in fresh:
        if not batches or len(batches[-1]) >= _BATCH_ITEMS or size > _BATCH_CHARS:
            batches.append([])
            size = 0
        batches[-1].append(at)
        size += len(items[at].text)
    return batches


def _link(cursor: Cursor, namespace: str, handle: str, relation: str, other: str, now: int) -> bool:
    cursor.execute(
        "SELECT handle, id FROM memory_chunks WHERE namespace = %s AND handle = ANY(%s) "
        "AND (expires IS NULL OR expires > %s)",
        [namespace, [handle, other], now],
    )
    ids = dict(cursor.fetchall())
    for end in (handle, other):
        if end not in ids:
            raise UnknownHandleError(end, namespace)
    cursor.execute(
        "INSERT INTO memory_links (namespace, origin, relation, target) VALUES (%s, %s, %s, %s) "
        "ON CONFLICT DO NOTHING",
        [namespace, ids[handle], encoded(relation), ids[other]],
    )
    return cursor.rowcount > 0


def _checked_rows(vectors: Vectors | None, count: int) -> Any:
    if vectors is None:
        return None
    import numpy as np

    rows = np.ascontiguousarray(vectors.rows, dtype=np.float32)
    if rows.ndim == 1 and count == 1:
        rows = rows.reshape(1, -1)
    if rows.ndim != 2 or len(rows) != count:
        raise InvalidArgumentError(
            f"vectors have shape {rows.shape} for {count} texts; give a row for each"
        )
    if not np.isfinite(rows).all():
        raise InvalidArgumentError("a vector holds NaN or infinity; give zeros for no vector")
    return rows


def _verify_space(namespace: Namespace, space: str, dim: int) -> None:
    if (namespace.space, namespace.dim) != (space, dim):
        raise InvalidArgumentError(
            f"a vector of {space!r} ({dim} components) where this namespace has those of "
            f"{namespace.space!r} ({namespace.dim}); use that model"
        )


def _verify_handle(handle: str) -> None:
    if "\0" in handle or not handle.isascii():
        raise InvalidArgumentError(f"{handle!r} is no handle; handles begin with 'mem_'")


def _numbers(filters: Filters) -> dict[str, Any]:
    """Return filters as an index takes them."""
    numbers: dict[str, Any] = {}
    for name, argument in (("kinds", "kinds"), ("sources", "sources"), ("threads", "sessions")):
        values: Any = filters.get(name)
        if values is not None:
            numbers[argument] = [number_of(encoded(value)) for value in values]
    if (tiers := filters.get("tiers")) is not None:
        numbers["tiers"] = sum(1 << TIER_CODES[tier] for tier in set(tiers))
    if (after := filters.get("after")) is not None:
        numbers["after_ms"] = milliseconds(after)
    if (before := filters.get("before")) is not None:
        numbers["before_ms"] = milliseconds(before)
    if (trust := filters.get("min_trust")) is not None:
        numbers["min_trust"] = step_of(trust)
    return numbers


def _verify(cursor: Cursor, namespace: str) -> tuple[int, list[str]]:
    row = Namespace.find(cursor, namespace)
    count, problems, last = 0, [], 0
    while True:
        cursor.execute(
            "SELECT id, handle, source, text FROM memory_chunks "
            "WHERE namespace = %s AND id > %s ORDER BY id LIMIT %s",
            [namespace, last, _PAGE],
        )
        found = cursor.fetchall()
        if not found:
            break
        last = found[-1][0]
        count += len(found)
        wanted = _engine.handles(
            namespace, [(decoded(source), decoded(text)) for _, _, source, text in found]
        )
        problems += [
            f"{handle} in {namespace!r}: its text is not the one that was added"
            for (_, handle, _, _), right in zip(found, wanted, strict=True)
            if handle != right
        ]
    if row is not None and row.items != count:
        problems.append(f"{namespace!r} counts {row.items} items and holds {count}")
    return count, problems
