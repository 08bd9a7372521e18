"""Telling: what the model reads of what was found, what had no room, and what did not answer."""

from __future__ import annotations

from collections.abc import Sequence

from rehydrate.compiler.splice import Spliced
from rehydrate.ir import Section, SourceReport
from rehydrate.runtime.jit.asking import Asking, shown
from rehydrate.runtime.jit.desk import Desk
from rehydrate.runtime.jit.excerpting import handle_of, is_too_long
from rehydrate.runtime.jit.times import describe
from rehydrate.runtime.jit.writing import written

_LISTED = 3
"""So many items that are too long for one answer are named one by one."""


class Telling:
    """The words of one answer."""

    def __init__(self, desk: Desk) -> None:
        """For one conversation."""
        self._desk = desk

    def found(
        self,
        asking: Asking,
        spliced: Spliced,
        failed: Sequence[SourceReport],
        asked: Sequence[str],
    ) -> str:
        """The answer to request_context."""
        what = f"for {shown(asking.query)}"
        if asking.time_range is not None:
            what += f", {describe(asking.time_range, self._desk.zone)}"
        troubles = [
            f"{report.name} gave no answer ({_why(report)}): what it knows is missing here. Ask "
            "again later, or go on without it."
            for report in failed
        ]
        if spliced.sections:
            head = f"Found {what}, word for word:"
            body = [head, written(spliced.sections, self._desk.zone)]
        elif spliced.rest:
            body = [f"{_items(len(spliced.rest))} found {what}; there is no room for them here."]
        elif spliced.visible:
            body = [f"All that was found {what} is in front of you already; nothing is sent twice."]
        elif len(failed) < len(asked):
            body = [
                f"Nothing was found {what} beyond what you see already (asked: "
                f"{', '.join(asked)}). Try other words, another time_range or another scope."
            ]
        else:
            body = []
        return "\n\n".join([*body, *self._left(spliced.rest), *troubles])

    def rest(self, handle: str, spliced: Spliced) -> str:
        """The answer to fetch_whole of a remainder."""
        if spliced.sections:
            body = [f"More of {handle}, word for word:", written(spliced.sections, self._desk.zone)]
        elif spliced.rest:
            body = [f"There is no room for more of {handle} here."]
        else:
            body = [f"All of {handle} is in front of you already; nothing is sent twice."]
        return "\n\n".join([*body, *self._left(spliced.rest)])

    def _left(self, rest: Sequence[Section]) -> list[str]:
        """What had no room, and by which handles it is read."""
        long = [section for section in rest if is_too_long(self._desk, section)]
        short = [section for section in rest if section not in long]
        lines = []
        if short:
            tokens = sum(section.tokens or 0 for section in short)
            lines.append(
                f"[{_items(len(short))} more, {tokens:,} tokens, had no room: fetch_whole "
                f"{self._desk.remainders.put(short)} gives them]"
            )
        by_worth = sorted(long, key=lambda section: -section.relevance)
        lines += [self._too_long(section) for section in by_worth[:_LISTED]]
        if len(long) > _LISTED:
            lines.append(f"[{_items(len(long) - _LISTED)} more are as long: ask more narrowly]")
        return lines

    def _too_long(self, section: Section) -> str:
        handle = handle_of(self._desk, section)
        how = f"fetch_whole {handle} reads it in parts" if handle else "ask more narrowly"
        name = section.title or section.id
        return f"[{name}, {section.tokens:,} tokens, is too long for one answer: {how}]"


def _items(count: int) -> str:
    return "1 item" if count == 1 else f"{count:,} items"


def _why(report: SourceReport) -> str:
    """Why a source gave no answer; of an exception the type alone: its text may be private."""
    return report.detail.partition(":")[0] if report.status == "failed" else report.detail
