"""Which entries a summary replaces, and the IR of the prompt that has it instead of them."""

from __future__ import annotations

from collections.abc import Sequence

from rehydrate.compact.outline import ID as OUTLINE_ID
from rehydrate.context.history import Entries
from rehydrate.messages import Unit
from rehydrate.prompt.counting import counted_sections
from rehydrate.prompt.entries import History
from rehydrate.prompt.ir import PromptIR
from rehydrate.prompt.section import CompositionMode, Priority, Provenance, Section

SUMMARY_ID = "summary"
TRUST = 0.5
"""Of a summary: tools and others may have written what it is of."""


def first_kept(history: History, keep_last: int) -> int | None:
    """Return the entry index from which on entries stay: at least the last ``keep_last`` messages,
    from a plain user turn on, so that no tool pair is split.

    None where no such turn has anything before it, or where the provider needs what is before it.
    """
    units = history.conversation.units
    position = tail_start(units, keep_last)
    if position is None:
        return None
    before = units[:position]
    bound = set(history.conversation.bound)
    if not any(not unit.is_system for unit in before):
        return None
    if any(member in bound for unit in before for member in unit.members):
        return None
    return history.entry_index(units[position].members[0])


def tail_start(units: Sequence[Unit], keep_last: int) -> int | None:
    """Return the number of the unit with which the tail begins."""
    messages = 0
    for number in range(len(units) - 1, 0, -1):
        messages += len(units[number].messages)
        if messages >= keep_last and units[number].is_user_turn and units[number].opens_with_user:
            return number
    return None


def swapped(ir: PromptIR, entries: Entries, until: int, summary: str) -> PromptIR:
    """Return the IR with a summary instead of the entries before the index ``until``.

    System entries stay. So do sections that stand later or always; what stood among the replaced
    entries goes, an earlier summary and an outline too.
    """
    shown = ir.history
    system = {
        shown.entry_index(message.index)
        for message in shown.light_messages
        if message.role == "system"
    }
    kept = [
        position
        for position, index in enumerate(shown.indices)
        if index >= until or index in system
    ]
    history = shown.select(kept)
    # What was shortened refers to what goes.
    history = entries.with_texts_of(history.indices, history)
    answered = {call for message in history.messages for call in message.answers}
    sections = [
        section
        for section in ir.sections
        if section.id not in (SUMMARY_ID, OUTLINE_ID)
        and (section.is_static or section.anchor is None or section.anchor >= until)
    ]
    (made,) = counted_sections([_section(summary, until)])
    return ir.replace(
        history=history,
        sections=(*[s for s in sections if s.is_static], made, *_dynamic(sections)),
        late_bound=tuple([each for each in ir.late_bound if each.tool_call_id in answered]),
        breakpoints=(),
    )


def _dynamic(sections: Sequence[Section]) -> list[Section]:
    return [section for section in sections if not section.is_static]


def _section(summary: str, until: int) -> Section:
    return Section(
        SUMMARY_ID,
        summary,
        Provenance(SUMMARY_ID, trust=TRUST),
        priority=Priority.HIGH,
        mode=CompositionMode.ADDITIVE,
        title="What was said before",
        anchor=until,
    )
