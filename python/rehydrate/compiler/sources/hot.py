"""hot: the hot memory, which belongs into every turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from rehydrate.compiler.counts import text_tokens
from rehydrate.compiler.sources.items import bound
from rehydrate.compiler.sources.source import (
    Found,
    HydrationSource,
    SourceRequest,
    SourceSettings,
)
from rehydrate.ir import (
    CompositionMode,
    Position,
    Priority,
    Provenance,
    Section,
    Stability,
)
from rehydrate.memory.tiers import HotMemory

if TYPE_CHECKING:
    from rehydrate.memory.memory import Memory


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
    return HydrationSource(name, run, kind="hot", needs_identity=is_open, memory=memory, **settings)


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
