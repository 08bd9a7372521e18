"""Searches and recalls within a read transaction: the server names, the engine ranks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rehydrate import _engine, _native
from rehydrate._native import server_text
from rehydrate.memory.items import Filters, Fusion, Hit, Recalled, Vectors
from rehydrate.memory.postgres import queries
from rehydrate.memory.postgres.connections import Cursor
from rehydrate.memory.postgres.held import ENTRY_COLUMNS, HeldIndex, HeldIndexes, near, written
from rehydrate.memory.postgres.rows import Namespace, conditions, now_ms

_PER_TEXT = 8
_READ_CHARS = 4_000
"""Characters of a text whose words are looked at."""
_RANKED_WORDS = 16
_MATCHED_WORDS = 6
_TOGETHER = 3
_MATCHES = 200
"""Holders of a text's rarest words that are compared with it."""
_COMMON = 0.01
"""Share of items from which on a word alone names none."""
_BATCH = 100


def nearest(
    cursor: Cursor,
    row: Namespace,
    texts: Sequence[str],
    asked: Vectors | None,
    each: int,
    now: int,
) -> list[int]:
    """Return the ids of the nearest of each text by the server's vectors."""
    vectors = _engine.embed(texts) if asked is None else asked.rows
    dim = vectors.shape[1]
    cursor.execute(
        "SELECT DISTINCT near.id FROM unnest(%(vectors)s::text[]) AS asked(vector), "
        "LATERAL (SELECT id FROM memory_chunks WHERE namespace = %(namespace)s "
        f"AND (expires IS NULL OR expires > %(now)s) AND vector_dims(embedding) = {dim} "
        f"ORDER BY {near(dim)} <=> asked.vector::halfvec({dim}) LIMIT %(each)s) AS near",
        {
            "vectors": [vector for vector in written(vectors) if vector],
            "namespace": row.namespace,
            "now": now,
            "each": max(_PER_TEXT, each),
        },
    )
    return [number for (number,) in cursor.fetchall()]


def sharing_words(
    cursor: Cursor, row: Namespace, sample: HeldIndex, texts: Sequence[str], each: int, now: int
) -> list[int]:
    """Return the ids of items that share rare words with each text, if there are no vectors.

    The engine compares their vectors with the text's; what shares no rare word is not found.
    """
    found: set[int] = set()
    for start in range(0, len(texts), _BATCH):
        batch = texts[start : start + _BATCH]
        cursor.execute(
            "SELECT tsvector_to_array(to_tsvector(%s::regconfig, text)) "
            "FROM unnest(%s::text[]) AS text",
            [row.language, [server_text(text[:_READ_CHARS]) for text in batch]],
        )
        asked = [one for (words,) in cursor.fetchall() for one in _asked(words, sample, row)]
        cursor.execute(
            "SELECT DISTINCT best.id FROM unnest(%(matched)s::text[], %(ranked)s::text[]) "
            "AS asked(matched, ranked), LATERAL (SELECT id FROM (SELECT id, words "
            "FROM memory_chunks WHERE namespace = %(namespace)s AND (expires IS NULL OR "
            "expires > %(now)s) AND words @@ asked.matched::tsquery LIMIT %(matches)s) AS holder "
            "ORDER BY ts_rank(words, asked.ranked::tsquery, 1) DESC LIMIT %(each)s) AS best",
            {
                "matched": [matched for matched, _ in asked],
                "ranked": [ranked for _, ranked in asked],
                "namespace": row.namespace,
                "now": now,
                "matches": _MATCHES,
                "each": max(_PER_TEXT, each),
            },
        )
        found.update(number for (number,) in cursor.fetchall())
    return sorted(found)


def _asked(words: Sequence[str], sample: HeldIndex, row: Namespace) -> Iterator[tuple[str, str]]:
    """Yield what is looked for of a text's words, and what its holders are ranked by."""
    rare = sorted(words, key=lambda word: (sample.shares.get(word, 0.0), -len(word), word))
    if not rare:
        return
    some, expected = rare[:1], sample.shares.get(rare[0], 0.0) * row.items
    for word in rare[1:_MATCHED_WORDS]:
        expected += sample.shares.get(word, 0.0) * row.items
        if expected > _MATCHES:
            break
        some.append(word)
    ranked = " | ".join(map(_quoted, rare[:_RANKED_WORDS]))
    if len(rare) > 1:
        yield " & ".join(map(_quoted, rare[:_TOGETHER])), ranked
    if sample.shares.get(rare[0], 0.0) < _COMMON:
        yield " | ".join(map(_quoted, some)), ranked


def _quoted(lexeme: str) -> str:
    """Return a lexeme as it is in a tsquery."""
    escaped = lexeme.replace("\\", "\\\\").replace("'", "''")
    return f"'{escaped}'"


Ranked = tuple[int, float, float, float, float | None]
"""Id, score, words, trigrams, cosine."""


