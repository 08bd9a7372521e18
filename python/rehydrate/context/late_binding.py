"""LateBinding: what the model asked for since the last prompt, until its results are there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from rehydrate.context.history import EntriesMark
from rehydrate.messages import Message, PieceKind
from rehydrate.prompt.ir import PromptIR
from rehydrate.prompt.section import Section
from rehydrate.prompt.splicing import late_tokens, visible_items, with_items


class Before(NamedTuple):
    """What a context was before a prompt."""

    entries: EntriesMark
    fields: Mapping[str, Any]


class PromptCall:
    """Whether somebody still waits for the prompt, and what was before it.

    A coroutine that is cancelled leaves a thread behind which makes the prompt to its end. It only
    says so here, and waits for nothing; the next call on the context, which has its lock, puts back
    what was before, unless something came after the prompt.
    """

    __slots__ = ("before", "is_given_up")

    def __init__(self) -> None:
        """Waited for, and not begun."""
        self.before: Before | None = None
        self.is_given_up = False


_NUMBER = " @"
"""Between a section's name and how often something was said under it."""
_LATE_NUMBER = re.compile(r"~\d+$")
"""How a late-bound section's id says the same."""


def unseen(found: Sequence[Section], shown: PromptIR) -> Iterator[Section]:
    """The sections that are new beside what is shown, with the ids under which they go in.

    A function says something else in every turn under one name, as a clock does: what was last
    said under a name is not said again, and anything else gets a number. What the model asked for
    and has in a result does not come again; of several items those that are new are named.
    """
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
    """What was last said under each name, by a source or as the answer to a call."""
    said = [
        (
            -1 if section.anchor is None else section.anchor,
            section.id.partition(_NUMBER)[0],
            section,
        )
        for section in shown.sections
    ]
    if shown.late_bound:
        places = {
            answer: shown.history.entry_index(message.index)
            for message in shown.history.messages
            for answer in message.answers
        }
        said += [
            (places.get(section.tool_call_id or "", -1), _LATE_NUMBER.sub("", section.id), section)
            for section in shown.late_bound
        ]
    in_order = sorted(said, key=lambda each: each[0])
    return {name: section.content for _, name, section in in_order}


RESULT_TOKENS = 200
"""What a result says beside the sections costs at most."""


class LateBinding:
    """Sections by the call that asked for them.

    They are waited for until the next prompt is sent: who sends it has put all results in. A
    result that never comes into the history (the turn was cancelled, the loop put something else
    in its place) binds nothing: its sections can be asked for again.
    """

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        """Nothing was asked for yet."""
        self._waiting: dict[str, tuple[Section, ...]] = {}

    def copy(self) -> LateBinding:
        """What is waited for now."""
        copy = LateBinding()
        copy._waiting = dict(self._waiting)
        return copy

    def wait(self, carrier: str, sections: Iterable[Section]) -> None:
        """Note what the result of this call will show; a second result shows more."""
        self._waiting[carrier] = (*self._waiting.get(carrier, ()), *sections)

    def __bool__(self) -> bool:
        """Whether anything is waited for."""
        return bool(self._waiting)

    @property
    def sections(self) -> list[Section]:
        """All that is waited for."""
        return [section for sections in self._waiting.values() for section in sections]

    @property
    def tokens(self) -> int:
        """Of all that is waited for, with what each result says beside."""
        return sum(map(late_tokens, self.sections)) + RESULT_TOKENS * len(self._waiting)

    def bound(self, messages: Sequence[Message]) -> Iterator[Section]:
        """What these messages show of it."""
        for message in messages:
            for carrier in self._waiting.keys() & set(message.answers):
                results = [p.text for p in message.pieces if p.kind == PieceKind.TOOL_RESULT]
                for section in self._waiting[carrier]:
                    if any(str(section.content) in text for text in results):
                        yield section

    def settle(self, messages: Sequence[Message]) -> None:
        """These messages are taken in: nobody waits for their results any more."""
        for answer in [answer for message in messages for answer in message.answers]:
            self._waiting.pop(answer, None)

    def give_up(self, carrier: str, sections: Sequence[Section] | None = None) -> None:
        """Wait no more for these sections of a call, or for all of them."""
        waiting = self._waiting.pop(carrier, ())
        left = [one for one in waiting if sections is not None and one not in sections]
        if left:
            self._waiting[carrier] = tuple(left)

    def give_all_up(self) -> None:
        """Wait no more for anything."""
        self._waiting.clear()
