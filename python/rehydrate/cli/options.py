"""Options of several commands, their types, and how a command is added."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rehydrate.cli.terminal import say
from rehydrate.formats import FORMATS


def whole(text: str) -> int:
    """Parse a number from 1 up."""
    if not text.strip().isdecimal() or not 1 <= int(text) <= 10_000:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 to 10,000")
    return int(text)


def tokens(text: str) -> int:
    """Parse a number of tokens, from 0 up."""
    return _number(text, 0)


def some_tokens(text: str) -> int:
    """Parse a number of tokens, from 1 up."""
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


SMALLEST_RATIO = 0.05


def ratio(text: str) -> float:
    """Parse a share of the tokens, a number or a percentage; one too small is raised."""
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
    """Return the file that a page is written to."""
    if text in ("", "-"):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no file for the page; name one, such as page.html"
        )
    return Path(text)


def is_same_file(one: Path, other: Path) -> bool:
    """Return whether both paths name one existing file."""
    try:
        return one.samefile(other)
    except (OSError, ValueError):
        return False


def add_command(
    commands: Any,
    name: str,
    *,
    help: str,  # noqa: A002  argparse's word
    description: str,
    epilog: str | None = None,
    run: Callable[[argparse.Namespace], int] | None = None,
) -> argparse.ArgumentParser:
    """Add a command and return its parser; the epilog is printed as it is written.

    Without `run` it is a command with commands of its own, and prints its help.
    """
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=help,
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter if epilog else argparse.HelpFormatter,
    )
    parser.set_defaults(run=run or help_of(parser))
    return parser


def help_of(parser: argparse.ArgumentParser) -> Callable[[argparse.Namespace], int]:
    """Return the function that runs a command with commands of its own: it prints the help."""

    def run(_options: argparse.Namespace) -> int:
        parser.print_help()
        return 0

    return run


def add_output_options(parser: Any, json_help: str) -> None:
    """Add --json and --color."""
    parser.add_argument("--json", action="store_true", help=json_help)
    add_color_option(parser, "default: in a terminal")


def add_color_option(
    parser: Any,
    help: str = "colours (default: in a terminal; NO_COLOR and FORCE_COLOR count)",  # noqa: A002
) -> None:
    """Add --color."""
    parser.add_argument("--color", choices=("auto", "always", "never"), default="auto", help=help)


FILE_FORMATS = [name for name in FORMATS if name != "langchain"]
"""The formats that a file can have."""


def add_format_option(parser: Any) -> None:
    """Add --format."""
    parser.add_argument(
        "--format",
        metavar="NAME",
        default="auto",
        choices=["auto", *FILE_FORMATS],
        help=f"{', '.join(FILE_FORMATS)}; default: detected",
    )
