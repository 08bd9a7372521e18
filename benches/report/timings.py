"""A timing, and its cells: rates, ratios, milliseconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from benches.report.rows import number


@dataclass(frozen=True, slots=True)
class Timing:
    """A median, and the size of its input."""

    seconds: float
    bytes: int = 0
    elements: int = 0
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def megabytes_per_second(self) -> float:
        """Millions of bytes a second."""
        return self.bytes / self.seconds / 1e6


def times(ours: Timing | None, peers: Sequence[tuple[str, Timing | None]]) -> str:
    """Return how many times as long the peers take."""
    if ours is None:
        return ""
    return ", ".join(
        f"{name} takes {number(peer.seconds / ours.seconds)} x" for name, peer in peers if peer
    )


def share_of(part: Timing | None, whole: Timing | None) -> str:
    """Return the share of the whole that scoring and packing alone would take."""
    return (
        f"scoring and packing alone: {part.seconds / whole.seconds:.0%} of it"
        if part and whole
        else ""
    )


def speed(timing: Timing | None) -> str:
    """Return megabytes per second, in words."""
    return f"{timing.megabytes_per_second:.1f} MB/s" if timing else "not measured"


def milliseconds(timing: Timing | None) -> float | None:
    """Return the value for a row; None if nothing was measured."""
    return timing.seconds * 1e3 if timing else None


def or_dash(value: float | None, unit: str) -> str:
    """Return a cell for a table that is not of rows."""
    return "-" if value is None else f"{number(value)} {unit}"
