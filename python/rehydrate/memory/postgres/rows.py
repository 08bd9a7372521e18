"""Items as rows of `memory_chunks`, and filters as conditions on them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from rehydrate.errors import InvalidArgumentError
from rehydrate.memory.items import (
    TIERS,
    Filters,
    Link,
    MemoryItem,
    Redaction,
)
from rehydrate.memory.postgres.failures import decoded, encoded

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
TIER_CODES = {tier: code for code, tier in enumerate(TIERS)}
MAX_NAME_BYTES = 4_096
MAX_NAMESPACE_BYTES = 1_024
"""A namespace is in every index, and an entry of an index has 2,700 bytes at most."""
MAX_TEXT_BYTES = 256 << 20
_FEW_VALUES = 32
_WHOLE_CHARS = 50_000
_WORDS_BYTES = 250_000
_WORD = re.compile(r"\w+")

COLUMNS = (
    *("id", "handle", "text", "kind", "tier", "source", "thread", "tool", "principal", "trust"),
    *("parents", "time", "created", "confidence", "expires", "metadata", "redactions"),
    "coalesce((SELECT uses FROM memory_uses WHERE memory_uses.id = memory_chunks.id), 0)",
)


class ItemRow(NamedTuple):
    """A row of `memory_chunks`, in the order of `COLUMNS`."""

    id: int
    handle: str
    text: str
    kind: str
    tier: int
    source: str
    thread: str
    tool: str
    principal: str
    trust: float
    parents: list[str]
    time: int
    created: int
    confidence: float
    expires: int | None
    metadata: dict[str, Any] | None
    redactions: list[list[Any]] | None
    uses: int


def milliseconds(moment: datetime) -> int:
    """Return a time as the store keeps it, in milliseconds since 1970."""
    return (moment - _EPOCH) // _MILLISECOND


def now_ms() -> int:
    """Return the time now."""
    return milliseconds(datetime.now(UTC))


def moment_of(stored: int) -> datetime:
    """Return a stored time."""
    return _EPOCH + timedelta(milliseconds=stored)


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
    for name in ("kind", "source", "thread", "tool", "principal"):
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
        "tier": TIER_CODES[item.tier],
        "kind": encoded(item.kind),
        "source": encoded(item.source),
        "thread": encoded(item.thread),
        "tool": encoded(item.tool),
        "principal": encoded(item.principal),
        "trust": float(item.trust),
        "confidence": float(item.confidence),
        "parents": json.dumps(item.parents),
        "time": now if item.time is None else milliseconds(item.time),
        "created": now,
        "expires": None if item.expires is None else milliseconds(item.expires),
        "metadata": metadata,
        "redactions": redactions,
        "bytes": len(item.text.encode("utf-8", "surrogatepass")) + notes,
        "text": encoded(item.text),
        "indexed": words_of(item.text),
    }


def words_of(text: str) -> str:
    """Return what full-text search reads of a text: all of it, or each word of a long one once.

    A tsvector has at most 1 MB.
    """
    if len(text) <= _WHOLE_CHARS:
        return encoded(text)
    words, size = dict.fromkeys(_WORD.findall(text.lower())), 0
    kept = []
    for word in words:
        size += len(word.encode("utf-8", "replace")) + 1
        if size > _WORDS_BYTES:
            break
        if len(word) < 1_000:
            kept.append(word)
    return encoded(" ".join(kept))


def item_of(row: ItemRow, namespace: str, links: Sequence[tuple[str, str, bool]]) -> MemoryItem:
    """Rebuild an item. It passed the checks when it was added, so they are skipped."""
    fields = {
        "text": decoded(row.text),
        "kind": decoded(row.kind),
        "tier": TIERS[row.tier],
        "source": decoded(row.source),
        "thread": decoded(row.thread),
        "tool": decoded(row.tool),
        "principal": decoded(row.principal),
        "trust": row.trust,
        "confidence": row.confidence,
        "parents": tuple(row.parents),
        "time": moment_of(row.time),
        "expires": None if row.expires is None else moment_of(row.expires),
        "metadata": row.metadata or {},
        "links": tuple([Link(relation, other) for relation, other, leaves in links if leaves]),
        "handle": row.handle,
        "namespace": namespace,
        "created": moment_of(row.created),
        "linked_from": tuple(
            [Link(relation, other) for relation, other, leaves in links if not leaves]
        ),
        "redactions": tuple([Redaction(*span) for span in row.redactions or ()]),
        "uses": row.uses,
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
        parameters[name] = [encoded(value) for value in values]  # type: ignore[attr-defined]
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
