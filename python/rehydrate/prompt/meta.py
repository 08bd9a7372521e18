"""Meta: how a prompt came to be: its sources, what was left out and why, what each pass did."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, NamedTuple

SourceStatus = Literal["ok", "late", "failed", "off"]


class SourceReport(NamedTuple):
    """What one source brought, and how long it took."""

    name: str
    status: SourceStatus = "ok"
    sections: int = 0
    tokens: int = 0
    elapsed_ms: float = 0.0
    detail: str = ""
    """Of a source that is left out: why, in words."""


class DroppedSection(NamedTuple):
    """What is not in the prompt though it might have been, and why."""

    section: str
    """Its id; ``history[12]`` for an entry of the history."""
    tokens: int
    reason: str
    handle: str | None = None
    """Where the whole can be fetched."""
    priority: str = ""
    by: str = ""
    """The source or the pass that left it out."""


class Trace(NamedTuple):
    """What one pass did."""

    name: str
    before_tokens: int
    after_tokens: int
    changed: tuple[str, ...] = ()
    """Ids of the sections, and ``history[12]`` for entries, that it changed or left out."""
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
    """How a prompt came to be: what each source brought, what went and why, what each pass did."""

    sources: tuple[SourceReport, ...] = ()
    dropped: tuple[DroppedSection, ...] = ()
    trace: tuple[Trace, ...] = ()
    before_tokens: int = 0
    """Of everything the sources brought."""
    degraded: tuple[str, ...] = ()
    outcome: Outcome = Outcome.FITS
    """Whether the prompt fits its soft budget, and if not, why."""

    @property
    def latency_ms(self) -> dict[str, float]:
        """By source, how long it took."""
        return {source.name: source.elapsed_ms for source in self.sources}
