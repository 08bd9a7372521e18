"""The look that all pictures share: light, few lines, readable at the width of a README."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure

INK, QUIET, GRID = "#24292f", "#57606a", "#e6e8eb"
BLUE, ORANGE, GREEN, PURPLE = "#0969da", "#bc4c00", "#1a7f37", "#8250df"
COLOURS = (BLUE, ORANGE, GREEN, PURPLE)
WIDTH_INCHES, DOTS_AN_INCH = 8.4, 150
"""1,260 pixels: about half of that in a README, on a screen of double density."""


def canvas(title: str, subtitle: str, height: float = 4.0) -> tuple[Figure, Axes]:
    """Return a figure with one pair of axes, a title, and a line below it about the measurement."""
    mpl.rcParams.update({"font.size": 12, "text.color": INK, "axes.labelcolor": QUIET})
    figure, axes = pyplot.subplots(figsize=(WIDTH_INCHES, height), layout="constrained")
    axes.set_title(title, loc="left", fontsize=15, fontweight="bold", pad=34)
    axes.annotate(
        subtitle, (0, 1), (0, 14), "axes fraction", "offset points", fontsize=11, color=QUIET
    )
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(QUIET)
    axes.tick_params(colors=QUIET, length=0)
    axes.grid(axis="y", color=GRID)
    axes.set_axisbelow(True)
    return figure, axes


def save(figure: Figure, path: Path) -> None:
    """Save as PNG without the time of drawing, so that the same figures give the same file."""
    figure.savefig(path, dpi=DOTS_AN_INCH, metadata={"Software": None})
    pyplot.close(figure)
