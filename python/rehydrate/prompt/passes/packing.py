"""Packing: selects history units and sections together, by one objective and in one budget.

The engine gets one conversation: sections stand among the messages where the model will read them.
What must stay is in it too, as kept, so that a section which repeats it gains little. The engine
divides the texts of sections into blocks, and the texts of the history in `DivisibleTexts`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from rehydrate import _engine
from rehydrate.compact.excerpts import DivisibleTexts, Excerpt, Excerpts, HandleOf
from rehydrate.compact.scoring import Scoring, WeightedQuery
from rehydrate.compact.signals import Embedded, model_vectors, vector_arguments
from rehydrate.embedding.choice import BUILTIN, Choice
from rehydrate.messages import Conversation, Message, Piece, PieceKind, Unit
from rehydrate.prompt.counting import COUNTER, counted_sections, fence, section_tokens, text_of
from rehydrate.prompt.entries import History
from rehydrate.prompt.section import CompositionMode, Section

if TYPE_CHECKING:
    from rehydrate import _native


Keep = Callable[[str], "str | None"]
"""Stores the whole of a text, and returns its handle."""
_PROFILE = Scoring.named("balanced")
_LEAST_WEIGHT = 0.5
"""The relevance is added to it. At 0.5 a section has the weight of a user message."""
_CUTTABLE_MODES = (CompositionMode.ADDITIVE, CompositionMode.CONTEXTUAL)
_HANDLE_TOKENS = 40
"""At most, the cost of a handle in a fence."""


class Packed(NamedTuple):
    """The units and sections that are kept."""

    units: frozenset[int]
    sections: Mapping[str, Section | None]
    """By the id of each competing section: itself, a cut one, or None where it is left out."""
    excerpts: Mapping[int, Excerpt]
    """By its position in the history, what is kept of an entry that is kept in part."""
    handles: Mapping[int, str | None]
    """By the same, the handle of the first text of it that is cut."""
    degraded: tuple[str, ...] = ()
    """The failures of the embedder."""


def is_divisible(section: Section) -> bool:
    """Whether it may be cut to some of its blocks: by its mode, and by the length of its text.

    >>> from rehydrate.prompt import Provenance
    >>> is_divisible(Section("note", "short", Provenance("knowledge")))
    False
    """
    return (
        section.mode in _CUTTABLE_MODES
        and isinstance(section.content, str)
        and _engine.divide(section.content) is not None
    )


class Packing:
    """The conversation that the engine packs: messages of the history, and one for each section.

    Static sections are first, dynamic ones before their entry or before the last user turn.
    """

    def __init__(
        self,
        history: History,
        competing: Sequence[Section],
        *,
        kept: Sequence[Section] = (),
        kept_units: Collection[int] = (),
        left_out: Collection[int] = (),
        divisible: DivisibleTexts | None = None,
        embedder: Choice = BUILTIN,
    ) -> None:
        """Put the history and the sections in one order.

        ``kept`` and ``kept_units`` are the sections and the units of the history that are kept
        anyway. Units that are ``left_out`` do not take part. ``divisible`` are the history's texts
        that may be kept in part.
        """
        self._competing, self._embedder = competing, embedder
        whole = history.conversation
        read = divisible.conversation if divisible else whole
        turns = [message.index for message in whole.messages if message.is_user_turn]
        last_turn = history.entry_index(turns[-1]) if turns else len(history.entries)
        # A sort key, a message, and its owner: a unit of the history or a section.
        rows: list[tuple[tuple[int, int, int], Message, int | Section]] = [
            ((1, history.entry_index(message.index), 1), message, number)
            for number, unit in enumerate(read.units)
            if number not in left_out
            for message in unit.messages
        ]
        for section in (*kept, *competing):
            anchor = last_turn if section.anchor is None else section.anchor
            key = (0, 0, 0) if section.is_static else (1, anchor, 0)
            rows.append((key, _message(section, history.format), section))
        rows.sort(key=lambda row: row[0])

        self._weights = {
            f"section {section.id}": _LEAST_WEIGHT + section.relevance
            for section in (*kept, *competing)
        }
        messages = [message._replace(index=index) for index, (_, message, _) in enumerate(rows)]
        owners = [owner if isinstance(owner, int) else owner.id for *_, owner in rows]
        self._index_of = {owner: index for index, owner in enumerate(owners)}
        """By the section's id, the index of its message."""
        members: dict[int | str, list[Message]] = {}
        for owner, message in zip(owners, messages, strict=True):
            members.setdefault(owner, []).append(message)
        number_of = {owner: number for number, owner in enumerate(members)}
        self._unit_of = [number_of[owner] for owner in owners]
        """By the index of a message, its unit."""
        self._history_units = {unit: n for unit, n in number_of.items() if isinstance(unit, int)}
        """The number here of each unit of the history."""
        competes = {section.id for section in competing}
        self._pinned = [
            owner in kept_units if isinstance(owner, int) else owner not in competes
            for owner in members
        ]
        reply = whole.answered_reply() if whole.messages else None
        self._reply = None if reply is None else number_of.get(reply)

        new_index = {
            message.index: index
            for index, (_, message, owner) in enumerate(rows)
            if isinstance(owner, int)
        }
        self._positions = {index: position for position, index in new_index.items()}
        """By the index of a message here, its position in the history."""
        places = {
            (new_index[index], number): place
            for (index, number), place in (divisible.places.items() if divisible else ())
            if index in new_index
        }
        for section in competing:
            if is_divisible(section):
                index = self._index_of[section.id]
                places[index, len(messages[index].pieces) - 1] = ()
        originals = {
            new_index[index]: message._replace(index=new_index[index])
            for index, message in (divisible.originals.items() if divisible else ())
            if index in new_index
        }
        units = [Unit(tuple([each.index for each in own]), tuple(own)) for own in members.values()]
        self._texts = DivisibleTexts(
            Conversation(whole.format, tuple(messages), tuple(units)),
            [
                history.entries[message.index] if isinstance(owner, int) else owner
                for _, message, owner in rows
            ],
            places,
            COUNTER,
            originals,
        )

    def pack(self, query: WeightedQuery | None, budget_tokens: int, keep: Keep | None) -> Packed:
        """Fill the budget with the candidates of most worth; what is kept anyway is not counted.

        ``keep`` stores the whole of a text that is cut, and returns its handle.
        """
        prepared, tokens, selection, problems = self._select(
            query, budget_tokens, with_handles=keep is not None
        )
        kept_units = selection.kept
        in_order = [self._index_of[section.id] for section in self._competing]
        excerpts = _PackedExcerpts(
            self._texts, prepared, selection, in_order, _HANDLE_TOKENS if keep else 0
        )
        handles: dict[str, str] = {}
        if keep is not None:
            for message, text in excerpts.partial_texts():
                if message.index in self._positions and text not in handles:
                    handles[text] = keep(text) or ""
        counted = zip(tokens, self._unit_of, strict=True)
        kept_tokens = [
            count if kept_units[unit] and not self._pinned[unit] else 0 for count, unit in counted
        ]
        excerpts.fit(kept_tokens, budget_tokens, lambda _message, text: handles.get(text, ""))
        sections: dict[str, Section | None] = {}
        for section, index in zip(self._competing, in_order, strict=True):
            cut = excerpts.by_position.get(index)
            kept = section if cut is None else cut.entry
            sections[section.id] = kept if kept_units[self._unit_of[index]] else None
        entries = {
            self._positions[index]: excerpt._replace(
                message=excerpt.message._replace(index=self._positions[index])
            )
            for index, excerpt in excerpts.by_position.items()
            if index in self._positions
        }
        return Packed(
            frozenset([unit for unit, n in self._history_units.items() if kept_units[n]]),
            sections,
            entries,
            {
                position: excerpts.handle(index)
                for index, position in self._positions.items()
                if position in entries
            },
            problems,
        )

    def _select(
        self, query: WeightedQuery | None, budget_tokens: int, *, with_handles: bool
    ) -> tuple[_native.Prepared, list[int], _native.Selection, tuple[str, ...]]:
        """Let the engine fill the budget next to what is kept anyway.

        Returns what was prepared, each message's tokens, the selection, and the failures of the
        embedder.
        """
        texts = self._texts
        prepared = _engine.prepare(
            texts.conversation,
            weight_of=lambda role: self._weights.get(role) or _PROFILE.weight_of(role),
            pinned=self._pinned,
            counter=COUNTER,
            embed=query is not None and self._embedder.has_builtin,
            calibrated=True,
            coverage=True,
            asked=query is not None,
            excerpting=texts.excerpting(with_handles=with_handles) if texts.places else None,
        )
        tokens = texts.message_tokens(prepared)
        counted = zip(tokens, self._unit_of, strict=True)
        pinned_tokens = sum(count for count, unit in counted if self._pinned[unit])
        embedded = Embedded()
        if query is not None and self._embedder.model is not None:
            embedded = model_vectors(
                self._embedder.model,
                texts.parts(prepared),
                prepared,
                query.text,
                calibrated=True,
                embed_all=False,
                deadline=None,
            )
        selection = prepared.select(
            query=query.text if query else None,
            query_weight=query.weight if query else 0.0,
            asks=query.asks if query else False,
            **vector_arguments(embedded.vectors),
            memory_coverage=None,
            weights=(_PROFILE.recency, _PROFILE.semantic, _PROFILE.novelty),
            calibrated=True,
            coverage=True,
            reply=self._reply,
            target_tokens=pinned_tokens + budget_tokens,
        )
        return prepared, tokens, selection, embedded.problems


