"""Rehydrate inside LangGraph: ``pip install rehydrate[langchain]``.

RehydrateStore    LangGraph's long-term store over a `Memory`

An item of the store is an item of the memory: its namespace's labels, joined by dots, are the
memory's namespace, its key is the thread, its value is in the metadata, and the text is what
searches read of the value.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from operator import itemgetter
from typing import Any

from rehydrate._check import check_whole
from rehydrate._concurrency.async_wrappers import WaitingLock, hand_over
from rehydrate._concurrency.workers import STORING
from rehydrate._native import hit_relevance, meets_filter, namespace_fits, value_text
from rehydrate.errors import InvalidArgumentError, MissingPackageError
from rehydrate.memory.items import MAX_LIMIT, Hit, MemoryItem
from rehydrate.memory.memory import Memory

try:
    from langgraph.store.base import (
        BaseStore,
        GetOp,
        Item,
        ListNamespacesOp,
        Op,
        PutOp,
        Result,
        SearchItem,
        SearchOp,
        TTLConfig,
        get_text_at_path,
    )
except ImportError:
    raise MissingPackageError("rehydrate[langchain]", "has LangGraph's store") from None

__all__ = ["RehydrateStore"]

FOUND, KEPT = "langgraph", "langgraph-unindexed"
"""Kinds of the memory's items: those that searches find, and those put with ``index=False``."""
_KINDS = (FOUND, KEPT)
_WHOLE = "$"
_MORE = 4
"""A search with a filter reads this many times more hits, until it has enough."""
_PAGE = 100
"""A filter without a query reads at least this many items at first."""
_REFRESHED_FROM = 0.1
"""A read renews an item's time once this share of it is over: otherwise every read would write."""

_LONGEST_TTL = 100.0 * 365 * 24 * 60
"""Minutes. An item that may live longer does not expire."""


_Found = tuple[MemoryItem, float | None]
"""An item that was read, and its score in a search."""


