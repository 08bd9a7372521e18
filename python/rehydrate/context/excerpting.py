"""Excerpting: the best lines of an item that is too long for any answer."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from rehydrate.compact.query import WeightedQuery
from rehydrate.context.retriever import excerpt_tokens
from rehydrate.context.tool_context import ToolContext
from rehydrate.prompt.passes.packing import cut_to, is_divisible
from rehydrate.prompt.section import Section
from rehydrate.prompt.splicing import SHORTEST_QUOTE, late_tokens

MAX_EXCERPTS = 1
"""In one answer, of the most relevant item: dividing a text costs milliseconds, and the source of
cut parts brings the lines of others. Two bring no more of the names used next (D61)."""
_SHOWN = "[shown already]"


def with_excerpts(context: ToolContext, found: Sequence[Section], query: str) -> list[Section]:
    """Return the sections, and in place of those that could never come whole their best blocks.

    Blocks are word for word, each gap is marked, and the handle of the whole stands with them. A
    line that the model sees already is replaced by a mark.
    """
    long = [index for index, section in enumerate(found) if is_too_long(context, section)]
    best = set(sorted(long, key=lambda index: -found[index].relevance)[:MAX_EXCERPTS])
    return [
        _excerpt(context, section, query) if index in best else section
        for index, section in enumerate(found)
    ]


def is_too_long(context: ToolContext, section: Section) -> bool:
    """Return whether the section would fit into no answer."""
    return late_tokens(section) > context.max_tokens


def handle_of(context: ToolContext, section: Section) -> str | None:
    """Return a handle of the whole section; None where nothing can keep it."""
    handle = section.handle or section.metadata.get("handle")
    if handle:
        return str(handle)
    try:
        return context.originals.put(str(section.content))
    except Exception:  # the match is answered all the same
        return None


def _excerpt(context: ToolContext, section: Section, query: str) -> Section:
    if not is_divisible(section):
        return section
    handle = handle_of(context, section)
    if handle is None:
        return section
    unseen = _marking_lines(str(section.content), context.view.text().lines)
    if not unseen.replace(_SHOWN, "").strip():
        return section
    limit = excerpt_tokens(context.max_tokens)
    asked = WeightedQuery(query) if query else None
    cut = cut_to(replace(section, content=unseen), asked, limit)
    if is_too_long(context, cut) and is_divisible(cut):  # of megabytes one block may be too long
        cut = cut_to(cut, asked, limit)
    return section if is_too_long(context, cut) else replace(cut, handle=handle)


def _marking_lines(text: str, visible: Collection[str]) -> str:
    """Return the text with a mark for each line that is visible already, so that line numbers stay
    those of the whole."""
    return "\n".join(
        [
            _SHOWN if line in visible and len(line.strip()) >= SHORTEST_QUOTE else line
            for line in text.split("\n")
        ]
    )
