"""Packing: selects history units and sections together, by one objective and in one budget.

The engine gets one conversation: sections are among the messages where the model will read them.
What must stay is in it too, as kept, so that a section which repeats it gains little. The engine
divides the texts of sections into blocks, and the texts of the history in `DivisibleTexts`.

Outlining: a section that lists the names in what is left out. It is at the first gap, since nothing
changes before that. A second compaction writes it again, with the names of the earlier outline
among the others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import compress
from typing import NamedTuple, Self

from rehydrate import _native
from rehydrate.compact.outline import ID
from rehydrate.compact.result import ChangedEntry
from rehydrate.compact.signals import ExternalSignals, WeightedQuery, model_vectors
from rehydrate.embedding.choice import BUILTIN, Choice
from rehydrate.formats.thinking import UNBOUND, thinking_model
from rehydrate.messages import PROVIDER_OF, Message, Piece, PieceKind
from rehydrate.prompt.counting import counted_sections, fence, section_tokens, text_of
from rehydrate.prompt.entries import COUNTER, History
from rehydrate.prompt.ir import PromptIR, Target
from rehydrate.prompt.originals import TRUST
from rehydrate.prompt.section import CompositionMode, Provenance, Section

Keep = Callable[[str], "str | None"]
"""Stores the whole of a text, and returns its handle."""
_PROFILE = _native.Scoring.named("balanced")
_count = partial(_native.message_tokens, counter=COUNTER)
_LEAST_WEIGHT = 0.5
"""The relevance is added to it. At 0.5 a section has the weight of a user message."""
_CUTTABLE_MODES = (CompositionMode.ADDITIVE, CompositionMode.CONTEXTUAL)
_HANDLE_TOKENS = 40
"""At most, the cost of a handle in a fence."""


class Packed(NamedTuple):
    """The units and sections that are kept."""

    units: frozenset[int] = frozenset()
    sections: Mapping[str, Section | None] = {}
    """By the id of each competing section: itself, a cut one, or None if it is left out."""
    excerpts: Mapping[int, ChangedEntry] = {}
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
        and _native.divide(section.content) is not None
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
        divisible: _native.DivisibleTexts | None = None,
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
        texts = divisible or _native.DivisibleTexts(whole, history.entries, range(whole.unit_count))
        turn = whole.last_user_message()
        last_turn = history.entry_index(turn.index) if turn else len(history.entries)
        # A sort key, a message's position in the history or a section, and the owner.
        rows: list[tuple[tuple[int, int, int], int | Section, int | str]] = [
            ((1, history.entry_index(position), 1), position, number)
            for number, unit in enumerate(whole.units)
            if number not in left_out
            for position in unit.members
        ]
        for section in (*kept, *competing):
            anchor = last_turn if section.anchor is None else section.anchor
            key = (0, 0, 0) if section.is_static else (1, anchor, 0)
            rows.append((key, section, section.id))
        rows.sort(key=lambda row: row[0])

        self._owners = [owner for *_, owner in rows]
        """By the index of a message here, its owner."""
        self._positions = {
            here: each for here, (_, each, _) in enumerate(rows) if isinstance(each, int)
        }
        """By the index of a message here, its position in the history."""
        self._sections = {section.id: self._owners.index(section.id) for section in competing}
        """By the id of a competing section, the index of its message."""
        may_be_cut = {self._sections[each.id] for each in competing if is_divisible(each)}
        self._weights = {
            _role(each): _LEAST_WEIGHT + each.relevance
            for _, each, _ in rows
            if isinstance(each, Section)
        }
        self._units = list(dict.fromkeys(self._owners))
        numbers = {owner: number for number, owner in enumerate(self._units)}
        self._texts = texts.arranged(
            [
                (_message(each, history.format), each, here in may_be_cut)
                if isinstance(each, Section)
                else each
                for here, (_, each, _) in enumerate(rows)
            ],
            [numbers[owner] for owner in self._owners],
        )
        reply = whole.answered_reply() if whole.messages else None
        self._reply = self._units.index(reply) if reply in self._units else None

    def pack(self, query: WeightedQuery | None, budget_tokens: int, keep: Keep | None) -> Packed:
        """Fill the budget with the candidates of most worth; what is kept anyway is not counted.

        ``keep`` stores the whole of a text that is cut, and returns its handle.
        """
        prepared, tokens, selection, problems = self._select(
            query, budget_tokens, with_handles=keep is not None
        )
        handle_tokens = _HANDLE_TOKENS if keep else 0

        def cut(section: Section, content: str) -> tuple[Section, int]:
            made = _with_content(section, content)
            return made, section_tokens(made) + handle_tokens

        handles: dict[str, str] = {}

        def handle_of(_: Message, text: str) -> str:
            if keep and text not in handles:
                handles[text] = keep(text) or ""
            return handles.get(text, "")

        places = [*self._sections.values()]
        excerpts = _native.Excerpts(self._texts, prepared, selection, _count, places, cut)
        kept = set(compress(self._units, selection.kept))
        counted = kept - self._kept_anyway
        owned = zip(self._owners, tokens, strict=True)
        kept_tokens = [count if owner in counted else 0 for owner, count in owned]
        excerpts.fit(kept_tokens, budget_tokens, handle_of)
        cuts = excerpts.by_position
        sections: dict[str, Section | None] = {}
        for section in self._competing:
            found = cuts.get(self._sections[section.id])
            whole_or_cut = section if found is None else found.entry
            sections[section.id] = whole_or_cut if section.id in kept else None
        entries = {
            position: each._replace(message=each.message._replace(index=position))
            for index, each in cuts.items()
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
        texts, weights = self._texts, self._weights
        prepared = _native.Prepared(
            texts.conversation,
            weight_of=lambda role: weights.get(role) or _PROFILE.weight_of(role),
            pinned=[owner in self._kept_anyway for owner in self._units],
            counter=COUNTER,
            embed=query is not None and self._embedder.has_builtin,
            calibrated=True,
            coverage=True,
            asked=query is not None,
            divisible=texts,
            with_handles=with_handles,
        )
        tokens = texts.message_tokens(prepared, _count)
        owned = zip(self._owners, tokens, strict=True)
        pinned_tokens = sum(count for owner, count in owned if owner in self._kept_anyway)
        signals, model = ExternalSignals(), self._embedder.model
        if query is not None and model is not None:
            parts = prepared.parts(texts.conversation)
            signals = model_vectors(model, parts, prepared, query.text)
        selection = prepared.select(
            query=query,
            vectors=signals.vectors,
            memory_coverage=None,
            scoring=_PROFILE,
            reply=self._reply,
            target_tokens=pinned_tokens + budget_tokens,
        )
        return prepared, tokens, selection, signals.problems


def _role(section: Section) -> str:
    return f"section {section.id}"


def _message(section: Section, format: str) -> Message:  # noqa: A002  the field's word
    """Return a section as a message: its fence, which is never divided, and its content."""
    opening, closing = ("", "") if section.is_system else fence(section, "")
    content = Piece(text_of(section, format), PieceKind.TEXT)
    tags = (Piece(f"{opening}\n{closing}", PieceKind.TEXT),) if opening else ()
    return Message(0, _role(section), (*tags, content))


def cut_to(section: Section, query: WeightedQuery | None, least_tokens: int) -> Section:
    """Cut the section to its best blocks: as few as have at least this many tokens."""
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


_REQUEST_TOOL, _FETCH_TOOL = "request_context", "fetch_whole"
"""The tools by which a model asks for what is listed (`rehydrate.context`)."""
_BY_NUMBER = (
    f"{_REQUEST_TOOL} finds what was said of one, {_FETCH_TOOL} reads a message by its number (#12)"
)
_BY_QUERY = f"{_REQUEST_TOOL} finds what was said of one"


class Outlining(NamedTuple):
    """The outline of one prompt that is being pruned."""

    ir: PromptIR
    """The prompt without the outline of an earlier compaction."""
    older: tuple[Section, ...] = ()
    """The outlines of earlier compactions."""
    room_tokens: int = 0

    @classmethod
    def of(cls, ir: PromptIR, target: Target) -> Self:
        """Take the earlier outlines out of the prompt, so that they do not compete with content."""
        if not target.outline:
            return cls(ir)
        older = tuple(
            [each for each in ir.sections if each.id == ID and each.provenance.source == ID]
        )
        return cls(ir.with_sections([each for each in ir.sections if each not in older]), older)

    def section(
        self,
        kept: Collection[int],
        cut: Mapping[int, Message],
        sections: Collection[Section],
        target: Target,
    ) -> Section | None:
        """Write the outline; None if nothing can be listed, or if it has no place.

        ``kept`` are the positions of the entries that are kept. ``cut`` has those that are kept in
        part, parsed. ``sections`` are the sections that are kept.
        """
        history, conversation = self.ir.history, self.ir.history.conversation
        is_own = history.format in (target.provider, *PROVIDER_OF, "langchain")
        model = UNBOUND
        if is_own:
            model = thinking_model(target.model, history.format, history.entries)
        older: dict[float, Section] = {}  # each was half a position before an entry
        for each in self.older:
            after = (n for n, index in enumerate(history.indices) if index >= (each.anchor or 0))
            older[next(after, len(history.indices)) - 0.5] = each
        slot = _native.outline_slot(conversation, kept, [*older], model)
        if slot is None:
            return None
        tools = {tool.name for tool in self.ir.tools}
        has_numbers = _FETCH_TOOL in tools
        names = _native.NameIndex()
        names.add(
            conversation,
            kept,
            lambda unit: f"#{history.entry_index(unit.members[0])}" if has_numbers else "",
            excerpts=cut,
            replaced={
                at: _native.read_outline(str(each.content)) or [] for at, each in older.items()
            },
        )
        for section in sections:
            names.add_visible(text_of(section, history.format))
        older_outline = older.get(slot[1])
        anchor = None if older_outline is None else older_outline.anchor
        if anchor is None:
            anchor = history.entry_index(int(slot[1]))

        def outline(lines: str) -> Section:
            provenance = Provenance(ID, trust=TRUST)
            (section,) = counted_sections([Section(ID, lines, provenance, anchor=anchor)])
            return section

        how = _BY_NUMBER if has_numbers else _BY_QUERY if _REQUEST_TOOL in tools else ""
        lines = _native.write_outline(
            names.best(self.room_tokens),
            how,
            lambda lines: section_tokens(outline(lines)) <= self.room_tokens,
        )
        return outline(lines) if lines else None
