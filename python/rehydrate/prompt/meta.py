"""Meta: the record of how a prompt was made: sources, dropped sections, passes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, NamedTuple

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
