"""Answered: what became of one call of the JIT's tools."""

from __future__ import annotations

from typing import Any, NamedTuple

from rehydrate.formats.calls import ToolCall
from rehydrate.ir import Section, TimeRange


class Answered(NamedTuple):
    """The answer to one call, and what it brought into the prompt."""

    call: ToolCall
    content: str
    is_error: bool = False
    sections: tuple[Section, ...] = ()
    """Late-bound: they stand in `content`, word for word."""
    remaining: int = 0
    """Items that were found too and had no room."""
    query: str = ""
    scope: str | None = None
    time_range: TimeRange | None = None
    elapsed_ms: float = 0.0
    degraded: tuple[str, ...] = ()
    """What did not work, and was done otherwise: an embedder that failed."""

    @property
    def tokens(self) -> int:
        """What the sections cost."""
        return sum(section.tokens or 0 for section in self.sections)

    @property
    def result(self) -> Any:
        """What goes into the history, as the call's provider takes it."""
        return self.call.result(self.content, is_error=self.is_error)
