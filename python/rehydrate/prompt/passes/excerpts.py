"""Excerpts: sections and entries of which some blocks are kept, shrunk together to a budget."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from rehydrate import _engine, formats
from rehydrate.compact.excerpts import Division
from rehydrate.messages import Message
from rehydrate.prompt.counting import COUNTER, counted_sections, section_tokens
from rehydrate.prompt.entries import History
from rehydrate.prompt.section import Section

if TYPE_CHECKING:
    from rehydrate import _native
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


class EntryExcerpt(NamedTuple):
    """An entry of the history of which some texts are kept in part."""

    entry: Any
    format: str
    message: Message
    """The entry, parsed. Its index is the entry's position."""
    blocks: Mapping[Path, Blocks]
    handles: Mapping[Path, str]
    """The handle of each whole text; "" where it is not stored."""

    @classmethod
    def of(
        cls, history: History, message: Message, blocks: Mapping[Path, Blocks], keep: Keep | None
    ) -> Self:
        """Make the excerpt of a message of this history; `keep` stores the whole texts."""
        entry = history.entries[message.index]
        made = cls(entry, history.format, message, blocks, {})
        handles = {
            path: (keep(message.pieces[number].text) or "") if keep else ""
            for number, path in made._cut_texts()
        }
        return made._replace(handles=handles)

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
        pieces, texts = list(self.message.pieces), {}
        for number, path in self._cut_texts():
            blocks, whole = self.blocks[path], pieces[number]
            text = blocks.division.render(whole.text, blocks.kept, self.handles.get(path, ""))
            texts[path] = text
            pieces[number] = whole._replace(text=text)
        entry = formats.FORMATS[self.format].replace(self.entry, texts)
        return self.message._replace(pieces=tuple(pieces)), entry

    def _cut_texts(self) -> list[tuple[int, Path]]:
        """Return the piece number and the path of each text that is not kept whole."""
        paths = formats.FORMATS[self.format].places(self.entry, self.message.index)
        return [
            (number, path)
            for number, path in enumerate(paths)
            if path is not None and path in self.blocks and not self.blocks[path].is_whole
        ]


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
