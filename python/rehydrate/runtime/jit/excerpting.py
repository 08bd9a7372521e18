"""Excerpting: of an item that is too long for any answer its best lines, and where the whole is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rehydrate.compact.asking import Asked
from rehydrate.compiler.passes.packing import cut_to, is_divisible
from rehydrate.compiler.splice import SHORTEST_QUOTE, late_tokens
from rehydrate.ir import Section
from rehydrate.runtime.jit.desk import Desk
from rehydrate.runtime.jit.looking import excerpt_tokens

MOST = 2
"""So many of one answer, the most relevant: dividing a text costs milliseconds."""
_SHOWN = "[shown already]"


def excerpted(desk: Desk, found: Sequence[Section], query: str) -> list[Section]:
    """The same sections, and in the place of those that could never come whole their best blocks,
    word for word, each gap marked, under the handle of the whole. Lines that an excerpt before has
    shown are marked in their place."""
    long = [place for place, section in enumerate(found) if is_too_long(desk, section)]
    best = set(sorted(long, key=lambda place: -found[place].relevance)[:MOST])
    return [
        _excerpt(desk, section, query) if place in best else section
        for place, section in enumerate(found)
    ]


def is_too_long(desk: Desk, section: Section) -> bool:
    """Whether it would fit into no answer."""
    return late_tokens(section) > desk.most_tokens


def handle_of(desk: Desk, section: Section) -> str | None:
    """Where the whole of it can be read; None where nobody keeps it."""
    known = section.handle or section.metadata.get("handle")
    if known:
        return str(known)
    try:
        return desk.context.originals.put(str(section.content))
    except Exception:  # whatever kept it from being kept, what was found is answered
        return None


def _excerpt(desk: Desk, section: Section, query: str) -> Section:
    if not is_divisible(section):
        return section
    handle = handle_of(desk, section)
    if handle is None:
        return section
    rest = _unseen(str(section.content), desk.context.visible_text())
    if not rest.replace(_SHOWN, "").strip():
        return section
    most = excerpt_tokens(desk.most_tokens)
    asked = Asked(query) if query else None
    cut = cut_to(replace(section, content=rest), asked, most)
    if is_too_long(desk, cut) and is_divisible(cut):  # of megabytes one block may be too long
        cut = cut_to(cut, asked, most)
    return section if is_too_long(desk, cut) else replace(cut, handle=handle)


def _unseen(text: str, shown: str) -> str:
    """The text, with a mark in the place of each line that is shown already: a gap tells which
    lines it leaves out, and their numbers are the whole's."""
    lines = frozenset(shown.split("\n"))
    return "\n".join(
        [
            _SHOWN if len(line.strip()) >= SHORTEST_QUOTE and line in lines else line
            for line in text.split("\n")
        ]
    )
