"""What changed between two IRs: sections, tools, history, breakpoints, tokens; value and text."""

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
_SHOWN = 20
"""Of one kind of thing, so many lines in the text."""


class Change(NamedTuple):
    """One thing that is not as it was."""

    id: str
    """A section's id, ``tools.<name>``, or ``history[12]``."""
    kind: Kind
    before_tokens: int = 0
    after_tokens: int = 0
    fields: tuple[str, ...] = ()
    """Of what changed: which of its fields."""

    def __str__(self) -> str:
        """One line."""
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
        rest = "; ".join(filter(None, [", ".join(self.fields), tokens]))
        return f"{_SIGNS[self.kind]} {self.id} {self.kind}" + (f": {rest}" if rest else "")


class IRDiff(NamedTuple):
    """The changes from one IR to another; false where there are none."""

    before_tokens: int
    after_tokens: int
    sections: tuple[Change, ...] = ()
    tools: tuple[Change, ...] = ()
    history: tuple[Change, ...] = ()
    breakpoints_added: tuple[str, ...] = ()
    breakpoints_removed: tuple[str, ...] = ()
    request: tuple[str, ...] = ()
    """Which fields of the request differ: ``query``, ``budget`` ..."""

    def __bool__(self) -> bool:
        """Whether anything is not as it was."""
        return any(self[2:])

    def __str__(self) -> str:
        """Readable: the tokens, then a line for each change."""
        head = f"{self.before_tokens:,} -> {self.after_tokens:,} tokens"
        if not self:
            return f"{head}; nothing changed"
        marks = [f"breakpoint {sign}{mark}" for sign, names in (
            ("+", self.breakpoints_added), ("-", self.breakpoints_removed)
        ) for mark in names]  # fmt: skip
        lines = [*(f"request.{name} changed" for name in self.request)]
        for changes in (self.sections, self.tools, self.history):
            lines += map(str, changes[:_SHOWN])
            if len(changes) > _SHOWN:
                lines.append(f"  and {len(changes) - _SHOWN:,} more")
        return "\n".join([head, *(f"  {line}" for line in [*lines, *marks])])


def diff(before: PromptContent, after: PromptContent) -> IRDiff:
    """What is in `after` and was not in `before`, and the other way round.

    How the two came to be (``meta``) is not compared.
    """
    return IRDiff(
        before.tokens,
        after.tokens,
        tuple(_sections(_all(before), _all(after))),
        tuple(_tools(before, after)),
        tuple(_entries(before.history, after.history)),
        tuple(mark for mark in after.breakpoints if mark not in before.breakpoints),
        tuple(mark for mark in before.breakpoints if mark not in after.breakpoints),
        _differing(before.request, after.request),
    )


def _all(ir: PromptContent) -> tuple[Section, ...]:
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
    """Entries by the place where they stood in the list that came in."""
    was, now = _by_place(before), _by_place(after)
    for place in sorted(was.keys() | now.keys()):
        id = EntryId.of(place)  # noqa: A001  the field's word
        if place not in now:
            yield Change(id, "removed", was[place][1])
        elif place not in was:
            yield Change(id, "added", 0, now[place][1])
        else:
            (old, old_tokens), (new, new_tokens) = was[place], now[place]
            if old is not new and old != new:
                yield Change(id, "changed", old_tokens, new_tokens)


def _by_place(history: History) -> dict[int, tuple[Any, int]]:
    counts = history.tokens if len(history.tokens) == len(history.entries) else None
    return {
        history.place(position): (entry, counts[position] if counts else 0)
        for position, entry in enumerate(history.entries)
    }


def _differing(one: Any, other: Any) -> tuple[str, ...]:
    """The names of the fields of two values of one class that are not equal."""
    return tuple(
        field.name
        for field in fields(one)
        if field.compare
        if getattr(one, field.name) != getattr(other, field.name)
    )


def _moved(was: Sequence[str], now: Sequence[str]) -> list[str]:
    """The fewest names that must have changed places for the rest to stand in their old order."""
    places = {name: place for place, name in enumerate(was)}
    common = [name for name in now if name in places]
    ends: list[int] = []  # of the ascending runs of each length, the lowest last place
    lasts: list[int] = []  # and where in `common` that stands
    before: list[int] = []
    for number, name in enumerate(common):
        length = bisect_left(ends, places[name])
        before.append(lasts[length - 1] if length else -1)
        ends[length : length + 1] = [places[name]]
        lasts[length : length + 1] = [number]
    stayed: set[int] = set()
    number = lasts[-1] if lasts else -1
    while number >= 0:
        stayed.add(number)
        number = before[number]
    return [name for number, name in enumerate(common) if number not in stayed]