class Searcher:
    """The searches of a store."""

    def __init__(self, indexes: HeldIndexes, has_vectors: bool) -> None:
        """Take the indexes of this process, and whether the server has vectors."""
        self._indexes = indexes
        self._has_vectors = has_vectors
        self.lacked_vectors = False
        """Whether a call had to do without the server's vectors."""

    def search(
        self,
        cursor: Cursor,
        query: str,
        limit: int,
        name: str,
        fusion: Fusion | None,
        vectors: Vectors | None,
        filters: Filters,
    ) -> list[Hit]:
        """Return the best matches, best first; `vectors` has one row, the query's."""
        now = now_ms()
        namespace = Namespace.find(cursor, name)
        if namespace is None:
            return []
        if vectors is not None and namespace.space is None:
            vectors = None  # nothing here has a vector of the caller's
        if vectors is not None:
            namespace.check_space(vectors.space, vectors.rows.shape[1])
        where, wanted = conditions(name, filters, now), limit
        # What contains a query of signs or of a few characters comes first, with a higher score.
        is_scan = _native.is_scan(query)
        scanned = queries.scan(cursor, query, where, limit) if is_scan and query.strip() else []
        held = {number for number, _ in scanned}
        while True:
            if len(scanned) == limit or (is_scan and vectors is None):
                nearest: list[Ranked] = []
            elif fusion == "weighted":
                asked = self._near(query, vectors)
                nearest = queries.weighted(cursor, namespace, query, where, limit, asked)
            else:
                nearest = self._ranked(
                    cursor, namespace, query, wanted, fusion, vectors, filters, now
                )
            lift = max(0.0, nearest[0][1]) if nearest else 0.0
            found: list[Ranked] = [
                (number, score + lift, score, 1.0, None) for number, score in scanned
            ]
            found += [hit for hit in nearest if hit[0] not in held]
            ids = [number for number, *_ in found]
            more = "AND id = ANY(%(ids)s)"
            items = dict(queries.items_of(cursor, name, filters, more, ids=ids)) if ids else {}
            kept = [hit for hit in found if hit[0] in items][:limit]
            if len(kept) >= limit or len(nearest) < wanted:
                break
            # Trust is indexed in steps: items with a little too little of it took the places.
            wanted *= 4
        places = _native.snippets([items[hit[0]].text for hit in kept], query)
        return [
            Hit(items[hit[0]], items[hit[0]].text[start:end], *hit[1:])
            for hit, (start, end) in zip(kept, places, strict=True)
        ]

    def _ranked(
        self,
        cursor: Cursor,
        namespace: Namespace,
        query: str,
        limit: int,
        fusion: Fusion | None,
        vectors: Vectors | None,
        filters: Filters,
        now: int,
    ) -> list[Ranked]:
        """Return the engine's ranking: of the whole namespace, or of the server's candidates."""
        held = self._indexes.current(cursor, namespace)
        arguments: dict[str, Any] = {
            "limit": limit,
            "now_ms": now,
            "vector": None if vectors is None else vectors.rows,
            "fusion": fusion,
        }
        if held.is_whole:
            return held.index.search(query, filters, **arguments)
        self.lacked_vectors |= not self._has_vectors
        where = conditions(namespace.namespace, filters, now)
        near = self._near(query, vectors)
        ids = queries.candidates(cursor, namespace, held, query, where, limit, near)
        index = self._with_candidates(cursor, namespace, held, ids)
        return index.search(query, {}, allowed=ids, **arguments)

    def _with_candidates(
        self, cursor: Cursor, namespace: Namespace, held: HeldIndex, ids: Sequence[int]
    ) -> _native.ItemIndex:
        cursor.execute(
            f"SELECT {ENTRY_COLUMNS} FROM memory_chunks WHERE namespace = %s AND id = ANY(%s)",
            [namespace.namespace, list(ids)],
        )
        return held.index.grown(cursor.fetchall(), [], namespace.dim)

    def recall(
        self,
        cursor: Cursor,
        texts: Sequence[str],
        k: int,
        name: str,
        vectors: Vectors | None,
    ) -> list[list[Recalled]]:
        """Return the nearest items of each text, or of each row of `vectors`."""
        namespace = Namespace.find(cursor, name)
        if namespace is None or (vectors is not None and namespace.space is None):
            return [[] for _ in texts]
        if vectors is not None:
            namespace.check_space(vectors.space, vectors.rows.shape[1])
        held = self._indexes.current(cursor, namespace)
        now = now_ms()
        index, ids = held.index, None
        if not held.is_whole:
            if self._has_vectors:
                ids = nearest(cursor, namespace, texts, vectors, k, now)
            else:
                self.lacked_vectors = True
                ids = sharing_words(cursor, namespace, held, texts, k, now)
            index = self._with_candidates(cursor, namespace, held, ids)
        rows = None if vectors is None else vectors.rows
        found = index.recall(texts, k=k, now_ms=now, vectors=rows, allowed=ids)
        cursor.execute(
            "SELECT id, handle FROM memory_chunks WHERE namespace = %s AND id = ANY(%s)",
            [name, list({number for row in found for number, _ in row})],
        )
        handles = dict(cursor.fetchall())
        return [
            [Recalled(handles[number], cosine) for number, cosine in row if number in handles][:k]
            for row in found
        ]

    def _near(self, query: str, vectors: Vectors | None) -> Any:
        """Return the query's vector for the server; None if it has no vectors."""
        if not self._has_vectors:
            return None
        row = _engine.embed([query])[0] if vectors is None else vectors.rows[0]
        return row if row.any() else None
