"""What all turns of an `Interpreter` share: model, tools, `TurnLimits` and `Retry`."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import Random

from rehydrate.agent.models.model import Model, OnText, Reply
from rehydrate.agent.tool_calls import ToolThreads
from rehydrate.agent.tools import Tool
from rehydrate.context.context import Context
from rehydrate.context.thread import ToolHandler
from rehydrate.cost.prices import Price
from rehydrate.errors import InvalidArgumentError, ProviderUnavailableError, RateLimitError
from rehydrate.prompt.ir import CompiledPrompt
from rehydrate.prompt.section import ToolDef


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
    """Return whether a value is a finite int or float; a bool is not a number.

    >>> is_finite_number(0.5), is_finite_number(float("nan")), is_finite_number(True)
    (True, False, False)
    """
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and math.isfinite(value)  # type: ignore[arg-type]


Sleep = Callable[[float], Awaitable[object]]
OnRetry = Callable[[Exception, int, float], None]
"""Gets the error, the number of the next attempt, and the seconds until then."""


@dataclass(frozen=True, slots=True)
class Retry:
    """Attempts and waits after a rate limit, an overload or a lost connection.

    The wait doubles after each failure. A random part of it, at most half, is left out, so that
    many clients do not come back at the same time. If the provider names a time (``retry-after``),
    that is the wait.

    >>> Retry(base_seconds=1).delay(3, None, Random(7)) <= 4
    True
    """

    attempts: int = 5
    """How often one prompt is sent at most; 1 means no retry."""
    base_seconds: float = 0.5
    """The wait before the second attempt; each later wait is twice as long."""
    max_seconds: float = 30.0
    """The longest wait, unless the provider names one."""
    total_seconds: float = 120.0
    """The maximum of all waits for one reply together. A longer wait is not begun: the request has
    failed."""

    def __post_init__(self) -> None:
        """Refuse a value out of range."""
        if type(self.attempts) is not int or self.attempts < 1:
            raise InvalidArgumentError(
                f"retry: attempts is {self.attempts!r}; pass a whole number from 1 up"
            )
        for name in ("base_seconds", "max_seconds", "total_seconds"):
            value = getattr(self, name)
            if not (is_finite_number(value) and value >= 0):
                raise InvalidArgumentError(f"retry: {name} is {value!r}; pass a number from 0 up")

    def delay(self, failures: int, retry_after_seconds: float | None, random: Random) -> float:
        """Return the seconds to wait after this many failures in a row."""
        if retry_after_seconds is not None:
            return max(0.0, retry_after_seconds)
        longest = math.ldexp(self.base_seconds, min(failures - 1, 64))
        return min(longest, self.max_seconds) * random.uniform(0.5, 1.0)


async def reply_with_retries(
    model: Model,
    prompt: CompiledPrompt,
    *,
    retry: Retry,
    random: Random,
    sleep: Sleep,
    on_retry: OnRetry,
    on_text: OnText | None = None,
) -> Reply:
    """Return the model's reply; wait and ask again after a failure that may pass.

    Raises at once an error that a retry cannot help, and the last error if all attempts fail.
    """
    failures, waited = 0, 0.0
    while True:
        try:
            return await model.reply(prompt, on_text=on_text)
        except (RateLimitError, ProviderUnavailableError) as error:
            failures += 1
            delay = retry.delay(failures, error.retry_after_seconds, random)
            if failures >= retry.attempts or waited + delay > retry.total_seconds:
                raise
            on_retry(error, failures + 1, delay)
        waited += delay
        await sleep(delay)


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """The parts that all turns of one `Interpreter` share."""

    model: Model
    tools: dict[str, Tool]
    offered: tuple[ToolDef, ...]
    """Definitions of `tools`, and of the tools that the provider runs itself."""
    jit: Callable[[Context], ToolHandler] | None
    """Makes what answers a context's requests for context, where it has none."""
    limits: TurnLimits
    retry: Retry
    price: Price | None
    random: Random
    sleep: Sleep
    threads: ToolThreads = field(default_factory=ToolThreads)
