"""PromptContent: the frozen fields of a PromptIR, such as sections, tools, history and budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Literal, NamedTuple, Self

from rehydrate.prompt.entries import History
from rehydrate.prompt.request import Budget, ContextRequest
from rehydrate.prompt.section import Section, ToolDef

MOST_BREAKPOINTS = 4
"""A provider accepts no more cache marks."""
TOOLS = "tools"
"""The breakpoint after all tools."""

SourceStatus = Literal["ok", "late", "failed", "off"]


class SourceReport(NamedTuple):
    """One source's result and time."""

    name: str
    status: SourceStatus = "ok"
    sections: int = 0
    tokens: int = 0
    elapsed_ms: float = 0.0
    detail: str = ""
    """Why the source is missing, in words; "" where it is not."""


class DroppedSection(NamedTuple):
    """A section, an entry or a part of one that was left out, and why."""

    section: str
    """Its id; ``history[12]`` for an entry of the history."""
    tokens: int
    reason: str
    handle: str | None = None
    """The handle of the whole text."""
    priority: str = ""
    by: str = ""
    """The source or pass that left it out."""


class Trace(NamedTuple):
    """The changes of one pass."""

    name: str
    before_tokens: int
    after_tokens: int
    changed: tuple[str, ...] = ()
    """Ids of the sections and entries (``history[12]``) that it changed or left out."""
    notes: tuple[str, ...] = ()
    elapsed_ms: float = 0.0


class Outcome(StrEnum):
    """Whether the prompt fits its soft budget; it never exceeds the hard one."""

    FITS = "fits"
    """Within the soft budget, or not yet checked."""
    WAITS = "waits"
    """Over the soft budget until the turn ends: a change now could break the model's thinking."""
    OVER_BUDGET = "over_budget"
    """Over the soft budget: the parts that must stay do not fit into it."""


@dataclass(frozen=True, slots=True)
class Meta:
    """The record of how a prompt was made."""

    sources: tuple[SourceReport, ...] = ()
    dropped: tuple[DroppedSection, ...] = ()
    trace: tuple[Trace, ...] = ()
    """One entry for each pass, in the order in which they ran."""
    before_tokens: int = 0
    """The tokens of everything that the sources found."""
    degraded: tuple[str, ...] = ()
    """The problems: each says what failed, and what was used instead."""
    outcome: Outcome = Outcome.FITS
    """Whether the prompt fits its soft budget, and if not, why."""

    @property
    def latency_ms(self) -> dict[str, float]:
        """How long each source took."""
        return {source.name: source.elapsed_ms for source in self.sources}


@dataclass(frozen=True, slots=True)
class PromptContent:
    """The fields of a PromptIR, and the values that depend on them alone."""

    request: ContextRequest = field(default_factory=ContextRequest)
    sections: tuple[Section, ...] = ()
    tools: tuple[ToolDef, ...] = ()
    history: History = field(default_factory=History)
    late_bound: tuple[Section, ...] = ()
    """Sections that the model asked for in the middle of a turn. Each is in the history, in the
    result of the call `tool_call_id`. It is rendered and counted there, and leaves with it."""
    counter: str = "o200k_base"
    """The encoding in which all tokens are counted."""
    breakpoints: tuple[str, ...] = ()
    """Ids in the order of the prompt: "tools", a section's, ``history[12]``. The provider is told
    to cache the prefix that ends with each."""
    meta: Meta = field(default_factory=Meta)

    @property
    def budget(self) -> Budget:
        """The budget of the request."""
        return self.request.budget

    @property
    def tokens(self) -> int:
        """The tokens of sections, tools and history, without fences. Uncounted ones add 0."""
        return (
            sum(section.tokens or 0 for section in self.sections)
            + sum(tool.tokens or 0 for tool in self.tools)
            + self.history.total_tokens
        )

    @property
    def compression_ratio(self) -> float:
        """The share of the sources' tokens that is left; 1.0 where they found nothing."""
        return self.tokens / self.meta.before_tokens if self.meta.before_tokens else 1.0

    def section(self, id: str) -> Section:  # noqa: A002  the field's word
        """Return the section with this id; raises KeyError."""
        for section in self.sections:
            if section.id == id:
                return section
        raise KeyError(id)

    def replace(self, **changes: Any) -> Self:
        """Return the same prompt with other values in these fields."""
        return replace(self, **changes)

    def with_sections(self, sections: Sequence[Section]) -> Self:
        """Return the same prompt with these sections."""
        return replace(self, sections=tuple(sections))
