"""splice: what was found in the middle of a turn, as far as it is new and there is room for it."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from rehydrate.prompt.ir import PromptIR
from rehydrate.prompt.section import Section, changed

SHORTEST_QUOTE = 40
"""An item of fewer characters that stands in the history word for word may do so by chance."""

DAY_TOKENS, TIME_TOKENS = 9, 4
"""What it costs to say when: each stands only where it is another than the item's before."""
HEADING_TOKENS = 11 + DAY_TOKENS + TIME_TOKENS
"""What stands around a section with a short name in a result costs at most."""
_SHORT_NAME = 6


class Spliced(NamedTuple):
    """What goes into the running prompt, and what does not."""

    sections: tuple[Section, ...]
    """Late-bound, in the order in which they were found."""
    rest: tuple[Section, ...] = ()
    """New too, without room, in the same order."""
    visible: int = 0
    """So many of what was found the model sees already."""


def splice(
    found: Sequence[Section],
    *,
    carrier: str,
    budget_tokens: int,
    visible: frozenset[str] = frozenset(),
    said: str = "",
    shown: Sequence[Section] = (),
) -> Spliced:
    """Whole sections, by priority, relevance and order, as many as fit; nothing else is touched.

    ``visible`` are the items that the model sees, by `Provenance.items`; ``said`` is the text of
    the visible history, and ``shown`` are the sections beside it: a section whose whole text stands
    there, or in another one that was found, is visible too. A section that shows something new says
    which of its items are new. ``carrier`` is the call whose result the sections will stand in.
    """
    ids = {section.id for section in shown}
    texts = {str(section.content) for section in shown}
    said = "\n".join([said, *texts])
    beside = ""
    new: list[Section] = []
    seen = set(visible)
    for section in found:
        items = section.provenance.items
        fresh = tuple([item for item in items if item not in seen])
        is_nameless = not items or section.handle is not None  # known by its words only
        if (items and not fresh) or (is_nameless and str(section.content) in texts):
            continue
        if _is_said(section, said) or _is_said(section, beside):
            continue
        seen.update(fresh)
        new.append(showing(section, fresh))
        if late_tokens(section) <= budget_tokens:
            # What has no room here must not stand for a part of it that has.
            beside += f"\n{section.content}"
    by_worth = sorted(
        range(len(new)), key=lambda place: (-new[place].priority, -new[place].relevance, place)
    )
    left = budget_tokens
    kept: list[int] = []
    for place in by_worth:
        at = bisect(kept, place)
        before = new[kept[at - 1]] if at else None
        after = new[kept[at]] if at < len(kept) else None
        tokens = _tokens_behind(before, new[place])
        if after is not None:  # it may have to say when, or not any more
            tokens += _tokens_behind(new[place], after) - _tokens_behind(before, after)
        if tokens <= left:
            kept.insert(at, place)
            left -= tokens
    return Spliced(
        tuple([_late_bound(new[place], carrier, ids) for place in kept]),
        tuple([new[place] for place in range(len(new)) if place not in kept]),
        len(found) - len(new),
    )


def heading_tokens(*names: str) -> int:
    """What stands around a section in a result costs at most, where these names are in it.

    >>> heading_tokens("35"), heading_tokens("orig_6jp5n0y4k1aewq2x")
    (24, 31)
    """
    letters = sum(map(len, names))
    # Two characters of a handle are a token.
    return HEADING_TOKENS + max(letters - _SHORT_NAME, 0) // 2


def late_tokens(section: Section) -> int:
    """What a section costs in a result, with what stands around it."""
    name = section.id.partition(":")[2] or section.id
    around = heading_tokens(name, section.provenance.origin, section.handle or "")
    return (section.tokens or 0) + around


def _tokens_behind(before: Section | None, section: Section) -> int:
    """What a section costs behind another one: what that has said of the time is not said again."""
    said = None if before is None else before.provenance.time
    return late_tokens(section) - _unsaid(said, section.provenance.time)


def _unsaid(before: datetime | None, time: datetime | None) -> int:
    if time is None:
        return DAY_TOKENS + TIME_TOKENS
    if before is None or before.date() != time.date():
        return 0
    is_same = (before.hour, before.minute) == (time.hour, time.minute)
    return DAY_TOKENS + (TIME_TOKENS if is_same else 0)


def visible_items(ir: PromptIR, more: Iterable[Section] = ()) -> frozenset[str]:
    """The items that a prompt shows whole: of a part that has a handle the whole is still new."""
    sections = (*ir.sections, *ir.late_bound, *more)
    shown = [section for section in sections if section.handle is None]
    return frozenset([item for section in shown for item in section.provenance.items])


def _is_said(section: Section, said: str) -> bool:
    if not isinstance(section.content, str):
        return False
    quote = section.content.strip()
    return len(quote) >= SHORTEST_QUOTE and quote in said


def showing(section: Section, items: tuple[str, ...]) -> Section:
    """The section, which says which of its items are new."""
    if items == section.provenance.items:
        return section
    return replace(section, provenance=replace(section.provenance, items=items))


def _late_bound(section: Section, carrier: str, taken: set[str]) -> Section:
    """Under an id of its own: a part of it may be in the prompt under the same name."""
    id_, number = section.id, 1
    while id_ in taken:
        number += 1
        id_ = f"{section.id}~{number}"
    taken.add(id_)
    return changed(section, id=id_, late_bound=True, carrier=carrier, anchor=None)
