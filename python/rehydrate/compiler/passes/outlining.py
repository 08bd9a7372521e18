"""Outlining: the section that lists the names of what prune leaves out of the history.

It stands where the first gap is, before which nothing changes. A second compaction makes it anew,
with the names of the one before among the others.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple, Self

from rehydrate.compact.listing import place_of_outline
from rehydrate.compact.outline import ID, Listed, Names, outline_tokens, read_lines, write_outline
from rehydrate.compiler.counting import section_tokens
from rehydrate.compiler.counts import counted_sections
from rehydrate.compiler.fence import text_of
from rehydrate.compiler.originals import TRUST
from rehydrate.compiler.target import Target
from rehydrate.formats.thinking_models import UNBOUND, thinking_model
from rehydrate.ir import PromptIR, Provenance, Section
from rehydrate.messages import Message

REQUEST, FETCH = "request_context", "fetch_whole"
"""The tools by which a model asks for what is listed (`rehydrate.runtime.jit`)."""
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
        place = place_of_outline(conversation, kept, self.gone(), row)
        if place is None:
            return None
        tools = {tool.name for tool in self.ir.tools}
        has_numbers = FETCH in tools
        names = Names()
        older = {where: _listed(each) for where, each in zip(self.gone(), self.older, strict=True)}
        names.add(
            conversation,
            kept,
            lambda unit: f"#{history.place(unit.members[0])}" if has_numbers else "",
            partly=partly,
            older=older,
        )
        for section in sections:
            names.add_shown(text_of(section, history.format))
        anchors = {where: each.anchor for where, each in zip(self.gone(), self.older, strict=True)}
        anchor = anchors.get(place.before)
        anchor = history.place(int(place.before)) if anchor is None else anchor

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


def _listed(section: Section) -> list[Listed]:
    return read_lines(str(section.content)) or []
