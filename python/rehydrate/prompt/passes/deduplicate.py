"""deduplicate: leaves out sections whose items or text the model sees already."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from rehydrate.entry_id import EntryId
from rehydrate.prompt.content import DroppedSection
from rehydrate.prompt.entries import History
from rehydrate.prompt.ir import PromptIR
from rehydrate.prompt.section import Section, free_ids
from rehydrate.prompt.target import RenderCache, Target, traced

SHORTEST_QUOTE = 40
"""Characters. A shorter section may stand in the history word for word by chance."""


def deduplicate(ir: PromptIR, target: Target) -> PromptIR:
    """Return the IR without sections that show nothing new.

    The model sees the items of earlier sections, in the order in which it reads them; the entries
    of the history before the section, by their ids and by ``history[12]``; and the whole text of a
    section that stands word for word in an entry before it.

    A section with some new items stays, and names only these. A section that must stay whole always
    stays. One with `min_tokens` stays too, because a later pass may leave out the entry that shows
    it; it goes only if an earlier section with its id says the same. Of two sections with one id,
    the earlier stays, and the later one stays under another id if it says something else.
    """
    cache = target.render_cache
    history = _VisibleHistory(ir, cache)
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
        visible = {item for item in items if item in shown_by or history.has(item, section)}
        namesake = by_id.get(section.id)
        says_nothing_new = (bool(items) and len(visible) == len(set(items))) or (
            namesake is not None and kept[namesake].content == section.content
        )
        # A section with an anchor was in the last prompt, behind the same entries.
        is_checked = says_nothing_new or (
            section.anchor is not None and cache.sections.get(section.id) is section
        )
        quoted_in = None if is_checked else history.quoting(section)
        must_stay = section.must_stay_whole or (section.min_tokens > 0 and namesake is None)
        if (says_nothing_new or quoted_in) and not must_stay:
            earlier = namesake
            if earlier is None:
                earlier = next((shown_by[item] for item in items if item in shown_by), None)
            if earlier is not None:
                kept[earlier] = _raised(kept[earlier], section)
            where = kept[earlier].id if earlier is not None else quoted_in or "history"
            dropped.append(
                DroppedSection(
                    section.id,
                    section.tokens or 0,
                    f"visible in {where}",
                    section.handle,
                    section.priority.name.lower(),
                    "deduplicate",
                )
            )
            changed.append(section.id)
            continue
        if visible:
            new = tuple(item for item in items if item not in visible)
            section = replace(section, provenance=replace(section.provenance, items=new))
            changed.append(section.id)
        free = ids.take(section.id)
        if free != section.id:
            section = replace(section, id=free)
            changed.append(section.id)
        by_id[section.id] = index
        shown_by |= dict.fromkeys(section.provenance.items, index)
        kept[index] = section
    cache.sections = {section.id: section for section in kept.values()}
    after = (
        ir
        if not changed
        else ir.replace(
            sections=tuple([kept[index] for index in sorted(kept)]),
            meta=replace(ir.meta, dropped=(*ir.meta.dropped, *dropped)),
        )
    )
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


class _VisibleHistory:
    """The ids and texts that the history shows, each with the entry index where it stands."""

    def __init__(self, ir: PromptIR, cache: RenderCache) -> None:
        self._history = ir.history
        self._cache = cache
        self._positions: Mapping[str, int] | None = None
        self._texts: list[tuple[int, str]] | None = None
        self._joined = ""

    def has(self, item: str, section: Section) -> bool:
        """Whether an entry before the section has this id."""
        if section.is_static:
            return False
        history = self._history
        if self._positions is None:
            self._positions = self._cache.grown(_with_positions, {}, history)
        position = self._positions.get(item)
        if position is not None:
            return _is_before(history.entry_index(position), section)
        index = EntryId.index_of(item)
        if index is None or item != EntryId.of(index) or index not in history.indices:
            return False
        return _is_before(index, section)

    def quoting(self, section: Section) -> str | None:
        """Return the id of an entry before the section that has all its text, word for word."""
        content = section.content
        if section.is_static or not isinstance(content, str):
            return None
        quote = content.strip()
        if len(quote) < SHORTEST_QUOTE:
            return None
        texts = self._all_texts()
        if quote not in self._joined:  # one search instead of one per text
            return None
        for entry_index, text in texts:
            if quote in text and _is_before(entry_index, section):
                return EntryId.of(entry_index)
        return None

    def _all_texts(self) -> list[tuple[int, str]]:
        if self._texts is None:
            history = self._history
            self._texts = [
                (history.entry_index(message.index), piece.text)
                for message in history.messages
                for piece in message.pieces
                if len(piece.text) >= SHORTEST_QUOTE
            ]
            self._joined = "\n".join([text for _, text in self._texts])
        return self._texts


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
