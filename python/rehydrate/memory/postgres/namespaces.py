"""A namespace's row: read for a search, locked for a write, saved with what the write changed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rehydrate.errors import InvalidArgumentError
from rehydrate.memory.items import MemoryLimits
from rehydrate.memory.postgres.rows import TIER_CODES

if TYPE_CHECKING:
    from rehydrate.memory.postgres.failures import Cursor


_DAY_MS = 86_400_000
_HOUR_MS = 3_600_000
_TRUST_MS = 120.0 * _DAY_MS
"""Full trust makes up for this much age."""
_USE_MS = 30.0 * _DAY_MS
"""Being found twice as often makes up for this much age."""
_KEPT_SHARE, _HELD_SHARE = 0.75, 0.95
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
    max_items = math.inf if limits.max_items is None else limits.max_items
    max_bytes = math.inf if limits.max_bytes is None else limits.max_bytes
    if namespace.items > max_items or namespace.bytes > max_bytes:
        cooled, gone = _chosen(cursor, namespace, max_items, max_bytes)
        demoted += namespace.set_tier(cursor, _COLD, "id = ANY(%(ids)s)", {"ids": cooled})
        dropped += namespace.delete(cursor, "id = ANY(%(ids)s)", {"ids": gone})
    namespace.demoted += demoted
    namespace.dropped += dropped


def _chosen(
    cursor: Cursor, namespace: Namespace, max_items: float, max_bytes: float
) -> tuple[list[int], list[int]]:
    """Return the ids of warm items that become cold, the worst first, and of cold ones that go."""
    cursor.execute(
        "SELECT id, tier, bytes, greatest(time, used), trust, coalesce(uses, 0) "
        "FROM memory_chunks LEFT JOIN memory_uses USING (id) "
        "WHERE memory_chunks.namespace = %s AND tier = ANY(%s) ORDER BY id",
        [namespace.namespace, [_WARM, _COLD]],
    )
    rows = cursor.fetchall()

    def worth(row: Any) -> tuple[float, int]:
        number, _, _, newest, trust, uses = row
        return newest + trust * _TRUST_MS + math.log2(1.0 + uses) * _USE_MS, number

    cold = {row[0]: row[2] for row in rows if row[1] == _COLD}
    kept_items = namespace.items - len(cold)
    kept_bytes = namespace.bytes - sum(cold.values())
    cooled = []
    for row in sorted((row for row in rows if row[1] == _WARM), key=worth):
        if kept_items <= max_items * _KEPT_SHARE and kept_bytes <= max_bytes * _KEPT_SHARE:
            break
        kept_items, kept_bytes = kept_items - 1, kept_bytes - row[2]
        cooled.append(row[0])
        cold[row[0]] = row[2]
    gone = []
    items, held = namespace.items, namespace.bytes
    for number in sorted(cold):
        if items <= max_items * _HELD_SHARE and held <= max_bytes * _HELD_SHARE:
            break
        items, held = items - 1, held - cold[number]
        gone.append(number)
    return cooled, gone


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
    def find(cls, cursor: Cursor, namespace: str) -> Namespace | None:
        """Return the row, None where nothing was ever added."""
        cursor.execute(
            f"SELECT {_COLUMNS} FROM memory_namespaces WHERE namespace = %s",
            [namespace],
        )
        row = cursor.fetchone()
        return None if row is None else cls(*row)

    @classmethod
    def lock(cls, cursor: Cursor, namespace: str) -> Namespace | None:
        """Return the row, locked to the end of the transaction: one writer at a time."""
        cursor.execute(
            f"SELECT {_COLUMNS} FROM memory_namespaces WHERE namespace = %s FOR UPDATE",
            [namespace],
        )
        row = cursor.fetchone()
        return None if row is None else cls(*row)

    @classmethod
    def make(cls, cursor: Cursor, namespace: str, language: str) -> Namespace:
        """Return the row, locked; made if it was missing."""
        found = cls.lock(cursor, namespace)
        while found is None:
            cursor.execute(
                "INSERT INTO memory_namespaces (namespace, language) VALUES (%s, %s) "
                "ON CONFLICT DO NOTHING",
                [namespace, language],
            )
            found = cls.lock(cursor, namespace)
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
