"""order and place_breakpoints: the order of a prompt's parts, and where its prefix is cached.

Static sections are before dynamic ones, and in each group the most relevant at the edges.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, chain, groupby, islice
from operator import itemgetter
from typing import Any, NamedTuple

from rehydrate.entry_id import EntryId
from rehydrate.formats import anthropic, bedrock
from rehydrate.messages import CACHE_MARKED, Conversation
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


_index = itemgetter(0)


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
    rows = ir.history.rows
    prefixes = _Prefixes(ir, rows)
    end, earlier = _stable_ends(ir, rows)
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

    def __init__(self, ir: PromptIR, rows: Conversation) -> None:
        self._history = history = ir.history
        self._rows = rows
        self._leading = _leading_system_entries(rows) if history.tokens else 0
        system = [section for section in ir.sections if section.is_system]
        others = [section for section in ir.sections if section.is_static and not section.is_system]
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
        costs = list(history.tokens[self._leading :])
        indices = history.indices[self._leading :]
        for section in ir.sections:
            if not section.is_static and section.anchor is not None:
                position = bisect_left(indices, section.anchor)
                if position < len(costs):
                    costs[position] += section.tokens or 0
        self._tokens_before = list(accumulate(costs, initial=tokens))

    def up_to_entry(self, position: int | None) -> _Prefix | None:
        """Return the prefix that ends with this entry, or with the last one before it that can have
        a mark."""
        history = self._history
        while position is not None and position >= self._leading:
            entry = history.entries[position]
            if position in self._rows and _can_be_marked(entry, history.format):
                tokens = self._tokens_before[position - self._leading + 1]
                return _Prefix(tokens, history.entry_id(position))
            position -= 1
        return None

    def rank(self, end: str) -> int:
        """Return a number by which the ends of prefixes are sorted in the order of the prompt."""
        if end in self._order:
            return self._order.index(end)
        return len(self._order) + (EntryId.index_of(end) or 0)


def _stable_ends(ir: PromptIR, rows: Conversation) -> tuple[int | None, int | None]:
    """Return the positions of the last entries that this prompt shares with its neighbours.

    The first is the last entry that the next prompt has in the same place. The second is the same
    entry of the prompt before. A dynamic section without an anchor is before the last user
    turn, so nothing from there on is in the same place in the next prompt.
    """
    has_floating = any(not section.is_static and section.anchor is None for section in ir.sections)
    if has_floating:
        last, before = islice(chain(_turns_from_the_end(rows), (None, None)), 2)
        return (None if last is None else last - 1), (None if before is None else before - 1)
    count = rows.message_count
    if not count:
        return None, None
    # The prompt before ended where the assistant began its last turn.
    while count and rows.head(count - 1)[1] != "assistant":
        count -= 1
    while count and rows.head(count - 1)[1] == "assistant":
        count -= 1
    return rows.head(rows.message_count - 1)[0], rows.head(count - 1)[0] if count else None


def _turns_from_the_end(rows: Conversation) -> Iterator[int]:
    """Yield where the user begins to speak: several user entries in a row are one turn."""
    for n in range(rows.message_count - 1, -1, -1):
        index, _, is_user_turn = rows.head(n)
        if is_user_turn and not (n and rows.head(n - 1)[1] == "user"):
            yield index


def _leading_system_entries(rows: Conversation) -> int:
    """Return how many system entries the history begins with."""
    for count in range(rows.message_count):
        index, role, _ = rows.head(count)
        if role != "system" or index != count:
            return count
    return rows.message_count


def _can_be_marked(entry: Any, format: str) -> bool:  # noqa: A002  the field's word
    """Whether an entry has a block that can hold a mark."""
    if format == "claude_code":
        message = entry.get("message") if entry.get("type") in ("user", "assistant") else None
        return isinstance(message, Mapping) and _can_be_marked(message, "anthropic")
    if format not in CACHE_MARKED:
        return True
    content = entry.get("content")
    if format == "bedrock":
        return isinstance(content, (list, tuple)) and bedrock.mark(entry) is not None
    return bool(content) and anthropic.mark(entry) is not None


def _lifetime(mark: object) -> object:
    return mark.get("ttl") if isinstance(mark, Mapping) else None


def _own_marks(ir: PromptIR, target: Target) -> list[Mapping[str, Any]]:
    """Return the cache marks in the caller's tools and entries."""
    values: list[Any] = [tool.raw for tool in ir.tools if tool.provider == target.provider]
    if ir.history.format == target.provider:
        marks = target.render_cache.grown(_with_marks, (), ir.history)
        return [*anthropic.marks_in(values), *marks]
    if ir.history.format == "claude_code" and target.provider == "anthropic":
        messages = [entry.get("message") for entry in ir.history.entries]
        values += [each.get("content") for each in messages if isinstance(each, Mapping)]
    return anthropic.marks_in(values)


def _with_marks(
    marks: tuple[Mapping[str, Any], ...], history: History, start: int
) -> tuple[Mapping[str, Any], ...]:
    contents = [entry.get("content") for entry in history.entries[start:]]
    return (*marks, *anthropic.marks_in(contents))
