"""PlainStore: a memory in a dict, written in the simplest way; the reference for fast stores."""

from __future__ import annotations

import builtins
import hashlib
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Unpack

from rehydrate.errors import StoreClosedError, UnknownHandleError
from rehydrate.memory import (
    Added,
    Filters,
    Fusion,
    Hit,
    Link,
    MemoryItem,
    MemoryLimits,
    MemoryStats,
    Recalled,
    Tier,
    Vectors,
    VerifyReport,
)


def words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


def is_meant(item: MemoryItem, filters: Filters) -> bool:
    """Return whether an item passes the filters; also the oracle of tests."""
    tiers, kinds = filters.get("tiers"), filters.get("kinds")
    sources, threads = filters.get("sources"), filters.get("threads")
    after, before = filters.get("after"), filters.get("before")
    trust = filters.get("min_trust") or 0.0
    assert item.time is not None
    return (
        (tiers is None or item.tier in tiers)
        and (kinds is None or item.kind in kinds)
        and (sources is None or item.source in sources)
        and (threads is None or item.thread in threads)
        and (after is None or item.time >= after)
        and (before is None or item.time < before)
        and item.trust >= trust
        and (item.expires is None or item.expires > datetime.now(UTC))
    )


class PlainStore:
    """No index: every search scans every item."""

    def __init__(self) -> None:
        self._items: dict[str, dict[str, MemoryItem]] = {}
        self._named: set[str] = set()
        self._closed = False

    def _in(self, namespace: str) -> dict[str, MemoryItem]:
        if self._closed:
            raise StoreClosedError("plain", "it was closed", "open it again")
        return self._items.setdefault(namespace, {})

    def add(
        self, items: Sequence[MemoryItem], *, namespace: str, vectors: Vectors | None = None
    ) -> list[Added]:
        held = self._in(namespace)
        now = datetime.now(UTC)
        now = now.replace(microsecond=now.microsecond // 1000 * 1000)
        fresh = dict(held)
        added = []
        for item in items:
            key = "\0".join((namespace, item.source, item.text)).encode("utf-8", "surrogatepass")
            handle = f"mem_{hashlib.sha256(key).hexdigest()[:26]}"
            same = fresh.get(handle)
            if same is not None:
                added.append(Added(same.handle, False, item.redactions))
                continue
            fresh[handle] = replace(
                item,
                handle=handle,
                namespace=namespace,
                time=item.time or now,
                created=now,
                links=(),
                linked_from=(),
                uses=0,
            )
            added.append(Added(handle, True, item.redactions))
        ends = [
            (one.handle, link)
            for item, one in zip(items, added, strict=True)
            for link in item.links
        ]
        for _, link in ends:
            if link.handle not in fresh:
                raise UnknownHandleError(link.handle, namespace)
        self._items[namespace] = fresh
        self._named |= {namespace} if items else set()
        for handle, link in ends:
            self.link(handle, link.relation, link.handle, namespace=namespace)
        return added

    def get(self, handle: str, *, namespace: str) -> MemoryItem:
        held = self._in(namespace)
        if handle not in held:
            raise UnknownHandleError(handle, namespace)
        return held[handle]

    def list(
        self,
        *,
        namespace: str,
        limit: int | None = 100,
        newest_first: bool = True,
        **filters: Unpack[Filters],
    ) -> list[MemoryItem]:
        found = [item for item in self._in(namespace).values() if is_meant(item, filters)]
        return (found[::-1] if newest_first else found)[:limit]

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
        asked = words(query)
        found = []
        for item in self._in(namespace).values():
            if not is_meant(item, filters):
                continue
            shared = len(asked & words(item.text)) / max(1, len(asked))
            contained = float(bool(query.strip()) and query.strip().lower() in item.text.lower())
            if shared or contained:
                score = (shared + contained) / 2
                found.append(Hit(item, item.text[:800], score, shared, contained, None))
        return sorted(found, key=lambda hit: -hit.score)[:limit]

    def recall(
        self, texts: Sequence[str], k: int = 3, *, namespace: str, vectors: Vectors | None = None
    ) -> builtins.list[builtins.list[Recalled]]:
        rows = []
        for text in texts:
            asked = words(text)
            near = [
                Recalled(item.handle, len(asked & words(item.text)) / len(asked | words(item.text)))
                for item in self._in(namespace).values()
                if asked & words(item.text)
            ]
            rows.append(sorted(near, key=lambda one: -one.similarity)[:k])
        return rows

    def forget(self, handles: str | Sequence[str], *, namespace: str) -> int:
        held = self._in(namespace)
        names = [handles] if isinstance(handles, str) else handles
        gone = {handle for handle in names if held.pop(handle, None) is not None}
        for handle, item in held.items():
            held[handle] = replace(
                item,
                links=tuple(link for link in item.links if link.handle not in gone),
                linked_from=tuple(link for link in item.linked_from if link.handle not in gone),
            )
        return len(gone)

    def purge(
        self,
        *,
        namespace: str,
        source: str | None = None,
        thread: str | None = None,
        everything: bool = False,
    ) -> int:
        gone = [
            handle
            for handle, item in self._in(namespace).items()
            if everything or item.source == source or item.thread == thread
        ]
        if everything:
            self._named.discard(namespace)
        return self.forget(gone, namespace=namespace)

    def set_tier(self, handles: str | Sequence[str], tier: Tier, *, namespace: str) -> int:
        held = self._in(namespace)
        names = [handles] if isinstance(handles, str) else handles
        there = {handle for handle in names if handle in held and held[handle].tier != tier}
        for handle in there:
            held[handle] = replace(held[handle], tier=tier)
        return len(there)

    def link(self, handle: str, relation: str, other: str, *, namespace: str) -> bool:
        held = self._in(namespace)
        for end in (handle, other):
            if end not in held:
                raise UnknownHandleError(end, namespace)
        there, back = Link(relation, other), Link(relation, handle)
        if there in held[handle].links:
            return False
        held[handle] = replace(held[handle], links=(*held[handle].links, there))
        held[other] = replace(held[other], linked_from=(*held[other].linked_from, back))
        return True

    def stats(self, *, namespace: str) -> MemoryStats:
        items = list(self._in(namespace).values())
        tiers = [item.tier for item in items]
        return MemoryStats(
            namespace=namespace,
            items=len(items),
            hot=tiers.count("hot"),
            warm=tiers.count("warm"),
            cold=tiers.count("cold"),
            held_bytes=sum(len(item.text.encode("utf-8", "surrogatepass")) for item in items),
            links=sum(len(item.links) for item in items),
            demoted=0,
            dropped=0,
            vectors=0,
            vector_space=None,
            indexed=0,
            pending=len(items),
            index_bytes=0,
            store_bytes=0,
            limits=MemoryLimits(None, None),
        )

    def namespaces(self) -> builtins.list[str]:
        return sorted(self._named)

    def verify(self) -> VerifyReport:
        return VerifyReport(sum(map(len, self._items.values())))

    def rebuild(self, *, namespace: str | None = None) -> int:
        return sum(len(items) for name, items in self._items.items() if namespace in {None, name})

    def close(self) -> None:
        self._closed = True
