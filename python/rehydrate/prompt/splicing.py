"""splice, excerpt and deduplicate: of all that was found, only what the model does not see yet.

`splice` chooses the sections found in the middle of a turn that are new and fit the budget.
`excerpt` is of a long text: the windows that match a query (`_native.Passages` cuts and scores
them as the messages of a conversation), with the lines around them.
`deduplicate` is the pass that leaves out sections whose items or text the model sees already.
"""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from rehydrate import _native
from rehydrate.entry_id import EntryId
from rehydrate.prompt.counting import COUNTER
from rehydrate.prompt.entries import History
from rehydrate.prompt.ir import PromptIR, Target, traced
from rehydrate.prompt.section import DroppedSection, Section, changed, free_ids

SHORTEST_QUOTE = 40
"""Characters. A shorter item may be in the history word for word by chance."""

DAY_TOKENS, TIME_TOKENS = 9, 4
"""The cost of a day and of a time. Each is written only where it differs from the item before."""
HEADING_TOKENS = 11 + DAY_TOKENS + TIME_TOKENS
"""At most, the cost of the heading of a section with a short name in a result."""
_SHORT_NAME = 6


class VisibleText(NamedTuple):
    """The texts that the model sees; each is of one message or section."""

    texts: tuple[str, ...] = ()
    lines: frozenset[str] = frozenset()
    """The different lines of the texts, without their breaks."""

    @classmethod
    def of(cls, texts: Iterable[str]) -> VisibleText:
        """Take the texts."""
        texts = tuple(texts)
        return cls(texts, frozenset([line for text in texts for line in text.split("\n")]))

    def followed_by(self, texts: Iterable[str]) -> VisibleText:
        """Return these texts with others after them."""
        more = VisibleText.of(texts)
        return VisibleText(self.texts + more.texts, self.lines | more.lines)

    def shows(self, part: str) -> bool:
        """Whether one of the texts has all of this part, word for word."""
        return any(part in text for text in self.texts)


Span = tuple[int, int]
"""The begin and the end of a part of a text, in characters."""


class Match(NamedTuple):
    """A window that matches a query.

    >>> log = "\\n".join(f"record {n}: all is well" for n in range(900))
    >>> text = f"{log}\\nthe pilot's phone is 7788"
    >>> best, *_ = _native.Passages([(text, "")]).best("pilot's phone")
    >>> text[slice(*best.span)].splitlines()[-1]
    "the pilot's phone is 7788"
    """

    text: int
    """Index of its text."""
    span: Span
    relevance: float


def excerpt(
    text: str, matches: Iterable[Match], max_tokens: int, visible_lines: Collection[str] = ()
) -> tuple[str, list[Span]]:
    """Return the best matches with the lines around them, each gap marked, and their spans.

    The excerpt has as many matches as fit in ``max_tokens``, and at least the best one. Visible
    lines at the begin and the end of a match are left out, so that they are not repeated. Returns
    ("", []) if no line is left.
    """
    spans = [match.span for match in matches]
    return _native.passage_excerpt(text, spans, max_tokens, COUNTER, visible_lines, SHORTEST_QUOTE)


