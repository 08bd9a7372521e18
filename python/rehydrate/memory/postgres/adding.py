"""Items into the tables: inserted in batches, linked, given vectors, made anew; uses counted, and
figures and checks of a namespace.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from rehydrate import _native
from rehydrate._concurrency.locks import ForkSafeLock
from rehydrate._native import read_server_text, server_text
from rehydrate.errors import UnknownHandleError
from rehydrate.memory.items import MemoryItem, MemoryLimits, MemoryStats
from rehydrate.memory.postgres.connections import Cursor
from rehydrate.memory.postgres.held import near_texts, written
from rehydrate.memory.postgres.rows import Namespace, enforce, now_ms, values_of, words_of

_BATCH_ITEMS = 500
_BATCH_CHARS = 4_000_000
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
}


class NewItems(NamedTuple):
    """Items to be added, with their handles and vectors."""

    items: Sequence[MemoryItem]
    handles: Sequence[str]
    space: str | None
    rows: Any
    """Of the caller's model, float32; None: it has none."""
    near: Sequence[str] | None
    """Of the server's vector index, as it reads them; None: it has none."""


def add_items(
    cursor: Cursor, name: str, new: NewItems, language: str, limits: MemoryLimits
) -> list[bool]:
    """Add items within a transaction; return whether each is new."""
    now = now_ms()
    namespace = Namespace.make(cursor, name, language)
    if new.space is not None and new.rows is not None:
        namespace.settle_space(new.space, new.rows.shape[1])
    # An expired item makes room.
    namespace.delete(
        cursor,
        "handle = ANY(%(handles)s) AND expires <= %(now)s",
        {"handles": list(new.handles), "now": now},
    )
    cursor.execute(
        "SELECT handle FROM memory_chunks WHERE namespace = %s AND handle = ANY(%s)",
        [name, list(new.handles)],
    )
    there = {handle for (handle,) in cursor.fetchall()}
    created, fresh = [], []
    for at, handle in enumerate(new.handles):
        created.append(handle not in there)
        if handle not in there:
            there.add(handle)
            fresh.append(at)
    for batch in _batches(fresh, new.items):
        _insert(cursor, namespace, batch, new, now)
    for item, handle in zip(new.items, new.handles, strict=True):
        for one in item.links:
            link(cursor, name, handle, one.relation, one.handle, now)
    enforce(cursor, namespace, limits, now)
    namespace.save(cursor)
    return created


def _insert(
    cursor: Cursor, namespace: Namespace, batch: Sequence[int], new: NewItems, now: int
) -> None:
    values = [values_of(new.items[at], now) for at in batch]
    columns: dict[str, list[Any]] = {name: [value[name] for value in values] for name in values[0]}
    columns["handle"] = [new.handles[at] for at in batch]
    columns["vector"] = [
        new.rows[at].tobytes() if new.rows is not None and new.rows[at].any() else None
        for at in batch
    ]
    if new.rows is not None:
        extra = 4 * new.rows.shape[1]
        columns["bytes"] = [
            size + (extra if vector else 0)
            for size, vector in zip(columns["bytes"], columns["vector"], strict=True)
        ]
    columns["sequence"] = [namespace.sequence + 1 + number for number in range(len(batch))]
    names = [*_TYPES]
    chosen = [f"{name}::json" if _TYPES[name] == "json" else name for name in names]
    taken = [
        f"%({name})s::{'text' if _TYPES[name] == 'json' else _TYPES[name]}[]" for name in names
    ]
    names.append("words")
    chosen.append("to_tsvector(%(language)s::regconfig, indexed)")
    read = [*_TYPES, "indexed"]
    taken.append("%(indexed)s::text[]")
    if new.near is not None:
        columns["embedding"] = [new.near[at] for at in batch]
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


def link(cursor: Cursor, namespace: str, handle: str, relation: str, other: str, now: int) -> bool:
    """Link two items that are there; return whether the link is new."""
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
        "ON CONFLICT DO NOTHING RETURNING true",
        [namespace, ids[handle], server_text(relation), ids[other]],
    )
    return cursor.fetchone() is not None


def set_vectors(
    cursor: Cursor,
    row: Namespace,
    handles: Sequence[str],
    space: str,
    rows: Any,
    has_vectors: bool,
) -> int:
    """Set vectors on items; return how many of the items are there."""
    row.settle_space(space, rows.shape[1])
    near = ", embedding = nullif(near, '')::halfvec" if has_vectors else ""
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
            "near": written(rows),
            "namespace": row.namespace,
            "sequence": row.sequence,
        },
    )
    changes = [size for (size,) in cursor.fetchall()]
    row.sequence += len(handles)
    row.bytes += sum(changes)
    return len(changes)


