"""Items into the tables: inserted in batches, linked, given vectors, made again; uses counted, and
figures and checks of a namespace.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from rehydrate import _native
from rehydrate._concurrency.locks import ForkSafeLock
from rehydrate._native import read_server_text, server_text, server_words
from rehydrate.errors import UnknownHandleError
from rehydrate.memory.items import MemoryItem, MemoryLimits, MemoryStats, Vectors
from rehydrate.memory.postgres.connections import Cursor
from rehydrate.memory.postgres.held import near_texts, written
from rehydrate.memory.postgres.rows import Namespace, enforce, now_ms
from rehydrate.memory.postgres.schema import HASH

_BATCH_ITEMS = 500
_BATCH_CHARS = 4_000_000
_TYPES = {
    "handle": "text",
    "tier": "smallint",
    **dict.fromkeys(("kind", "source", "thread", "tool", "principal"), "text"),
    **dict.fromkeys(("trust", "confidence"), "float8"),
    "parents": "json",
    **dict.fromkeys(("time", "created", "expires"), "bigint"),
    **dict.fromkeys(("metadata", "redactions"), "json"),
    "bytes": "bigint",
    "text": "text",
    "vector": "bytea",
    "indexed": "text",
    "near": "text",
}
"""The columns of `server_rows`, in its order, then what the server's vector index holds."""
_BYTES, _TEXT = [*_TYPES].index("bytes"), [*_TYPES].index("text")
_KEPT = {name: kind for name, kind in _TYPES.items() if name not in {"indexed", "near"}}
_CHOSEN = ", ".join(f"{name}::json" if kind == "json" else name for name, kind in _KEPT.items())
_ARRAYS = ", ".join(f"%s::{kind.replace('json', 'text')}[]" for kind in _TYPES.values())


class NewItems(NamedTuple):
    """Items to be added, with a row of `_TYPES` for each."""

    items: Sequence[MemoryItem]
    rows: Sequence[tuple[Any, ...]]
    vectors: Vectors | None
    """Vectors of the caller's model."""
    has_vectors: bool
    """Whether the server has a vector index."""


def add_items(
    cursor: Cursor, name: str, new: NewItems, language: str, limits: MemoryLimits
) -> list[bool]:
    """Add items within a transaction; return whether each is new."""
    now = now_ms()
    namespace = Namespace.make(cursor, name, language)
    if new.vectors is not None:
        namespace.settle_space(new.vectors.space, new.vectors.rows.shape[1])
    handles = [row[0] for row in new.rows]
    # An expired item makes room.
    namespace.delete(
        cursor,
        "handle = ANY(%(handles)s) AND expires <= %(now)s",
        {"handles": handles, "now": now},
    )
    cursor.execute(
        "SELECT handle FROM memory_chunks WHERE namespace = %s AND handle = ANY(%s)",
        [name, handles],
    )
    there = {handle for (handle,) in cursor.fetchall()}
    created, fresh = [], []
    for handle, row in zip(handles, new.rows, strict=True):
        created.append(handle not in there)
        if handle not in there:
            there.add(handle)
            fresh.append(row)
    for batch in _batches(fresh):
        _insert(cursor, namespace, batch, new.has_vectors)
    for item, handle in zip(new.items, handles, strict=True):
        for one in item.links:
            link(cursor, name, handle, one.relation, one.handle, now)
    enforce(cursor, namespace, limits, now)
    namespace.save(cursor)
    return created


def _insert(
    cursor: Cursor, namespace: Namespace, rows: Sequence[tuple[Any, ...]], has_vectors: bool
) -> None:
    into, chosen = (", embedding", ", nullif(near, '')::halfvec") if has_vectors else ("", "")
    cursor.execute(
        f"INSERT INTO memory_chunks (namespace, sequence, {', '.join(_KEPT)}, words{into}) "
        f"SELECT %s, %s + number, {_CHOSEN}, to_tsvector(%s::regconfig, indexed){chosen} "
        f"FROM unnest({_ARRAYS}) WITH ORDINALITY AS new({', '.join(_TYPES)}, number) "
        "ORDER BY number",
        [
            *(namespace.namespace, namespace.sequence, namespace.language),
            *map(list, zip(*rows, strict=True)),
        ],
    )
    namespace.sequence += len(rows)
    namespace.items += len(rows)
    namespace.bytes += sum(row[_BYTES] for row in rows)


