"""TracedMemory: a memory whose operations are spans; `Telemetry.trace_memory` makes it.

They are the memory spans of the semantic conventions for generative AI, v0.1.0 (github.com/
open-telemetry/semantic-conventions-genai, ``docs/gen-ai/gen-ai-spans.md``, "Memory", of pull
request 140, merged on 2026-05-19). ``gen_ai.memory.store.id`` is the namespace. The conventions
have no operation for what only reads by name or handle (``get``, ``list``, ``hot``), and none of
theirs makes a namespace, which is there with its first item.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol, Unpack

from rehydrate._concurrency.async_wrappers import stored
from rehydrate._native import as_items, checked_handles
from rehydrate.memory.memory import RECALLED_NEIGHBOURS, Memory

if TYPE_CHECKING:
    from rehydrate.memory.items import (
        Added,
        Filters,
        Fusion,
        Hit,
        ItemFields,
        MemoryItem,
        Recalled,
        Tier,
        Vectors,
    )


Content = Callable[[], Mapping[str, Any]]
"""Makes the attributes that hold texts; it is called only where content is recorded."""


class Record(Protocol):
    """Puts attributes on the span that is open."""

    def __call__(self, attributes: Mapping[str, Any], content: Content | None = None, /) -> None:
        """Put these, and those of the content."""


OpenSpan = Callable[[str, str | None, str], AbstractContextManager[Record]]
"""Opens the span of an operation, by its name, the namespace and the place of the store."""


class TracedMemory(Memory):
    """The same memory as the one that it is made of: either may be closed, and closes both."""

    _open_span: OpenSpan

    @classmethod
    def of(cls, memory: Memory, open_span: OpenSpan) -> TracedMemory:
        """Return a memory of the same store, whose operations open spans."""
        traced = object.__new__(cls)
        traced.__dict__.update(memory.__dict__)
        traced._open_span = open_span
        return traced

    def add(
        self,
        texts: str | MemoryItem | Iterable[str | MemoryItem],
        *,
        namespace: str | None = None,
        vectors: Vectors | None = None,
        **fields: Unpack[ItemFields],
    ) -> list[Added]:
        """Add texts or items: ``create_memory``."""
        with self._span("create_memory", namespace) as record:
            items = as_items(texts, fields)
            record(_counted(len(items)))
            added = super().add(items, namespace=namespace, vectors=vectors)
            pairs = [(one.handle, item) for one, item in zip(added, items, strict=True)]
            record(
                _named([handle for handle, _ in pairs]),
                lambda: _records([(each, self.as_stored(item).text, {}) for each, item in pairs]),
            )
            return added

    def search(
        self,
        query: str,
        limit: int = 5,
        *,
        namespace: str | None = None,
        fusion: Fusion | None = None,
        vectors: Vectors | None = None,
        **filters: Unpack[Filters],
    ) -> list[Hit]:
        """Return the best matches: ``search_memory``."""
        with self._span("search_memory", namespace) as record:
            if isinstance(query, str):
                record({}, lambda: {_QUERY: self._redacted_name(query)})
            hits = super().search(
                query, limit, namespace=namespace, fusion=fusion, vectors=vectors, **filters
            )
            record(
                _counted(len(hits)),
                lambda: _records([(h.handle, h.item.text, {"score": h.score}) for h in hits]),
            )
            return hits

    def recall(
        self,
        texts: Sequence[str] | Any,
        k: int = RECALLED_NEIGHBOURS,
        *,
        namespace: str | None = None,
        vectors: Vectors | None = None,
    ) -> list[list[Recalled]]:
        """Return the memories nearest to each text: ``search_memory`` too. It has no query, which
        is one text, and no records, since it finds handles."""
        with self._span("search_memory", namespace) as record:
            found = super().recall(texts, k, namespace=namespace, vectors=vectors)
            record(_counted(len({one.handle for row in found for one in row})))
            return found

    def forget(self, handles: str | Sequence[str], *, namespace: str | None = None) -> int:
        """Remove items: ``delete_memory``."""
        with self._span("delete_memory", namespace) as record:
            handles = checked_handles(handles)
            record(_named(handles))
            return super().forget(handles, namespace=namespace)

    def purge(
        self,
        *,
        namespace: str | None = None,
        source: str | None = None,
        thread: str | None = None,
        everything: bool = False,
    ) -> int:
        """Remove all of a source, of a thread, or everything: ``delete_memory`` without a record's
        id, and `rehydrate.memory.purged` says which."""
        with self._span("delete_memory", namespace) as record:
            what = "everything" if everything else "thread" if source is None else "source"
            record({"rehydrate.memory.purged": what})
            count = super().purge(
                namespace=namespace, source=source, thread=thread, everything=everything
            )
            record(_counted(count))
            return count

    def set_tier(
        self, handles: str | Sequence[str], tier: Tier, *, namespace: str | None = None
    ) -> int:
        """Move items to a tier: ``update_memory``."""
        with self._span("update_memory", namespace) as record:
            handles = checked_handles(handles)
            record(_named(handles))
            return super().set_tier(handles, tier, namespace=namespace)

    def link(self, handle: str, relation: str, other: str, *, namespace: str | None = None) -> bool:
        """Link an item to another: ``update_memory``."""
        with self._span("update_memory", namespace) as record:
            record(_named(checked_handles(handle)))
            return super().link(handle, relation, other, namespace=namespace)

    def _span(self, operation: str, namespace: str | None) -> AbstractContextManager[Record]:
        where = self.namespace if namespace is None else namespace
        return self._open_span(operation, where, str(getattr(self._store, "path", "")))


for _name in ("add", "search", "recall", "forget", "purge", "set_tier", "link"):
    # The async versions that are inherited would call the memory's own methods.
    setattr(TracedMemory, f"a{_name}", stored(getattr(TracedMemory, _name)))


_QUERY = "gen_ai.memory.query.text"


def _counted(count: int) -> Mapping[str, Any]:
    return {"gen_ai.memory.record.count": count}


def _named(handles: Sequence[str]) -> Mapping[str, Any]:
    """Return the attributes of an operation on these items."""
    one = {"gen_ai.memory.record.id": handles[0]} if len(handles) == 1 else {}
    return {**_counted(len(handles)), **one}


def _records(rows: Iterable[tuple[str, str, Mapping[str, Any]]]) -> Mapping[str, Any]:
    """Return the attribute of records, by the conventions' ``gen-ai-memory-records.json``."""
    records = [{"id": handle, "content": text, **more} for handle, text, more in rows]
    return {"gen_ai.memory.records": records}
