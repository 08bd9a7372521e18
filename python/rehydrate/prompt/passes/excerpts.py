"""What stays of what prune cuts: excerpts of sections and entries, and the outline.

Excerpts are shrunk together to a budget. The outline is a section that lists the names in what is
left out of the history. It is at the first gap, since nothing changes before that. A second
compaction writes it again, with the names of the earlier outline among the others.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from rehydrate import _engine
from rehydrate.compact.excerpts import Division, with_texts
from rehydrate.compact.outline import (
    ID,
    NameIndex,
    OutlineName,
    outline_slot,
    outline_tokens,
    read_lines,
    write_outline,
)
from rehydrate.formats.thinking import UNBOUND, thinking_model
from rehydrate.messages import PROVIDER_OF, Message
from rehydrate.prompt.counting import COUNTER, counted_sections, section_tokens, text_of
from rehydrate.prompt.entries import History
from rehydrate.prompt.ir import PromptIR, Target
from rehydrate.prompt.originals import TRUST
from rehydrate.prompt.section import Provenance, Section

if TYPE_CHECKING:
    from rehydrate import _native
    from rehydrate.compact.tool_inputs import InputText
    from rehydrate.formats._reading import Path


_HANDLE_TOKENS = 40
"""At most, the cost of a handle in a fence."""


class Blocks(NamedTuple):
    """A divided text: for each block, whether it is kept, and its gain."""

    division: Division
    kept: bytearray
    gains: list[float]

    @property
    def is_whole(self) -> bool:
        """Whether all blocks are kept."""
        return 0 not in self.kept

    @classmethod
    def all_of(cls, prepared: _native.Prepared, selection: _native.Selection) -> dict[int, Blocks]:
        """Return every divided text of a selection, by its number among all pieces."""
        chosen = zip(prepared.divided, selection.kept_blocks(), selection.blocks(), strict=True)
        return {
            piece: cls(
                prepared.division(text),
                bytearray(kept),
                [gain for _, gain in blocks],
            )
            for text, (piece, kept, blocks) in enumerate(chosen)
        }


class SectionExcerpt(NamedTuple):
    """A section of which some blocks are kept."""

    section: Section
    blocks: Blocks
    has_handle: bool

    @property
    def texts(self) -> Sequence[Blocks]:
        """Its divided text."""
        return (self.blocks,)

    def cut(self) -> Section:
        """Return the section with the kept blocks only, and a mark in each gap."""
        whole = str(self.section.content)
        content = self.blocks.division.render(whole, self.blocks.kept)
        (section,) = counted_sections([replace(self.section, content=content, tokens=None)])
        return section

    def cost(self) -> int:
        """Return its tokens; 0 where no block is kept, because then the section is left out."""
        if not any(self.blocks.kept):
            return 0
        return section_tokens(self.cut()) + (_HANDLE_TOKENS if self.has_handle else 0)


class DivisibleMessage(NamedTuple):
    """A message of the history that may be kept in part."""

    unit: int
    """Its unit's number in the history."""
    message: Message
    """As it is in the history."""
    split: Message
    """The same with the long strings of its inputs as pieces of their own."""
    start: int
    """The number of its first piece among all that are packed."""
    packed_index: int
    """Its index in the packing conversation."""
    paths: Mapping[int, Path]
    inputs: Mapping[int, InputText]
    """Where each divisible text is in the entry, by the number of its piece in the message."""


class EntryExcerpt(NamedTuple):
    """An entry of the history of which some texts are kept in part."""

    whole: DivisibleMessage
    entry: Any
    format: str
    blocks: Mapping[int, Blocks]
    """By the number of its piece in the message, each divided text."""
    handles: Mapping[int, str]
    """The handle of each whole text; "" where it is not stored."""

    @property
    def position(self) -> int:
        """The position of the entry in the history."""
        return self.whole.message.index

    @property
    def handle(self) -> str | None:
        """The handle of the first text that is cut."""
        return next(filter(None, self.handles.values()), None)

    @property
    def texts(self) -> Sequence[Blocks]:
        """Its divided texts."""
        return tuple(self.blocks.values())

    def cost(self) -> int:
        """Return the tokens of what is kept of it."""
        message, _ = self.cut()
        return _engine.message_tokens([message], COUNTER)[0]

    def cut(self) -> tuple[Message, Any]:
        """Return the message and the entry with the kept blocks only, and a mark in each gap."""
        whole = self.whole
        texts = {
            number: blocks.division.render(
                whole.split.pieces[number].text, blocks.kept, self.handles[number]
            )
            for number, blocks in self.blocks.items()
            if not blocks.is_whole
        }
        return with_texts(whole.message, self.entry, self.format, texts, whole.paths, whole.inputs)


