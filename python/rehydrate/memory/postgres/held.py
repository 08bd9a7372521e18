"""Indexes of namespaces in this process: of all items of a small one, of a sample of a large one.

An index of all items is a cache of the server's rows. The namespace's sequence number says whether
it is current; what changed since is read, and no more. A sample gives the engine the statistics
that it ranks candidates by: how common words are, and what all vectors have in common.
"""

from __future__ import annotations

import zlib
from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rehydrate import _engine, _native
from rehydrate._concurrency.locks import ForkSafeLock
from rehydrate._native import read_server_text
from rehydrate.errors import InvalidArgumentError
from rehydrate.memory.items import Vectors
from rehydrate.memory.postgres.connections import Cursor
from rehydrate.memory.postgres.rows import Namespace
from rehydrate.memory.postgres.schema import DIMENSIONS


def checked_rows(vectors: Vectors | None, count: int) -> Any:
    """Return rows of vectors, a row for each text; raises InvalidArgumentError."""
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


def verify_space(namespace: Namespace, space: str, dim: int) -> None:
    """Refuse vectors of another model than the namespace holds."""
    if (namespace.space, namespace.dim) != (space, dim):
        raise InvalidArgumentError(
            f"a vector of {space!r} ({dim} components) where this namespace has those of "
            f"{namespace.space!r} ({namespace.dim}); use that model"
        )


def as_vector(vector: Any) -> str:
    """Return a vector as pgvector reads it."""
    return f"[{','.join(f'{float(x):.6g}' for x in vector)}]"


def near(dim: int) -> str:
    """Return the column of vectors, so that the index of their dimension is used."""
    return f"(embedding::halfvec({dim}))" if dim in DIMENSIONS else "embedding"


def written(rows: Any) -> list[str]:
    """Return rows as pgvector reads them; "" for a row of zeros, which is not a vector."""
    return [as_vector(row) if row.any() else "" for row in rows]


def near_texts(texts: Sequence[str], rows: Any) -> list[str]:
    """Return what the server's vector index holds of texts: rows, or the built-in model's."""
    return written(_engine.embed(texts) if rows is None else rows)


WHOLE_ITEMS = 20_000
"""Items up to which a namespace's index is held, where the server has vectors."""
WHOLE_ITEMS_WITHOUT_VECTORS = 200_000
"""The same where it has none, and only an index here finds by meaning."""
SAMPLE_ITEMS = 2_000
_ITEM_BYTES = 1_500
"""An item's share of an index, about, besides its text."""
_SHARE_BYTES = 150
"""A lexeme's share of memory, about."""
_TRUST_STEPS = 255
ENTRY_COLUMNS = "id, text, time, source, kind, thread, tier, trust, expires, vector"


@dataclass(frozen=True, slots=True)
class HeldIndex:
    """An index, and which state of the namespace it is of."""

    namespace: int
    sequence: int
    deleted: int
    items: int
    space: str | None
    is_whole: bool
    index: _native.ItemIndex
    shares: Mapping[str, float] = field(default_factory=dict, repr=False)
    """Of a sample: by lexeme of full-text search, the share of items that hold it."""


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
        if before is not None and (before.namespace, before.space) != (row.number, row.space):
            before = None
        if self._fits(row):
            if before is not None and before.is_whole and before.sequence == row.sequence:
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


def grown(
    index: _native.ItemIndex, rows: Sequence[Any], deleted: Sequence[int], dim: int | None
) -> _native.ItemIndex:
    """Return the index with rows of `ENTRY_COLUMNS` added."""
    entries: list[Any] = [
        (
            number,
            read_server_text(text),
            time,
            number_of(source),
            number_of(kind),
            number_of(thread),
            tier,
            step_of(trust),
            expires,
        )
        for number, text, time, source, kind, thread, tier, trust, expires, _ in rows
    ]
    vectors = None
    if dim and any(row[-1] is not None for row in rows):
        import numpy as np

        vectors = np.zeros((len(rows), dim), dtype=np.float32)
        for at, row in enumerate(rows):
            if row[-1] is not None and len(row[-1]) == 4 * dim:
                vectors[at] = np.frombuffer(row[-1], dtype=np.float32)
    return index.grown(entries, deleted, vectors=vectors)


def number_of(name: str) -> int:
    """Return the number that stands for a name in an index."""
    return zlib.crc32(name.encode())


def step_of(trust: float) -> int:
    """Return a trust in steps, as an index keeps it."""
    return round(trust * _TRUST_STEPS)


def _whole(cursor: Cursor, row: Namespace, before: HeldIndex | None) -> HeldIndex:
    if before is None or not before.is_whole or before.sequence < row.pruned:
        index, since = _native.ItemIndex(), 0
    else:
        index, since = before.index, before.sequence
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
    index = grown(index, rows, gone, row.dim)
    return HeldIndex(row.number, row.sequence, row.deleted, row.items, row.space, True, index)


def _is_good_sample(before: HeldIndex, row: Namespace) -> bool:
    # What was deleted must not stay here, and growth changes what is common.
    return not before.is_whole and before.deleted == row.deleted and row.items <= before.items * 1.5


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
    index = grown(_native.ItemIndex(), [found[:-1] for found in rows], [], row.dim)
    counts = Counter(lexeme for found in rows for lexeme in found[-1])
    shares = {lexeme: count / len(rows) for lexeme, count in counts.items()}
    return HeldIndex(
        row.number, row.sequence, row.deleted, row.items, row.space, False, index, shares
    )
