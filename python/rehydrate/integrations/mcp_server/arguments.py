"""Arguments: those of one call, read one by one; each mistake says what to send instead."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Any

from rehydrate.context.time_range import parse_time_range
from rehydrate.errors import InvalidArgumentError
from rehydrate.prompt.request import TimeRange

MAX_QUERY_CHARS = 2_000
"""A query is a question, not a document."""
_MAX_SHOWN = 60


class Arguments:
    """The arguments of a call by name; null is the same as left out.

    >>> Arguments({"limit": 500}, ["limit"]).whole("limit", 5, 1, 50)
    Traceback (most recent call last):
    rehydrate.errors.InvalidArgumentError: limit is 500; send a whole number from 1 to 50
    """

    def __init__(self, given: Mapping[str, Any], known: Collection[str]) -> None:
        """Take what was sent; raises InvalidArgumentError for a name that the tool has not."""
        check_names(given, known)
        self._given = {name: value for name, value in given.items() if value is not None}

    def text(self, name: str, *, max_chars: int = MAX_QUERY_CHARS, needed: bool = True) -> str:
        """Return a text; "" where it is not needed and was not sent."""
        value = self._given.get(name, "")
        if not isinstance(value, str):
            raise InvalidArgumentError(f"{name} is {shown(value)}; send a string")
        if len(value) > max_chars:
            raise InvalidArgumentError(
                f"{name} has {len(value):,} characters, the limit is {max_chars:,}; send fewer"
            )
        if needed and not value.strip():
            raise InvalidArgumentError(f"{name} is empty; send a string that is not")
        return value

    def texts(self, name: str) -> list[str] | None:
        """Return a list of texts; None where none was sent."""
        values = self._given.get(name)
        if values is None:
            return None
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            raise InvalidArgumentError(f"{name} is {shown(values)}; send an array of strings")
        return values

    def whole(self, name: str, default: int, least: int, most: int) -> int:
        """Return a whole number in this range."""
        value = self._given.get(name, default)
        if isinstance(value, float) and value.is_integer():
            value = int(value)  # JSON has one kind of number
        if type(value) is not int or not least <= value <= most:
            raise InvalidArgumentError(
                f"{name} is {shown(value)}; send a whole number from {least:,} to {most:,}"
            )
        return value

    def choice(self, name: str, choices: Collection[str]) -> str | None:
        """Return one of these words; None where none was sent."""
        value = self._given.get(name)
        if value is not None and value not in choices:
            words = ", ".join(map(repr, choices))
            raise InvalidArgumentError(
                f"{name} is {shown(value)}; send one of {words}, or leave it out"
            )
        return value

    def time_range(self, name: str = "time_range") -> TimeRange:
        """Return a range of time; one without limits where none was sent."""
        value = self.text(name, max_chars=200, needed=False)
        return parse_time_range(value, datetime.now(UTC), "UTC") if value.strip() else TimeRange()


def check_names(given: Mapping[str, Any], known: Collection[str]) -> None:
    """Raise InvalidArgumentError for a name that is not known."""
    for name in given:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            meant = f", did you mean {near[0]!r}?" if near else ""
            raise InvalidArgumentError(
                f"there is no argument {shown(name)}{meant}; send {', '.join(known)}"
            )


def shown(value: object) -> str:
    """Return a value as an error names it, cut where it is long."""
    if isinstance(value, (str, int, float)):
        text = repr(value)
        return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."
    if isinstance(value, list):
        return "an array"
    return "an object"
