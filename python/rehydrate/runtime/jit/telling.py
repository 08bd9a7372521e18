"""Telling: what the model reads of what was found, what had no room, and what did not answer."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo

from rehydrate.compiler.originals import Originals
from rehydrate.compiler.splice import Spliced, late_tokens
from rehydrate.ir import Section, SourceReport
from rehydrate.runtime.jit.asking import Asking, shown
from rehydrate.runtime.jit.remainders import Remainders
from rehydrate.runtime.jit.times import describe
from rehydrate.runtime.jit.writing import written

_LISTED = 3
"""So many items that are too long for one answer are named one by one."""


class Telling:
    """The words of one answer."""

    def __init__(
        self, zone: tzinfo, budget_tokens: int, remainders: Remainders, originals: Originals
    ) -> None:
        """Take whose clocks, what fits into one answer, and where the rest is kept."""
        self._zone = zone
        self._budget_tokens = budget_tokens
        self._remainders = remainders
        self._originals = originals

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
            what += f", {describe(asking.time_range, self._zone)}"
        troubles = [
            f"{report.name} gave no answer ({report.detail}): what it knows is missing here. Ask "
            "again later, or go on without it."
            for report in failed
        ]
        if spliced.sections:
            head = f"Found {what}, word for word:"
            body = [head, written(spliced.sections, self._zone)]
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
            body = [f"More of {handle}, word for word:", written(spliced.sections, self._zone)]
        elif spliced.rest:
            body = [f"There is no room for more of {handle} here."]
        else:
            body = [f"All of {handle} is in front of you already; nothing is sent twice."]
        return "\n\n".join([*body, *self._left(spliced.rest)])

    def _left(self, rest: Sequence[Section]) -> list[str]:
        """What had no room, and by which handles it is read."""
        long = [section for section in rest if late_tokens(section) > self._budget_tokens]
        short = [section for section in rest if section not in long]
        lines = []
        if short:
            tokens = sum(section.tokens or 0 for section in short)
            lines.append(
                f"[{_items(len(short))} more, {tokens:,} tokens, had no room: fetch_whole "
                f"{self._remainders.put(short)} gives them]"
            )
        lines += [
            f"[{section.title or section.id}, {section.tokens:,} tokens, is too long for one "
            f"answer: fetch_whole {self._handle(section)} reads it in parts]"
            for section in long[:_LISTED]
        ]
        if len(long) > _LISTED:
            lines.append(f"[{_items(len(long) - _LISTED)} more are as long: ask more narrowly]")
        return lines

    def _handle(self, section: Section) -> str:
        handle = section.handle or section.metadata.get("handle")
        return str(handle or self._originals.put(str(section.content)))


def _items(count: int) -> str:
    return "1 item" if count == 1 else f"{count:,} items"
