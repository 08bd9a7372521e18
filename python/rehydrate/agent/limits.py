"""TurnLimits: how many steps, seconds and dollars a turn may take."""

from __future__ import annotations

import math
from dataclasses import dataclass

from rehydrate.errors import InvalidArgumentError


@dataclass(frozen=True, slots=True)
class TurnLimits:
    """Limits of one turn; None means no limit.

    Steps and dollars are checked before each request to the model, so the tool calls of the last
    reply still run. The time limit stops a turn anywhere. Tokens are limited by the Context's
    budget. Raises InvalidArgumentError for a value out of range.

    >>> TurnLimits(steps=3, timeout=60, dollars=0.25).steps
    3
    """

    steps: int = 50
    """The maximum number of requests to the model."""
    timeout: float | None = None
    """Seconds for the whole turn."""
    dollars: float | None = None
    """The model is not asked again once its replies cost this much."""
    tool_timeout: float | None = 120.0
    """Seconds for one tool call, unless the tool has a timeout of its own."""
    parallel_calls: int = 8
    """The maximum number of tool calls of one reply that run at the same time."""

    def __post_init__(self) -> None:
        """Refuse a value out of range."""
        for name in ("steps", "parallel_calls"):
            count = getattr(self, name)
            if type(count) is not int or count < 1:
                raise InvalidArgumentError(
                    f"limits: {name} is {count!r}; pass a whole number from 1 up"
                )
        for name in ("timeout", "dollars", "tool_timeout"):
            value = getattr(self, name)
            if value is not None and not (is_finite_number(value) and value > 0):
                raise InvalidArgumentError(
                    f"limits: {name} is {value!r}; pass a number above 0, or None for no limit"
                )


def is_finite_number(value: object) -> bool:
    """Return whether a value is a finite int or float; a bool is no number.

    >>> is_finite_number(0.5), is_finite_number(float("nan")), is_finite_number(True)
    (True, False, False)
    """
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and math.isfinite(value)  # type: ignore[arg-type]
