"""Throughput by threads: bars next to what perfect scaling would give."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tools.draw.style import BLUE, COLOURS, INK, canvas, save

BAR = 0.8
"""Width of the bars of one case together."""


def draw_threads(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Draw rows of threads and per_second, by `case` where rows have one."""
    cases = list(dict.fromkeys(row.get("case", "compactions") for row in rows))
    counts = sorted({row["threads"] for row in rows})
    rate = {(row.get("case", "compactions"), row["threads"]): row["per_second"] for row in rows}
    most = max(counts)
    best = {case: rate[case, counts[0]] * most / counts[0] for case in cases}
    gains = [rate[case, most] / rate[case, counts[0]] for case in cases]
    figure, axes = canvas(
        f"{most} threads do {min(gains):.1f} to {max(gains):.1f} times the work of one",
        "Different conversations, the interpreter's lock free meanwhile; dashes: perfect scaling",
    )
    width = BAR / len(counts)
    for place, threads in enumerate(counts):
        xs = [case + (place - (len(counts) - 1) / 2) * width for case in range(len(cases))]
        heights = [rate.get((case, threads), 0.0) for case in cases]
        label = f"{threads} thread" + ("" if threads == 1 else "s")
        colour = BLUE if len(counts) == 1 else COLOURS[place % len(COLOURS)]
        bars = axes.bar(xs, heights, width * 0.92, color=colour, alpha=0.88, label=label)
        for bar, case in zip(bars, cases, strict=True):
            one = rate.get((case, counts[0]), 0.0)
            if one and threads != counts[0]:
                perfect = one * threads / counts[0]
                left, right = bar.get_x(), bar.get_x() + bar.get_width()
                axes.hlines(perfect, left, right, color=INK, linestyles=(0, (3, 2)), linewidth=1.4)
                gain = f"{bar.get_height() / one:.2f}x"
            else:
                gain = f"{bar.get_height():,.0f}"
            middle = bar.get_x() + bar.get_width() / 2
            place_of_label = (middle, bar.get_height())
            axes.annotate(
                gain,
                place_of_label,
                xytext=(0, -15),
                textcoords="offset points",
                ha="center",
                fontsize=11,
                color="white",
                fontweight="bold",
            )
    axes.set_xticks(range(len(cases)), cases, color=INK)
    axes.set_ylim(0, max(best.values()) * 1.15)
    axes.set_ylabel("compactions a second")
    axes.legend(frameon=False, ncols=len(counts), loc="upper left")
    save(figure, path)
