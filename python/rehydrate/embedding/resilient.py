"""A circuit breaker, and one call of a caller's function in a thread for a limited time.

The breaker stops calls of a function that keeps failing, then tries it once after a while. An
awaitable result of the function is awaited.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextvars import copy_context
from typing import Any, Literal, Protocol

from rehydrate._concurrency import loops
from rehydrate._concurrency.locks import ForkSafeLock
from rehydrate._concurrency.workers import waiting
from rehydrate._text import OwnMessageError

State = Literal["closed", "open", "half-open"]


class Breaker:
    """Opens after `failures_to_open` failures in a row; after `cool_down` lets one call try.

    closed --failures--> open --cool-down--> half-open --success--> closed
                           ^------------------failure------|

    >>> breaker = Breaker(failures_to_open=2, cool_down=30.0)
    >>> breaker.failed("no route to host"), breaker.failed("no route to host")
    (None, None)
    >>> breaker.state, breaker.allows()
    ('open', False)
    """

    def __init__(
        self,
        *,
        failures_to_open: int,
        cool_down: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start closed; `clock` returns seconds."""
        self._failures_to_open = failures_to_open
        self._cool_down = cool_down
        self._clock = clock
        self._lock = ForkSafeLock()
        self._failures = 0
        self._blocked_until: float | None = None
        self._last_failure = ""

    @property
    def state(self) -> State:
        """Whether calls are allowed ("half-open": one of them)."""
        with self._lock:
            return self._state()

    def allows(self) -> bool:
        """Return whether a call may be made now. In the half-open state only one call is made;
        others wait for its outcome, or for another cool-down."""
        with self._lock:
            state = self._state()
            if state == "half-open":
                self._blocked_until = self._clock() + self._cool_down
            return state != "open"

    def succeeded(self) -> None:
        """Record a call that succeeded."""
        with self._lock:
            self._failures = 0
            self._blocked_until = None

    def failed(self, why: str) -> None:
        """Record a call that failed."""
        with self._lock:
            self._failures += 1
            self._last_failure = why
            if self._failures >= self._failures_to_open:
                self._blocked_until = self._clock() + self._cool_down

    def __str__(self) -> str:
        """Return the last failure, and for how long calls are refused."""
        with self._lock:
            left_s = max(0.0, (self._blocked_until or 0.0) - self._clock())
            times = "" if self._failures < 2 else f"{self._failures} failures in a row, the last "
            return f"{times}{self._last_failure}; tried again in {left_s:.0f} s"

    def _state(self) -> State:
        if self._blocked_until is None:
            return "closed"
        return "open" if self._clock() < self._blocked_until else "half-open"


class UnansweredError(OwnMessageError, TimeoutError):
    """A call that did not return in time."""


class BusyError(UnansweredError):
    """A call that was not made, because too many before it did not return."""


class Abandoned(Protocol):
    """Counts calls that nobody waits for any more."""

    def abandoned(self) -> None:
        """A call is abandoned: it goes on, and nobody waits for it."""

    def finished(self, texts: list[str], found: Any, error: BaseException | None) -> None:
        """An abandoned call is over: its result or its error."""


def call_within(
    function: Callable[[list[str]], Any],
    texts: list[str],
    *,
    wait_s: float | None,
    timeout: float | None,
    abandoned: Abandoned,
) -> Any:
    """Return what `function` returns for `texts`, awaited if it is an awaitable.

    Raises UnansweredError after `wait_s` seconds. The call itself cannot be killed: it goes on in a
    daemon thread, which never keeps the interpreter from exiting, and `abandoned` counts it. An
    awaitable is cancelled after `timeout`.
    """
    call = _Call(function, texts, timeout, abandoned)
    context = copy_context()
    threading.Thread(
        target=context.run, args=(call.make,), name="rehydrate-embedder", daemon=True
    ).start()
    return call.outcome(wait_s)


class _Call:
    def __init__(
        self,
        function: Callable[[list[str]], Any],
        texts: list[str],
        timeout: float | None,
        abandoned: Abandoned,
    ) -> None:
        self._function = function
        self._texts = texts
        self._timeout = timeout
        self._abandoned = abandoned
        self._run = loops.runner()  # set by the thread that calls, not by the one that works
        self._lock = ForkSafeLock()
        self._done = threading.Event()
        self._is_abandoned = False
        self._found: Any = None
        self._error: BaseException | None = None

    def make(self) -> None:
        try:
            self._found = self._function(self._texts)
            if hasattr(self._found, "__await__"):
                self._found = self._run(self._found, self._timeout)
        except BaseException as error:
            self._error = error
        with self._lock:
            self._done.set()
        if self._is_abandoned:
            self._abandoned.finished(self._texts, self._found, self._error)

    def outcome(self, wait_s: float | None) -> Any:
        try:
            with waiting():
                self._done.wait(wait_s)
        finally:  # also where Ctrl-C ends the waiting
            with self._lock:
                self._is_abandoned = not self._done.is_set()
                if self._is_abandoned:
                    self._abandoned.abandoned()
        if self._is_abandoned:
            raise UnansweredError(
                f"no answer within {wait_s:.3g} s; rehydrate.Embedder(timeout=...) waits longer"
            )
        if self._error is not None:
            raise self._error
        return self._found
