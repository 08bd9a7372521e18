"""Requesting: a call of request_context, answered by what the scope's sources find.

Loading: a call of load_memory, answered by the items that the model does not see yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from rehydrate.context.answers import Telling, excerpted, in_words, is_too_long
from rehydrate.context.retriever import Desk
from rehydrate.context.tool_calls import Answered, Asking
from rehydrate.errors import InvalidArgumentError
from rehydrate.formats.calls import ToolCall
from rehydrate.memory.items import Hit
from rehydrate.memory.tools import LoadMemory
from rehydrate.prompt.counting import counted_sections
from rehydrate.prompt.section import Section
from rehydrate.prompt.sources.memory import section_of, section_of_hit


def request_context(desk: Desk, call: ToolCall, now: datetime) -> Answered:
    """What is found, as much of it as is new and fits; raises InvalidArgumentError with what to
    send instead."""
    asking = Asking.read(call.arguments(), now, desk.zone)
    hydrated = desk.looking.look(asking, desk.context.visible)
    if not hydrated:
        raise InvalidArgumentError(
            f"scope is {asking.scope!r}, and there is nothing of that kind to look in; this "
            f"conversation has {', '.join(desk.looking.kinds)}: send another scope, or none"
        )
    reports = [each.report for each in hydrated]
    failed = [report for report in reports if report.status in ("late", "failed")]
    found = in_words([section for each in hydrated for section in each.sections])
    spliced = desk.splice(call, excerpted(desk, _once(desk, found), asking.query))
    return Answered(
        call,
        Telling(desk).found(asking, spliced, failed, [report.name for report in reports]),
        is_error=len(failed) == len(reports),
        sections=spliced.sections,
        remaining=len(spliced.no_room),
        query=asking.query,
        scope=asking.scope,
        time_range=asking.time_range,
        degraded=tuple([note for each in hydrated for note in each.degraded]),
    )


def _once(desk: Desk, found: Sequence[Section]) -> list[Section]:
    """Of a message that comes whole no parts, of one whose parts were found no second excerpt."""
    of_part = {id(each): each.metadata["part_of"] for each in found if "part_of" in each.metadata}
    others = [each for each in found if id(each) not in of_part]
    long = [each for each in others if is_too_long(desk, each)]
    whole = {item for each in others if each not in long for item in each.provenance.items}
    in_parts = {item for item in of_part.values() if item not in whole}
    gone = {id(each) for each in found if of_part.get(id(each)) in whole}
    gone |= {id(each) for each in long if not in_parts.isdisjoint(each.provenance.items)}
    return [each for each in found if id(each) not in gone]


SOURCE = "memory"


def load_memory(desk: Desk, call: ToolCall, loader: LoadMemory) -> Answered:
    """The passages of a query, or a note whole; raises InvalidArgumentError with what to send
    instead."""
    asked, found = loader.found(call.arguments())
    sections = [
        section_of_hit(each, source=SOURCE)
        if isinstance(each, Hit)
        else section_of(each, source=SOURCE)
        for each in found
    ]
    spliced = desk.splice(call, excerpted(desk, counted_sections(sections), asked))
    if len(found) == len(spliced.sections) == 1 and spliced.sections[0].handle is None:
        content = str(spliced.sections[0].content)  # a note by itself: as it was written
    else:
        content = Telling(desk).found(Asking(asked), spliced, [], [SOURCE])
    return Answered(
        call, content, sections=spliced.sections, remaining=len(spliced.no_room), query=asked
    )
