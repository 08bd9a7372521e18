"""Packing: selects history units and sections together, by one objective and in one budget.

The engine gets one conversation: sections stand among the messages where the model will read them.
What must stay is in it too, as kept, so that a section which repeats it gains little. The engine
divides the texts of sections into blocks, and the texts of the history in `DivisibleTexts`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from itertools import compress
from typing import TYPE_CHECKING, Any, NamedTuple

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

    units: frozenset[int] = frozenset()
    sections: Mapping[str, Section | None] = {}
    """By the id of each competing section: itself, a cut one, or None where it is left out."""
    excerpts: Mapping[int, Excerpt] = {}
    """By its position in the history, what is kept of an entry that is kept in part."""
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

    Static sections are first, dynamic ones before their entry or before the last user turn. An
    owner of messages is the number of a unit of the history, or the id of a section.
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
        self._kept_anyway = {*kept_units, *(section.id for section in kept)}
        whole = history.conversation
        texts = divisible or DivisibleTexts(whole, history.entries, {}, COUNTER, {})
        turns = [message.index for message in whole.messages if message.is_user_turn]
        last_turn = history.entry_index(turns[-1]) if turns else len(history.entries)
        # A sort key, a message, its entry, and its owner.
        rows: list[tuple[tuple[int, int, int], Message, Any, int | str]] = [
            ((1, history.entry_index(index), 1), message, texts.entries[index], number)
            for number, unit in enumerate(texts.conversation.units)
            if number not in left_out
            for index, message in zip(unit.members, unit.messages, strict=True)
        ]
        for section in (*kept, *competing):
            anchor = last_turn if section.anchor is None else section.anchor
            key = (0, 0, 0) if section.is_static else (1, anchor, 0)
            rows.append((key, _message(section, history.format), section, section.id))
        rows.sort(key=lambda row: row[0])

        self._owners = [owner for *_, owner in rows]
        """By the index of a message here, its owner."""
        self._positions = {
            index: message.index
            for index, (_, message, _, owner) in enumerate(rows)
            if isinstance(owner, int)
        }
        """By the index of a message here, its position in the history."""
        here = {position: index for index, position in self._positions.items()}
        places = {
            (here[position], number): place
            for (position, number), place in texts.places.items()
            if position in here
        }
        self._sections = {section.id: self._owners.index(section.id) for section in competing}
        """By the id of a competing section, the index of its message."""
        for section in filter(is_divisible, competing):
            index = self._sections[section.id]
            places[index, len(rows[index][1].pieces) - 1] = ()
        messages = [row[1]._replace(index=index) for index, row in enumerate(rows)]
        members: dict[int | str, list[Message]] = {}
        for owner, message in zip(self._owners, messages, strict=True):
            members.setdefault(owner, []).append(message)
        self._units = list(members)
        reply = whole.answered_reply() if whole.messages else None
        self._reply = self._units.index(reply) if reply in members else None
        units = [Unit(tuple([each.index for each in own]), tuple(own)) for own in members.values()]
        originals = {
            here[position]: message._replace(index=here[position])
            for position, message in texts.originals.items()
            if position in here
        }
        self._texts = DivisibleTexts(
            Conversation(whole.format, tuple(messages), tuple(units)),
            [entry for _, _, entry, _ in rows],
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
        excerpts = _PackedExcerpts(
            self._texts, prepared, selection, [*self._sections.values()], keep is not None
        )
        handles: dict[str, str] = {}  # `fit` may cut more texts, which have none
        for message, text in excerpts.partial_texts() if keep else ():
            if keep and message.index in self._positions:
                handles[text] = keep(text) or ""
        kept = set(compress(self._units, selection.kept))
        counted = kept - self._kept_anyway
        owned = zip(self._owners, tokens, strict=True)
        kept_tokens = [count if owner in counted else 0 for owner, count in owned]
        excerpts.fit(kept_tokens, budget_tokens, lambda _message, text: handles.get(text, ""))
        sections: dict[str, Section | None] = {}
        for section in self._competing:
            cut = excerpts.by_position.get(self._sections[section.id])
            whole_or_cut = section if cut is None else cut.entry
            sections[section.id] = whole_or_cut if section.id in kept else None
        entries = {
            position: cut._replace(message=cut.message._replace(index=position))
            for index, cut in excerpts.by_position.items()
            if (position := self._positions.get(index)) is not None
        }
        units = frozenset([owner for owner in kept if isinstance(owner, int)])
        return Packed(units, sections, entries, problems)

    def _select(
        self, query: WeightedQuery | None, budget_tokens: int, *, with_handles: bool
    ) -> tuple[_native.Prepared, list[int], _native.Selection, tuple[str, ...]]:
        """Let the engine fill the budget next to what is kept anyway.

        Returns what was prepared, each message's tokens, the selection, and the failures of the
        embedder.
        """
        texts = self._texts
        weights = {
            _role(entry): _LEAST_WEIGHT + entry.relevance
            for entry in texts.entries
            if isinstance(entry, Section)
        }
        prepared = _engine.prepare(
            texts.conversation,
            weight_of=lambda role: weights.get(role) or _PROFILE.weight_of(role),
            pinned=[owner in self._kept_anyway for owner in self._units],
            counter=COUNTER,
            embed=query is not None and self._embedder.has_builtin,
            calibrated=True,
            coverage=True,
            asked=query is not None,
            excerpting=texts.excerpting(with_handles=with_handles) if texts.places else None,
        )
        tokens = texts.message_tokens(prepared)
        owned = zip(self._owners, tokens, strict=True)
        pinned_tokens = sum(count for owner, count in owned if owner in self._kept_anyway)
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


def _role(section: Section) -> str:
    return f"section {section.id}"


def _message(section: Section, format: str) -> Message:  # noqa: A002  the field's word
    """Return a section as a message: its fence, which is never divided, and its content."""
    opening, closing = ("", "") if section.is_system else fence(section, "")
    content = Piece(text_of(section, format), PieceKind.TEXT)
    tags = (Piece(f"{opening}\n{closing}", PieceKind.TEXT),) if opening else ()
    return Message(0, _role(section), (*tags, content))


class _PackedExcerpts(Excerpts):
    """The same of a packing: sections come first, and no message is cut that was kept whole."""

    def __init__(
        self,
        texts: DivisibleTexts,
        prepared: _native.Prepared,
        selection: _native.Selection,
        sections: Sequence[int],
        with_handles: bool,
    ) -> None:
        """``sections`` are the indices of the competing sections, in their order."""
        super().__init__(texts, prepared, selection)
        self._handle_tokens = _HANDLE_TOKENS if with_handles else 0
        partial = self._partial()
        first = [index for index in sections if index in partial]
        self.texts_of = {index: self.texts_of[index] for index in dict.fromkeys((*first, *partial))}

    def _rebuild(self, positions: Sequence[int], handle_of: HandleOf) -> list[Excerpt]:
        entries = self._divisible.entries
        rest = [index for index in positions if not isinstance(entries[index], Section)]
        made = dict(zip(rest, super()._rebuild(rest, handle_of), strict=True))
        return [made.get(index) or self._cut(index, entries[index]) for index in positions]

    def _cut(self, index: int, section: Section) -> Excerpt:
        """Return what is kept of a section; None as its entry where no block is kept."""
        (text,) = self.texts_of[index]
        if not any(self.kept_blocks[text]):
            return Excerpt(None, 0, self._message(index))
        cut = _with_content(section, self.render(index, text))
        return Excerpt(cut, section_tokens(cut) + self._handle_tokens, self._message(index))


def cut_to(section: Section, query: WeightedQuery | None, least_tokens: int) -> Section:
    """Cut the section to its best blocks: as few as have at least so many tokens."""
    packing = Packing(History(), (section,))
    prepared, _, selection, _ = packing._select(query, least_tokens, with_handles=False)
    division, kept = prepared.division(0), bytearray(selection.kept_blocks()[0])
    gains = [gain for _, gain in selection.blocks()[0]]

    def cut() -> Section:
        return _with_content(section, division.render(str(section.content), kept))

    left_out = [block for block, is_kept in enumerate(kept) if not is_kept]
    best_first = sorted(left_out, key=lambda block: (-gains[block], block))
    found = cut() if any(kept) else None
    for block in best_first:
        if found is not None and (found.tokens or 0) >= least_tokens:
            break
        kept[block] = 1
        found = cut()
    return section if found is None or 0 not in kept else found


def _with_content(section: Section, content: str) -> Section:
    return counted_sections([replace(section, content=content, tokens=None)])[0]
