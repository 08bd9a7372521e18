"""splice: what was found in the middle of a turn, as far as it is new and there is room for it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from rehydrate.ir import PromptIR, Section

SHORTEST_QUOTE = 40
"""An item of fewer characters that stands in the history word for word may do so by chance."""

HEADING_TOKENS = 24
"""What stands around a section in a result costs at most."""


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
    new: list[Section] = []
    seen = set(visible)
    for section in found:
        items = section.provenance.items
        fresh = tuple([item for item in items if item not in seen])
        is_nameless = not items or section.handle is not None  # known by its words only
        if (items and not fresh) or (is_nameless and str(section.content) in texts):
            continue
        # What has no room here must not stand for a part of it that has.
        beside = [str(one.content) for one in new if late_tokens(one) <= budget_tokens]
        if _is_said(section, said) or any(_is_said(section, text) for text in beside):
            continue
        seen.update(fresh)
        new.append(showing(section, fresh))
    by_worth = sorted(
        range(len(new)), key=lambda place: (-new[place].priority, -new[place].relevance, place)
    )
    left, kept = budget_tokens, set()
    for place in by_worth:
        tokens = late_tokens(new[place])
        if tokens <= left:
            kept.add(place)
            left -= tokens
    return Spliced(
        tuple([_late_bound(new[place], carrier, ids) for place in sorted(kept)]),
        tuple([new[place] for place in range(len(new)) if place not in kept]),
        len(found) - len(new),
    )


def late_tokens(section: Section) -> int:
    """What a section costs in a result, with what stands around it."""
    return (section.tokens or 0) + HEADING_TOKENS


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
    return replace(section, id=id_, late_bound=True, carrier=carrier, anchor=None)