Excerpt = SectionExcerpt | EntryExcerpt


def drop_excess_blocks(excerpts: Sequence[Excerpt], excess: int) -> None:
    """Drop blocks, least gain first, until all excerpts together fit the budget.

    ``excess`` is how much the rest alone is over the budget; it is negative where there is room.
    The engine counts each block alone when it selects them. Together, with the marks of the gaps,
    they may cost a little more.
    """
    costs = [each.cost() for each in excerpts]
    by_gain = sorted(
        (gain, number, which, block)
        for number, each in enumerate(excerpts)
        for which, text in enumerate(each.texts)
        for block, gain in enumerate(text.gains)
        if text.kept[block]
    )
    excess += sum(costs)
    for _, number, which, block in by_gain:
        if excess <= 0:
            return
        excerpts[number].texts[which].kept[block] = 0
        before, costs[number] = costs[number], excerpts[number].cost()
        excess += costs[number] - before


def with_excerpts(history: History, excerpts: Sequence[EntryExcerpt]) -> History:
    """Return the history with these entries cut."""
    if not excerpts:
        return history
    cut = {each.position: each.cut() for each in excerpts}
    messages = {position: message for position, (message, _) in cut.items()}
    entries = {position: entry for position, (_, entry) in cut.items()}
    counts = _engine.message_tokens([*messages.values()], COUNTER)
    tokens = dict(zip(messages, counts, strict=True))
    return history.with_changed_entries(entries, messages, tokens)


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
        older = tuple([each for each in ir.sections if _is_outline(each)])
        return cls(ir.with_sections([each for each in ir.sections if each not in older]), older)

    def with_room(self, before_tokens: int, left_tokens: int, target: Target) -> Self:
        """Return the same with its share of the room that what must stay leaves."""
        return self._replace(room_tokens=outline_tokens(target.outline, before_tokens, left_tokens))

    def older_positions(self) -> list[float]:
        """Return where older outlines stood: each half a position before an entry."""
        indices = self.ir.history.indices
        anchors = [section.anchor or 0 for section in self.older]
        return [
            next((n for n, index in enumerate(indices) if index >= anchor), len(indices)) - 0.5
            for anchor in anchors
        ]

    def section(
        self,
        kept: Collection[int],
        cut: Mapping[int, Message],
        sections: Collection[Section],
        target: Target,
    ) -> Section | None:
        """Write the outline; None where nothing can be listed, or where it cannot stand.

        ``kept`` are the positions of the entries that are kept. ``cut`` has those that are kept in
        part, parsed. ``sections`` are the sections that are kept.
        """
        history, conversation = self.ir.history, self.ir.history.conversation
        is_own = history.format in (target.provider, *PROVIDER_OF, "langchain")
        model = UNBOUND
        if is_own:
            model = thinking_model(target.model, history.format, history.entries)
        older = dict(zip(self.older_positions(), self.older, strict=True))
        slot = outline_slot(conversation, kept, older.keys(), model)
        if slot is None:
            return None
        tools = {tool.name for tool in self.ir.tools}
        has_numbers = _FETCH_TOOL in tools
        names = NameIndex()
        names.add(
            conversation,
            kept,
            lambda unit: f"#{history.entry_index(unit.members[0])}" if has_numbers else "",
            excerpts=cut,
            replaced={position: _listed(each) for position, each in older.items()},
        )
        for section in sections:
            names.add_visible(text_of(section, history.format))
        older_outline = older.get(slot.before)
        anchor = None if older_outline is None else older_outline.anchor
        if anchor is None:
            anchor = history.entry_index(int(slot.before))

        def outline(lines: str) -> Section:
            provenance = Provenance(ID, trust=TRUST)
            (section,) = counted_sections([Section(ID, lines, provenance, anchor=anchor)])
            return section

        how = _BY_NUMBER if has_numbers else _BY_QUERY if _REQUEST_TOOL in tools else ""
        lines = write_outline(
            names.best(self.room_tokens),
            how,
            lambda lines: section_tokens(outline(lines)) <= self.room_tokens,
        )
        return outline(lines) if lines else None


def _is_outline(section: Section) -> bool:
    return section.id == ID and section.provenance.source == ID


def _listed(section: Section) -> list[OutlineName]:
    return read_lines(str(section.content)) or []
