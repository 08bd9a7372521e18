"""Relevance: whether what a search of a memory found is about the question, by an absolute measure.

A search always finds something, and its scores compare hits of one search only. What goes into a
prompt without the model having asked for it must be about the turn, so it is judged by what means
the same in every search: the share of the query's words that a hit holds (words that no item holds
count as missing, the rarer the more) and the cosine of the meanings, together 0 to 2.

A memory's items as sections: shared by every source that reads a memory.

hot: the hot memory, which belongs into every turn.

temporal: what a memory holds of a time.

semantic: what a memory holds about the turn, found by words and by meaning.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Unpack

from rehydrate.entry_id import EntryId
from rehydrate.errors import InvalidArgumentError
from rehydrate.memory.arguments import MAX_LIMIT, checked_filters, checked_limit
from rehydrate.memory.items import Filters
from rehydrate.memory.tiers import HotMemory
from rehydrate.prompt.counting import counted_sections, text_tokens
from rehydrate.prompt.section import (
    CompositionMode,
    Position,
    Priority,
    Provenance,
    Section,
    Stability,
)
from rehydrate.prompt.sources.source import Found, HydrationSource, SourceRequest, SourceSettings

if TYPE_CHECKING:
    from rehydrate.memory.items import Hit, MemoryItem
    from rehydrate.memory.memory import Memory


MIN_RELEVANCE = 0.55
"""The best hit of a search must have so much, or nothing of it is brought. Four of five LoCoMo
conversations choose 0.6 for the fifth; the pieces of notes are longer and match less. Nothing is
brought for 83% of general questions and 77% of those that another conversation answers (0% without
a threshold), and for its own 0.65 of the evidence instead of 0.71: what is missing the model can
ask for (`benches/python/relevance.py`)."""
LEAST_OF_A_HIT = 0.1
"""What has less shares next to nothing with the question, and is not brought beside the best."""

OF_IDEOGRAPHS = 0.5
"""So much of the threshold holds for a query in ideographs: its characters and their pairs are its
words, of which a paraphrase shares fewer (eight questions and their answers in Chinese: 0.29 to
1.29, ten unrelated ones at most 0.25)."""

_SMALL_WORDS = (
    "a again alright and bye cheers continue cool day do evening fine go good goodbye great hello "
    "hey hi how i is it k let me morning much next night nice no nope of ok okay on one perfect "
    "please right so sounds sure thank thanks that the then there this thx to well what yeah yep "
    "yes you your ahead are for now s"
)
_SMALL_TALK = frozenset(_SMALL_WORDS.split())
"""A message of nothing but such words asks for nothing that a memory holds."""
_WORD = re.compile(r"\w+")
_IDEOGRAPH = re.compile(r"[\u3400-\u9fff]")


def relevant(hits: Sequence[Hit], query: str, least: float = MIN_RELEVANCE) -> list[Hit]:
    """The hits that are about the query, in their order; none where the best is below ``least``.

    >>> relevant([], "Which port?")
    []
    """
    if least <= 0:
        return list(hits)
    words = _WORD.findall(query.lower())
    if _SMALL_TALK.issuperset(words):
        return []
    if 2 * len(_IDEOGRAPH.findall(query)) > sum(map(len, words)):
        least *= OF_IDEOGRAPHS
    worth = [relevance(hit) for hit in hits]
    if max(worth, default=0.0) < least:
        return []
    floor = min(LEAST_OF_A_HIT, least)
    return [hit for hit, each in zip(hits, worth, strict=True) if each >= floor]


def relevance(hit: Hit) -> float:
    """How much a hit has to do with the query, 0 to 2, whatever else was found."""
    if hit.cosine is None:  # no vector: its words stand for the meaning too
        return 2 * hit.trigram
    return hit.trigram + max(hit.cosine, 0.0)


def checked_relevance(value: object) -> float:
    """A relevance from 0 to 2."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= 2:  # type: ignore[operator]
        raise InvalidArgumentError(
            f"min_relevance is {value!r}; pass a number from 0 (whatever is found) to 2"
        )
    return float(value)  # type: ignore[arg-type]


def bound(memory: Memory, request: SourceRequest) -> Memory:
    """The memory in a namespace: its own, else that of whose turn it is."""
    if memory.namespace is None and request.namespace:
        return memory.within(request.namespace)
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
            thread=item.thread,
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


