"""PromptContent: the frozen fields of a PromptIR, such as sections, tools, history and budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from rehydrate.prompt.entries import History
from rehydrate.prompt.meta import Meta
from rehydrate.prompt.request import Budget, ContextRequest
from rehydrate.prompt.section import Section
from rehydrate.prompt.tool_def import ToolDef


@dataclass(frozen=True, slots=True)
class PromptContent:
    """The fields of a PromptIR, and the values that depend on them alone."""

    request: ContextRequest = field(default_factory=ContextRequest)
    sections: tuple[Section, ...] = ()
    tools: tuple[ToolDef, ...] = ()
    history: History = field(default_factory=History)
    late_bound: tuple[Section, ...] = ()
    """Sections that the model asked for in the middle of a turn. Each stands in the history, in the
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
