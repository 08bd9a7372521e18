"""Order: static sections before dynamic ones, and in each group the best at the edges.

Breakpoints: where a provider is told to keep the prompt's beginning.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import accumulate, groupby
from typing import Any

from rehydrate.entry_id import EntryId
from rehydrate.formats import anthropic_writing
from rehydrate.messages import Message
from rehydrate.prompt.ir import PromptIR
from rehydrate.prompt.section import CompositionMode, Position, Section
from rehydrate.prompt.target import Target, traced

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


MOST = 4
"""Breakpoints in a request, those of the caller's own included."""


def place_breakpoints(ir: PromptIR, target: Target) -> PromptIR:
    """At most four, each on the end of something static and behind enough tokens to be kept.

    The last entry of the history that is the same in the next prompt; the entry where the last
    prompt ended, since a cache looks back over 20 blocks only and one turn may have more; the end
    of the system prompt (or of the tools); the end of the other static sections. Marks that stand
    in the caller's own entries and tools count. OpenAI keeps prefixes unasked and gets none.
    """
    if target.provider != "anthropic":
        return traced("place_breakpoints", ir, ir.replace(breakpoints=()))
    messages = ir.history.messages
    prefix = _Prefix(ir, messages)
    end, earlier = _stable_ends(ir, messages)
    wanted = [prefix.entry(end), prefix.system(), prefix.entry(earlier), prefix.statics()]
    own = _own_marks(ir, target)
    # Marks with a longer time to live must come first: who sets such ones sets them all.
    free = 0 if any(mark.get("ttl") not in (None, "5m") for mark in own) else MOST - len(own)
    chosen = [
        found for found in dict.fromkeys(wanted) if found and found[0] >= target.minimum_prefix
    ][: max(0, free)]
    marks = tuple([name for _, name in sorted(chosen, key=lambda found: prefix.rank(found[1]))])
    return traced("place_breakpoints", ir, ir.replace(breakpoints=marks), marks)


class _Prefix:
    """How many tokens stand before each place that could have a breakpoint."""

    def __init__(self, ir: PromptIR, messages: Sequence[Message]) -> None:
        self._ir = ir
        system = [section for section in ir.sections if section.is_system]
        others = [section for section in ir.sections if section.is_static and not section.is_system]
        tools = sum(tool.tokens or 0 for tool in ir.tools)
        lead = _leading_system(messages) if ir.history.tokens else 0
        self._leading = lead
        self._spoken = {message.index for message in messages}
        in_system = sum(section.tokens or 0 for section in system) + sum(ir.history.tokens[:lead])
        self._system = (
            (tools + in_system, system[-1].id if system else "tools")
            if system or ir.tools
            else None
        )
        if lead:
            self._system = (tools + in_system, ir.history.entry_id(lead - 1))
        before = tools + in_system + sum(section.tokens or 0 for section in others)
        self._statics = (before, others[-1].id) if others else None
        costs = list(ir.history.tokens[lead:])
        places = [ir.history.place(position) for position in range(lead, lead + len(costs))]
        for section in ir.sections:
            if not section.is_static and section.anchor is not None:
                position = bisect_left(places, section.anchor)
                if position < len(costs):
                    costs[position] += section.tokens or 0
        self._until = [before + tokens for tokens in accumulate(costs)]

    def system(self) -> tuple[int, str] | None:
        """The end of the system prompt, or of the tools where there is none."""
        return self._system

    def statics(self) -> tuple[int, str] | None:
        """The end of the other static sections."""
        return self._statics

    def entry(self, position: int | None) -> tuple[int, str] | None:
        """The last entry up to this one that can have a mark."""
        history = self._ir.history
        while position is not None and position >= self._leading:
            is_sent = position in self._spoken
            if is_sent and _can_be_marked(history.entries[position], history.format):
                name = history.entry_id(position)
                return self._until[position - self._leading], name
            position -= 1
        return None

    def rank(self, name: str) -> int:
        """Where in the prompt it stands."""
        sections = self._ir.sections
        names = ["tools", *(section.id for section in sections if section.is_system)]
        names += [section.id for section in sections if section.is_static and not section.is_system]
        if name in names:
            return names.index(name)
        return len(names) + (EntryId.index_of(name) or 0)


def _stable_ends(ir: PromptIR, messages: Sequence[Message]) -> tuple[int | None, int | None]:
    """The last entry that the next prompt has too, and the last that the one before this had.

    A dynamic section without an anchor stands before the last user turn, and nothing from there on
    is in the same place in the next prompt.
    """
    # Where the user begins to speak; what several entries say in a row is one turn.
    turns = [
        message.index
        for place, message in enumerate(messages)
        if message.is_user_turn and not (place and messages[place - 1].role == "user")
    ]
    floats = any(not section.is_static and section.anchor is None for section in ir.sections)
    if floats and turns:
        end, earlier = turns[-1] - 1, turns[-2] - 1 if len(turns) > 1 else None
        return end, earlier
    if not messages or floats:
        return None, None
    # The last prompt ended where the assistant began to speak.
    place = len(messages)
    while place and messages[place - 1].role != "assistant":
        place -= 1
    while place and messages[place - 1].role == "assistant":
        place -= 1
    return messages[-1].index, messages[place - 1].index if place else None


def _leading_system(messages: Sequence[Message]) -> int:
    """How many system entries the history begins with."""
    count = 0
    for message in messages:
        if message.role != "system" or message.index != count:
            break
        count += 1
    return count


def _can_be_marked(entry: Any, format: str) -> bool:  # noqa: A002  the field's word
    """Whether an entry has a block that is fit for a mark."""
    if format == "claude_code":
        message = entry.get("message") if entry.get("type") in ("user", "assistant") else None
        return isinstance(message, Mapping) and _can_be_marked(message, "anthropic")
    if format != "anthropic":
        return True
    return bool(entry.get("content")) and anthropic_writing.mark(entry) is not None


def _own_marks(ir: PromptIR, target: Target) -> list[Mapping[str, Any]]:
    """Cache marks in what the caller gave."""
    values: list[Any] = [tool.raw for tool in ir.tools if tool.provider == "anthropic"]
    if ir.history.format == "anthropic":
        sight = target.known.sight
        entries = ir.history.entries
        values += [entry.get("content") for entry in entries if sight(entry).is_marked]
    elif ir.history.format == "claude_code":
        messages = [entry.get("message") for entry in ir.history.entries]
        values += [each.get("content") for each in messages if isinstance(each, Mapping)]
    return anthropic_writing.marks_in(values)
