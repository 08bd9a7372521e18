"""One packing over history and sections: both are judged by one objective, in one budget.

Sections stand among the messages where the model will read them. What cannot go is there too, as
kept: a section that says what is said already adds little. The engine divides the texts of sections
into blocks, and those of the history's entries where the caller says which (`DivisibleTexts`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from rehydrate import _engine
from rehydrate.compact.excerpts import DivisibleTexts
from rehydrate.compact.query import WeightedQuery
from rehydrate.compact.scoring import Scoring
from rehydrate.compact.signals import Embedded, model_vectors, vector_arguments
from rehydrate.embedding.choice import BUILTIN, Choice
from rehydrate.messages import Conversation, Message, Piece, PieceKind, Unit
from rehydrate.prompt.counting import COUNTER, fence, text_of
from rehydrate.prompt.entries import History
from rehydrate.prompt.passes.shortening import (
    Blocks,
    EntryExcerpt,
    SectionExcerpt,
    Shortened,
    give_back,
)
from rehydrate.prompt.section import CompositionMode, Section

if TYPE_CHECKING:
    from rehydrate import _native
    from rehydrate.formats._reading import Path


_PROFILE = Scoring.named("balanced")
_LEAST_WEIGHT = 0.5
"""With a relevance of a half a section weighs what a user's message does."""
_MAY_BE_CUT = (CompositionMode.ADDITIVE, CompositionMode.CONTEXTUAL)


class Candidates(NamedTuple):
    """What is packed: the history, and sections that compete or are kept anyway."""

    history: History
    conversation: Conversation
    """The history, read."""
    kept_units: frozenset[int]
    """Units of the history that are kept anyway."""
    left_out: frozenset[int]
    """Units that have no part in it."""
    kept: tuple[Section, ...]
    competing: tuple[Section, ...]
    divisible: DivisibleTexts | None = None
    """The history's texts of which a part may be kept."""


class Packed(NamedTuple):
    """What the packing keeps."""

    units: frozenset[int]
    sections: Mapping[str, Section | None]
    """By the id of each section that competed: itself, a new one where it is cut, None where it
    goes."""
    excerpts: Sequence[EntryExcerpt]
    """What is kept of entries of which a part goes."""
    degraded: tuple[str, ...] = ()
    """What went wrong with the embedder."""


def is_divisible(section: Section) -> bool:
    """Whether it may be cut to some of its blocks: what adds up, and is long enough to be divided.

    >>> from rehydrate.prompt import Provenance
    >>> is_divisible(Section("note", "short", Provenance("knowledge")))
    False
    """
    return (
        section.mode in _MAY_BE_CUT
        and isinstance(section.content, str)
        and _engine.divide(section.content) is not None
    )


def pack(
    candidates: Candidates,
    asked: WeightedQuery | None,
    budget_tokens: int,
    keep: Callable[[str], str | None] | None,
    embedder: Choice = BUILTIN,
) -> Packed:
    """Fill a budget, on top of what is kept anyway, with what is worth most; `keep` gives the
    handle under which the whole of a text is kept."""
    layout = _Layout(candidates, embedder)
    prepared, selection, problems = layout.select(
        asked, budget_tokens, with_handles=keep is not None
    )
    kept_units, pinned = selection.kept, layout.pinned
    divided = Blocks.all_of(prepared, selection)
    sections: dict[str, Section | None] = {}
    excerpts: list[Shortened] = []
    shortened: set[int] = set()  # messages, by their places, that are cut or go
    for unit, section in layout.competing:
        blocks = divided.get(layout.piece_of[section.id])
        if kept_units[unit] and (blocks is None or blocks.is_whole):
            sections[section.id] = section
            continue
        shortened.update(layout.conversation.units[unit].members)
        sections[section.id] = None
        if kept_units[unit] and blocks is not None and any(blocks.kept):
            excerpts.append(SectionExcerpt(section, blocks, keep is not None))
    for each in layout.divisible:
        blocks_of = {path: divided[piece] for piece, path in each.paths.items() if piece in divided}
        is_kept = kept_units[layout.history_units[each.unit]]
        if is_kept and not all(blocks.is_whole for blocks in blocks_of.values()):
            shortened.add(each.place)
            excerpts.append(EntryExcerpt.of(candidates.history, each.message, blocks_of, keep))
    whole = sum(
        prepared.message_tokens[message]
        for place, unit in enumerate(layout.conversation.units)
        if kept_units[place] and not pinned[place]
        for message in unit.members
        if message not in shortened
    )
    give_back(excerpts, whole - budget_tokens)
    entries = [each for each in excerpts if isinstance(each, EntryExcerpt)]
    for cut in excerpts:
        if isinstance(cut, SectionExcerpt) and any(cut.blocks.kept):
            sections[cut.section.id] = cut.cut()
    kept_of_history = [n for n, place in layout.history_units.items() if kept_units[place]]
    return Packed(frozenset(kept_of_history), sections, entries, problems)


