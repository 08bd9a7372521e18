"""Candidates of a recall, of many texts in one statement: by meaning, or by their rarest words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rehydrate import _engine
from rehydrate.memory.postgres.escapes import encoded
from rehydrate.memory.postgres.vectors import near, written

if TYPE_CHECKING:
    from rehydrate.memory.postgres.cursor import Cursor
    from rehydrate.memory.postgres.held import HeldIndex
    from rehydrate.memory.postgres.namespaces import Namespace

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
    cursor: Cursor, row: Namespace, texts: Sequence[str], rows: Any, each: int, now: int
) -> list[int]:
    """Return the ids of the nearest of each text by the server's vectors."""
    vectors = _engine.embed(texts) if rows is None else rows
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
    """Return the ids of items that share rare words with each text, where there are no vectors.

    The engine compares their vectors with the text's; what shares no rare word is not found.
    """
    found: set[int] = set()
    for start in range(0, len(texts), _BATCH):
        batch = texts[start : start + _BATCH]
        cursor.execute(
            "SELECT tsvector_to_array(to_tsvector(%s::regconfig, text)) "
            "FROM unnest(%s::text[]) AS text",
            [row.language, [encoded(text[:_READ_CHARS]) for text in batch]],
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
    """Return a lexeme as it stands in a tsquery."""
    escaped = lexeme.replace("\\", "\\\\").replace("'", "''")
    return f"'{escaped}'"
