"""What prompts leave in a thread: `PromptState`, and sections whose results are still to come."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rehydrate.context.history import Entries
from rehydrate.messages import Message, PieceKind
from rehydrate.prompt.entries import History
from rehydrate.prompt.ir import PromptIR
from rehydrate.prompt.section import Section
from rehydrate.prompt.splicing import late_tokens, visible_items, with_items

if TYPE_CHECKING:
    from rehydrate.cost.prefix import PrefixReport
    from rehydrate.prompt.ir import CompiledPrompt


class LeftOut:
    """The entries that prompts since one compaction do not show. They are found once, when asked
    for: until the next compaction nothing more is left out."""

    __slots__ = ("_found",)

    def __init__(self) -> None:
        """Nobody asked yet."""
        self._found: tuple[History, list[datetime]] | None = None

    def of(self, entries: Entries, shown: list[int]) -> tuple[History, list[datetime]]:
        """Return the entries besides those at the indices in ``shown``, with their times."""
        if self._found is None:
            self._found = entries.left_out(shown)
        return self._found


@dataclass(frozen=True, slots=True)
class PromptState:
    """The state that a prompt changes. A prompt replaces it as a whole, or not at all."""

    ir: PromptIR | None = None
    """The IR of the last prompt."""
    sent: CompiledPrompt | None = None
    """The last prompt that was given out."""
    prefix: PrefixReport | None = None
    """How that prompt extends the one before."""
    seen: int = 0
    """How many entries the last prompt was made from."""
    turn: int | None = None
    """The index of the user turn it was made in."""
    job_tokens: int = 0
    prompts: int = 0
    compactions: int = 0
    missing_hot: frozenset[str] | None = None
    """The hot sources that did not answer when they were last asked; None: not asked yet."""
    left_out: LeftOut = field(default_factory=LeftOut)

    @property
    def shown(self) -> PromptIR:
        """The IR of the last prompt; an empty one before the first."""
        return PromptIR() if self.ir is None else self.ir

    def going_on_from(self, ir: PromptIR, entries: Entries) -> PromptState:
        """Return the state after a prompt with this IR was made from all entries."""
        compacted = was_pruned(ir)
        return replace(
            self,
            ir=ir,
            seen=len(entries),
            turn=entries.turn,
            compactions=self.compactions + compacted,
            left_out=LeftOut() if compacted else self.left_out,
        )


def was_pruned(ir: PromptIR) -> bool:
    """Return whether compiling dropped or shortened entries to meet the budget."""
    return any(trace.name == "prune" and trace.changed for trace in ir.meta.trace)


_NUMBER = " @"
"""Between a section's name and its number, where a source says something new under one name."""
_LATE_NUMBER = re.compile(r"~\d+$")
"""The same in the id of a late-bound section."""


def unseen(found: Sequence[Section], shown: PromptIR) -> Iterator[Section]:
    """Yield the sections that are new besides a prompt's IR, with the ids they get in it.

    A function may say something else in every turn under one name, as a clock does. What it said
    last is not repeated; anything else gets a number. What a result shows at the model's own
    request is not repeated either. A section with new and old items names the new ones only.
    """
    if not found:
        return
    ids = {section.id for section in (*shown.sections, *shown.late_bound)}
    latest = _latest(shown)
    given = visible_items(PromptIR(late_bound=shown.late_bound))
    for section in found:
        if section.is_static:
            if section.id not in ids:
                yield section
            continue
        items = section.provenance.items
        fresh = tuple([item for item in items if item not in given])
        is_given = bool(items) and not fresh
        if is_given or latest.get(section.id) == section.content:
            continue
        id_, number = section.id, 1
        while id_ in ids:
            number += 1
            id_ = f"{section.id}{_NUMBER}{number}"
        ids.add(id_)
        yield with_items(section if id_ == section.id else replace(section, id=id_), fresh)


def _latest(shown: PromptIR) -> dict[str, Any]:
    """Return the latest content under each name, from a source or in the answer to a call."""
    contents = [
        (
            -1 if section.anchor is None else section.anchor,
            section.id.partition(_NUMBER)[0],
            section,
        )
        for section in shown.sections
    ]
    if shown.late_bound:
        indices = {
            tool_call_id: shown.history.entry_index(index)
            for tool_call_id, index in shown.history.rows.answers()
        }
        contents += [
            (indices.get(section.tool_call_id or "", -1), _LATE_NUMBER.sub("", section.id), section)
            for section in shown.late_bound
        ]
    in_order = sorted(contents, key=lambda each: each[0])
    return {name: section.content for _, name, section in in_order}


ANSWER_WORDS_TOKENS = 200
"""The most that an answer says besides its sections."""


class LateBinding:
    """The sections of each tool call that has been answered and whose result is not added yet.

    They wait until the next prompt is sent: by then all results are in. A result that never comes
    (the turn was cancelled, the loop added something else) binds nothing, and its sections can be
    asked for again.
    """

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        """Start with nothing waiting."""
        self._waiting: dict[str, tuple[Section, ...]] = {}

    def copy(self) -> LateBinding:
        """Return an independent copy."""
        copy = LateBinding()
        copy._waiting = dict(self._waiting)
        return copy

    def restore(self, waiting: Mapping[str, tuple[Section, ...]]) -> None:
        """Wait for what an earlier process waited for."""
        self._waiting = dict(waiting)

    def wait(self, tool_call_id: str, sections: Iterable[Section]) -> None:
        """Note what the result of this call will show; a second call of one id adds to it."""
        self._waiting[tool_call_id] = (*self._waiting.get(tool_call_id, ()), *sections)

    def __bool__(self) -> bool:
        """Return whether anything waits."""
        return bool(self._waiting)

    @property
    def waiting(self) -> Mapping[str, tuple[Section, ...]]:
        """The sections by the call whose result is waited for."""
        return self._waiting

    @property
    def sections(self) -> list[Section]:
        """All sections that wait."""
        return [section for sections in self._waiting.values() for section in sections]

    @property
    def tokens(self) -> int:
        """Their tokens, with the words of each answer."""
        return sum(map(late_tokens, self.sections)) + ANSWER_WORDS_TOKENS * len(self._waiting)

    def bound(self, messages: Sequence[Message]) -> Iterator[Section]:
        """Yield the waiting sections that results in these messages show."""
        for message in messages:
            for tool_call_id in self._waiting.keys() & set(message.answers):
                results = [p.text for p in message.pieces if p.kind == PieceKind.TOOL_RESULT]
                for section in self._waiting[tool_call_id]:
                    if any(str(section.content) in text for text in results):
                        yield section

    def settle(self, messages: Sequence[Message]) -> None:
        """Stop waiting for the results in these messages: the prompt has them."""
        for tool_call_id in [answer for message in messages for answer in message.answers]:
            self._waiting.pop(tool_call_id, None)

    def give_up(self, tool_call_id: str, sections: Sequence[Section] | None = None) -> None:
        """Stop waiting for these sections of a call, or for all of them."""
        waiting = self._waiting.pop(tool_call_id, ())
        left = [one for one in waiting if sections is not None and one not in sections]
        if left:
            self._waiting[tool_call_id] = tuple(left)

    def give_all_up(self) -> None:
        """Stop waiting for anything."""
        self._waiting.clear()
