"""temporal: what a memory holds of a time."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Unpack

from rehydrate.compiler.sources.items import bound, relevance_of, section_of, tiers_for
from rehydrate.compiler.sources.source import (
    Found,
    HydrationSource,
    SourceRequest,
    SourceSettings,
)
from rehydrate.ir import Priority
from rehydrate.memory.arguments import checked_limit
from rehydrate.memory.items import Filters

if TYPE_CHECKING:
    from rehydrate.memory.memory import Memory

LIMIT = 50
"""So many items of the time are looked at: the latest, and those that match the observation."""
UNRELATED = 0.2
"""The relevance of what is of that time and matches nothing."""
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


def temporal(
    memory: Memory,
    *,
    name: str = "temporal",
    limit: int = LIMIT,
    **settings: Unpack[SourceSettings],
) -> HydrationSource:
    """The items that were said in the request's `time_range`, in the order of their times.

    Without a time range the source is off. Where not all of them fit, those that match the
    observation best do. Cold items come only to who asks this source, as the model does.
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
        if request.observation.strip():
            for hit in of.search(request.observation, most, **within):
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
        name, run, kind="temporal", needs_identity=is_open, memory=memory, **settings
    )
