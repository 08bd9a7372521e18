"""A namespace's row: read for a search, locked for a write, saved with what the write changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rehydrate.errors import InvalidArgumentError

if TYPE_CHECKING:
    from rehydrate.memory.postgres.cursor import Cursor

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
