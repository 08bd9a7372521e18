"""splice: chooses the sections found in the middle of a turn that are new and fit the budget."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from rehydrate._text import FreeNames
from rehydrate.prompt.ir import PromptIR
from rehydrate.prompt.section import Section, changed, free_ids

SHORTEST_QUOTE = 40
"""Characters. A shorter item may be in the history word for word by chance."""

DAY_TOKENS, TIME_TOKENS = 9, 4
"""The cost of a day and of a time. Each is written only where it differs from the item before."""
HEADING_TOKENS = 11 + DAY_TOKENS + TIME_TOKENS
"""At most, the cost of the heading of a section with a short name in a result."""
_SHORT_NAME = 6


class VisibleText(NamedTuple):
    """Everything that the model sees, as one text."""

    text: str
    lines: frozenset[str]
    """The different lines of the text, without their breaks."""

    @classmethod
    def of(cls, texts: Iterable[str]) -> VisibleText:
        """Join the texts."""
        text = "\n".join(texts)
        return cls(text, frozenset(text.split("\n")))


class Spliced(NamedTuple):
    """The sections that go into the running prompt, and those that do not."""

    sections: tuple[Section, ...]
    """Late-bound, in the order in which they were found."""
    no_room: tuple[Section, ...] = ()
    """New sections that do not fit the budget, in the same order."""
    visible: int = 0
    """The number of sections found that the model sees already."""


def splice(
    found: Sequence[Section],
    *,
    tool_call_id: str,
    budget_tokens: int,
    visible: frozenset[str] = frozenset(),
    visible_text: str = "",
    visible_sections: Sequence[Section] = (),
) -> Spliced:
    """Choose whole sections by priority, relevance and order, as many as fit the budget.

    ``tool_call_id`` is the call whose result will show them. ``visible`` are the items that the
    model sees, by `Provenance.items`; ``visible_text`` is the text of the visible history, and
    ``visible_sections`` are the sections next to it. A section is visible too if its whole text
    is in one of these, or in another section that was found. A section with some new items
    keeps only those in its provenance.
    """
    new = _new_sections(found, budget_tokens, visible, visible_text, visible_sections)
    by_worth = sorted(
        range(len(new)), key=lambda index: (-new[index].priority, -new[index].relevance, index)
    )
    left = budget_tokens
    kept: list[int] = []  # ascending
    for index in by_worth:
        at = bisect(kept, index)
        before = new[kept[at - 1]] if at else None
        after = new[kept[at]] if at < len(kept) else None
        tokens = _tokens_behind(before, new[index])
        if after is not None:  # its day and time may now be needed, or not any more
            tokens += _tokens_behind(new[index], after) - _tokens_behind(before, after)
        if tokens <= left:
            kept.insert(at, index)
            left -= tokens
    ids = free_ids(section.id for section in visible_sections)
    is_kept = set(kept)
    return Spliced(
        tuple([_late_bound(new[index], tool_call_id, ids) for index in kept]),
        tuple([section for index, section in enumerate(new) if index not in is_kept]),
        len(found) - len(new),
    )


def _new_sections(
    found: Sequence[Section],
    budget_tokens: int,
    visible: frozenset[str],
    visible_text: str,
    visible_sections: Sequence[Section],
) -> list[Section]:
    """Return the sections that show something new, each with its new items only."""
    texts = {str(section.content) for section in visible_sections}
    visible_text = "\n".join([visible_text, *texts])
    found_text = ""
    new: list[Section] = []
    seen = set(visible)
    for section in found:
        items = section.provenance.items
        fresh = tuple([item for item in items if item not in seen])
        is_known_by_text = not items or section.handle is not None
        if (items and not fresh) or (is_known_by_text and str(section.content) in texts):
            continue
        if _is_quoted(section, visible_text) or _is_quoted(section, found_text):
            continue
        seen.update(fresh)
        new.append(with_items(section, fresh))
        # A section that cannot fit must not make a part of it count as visible.
        if late_tokens(section) <= budget_tokens:
            found_text += f"\n{section.content}"
    return new


def heading_tokens(*names: str) -> int:
    """Return at most the cost of a section's heading in a result that contains these names.

    >>> heading_tokens("35"), heading_tokens("orig_6jp5n0y4k1aewq2x")
    (24, 31)
    """
    letters = sum(map(len, names))
    # Two characters of a handle are a token.
    return HEADING_TOKENS + max(letters - _SHORT_NAME, 0) // 2


def late_tokens(section: Section) -> int:
    """Return the cost of a section in a result, with its heading."""
    name = section.id.partition(":")[2] or section.id
    heading = heading_tokens(name, section.provenance.origin, section.handle or "")
    return (section.tokens or 0) + heading


def _tokens_behind(before: Section | None, section: Section) -> int:
    """Return the cost of a section after another one, whose day and time are not repeated."""
    previous = None if before is None else before.provenance.time
    return late_tokens(section) - _saved_tokens(previous, section.provenance.time)


def _saved_tokens(before: datetime | None, time: datetime | None) -> int:
    """Return the tokens of the day and the time that are not written."""
    if time is None:
        return DAY_TOKENS + TIME_TOKENS
    if before is None or before.date() != time.date():
        return 0
    is_same = (before.hour, before.minute) == (time.hour, time.minute)
    return DAY_TOKENS + (TIME_TOKENS if is_same else 0)


def visible_items(ir: PromptIR, more: Iterable[Section] = ()) -> frozenset[str]:
    """Return the items that a prompt shows whole. A section with a handle shows a part."""
    sections = (*ir.sections, *ir.late_bound, *more)
    whole = [section for section in sections if section.handle is None]
    return frozenset([item for section in whole for item in section.provenance.items])


def _is_quoted(section: Section, text: str) -> bool:
    if not isinstance(section.content, str):
        return False
    quote = section.content.strip()
    return len(quote) >= SHORTEST_QUOTE and quote in text


def with_items(section: Section, items: tuple[str, ...]) -> Section:
    """Return the section with these items in its provenance."""
    if items == section.provenance.items:
        return section
    return replace(section, provenance=replace(section.provenance, items=items))


def _late_bound(section: Section, tool_call_id: str, ids: FreeNames) -> Section:
    """Bind a section to the call, under an id that is not taken yet."""
    id_ = ids.take(section.id)
    return changed(section, id=id_, late_bound=True, tool_call_id=tool_call_id, anchor=None)