class RehydrateStore(BaseStore):
    """A LangGraph store whose items are a memory's: on disk, found by words and by meaning.

    Pass it as ``store=`` to ``create_agent`` or ``graph.compile``. The memory must not be bound to
    a namespace: the store's namespaces are its namespaces, and ``memory.within("users.alice")``
    sees what was put into ``("users", "alice")``. ``fields`` are the paths of what a search reads
    in a value; "$" is all of it. ``put(index=[...])`` names others for one item.

    A search with a query returns hits first, best first, then the other items with the score 0, up
    to its limit. ``put(ttl=...)`` takes minutes; ``ttl`` is LangGraph's TTLConfig. Expired items
    are never returned, and the memory removes them by itself.

    A memory's rules hold: secrets are removed from what is put, unless it was opened with
    ``redact=False``, and its limits apply to each namespace.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> with Memory.open(f"{folder.name}/memory.db") as memory:
    ...     store = RehydrateStore(memory)
    ...     store.put(("users", "alice"), "ports", {"text": "Staging listens on 8443."})
    ...     store.search(("users",), query="which port does staging use?")[0].key
    'ports'
    >>> folder.cleanup()
    """

    supports_ttl = True

    def __init__(
        self, memory: Memory, *, fields: Sequence[str] = (_WHOLE,), ttl: TTLConfig | None = None
    ) -> None:
        """Take an open memory; closing it stays with the caller."""
        if memory.namespace is not None:
            raise InvalidArgumentError(
                f"memory is bound to the namespace {memory.namespace!r}; open it without one: "
                "the store's namespaces are those of the memory"
            )
        if isinstance(fields, str):
            raise InvalidArgumentError(f"fields is {fields!r}; pass a list of paths")
        self._memory = memory
        self._fields = tuple(fields)
        self.ttl_config = ttl
        self._lock = WaitingLock()

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Return the result of each operation. Reads come first, and of several puts of one key
        the last one holds, as in LangGraph's own stores."""
        asked = list(ops)
        puts = {(_joined(op.namespace), op.key): op for op in asked if isinstance(op, PutOp)}
        for op in puts.values():
            self._check_key(op.key)
        results = [None if isinstance(op, PutOp) else self._read(op) for op in asked]
        with self._lock:
            for namespace in dict.fromkeys(name for name, _ in puts):
                self._put(namespace, [op for (name, _), op in puts.items() if name == namespace])
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """`batch` for asyncio and trio, in a worker thread."""
        asked = list(ops)
        return await hand_over(lambda: self.batch(asked), STORING)

    def _read(self, op: Op) -> Result:
        if isinstance(op, GetOp):
            held = self._held(_joined(op.namespace), [op.key])[:1]
            self._refresh(held if op.refresh_ttl else ())
            return Item(**_fields(held[0])) if held else None
        if isinstance(op, SearchOp):
            for name in ("limit", "offset"):
                check_whole(name, getattr(op, name))
            wanted = op.offset + op.limit
            found = self._ranked(op, wanted) if op.query else self._newest(op, wanted)
            page = list(islice(found, op.offset, wanted))
            self._refresh([item for item, _ in page] if op.refresh_ttl else ())
            return [SearchItem(**_fields(item), score=score) for item, score in page]
        if isinstance(op, ListNamespacesOp):
            return self._listed(op)
        raise InvalidArgumentError(f"an operation is of type {type(op).__name__}")

    def _held(self, namespace: str, keys: Sequence[str]) -> list[MemoryItem]:
        """Return all versions of some items, the newest first: one of each, unless a process ended
        while it put another one."""
        return self._memory.list(namespace=namespace, threads=keys, kinds=_KINDS, limit=None)

    def _put(self, namespace: str, ops: Sequence[PutOp]) -> None:
        held = self._by_key(namespace, [op.key for op in ops])
        new = [self._stored(op, held[op.key]) for op in ops if op.value is not None]
        self._replace(namespace, held, new)

    def _by_key(self, namespace: str, keys: Sequence[str]) -> dict[str, list[MemoryItem]]:
        held: dict[str, list[MemoryItem]] = {key: [] for key in keys}
        for item in self._held(namespace, keys):
            held[item.thread].append(item)
        return held

    def _replace(
        self, namespace: str, held: Mapping[str, Sequence[MemoryItem]], new: Sequence[MemoryItem]
    ) -> None:
        """Add new versions next to the old ones, then forget these: there is always one."""
        versions = [1 + max(map(_version, held[item.thread]), default=0) for item in new]
        while new:
            named = [
                replace(item, source=f"{item.thread}#{version}")
                for item, version in zip(new, versions, strict=True)
            ]
            added = self._memory.add(named, namespace=namespace)
            # Another process may have put the same text as the same version.
            taken = [index for index, one in enumerate(added) if not one.created]
            new, versions = [new[index] for index in taken], [versions[n] + 1 for n in taken]
        if old_handles := [item.handle for items in held.values() for item in items]:
            self._memory.forget(old_handles, namespace=namespace)

    def _refresh(self, items: Sequence[MemoryItem]) -> None:
        """Renew the time of items that were read, unless others put them meanwhile."""
        now = datetime.now(UTC)
        for item in items:
            if not _is_to_refresh(item, now):
                continue
            with self._lock:
                held = self._by_key(item.namespace, [item.thread])
                if [each.handle for each in held[item.thread]] == [item.handle]:
                    noted = {
                        name: _noted(item, name).isoformat() for name in ("created", "updated")
                    }
                    again = MemoryItem(
                        item.text,
                        kind=item.kind,
                        thread=item.thread,
                        expires=_expiry(item.metadata["ttl"]),
                        metadata={**item.metadata, **noted},
                    )
                    self._replace(item.namespace, held, [again])

    def _stored(self, op: PutOp, old: Sequence[MemoryItem]) -> MemoryItem:
        """Return a value as the memory keeps it."""
        text = self._text(op)
        ends = op.ttl is not None and op.ttl <= _LONGEST_TTL
        return MemoryItem(
            text or op.key or " ",
            kind=FOUND if text else KEPT,
            thread=op.key,
            expires=_expiry(op.ttl or 0.0) if ends else None,
            metadata={
                "value": _as_json(op.value),
                "created": _noted(old[0], "created").isoformat() if old else None,
                "ttl": op.ttl if ends else None,
            },
        )

    def _check_key(self, key: str) -> None:
        """Refuse a key that the memory would not keep as it is."""
        redactor = self._memory.redactor
        if redactor is not None and redactor(key).redactions:
            raise InvalidArgumentError(
                "a key looks like a secret, which a memory does not keep; choose another one, or "
                "open the memory with redact=False"
            )

    def _text(self, op: PutOp) -> str:
        """Return the text that searches read of a value; "" for nothing."""
        if op.index is False:
            return ""
        paths = self._fields if op.index is None else op.index
        texts: list[str] = []
        for path in paths:
            is_whole = path in (_WHOLE, "")
            texts += [value_text(op.value)] if is_whole else get_text_at_path(op.value, path)
        return "\n".join(filter(None, texts))

    def _ranked(self, op: SearchOp, wanted: int) -> Iterator[_Found]:
        """Yield the hits of a query, best first, then the others: those put with ``index=False``
        last and without a score.

        Scores compare hits of one search. Hits of several namespaces are ranked by a relevance that
        means the same in each.
        """
        below = list(self._namespaces(op.namespace_prefix))
        hits = [hit for namespace in below for hit in self._hits(namespace, op, wanted)]
        ranked = [(hit.item, hit.score if len(below) == 1 else hit_relevance(hit)) for hit in hits]
        seen = set()
        for found in sorted(ranked, key=itemgetter(1), reverse=True):
            if _name(found[0]) not in seen:  # a newer version may say something else
                seen.add(_name(found[0]))
                yield found
        for kind, score in ((FOUND, 0.0), (KEPT, None)):
            for item, _ in self._newest(op, wanted + len(seen), [kind]):
                if _name(item) not in seen:
                    yield item, score

    def _hits(self, namespace: str, op: SearchOp, wanted: int) -> list[Hit]:
        """Return the best hits of a namespace that meet the filter, as many as are wanted."""
        assert op.query is not None
        limit = min(wanted * _MORE if op.filter else wanted, MAX_LIMIT)
        while True:
            hits = self._memory.search(op.query, limit, namespace=namespace, kinds=[FOUND])
            held = [hit for hit in hits if meets_filter(hit.item.metadata["value"], op.filter)]
            if len(held) >= wanted or len(hits) < limit or limit == MAX_LIMIT:
                return held
            limit = min(limit * _MORE, MAX_LIMIT)

    def _newest(self, op: SearchOp, wanted: int, kinds: Sequence[str] = _KINDS) -> Iterator[_Found]:
        """Yield items that meet the filter, the last written first: as many as are wanted, if there
        are so many."""
        found = [
            item
            for namespace in self._namespaces(op.namespace_prefix)
            for item in self._newest_of(namespace, op, wanted, kinds)
        ]
        for item in sorted(found, key=_written, reverse=True):
            yield item, None

    def _newest_of(
        self, namespace: str, op: SearchOp, wanted: int, kinds: Sequence[str]
    ) -> list[MemoryItem]:
        """Return a namespace's last written items that meet the filter, as many as are wanted."""
        limit = max(wanted * _MORE, _PAGE) if op.filter else wanted
        while True:
            read = self._memory.list(namespace=namespace, kinds=kinds, limit=limit)
            newest: dict[str, MemoryItem] = {}
            for item in read:
                newest.setdefault(item.thread, item)
            met = [
                item for item in newest.values() if meets_filter(item.metadata["value"], op.filter)
            ]
            if len(met) >= wanted or len(read) < limit or not op.filter:
                return met
            limit *= _MORE

    def _listed(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        conditions = op.match_conditions or ()
        found = {
            labels[: op.max_depth]
            for labels in map(_labels, self._namespaces(()))
            if all(namespace_fits(labels, each.match_type, each.path) for each in conditions)
        }
        return sorted(found)[op.offset : op.offset + op.limit]

    def _namespaces(self, prefix: Sequence[str]) -> Iterator[str]:
        """Yield the memory's namespaces below a prefix that hold items of a store."""
        for name in self._memory.namespaces():
            is_below = _labels(name)[: len(prefix)] == tuple(prefix)
            if is_below and self._memory.list(namespace=name, kinds=_KINDS, limit=1):
                yield name


def _joined(namespace: Sequence[str]) -> str:
    return ".".join(namespace)


def _labels(namespace: str) -> tuple[str, ...]:
    return tuple(namespace.split("."))


def _name(item: MemoryItem) -> tuple[str, str]:
    return item.namespace, item.thread


def _written(item: MemoryItem) -> datetime:
    assert item.created is not None  # it is stored
    return item.created


def _noted(item: MemoryItem, name: str) -> datetime:
    """Return a time in the metadata; if there is none, the time of this version."""
    noted: str | None = item.metadata.get(name)
    return datetime.fromisoformat(noted) if noted else _written(item)


def _as_json(value: Any) -> Any:
    """Return a value as JSON holds it; as it is where JSON cannot, for the memory to refuse."""
    with suppress(TypeError, ValueError):
        return json.loads(json.dumps(value, allow_nan=False))
    return value


def _expiry(minutes: float) -> datetime:
    return datetime.now(UTC) + timedelta(minutes=minutes)


def _is_to_refresh(item: MemoryItem, now: datetime) -> bool:
    minutes: float | None = item.metadata.get("ttl")
    if minutes is None or item.expires is None:
        return False
    left = (item.expires - now) / timedelta(minutes=minutes)
    return left < 1 - _REFRESHED_FROM


def _version(item: MemoryItem) -> int:
    return int(item.source.rpartition("#")[2])


def _fields(item: MemoryItem) -> dict[str, Any]:
    """Return the fields of a LangGraph item."""
    return {
        "namespace": _labels(item.namespace),
        "key": item.thread,
        "value": dict(item.metadata["value"]),
        "created_at": _noted(item, "created"),
        "updated_at": _noted(item, "updated"),
    }
