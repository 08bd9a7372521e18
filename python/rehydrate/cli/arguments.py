"""Arguments that several commands take: a share of the tokens, a file for a page."""

from __future__ import annotations

import argparse
import math
from pathlib import Path

from rehydrate.cli.output import say

SMALLEST_RATIO = 0.05


def ratio(text: str) -> float:
    """A share of the tokens, as a number or a percentage; too small a one is raised, and said."""
    number = text.strip()
    try:
        share = float(number[:-1]) / 100 if number.endswith("%") else float(number)
    except ValueError:
        share = math.nan
    if not 0 < share <= 1:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no share of the tokens; pass {SMALLEST_RATIO} to 1, such as 0.4 or 40%"
        )
    if share < SMALLEST_RATIO:
        say(f"note: --ratio {text} is raised to {SMALLEST_RATIO}; for less, use --budget")
    return share


def page_file(text: str) -> Path:
    """The file that a page is written to."""
    if text in ("", "-"):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no file for the page; name one, such as page.html"
        )
    return Path(text)


def is_same_file(one: Path, other: Path) -> bool:
    """Whether both name one file that exists."""
    try:
        return one.samefile(other)
    except (OSError, ValueError):
        return False
