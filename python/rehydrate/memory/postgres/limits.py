"""The limits of a namespace, as the embedded store has them (`store/limits.rs`).

Where there is too much, the warm and hot items are brought down to three quarters of the limit and
all of them to 95 per cent, so that the next additions find room.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from rehydrate.memory.items import MemoryLimits
from rehydrate.memory.postgres.rows import TIER_CODES

if TYPE_CHECKING:
    from rehydrate.memory.postgres.cursor import Cursor
    from rehydrate.memory.postgres.namespaces import Namespace

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
