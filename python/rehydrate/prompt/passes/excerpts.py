"""Excerpts: sections and entries of which some blocks are kept, shrunk together to a budget."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from rehydrate import _engine
from rehydrate.compact.excerpts import Division, with_texts
from rehydrate.messages import Message
from rehydrate.prompt.counting import COUNTER, counted_sections, section_tokens
from rehydrate.prompt.entries import History
from rehydrate.prompt.section import Section

if TYPE_CHECKING:
    from rehydrate import _native
    from rehydrate.compact.tool_inputs import InputText
    from rehydrate.formats._reading import Path


Keep = Callable[[str], "str | None"]
"""Stores the whole of a text, and returns its handle."""
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
                Division.of(*prepared.division(text)),
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

    entry: Any
    format: str
    message: Message
    """The entry, parsed. Its index is the entry's position."""
    texts_of: Mapping[int, str]
    """Piece of the message, the strings of inputs behind its own -> its divided text."""
    paths: Mapping[int, Path]
    inputs: Mapping[int, InputText]
    """By the same numbers, where each text is."""
    blocks: Mapping[int, Blocks]
    handles: Mapping[int, str]
    """The handle of each whole text; "" where it is not stored."""

    @classmethod
    def of(
        cls,
        history: History,
        whole: DivisibleMessage,
        blocks: Mapping[int, Blocks],
        keep: Keep | None,
    ) -> Self:
        """Make the excerpt of a message of this history; `keep` stores the whole texts."""
        texts = {number: whole.split.pieces[number].text for number in blocks}
        handles = {
            number: (keep(text) or "") if keep and not blocks[number].is_whole else ""
            for number, text in texts.items()
        }
        entry, message = history.entries[whole.message.index], whole.message
        return cls(
            entry, history.format, message, texts, whole.paths, whole.inputs, blocks, handles
        )

    @property
    def handle(self) -> str | None:
        """The handle of the first text that is cut."""
        return next((handle for handle in self.handles.values() if handle), None)

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
        texts = {
            number: blocks.division.render(
                self.texts_of[number], blocks.kept, self.handles.get(number, "")
            )
            for number, blocks in self.blocks.items()
            if not blocks.is_whole
        }
        return with_texts(self.message, self.entry, self.format, texts, self.paths, self.inputs)


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
    cut = {each.message.index: each.cut() for each in excerpts}
    messages = {position: message for position, (message, _) in cut.items()}
    entries = {position: entry for position, (_, entry) in cut.items()}
    counts = _engine.message_tokens([*messages.values()], COUNTER)
    tokens = dict(zip(messages, counts, strict=True))
    return history.with_changed_entries(entries, messages, tokens)
