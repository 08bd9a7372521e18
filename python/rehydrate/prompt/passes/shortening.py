"""Shortening: sections and entries of which some blocks are kept, brought within a budget.

Outlining: the section that lists the names of what prune leaves out of the history.

It stands where the first gap is, before which nothing changes. A second compaction makes it anew,
with the names of the one before among the others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from rehydrate import _engine, formats
from rehydrate.compact.excerpts import Division
from rehydrate.compact.outline import (
    ID,
    NameIndex,
    OutlineName,
    outline_tokens,
    read_lines,
    write_outline,
)
from rehydrate.compact.outline_plan import outline_slot
from rehydrate.formats.thinking import UNBOUND, thinking_model
from rehydrate.messages import Message
from rehydrate.prompt.counting import COUNTER, counted_sections, section_tokens, text_of
from rehydrate.prompt.entries import History
from rehydrate.prompt.ir import PromptIR
from rehydrate.prompt.originals import TRUST
from rehydrate.prompt.section import Provenance, Section
from rehydrate.prompt.target import Target

if TYPE_CHECKING:
    from rehydrate import _native
    from rehydrate.formats._reading import Path


Keep = Callable[[str], "str | None"]
"""Keeps the whole of a text, and says under which handle."""
_HANDLE_TOKENS = 40
"""At most what the handle of the whole costs in a fence."""


class Blocks(NamedTuple):
    """A text that is divided, and which of its blocks are kept."""

    division: Division
    kept: bytearray
    gains: list[float]

    @property
    def is_whole(self) -> bool:
        """Whether nothing of it goes."""
        return 0 not in self.kept

    @classmethod
    def all_of(cls, prepared: _native.Prepared, selection: _native.Selection) -> dict[int, Blocks]:
        """Of every divided text, by its number among all pieces."""
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
        """The one that it has."""
        return (self.blocks,)

    def cut(self) -> Section:
        """The section with the kept blocks alone, a mark in the place of each gap."""
        whole = str(self.section.content)
        content = self.blocks.division.render(whole, self.blocks.kept)
        (section,) = counted_sections([replace(self.section, content=content, tokens=None)])
        return section

    def cost(self) -> int:
        """Its tokens; none where no block is left, since it goes then."""
        if not any(self.blocks.kept):
            return 0
        return section_tokens(self.cut()) + (_HANDLE_TOKENS if self.has_handle else 0)


class EntryExcerpt(NamedTuple):
    """An entry of the history of which some texts are kept in part."""

    entry: Any
    format: str
    message: Message
    """The entry, read; its index is the entry's position."""
    blocks: Mapping[Path, Blocks]
    handles: Mapping[Path, str]
    """Where the whole of each text is kept; "" where it is not."""

    @classmethod
    def of(
        cls, history: History, message: Message, blocks: Mapping[Path, Blocks], keep: Keep | None
    ) -> Self:
        """Of a message of this history; the whole texts are kept."""
        entry = history.entries[message.index]
        made = cls(entry, history.format, message, blocks, {})
        handles = {
            path: (keep(message.pieces[number].text) or "") if keep else ""
            for number, path in made._partial()
        }
        return made._replace(handles=handles)

    @property
    def texts(self) -> Sequence[Blocks]:
        """All that are divided."""
        return tuple(self.blocks.values())

    def cost(self) -> int:
        """Tokens of what is left of it."""
        return _engine.message_tokens([self.left()[0]], COUNTER)[0]

    def left(self) -> tuple[Message, Any]:
        """What is left of the message, and of the entry."""
        pieces, texts = list(self.message.pieces), {}
        for number, path in self._partial():
            blocks, whole = self.blocks[path], pieces[number]
            text = blocks.division.render(whole.text, blocks.kept, self.handles.get(path, ""))
            texts[path] = text
            pieces[number] = whole._replace(text=text)
        entry = formats.FORMATS[self.format].replace(self.entry, texts)
        return self.message._replace(pieces=tuple(pieces)), entry

    def _partial(self) -> list[tuple[int, Path]]:
        """The texts of which a part goes: their pieces' numbers in the message, and their paths."""
        places = formats.FORMATS[self.format].places(self.entry, self.message.index)
        return [
            (number, path)
            for number, path in enumerate(places)
            if path is not None and path in self.blocks and not self.blocks[path].is_whole
        ]


Shortened = SectionExcerpt | EntryExcerpt


