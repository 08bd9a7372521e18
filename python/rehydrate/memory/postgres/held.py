"""Indexes of namespaces in this process: of all items of a small one, of a sample of a large one.

An index of all items is a cache of the server's rows. The namespace's sequence number says whether
it is current; what changed since is read, and no more. A sample gives the engine the statistics
that it ranks candidates by: how common words are, and what all vectors have in common.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rehydrate import _engine, _native
from rehydrate._concurrency.locks import ForkSafeLock
from rehydrate._native import check_server_name
from rehydrate.errors import InvalidArgumentError
from rehydrate.memory.items import Vectors
from rehydrate.memory.postgres.connections import Cursor
from rehydrate.memory.postgres.rows import Namespace
from rehydrate.memory.postgres.schema import DIMENSIONS

_MAX_SPACE_BYTES = 4_096


def checked_vectors(vectors: Vectors | None, count: int) -> Vectors | None:
    """Return vectors with a row of float32 for each text; raises InvalidArgumentError."""
    if vectors is None:
        return None
    check_server_name("space", vectors.space, _MAX_SPACE_BYTES)
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
    return Vectors(vectors.space, rows)


def as_vector(vector: Any) -> str:
    """Return a vector as pgvector reads it."""
    return f"[{','.join(f'{float(x):.6g}' for x in vector)}]"


def near(dim: int) -> str:
    """Return the column of vectors, so that the index of their dimension is used."""
    return f"(embedding::halfvec({dim}))" if dim in DIMENSIONS else "embedding"


def written(rows: Any) -> list[str]:
    """Return rows as pgvector reads them; "" for a row of zeros, which is not a vector."""
    return [as_vector(row) if row.any() else "" for row in rows]


def near_texts(texts: Sequence[str], vectors: Vectors | None) -> list[str]:
    """Return what the server's vector index holds of texts: vectors, or the built-in model's."""
    return written(_engine.embed(texts) if vectors is None else vectors.rows)


WHOLE_ITEMS = 20_000
"""Items up to which a namespace's index is held, if the server has vectors."""
WHOLE_ITEMS_WITHOUT_VECTORS = 200_000
"""The same if it has none, and only an index here finds by meaning."""
SAMPLE_ITEMS = 2_000
_ITEM_BYTES = 1_500
"""An item's share of an index, about, besides its text."""
_SHARE_BYTES = 150
"""A lexeme's share of memory, about."""
ENTRY_COLUMNS = "id, text, time, source, kind, thread, tier, trust, expires, vector"


@dataclass(frozen=True, slots=True)
class HeldIndex:
    """An index, and the row of its namespace when it was made."""

    row: Namespace
    is_whole: bool
    index: _native.ItemIndex
    shares: Mapping[str, float]
    """In a sample: by lexeme of full-text search, the share of items that hold it."""


class HeldIndexes:
    """The indexes in use, the least recently used dropped beyond a number of bytes."""

    def __init__(self, max_bytes: int, has_vectors: bool) -> None:
        """Take the bytes that all indexes together may have."""
        self._max_bytes = max_bytes
        self._whole_items = WHOLE_ITEMS if has_vectors else WHOLE_ITEMS_WITHOUT_VECTORS
        self._held: OrderedDict[str, tuple[HeldIndex, int]] = OrderedDict()
        self._lock = ForkSafeLock()

    def current(self, cursor: Cursor, row: Namespace) -> HeldIndex:
        """Return the index of a namespace as it is now, within a read transaction."""
        with self._lock:
            found = self._held.get(row.namespace)
            if found is not None:
                self._held.move_to_end(row.namespace)
        before = None if found is None else found[0]
        if before is not None and (before.row.number, before.row.space) != (row.number, row.space):
            before = None
        if self._fits(row):
            if before is not None and before.is_whole and before.row.sequence == row.sequence:
                return before
            now = _whole(cursor, row, before)
        else:
            if before is not None and _is_good_sample(before, row):
                return before
            now = _sample(cursor, row)
        self._keep(row.namespace, now)
        return now

    def drop(self, namespace: str) -> None:
        """Forget the index of a namespace."""
        with self._lock:
            self._held.pop(namespace, None)

    def held_bytes(self, namespace: str) -> int:
        """Return the bytes of a namespace's index here."""
        with self._lock:
            found = self._held.get(namespace)
        return 0 if found is None else found[1]

    def _fits(self, row: Namespace) -> bool:
        size = row.items * _ITEM_BYTES + 2 * row.bytes
        return row.items <= self._whole_items and size <= self._max_bytes / 2

    def _keep(self, namespace: str, index: HeldIndex) -> None:
        size = index.index.held_bytes + _SHARE_BYTES * len(index.shares)
        with self._lock:
            self._held[namespace] = (index, size)
            self._held.move_to_end(namespace)
            while (
                len(self._held) > 1
                and sum(size for _, size in self._held.values()) > self._max_bytes
            ):
                self._held.popitem(last=False)


def _whole(cursor: Cursor, row: Namespace, before: HeldIndex | None) -> HeldIndex:
    if before is None or not before.is_whole or before.row.sequence < row.pruned:
        index, since = _native.ItemIndex(), 0
    else:
        index, since = before.index, before.row.sequence
    cursor.execute(
        f"SELECT {ENTRY_COLUMNS} FROM memory_chunks "
        "WHERE namespace = %s AND sequence > %s ORDER BY id",
        [row.namespace, since],
    )
    rows = cursor.fetchall()
    gone: list[int] = []
    if since:
        cursor.execute(
            "SELECT id FROM memory_deletions WHERE namespace = %s AND sequence > %s",
            [row.namespace, since],
        )
        gone = [number for (number,) in cursor.fetchall()]
    return HeldIndex(row, True, index.grown(rows, gone, row.dim), {})


def _is_good_sample(before: HeldIndex, row: Namespace) -> bool:
    # Deleted items must not stay here, and growth changes what is common.
    old = before.row
    return not before.is_whole and old.deleted == row.deleted and row.items <= old.items * 1.5


def _sample(cursor: Cursor, row: Namespace) -> HeldIndex:
    cursor.execute(
        "WITH here AS (SELECT id FROM memory_chunks WHERE namespace = %(namespace)s), "
        "ends AS (SELECT min(id) AS low, max(id) AS high FROM here) "
        "SELECT DISTINCT ON (id) one.* FROM ends, "
        "generate_series(low, high, greatest(1, (high - low) / %(items)s)) AS place, "
        f"LATERAL (SELECT {ENTRY_COLUMNS}, tsvector_to_array(words) FROM memory_chunks "
        "WHERE namespace = %(namespace)s AND id >= place ORDER BY id LIMIT 1) AS one",
        {"namespace": row.namespace, "items": SAMPLE_ITEMS},
    )
    rows = cursor.fetchall()
    index = _native.ItemIndex().grown([found[:-1] for found in rows], [], row.dim)
    counts = Counter(lexeme for found in rows for lexeme in found[-1])
    shares = {lexeme: count / len(rows) for lexeme, count in counts.items()}
    return HeldIndex(row, False, index, shares)
