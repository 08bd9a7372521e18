"""LocalStore: a memory's items in one SQLite file, through the native engine; open_store."""

from __future__ import annotations

import builtins
import json
import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from importlib import import_module
from os import PathLike
from typing import TYPE_CHECKING, Any, Unpack

from rehydrate import _engine
from rehydrate.errors import InvalidArgumentError, StoreCorruptError, UnknownHandleError
from rehydrate.memory.items import (
    INDEX_BYTES,
    TIERS,
    Added,
    Filters,
    Fusion,
    Hit,
    Link,
    MemoryItem,
    MemoryLimits,
    MemoryStats,
    Recalled,
    Redaction,
    Tier,
    VectorIndex,
    Vectors,
    VerifyReport,
    as_json,
    checked_handles,
)
from rehydrate.memory.store import LANGUAGE, SharedStore, ThreadStore, is_server, verify_place

if TYPE_CHECKING:
    from rehydrate import _native


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_PAGE = 1_000
_TIER_CODES = {tier: code for code, tier in enumerate(TIERS)}
WEIGHTED = (0.5, 0.3, 0.2)
"""Weights of words, trigrams and meaning."""


class LocalStore:
    """A store in one file, for any number of threads and processes. `Memory.open` makes it."""

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        limits: MemoryLimits,
        read_only: bool = False,
        index_bytes: int = INDEX_BYTES,
        vectors: VectorIndex = "auto",
    ) -> None:
        """Open the file, or create it; raises StoreError."""
        age = limits.max_age_days
        self._native: _native.Store = _engine.open_store(
            path,
            read_only=read_only,
            max_items=limits.max_items,
            max_bytes=limits.max_bytes,
            max_age_ms=None if age is None else math.ceil(age * 86_400_000),
            index_bytes=index_bytes,
            vectors=vectors,
        )
        self._limits = limits

    @property
    def path(self) -> str:
        """Path of the file."""
        return str(self._native.path)

    @property
    def threads(self) -> ThreadStore:
        """The threads in the same file; closing the store closes them."""
        return self._native

    def add(
        self, items: Sequence[MemoryItem], *, namespace: str, vectors: Vectors | None = None
    ) -> builtins.list[Added]:
        """Add all of the items or none, in one transaction."""
        now = _milliseconds(datetime.now(UTC))
        stored, _, _ = self._native.add(
            namespace, [_columns(item, now) for item in items], **_vectors(vectors)
        )
        embedded = [True] * len(items) if vectors is None else vectors.rows.any(axis=1).tolist()
        return [
            Added(handle, is_new, item.redactions, has_vector)
            for item, (handle, is_new), has_vector in zip(items, stored, embedded, strict=True)
        ]

    def get(self, handle: str, *, namespace: str) -> MemoryItem:
        """Return the item; raises UnknownHandleError."""
        (found,) = self._native.get(namespace, [handle])
        if found is None:
            raise UnknownHandleError(handle, namespace)
        return self._item(found)

    def list(
        self,
        *,
        namespace: str,
        limit: int | None = 100,
        newest_first: bool = True,
        **filters: Unpack[Filters],
    ) -> builtins.list[MemoryItem]:
        """Return items in the order in which they were added."""
        columns = _columns_of(filters)
        items: list[MemoryItem] = []
        left = math.inf if limit is None else limit
        cursor = None
        while left > 0:
            count = int(min(left, _PAGE))
            page, cursor = self._native.list(
                namespace, cursor=cursor, limit=count, newest_first=newest_first, **columns
            )
            items += map(self._item, page)
            left = left - len(page) if cursor is not None else 0
        return items

    def search(
        self,
        query: str,
        limit: int = 5,
        *,
        namespace: str,
        fusion: Fusion | None = None,
        vectors: Vectors | None = None,
        **filters: Unpack[Filters],
    ) -> builtins.list[Hit]:
        """Return the best matches, best first."""
        found = self._native.search(
            namespace,
            query,
            limit=limit,
            fusion=WEIGHTED if fusion == "weighted" else fusion,
            **_vectors(vectors, "vector"),
            **_columns_of(filters),
        )
        hits = []
        for columns, start, end, score, text, trigram, cosine in found:
            item = self._item(columns)
            snippet = item.text[start:end]
            hits.append(
                Hit(item, snippet, score, text, trigram, None if math.isnan(cosine) else cosine)
            )
        return hits

    def recall(
        self,
        texts: Sequence[str],
        k: int = 3,
        *,
        namespace: str,
        vectors: Vectors | None = None,
    ) -> builtins.list[builtins.list[Recalled]]:
        """Return the k nearest items of each text or row.

        Any two texts have a cosine above 0.5 in the built-in model. The part common to all of the
        namespace's vectors is removed, so that 0 means unrelated and 1 means the same.
        """
        if vectors is not None:
            # With rows only, `texts` gives just their number.
            queries = [*texts] or [""] * len(vectors.rows)
            found = self._native.recall(namespace, queries, k=k, **_vectors(vectors))
            return [[Recalled._make(near) for near in row] for row in found]
        found = self._native.recall(namespace, [*texts], k=max(k, 2), centred=True)
        if all(len(row) < 2 for row in found):  # a single item has nothing in common with others
            alone = self._native.recall(namespace, [*texts], k=1)
            found = [[(handle, 2 * cosine - 1) for handle, cosine in row] for row in alone]
        return [[Recalled._make(near) for near in row[:k]] for row in found]

    def forget(self, handles: str | Sequence[str], *, namespace: str) -> int:
        """Remove items and return how many there were."""
        return self._native.forget(namespace, checked_handles(handles))

    def purge(
        self,
        *,
        namespace: str,
        source: str | None = None,
        thread: str | None = None,
        everything: bool = False,
    ) -> int:
        """Remove all of a source, of a thread, or of the namespace.

        Raises PurgeIncompleteError where files that hold traces of it could not be removed.
        """
        if everything:
            return self._native.purge(namespace, "namespace")
        if source is not None:
            return self._native.purge(namespace, "source", source)
        return self._native.purge(namespace, "session", thread)

    def set_tier(self, handles: str | Sequence[str], tier: Tier, *, namespace: str) -> int:
        """Move items to a tier and return how many moved."""
        return self._native.set_tier(namespace, checked_handles(handles), _TIER_CODES[tier])

    def link(self, handle: str, relation: str, other: str, *, namespace: str) -> bool:
        """Link an item to another and return whether the link is new."""
        ends = (handle, other)
        for end, found in zip(ends, self._native.get(namespace, ends), strict=True):
            if found is None:
                raise UnknownHandleError(end, namespace)
        return self._native.link(namespace, handle, other, relation)

    def stats(self, *, namespace: str) -> MemoryStats:
        """Return figures of the namespace."""
        figures = self._native.stats(namespace)
        same = ("items", "hot", "warm", "cold", "links", "demoted", "dropped", "vectors")
        return MemoryStats(
            namespace=namespace,
            held_bytes=figures["bytes"],
            vector_space=figures["space"],
            indexed=figures["indexed"],
            pending=figures["pending"],
            index_bytes=figures["index_bytes"],
            store_bytes=figures["file_bytes"],
            limits=self._limits,
            **{name: figures[name] for name in same},
        )

    def namespaces(self) -> builtins.list[str]:
        """Return the namespaces that were added to and not purged, in alphabetical order."""
        return sorted(self._native.namespaces())

    def verify(self) -> VerifyReport:
        """Check everything that is stored."""
        items, problems, damaged = self._native.verify()
        return VerifyReport(items, tuple(problems), damaged)

    def rebuild(self, *, namespace: str | None = None) -> int:
        """Rebuild the index of one namespace, or of all."""
        return self._native.rebuild(namespace)

    def set_vectors(self, handles: Sequence[str], vectors: Vectors, *, namespace: str) -> int:
        """Set vectors of another model on items and return how many of the items exist."""
        return self._native.set_vectors(namespace, [*handles], vectors.rows, vectors.space)

    def drop_vectors(self, *, namespace: str) -> int:
        """Remove all vectors and the name of their model; return how many items had one."""
        return self._native.drop_vectors(namespace)

    def close(self) -> None:
        """Wait for running writes, then close the file."""
        self._native.close()

    def _item(self, columns: _native._Item) -> MemoryItem:
        """Rebuild an item from its row; raises StoreCorruptError for what no call wrote."""
        try:
            return _item(columns)
        except (ValueError, TypeError, RecursionError) as error:
            raise StoreCorruptError(
                self.path,
                f"the notes of {columns[0]} are not as they were written ({error})",
                "restore the file from a copy or an export",
            ) from None


