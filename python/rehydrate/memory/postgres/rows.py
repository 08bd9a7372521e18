"""Filters as conditions on rows of `memory_chunks`, and what a namespace's limits remove of them.

Namespace: its row, read for a search, locked for a write, saved with what the write changed.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from rehydrate._native import beyond_limits, server_text
from rehydrate.errors import InvalidArgumentError
from rehydrate.memory.items import (
    EPOCH,
    MILLISECOND,
    TIERS,
    Filters,
    MemoryLimits,
    warn_dropped,
)
from rehydrate.memory.postgres.connections import Cursor

TIER_CODES = {tier: code for code, tier in enumerate(TIERS)}
_FEW_VALUES = 32


def milliseconds(moment: datetime) -> int:
    """Return a time as the store keeps it, in milliseconds since 1970."""
    return (moment - EPOCH) // MILLISECOND


def now_ms() -> int:
    """Return the time now."""
    return milliseconds(datetime.now(UTC))


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
    namespace.delete(cursor, "expires <= %(now)s", {"now": now})
    demoted = dropped = 0
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
    if dropped:
        warn_dropped(namespace.namespace)


_DELETIONS_KEPT = 50_000
"""Deletions that caches in other processes can catch up with; after more they begin again."""

_FIXED = ("namespace", "number", "language")


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
        """Return the row, None if nothing was ever added; with ``lock`` there is one writer at a
        time, to the end of the transaction."""
        cursor.execute(
            f"SELECT {', '.join(cls.__slots__)} FROM memory_namespaces WHERE namespace = %s"
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
        self.check_space(space, dim)

    def check_space(self, space: str, dim: int) -> None:
        """Refuse vectors of another model than the namespace has."""
        if (self.space, self.dim) != (space, dim):
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
        ((count,),) = cursor.fetchall()
        self.sequence += count
        return int(count)

    def save(self, cursor: Cursor) -> None:
        """Write what changed."""
        values = asdict(self)
        changed = [f"{name} = %({name})s" for name in values if name not in _FIXED]
        cursor.execute(
            f"UPDATE memory_namespaces SET {', '.join(changed)} WHERE namespace = %(namespace)s",
            values,
        )
