"""Deduplicate: what the model sees already, by its provenance, is not sent again."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rehydrate.entry_id import EntryId
from rehydrate.prompt.ir import PromptIR
from rehydrate.prompt.meta import DroppedSection
from rehydrate.prompt.section import Section
from rehydrate.prompt.target import Target, traced

SHORTEST_QUOTE = 40
"""A section of fewer characters that stands in the history word for word may do so by chance."""

_IDS = ("uuid", "id")


def deduplicate(ir: PromptIR, target: Target) -> PromptIR:
    """The IR without sections all of whose items are visible earlier.

    Visible are the items of an earlier section, in the order in which the model reads them; the
    entries of the history before the section, by their ids and by ``history[12]``; and a section's
    whole text, where an entry before it has it word for word. A section that shows something new
    stays, and names only what is new. One that must stay whole always stays; one of which a part
    must stay does unless an earlier one of its id says the same: a later pass may leave out the
    entry that shows it. Of two with one id the earlier stays, and the later only if it says
    something else, under another id.
    """
    known = target.known
    history = _Visible(ir)
    kept: dict[int, Section] = {}
    shown: dict[str, int] = {}  # item -> the place of the section that shows it
    ids: dict[str, int] = {}
    dropped: list[DroppedSection] = []
    changed: list[str] = []
    for place in sorted(range(len(ir.sections)), key=lambda place: _reads(ir.sections[place])):
        section = ir.sections[place]
        items = section.provenance.items
        seen = {item for item in items if item in shown or history.has(item, section)}
        twin = ids.get(section.id)
        says_nothing_new = (bool(items) and len(seen) == len(set(items))) or (
            twin is not None and kept[twin].content == section.content
        )
        # What stands before an anchor is what stood there in the prompt before.
        is_said = says_nothing_new or (section.anchor is not None and known.has_sent(section))
        where = None if is_said else history.quoting(section)
        must_stay = section.must_stay_whole or (section.min_tokens > 0 and twin is None)
        if (says_nothing_new or where) and not must_stay:
            earlier = (
                twin
                if twin is not None
                else next((shown[item] for item in items if item in shown), None)
            )
            if earlier is not None:
                kept[earlier] = _heir(kept[earlier], section)
            reason = f"visible in {kept[earlier].id if earlier is not None else where or 'history'}"
            dropped.append(
                DroppedSection(
                    section.id,
                    section.tokens or 0,
                    reason,
                    section.handle,
                    section.priority.name.lower(),
                    "deduplicate",
                )
            )
            changed.append(section.id)
            continue
        if seen:
            new = tuple(item for item in items if item not in seen)
            section = replace(section, provenance=replace(section.provenance, items=new))
            changed.append(section.id)
        if twin is not None:
            section = replace(section, id=_free_id(section.id, ids))
            changed.append(section.id)
        ids[section.id] = place
        shown |= dict.fromkeys(section.provenance.items, place)
        kept[place] = section
    known.send(kept.values())
    after = (
        ir
        if not changed
        else ir.replace(
            sections=tuple([kept[place] for place in sorted(kept)]),
            meta=replace(ir.meta, dropped=(*ir.meta.dropped, *dropped)),
        )
    )
    return traced("deduplicate", ir, after, changed)


def _reads(section: Section) -> tuple[int, float]:
    """When the model reads it: static ones first, then by the place in the history."""
    if section.is_static:
        return (0 if section.is_system else 1), 0
    return 2, math.inf if section.anchor is None else section.anchor


def _heir(kept: Section, gone: Section) -> Section:
    """The section that stays for two counts for as much as the other would."""
    return replace(
        kept,
        priority=max(kept.priority, gone.priority),
        relevance=max(kept.relevance, gone.relevance),
    )


def _free_id(wanted: str, taken: Mapping[str, Any]) -> str:
    number = 2
    while f"{wanted}~{number}" in taken:
        number += 1
    return f"{wanted}~{number}"


class _Visible:
    """What the history shows before a place in it."""

    def __init__(self, ir: PromptIR) -> None:
        self._history = ir.history
        self._ids: dict[str, int] | None = None
        self._texts: list[tuple[int, str]] | None = None
        self._joined = ""

    def has(self, item: str, section: Section) -> bool:
        """Whether an entry that the section stands behind has this id."""
        if self._ids is None:
            history = self._history
            self._ids = {history.entry_id(n): history.place(n) for n in range(len(history.entries))}
            for position, entry in enumerate(history.entries):
                if isinstance(entry, Mapping):
                    names = [entry.get(key) for key in _IDS]
                    self._ids |= {
                        name: history.place(position) for name in names if isinstance(name, str)
                    }
        place = self._ids.get(item)
        return place is not None and _is_before(place, section)

    def quoting(self, section: Section) -> str | None:
        """The entry that says all of the section word for word; static sections stand before all
        entries."""
        content = section.content
        if section.is_static or not isinstance(content, str):
            return None
        quote = content.strip()
        if len(quote) < SHORTEST_QUOTE:
            return None
        texts = self._all_texts()
        if quote not in self._joined:  # one search instead of one a text
            return None
        for place, text in texts:
            if quote in text and _is_before(place, section):
                return EntryId.of(place)
        return None

    def _all_texts(self) -> list[tuple[int, str]]:
        if self._texts is None:
            history = self._history
            self._texts = [
                (history.place(message.index), piece.text)
                for message in history.messages
                for piece in message.pieces
                if len(piece.text) >= SHORTEST_QUOTE
            ]
            self._joined = "\n".join([text for _, text in self._texts])
        return self._texts


def _is_before(place: int, section: Section) -> bool:
    if section.is_static:
        return False
    return section.anchor is None or place < section.anchor
