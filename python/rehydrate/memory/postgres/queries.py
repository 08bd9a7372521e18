"""Statements that read items: by filters, by a scan, by all legs of a search, by a weighted sum."""

from __future__ import annotations

import math
import re
from typing import Any

from rehydrate import _native
from rehydrate._native import server_text
from rehydrate.memory.items import Filters, MemoryItem
from rehydrate.memory.postgres.connections import Cursor
from rehydrate.memory.postgres.held import HeldIndex, as_vector, near
from rehydrate.memory.postgres.rows import Conditions, Namespace, conditions, now_ms
from rehydrate.memory.postgres.schema import INDEXED_CHARS

PER_LEG = 48
"""Candidates that each leg names, or as many as the caller wants."""
_RANKED = 4_000
"""Matches of a query's rarest words that are looked for."""
_MANY = 8_000
"""Beyond this many matches not all of them are ranked: of words that common, any holder will do."""
_NEWEST = 20_000
"""Items that are looked through for such words, the newest ones."""
_ALL_WORDS = 3
_PARTS = 500
"""Items that hold a word as a part of words: of more, those that come first."""
_NEIGHBOURS = 2
_SUBSTRINGS = 4
_RARE_WORDS = 6
_SCANNED = 1_000
"""Texts that are read at once to look for a query of a few characters, which most may hold."""
_WORD = re.compile(r"\w+")
_QUERY_CHARS = 2_000
_TEXT = f"left(text, {INDEXED_CHARS})"
_COLUMNS = (
    "id, handle, text, kind, source, thread, tool, principal, tier, trust, parents, time, created, "
    "confidence, expires, metadata::text, redactions::text, coalesce("
    "(SELECT uses FROM memory_uses WHERE memory_uses.id = memory_chunks.id), 0)"
)
"""The columns of a row that `server_items` reads."""


def scan(cursor: Cursor, query: str, where: Conditions, limit: int) -> list[tuple[int, float]]:
    """Return ids of items that contain the query; those where it is not inside a word first."""
    parameters = {**where.parameters, "pattern": f"%{like(query.strip().lower())}%", "last": None}
    whole: list[tuple[int, float]] = []
    parts: list[tuple[int, float]] = []
    while True:
        further = "" if parameters["last"] is None else "AND id < %(last)s "
        cursor.execute(
            f"SELECT id, text FROM memory_chunks WHERE {where.sql} {further}"
            f"AND text ILIKE %(pattern)s ORDER BY id DESC LIMIT {_SCANNED}",
            parameters,
        )
        rows = cursor.fetchall()
        for one in _native.scanned(query, rows, limit):
            (whole if one[1] == 1.0 else parts).append(one)
        if len(whole) >= limit or len(rows) < _SCANNED:
            return [*whole, *parts][:limit]
        parameters["last"] = rows[-1][0]


def like(text: str) -> str:
    """Return a text as a pattern of LIKE that matches itself."""
    return re.sub(r"([\\%_])", r"\\\1", server_text(text))


def candidates(
    cursor: Cursor,
    row: Namespace,
    sample: HeldIndex,
    query: str,
    where: Conditions,
    limit: int,
    vector: Any,
) -> list[int]:
    """Return the ids that the legs name in one statement, with their neighbours in their source."""
    share = _shares(cursor, row, sample, query)
    known = sorted((word for word in share if share[word]), key=share.__getitem__)
    unknown = sorted((word for word in share if not share[word]), key=len, reverse=True)
    # Rare words first: ranking all items that hold a common one would read most of the namespace.
    some, expected = unknown[:_RARE_WORDS], 0.0
    for word in known[:_RARE_WORDS]:
        if some and expected + share[word] * row.items > _RANKED:
            break
        expected += share[word] * row.items
        some.append(word)
    parameters: dict[str, Any] = {
        **where.parameters,
        "language": row.language,
        "each": max(PER_LEG, limit),
        "some": server_text(" ".join(some)),
    }
    legs = {"by_some": _by_words(where, "some", "|", expected)}
    if len(known) > 1:
        rarest = known[:_ALL_WORDS]
        parameters["most"] = server_text(" ".join(rarest))
        expected = row.items * math.prod(share[word] for word in rarest)
        legs["by_most"] = _by_words(where, "most", "&", expected)
    for number, word in enumerate(word for word in unknown[:_SUBSTRINGS] if len(word) >= 3):
        parameters[f"part{number}"] = f"%{like(word)}%"
        legs[f"by_part{number}"] = (
            f"SELECT id, 0 AS rank FROM memory_chunks WHERE {where.sql} "
            f"AND {_TEXT} ILIKE %(part{number})s LIMIT {_PARTS}"
        )
    if vector is not None:
        parameters["vector"] = as_vector(vector)
        legs["by_meaning"] = (
            f"SELECT id, 0 AS rank FROM ({_by_vector(where.sql, len(vector))}) AS x"
        )
    # Materialized, or the LIMIT outside makes the planner read the whole namespace in its order.
    ctes = ", ".join(f"{name} AS MATERIALIZED ({leg})" for name, leg in legs.items())
    union = " UNION ".join(
        f"(SELECT id FROM {name} ORDER BY rank DESC LIMIT %(each)s)" for name in legs
    )
    neighbours = " UNION ALL ".join(
        f"(SELECT id FROM memory_chunks WHERE {where.sql} AND source = here.source "
        f"AND hashtextextended(source, 0) = hashtextextended(here.source, 0) "
        f"AND id {sign} here.id ORDER BY hashtextextended(source, 0), id {order} "
        f"LIMIT {_NEIGHBOURS})"
        for sign, order in (("<", "DESC"), (">", "ASC"))
    )
    cursor.execute(
        f"WITH {ctes}, named AS MATERIALIZED ({union}), "
        "here AS MATERIALIZED (SELECT id, source FROM named JOIN memory_chunks USING (id)) "
        "SELECT id FROM named UNION "
        f"SELECT near.id FROM here, LATERAL ({neighbours}) AS near",
        parameters,
    )
    return [number for (number,) in cursor.fetchall()]


