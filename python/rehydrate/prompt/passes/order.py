"""order and place_breakpoints: the order of a prompt's parts, and where its prefix is cached.

Static sections are before dynamic ones, and in each group the most relevant at the edges.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rehydrate._native import marks_in, ordered_sections, placed_breakpoints
from rehydrate.prompt.entries import History
from rehydrate.prompt.ir import PromptIR, Target, traced


def order(ir: PromptIR, target: Target) -> PromptIR:
    """Put the sections in the order in which the model reads them.

    First the sections of the system role: instructions, rules, facts, background. Then the other
    static sections. Relevance never moves a static section, because it differs in every turn. Then
    the dynamic sections, by the entry that they are before. In each group of these the most
    relevant are at the ends, because models read the middle worst.
    """
    del target
    sections = ordered_sections(ir.sections)
    moved = [
        after.id for before, after in zip(ir.sections, sections, strict=True) if before is not after
    ]
    return traced("order", ir, ir.with_sections(sections), moved)


def place_breakpoints(ir: PromptIR, target: Target) -> PromptIR:
    """Set at most four breakpoints, each on a static end after enough tokens to be cached.

    They are, by importance: the last history entry that the next prompt has too; the end of the
    system prompt, or of the tools; the entry where the last prompt ended, because a cache looks
    back over 20 blocks only, and one turn may have more; the end of the other static sections.
    Marks in the caller's own entries and tools count. OpenAI caches prefixes by itself, and gets
    breakpoints only where the target's policy says so.
    """
    if not target.policy.marks(target.provider):
        return traced("place_breakpoints", ir, ir.replace(breakpoints=()))
    rows = ir.history.rows  # raises for an entry that isn't a message
    own = _own_marks(ir, target)
    marks = placed_breakpoints(ir, rows, target.provider, target.minimum_prefix, own)
    return traced("place_breakpoints", ir, ir.replace(breakpoints=tuple(marks)), marks)


def _own_marks(ir: PromptIR, target: Target) -> list[Mapping[str, Any]]:
    """Return the cache marks in the caller's tools and entries."""
    values: list[Any] = [tool.raw for tool in ir.tools if tool.provider == target.provider]
    if ir.history.format == target.provider:
        marks = target.render_cache.grown(_with_marks, (), ir.history)
        return [*marks_in(values), *marks]
    if ir.history.format == "claude_code" and target.provider == "anthropic":
        messages = [entry.get("message") for entry in ir.history.entries]
        values += [each.get("content") for each in messages if isinstance(each, Mapping)]
    return marks_in(values)


def _with_marks(
    marks: tuple[Mapping[str, Any], ...], history: History, start: int
) -> tuple[Mapping[str, Any], ...]:
    return (*marks, *marks_in(history.entries[start:]))
