"""place_breakpoints: chooses where the provider is told to cache the prompt's prefix."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, chain, islice
from operator import itemgetter
from typing import Any, NamedTuple

from rehydrate.entry_id import EntryId
from rehydrate.formats import anthropic_writing
from rehydrate.messages import Message
from rehydrate.prompt.ir import PromptIR
from rehydrate.prompt.laws import MOST_BREAKPOINTS, TOOLS
from rehydrate.prompt.target import Target, traced

_index = itemgetter(0)


def place_breakpoints(ir: PromptIR, target: Target) -> PromptIR:
    """Set at most four breakpoints, each on a static end behind enough tokens to be cached.

    They are, by importance: the last history entry that the next prompt has too; the end of the
    system prompt, or of the tools; the entry where the last prompt ended, because a cache looks
    back over 20 blocks only, and one turn may have more; the end of the other static sections.
    Marks in the caller's own entries and tools count. OpenAI caches prefixes by itself and gets no
    breakpoints.
    """
    if target.provider != "anthropic":
        return traced("place_breakpoints", ir, ir.replace(breakpoints=()))
    messages = ir.history.light_messages
    prefixes = _Prefixes(ir, messages)
    end, earlier = _stable_ends(ir, messages)
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

    def __init__(self, ir: PromptIR, messages: Sequence[Message]) -> None:
        self._history = history = ir.history
        self._messages = messages
        self._leading = _leading_system_entries(messages) if history.tokens else 0
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
            if self._is_sent(position) and _can_be_marked(entry, history.format):
                tokens = self._tokens_before[position - self._leading + 1]
                return _Prefix(tokens, history.entry_id(position))
            position -= 1
        return None

    def _is_sent(self, position: int) -> bool:
        at = bisect_left(self._messages, position, key=_index)
        return at < len(self._messages) and self._messages[at].index == position

    def rank(self, end: str) -> int:
        """Return a number by which the ends of prefixes are sorted in the order of the prompt."""
        if end in self._order:
            return self._order.index(end)
        return len(self._order) + (EntryId.index_of(end) or 0)


def _stable_ends(ir: PromptIR, messages: Sequence[Message]) -> tuple[int | None, int | None]:
    """Return the positions of the last entries that this prompt shares with its neighbours.

    The first is the last entry that the next prompt has in the same place. The second is the same
    entry of the prompt before. A dynamic section without an anchor stands before the last user
    turn, so nothing from there on is in the same place in the next prompt.
    """
    has_floating = any(not section.is_static and section.anchor is None for section in ir.sections)
    if has_floating:
        last, before = islice(chain(_turns_from_the_end(messages), (None, None)), 2)
        return (None if last is None else last - 1), (None if before is None else before - 1)
    if not messages:
        return None, None
    # The prompt before ended where the assistant began its last turn.
    count = len(messages)
    while count and messages[count - 1].role != "assistant":
        count -= 1
    while count and messages[count - 1].role == "assistant":
        count -= 1
    return messages[-1].index, messages[count - 1].index if count else None


def _turns_from_the_end(messages: Sequence[Message]) -> Iterator[int]:
    """Yield where the user begins to speak: several user entries in a row are one turn."""
    for n in range(len(messages) - 1, -1, -1):
        if messages[n].is_user_turn and not (n and messages[n - 1].role == "user"):
            yield messages[n].index


def _leading_system_entries(messages: Sequence[Message]) -> int:
    """Return how many system entries the history begins with."""
    count = 0
    for message in messages:
        if message.role != "system" or message.index != count:
            break
        count += 1
    return count


def _can_be_marked(entry: Any, format: str) -> bool:  # noqa: A002  the field's word
    """Whether an entry has a block that can hold a mark."""
    if format == "claude_code":
        message = entry.get("message") if entry.get("type") in ("user", "assistant") else None
        return isinstance(message, Mapping) and _can_be_marked(message, "anthropic")
    if format != "anthropic":
        return True
    return bool(entry.get("content")) and anthropic_writing.mark(entry) is not None


def _lifetime(mark: object) -> object:
    return mark.get("ttl") if isinstance(mark, Mapping) else None


def _own_marks(ir: PromptIR, target: Target) -> list[Mapping[str, Any]]:
    """Return the cache marks in the caller's tools and entries."""
    values: list[Any] = [tool.raw for tool in ir.tools if tool.provider == "anthropic"]
    if ir.history.format == "anthropic":
        return [*anthropic_writing.marks_in(values), *target.render_cache.marks(ir.history)]
    if ir.history.format == "claude_code":
        messages = [entry.get("message") for entry in ir.history.entries]
        values += [each.get("content") for each in messages if isinstance(each, Mapping)]
    return anthropic_writing.marks_in(values)
