"""The outline of what prune leaves out: a section that lists the names in it.

It is at the first gap, since nothing changes before that. A second compaction writes it again, with
the names of the earlier outline among the others.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple, Self

from rehydrate import _native
from rehydrate.compact.outline import ID
from rehydrate.formats.thinking import UNBOUND, thinking_model
from rehydrate.messages import PROVIDER_OF, Message
from rehydrate.prompt.counting import counted_sections, section_tokens, text_of
from rehydrate.prompt.ir import PromptIR, Target
from rehydrate.prompt.originals import TRUST
from rehydrate.prompt.section import Provenance, Section

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
