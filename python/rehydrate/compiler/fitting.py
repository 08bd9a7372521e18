"""Fitting what one source brought into its budget: whole sections, the most relevant first."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from rehydrate.compiler.sources.source import Found, SourceRequest
from rehydrate.ir import DroppedSection, Section


def fit(found: Found, request: SourceRequest) -> Found:
    """What is new and fits, in the order in which it was brought; the rest is in `dropped`.

    The walk goes by priority, then relevance, then order, and passes over what does not fit. What
    must stay whole stays, whatever the budget: whether there is room is for the compiler to say.
    """
    dropped = list(found.dropped)
    new = []
    for section in found.sections:
        items = section.provenance.items
        # What is static stands in every prompt, at its place: the model sees it because of that.
        if items and not section.is_static and request.visible.issuperset(items):
            dropped.append(_dropped(section, request, "the model sees it already"))
        else:
            new.append(section)
    kept = _fitting(new, request.budget_tokens)
    reason = f"source {request.source!r} may take {request.budget_tokens or 0:,} tokens"
    dropped += [_dropped(section, request, reason) for section in new if section.id not in kept]
    degraded = found.degraded
    if new and not kept:
        degraded += (f"{request.source}: left out: nothing of what it found fits, {reason}",)
    return found._replace(
        sections=tuple([section for section in new if section.id in kept]),
        dropped=tuple(dropped),
        degraded=degraded,
    )


def _fitting(sections: list[Section], budget_tokens: int | None) -> AbstractSet[str]:
    if budget_tokens is None:
        return {section.id for section in sections}
    left = budget_tokens
    kept = set()
    by_worth = sorted(
        sections,
        key=lambda section: (-section.must_stay_whole, -section.priority, -section.relevance),
    )
    for section in by_worth:
        tokens = section.tokens or 0
        if section.must_stay_whole or tokens <= left:
            kept.add(section.id)
            left -= tokens
    return kept


def _dropped(section: Section, request: SourceRequest, reason: str) -> DroppedSection:
    return DroppedSection(
        section.id,
        section.tokens or 0,
        reason,
        handle=section.handle or section.metadata.get("handle"),
        priority=section.priority.name.lower(),
        by=request.source,
    )