def _message(section: Section, format: str) -> Message:  # noqa: A002  the field's word
    """Return a section as a message: its fence, which is never divided, and its content."""
    opening, closing = ("", "") if section.is_system else fence(section, "")
    content = Piece(text_of(section, format), PieceKind.TEXT)
    tags = (Piece(f"{opening}\n{closing}", PieceKind.TEXT),) if opening else ()
    return Message(0, f"section {section.id}", (*tags, content))


class _PackedExcerpts(Excerpts):
    """The same of a packing: sections first, and nothing is cut that was kept whole."""

    def __init__(
        self,
        texts: DivisibleTexts,
        prepared: _native.Prepared,
        selection: _native.Selection,
        sections: Sequence[int],
        handle_tokens: int,
    ) -> None:
        """``sections`` are the indices of the competing sections, in their order."""
        super().__init__(texts, prepared, selection)
        self._sections = texts.entries
        self._handle_tokens = handle_tokens
        rank = {index: place for place, index in enumerate(sections, -len(sections))}
        partial = sorted(self._partial(), key=lambda index: rank.get(index, index))
        self.texts_of = {index: self.texts_of[index] for index in partial}

    def handle(self, index: int) -> str | None:
        """Return the handle of the first text of a message that is cut."""
        return next(filter(None, map(self.handles.get, self.texts_of[index])), None)

    def _rebuild(self, positions: Sequence[int], handle_of: HandleOf) -> list[Excerpt]:
        of_sections = {
            index: self._cut(index, entry)
            for index in positions
            if isinstance(entry := self._divisible.entries[index], Section)
        }
        rest = [index for index in positions if index not in of_sections]
        made = dict(zip(rest, super()._rebuild(rest, handle_of), strict=True)) | of_sections
        return [made[index] for index in positions]

    def _cut(self, index: int, section: Section) -> Excerpt:
        """Return what is kept of a section; None as its entry where no block is kept."""
        (text,) = self.texts_of[index]
        if not any(self.kept_blocks[text]):
            return Excerpt(None, 0, self._message(index))
        content = self.render(index, text)
        (cut,) = counted_sections([replace(section, content=content, tokens=None)])
        return Excerpt(cut, section_tokens(cut) + self._handle_tokens, self._message(index))


def cut_to(section: Section, query: WeightedQuery | None, least_tokens: int) -> Section:
    """Cut the section to its best blocks: as few as have at least so many tokens."""
    packing = Packing(History(), (section,))
    prepared, _, selection, _ = packing._select(query, least_tokens, with_handles=False)
    division, kept = prepared.division(0), bytearray(selection.kept_blocks()[0])
    gains = [gain for _, gain in selection.blocks()[0]]

    def cut() -> Section:
        content = division.render(str(section.content), kept)
        return counted_sections([replace(section, content=content, tokens=None)])[0]

    left_out = [block for block, is_kept in enumerate(kept) if not is_kept]
    best_first = sorted(left_out, key=lambda block: (-gains[block], block))
    found = cut() if any(kept) else None
    for block in best_first:
        if found is not None and (found.tokens or 0) >= least_tokens:
            break
        kept[block] = 1
        found = cut()
    return section if found is None or 0 not in kept else found
