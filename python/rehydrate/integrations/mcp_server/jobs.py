"""One call of a tool: the Job that it is, its arguments, read one by one, and its Answer.

A job is its steps, and whether anybody still waits.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from threading import Event
from typing import Any, NamedTuple, Self, TypeVar

from rehydrate._concurrency.async_wrappers import hand_over
from rehydrate._concurrency.loops import CancelledError, runner
from rehydrate._concurrency.workers import STORING
from rehydrate._native import as_unicode
from rehydrate._text import as_json
from rehydrate.context.time_words import parse_time_range
from rehydrate.errors import InvalidArgumentError
from rehydrate.prompt.request import TimeRange
from rehydrate.rpc.tool import nearest

T = TypeVar("T")
Report = Callable[[float, float | None, str | None], Awaitable[None]]


class Job:
    """The caller, as the work of one call knows it.

    >>> Job(print).report(1, 2, "half")
    1 2 half
    """

    def __init__(self, tell: Callable[[float, float, str], object] = lambda *_step: None) -> None:
        """Take what gets each step."""
        self._tell = tell
        self._cancelled = Event()

    @property
    def is_cancelled(self) -> bool:
        """Whether nobody waits for the answer any more."""
        return self._cancelled.is_set()

    def cancel(self) -> None:
        """Have the work stop where it can."""
        self._cancelled.set()

    def report(self, done: float, total: float, message: str) -> None:
        """Tell the caller; ``done`` must grow from step to step."""
        self._tell(done, total, message)


async def run_job(work: Callable[[Job], T], report: Report) -> T:
    """Run work in a thread, for asyncio and trio; its steps are reported in order.

    The work must raise nothing of its own.
    """

    def tell(*step: Any) -> None:
        with suppress(CancelledError, RuntimeError):  # nobody listens, or the loop is closed
            runner()(report(*step), None)

    job = Job(tell)
    try:
        return await hand_over(partial(work, job), STORING)
    finally:
        job.cancel()


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
    """The arguments of a call by name, within their schemas; null is the same as left out.

    >>> known = {"limit": {"minimum": 1, "maximum": 50, "default": 5}}
    >>> Arguments({"limit": 500}, known).whole("limit")
    Traceback (most recent call last):
    rehydrate.errors.InvalidArgumentError: limit is 500; send a whole number from 1 to 50
    """

    def __init__(self, given: Mapping[str, Any], known: Mapping[str, Any]) -> None:
        """Take what was sent; raises InvalidArgumentError for a name that the tool has not."""
        for name in given:
            if name not in known:
                meant = nearest(name, known)
                raise InvalidArgumentError(
                    f"there is no argument {shown(name)}{meant}; send {', '.join(known)}"
                )
        self.sent = given
        """As they were sent."""
        self._known = known
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

    def whole(self, name: str) -> int:
        """Return a whole number in the schema's range, which has a default."""
        schema = self._known[name]
        least, most = schema["minimum"], schema["maximum"]
        value = self._given.get(name, schema["default"])
        if isinstance(value, float) and value.is_integer():
            value = int(value)  # JSON has one kind of number
        if type(value) is not int or not least <= value <= most:
            raise InvalidArgumentError(
                f"{name} is {shown(value)}; send a whole number from {least:,} to {most:,}"
            )
        return value

    def choice(self, name: str) -> str | None:
        """Return one of the schema's words; None where none was sent."""
        value = self._given.get(name)
        if value is not None and value not in self._known[name]["enum"]:
            words = ", ".join(map(repr, self._known[name]["enum"]))
            raise InvalidArgumentError(
                f"{name} is {shown(value)}; send one of {words}, or leave it out"
            )
        return value

    def time_range(self, name: str = "time_range") -> TimeRange:
        """Return a range of time; one without limits where none was sent."""
        value = self.text(name, max_chars=200, needed=False)
        return parse_time_range(value, datetime.now(UTC), "UTC") if value.strip() else TimeRange()


def shown(value: object) -> str:
    """Return a value as an error names it, cut where it is long."""
    if isinstance(value, (str, int, float)):
        text = repr(value)
        return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."
    if isinstance(value, list):
        return "an array"
    return "an object"