def line_count(text: str) -> int:
    """Return the number of lines; a line break at the end starts no further line.

    >>> line_count("a\\nb\\n"), line_count("a\\nb")
    (2, 2)
    """
    return text.count("\n") + (not text.endswith("\n") and text != "")


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
    visible_text: VisibleText = VisibleText(),  # noqa: B008  a constant
    visible_sections: Sequence[Section] = (),
) -> Spliced:
    """Choose whole sections by priority, relevance and order, as many as fit the budget.

    ``tool_call_id`` is the call whose result will show them. ``visible`` are the items that the
    model sees, by `Provenance.items`; ``visible_text`` has the texts of the visible history, and
    ``visible_sections`` are the sections next to it. A section is visible too if its whole text
    is in one of these, or in another section that was found. A section with some new items
    keeps only those in its provenance.
    """
    texts = dict.fromkeys(str(section.content) for section in visible_sections)
    found_texts = [*texts]
    new: list[Section] = []
    seen = set(visible)
    for section in found:
        items = section.provenance.items
        fresh = tuple([item for item in items if item not in seen])
        is_known_by_text = not items or section.handle is not None
        if (items and not fresh) or (is_known_by_text and str(section.content) in texts):
            continue
        quote = _quote(section)
        if quote is not None and (
            visible_text.shows(quote) or any(quote in text for text in found_texts)
        ):
            continue
        seen.update(fresh)
        new.append(with_items(section, fresh))
        # A section that cannot fit must not make a part of it count as visible.
        if late_tokens(section) <= budget_tokens:
            found_texts.append(str(section.content))
    left = budget_tokens
    kept: list[int] = []  # ascending
    for index in sorted(range(len(new)), key=lambda n: (-new[n].priority, -new[n].relevance, n)):
        at = bisect(kept, index)
        before = new[kept[at - 1]] if at else None
        tokens = _tokens_after(before, new[index])
        if at < len(kept):  # the next one's day and time may now be needed, or not any more
            after = new[kept[at]]
            tokens += _tokens_after(new[index], after) - _tokens_after(before, after)
        if tokens <= left:
            kept.insert(at, index)
            left -= tokens
    ids = free_ids(section.id for section in visible_sections)
    bound = [
        changed(each, id=ids.take(each.id), late_bound=True, tool_call_id=tool_call_id, anchor=None)
        for each in map(new.__getitem__, kept)
    ]
    no_room = [new[index] for index in sorted(set(range(len(new))).difference(kept))]
    return Spliced(tuple(bound), tuple(no_room), len(found) - len(new))


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


def _tokens_after(before: Section | None, section: Section) -> int:
    """Return the cost of a section after another one, whose day and time are not repeated."""
    tokens, time = late_tokens(section), section.provenance.time
    previous = None if before is None else before.provenance.time
    if time is None:
        return tokens - DAY_TOKENS - TIME_TOKENS
    if previous is None or previous.date() != time.date():
        return tokens
    is_same = (previous.hour, previous.minute) == (time.hour, time.minute)
    return tokens - DAY_TOKENS - (TIME_TOKENS if is_same else 0)


def visible_items(ir: PromptIR, more: Iterable[Section] = ()) -> frozenset[str]:
    """Return the items that a prompt shows whole. A section with a handle shows a part."""
    sections = (*ir.sections, *ir.late_bound, *more)
    whole = [section for section in sections if section.handle is None]
    return frozenset([item for section in whole for item in section.provenance.items])


def _quote(section: Section) -> str | None:
    """Return the text of a section, if it is long enough to be in another by more than chance."""
    if not isinstance(section.content, str):
        return None
    quote = section.content.strip()
    return quote if len(quote) >= SHORTEST_QUOTE else None


def with_items(section: Section, items: tuple[str, ...]) -> Section:
    """Return the section with these items in its provenance."""
    if items == section.provenance.items:
        return section
    return replace(section, provenance=replace(section.provenance, items=items))


