"""diff: the changes between two IRs in sections, tools, history, breakpoints and tokens."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from rehydrate.entry_id import EntryId

if TYPE_CHECKING:
    from rehydrate.prompt.content import PromptContent
    from rehydrate.prompt.entries import History
    from rehydrate.prompt.section import Section


Kind = Literal["added", "removed", "changed", "moved"]
_SIGNS: dict[Kind, str] = {"added": "+", "removed": "-", "changed": "~", "moved": ">"}
_MAX_LINES = 20
"""The text shows at most so many changes of sections, of tools and of entries."""


class Change(NamedTuple):
    """One change of a section, a tool or an entry."""

    id: str
    """A section's id, ``tools.<name>``, or ``history[12]``."""
    kind: Kind
    before_tokens: int = 0
    after_tokens: int = 0
    fields: tuple[str, ...] = ()
    """The fields that changed, where `kind` is "changed"."""

    def __str__(self) -> str:
        """Return the change as one line."""
        if not self.before_tokens and not self.after_tokens:
            tokens = ""
        elif self.kind == "added":
            tokens = f"+{self.after_tokens:,} tokens"
        elif self.kind == "removed":
            tokens = f"-{self.before_tokens:,} tokens"
        elif self.before_tokens != self.after_tokens:
            tokens = f"{self.before_tokens:,} -> {self.after_tokens:,} tokens"
        else:
            tokens = ""
        details = "; ".join(filter(None, [", ".join(self.fields), tokens]))
        return f"{_SIGNS[self.kind]} {self.id} {self.kind}" + (f": {details}" if details else "")


class IRDiff(NamedTuple):
    """The changes from one IR to another. It is false where there are none."""

    before_tokens: int
    after_tokens: int
    sections: tuple[Change, ...] = ()
    tools: tuple[Change, ...] = ()
    history: tuple[Change, ...] = ()
    breakpoints_added: tuple[str, ...] = ()
    breakpoints_removed: tuple[str, ...] = ()
    request: tuple[str, ...] = ()
    """The fields of the request that differ: ``query``, ``budget`` ..."""

    def __bool__(self) -> bool:
        """Whether anything changed."""
        return any(self[2:])

    def __str__(self) -> str:
        """Return the tokens, then a line for each change."""
        head = f"{self.before_tokens:,} -> {self.after_tokens:,} tokens"
        if not self:
            return f"{head}; nothing changed"
        marks = [f"breakpoint {sign}{mark}" for sign, names in (
            ("+", self.breakpoints_added), ("-", self.breakpoints_removed)
        ) for mark in names]  # fmt: skip
        lines = [*(f"request.{name} changed" for name in self.request)]
        for changes in (self.sections, self.tools, self.history):
            lines += map(str, changes[:_MAX_LINES])
            if len(changes) > _MAX_LINES:
                lines.append(f"  and {len(changes) - _MAX_LINES:,} more")
        return "\n".join([head, *(f"  {line}" for line in [*lines, *marks])])


def diff(before: PromptContent, after: PromptContent) -> IRDiff:
    """Return the changes from `before` to `after`; the field ``meta`` is not compared."""
    return IRDiff(
        before.tokens,
        after.tokens,
        tuple(_sections(_all_sections(before), _all_sections(after))),
        tuple(_tools(before, after)),
        tuple(_entries(before.history, after.history)),
        tuple(mark for mark in after.breakpoints if mark not in before.breakpoints),
        tuple(mark for mark in before.breakpoints if mark not in after.breakpoints),
        _differing(before.request, after.request),
    )


def _all_sections(ir: PromptContent) -> tuple[Section, ...]:
    return (*ir.sections, *ir.late_bound)


def _sections(before: Sequence[Section], after: Sequence[Section]) -> Iterator[Change]:
    was = {section.id: section for section in before}
    now = {section.id: section for section in after}
    for old in was.values():
        if old.id not in now:
            yield Change(old.id, "removed", old.tokens or 0)
    moved = _moved(list(was), list(now))
    for section in now.values():
        tokens = section.tokens or 0
        if section.id not in was:
            yield Change(section.id, "added", 0, tokens)
            continue
        old = was[section.id]
        names = _differing(old, section)
        if names:
            yield Change(section.id, "changed", old.tokens or 0, tokens, names)
        if section.id in moved:
            yield Change(section.id, "moved", old.tokens or 0, tokens)


def _tools(before: PromptContent, after: PromptContent) -> Iterator[Change]:
    was = {tool.name: tool for tool in before.tools}
    now = {tool.name: tool for tool in after.tools}
    for name, tool in was.items():
        if name not in now:
            yield Change(f"tools.{name}", "removed", tool.tokens or 0)
    for name, tool in now.items():
        if name not in was:
            yield Change(f"tools.{name}", "added", 0, tool.tokens or 0)
        elif names := _differing(was[name], tool):
            counts = (was[name].tokens or 0, tool.tokens or 0)
            yield Change(f"tools.{name}", "changed", *counts, names)
    for name in _moved(list(was), list(now)):
        yield Change(f"tools.{name}", "moved", was[name].tokens or 0, now[name].tokens or 0)


def _entries(before: History, after: History) -> Iterator[Change]:
    """Compare the entries that have one index in the caller's list."""
    was, now = _by_entry_index(before), _by_entry_index(after)
    for index in sorted(was.keys() | now.keys()):
        id = EntryId.of(index)  # noqa: A001  the field's word
        if index not in now:
            yield Change(id, "removed", was[index][1])
        elif index not in was:
            yield Change(id, "added", 0, now[index][1])
        else:
            (old, old_tokens), (new, new_tokens) = was[index], now[index]
            if old is not new and old != new:
                yield Change(id, "changed", old_tokens, new_tokens)


def _by_entry_index(history: History) -> dict[int, tuple[Any, int]]:
    """Return each entry with its tokens."""
    counts = history.tokens if len(history.tokens) == len(history.entries) else None
    return {
        history.entry_index(position): (entry, counts[position] if counts else 0)
        for position, entry in enumerate(history.entries)
    }


def _differing(one: Any, other: Any) -> tuple[str, ...]:
    """Return the names of the fields that differ between two values of one class."""
    return tuple(
        field.name
        for field in fields(one)
        if field.compare
        if getattr(one, field.name) != getattr(other, field.name)
    )


def _moved(was: Sequence[str], now: Sequence[str]) -> list[str]:
    """Return the fewest names that moved: all but a longest increasing subsequence.

    Patience sorting: for each length, only the subsequence with the lowest last index is extended.
    """
    old_index = {name: index for index, name in enumerate(was)}
    common = [name for name in now if name in old_index]
    lowest_ends: list[int] = []  # by length, the old index of the subsequence's last name
    end_positions: list[int] = []  # by length, the position of that name in `common`
    predecessors: list[int] = []  # by position in `common`
    for position, name in enumerate(common):
        length = bisect_left(lowest_ends, old_index[name])
        predecessors.append(end_positions[length - 1] if length else -1)
        lowest_ends[length : length + 1] = [old_index[name]]
        end_positions[length : length + 1] = [position]
    stayed: set[int] = set()
    position = end_positions[-1] if end_positions else -1
    while position >= 0:
        stayed.add(position)
        position = predecessors[position]
    return [name for position, name in enumerate(common) if position not in stayed]
