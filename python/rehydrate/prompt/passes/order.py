"""order and place_breakpoints: the order of a prompt's parts, and where its prefix is cached.

Static sections are before dynamic ones, and in each group the most relevant at the edges.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from rehydrate.entry_id import EntryId
from rehydrate.formats import cache_marks
from rehydrate.messages import CACHE_MARKED
from rehydrate.prompt.entries import History
from rehydrate.prompt.ir import PromptIR, Target, traced
from rehydrate.prompt.section import MOST_BREAKPOINTS, TOOLS, CompositionMode, Position, Section

_MODES = {
    CompositionMode.HIERARCHICAL: 0,
    CompositionMode.CONSTRAINT: 1,
    CompositionMode.ADDITIVE: 2,
    CompositionMode.CONTEXTUAL: 3,
}
_POSITIONS = {Position.START: 0, Position.MIDDLE: 1, Position.END: 2}


def order(ir: PromptIR, target: Target) -> PromptIR:
    """Put the sections in the order in which the model reads them.

    First the sections of the system role: instructions, rules, facts, background. Then the other
    static sections. Relevance never moves a static section, because it differs in every turn. Then
    the dynamic sections, by the entry that they stand before. In each group of these the most
    relevant stand at the ends, because models read the middle worst.
    """
    del target
    ordered = sorted(ir.sections, key=_key)
    sections: list[Section] = []
    for (layer, *_), group in groupby(ordered, key=_key):
        members = list(group)
        sections += members if layer < 2 else by_edges(members)
    moved = [
        after.id for before, after in zip(ir.sections, sections, strict=True) if before is not after
    ]
    return traced("order", ir, ir.with_sections(sections), moved)


def by_edges(sections: Sequence[Section]) -> list[Section]:
    """Put the best section last, the next best first, and so on, with the worst in the middle.

    Sections that prefer the start or the end stand there, the best of them outermost.
    """

    def best_first(position: Position) -> list[Section]:
        members = [section for section in sections if section.position is position]
        # By id at last: sections that are ordered again, as in the next prompt, must not move.
        return sorted(members, key=lambda each: (-each.priority, -each.relevance, each.id))

    middle = best_first(Position.MIDDLE)
    # Models read best what is nearest to the user's words.
    return [
        *best_first(Position.START),
        *middle[1::2],
        *reversed(middle[0::2]),
        *reversed(best_first(Position.END)),
    ]


def _key(section: Section) -> tuple[int, int, int, float]:
    """Return the layer; the mode and position in the system; the anchor of a dynamic section."""
    if section.is_system:
        return 0, _MODES[section.mode], _POSITIONS[section.position], 0
    if section.is_static:
        return 1, 0, _POSITIONS[section.position], 0
    return 2, 0, 0, math.inf if section.anchor is None else section.anchor


def place_breakpoints(ir: PromptIR, target: Target) -> PromptIR:
    """Set at most four breakpoints, each on a static end after enough tokens to be cached.

    They are, by importance: the last history entry that the next prompt has too; the end of the
    system prompt, or of the tools; the entry where the last prompt ended, because a cache looks
    back over 20 blocks only, and one turn may have more; the end of the other static sections.
    Marks in the caller's own entries and tools count. OpenAI caches prefixes by itself and gets no
    breakpoints.
    """
    if target.provider not in CACHE_MARKED:
        return traced("place_breakpoints", ir, ir.replace(breakpoints=()))
    prefixes = _Prefixes(ir)
    # A dynamic section without an anchor is before the last user turn, so all after it moves.
    floats = any(not section.is_static and section.anchor is None for section in ir.sections)
    end, earlier = ir.history.rows.shared_ends(floats)
    wanted = [
        prefixes.up_to_entry(end),
        prefixes.system,
        prefixes.up_to_entry(earlier),
        prefixes.statics,
    ]
    own = _own_marks(ir, target)
    # Marks with a longer time to live must come first: a caller who sets such a mark sets them all.
    has_long_lived = any(_lifetime(mark) not in (None, "5m") for mark in own)
    free = 0 if has_long_lived else max(0, MOST_BREAKPOINTS - len(own))
    chosen = [
        prefix
        for prefix in dict.fromkeys(wanted)
        if prefix is not None and prefix.tokens >= target.minimum_prefix
    ][:free]
    marks = tuple(sorted([prefix.end for prefix in chosen], key=prefixes.rank))
    return traced("place_breakpoints", ir, ir.replace(breakpoints=marks), marks)


class _Prefix(NamedTuple):
    """A beginning of the prompt that could be cached."""

    tokens: int
    end: str
    """The id of its last part."""


class _Prefixes:
    """The prefixes of a prompt that could be cached."""

    def __init__(self, ir: PromptIR) -> None:
        self._history = history = ir.history
        self._leading = history.rows.leading_system() if history.tokens else 0
        system = [section for section in ir.sections if section.is_system]
        others = [section for section in ir.sections if section.is_static and not section.is_system]
        self._inserted = [section for section in ir.sections if not section.is_static]
        self._order = [TOOLS, *(section.id for section in (*system, *others))]
        tokens = sum(tool.tokens or 0 for tool in ir.tools)
        tokens += sum(section.tokens or 0 for section in system)
        tokens += sum(history.tokens[: self._leading])
        self.system: _Prefix | None = None
        """The end of the system prompt, or of the tools where there is none."""
        if self._leading:
            self.system = _Prefix(tokens, history.entry_id(self._leading - 1))
        elif system or ir.tools:
            self.system = _Prefix(tokens, system[-1].id if system else TOOLS)
        tokens += sum(section.tokens or 0 for section in others)
        self.statics = _Prefix(tokens, others[-1].id) if others else None
        """The end of the other static sections."""
        self._static_tokens = tokens

    def up_to_entry(self, position: int | None) -> _Prefix | None:
        """Return the prefix that ends with this entry, or with the last one before it that can have
        a mark."""
        history, rows = self._history, self._history.rows
        while position is not None and position >= self._leading:
            entry = history.entries[position]
            if position in rows and _can_be_marked(entry, history.format):
                index = history.entry_index(position)
                tokens = self._static_tokens + sum(history.tokens[self._leading : position + 1])
                for section in self._inserted:
                    if section.anchor is not None and section.anchor <= index:
                        tokens += section.tokens or 0
                return _Prefix(tokens, history.entry_id(position))
            position -= 1
        return None

    def rank(self, end: str) -> int:
        """Return a number by which the ends of prefixes are sorted in the order of the prompt."""
        if end in self._order:
            return self._order.index(end)
        return len(self._order) + (EntryId.index_of(end) or 0)


def _can_be_marked(entry: Any, format: str) -> bool:  # noqa: A002  the field's word
    """Whether an entry has a block that can hold a mark."""
    if format == "claude_code":
        message = entry.get("message") if entry.get("type") in ("user", "assistant") else None
        return isinstance(message, Mapping) and _can_be_marked(message, "anthropic")
    if format not in CACHE_MARKED:
        return True
    content = entry.get("content")
    if format == "bedrock":
        return isinstance(content, (list, tuple)) and cache_marks.of_bedrock(entry) is not None
    return bool(content) and cache_marks.of_anthropic(entry) is not None


def _lifetime(mark: object) -> object:
    return mark.get("ttl") if isinstance(mark, Mapping) else None


def _own_marks(ir: PromptIR, target: Target) -> list[Mapping[str, Any]]:
    """Return the cache marks in the caller's tools and entries."""
    values: list[Any] = [tool.raw for tool in ir.tools if tool.provider == target.provider]
    if ir.history.format == target.provider:
        marks = target.render_cache.grown(_with_marks, (), ir.history)
        return [*cache_marks.marks_in(values), *marks]
    if ir.history.format == "claude_code" and target.provider == "anthropic":
        messages = [entry.get("message") for entry in ir.history.entries]
        values += [each.get("content") for each in messages if isinstance(each, Mapping)]
    return cache_marks.marks_in(values)


def _with_marks(
    marks: tuple[Mapping[str, Any], ...], history: History, start: int
) -> tuple[Mapping[str, Any], ...]:
    contents = [entry.get("content") for entry in history.entries[start:]]
    return (*marks, *cache_marks.marks_in(contents))
