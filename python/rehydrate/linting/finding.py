"""Finding: one thing that a prompt or a session spends tokens on to no use."""

from __future__ import annotations

from typing import Literal, NamedTuple

Severity = Literal["info", "warning", "error"]
SEVERITIES: tuple[Severity, ...] = ("info", "warning", "error")
"""Mildest first: worth knowing, costs tokens or money every turn, stops the job or is refused."""


class Finding(NamedTuple):
    """What a rule found at one place."""

    rule: str
    severity: Severity
    place: str
    """``history[12]``, ``tools[3]``, ``system``, a section's id; "" for the whole."""
    tokens: int
    """That it costs in every request from there on, as far as the remedy would save them."""
    message: str
    remedy: str

    def __str__(self) -> str:
        """One line: place, what it is, what to do, rule."""
        place = f"{self.place}: " if self.place else ""
        return f"{place}{self.message}; {self.remedy} ({self.rule})"

    def is_at_least(self, severity: Severity) -> bool:
        """Whether it is as grave as that, or graver."""
        return SEVERITIES.index(self.severity) >= SEVERITIES.index(severity)