def give_back(excerpts: Sequence[Shortened], excess: int) -> None:
    """Leave out blocks, least gain first, until all that is cut together is within the budget.

    `excess` is how much is over without it. Blocks are counted one by one when they are chosen;
    together, with their marks, they may come to a little more.
    """
    costs = [each.cost() for each in excerpts]
    least = sorted(
        (gain, number, which, block)
        for number, each in enumerate(excerpts)
        for which, text in enumerate(each.texts)
        for block, gain in enumerate(text.gains)
        if text.kept[block]
    )
    excess += sum(costs)
    for _, number, which, block in least:
        if excess <= 0:
            return
        excerpts[number].texts[which].kept[block] = 0
        before, costs[number] = costs[number], excerpts[number].cost()
        excess += costs[number] - before


def with_excerpts(history: History, excerpts: Sequence[EntryExcerpt]) -> History:
    """The history with these entries as far as they are kept."""
    if not excerpts:
        return history
    left = {each.message.index: each.left() for each in excerpts}
    messages = {position: message for position, (message, _) in left.items()}
    entries = {position: entry for position, (_, entry) in left.items()}
    counts = _engine.message_tokens([*messages.values()], COUNTER)
    return history.reworded(entries, messages, dict(zip(messages, counts, strict=True)))


REQUEST, FETCH = "request_context", "fetch_whole"
"""The tools by which a model asks for what is listed (`rehydrate.context`)."""
BY_NUMBER = f"{REQUEST} finds what was said of one, {FETCH} reads a message by its number (#12)"
BY_QUERY = f"{REQUEST} finds what was said of one"


class Outlining(NamedTuple):
    """The outline of one prompt that is cut."""

    ir: PromptIR
    """Without the outline of an earlier cut."""
    older: tuple[Section, ...] = ()
    room_tokens: int = 0

    @classmethod
    def of(cls, ir: PromptIR, target: Target) -> Self:
        """The target's outline, which has no room yet; no other one competes with what is said."""
        if not target.outline:
            return cls(ir)
        older = tuple([each for each in ir.sections if _is_outline(each)])
        return cls(ir.with_sections([each for each in ir.sections if each not in older]), older)

    def within(self, before_tokens: int, left_tokens: int, target: Target) -> Self:
        """The same with its part of the room that what must stay leaves."""
        return self._replace(room_tokens=outline_tokens(target.outline, before_tokens, left_tokens))

    def gone(self) -> list[float]:
        """Where older ones stood among the entries of the history: halves, between two."""
        return [self._position(section) - 0.5 for section in self.older]

    def section(
        self,
        kept: Collection[int],
        partly: Mapping[int, Message],
        sections: Collection[Section],
        target: Target,
    ) -> Section | None:
        """The outline beside these entries, of which some are there in part, and sections; None
        where it has no place or no name."""
        history, conversation = self.ir.history, self.ir.history.conversation
        is_own = history.format in (target.provider, "claude_code", "langchain")
        row = thinking_model(target.model, history.format, history.entries) if is_own else UNBOUND
        slot = outline_slot(conversation, kept, self.gone(), row)
        if slot is None:
            return None
        tools = {tool.name for tool in self.ir.tools}
        has_numbers = FETCH in tools
        names = NameIndex()
        older = {where: _listed(each) for where, each in zip(self.gone(), self.older, strict=True)}
        names.add(
            conversation,
            kept,
            lambda unit: f"#{history.place(unit.members[0])}" if has_numbers else "",
            excerpts=partly,
            replaced=older,
        )
        for section in sections:
            names.add_visible(text_of(section, history.format))
        anchors = {where: each.anchor for where, each in zip(self.gone(), self.older, strict=True)}
        anchor = anchors.get(slot.before)
        anchor = history.place(int(slot.before)) if anchor is None else anchor

        def made(lines: str) -> Section:
            provenance = Provenance(ID, trust=TRUST)
            (section,) = counted_sections([Section(ID, lines, provenance, anchor=anchor)])
            return section

        how = BY_NUMBER if has_numbers else BY_QUERY if REQUEST in tools else ""
        lines = write_outline(
            names.best(self.room_tokens),
            how,
            lambda lines: section_tokens(made(lines)) <= self.room_tokens,
        )
        return made(lines) if lines else None

    def _position(self, section: Section) -> int:
        history = self.ir.history
        anchor = section.anchor or 0
        positions = range(len(history.entries))
        return next((n for n in positions if history.place(n) >= anchor), len(history.entries))


def _is_outline(section: Section) -> bool:
    return section.id == ID and section.provenance.source == ID


def _listed(section: Section) -> list[OutlineName]:
    return read_lines(str(section.content)) or []
