"""Items as rows of `memory_chunks`, and filters as conditions on them.

Namespace: its row, read for a search, locked for a write, saved with what the write changed.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from rehydrate._native import beyond_limits, read_server_text, server_text
from rehydrate.errors import InvalidArgumentError
from rehydrate.memory.items import (
    EPOCH,
    MILLISECOND,
    TIERS,
    Filters,
    Link,
    MemoryItem,
    MemoryLimits,
    Redaction,
    moment_of,
)
from rehydrate.memory.postgres.connections import Cursor

TIER_CODES = {tier: code for code, tier in enumerate(TIERS)}
MAX_NAME_BYTES = 4_096
MAX_NAMESPACE_BYTES = 1_024
"""A namespace is in every index, and an entry of an index has 2,700 bytes at most."""
MAX_TEXT_BYTES = 256 << 20
_FEW_VALUES = 32
_WHOLE_CHARS = 50_000
_WORDS_BYTES = 250_000
_WORD = re.compile(r"\w+")

_TEXTS = ("text", "kind", "source", "thread", "tool", "principal")
ITEM_FIELDS = (
    *("id", "handle", *_TEXTS, "tier", "trust", "parents", "time", "created", "confidence"),
    *("expires", "metadata", "redactions", "uses"),
)
"""Of a row that `item_of` reads."""
COLUMNS = ", ".join(ITEM_FIELDS[:-1]) + (
    ", coalesce((SELECT uses FROM memory_uses WHERE memory_uses.id = memory_chunks.id), 0)"
)


def milliseconds(moment: datetime) -> int:
    """Return a time as the store keeps it, in milliseconds since 1970."""
    return (moment - EPOCH) // MILLISECOND


def now_ms() -> int:
    """Return the time now."""
    return milliseconds(datetime.now(UTC))


def verify_namespace(namespace: str) -> str:
    """Return the namespace; raises InvalidArgumentError for one that a server cannot hold."""
    if not isinstance(namespace, str) or not namespace:
        raise InvalidArgumentError(f"namespace is {namespace!r}; pass a name")
    verify_name("namespace", namespace, MAX_NAMESPACE_BYTES)
    return namespace


def verify_item(item: MemoryItem) -> None:
    """Refuse an item that is beyond the limits of a store."""
    size = len(item.text.encode("utf-8", "surrogatepass"))
    if size > MAX_TEXT_BYTES:
        raise InvalidArgumentError(
            f"the text has {size} bytes, the limit is {MAX_TEXT_BYTES}; divide it"
        )
    for name in _TEXTS[1:]:
        verify_name(name, getattr(item, name))
    for link in item.links:
        verify_name("relation", link.relation)


def verify_name(what: str, name: str, limit: int = MAX_NAME_BYTES) -> None:
    """Refuse a name that is too long or that no server takes."""
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        raise InvalidArgumentError(f"{what} has a lone surrogate; leave it out") from None
    if size > limit:
        raise InvalidArgumentError(f"{what} has {size} bytes, the limit is {limit}; shorten it")
    if "\0" in name:
        raise InvalidArgumentError(f"{what} is {name!r}; leave out the NUL character")


def values_of(item: MemoryItem, now: int) -> dict[str, Any]:
    """Return the columns of a new item; those that the store counts are not among them."""
    metadata = json.dumps(dict(item.metadata)) if item.metadata else None
    redactions = json.dumps(item.redactions) if item.redactions else None
    notes = len(metadata or "") + len(redactions or "")
    return {
        **{name: server_text(getattr(item, name)) for name in _TEXTS},
        "tier": TIER_CODES[item.tier],
        "trust": float(item.trust),
        "confidence": float(item.confidence),
        "parents": json.dumps(item.parents),
        "time": now if item.time is None else milliseconds(item.time),
        "created": now,
        "expires": None if item.expires is None else milliseconds(item.expires),
        "metadata": metadata,
        "redactions": redactions,
        "bytes": len(item.text.encode("utf-8", "surrogatepass")) + notes,
        "indexed": words_of(item.text),
    }


def words_of(text: str) -> str:
    """Return what full-text search reads of a text: all of it, or each word of a long one once.

    A tsvector has at most 1 MB.
    """
    if len(text) <= _WHOLE_CHARS:
        return server_text(text)
    words, size = dict.fromkeys(_WORD.findall(text.lower())), 0
    kept = []
    for word in words:
        size += len(word.encode("utf-8", "replace")) + 1
        if size > _WORDS_BYTES:
            break
        if len(word) < 1_000:
            kept.append(word)
    return server_text(" ".join(kept))


def item_of(
    row: Mapping[str, Any], namespace: str, links: Sequence[tuple[str, str, bool]]
) -> MemoryItem:
    """Rebuild an item. It passed the checks when it was added, so they are skipped."""
    fields = {
        **{name: read_server_text(row[name]) for name in _TEXTS},
        **{name: row[name] for name in ("handle", "trust", "confidence", "uses")},
        "tier": TIERS[row["tier"]],
        "parents": tuple(row["parents"]),
        "time": moment_of(row["time"]),
        "expires": None if row["expires"] is None else moment_of(row["expires"]),
        "metadata": row["metadata"] or {},
        "links": tuple([Link(kind, other) for kind, other, leaves in links if leaves]),
        "namespace": namespace,
        "created": moment_of(row["created"]),
        "linked_from": tuple([Link(kind, other) for kind, other, leaves in links if not leaves]),
        "redactions": tuple([Redaction(*span) for span in row["redactions"] or ()]),
    }
    item = object.__new__(MemoryItem)
    for name, value in fields.items():
        object.__setattr__(item, name, value)
    return item


class Conditions(NamedTuple):
    """A WHERE clause over `memory_chunks`, and its parameters."""

    sql: str
    parameters: dict[str, Any]
    is_filtered: bool
    """Whether it wants more than the namespace, and what has not expired."""


def conditions(namespace: str, filters: Filters, now: int) -> Conditions:
    """Return the condition that an item is in the namespace, has not expired, passes filters."""
    parts = [
        "namespace = %(namespace)s",
        "(expires IS NULL OR expires > %(now)s)",
    ]
    parameters: dict[str, Any] = {"namespace": namespace, "now": now}
    for name, column in (("kinds", "kind"), ("sources", "source"), ("threads", "thread")):
        values = filters.get(name)
        if values is None:
            continue
        parameters[name] = [server_text(value) for value in values]  # type: ignore[attr-defined]
        if len(parameters[name]) <= _FEW_VALUES:  # as constants, which the planner knows about
            single = {f"{name}{at}": value for at, value in enumerate(parameters[name])}
            parameters |= single
            hashes = ", ".join(f"hashtextextended(%({one})s::text, 0)" for one in single)
            hashed = f"ARRAY[{hashes}]::bigint[]"
        else:
            hashed = f"SELECT hashtextextended(one, 0) FROM unnest(%({name})s::text[]) AS one"
        parts.append(
            f"{column} = ANY(%({name})s) AND hashtextextended({column}, 0) = ANY({hashed})"
        )
    if (tiers := filters.get("tiers")) is not None:
        parts.append("tier = ANY(%(tiers)s)")
        parameters["tiers"] = [TIER_CODES[tier] for tier in tiers]
    if (after := filters.get("after")) is not None:
        parts.append("time >= %(after)s")
        parameters["after"] = milliseconds(after)
    if (before := filters.get("before")) is not None:
        parts.append("time < %(before)s")
        parameters["before"] = milliseconds(before)
    if (trust := filters.get("min_trust")) is not None:
        parts.append("trust >= %(min_trust)s")
        parameters["min_trust"] = float(trust)
    return Conditions(" AND ".join(parts), parameters, len(parts) > 2)


_DAY_MS = 86_400_000
_HOUR_MS = 3_600_000
_WARM, _COLD = TIER_CODES["warm"], TIER_CODES["cold"]


def enforce(cursor: Cursor, namespace: Namespace, limits: MemoryLimits, now: int) -> None:
    """Remove what has expired, then demote and remove what is beyond the limits."""
    dropped = namespace.delete(cursor, "expires <= %(now)s", {"now": now})
    demoted = 0
    if limits.max_age_days is not None:
        age = math.ceil(limits.max_age_days * _DAY_MS)
        if now - namespace.aged >= min(_HOUR_MS, age / 8):
            namespace.aged = now
            warm = {"warm": _WARM, "moment": now - age}
            demoted += namespace.set_tier(
                cursor, _COLD, "tier = %(warm)s AND created < %(moment)s", warm
            )
            cold = {"cold": _COLD, "moment": now - 2 * age}
            dropped += namespace.delete(cursor, "tier = %(cold)s AND created < %(moment)s", cold)
    items, size = limits.max_items, limits.max_bytes
    if (items is not None and namespace.items > items) or (
        size is not None and namespace.bytes > size
    ):
        cursor.execute(
            "SELECT id, tier, bytes, greatest(time, used), trust, coalesce(uses, 0) "
            "FROM memory_chunks LEFT JOIN memory_uses USING (id) "
            "WHERE memory_chunks.namespace = %s AND tier = ANY(%s) ORDER BY id",
            [namespace.namespace, [_WARM, _COLD]],
        )
        cooled, gone = beyond_limits(
            cursor.fetchall(), namespace.items, namespace.bytes, items, size
        )
        demoted += namespace.set_tier(cursor, _COLD, "id = ANY(%(ids)s)", {"ids": cooled})
        dropped += namespace.delete(cursor, "id = ANY(%(ids)s)", {"ids": gone})
    namespace.demoted += demoted
    namespace.dropped += dropped


_COLUMNS = (
    "namespace, number, language, sequence, pruned, items, bytes, demoted, dropped, deleted, aged, "
    "space, dim"
)
_DELETIONS_KEPT = 50_000
"""Deletions that caches in other processes can catch up with; behind more they begin again."""


@dataclass(slots=True)
class Namespace:
    """A row of `memory_namespaces`."""

    namespace: str
    number: int
    """Another one after a purge of everything."""
    language: str
    sequence: int
    pruned: int
    items: int
    bytes: int
    demoted: int
    dropped: int
    deleted: int
    aged: int
    space: str | None
    dim: int | None

    @classmethod
    def find(cls, cursor: Cursor, namespace: str, *, lock: bool = False) -> Namespace | None:
        """Return the row, None where nothing was ever added; with ``lock`` there is one writer at a
        time, to the end of the transaction."""
        cursor.execute(
            f"SELECT {_COLUMNS} FROM memory_namespaces WHERE namespace = %s"
            + (" FOR UPDATE" if lock else ""),
            [namespace],
        )
        row = cursor.fetchone()
        return None if row is None else cls(*row)

    @classmethod
    def make(cls, cursor: Cursor, namespace: str, language: str) -> Namespace:
        """Return the row, locked; made if it was missing."""
        while (found := cls.find(cursor, namespace, lock=True)) is None:
            cursor.execute(
                "INSERT INTO memory_namespaces (namespace, language) VALUES (%s, %s) "
                "ON CONFLICT DO NOTHING",
                [namespace, language],
            )
        return found

    def settle_space(self, space: str, dim: int) -> None:
        """Hold the namespace to one model: vectors of two are never compared."""
        if self.space is None:
            self.space, self.dim = space, dim
        elif (self.space, self.dim) != (space, dim):
            raise InvalidArgumentError(
                f"vectors of {space!r} ({dim} components) where this namespace has those of "
                f"{self.space!r} ({self.dim}); use that model, or another namespace"
            )

    def delete(self, cursor: Cursor, condition: str, parameters: dict[str, Any]) -> int:
        """Delete its items that meet a condition; return how many there were."""
        cursor.execute(
            f"DELETE FROM memory_chunks WHERE namespace = %(namespace)s AND {condition} "
            "RETURNING id, bytes",
            {"namespace": self.namespace, **parameters},
        )
        gone = cursor.fetchall()
        if not gone:
            return 0
        cursor.execute(
            "INSERT INTO memory_deletions (namespace, sequence, id) "
            "SELECT %s, %s + number, id "
            "FROM unnest(%s::bigint[]) WITH ORDINALITY AS gone(id, number)",
            [self.namespace, self.sequence, [row[0] for row in gone]],
        )
        self.sequence += len(gone)
        self.items -= len(gone)
        self.bytes -= sum(row[1] for row in gone)
        before, self.deleted = self.deleted, self.deleted + len(gone)
        if before // _DELETIONS_KEPT != self.deleted // _DELETIONS_KEPT:
            self._prune(cursor)
        return len(gone)

    def _prune(self, cursor: Cursor) -> None:
        cursor.execute(
            "SELECT sequence FROM memory_deletions WHERE namespace = %s "
            "ORDER BY sequence DESC OFFSET %s LIMIT 1",
            [self.namespace, _DELETIONS_KEPT],
        )
        if (row := cursor.fetchone()) is None:
            return
        self.pruned = row[0]
        cursor.execute(
            "DELETE FROM memory_deletions WHERE namespace = %s AND sequence <= %s",
            [self.namespace, self.pruned],
        )

    def set_tier(
        self, cursor: Cursor, tier: int, condition: str, parameters: dict[str, Any]
    ) -> int:
        """Move its items that meet a condition and have another tier; return how many moved."""
        cursor.execute(
            "WITH moved AS (SELECT id, row_number() OVER (ORDER BY id) AS number "
            "FROM memory_chunks "
            f"WHERE namespace = %(namespace)s AND tier <> %(tier)s AND {condition}), "
            "changed AS (UPDATE memory_chunks SET tier = %(tier)s, "
            "sequence = %(sequence)s + moved.number "
            "FROM moved WHERE memory_chunks.id = moved.id RETURNING true) "
            "SELECT count(*) FROM changed",
            {
                "namespace": self.namespace,
                "tier": tier,
                "sequence": self.sequence,
                **parameters,
            },
        )
        count: int = cursor.fetchone()[0]
        self.sequence += count
        return count

    def save(self, cursor: Cursor) -> None:
        """Write what changed."""
        cursor.execute(
            "UPDATE memory_namespaces SET sequence = %s, pruned = %s, items = %s, bytes = %s, "
            "demoted = %s, dropped = %s, deleted = %s, aged = %s, space = %s, dim = %s "
            "WHERE namespace = %s",
            [
                *(self.sequence, self.pruned, self.items, self.bytes, self.demoted, self.dropped),
                *(self.deleted, self.aged, self.space, self.dim, self.namespace),
            ],
        )