def open_store(
    path: object,
    *,
    limits: MemoryLimits,
    read_only: bool = False,
    index_bytes: int = INDEX_BYTES,
    vectors: VectorIndex = "auto",
    language: str | None = None,
) -> SharedStore:
    """Open a file, or what a URL names; raises StoreError, and MissingPackageError where what the
    server needs is not installed."""
    where = verify_place(path)
    if is_server(where):
        if vectors != "auto":
            raise InvalidArgumentError(
                f"vectors is {vectors!r}, but a server has an index of its own; leave it out"
            )
        # Of a distribution of its own, so it is named and not imported.
        opened: SharedStore = import_module("rehydrate.memory.postgres.store").PostgresStore(
            where,
            limits=limits,
            read_only=read_only,
            index_bytes=index_bytes,
            language=language or LANGUAGE,
        )
        return opened
    if language is not None:
        raise InvalidArgumentError(
            f"language is {language!r}, but a file reads all languages alike; leave it out"
        )
    return LocalStore(
        where, limits=limits, read_only=read_only, index_bytes=index_bytes, vectors=vectors
    )


def _milliseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // _MILLISECOND


def moment_of(milliseconds: int) -> datetime:
    """Return a time of the store, in milliseconds since 1970."""
    return _EPOCH + timedelta(milliseconds=milliseconds)


