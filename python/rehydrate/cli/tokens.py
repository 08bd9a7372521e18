"""A number of tokens as it is written on a command line: 20000, 20,000 or 20k."""

from __future__ import annotations

import argparse


def tokens(text: str) -> int:
    """The number, from 0 up."""
    return _number(text, 0)


def some_tokens(text: str) -> int:
    """The number, from 1 up."""
    return _number(text, 1)


def _number(text: str, least: int) -> int:
    number = text.strip().lower().replace(",", "").replace("_", "")
    try:
        count = float(number[:-1]) * 1_000 if number.endswith("k") else float(int(number))
    except ValueError:
        count = -1.0
    if not least <= count < 1e15:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no number of tokens; pass a whole number such as 20000 or 20k"
        )
    return int(count)
