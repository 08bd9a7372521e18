"""semantic: what a memory holds about the turn, found by words and by meaning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from rehydrate.compiler.counts import counted_sections
from rehydrate.compiler.sources.items import bound, section_of_hit, tiers_for
from rehydrate.compiler.sources.relevance import MIN_RELEVANCE, checked_relevance, relevant
from rehydrate.compiler.sources.source import (
    Found,
    HydrationSource,
    SourceRequest,
    SourceSettings,
)
from rehydrate.ir import Priority, Section
from rehydrate.memory.arguments import MAX_LIMIT, checked_filters, checked_limit
from rehydrate.memory.items import Filters

if TYPE_CHECKING:
    from rehydrate.memory.items import Hit
    from rehydrate.memory.memory import Memory

LIMIT = 5
"""So many items are looked for."""
ROOM_TOKENS = 4_000
"""What whole items may take where the source has no budget."""


def semantic(
    memory: Memory,
    *,
    name: str = "semantic",
    limit: int = LIMIT,
    filters: Filters | None = None,
    whole: bool = False,
    min_relevance: float = MIN_RELEVANCE,
    **settings: Unpack[SourceSettings],
) -> HydrationSource:
    """The items that match the observation best, the best first.

    What a prompt gets by itself, without the model having asked, is about the observation, or
    nothing comes: the best hit must have ``min_relevance`` (0 to 2: the share of the query's words
    that it holds, and the cosine; 0: whatever is found). Nor does it hold cold items, unless
    ``filters`` name that tier. To who asks this source all is open.

    Of each hit the snippet around the match; then, from the best on, whole items in place of
    snippets, as far as the budget goes; with ``whole`` whole items first, and a snippet only of one
    that is larger than the budget by itself. A snippet has the handle of its item. ``filters``
    narrow the search, as in ``{"tiers": ["warm"], "min_trust": 0.5}``.
    """
    priority = settings.setdefault("priority", Priority.NORMAL)
    most = checked_limit("limit", limit, MAX_LIMIT // 2)
    narrowed = checked_filters("semantic", {} if filters is None else filters)
    least = checked_relevance(min_relevance)

    def run(request: SourceRequest) -> Found:
        if not request.observation.strip():
            return Found(off="the request has no observation to look for")
        of = bound(memory, request)
        # They are likely to be found again, but for what stands in the history: it is no memory.
        seen = min(sum(not item.startswith("history[") for item in request.visible), most)
        wanted = Filters(**narrowed)
        if wanted.get("tiers") is None:
            wanted.update(tiers_for(request))
        hits = of.search(request.observation, most + seen, **wanted)
        if not request.is_asked_for:
            hits = relevant(hits, request.observation, least)
        hits = [hit for hit in hits if hit.handle not in request.visible][:most]
        choose = _wholes if whole else _as_much_as_fits
        sections = choose(hits, request.budget_tokens, name, priority)
        return Found(tuple(sections), degraded=of.degraded)

    is_open = memory.namespace is None
    return HydrationSource(
        name, run, kind="semantic", needs_identity=is_open, memory=memory, **settings
    )


def _wholes(
    hits: list[Hit], budget_tokens: int | None, name: str, priority: Priority
) -> list[Section]:
    """Of every hit the whole item, or the snippet of one that could never fit."""
    most = ROOM_TOKENS if budget_tokens is None else budget_tokens
    items = [section_of_hit(hit, source=name, priority=priority, whole=True) for hit in hits]
    return [
        item if (item.tokens or 0) <= most else section_of_hit(hit, source=name, priority=priority)
        for hit, item in zip(hits, counted_sections(items), strict=True)
    ]


def _as_much_as_fits(
    hits: list[Hit], budget_tokens: int | None, name: str, priority: Priority
) -> list[Section]:
    """First of every hit its snippet, so that none goes short, then whole items for the best."""
    cut = [place for place, hit in enumerate(hits) if hit.snippet != hit.item.text]
    counted = counted_sections(
        [
            *[section_of_hit(hit, source=name, priority=priority) for hit in hits],
            *[section_of_hit(hits[at], source=name, priority=priority, whole=True) for at in cut],
        ]
    )
    chosen, wholes = counted[: len(hits)], counted[len(hits) :]
    used = sum(section.tokens or 0 for section in chosen)
    left = (ROOM_TOKENS if budget_tokens is None else budget_tokens) - used
    for place, whole in zip(cut, wholes, strict=True):
        more = (whole.tokens or 0) - (chosen[place].tokens or 0)
        if more <= left:
            chosen[place] = whole
            left -= more
    return chosen
