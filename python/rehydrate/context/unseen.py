"""Unseen: what a turn's sources brought that the model does not see yet, under ids of its own."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from rehydrate.compiler.splice import showing, visible_items
from rehydrate.ir import PromptIR, Section

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
        yield showing(section if id_ == section.id else replace(section, id=id_), fresh)


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
            answer: shown.history.place(message.index)
            for message in shown.history.messages
            for answer in message.answers
        }
        said += [
            (places.get(section.carrier or "", -1), _LATE_NUMBER.sub("", section.id), section)
            for section in shown.late_bound
        ]
    in_order = sorted(said, key=lambda each: each[0])
    return {name: section.content for _, name, section in in_order}
