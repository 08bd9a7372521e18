"""A circuit breaker, and one call of a caller's function in a thread for a limited time.

The breaker stops calls of a function that keeps failing, then tries it once after a while. An
awaitable result of the function is awaited.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from typing import Any, Literal

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


def call_within(
    function: Callable[[list[str]], Any],
    texts: list[str],
    *,
    wait_s: float | None,
    timeout: float | None,
    abandoned: Callable[[], None],
    finished: Callable[[list[str], Any, BaseException | None], None],
) -> Any:
    """Return what `function` returns for `texts`, awaited if it is an awaitable.

    Raises UnansweredError after `wait_s` seconds. The call itself cannot be killed: it goes on in a
    daemon thread, which never keeps the interpreter from exiting. `abandoned` is called when nobody
    waits for it any more, and `finished` with its result or its error when such a call is over. An
    awaitable is cancelled after `timeout`.
    """
    run = loops.runner()  # set by the thread that calls, not by the one that works
    lock, done = ForkSafeLock(), threading.Event()
    found: Any = None
    error: BaseException | None = None
    is_abandoned = False

    def make() -> None:
        nonlocal found, error
        try:
            found = function(texts)
            if hasattr(found, "__await__"):
                found = run(found, timeout)
        except BaseException as wrong:
            error = wrong
        with lock:
            done.set()
        if is_abandoned:
            finished(texts, found, error)

    work = partial(copy_context().run, make)
    threading.Thread(target=work, name="rehydrate-embedder", daemon=True).start()
    try:
        with waiting():
            done.wait(wait_s)
    finally:  # also where Ctrl-C ends the waiting
        with lock:
            is_abandoned = not done.is_set()
            if is_abandoned:
                abandoned()
    if is_abandoned:
        raise UnansweredError(
            f"no answer within {wait_s:.3g} s; rehydrate.Embedder(timeout=...) waits longer"
        )
    if error is not None:
        raise error
    return found
