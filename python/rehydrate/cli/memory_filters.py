"""Which items are meant: the filters of `rehydrate memory search` and `list`, and how they show."""

from __future__ import annotations

import argparse
import dataclasses
import math
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

from rehydrate.cli.memory_store import checked_text
from rehydrate.memory.items import TIERS, Filters

if TYPE_CHECKING:
    from rehydrate.memory.items import MemoryItem

_AGO = re.compile(r"(\d{1,6})([hdw])")
_UNITS = {"h": "hours", "d": "days", "w": "weeks"}
_LISTS = ("tier", "kind", "source", "session")


def add_filters(parser: argparse.ArgumentParser) -> None:
    """Declare the filters; those that can be repeated mean any of what they name."""
    group = parser.add_argument_group("which items")
    group.add_argument("--tier", action="append", choices=TIERS, help="repeatable, as those below")
    group.add_argument("--kind", action="append", help="as decision, note")
    group.add_argument("--source", action="append", help="the whole of it: notes/decisions.md")
    group.add_argument("--session", action="append")
    group.add_argument(
        "--after", type=moment, metavar="WHEN",
        help="said then or later: 2026-02-17, 2026-02-17T09:30 (UTC unless it says otherwise), or "
        "how long ago: 36h, 7d, 2w",
    )  # fmt: skip
    group.add_argument("--before", type=moment, metavar="WHEN", help="said before that")
    group.add_argument("--min-trust", type=share, metavar="T", help="trusted so far, 0 to 1")


def filters_of(options: argparse.Namespace) -> Filters:
    """The filters that were asked for."""
    filters: dict[str, Any] = {
        name: getattr(options, name) for name in ("after", "before", "min_trust")
    }
    for name in _LISTS:
        values = getattr(options, name)
        if values is not None:
            filters[f"{name}s"] = [checked_text(f"--{name}", value) for value in values]
    return cast(Filters, filters)


def described(options: argparse.Namespace) -> bool:
    """Whether any filter narrows what is asked."""
    return any(getattr(options, name) is not None for name in (*_LISTS, "after", "before"))


def moment(text: str) -> datetime:
    """A day, a time, or how long ago.

    >>> moment("2026-02-17").isoformat()
    '2026-02-17T00:00:00+00:00'
    """
    if ago := _AGO.fullmatch(text.strip()):
        try:
            return datetime.now(UTC) - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        except OverflowError:
            pass
    else:
        try:
            found = datetime.fromisoformat(text.strip())
            return found if found.tzinfo else found.replace(tzinfo=UTC)
        except ValueError:
            pass
    raise argparse.ArgumentTypeError(
        f"{text!r} is no time; pass a day such as 2026-02-17, or how long ago: 36h, 7d, 2w"
    )


def share(text: str) -> float:
    """A number from 0 to 1."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 0 to 1")
    return number


def whole(text: str) -> int:
    """A number from 1 up."""
    if not text.strip().isdecimal() or not 1 <= int(text) <= 10_000:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 to 10,000")
    return int(text)


def as_dict(item: MemoryItem) -> dict[str, Any]:
    """An item with all that is known of it, as JSON can say it."""
    shown: dict[str, Any] = {}
    for field in ("handle", *(field.name for field in dataclasses.fields(item))):
        value = getattr(item, field)
        if isinstance(value, datetime):
            value = value.isoformat()
        elif field in {"links", "linked_from", "redactions"}:
            value = [entry._asdict() for entry in value]
        shown[field] = value
    return shown


def counted(count: int, noun: str) -> str:
    """A number of things.

    >>> counted(1, "item"), counted(2_000, "item")
    ('1 item', '2,000 items')
    """
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def day(item: MemoryItem) -> str:
    """The day on which it was said."""
    return f"{item.time:%Y-%m-%d}" if item.time else "-"
