"""TurnLimits of a turn, and Retry: when to ask a provider again that gave no answer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random

from rehydrate.errors import InvalidArgumentError


@dataclass(frozen=True, slots=True)
class TurnLimits:
    """How far a turn may go; None is no limit.

    Steps and dollars are looked at before the model is asked, so that the calls of a reply are
    always answered; the time limit and a cancellation stop a turn anywhere. Tokens are the budget
    of the Context. Raises InvalidArgumentError for a value outside its limits.

    >>> TurnLimits(steps=3, timeout=60, dollars=0.25).steps
    3
    """

    steps: int = 50
    """So many times the model is asked."""
    timeout: float | None = None
    """Seconds that the whole turn may take."""
    dollars: float | None = None
    """The model is not asked again once its replies cost so much."""
    tool_timeout: float | None = 120.0
    """Seconds that one call of a tool may take, unless the tool has a limit of its own."""
    parallel_calls: int = 8
    """So many calls of one reply run at the same time."""

    def __post_init__(self) -> None:
        """Refuse what is no limit."""
        for name in ("steps", "parallel_calls"):
            count = getattr(self, name)
            if type(count) is not int or count < 1:
                raise InvalidArgumentError(
                    f"limits: {name} is {count!r}; pass a whole number from 1 up"
                )
        for name in ("timeout", "dollars", "tool_timeout"):
            value = getattr(self, name)
            if value is not None and not (_is_number(value) and value > 0):
                raise InvalidArgumentError(
                    f"limits: {name} is {value!r}; pass a number above 0, or None for no limit"
                )


@dataclass(frozen=True, slots=True)
class Retry:
    """When to ask again after a rate limit, an overload or a lost connection.

    The wait doubles each time, and a random part of it, up to a half, is left out, so that many
    clients do not come back together. A provider that says when it wants to be asked is asked then.

    >>> Retry(base_seconds=1).delay(3, None, Random(7)) <= 4
    True
    """

    attempts: int = 5
    """So many times one prompt is sent; 1 is no retry."""
    base_seconds: float = 0.5
    """Before the second attempt; doubled before each after it."""
    max_seconds: float = 30.0
    """The longest wait that is not the provider's own wish."""
    total_seconds: float = 120.0
    """What all waits for one reply come to at most: what asks for more has failed."""

    def __post_init__(self) -> None:
        """Refuse what is no plan."""
        if type(self.attempts) is not int or self.attempts < 1:
            raise InvalidArgumentError(
                f"retry: attempts is {self.attempts!r}; pass a whole number from 1 up"
            )
        for name in ("base_seconds", "max_seconds", "total_seconds"):
            value = getattr(self, name)
            if not (_is_number(value) and value >= 0):
                raise InvalidArgumentError(f"retry: {name} is {value!r}; pass a number from 0 up")

    def delay(self, failures: int, retry_after_seconds: float | None, random: Random) -> float:
        """Seconds to wait after so many failures in a row."""
        if retry_after_seconds is not None:
            return max(0.0, retry_after_seconds)
        longest = math.ldexp(self.base_seconds, min(failures - 1, 64))
        return min(longest, self.max_seconds) * random.uniform(0.5, 1.0)


def _is_number(value: object) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and math.isfinite(value)  # type: ignore[arg-type]
