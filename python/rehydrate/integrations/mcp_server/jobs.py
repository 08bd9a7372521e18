"""One call of a tool: the Job that it is, and its Answer.

A job is its steps, and whether anybody still waits.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from threading import Event
from typing import Any, NamedTuple, Self, TypeVar

from rehydrate import _native
from rehydrate._concurrency.async_wrappers import hand_over
from rehydrate._concurrency.loops import CancelledError, runner
from rehydrate._concurrency.workers import STORING
from rehydrate._native import as_unicode
from rehydrate._text import as_json
from rehydrate.context.time_words import parse_time_range
from rehydrate.prompt.request import TimeRange

T = TypeVar("T")
Report = Callable[[float, float | None, str | None], Awaitable[None]]


class Job:
    """The caller, as the work of one call knows it.

    >>> Job(print).report(1, 2, "half")
    1 2 half
    """

    def __init__(self, tell: Callable[[float, float, str], object] = lambda *_step: None) -> None:
        """Take the function that is called with each step."""
        self._tell = tell
        self._cancelled = Event()

    @property
    def is_cancelled(self) -> bool:
        """Whether nobody waits for the answer any more."""
        return self._cancelled.is_set()

    def cancel(self) -> None:
        """Have the work stop if it can."""
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


_MAX_SHOWN = 60


def shown(text: str) -> str:
    """Return a text as an error names it, cut if it is long."""
    return _native.shown(text, _MAX_SHOWN)


def time_range(arguments: _native.ToolArguments) -> TimeRange:
    """Return the argument time_range; a range without limits if none was sent."""
    value = arguments.text("time_range", max_chars=200, needed=False)
    return parse_time_range(value, datetime.now(UTC), "UTC") if value.strip() else TimeRange()
