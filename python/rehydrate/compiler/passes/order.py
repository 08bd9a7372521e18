"""Order: static sections before dynamic ones, and in each group the best at the edges."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby

from rehydrate.compiler.target import Target, traced
from rehydrate.ir import CompositionMode, Position, PromptIR, Section

_MODES = {
    CompositionMode.HIERARCHICAL: 0,
    CompositionMode.CONSTRAINT: 1,
    CompositionMode.ADDITIVE: 2,
    CompositionMode.CONTEXTUAL: 3,
}
_POSITIONS = {Position.START: 0, Position.MIDDLE: 1, Position.END: 2}


def order(ir: PromptIR, target: Target) -> PromptIR:
    """The sections in the order in which the model reads them.

    First what may stand in the system role: instructions, rules, facts, background. Then the other
    static sections. Relevance, which is another in every turn, never moves a static section. Then
    the dynamic ones, by the place in the history that they stand before; in each such group the
    most relevant stand at its ends, since models read the middle worst.
    """
    del target
    ordered = sorted(ir.sections, key=_key)
    sections: list[Section] = []
    for (layer, *_), group in groupby(ordered, key=lambda section: _key(section)[:4]):
        members = list(group)
        sections += members if layer < 2 else by_edges(members)
    moved = [
        after.id for before, after in zip(ir.sections, sections, strict=True) if before is not after
    ]
    return traced("order", ir, ir.with_sections(sections), moved)


def by_edges(sections: Sequence[Section]) -> list[Section]:
    """The best last, the next best first, the least in the middle; one that wants to stand at the
    start or at the end does, the best of these outermost."""

    def best_first(position: Position) -> list[Section]:
        wanted = [section for section in sections if section.position is position]
        # By id in the end: what is ordered again, as in `Context`'s next prompt, must not move.
        return sorted(wanted, key=lambda each: (-each.priority, -each.relevance, each.id))

    middle = best_first(Position.MIDDLE)
    # What is nearest to the user's words is read best.
    return [
        *best_first(Position.START),
        *middle[1::2],
        *reversed(middle[0::2]),
        *reversed(best_first(Position.END)),
    ]


def _key(section: Section) -> tuple[int, int, int, float]:
    """Layer; in the system mode and position; of dynamic ones the anchor."""
    if section.is_system:
        return 0, _MODES[section.mode], _POSITIONS[section.position], 0
    if section.is_static:
        return 1, 0, _POSITIONS[section.position], 0
    return 2, 0, 0, math.inf if section.anchor is None else section.anchor
