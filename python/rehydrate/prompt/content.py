"""The content of a prompt: sections, tools, history, budget, as one frozen value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from rehydrate.prompt.entries import History
from rehydrate.prompt.meta import Meta
from rehydrate.prompt.request import Budget, ContextRequest
from rehydrate.prompt.section import Section, ToolDef


@dataclass(frozen=True, slots=True)
class PromptContent:
    """The fields of a PromptIR, and what follows from them alone."""

    request: ContextRequest = field(default_factory=ContextRequest)
    sections: tuple[Section, ...] = ()
    tools: tuple[ToolDef, ...] = ()
    history: History = field(default_factory=History)
    late_bound: tuple[Section, ...] = ()
    """What the model asked for in the middle of a turn. It stands in the history, in the result of
    the call that its `carrier` names, is rendered and counted there, and goes with it."""
    counter: str = "o200k_base"
    """By what all its tokens are counted."""
    breakpoints: tuple[str, ...] = ()
    """Where the cache is told to keep the prefix: ids after which one stands ("tools", a
    section's, ``history[12]``), in the order of the prompt."""
    meta: Meta = field(default_factory=Meta)

    @property
    def budget(self) -> Budget:
        """That of the request."""
        return self.request.budget

    @property
    def tokens(self) -> int:
        """Of all that is in it; what nobody counted yet is 0."""
        return (
            sum(section.tokens or 0 for section in self.sections)
            + sum(tool.tokens or 0 for tool in self.tools)
            + self.history.total_tokens
        )

    @property
    def compression_ratio(self) -> float:
        """Tokens left of what the sources brought; 1.0 where there was nothing."""
        return self.tokens / self.meta.before_tokens if self.meta.before_tokens else 1.0

    def section(self, id: str) -> Section:  # noqa: A002  the field's word
        """The section with this id; raises KeyError."""
        for section in self.sections:
            if section.id == id:
                return section
        raise KeyError(id)

    def replace(self, **changes: Any) -> Self:
        """The same with these fields changed."""
        return replace(self, **changes)

    def with_sections(self, sections: Sequence[Section]) -> Self:
        """The same with these sections."""
        return replace(self, sections=tuple(sections))