def _vectors(vectors: Vectors | None, name: str = "vectors") -> dict[str, Any]:
    if vectors is None:
        return {}
    return {name: vectors.rows, "space": vectors.space}


def _columns_of(filters: Filters) -> dict[str, Any]:
    """Return the filters by their names in the file, as it holds their values."""
    given: dict[str, Any] = {name: value for name, value in filters.items() if value is not None}
    if "threads" in given:
        given["sessions"] = given.pop("threads")
    if "tiers" in given:
        given["tiers"] = [_TIER_CODES[tier] for tier in given["tiers"]]
    for name in ("after", "before"):
        if name in given:
            given[f"{name}_ms"] = _milliseconds(given.pop(name))
    return given


def _columns(item: MemoryItem, now: int) -> Any:
    """Return the item as the row that the store takes, in the order of `_native.pyi`."""
    return (
        item.text,
        item.kind,
        _TIER_CODES[item.tier],
        item.source,
        item.thread,
        item.tool,
        item.principal,
        float(item.trust),
        item.parents,
        now if item.time is None else _milliseconds(item.time),
        float(item.confidence),
        None if item.expires is None else _milliseconds(item.expires),
        as_json(item.metadata) if item.metadata else None,
        json.dumps(item.redactions) if item.redactions else None,
        item.links,
    )


_ROW = (
    *("handle", "namespace", "text", "kind", "tier", "source", "thread", "tool", "principal"),
    *("trust", "parents", "time", "created", "confidence", "expires", "metadata", "redactions"),
    *("links", "uses"),
)


def _item(columns: _native._Item) -> MemoryItem:
    """Rebuild an item from its row. It passed the checks when it was added, so they are skipped."""
    fields: dict[str, Any] = dict(zip(_ROW, columns, strict=True))
    fields["tier"] = TIERS[fields["tier"]]
    for name in ("time", "created", "expires"):
        if fields[name] is not None:
            fields[name] = moment_of(fields[name])
    fields["metadata"] = dict(json.loads(fields["metadata"])) if fields["metadata"] else {}
    redactions = json.loads(fields["redactions"]) if fields["redactions"] else ()
    fields["redactions"] = tuple([Redaction(*span) for span in redactions])
    links = fields["links"]
    for name, is_own in (("links", True), ("linked_from", False)):
        fields[name] = tuple([Link(*link) for *link, from_here in links if from_here is is_own])
    item = object.__new__(MemoryItem)
    for name, value in fields.items():
        object.__setattr__(item, name, value)
    return item