def hot(
    memory: Memory, *, name: str = "hot", **settings: Unpack[SourceSettings]
) -> HydrationSource:
    """A memory's hot items, at most 100 lines of them, as one static section.

    It is trusted as far as the least trusted item in it. Where it is more than its budget allows,
    it is cut after a line, and the report says so.
    """
    priority = settings.setdefault("priority", Priority.HIGH)

    def run(request: SourceRequest) -> Found:
        found = bound(memory, request).hot()
        if not found.text:
            return Found()
        text, noted = _cut(found, request.budget_tokens)
        degraded = tuple([f"{name}: {note}" for note in (found.warning, noted) if note])
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
            handle=found.handles[0] if noted else None,
        )
        return Found((section,), degraded=degraded)

    is_open = memory.namespace is None
    return HydrationSource(
        name, run, kind="hot", needs_namespace=is_open, memory=memory, **settings
    )


def _cut(found: HotMemory, budget_tokens: int | None) -> tuple[str, str]:
    """As many of its lines as fit, and what is to be said about the others."""
    (tokens,) = text_tokens([found.text])
    if budget_tokens is None or tokens <= budget_tokens:
        return found.text, ""
    lines = found.text.splitlines()
    fits, beyond = 0, len(lines)
    while beyond - fits > 1:
        middle = (fits + beyond) // 2
        (tokens,) = text_tokens(["\n".join(lines[:middle])])
        fits, beyond = (middle, beyond) if tokens <= budget_tokens else (fits, middle)
    return "\n".join(lines[:fits]), (
        f"{fits} of its {len(lines)} lines fit in {budget_tokens:,} tokens; move some to "
        "decisions.md, or give it a larger share"
    )


TEMPORAL_LIMIT = 50
"""So many items of the time are looked at: the latest, and those that match the query."""
UNRELATED = 0.2
"""The relevance of what is of that time and matches nothing."""
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


def temporal(
    memory: Memory,
    *,
    name: str = "temporal",
    limit: int = TEMPORAL_LIMIT,
    **settings: Unpack[SourceSettings],
) -> HydrationSource:
    """The items that were said in the request's `time_range`, in the order of their times.

    Without a time range the source is off. Where not all of them fit, those that match the
    query best do. Cold items come only to who asks this source, as the model does.
    """
    priority = settings.setdefault("priority", Priority.NORMAL)
    most = checked_limit("limit", limit)

    def run(request: SourceRequest) -> Found:
        if request.time_range is None:
            return Found(off="the request has no time_range")
        of = bound(memory, request)
        within = Filters(after=request.after, before=request.before, **tiers_for(request))
        listed = of.list(limit=most, **within)
        found = {item.handle: (item, UNRELATED) for item in listed}
        if request.query.strip():
            for hit in of.search(request.query, most, **within):
                relevance = UNRELATED + (1 - UNRELATED) * relevance_of(hit)
                found[hit.handle] = (hit.item, relevance)
        # What was said at one time stands in the order in which it was stored.
        stored = {item.handle: -place for place, item in enumerate(listed)}
        in_order = sorted(
            found.values(),
            key=lambda one: (
                one[0].time or _LONG_AGO,
                stored.get(one[0].handle, -most),
                one[0].handle,
            ),
        )
        sections = [
            section_of(item, source=name, priority=priority, relevance=relevance)
            for item, relevance in in_order
        ]
        return Found(tuple(sections), degraded=of.degraded)

    is_open = memory.namespace is None
    return HydrationSource(
        name, run, kind="temporal", needs_namespace=is_open, memory=memory, **settings
    )


SEMANTIC_LIMIT = 5
"""So many items are looked for."""
ROOM_TOKENS = 4_000
"""What whole items may take where the source has no budget."""


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
    """The items that match the query best, the best first.

    What a prompt gets by itself, without the model having asked, is about the query, or
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
        if not request.query.strip():
            return Found(off="the request has no query to look for")
        of = bound(memory, request)
        # They are likely to be found again, but for what stands in the history: it is no memory.
        seen = min(sum(EntryId.index_of(item) is None for item in request.visible), most)
        wanted = Filters(**narrowed)
        if wanted.get("tiers") is None:
            wanted.update(tiers_for(request))
        hits = of.search(request.query, most + seen, **wanted)
        if not request.is_asked_for:
            hits = relevant(hits, request.query, least)
        hits = [hit for hit in hits if hit.handle not in request.visible][:most]
        choose = _wholes if whole else _as_much_as_fits
        sections = choose(hits, request.budget_tokens, name, priority)
        return Found(tuple(sections), degraded=of.degraded)

    is_open = memory.namespace is None
    return HydrationSource(
        name, run, kind="semantic", needs_namespace=is_open, memory=memory, **settings
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