def cut_to(section: Section, asked: WeightedQuery | None, least_tokens: int) -> Section:
    """The section cut to the best of its blocks, and no more of them than give so many tokens."""
    nothing = Conversation("", (), ())
    alone = Candidates(History(), nothing, frozenset(), frozenset(), (), (section,))
    found = _Layout(alone, BUILTIN).select(asked, least_tokens, with_handles=False)
    (blocks,) = Blocks.all_of(found.prepared, found.selection).values()
    excerpt = SectionExcerpt(section, blocks, has_handle=False)
    best_first = sorted(range(len(blocks.gains)), key=lambda block: (-blocks.gains[block], block))
    for block in best_first:
        if any(blocks.kept) and (excerpt.cut().tokens or 0) >= least_tokens:
            break
        blocks.kept[block] = 1
    return section if blocks.is_whole else excerpt.cut()


class _DivisibleMessage(NamedTuple):
    """A message of the history of which a part may be kept."""

    unit: int
    message: Message
    place: int
    """Where it stands among all that is packed."""
    paths: Mapping[int, Path]
    """By the number of a piece among all that is packed, where its text stands in the entry."""


class _Selected(NamedTuple):
    """The engine's selection, and what went wrong on the way to it."""

    prepared: _native.Prepared
    selection: _native.Selection
    problems: tuple[str, ...]


