"""Hypothesis strategies: lawful IRs over valid conversations of every format."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

from hypothesis import strategies as st

from rehydrate.prompt import (
    Budget,
    CompositionMode,
    ContextRequest,
    ContextStrategy,
    DroppedSection,
    History,
    Meta,
    Position,
    Priority,
    PromptIR,
    Provenance,
    Section,
    SourceReport,
    Stability,
    TimeRange,
    ToolDef,
    Trace,
)
from tests.strategies import conversations, texts

Draw = Callable[[st.SearchStrategy[Any]], Any]

TOOL = ToolDef(
    "grep", "Search.", {"type": "object"}, {"name": "grep"}, "anthropic", 40, Provenance("tools")
)

_shares = st.sampled_from([0.0, 0.25, 0.5, 1])
_times = st.one_of(
    st.none(),
    st.datetimes(
        datetime(2020, 1, 1),
        datetime(2030, 1, 1),
        timezones=st.sampled_from([UTC, timezone(timedelta(hours=2, minutes=30))]),
    ),
)
_metadata = st.dictionaries(
    texts, st.recursive(st.one_of(st.none(), st.integers(), texts), st.lists, max_leaves=4)
)


@st.composite
def _sections(draw: Draw, number: int, stability: Stability, form: str, size: int) -> Section:
    trust = draw(_shares)
    content: Any = draw(texts)
    if form in ("plain", "anthropic", "openai_chat") and draw(st.booleans()):
        content = ({"role": "user", "content": content},)
    return Section(
        f"section-{number}",
        content,
        Provenance(
            draw(st.sampled_from(["system", "hot", "semantic", "knowledge", "mine"])),
            items=tuple(f"item-{number}-{n}" for n in range(draw(st.integers(0, 2)))),
            origin=draw(texts),
            time=draw(_times),
            trust=trust,
        ),
        tokens=draw(st.integers(0, 90)),
        min_tokens=draw(st.integers(0, 40)),
        priority=draw(st.sampled_from(Priority)),
        relevance=draw(_shares),
        mode=draw(st.sampled_from(CompositionMode)),
        stability=stability,
        position=draw(st.sampled_from(Position)),
        title=draw(st.sampled_from(["", "Notes"])),
        anchor=draw(st.one_of(st.none(), st.integers(0, size))),
        late_bound=draw(st.booleans()),
        handle=draw(st.sampled_from([None, "mem_1"])),
        metadata=draw(_metadata),
    )


@st.composite
def _histories(draw: Draw) -> History:
    form, entries = draw(conversations())
    tokens = tuple(draw(st.integers(0, 50)) for _ in entries)
    offset = draw(st.integers(0, 5))
    indices = tuple(range(offset, offset + len(entries))) if draw(st.booleans()) else ()
    return History(tuple(entries), form, tokens, indices)


@st.composite
def lawful_irs(draw: Draw) -> PromptIR:
    """An IR that breaks no law."""
    history = draw(_histories())
    form, size = history.format, len(history.entries)
    kinds = [Stability.STATIC] * draw(st.integers(0, 3))
    kinds += [Stability.DYNAMIC] * draw(st.integers(0, 3))
    sections = [draw(_sections(n, kind, form, size)) for n, kind in enumerate(kinds)]
    if sections and draw(st.booleans()):  # one is made from the first
        trust = draw(st.sampled_from([0.0, sections[0].trust]))
        source = Provenance("summary", parents=(sections[0].id,), trust=trust)
        sections.append(Section("derived", "Short.", source, tokens=3))
    tools = (TOOL, replace(TOOL, name="read")) if draw(st.booleans()) else ()
    system = [section.id for section in sections if section.is_system]
    other = [one.id for one in sections if one.is_static and not one.is_system]
    stands = [*(["tools"] if tools else []), *system, *other]
    marks = [mark for mark in stands if draw(st.booleans())][:4]
    return PromptIR(
        ContextRequest(
            draw(texts),
            ContextStrategy({"hot": 0.5}, exclusive=draw(st.booleans())),
            Budget(90_000, 180_000, 0.5),
            thread="t",
            time_range=draw(st.sampled_from([None, TimeRange(datetime(2026, 2, 17, tzinfo=UTC))])),
            namespace="alice",
        ),
        tuple(sections),
        tools,
        history,
        breakpoints=tuple(marks),
        meta=Meta(
            (SourceReport("semantic", "late", 0, 0, 2.5, "no answer within 200 ms"),),
            (DroppedSection("gone", 9, "no room", "mem_2", "low", "prune"),),
            (Trace("prune", 900, 300, ("section-0",), ("a note",), 0.5),),
            draw(st.integers(0, 9_000)),
            ("embedder: none",),
        ),
    )