def _shares(cursor: Cursor, row: Namespace, sample: HeldIndex, query: str) -> dict[str, float]:
    """Return the share of items that hold each word of a query, by its stem; no small words."""
    words = list(dict.fromkeys(_WORD.findall(query[:_QUERY_CHARS].lower())))
    cursor.execute(
        "SELECT word, tsvector_to_array(to_tsvector(%s::regconfig, word)) "
        "FROM unnest(%s::text[]) AS word",
        [row.language, [server_text(word) for word in words]],
    )
    return {
        word: max(sample.shares.get(lexeme, 0.0) for lexeme in lexemes)
        for word, lexemes in cursor.fetchall()
        if lexemes
    }


def _by_words(where: Conditions, name: str, sign: str, expected: float) -> str:
    """Return the items that hold words, with a rank; of too many, some of the newest."""
    query = (
        f"replace(plainto_tsquery(%(language)s::regconfig, %({name})s)::text, ' & ', ' {sign} ')"
        "::tsquery"
    )
    found = f"SELECT id, ts_rank_cd(words, {query}) AS rank FROM"
    all_of_them = f"{found} memory_chunks WHERE {where.sql} AND words @@ {query}"
    if expected <= _MANY:
        return all_of_them
    if where.is_filtered:  # there may be few such items, and old ones
        return f"{all_of_them} LIMIT {_RANKED}"
    return (
        f"{found} (SELECT id, words FROM memory_chunks WHERE {where.sql} "
        f"ORDER BY id DESC LIMIT {_NEWEST}) AS newest WHERE words @@ {query} LIMIT {_RANKED}"
    )


def _by_vector(where: str, dim: int) -> str:
    return (
        f"(SELECT id FROM memory_chunks WHERE {where} AND vector_dims(embedding) = {dim} "
        f"ORDER BY {near(dim)} <=> %(vector)s::halfvec({dim}) LIMIT %(each)s)"
    )


def weighted(
    cursor: Cursor,
    row: Namespace,
    query: str,
    where: Conditions,
    limit: int,
    vector: Any,
) -> list[tuple[int, float, float, float, float | None]]:
    """Return id, score and the three parts of it, by the weighted sum of three legs.

    One statement: a candidate matches the words, or its trigrams are more than 0.3 like the query,
    or its vector is nearer than 0.4.
    """
    distance = "NULL::float8"
    parts = ["words @@ asked", f"{_TEXT} %% %(query)s"]
    parameters: dict[str, Any] = {
        **where.parameters,
        "language": row.language,
        "query": server_text(query[:_QUERY_CHARS]),
        "limit": limit,
    }
    legs = [
        f"SELECT memory_chunks.id FROM memory_chunks, asked WHERE {where.sql} AND {part}"
        for part in parts
    ]
    if vector is not None:
        dim = len(vector)
        parameters["vector"] = as_vector(vector)
        parameters["each"] = max(PER_LEG, limit)
        distance = f"({near(dim)} <=> %(vector)s::halfvec({dim}))"
        legs.append(
            f"SELECT id FROM {_by_vector(where.sql, dim)} AS nearest "
            f"JOIN memory_chunks USING (id) WHERE {distance} < 0.4"
        )
    cursor.execute(
        "WITH asked AS (SELECT replace(plainto_tsquery(%(language)s::regconfig, %(query)s)::text, "
        f"' & ', ' | ')::tsquery AS asked), named AS ({' UNION '.join(legs)}), "
        "judged AS (SELECT id, coalesce(ts_rank_cd(words, asked, 32), 0) AS text, "
        f"similarity({_TEXT}, %(query)s) AS trigram, {distance} AS distance "
        "FROM named JOIN memory_chunks USING (id), asked) "
        "SELECT id, 0.5 * text + 0.3 * trigram + 0.2 * coalesce(1 - distance, 0) AS score, "
        "text, trigram, 1 - distance "
        "FROM judged ORDER BY score DESC, id LIMIT %(limit)s",
        parameters,
    )
    return cursor.fetchall()


def items_of(
    cursor: Cursor, namespace: str, filters: Filters, more: str, **parameters: Any
) -> list[tuple[int, MemoryItem]]:
    """Return the items that pass filters and ``more``, the end of the statement, with their ids."""
    now = now_ms()
    where = conditions(namespace, filters, now)
    cursor.execute(
        f"SELECT {_COLUMNS} FROM memory_chunks WHERE {where.sql} {more}",
        {**where.parameters, **parameters},
    )
    rows = cursor.fetchall()
    if not rows:
        return []
    cursor.execute(
        "SELECT origin, relation, handle, true, number FROM memory_links "
        "JOIN memory_chunks ON target = id WHERE memory_links.namespace = %(namespace)s "
        "AND origin = ANY(%(ids)s) AND (expires IS NULL OR expires > %(now)s) UNION ALL "
        "SELECT target, relation, handle, false, number FROM memory_links "
        "JOIN memory_chunks ON origin = id WHERE memory_links.namespace = %(namespace)s "
        "AND target = ANY(%(ids)s) AND (expires IS NULL OR expires > %(now)s) ORDER BY number",
        {"namespace": namespace, "ids": [row[0] for row in rows], "now": now},
    )
    return _native.server_items(namespace, rows, cursor.fetchall())