class _Layout:
    """The conversation that is packed: the history's messages, and each section as one of its own.

    Static sections stand first, dynamic ones before their entry or before the last user turn.
    """

    def __init__(self, candidates: Candidates, embedder: Choice) -> None:
        self._embedder = embedder
        conversation, history = candidates.conversation, candidates.history
        turns = [message.index for message in conversation.messages if message.is_user_turn]
        last_turn = history.place(turns[-1]) if turns else len(history.entries)
        rows: list[tuple[tuple[int, int, int], Message, int | Section]] = []
        for number, unit in enumerate(conversation.units):
            if number not in candidates.left_out:
                rows += [
                    ((1, history.place(message.index), 1), message, number)
                    for message in unit.messages
                ]
        self._weights: dict[str, float] = {}
        self._format = history.format
        for section in (*candidates.kept, *candidates.competing):
            anchor = last_turn if section.anchor is None else section.anchor
            where = (0, 0, 0) if section.is_static else (1, anchor, 0)
            rows.append((where, self._message(section), section))
        rows.sort(key=lambda row: row[0])

        competes = {section.id for section in candidates.competing}
        members: dict[int | str, list[Message]] = {}
        paths = _paths_by_message(candidates)
        self.divisible: list[_DivisibleMessage] = []
        self._paths: dict[int, Path] = {}
        self.piece_of: dict[str, int] = {}
        """By a section's id, the number of its content among all pieces."""
        messages: list[Message] = []
        pieces = 0
        for place, (_, message, owner) in enumerate(rows):
            moved = message._replace(index=place)
            messages.append(moved)
            start, pieces = pieces, pieces + len(message.pieces)
            if isinstance(owner, int):
                members.setdefault(owner, []).append(moved)
                if own := paths.get(message.index) if owner not in candidates.kept_units else None:
                    numbered = {start + piece: path for piece, path in own.items()}
                    self.divisible.append(_DivisibleMessage(owner, message, place, numbered))
                    self._paths |= numbered
            else:
                members[owner.id] = [moved]
                self.piece_of[owner.id] = pieces - 1
                if owner.id in competes and is_divisible(owner):
                    self._paths[pieces - 1] = ()
        units = sorted(members.items(), key=lambda item: item[1][0].index)
        self.pinned = [
            owner in candidates.kept_units if isinstance(owner, int) else owner not in competes
            for owner, _ in units
        ]
        place_of = {owner: place for place, (owner, _) in enumerate(units)}
        self.history_units = {owner: p for owner, p in place_of.items() if isinstance(owner, int)}
        """By a unit of the history, its place among all."""
        self.competing = [(place_of[section.id], section) for section in candidates.competing]
        self.conversation = Conversation(
            conversation.format,
            tuple(messages),
            tuple([Unit(tuple([m.index for m in own]), tuple(own)) for _, own in units]),
        )

    def _message(self, section: Section) -> Message:
        """A section as a message: its fence, which is never divided, and its content."""
        opening, closing = ("", "") if section.is_system else fence(section, "")
        role = f"section {section.id}"
        self._weights[role] = _LEAST_WEIGHT + section.relevance
        content = Piece(text_of(section, self._format), PieceKind.TEXT)
        frame = (Piece(f"{opening}\n{closing}", PieceKind.TEXT),) if opening else ()
        return Message(0, role, (*frame, content))

    def select(
        self, asked: WeightedQuery | None, budget_tokens: int, *, with_handles: bool
    ) -> _Selected:
        """What the engine keeps on top of what is kept anyway."""
        divisible = DivisibleTexts(self.conversation, (), self._paths, COUNTER)
        is_question = asked is not None and asked.is_question
        prepared = _engine.prepare(
            self.conversation,
            weight_of=lambda role: self._weights.get(role) or _PROFILE.weight_of(role),
            pinned=self.pinned,
            counter=COUNTER,
            embed=is_question and self._embedder.has_builtin,
            calibrated=True,
            coverage=True,
            asked=is_question,
            excerpting=divisible.excerpting(with_handles=with_handles) if self._paths else None,
        )
        pinned = {
            m.index
            for u, keep in zip(self.conversation.units, self.pinned, strict=True)
            if keep
            for m in u.messages
        }
        kept_anyway = sum(t for place, t in enumerate(prepared.message_tokens) if place in pinned)
        embedded = Embedded()
        if asked is not None and is_question and self._embedder.model is not None:
            embedded = model_vectors(
                self._embedder.model,
                divisible.parts(prepared) if self._paths else self.conversation,
                prepared,
                asked.text,
                calibrated=True,
                embed_all=False,
                deadline=None,
            )
        selection = prepared.select(
            query=asked.text if asked else None,
            query_weight=asked.weight if asked else 0.0,
            **vector_arguments(embedded.vectors),
            memory_coverage=None,
            weights=(_PROFILE.recency, _PROFILE.semantic, _PROFILE.novelty),
            calibrated=True,
            coverage=True,
            target_tokens=kept_anyway + budget_tokens,
        )
        return _Selected(prepared, selection, embedded.problems)


def _paths_by_message(candidates: Candidates) -> dict[int, dict[int, Path]]:
    """By a message's index, where its texts stand of which a part may be kept, by their numbers
    among its own pieces."""
    found: dict[int, dict[int, Path]] = {}
    divisible, first = candidates.divisible, 0
    if divisible is None:
        return found
    for message in candidates.conversation.messages:
        numbers = range(first, first := first + len(message.pieces))
        own = {
            n: divisible.paths[each] for n, each in enumerate(numbers) if each in divisible.paths
        }
        if own:
            found[message.index] = own
    return found
