"""The sources of a memory: hot, temporal and semantic, and its items as sections.

A search always finds something, and its scores compare only hits of the same search. So what goes
into a prompt unasked is judged by a relevance that means the same in every search, from 0 to 2: the
share of the query's words that a hit holds, plus the cosine. Rare words count more, and words that
no item holds count as missing.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Unpack

from rehydrate._native import checked_filters, checked_limit, checked_relevance, relevant_hits
from rehydrate.entry_id import EntryId
from rehydrate.memory.folder import HotMemory
from rehydrate.memory.items import MAX_LIMIT, Filters
from rehydrate.prompt.counting import counted_sections, text_tokens
from rehydrate.prompt.section import (
    CompositionMode,
    Position,
    Priority,
    Provenance,
    Section,
    Stability,
)
from rehydrate.prompt.sources.source import (
    Found,
    HydrationSource,
    Run,
    SourceKind,
    SourceRequest,
    SourceSettings,
)

if TYPE_CHECKING:
    from rehydrate.memory.items import Hit, MemoryItem
    from rehydrate.memory.memory import Memory


TEMPORAL_LIMIT = 50
"""Default number of the time's items: the latest, and the best matches of the query."""
SEMANTIC_LIMIT = 5
"""Default number of items that are searched for."""
UNRELATED = 0.2
"""Relevance of an item of the right time that does not match the query."""
DEFAULT_BUDGET_TOKENS = 4_000
"""Tokens for whole items if the source has no budget."""
MIN_RELEVANCE = 0.55
"""Relevance that the best hit of a search must have, or the search brings nothing. Four of five
LoCoMo conversations choose 0.6 for the fifth; chunks of notes are longer and match less. It brings
nothing for 83% of general questions and 77% of those about another conversation (0% without a
threshold), and 0.65 instead of 0.71 of the evidence for questions about its own: the model can ask
for what is missing (`benches/python/relevance.py`)."""


def hot(
    memory: Memory, *, name: str = "hot", **settings: Unpack[SourceSettings]
) -> HydrationSource:
    """Return a source of a memory's hot items, at most 100 lines, as one static section.

    The section has the trust of its least trusted item. If it exceeds its budget, it is cut after a
    line, and the report says so.
    """
    priority = settings.setdefault("priority", Priority.HIGH)

    def run(request: SourceRequest) -> Found:
        found = in_namespace(memory, request).hot()
        if not found.text:
            return Found()
        text, cut_note = _cut(found, request.budget_tokens)
        degraded = tuple([f"{name}: {note}" for note in (found.warning, cut_note) if note])
        if not text:
            return Found(degraded=degraded)
        section = Section(
            name,
            text,
            Provenance(name, items=found.handles, trust=found.trust),
            priority=priority,
            relevance=1.0,
            mode=CompositionMode.ADDITIVE,
            stability=Stability.STATIC,
            position=Position.START,
            handle=found.handles[0] if cut_note else None,
        )
        return Found((section,), degraded=degraded)

    return _source(memory, name, "hot", run, settings)


def _source(
    memory: Memory, name: str, kind: SourceKind, run: Run, settings: SourceSettings
) -> HydrationSource:
    is_unbound = memory.namespace is None
    return HydrationSource(
        name, run, kind=kind, needs_namespace=is_unbound, memory=memory, **settings
    )


def _cut(found: HotMemory, budget_tokens: int | None) -> tuple[str, str]:
    """Return the first lines that fit, and a note if some do not."""
    (tokens,) = text_tokens([found.text])
    if budget_tokens is None or tokens <= budget_tokens:
        return found.text, ""
    lines = found.text.splitlines()
    fits, exceeds = 0, len(lines)
    while exceeds - fits > 1:
        middle = (fits + exceeds) // 2
        (tokens,) = text_tokens(["\n".join(lines[:middle])])
        fits, exceeds = (middle, exceeds) if tokens <= budget_tokens else (fits, middle)
    return "\n".join(lines[:fits]), (
        f"{fits} of its {len(lines)} lines fit in {budget_tokens:,} tokens; move some to "
        "decisions.md, or give it a larger share"
    )


def temporal(
    memory: Memory,
    *,
    name: str = "temporal",
    limit: int = TEMPORAL_LIMIT,
    **settings: Unpack[SourceSettings],
) -> HydrationSource:
    """Return a source of the items in the request's `time_range`, in the order of their times.

    Without a time range the source is off. If not all items fit the budget, the best matches of the
    query do. Cold items come only if this source was asked, as by the model.
    """
    priority = settings.setdefault("priority", Priority.NORMAL)
    limit = checked_limit("limit", limit)

    def run(request: SourceRequest) -> Found:
        if request.time_range is None:
            return Found(off="the request has no time_range")
        searched = in_namespace(memory, request)
        filters = Filters(after=request.after, before=request.before, **tiers_for(request))
        listed = searched.list(limit=limit, **filters)
        found = {item.handle: (item, UNRELATED) for item in listed}
        if request.query.strip():
            for hit in searched.search(request.query, limit, **filters):
                relevance = UNRELATED + (1 - UNRELATED) * score_of(hit)
                found[hit.handle] = (hit.item, relevance)
        # Items of one time keep the order in which they were stored: the list has the newest first.
        storage_order = {item.handle: -index for index, item in enumerate(listed)}
        ordered = sorted(
            found.values(),
            key=lambda entry: (
                entry[0].time or _EARLIEST,
                storage_order.get(entry[0].handle, -limit),
                entry[0].handle,
            ),
        )
        sections = [
            section_of(item, source=name, priority=priority, relevance=relevance)
            for item, relevance in ordered
        ]
        return Found(tuple(sections), degraded=searched.degraded)

    return _source(memory, name, "temporal", run, settings)


