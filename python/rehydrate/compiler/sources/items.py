"""A memory's items as sections: shared by every source that reads a memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rehydrate.ir import CompositionMode, Priority, Provenance, Section
from rehydrate.memory.items import Filters

if TYPE_CHECKING:
    from rehydrate.compiler.sources.source import SourceRequest
    from rehydrate.memory.items import Hit, MemoryItem
    from rehydrate.memory.memory import Memory


def bound(memory: Memory, request: SourceRequest) -> Memory:
    """The memory in a namespace: its own, else that of whose turn it is."""
    if memory.namespace is None and request.identity:
        return memory.within(request.identity)
    return memory


def tiers_for(request: SourceRequest) -> Filters:
    """What of a memory may be brought: cold items to who asks, never to a prompt by themselves."""
    return Filters() if request.is_asked_for else Filters(tiers=["hot", "warm"])


def section_of(
    item: MemoryItem,
    *,
    source: str,
    priority: Priority = Priority.NORMAL,
    relevance: float = 0.5,
    snippet: str | None = None,
) -> Section:
    """An item, or a snippet of one, with the item's provenance and trust."""
    is_whole = snippet is None or snippet == item.text
    said = item.time.date().isoformat() if item.time is not None else ""
    return Section(
        f"{source}:{item.handle}",
        item.text if snippet is None else snippet,
        Provenance(
            source,
            items=(item.handle,),
            origin=item.source,
            session=item.session,
            tool=item.tool,
            principal=item.principal,
            time=item.time,
            trust=item.trust,
        ),
        priority=priority,
        relevance=relevance,
        mode=CompositionMode.CONTEXTUAL,
        title=", ".join(filter(None, (item.source, said))),
        handle=None if is_whole else item.handle,
        metadata={"kind": item.kind, "handle": item.handle},
    )


def section_of_hit(
    hit: Hit, *, source: str, priority: Priority = Priority.NORMAL, whole: bool = False
) -> Section:
    """A hit's snippet, or the whole of its item."""
    return section_of(
        hit.item,
        source=source,
        priority=priority,
        relevance=relevance_of(hit),
        snippet=None if whole else hit.snippet,
    )


def relevance_of(hit: Hit) -> float:
    """A hit's score, which most ways of fusing give as a share already."""
    return min(max(hit.score, 0.0), 1.0)
