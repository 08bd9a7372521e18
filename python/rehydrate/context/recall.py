"""request_context and load_memory: a call of either, answered by what its sources find."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from rehydrate.context.answers import as_texts, format_answer
from rehydrate.context.excerpting import is_too_long, with_excerpts
from rehydrate.context.tool_calls import Answered, ContextQuery
from rehydrate.context.tool_context import ToolContext
from rehydrate.errors import InvalidArgumentError
from rehydrate.formats.calls import ToolCall
from rehydrate.memory.items import Hit
from rehydrate.memory.tools import LoadMemory
from rehydrate.prompt.counting import counted_sections
from rehydrate.prompt.section import Section
from rehydrate.prompt.sources.memory import section_of, section_of_hit

MEMORY_SOURCE = "memory"


def request_context(context: ToolContext, call: ToolCall, now: datetime) -> Answered:
    """Answer with as much of what is found as is new and fits.

    Raises InvalidArgumentError that says what to send instead.
    """
    query = ContextQuery.read(call.arguments(), now, context.timezone)
    hydrated = context.retriever.find(query, context.view.items())
    if not hydrated:
        raise InvalidArgumentError(
            f"scope is {query.scope!r}, and there is nothing of that kind to look in; this "
            f"conversation has {', '.join(context.retriever.kinds)}: send another scope, or none"
        )
    reports = [each.report for each in hydrated]
    failed = [report for report in reports if report.status in ("late", "failed")]
    found = as_texts([section for each in hydrated for section in each.sections])
    shortened = with_excerpts(context, _without_overlaps(context, found), query.query)
    spliced = context.splice(call, shortened)
    asked = [report.name for report in reports]
    return Answered(
        call,
        format_answer(context, query, spliced, failed, asked),
        is_error=len(failed) == len(reports),
        sections=spliced.sections,
        remaining=len(spliced.no_room),
        query=query.query,
        scope=query.scope,
        time_range=query.time_range,
        degraded=tuple([note for each in hydrated for note in each.degraded]),
    )


def load_memory(context: ToolContext, call: ToolCall, loader: LoadMemory) -> Answered:
    """Answer with the passages of a query, or a note whole, as far as the model sees them not yet.

    Raises InvalidArgumentError that says what to send instead.
    """
    query, found = loader.found(call.arguments())
    sections = [
        section_of_hit(each, source=MEMORY_SOURCE)
        if isinstance(each, Hit)
        else section_of(each, source=MEMORY_SOURCE)
        for each in found
    ]
    spliced = context.splice(call, with_excerpts(context, counted_sections(sections), query))
    if len(found) == len(spliced.sections) == 1 and spliced.sections[0].handle is None:
        content = str(spliced.sections[0].content)  # a note by itself: as it was written
    else:
        content = format_answer(context, ContextQuery(query), spliced, [], [MEMORY_SOURCE])
    return Answered(
        call, content, sections=spliced.sections, remaining=len(spliced.no_room), query=query
    )


def _without_overlaps(context: ToolContext, found: Sequence[Section]) -> list[Section]:
    """Return the sections without the parts of a message that comes whole, and without long
    messages of which parts were found."""
    part_of = {id(each): each.metadata["part_of"] for each in found if "part_of" in each.metadata}
    others = [each for each in found if id(each) not in part_of]
    long = [each for each in others if is_too_long(context, each)]
    whole = {item for each in others if each not in long for item in each.provenance.items}
    in_parts = {item for item in part_of.values() if item not in whole}
    left_out = {id(each) for each in found if part_of.get(id(each)) in whole}
    left_out |= {id(each) for each in long if not in_parts.isdisjoint(each.provenance.items)}
    return [each for each in found if id(each) not in left_out]
