"""Requesting: a call of request_context, answered by what the scope's sources find."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from rehydrate.errors import InvalidArgumentError
from rehydrate.formats.calls import ToolCall
from rehydrate.ir import Section
from rehydrate.runtime.jit.answered import Answered
from rehydrate.runtime.jit.asking import Asking
from rehydrate.runtime.jit.desk import Desk
from rehydrate.runtime.jit.excerpting import excerpted, is_too_long
from rehydrate.runtime.jit.telling import Telling
from rehydrate.runtime.jit.writing import in_words


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
        remaining=len(spliced.rest),
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
