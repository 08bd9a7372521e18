"""Resident memory over a long loop of compactions: a rise while the cache fills, then a plateau."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from tools.draw.style import BLUE, INK, QUIET, canvas, save

MIB = 1 << 20
FLAT = 0.05
"""Share of the plateau that the second half may spread over and still be called flat."""


def draw_rss(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Draw rows of t_seconds, rss_bytes and compactions."""
    minutes = [row["t_seconds"] / 60 for row in rows]
    resident = [row["rss_bytes"] / MIB for row in rows]
    half = len(rows) // 2
    plateau = median(resident[half:])
    spread = max(resident[half:]) - min(resident[half:])
    compactions, last = rows[-1]["compactions"], minutes[-1]
    is_flat = spread <= FLAT * plateau
    reported, level = ("Memory stays flat", "plateau") if is_flat else ("Memory", "median")
    figure, axes = canvas(
        f"{reported}: {compactions:,} compactions in {last:.0f} minutes",
        "Resident memory of the process; every conversation is new to it, none is kept",
    )
    axes.fill_between(minutes, resident, color=BLUE, alpha=0.10, linewidth=0)
    axes.plot(minutes, resident, color=BLUE, linewidth=2)
    axes.axhline(plateau, color=INK, linewidth=1, linestyle=(0, (4, 4)), alpha=0.6)
    axes.annotate(
        f"{level} {plateau:.0f} MiB\nsecond half of the run: within {spread:.1f} MiB",
        (last, plateau),
        xytext=(0, 9),
        textcoords="offset points",
        ha="right",
        va="bottom",
        fontsize=11,
        color=INK,
    )
    axes.annotate(
        "the cache fills up",
        (minutes[0], resident[0]),
        xytext=(48, 18),
        textcoords="offset points",
        fontsize=11,
        color=QUIET,
    )
    axes.set_xlim(0, last)
    axes.set_ylim(0, max(resident) * 1.32)
    axes.set_xlabel("minutes")
    axes.set_ylabel("resident memory, MiB")
    save(figure, path)
