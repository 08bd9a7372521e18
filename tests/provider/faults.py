"""Faults on command: what goes wrong, and with which of the next requests."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tests.provider.errors import RefusedError
from tests.provider.replies import Wire

_MESSAGES = {
    "anthropic": {
        429: "This request would exceed the rate limit for your organization.",
        500: "Internal server error",
        529: "Overloaded",
    },
    "openai": {
        429: "Rate limit reached on tokens per min (TPM): Limit 30000. Please try again.",
        500: "The server had an error while processing your request. Sorry about that!",
        503: "The engine is currently overloaded, please try again later",
    },
}


@dataclass(frozen=True, slots=True)
class Fault:
    """A failure of one valid request; an invalid one is refused first."""

    kind: Literal["status", "stall", "drop", "overflow"]
    status: int = 500
    retry_after_seconds: float | None = None
    stall_seconds: float = 0.0
    midway: bool = False
    """Whether it happens after half of the reply; an error status needs a stream for it."""

    def error(self, wire: Wire) -> RefusedError:
        """Return the error response with this status."""
        vendor = "anthropic" if wire == "anthropic" else "openai"
        message = _MESSAGES[vendor].get(self.status, "Something went wrong")
        code = "rate_limit_exceeded" if vendor == "openai" and self.status == 429 else None
        return RefusedError(message, status=self.status, code=code)


FaultOf = Callable[[Mapping[str, Any], Wire], "Fault | None"]
"""Returns the fault of a request, also for each retry. Called on one thread, in the order of
arrival, so it may keep a random generator."""


class FaultPlan:
    """Faults for the next requests, in the order in which they were planned."""

    def __init__(self, decide: FaultOf | None) -> None:
        self._decide = decide
        self._lock = threading.Lock()
        self._planned: deque[Fault | None] = deque()

    def plan(self, fault: Fault, times: int, after: int) -> None:
        with self._lock:
            self._planned.extend([None] * after + [fault] * times)

    def next(self, request: Mapping[str, Any], wire: Wire) -> Fault | None:
        with self._lock:
            if self._planned:
                planned = self._planned.popleft()
                if planned is not None:
                    return planned
        return self._decide(request, wire) if self._decide else None