def _batches(rows: Sequence[tuple[Any, ...]]) -> list[list[tuple[Any, ...]]]:
    """Divide rows into statements of bounded size."""
    batches: list[list[tuple[Any, ...]]] = []
    size = 0
    for row in rows:
        if not batches or len(batches[-1]) >= _BATCH_ITEMS or size > _BATCH_CHARS:
            batches.append([])
            size = 0
        batches[-1].append(row)
        size += len(row[_TEXT])
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
    cursor: Cursor, row: Namespace, handles: Sequence[str], vectors: Vectors, has_vectors: bool
) -> int:
    """Set vectors on items; return how many of the items are there."""
    rows = vectors.rows
    row.settle_space(vectors.space, rows.shape[1])
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
    """The number of times that searches returned items, written now and then."""

    _KEPT = 256
    """Items of a namespace, or namespaces, beyond which some are written."""

    def __init__(self) -> None:
        """Start with none."""
        self._uses: dict[str, Counter[str]] = {}
        self._lock = ForkSafeLock()

    def count(self, namespace: str, handles: Sequence[str]) -> str | None:
        """Count items; return a namespace whose counts are now to be written, or None."""
        with self._lock:
            self._uses.setdefault(namespace, Counter()).update(handles)
            if len(self._uses) > self._KEPT:
                return next(iter(self._uses))
            return namespace if len(self._uses[namespace]) >= self._KEPT else None

    def namespaces(self) -> list[str]:
        """Return the namespaces with counts to be written."""
        with self._lock:
            return [*self._uses]

    def write(self, cursor: Cursor, namespace: str) -> None:
        """Write the counts of a namespace."""
        with self._lock:
            uses = self._uses.pop(namespace, None)
        if uses:
            cursor.execute(
                "INSERT INTO memory_uses (id, namespace, uses, used) "
                "SELECT id, namespace, counted, %(now)s FROM memory_chunks JOIN "
                "unnest(%(handles)s::text[], %(counts)s::bigint[]) AS found(handle, counted) "
                "USING (handle) WHERE namespace = %(namespace)s ORDER BY id ON CONFLICT (id) "
                "DO UPDATE SET uses = memory_uses.uses + excluded.uses, used = excluded.used",
                {
                    "now": now_ms(),
                    "handles": [*uses],
                    "counts": [*uses.values()],
                    "namespace": namespace,
                },
            )


_PAGE = 1_000
REBUILT = 500
"""Items that one transaction makes again."""


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
    """Return how many items there are, and what is wrong with them and with the threads."""
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
    cursor.execute(
        "SELECT name FROM memory_threads AS held WHERE namespace = %s AND records <> "
        "(SELECT count(*) FROM memory_thread_records WHERE thread = held.id "
        f"AND hash = {HASH.format(body='body')})",
        [namespace],
    )
    problems += [
        f"a record of thread {name!r} in {namespace!r} is missing, or not as it was written"
        for (name,) in cursor.fetchall()
    ]
    return count, problems


def rebuild_some(cursor: Cursor, name: str, last: int, has_vectors: bool) -> list[int]:
    """Make words and vectors of the items after an id again; return their ids."""
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
            "indexed": [server_words(text) for text in texts],
            "near": _near(texts, [vector for _, _, vector in found], row, has_vectors),
        },
    )
    return [number for number, _, _ in found]


def _near(
    texts: list[str], vectors: list[bytes | None], row: Namespace, has_vectors: bool
) -> list[str]:
    if not has_vectors or not texts:
        return [""] * len(texts)
    if row.space is None:
        return near_texts(texts, None)
    import numpy as np

    zeros = bytes(4 * (row.dim or 0))
    numbers = np.frombuffer(b"".join(vector or zeros for vector in vectors), dtype=np.float32)
    return written(numbers.reshape(len(texts), -1))
