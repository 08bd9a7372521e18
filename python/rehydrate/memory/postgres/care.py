"""Figures, checks and the making anew of a namespace's rows, within a transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rehydrate import _engine
from rehydrate.memory.items import MemoryLimits, MemoryStats
from rehydrate.memory.postgres.failures import decoded
from rehydrate.memory.postgres.held import near_texts, written
from rehydrate.memory.postgres.namespaces import Namespace
from rehydrate.memory.postgres.rows import words_of

if TYPE_CHECKING:
    from rehydrate.memory.postgres.failures import Cursor

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


def rebuild_some(cursor: Cursor, name: str, last: int, has_vectors: bool) -> list[int]:
    """Make words and vectors of the items after an id anew; return their ids."""
    row = Namespace.lock(cursor, name)
    if row is None:
        return []
    cursor.execute(
        "SELECT id, text, vector FROM memory_chunks WHERE namespace = %s AND id > %s "
        "ORDER BY id LIMIT %s",
        [name, last, REBUILT],
    )
    found = cursor.fetchall()
    texts = [decoded(text) for _, text, _ in found]
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