_EARLIEST = datetime.min.replace(tzinfo=UTC)


def semantic(
    memory: Memory,
    *,
    name: str = "semantic",
    limit: int = SEMANTIC_LIMIT,
    filters: Filters | None = None,
    whole: bool = False,
    min_relevance: float = MIN_RELEVANCE,
    **settings: Unpack[SourceSettings],
) -> HydrationSource:
    """Return a source of the items that match the query best, the best first.

    What goes into a prompt unasked must be about the query: the best hit must have
    ``min_relevance`` (0 to 2: the share of the query's words that it holds, plus the cosine; 0: no
    threshold), or nothing is brought. It holds no cold items, unless ``filters`` name that tier.
    Neither rule applies if this source was asked, as by the model.

    Each hit brings the snippet around its match. Then whole items replace snippets, from the best
    hit on, as far as the budget goes. With ``whole`` each hit brings its whole item, or its snippet
    if the item alone exceeds the budget. A snippet has the handle of its item. ``filters`` narrow
    the search, as in ``{"tiers": ["warm"], "min_trust": 0.5}``.
    """
    priority = settings.setdefault("priority", Priority.NORMAL)
    limit = checked_limit("limit", limit, MAX_LIMIT // 2)
    base_filters = checked_filters("semantic", {} if filters is None else filters)
    min_relevance = checked_relevance(min_relevance)

    def run(request: SourceRequest) -> Found:
        if not request.query.strip():
            return Found(off="the request has no query to look for")
        searched = in_namespace(memory, request)
        # Visible items are likely to be found again, but entries of the history are not items.
        visible = sum(EntryId.index_of(item) is None for item in request.visible)
        search_filters = Filters(**base_filters)
        if search_filters.get("tiers") is None:
            search_filters.update(tiers_for(request))
        hits = searched.search(request.query, limit + min(visible, limit), **search_filters)
        if not request.is_asked_for:
            hits = relevant_hits(hits, request.query, min_relevance)
        hits = [hit for hit in hits if hit.handle not in request.visible][:limit]
        sections = _sections(hits, request.budget_tokens, name, priority, whole=whole)
        return Found(tuple(sections), degraded=searched.degraded)

    return _source(memory, name, "semantic", run, settings)


def _sections(
    hits: list[Hit], budget_tokens: int | None, name: str, priority: Priority, *, whole: bool
) -> list[Section]:
    """Return the snippet of each hit, or its whole item: with ``whole`` each that fits by itself,
    else as many as fit together, the best first."""

    def counted(hits: Iterable[Hit], *, whole: bool) -> list[Section]:
        made = (section_of_hit(hit, source=name, priority=priority, whole=whole) for hit in hits)
        return counted_sections(list(made))

    budget = DEFAULT_BUDGET_TOKENS if budget_tokens is None else budget_tokens
    chosen = counted(hits, whole=whole)
    if whole:
        others = [n for n, section in enumerate(chosen) if (section.tokens or 0) > budget]
    else:
        others = [n for n, hit in enumerate(hits) if hit.snippet != hit.item.text]
    remaining = budget - sum(section.tokens or 0 for section in chosen)
    made = counted([hits[index] for index in others], whole=not whole)
    for index, section in zip(others, made, strict=True):
        extra = (section.tokens or 0) - (chosen[index].tokens or 0)
        if whole or extra <= remaining:
            chosen[index] = section
            remaining -= extra
    return chosen


def in_namespace(memory: Memory, request: SourceRequest) -> Memory:
    """Return the memory; one without a namespace is bound to that of the request."""
    if memory.namespace is None and request.namespace:
        return memory.within(request.namespace)
    return memory


def tiers_for(request: SourceRequest) -> Filters:
    """Return the filter of tiers: cold items come only if the source was asked."""
    return Filters() if request.is_asked_for else Filters(tiers=["hot", "warm"])


def section_of(
    item: MemoryItem,
    *,
    source: str,
    priority: Priority = Priority.NORMAL,
    relevance: float = 0.5,
    snippet: str | None = None,
) -> Section:
    """Return an item, or a snippet of it, as a section with the item's provenance and trust."""
    is_whole = snippet is None or snippet == item.text
    date = item.time.date().isoformat() if item.time is not None else ""
    return Section(
        f"{source}:{item.handle}",
        item.text if snippet is None else snippet,
        Provenance(
            source,
            items=(item.handle,),
            origin=item.source,
            thread=item.thread,
            tool=item.tool,
            principal=item.principal,
            time=item.time,
            trust=item.trust,
        ),
        priority=priority,
        relevance=relevance,
        mode=CompositionMode.CONTEXTUAL,
        title=", ".join(filter(None, (item.source, date))),
        handle=None if is_whole else item.handle,
        metadata={"kind": item.kind, "handle": item.handle},
    )


def section_of_hit(
    hit: Hit, *, source: str, priority: Priority = Priority.NORMAL, whole: bool = False
) -> Section:
    """Return a hit's snippet, or its whole item, as a section."""
    return section_of(
        hit.item,
        source=source,
        priority=priority,
        relevance=score_of(hit),
        snippet=None if whole else hit.snippet,
    )


def score_of(hit: Hit) -> float:
    """Return a hit's score in its search, from 0 to 1."""
    return min(max(hit.score, 0.0), 1.0)