def deduplicate(ir: PromptIR, target: Target) -> PromptIR:
    """Return the IR without sections that show nothing new.

    The model sees the items of earlier sections, in the order in which it reads them; the entries
    of the history before the section, by their ids and by ``history[12]``; and the whole text of a
    section that is word for word in an entry before it.

    A section with some new items stays, and names only these. A section that must stay whole always
    stays. One with `min_tokens` stays too, because a later pass may leave out the entry that shows
    it; it goes only if an earlier section with its id says the same. Of two sections with one id,
    the earlier stays, and the later one stays under another id if it says something else.
    """
    cache, history = target.render_cache, ir.history
    has_items = any(each.provenance.items and not each.is_static for each in ir.sections)
    positions = cache.grown(_with_positions, {}, history) if has_items else {}
    kept: dict[int, Section] = {}  # by the index in ir.sections
    shown_by: dict[str, int] = {}  # by an item, the index of the section that shows it
    by_id: dict[str, int] = {}
    ids = free_ids()
    dropped: list[DroppedSection] = []
    changed: list[str] = []
    in_reading_order = sorted(
        range(len(ir.sections)), key=lambda index: _reading_order(ir.sections[index])
    )
    for index in in_reading_order:
        section = ir.sections[index]
        items = section.provenance.items
        visible = {
            item
            for item in items
            if item in shown_by or _is_entry_before(item, section, history, positions)
        }
        namesake = by_id.get(section.id)
        says_nothing_new = (bool(items) and len(visible) == len(set(items))) or (
            namesake is not None and kept[namesake].content == section.content
        )
        # A section with an anchor was in the last prompt, after the same entries.
        is_checked = says_nothing_new or (
            section.anchor is not None and cache.sections.get(section.id) is section
        )
        quoted_in = None if is_checked else _quoted_in(history, section)
        must_stay = section.must_stay_whole or (section.min_tokens > 0 and namesake is None)
        if (says_nothing_new or quoted_in) and not must_stay:
            earlier = namesake
            if earlier is None:
                earlier = next((shown_by[item] for item in items if item in shown_by), None)
            if earlier is not None:
                kept[earlier] = _raised(kept[earlier], section)
            where = kept[earlier].id if earlier is not None else quoted_in or "history"
            dropped.append(DroppedSection.of(section, f"visible in {where}", "deduplicate"))
            changed.append(section.id)
            continue
        if visible:
            section = with_items(section, tuple([item for item in items if item not in visible]))
            changed.append(section.id)
        free = ids.take(section.id)
        if free != section.id:
            section = replace(section, id=free)
            changed.append(section.id)
        by_id[section.id] = index
        shown_by |= dict.fromkeys(section.provenance.items, index)
        kept[index] = section
    cache.sections = {section.id: section for section in kept.values()}
    after = ir
    if changed:
        meta = replace(ir.meta, dropped=(*ir.meta.dropped, *dropped))
        after = ir.replace(sections=tuple([kept[index] for index in sorted(kept)]), meta=meta)
    return traced("deduplicate", ir, after, changed)


def _reading_order(section: Section) -> tuple[int, float]:
    """Return a sort key: the system, other static sections, dynamic ones by their anchor."""
    if section.is_static:
        return (0 if section.is_system else 1), 0
    return 2, math.inf if section.anchor is None else section.anchor


def _raised(kept: Section, dropped: Section) -> Section:
    """Raise the priority and relevance of the section that stays to those of the one that goes."""
    return replace(
        kept,
        priority=max(kept.priority, dropped.priority),
        relevance=max(kept.relevance, dropped.relevance),
    )


def _is_entry_before(
    item: str, section: Section, history: History, positions: Mapping[str, int]
) -> bool:
    """Whether an entry before the section has this id."""
    position = positions.get(item)
    if position is not None:
        return _is_before(history.entry_index(position), section)
    index = EntryId.index_of(item)
    if index is None or item != EntryId.of(index) or index not in history.indices:
        return False
    return _is_before(index, section)


def _quoted_in(history: History, section: Section) -> str | None:
    """Return the id of an entry before the section that has all its text, word for word."""
    quote = None if section.is_static else _quote(section)
    position = None if quote is None else history.rows_from(0).quoting(quote)
    if position is None or not _is_before(history.entry_index(position), section):
        return None
    return history.entry_id(position)


_IDS = ("uuid", "id")


def _with_positions(known: dict[str, int], history: History, start: int) -> dict[str, int]:
    new = {
        name: position
        for position, entry in enumerate(history.entries[start:], start)
        if isinstance(entry, Mapping)
        for name in map(entry.get, _IDS)
        if isinstance(name, str)
    }
    return {**known, **new} if new else known


def _is_before(entry_index: int, section: Section) -> bool:
    if section.is_static:
        return False
    return section.anchor is None or entry_index < section.anchor
