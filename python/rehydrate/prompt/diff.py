"""diff: the changes from one IR to another, in sections, tools, history, breakpoints and tokens."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from rehydrate.entry_id import EntryId
from rehydrate.prompt.section import TOOLS

if TYPE_CHECKING:
    from rehydrate.prompt.entries import History
    from rehydrate.prompt.section import PromptContent, Section, ToolDef

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
        before, after = self.before_tokens, self.after_tokens
        sizes = {"added": f"+{after:,} tokens", "removed": f"-{before:,} tokens"}
        change = sizes.get(self.kind, f"{before:,} -> {after:,} tokens")
        tokens = change if before != after else ""
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
        lines = [f"request.{name} changed" for name in self.request]
        for changes in (self.sections, self.tools, self.history):
            lines += map(str, changes[:_MAX_LINES])
            if len(changes) > _MAX_LINES:
                lines.append(f"  and {len(changes) - _MAX_LINES:,} more")
        lines += [f"breakpoint +{mark}" for mark in self.breakpoints_added]
        lines += [f"breakpoint -{mark}" for mark in self.breakpoints_removed]
        return "\n  ".join([head, *lines])


def diff(before: PromptContent, after: PromptContent) -> IRDiff:
    """Return the changes from `before` to `after`; the field ``meta`` is not compared."""
    both = before, after
    return IRDiff(
        before.tokens,
        after.tokens,
        tuple(_changes(*[{one.id: one for one in (*ir.sections, *ir.late_bound)} for ir in both])),
        tuple(_changes(*[{f"{TOOLS}.{tool.name}": tool for tool in ir.tools} for ir in both])),
        tuple(_entries(before.history, after.history)),
        tuple(mark for mark in after.breakpoints if mark not in before.breakpoints),
        tuple(mark for mark in before.breakpoints if mark not in after.breakpoints),
        _differing(before.request, after.request),
    )


def _changes(
    was: Mapping[str, Section | ToolDef], now: Mapping[str, Section | ToolDef]
) -> Iterator[Change]:
    """Yield what was removed; then, by their order now, what was added, changed or moved."""
    for name, old in was.items():
        if name not in now:
            yield Change(name, "removed", old.tokens or 0)
    moved = _moved(list(was), list(now))
    for name, one in now.items():
        if name not in was:
            yield Change(name, "added", 0, one.tokens or 0)
            continue
        counts = was[name].tokens or 0, one.tokens or 0
        if names := _differing(was[name], one):
            yield Change(name, "changed", *counts, names)
        if name in moved:
            yield Change(name, "moved", *counts)


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
    chains: list[Any] = []  # by length, that name with the chain before it
    for name in common:
        length = bisect_left(lowest_ends, old_index[name])
        lowest_ends[length : length + 1] = [old_index[name]]
        chains[length : length + 1] = [(name, chains[length - 1] if length else None)]
    stayed: set[str] = set()
    chain = chains[-1] if chains else None
    while chain is not None:
        name, chain = chain
        stayed.add(name)
    return [name for name in common if name not in stayed]
