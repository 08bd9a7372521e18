"""A circuit breaker: what keeps failing is left alone for a while, then tried once."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal

from rehydrate._concurrency.locks import ForkSafeLock

State = Literal["closed", "open", "half-open"]


class Breaker:
    """Opens after `failures_to_open` failures in a row; after `cool_down_s` lets one call try.

    closed --failures--> open --cool-down--> half-open --success--> closed
                           ^------------------failure------|

    >>> breaker = Breaker(failures_to_open=2, cool_down_s=30.0)
    >>> breaker.failed("no route to host"), breaker.failed("no route to host")
    (None, None)
    >>> breaker.state, breaker.allows()
    ('open', False)
    """

    def __init__(
        self,
        *,
        failures_to_open: int,
        cool_down_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start closed; `clock` tells seconds."""
        self._failures_to_open = failures_to_open
        self._cool_down_s = cool_down_s
        self._clock = clock
        self._lock = ForkSafeLock()
        self._failures = 0
        self._blocked_until: float | None = None
        self._last_failure = ""

    @property
    def state(self) -> State:
        """Whether calls are let through ("half-open": one of them)."""
        with self._lock:
            return self._state()

    def allows(self) -> bool:
        """Whether a call may be made now; in the half-open state the next caller has to wait
        until this one's outcome is known, or for another cool-down."""
        with self._lock:
            state = self._state()
            if state == "half-open":
                self._blocked_until = self._clock() + self._cool_down_s
            return state != "open"

    def succeeded(self) -> None:
        """A call went well."""
        with self._lock:
            self._failures = 0
            self._blocked_until = None

    def failed(self, why: str) -> None:
        """A call failed."""
        with self._lock:
            self._failures += 1
            self._last_failure = why
            if self._failures >= self._failures_to_open:
                self._blocked_until = self._clock() + self._cool_down_s

    def __str__(self) -> str:
        """The last failure, and for how long calls are refused."""
        with self._lock:
            left_s = max(0.0, (self._blocked_until or 0.0) - self._clock())
            times = "" if self._failures < 2 else f"{self._failures} failures in a row, the last "
            return f"{times}{self._last_failure}; tried again in {left_s:.0f} s"

    def _state(self) -> State:
        if self._blocked_until is None:
            return "closed"
        return "open" if self._clock() < self._blocked_until else "half-open"
