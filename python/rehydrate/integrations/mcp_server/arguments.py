"""The arguments of a call of a tool, read one by one, and its Answer."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Any, NamedTuple, Self

from rehydrate._text import as_json, as_unicode
from rehydrate.context.tool_calls import parse_time_range
from rehydrate.errors import InvalidArgumentError
from rehydrate.prompt.request import TimeRange


class Answer(NamedTuple):
    """The answer to one call."""

    text: str
    structured: dict[str, Any] | None = None
    is_error: bool = False

    @classmethod
    def of(cls, structured: dict[str, Any]) -> Self:
        """Return the object as itself and as JSON, as the protocol asks of servers.

        >>> Answer.of({"handle": "mem_1"}).text
        '{"handle":"mem_1"}'
        """
        text = as_json(structured, allow_nan=False, separators=(",", ":"))
        return cls(text, structured)

    @classmethod
    def of_text(cls, text: str, **more: Any) -> Self:
        """Return a text for a model; the object holds it too, since some clients show only that."""
        clean = as_unicode(text)
        return cls(clean, {"text": clean, **more})

    @classmethod
    def of_error(cls, text: str) -> Self:
        """Return an error that the model can read."""
        return cls(as_unicode(text), None, is_error=True)


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
