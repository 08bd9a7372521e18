"""Packing: selects history units and sections together, by one objective and in one budget.

The engine gets one conversation: sections stand among the messages where the model will read them.
What must stay is in it too, as kept, so that a section which repeats it gains little. The engine
divides the texts of sections into blocks, and the texts of the history in `DivisibleTexts`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from rehydrate import _engine
from rehydrate.compact.excerpts import DivisibleTexts, piece_starts
from rehydrate.compact.scoring import Scoring, WeightedQuery
from rehydrate.compact.signals import Embedded, model_vectors, vector_arguments
from rehydrate.embedding.choice import BUILTIN, Choice
from rehydrate.messages import Conversation, Message, Piece, PieceKind, Unit
from rehydrate.prompt.counting import COUNTER, fence, text_of
from rehydrate.prompt.entries import History
from rehydrate.prompt.passes.excerpts import (
    Blocks,
    DivisibleMessage,
    EntryExcerpt,
    Excerpt,
    SectionExcerpt,
    drop_excess_blocks,
)
from rehydrate.prompt.section import CompositionMode, Section

if TYPE_CHECKING:
    from rehydrate import _native
    from rehydrate.compact.tool_inputs import InputText
    from rehydrate.formats._reading import Path


Keep = Callable[[str], "str | None"]
"""Stores the whole of a text, and returns its handle."""
_PROFILE = Scoring.named("balanced")
_LEAST_WEIGHT = 0.5
"""The relevance is added to it. At 0.5 a section has the weight of a user message."""
_CUTTABLE_MODES = (CompositionMode.ADDITIVE, CompositionMode.CONTEXTUAL)


class Packed(NamedTuple):
    """The units and sections that are kept."""

    units: frozenset[int]
    sections: Mapping[str, Section | None]
    """By the id of each competing section: itself, a cut one, or None where it is left out."""
    excerpts: Sequence[EntryExcerpt]
    """The entries that are kept in part."""
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
        self._history, self._embedder = history, embedder
        conversation = history.conversation
        divisible = divisible or DivisibleTexts(conversation, (), {}, COUNTER)
        place_of = {
            message.index: place
            for message, place in zip(
                conversation.messages,
                enumerate(piece_starts(divisible.conversation.messages)),
                strict=False,
            )
        }
        turns = [message.index for message in conversation.messages if message.is_user_turn]
        last_turn = history.entry_index(turns[-1]) if turns else len(history.entries)
        # A sort key, a message, and its owner: a unit of the history or a section.
        rows: list[tuple[tuple[int, int, int], Message, int | Section]] = []
        for number in range(len(conversation.units)):
            if number not in left_out:
                rows += [
                    ((1, history.entry_index(message.index), 1), message, number)
                    for message in divisible.conversation.units[number].messages
                ]
        self._weights: dict[str, float] = {}
        for section in (*kept, *competing):
            anchor = last_turn if section.anchor is None else section.anchor
            key = (0, 0, 0) if section.is_static else (1, anchor, 0)
            rows.append((key, self._message(section), section))
        rows.sort(key=lambda row: row[0])

        competes = {section.id for section in competing}
        members: dict[int | str, list[Message]] = {}
        self._divisible: list[DivisibleMessage] = []
        self._paths: dict[int, Path] = {}
        self._inputs: dict[int, InputText] = {}
        self._originals: dict[int, Message] = {}
        self._piece_of: dict[str, int] = {}
        """The number of a section's content among all pieces, by the section's id."""
        messages: list[Message] = []
        pieces = 0
        for index, (_, message, owner) in enumerate(rows):
            moved = message._replace(index=index)
            messages.append(moved)
            start, pieces = pieces, pieces + len(message.pieces)
            if isinstance(owner, int):
                members.setdefault(owner, []).append(moved)
                position, first = place_of[message.index]
                paths, inputs = divisible.places_of(position, first)
                if (paths or inputs) and owner not in kept_units:
                    whole = conversation.messages[position]
                    self._divide(
                        DivisibleMessage(owner, whole, message, start, index, paths, inputs)
                    )
            else:
                members[owner.id] = [moved]
                self._piece_of[owner.id] = pieces - 1
                if owner.id in competes and is_divisible(owner):
                    self._paths[pieces - 1] = ()
        units = sorted(members.items(), key=lambda item: item[1][0].index)
        self._pinned = [
            owner in kept_units if isinstance(owner, int) else owner not in competes
            for owner, _ in units
        ]
        unit_of = {owner: number for number, (owner, _) in enumerate(units)}
        self._history_units = {unit: n for unit, n in unit_of.items() if isinstance(unit, int)}
        """The number here of each unit of the history."""
        reply = conversation.answered_reply() if conversation.messages else None
        self._reply = None if reply is None else self._history_units.get(reply)
        self._competing = [(unit_of[section.id], section) for section in competing]
        """Each competing section with its unit's number."""
        self._conversation = Conversation(
            conversation.format,
            tuple(messages),
            tuple([Unit(tuple([m.index for m in own]), tuple(own)) for _, own in units]),
        )

    def pack(self, query: WeightedQuery | None, budget_tokens: int, keep: Keep | None) -> Packed:
        """Fill the budget with the candidates of most worth; what is kept anyway is not counted.

        ``keep`` stores the whole of a text that is cut, and returns its handle.
        """
        prepared, tokens, selection, problems = self._select(
            query, budget_tokens, with_handles=keep is not None
        )
        kept_units = selection.kept
        divided = Blocks.all_of(prepared, selection)
        sections: dict[str, Section | None] = {}
        excerpts: list[Excerpt] = []
        not_whole: set[int] = set()  # indices of the messages that are cut or left out
        for unit, section in self._competing:
            blocks = divided.get(self._piece_of[section.id])
            if kept_units[unit] and (blocks is None or blocks.is_whole):
                sections[section.id] = section
                continue
            not_whole.update(self._conversation.units[unit].members)
            sections[section.id] = None
            if kept_units[unit] and blocks is not None and any(blocks.kept):
                excerpts.append(SectionExcerpt(section, blocks, keep is not None))
        for each in self._divisible:
            blocks_of = {
                number: divided[each.start + number]
                for number in (*each.paths, *each.inputs)
                if each.start + number in divided
            }
            is_kept = kept_units[self._history_units[each.unit]]
            if is_kept and not all(blocks.is_whole for blocks in blocks_of.values()):
                not_whole.add(each.packed_index)
                handles = {
                    number: (keep(each.split.pieces[number].text) or "")
                    if keep and not blocks.is_whole
                    else ""
                    for number, blocks in blocks_of.items()
                }
                entry = self._history.entries[each.message.index]
                excerpts.append(EntryExcerpt(each, entry, self._history.format, blocks_of, handles))
        whole_tokens = sum(
            tokens[message]
            for number, unit in enumerate(self._conversation.units)
            if kept_units[number] and not self._pinned[number]
            for message in unit.members
            if message not in not_whole
        )
        drop_excess_blocks(excerpts, whole_tokens - budget_tokens)
        entries = [each for each in excerpts if isinstance(each, EntryExcerpt)]
        for excerpt in excerpts:
            if isinstance(excerpt, SectionExcerpt) and any(excerpt.blocks.kept):
                sections[excerpt.section.id] = excerpt.cut()
        kept_of_history = [
            unit for unit, number in self._history_units.items() if kept_units[number]
        ]
        return Packed(frozenset(kept_of_history), sections, entries, problems)

    def _divide(self, message: DivisibleMessage) -> None:
        """Let the texts of a message of the history be divided."""
        self._divisible.append(message)
        self._paths |= {message.start + number: path for number, path in message.paths.items()}
        self._inputs |= {message.start + number: text for number, text in message.inputs.items()}
        if message.inputs:
            self._originals[message.packed_index] = message.message

    def _message(self, section: Section) -> Message:
        """Return a section as a message: its fence, which is never divided, and its content."""
        opening, closing = ("", "") if section.is_system else fence(section, "")
        role = f"section {section.id}"
        self._weights[role] = _LEAST_WEIGHT + section.relevance
        content = Piece(text_of(section, self._history.format), PieceKind.TEXT)
        tags = (Piece(f"{opening}\n{closing}", PieceKind.TEXT),) if opening else ()
        return Message(0, role, (*tags, content))

    def _select(
        self, query: WeightedQuery | None, budget_tokens: int, *, with_handles: bool
    ) -> tuple[_native.Prepared, list[int], _native.Selection, tuple[str, ...]]:
        """Let the engine fill the budget next to what is kept anyway.

        Returns what was prepared, each message's tokens, the selection, and the failures of the
        embedder.
        """
        divisible = DivisibleTexts(
            self._conversation, (), self._paths, COUNTER, self._inputs, self._originals
        )
        divides = bool(self._paths or self._inputs)
        prepared = _engine.prepare(
            self._conversation,
            weight_of=lambda role: self._weights.get(role) or _PROFILE.weight_of(role),
            pinned=self._pinned,
            counter=COUNTER,
            embed=query is not None and self._embedder.has_builtin,
            calibrated=True,
            coverage=True,
            asked=query is not None,
            excerpting=divisible.excerpting(with_handles=with_handles) if divides else None,
        )
        tokens = divisible.message_tokens(prepared)
        pinned_tokens = sum(
            tokens[index]
            for unit, is_pinned in zip(self._conversation.units, self._pinned, strict=True)
            if is_pinned
            for index in unit.members
        )
        embedded = Embedded()
        if query is not None and self._embedder.model is not None:
            embedded = model_vectors(
                self._embedder.model,
                divisible.parts(prepared) if divides else self._conversation,
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


def cut_to(section: Section, query: WeightedQuery | None, least_tokens: int) -> Section:
    """Cut the section to its best blocks: as few as have at least so many tokens."""
    packing = Packing(History(), (section,))
    prepared, _, selection, _ = packing._select(query, least_tokens, with_handles=False)
    (blocks,) = Blocks.all_of(prepared, selection).values()
    excerpt = SectionExcerpt(section, blocks, has_handle=False)
    left_out = [block for block, is_kept in enumerate(blocks.kept) if not is_kept]
    best_first = sorted(left_out, key=lambda block: (-blocks.gains[block], block))
    cut = excerpt.cut() if any(blocks.kept) else None
    for block in best_first:
        if cut is not None and (cut.tokens or 0) >= least_tokens:
            break
        blocks.kept[block] = 1
        cut = excerpt.cut()
    return section if cut is None or blocks.is_whole else cut