def drop_vectors(cursor: Cursor, row: Namespace, has_vectors: bool) -> int:
    """Remove all vectors and the name of their model; return how many items had one."""
    near = ", embedding = NULL" if has_vectors and row.space is not None else ""
    cursor.execute(
        "WITH old AS (SELECT id, length(vector) AS size, row_number() OVER (ORDER BY id) "
        "AS number FROM memory_chunks WHERE namespace = %(namespace)s "
        "AND vector IS NOT NULL) UPDATE memory_chunks SET vector = NULL, "
        "sequence = %(sequence)s + old.number, bytes = bytes - old.size" + near + " "
        "FROM old WHERE memory_chunks.id = old.id RETURNING old.size",
        {"namespace": row.namespace, "sequence": row.sequence},
    )
    sizes = [size for (size,) in cursor.fetchall()]
    row.sequence += len(sizes)
    row.bytes -= sum(sizes)
    row.space = row.dim = None
    return len(sizes)


class UseCounts:
    """How often searches returned items, written now and then."""

    _KEPT = 256

    def __init__(self) -> None:
        """Start with none."""
        self._uses: dict[tuple[str, str], int] = {}
        self._lock = ForkSafeLock()

    def count(self, namespace: str, handles: Sequence[str]) -> bool:
        """Count items; return whether it is time to write."""
        with self._lock:
            for handle in handles:
                key = (namespace, handle)
                self._uses[key] = self._uses.get(key, 0) + 1
            return len(self._uses) >= self._KEPT

    def namespaces(self) -> set[str]:
        """Return the namespaces with counts to be written."""
        with self._lock:
            return {namespace for namespace, _ in self._uses}

    def write(self, cursor: Cursor, namespace: str) -> None:
        """Write the counts of a namespace."""
        with self._lock:
            uses = {key: count for key, count in self._uses.items() if key[0] == namespace}
            for key in uses:
                del self._uses[key]
        if uses:
            cursor.execute(
                "INSERT INTO memory_uses (id, namespace, uses, used) "
                "SELECT id, namespace, counted, %(now)s FROM memory_chunks JOIN "
                "unnest(%(handles)s::text[], %(counts)s::bigint[]) AS found(handle, counted) "
                "USING (handle) WHERE namespace = %(namespace)s ORDER BY id ON CONFLICT (id) "
                "DO UPDATE SET uses = memory_uses.uses + excluded.uses, used = excluded.used",
                {
                    "now": now_ms(),
                    "handles": [handle for _, handle in uses],
                    "counts": [*uses.values()],
                    "namespace": namespace,
                },
            )


_PAGE = 1_000
REBUILT = 500
"""Items that one transaction makes anew."""


def figures(cursor: Cursor, namespace: str, limits: MemoryLimits, index_bytes: int) -> MemoryStats:
    """Return the figures of a namespace."""
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
        index_bytes=index_bytes,
        store_bytes=int(size or 0),
        limits=limits,
    )


def verify(cursor: Cursor, namespace: str) -> tuple[int, list[str]]:
    """Return how many items there are, and what is wrong with them."""
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
        wanted = _native.handles(
            namespace,
            [(read_server_text(source), read_server_text(text)) for _, _, source, text in found],
        )
        problems += [
            f"{handle} in {namespace!r}: its text is not the one that was added"
            for (_, handle, _, _), right in zip(found, wanted, strict=True)
            if handle != right
        ]
    if row is not None and row.items != count:
        problems.append(f"{namespace!r} counts {row.items} items and holds {count}")
    return count, problems


def rebuild_some(cursor: Cursor, name: str, last: int, has_vectors: bool) -> list[int]:
    """Make words and vectors of the items after an id anew; return their ids."""
    row = Namespace.find(cursor, name, lock=True)
    if row is None:
        return []
    cursor.execute(
        "SELECT id, text, vector FROM memory_chunks WHERE namespace = %s AND id > %s "
        "ORDER BY id LIMIT %s",
        [name, last, REBUILT],
    )
    found = cursor.fetchall()
    texts = [read_server_text(text) for _, text, _ in found]
    near = ", embedding = nullif(new.near, '')::halfvec" if has_vectors else ""
    cursor.execute(
        "UPDATE memory_chunks SET words = to_tsvector(%(language)s::regconfig, new.indexed)"
        + near
        + " FROM unnest(%(ids)s::bigint[], %(indexed)s::text[], %(near)s::text[]) "
        "AS new(id, indexed, near) WHERE memory_chunks.id = new.id",
        {
            "language": row.language,
            "ids": [number for number, _, _ in found],
            "indexed": [words_of(text) for text in texts],
            "near": _near(texts, [vector for _, _, vector in found], row, has_vectors),
        },
    )
    return [number for number, _, _ in found]


def _near(
    texts: list[str], vectors: list[bytes | None], row: Namespace, has_vectors: bool
) -> list[str]:
    import numpy as np

    if not has_vectors or not texts:
        return [""] * len(texts)
    if row.space is None:
        return near_texts(texts, None)
    nothing = np.zeros(row.dim or 0, dtype=np.float32)
    return written(
        nothing if vector is None else np.frombuffer(vector, dtype=np.float32) for vector in vectors
    )
