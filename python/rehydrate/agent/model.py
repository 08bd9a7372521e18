"""Model: answers a prompt; Reply: its answer, in the provider's form; Retry: asking again;
failure_text: what the log says of a turn that failed, and what to do about it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal, Protocol, runtime_checkable

from rehydrate._check import check_whole
from rehydrate._text import logged_type
from rehydrate.cost.prices import Usage
from rehydrate.errors import (
    BudgetExceededError,
    ContextOverflowError,
    InvalidArgumentError,
    InvalidConversationError,
    ProviderError,
    ProviderUnavailableError,
    RateLimitError,
)
from rehydrate.formats.calls import ToolCall
from rehydrate.messages import Provider
from rehydrate.prompt.ir import CompiledPrompt

Stop = Literal["answer", "calls", "length", "refusal", "pause"]
"""Why the model stopped: its answer is complete; it calls tools; it ran out of output tokens; it or
a filter refused; the provider's own tools paused, and the model goes on when it is asked again."""

OnText = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Reply:
    """A model's reply to one prompt."""

    entries: tuple[Any, ...]
    """Entries for the history, in the provider's own shape, as JSON values: the assistant message
    of Anthropic or OpenAI chat, the output items of Responses. Thinking, signatures and unknown
    blocks are unchanged."""
    text: str = ""
    """The text for the user."""
    calls: tuple[ToolCall, ...] = ()
    """The tool calls, in order."""
    usage: Usage = Usage()  # noqa: RUF009  it is a tuple
    """The tokens that it is billed for."""
    stop: Stop = "answer"
    model: str = ""
    """The model that replied, as the provider names it."""
    id: str = ""
    """The response's id, as the provider names it."""
    input_transformations: tuple[Mapping[str, Any], ...] = field(default=(), hash=False)
    """Changes that the provider made to the prompt, if it was asked to report them:
    ``{"type": "thinking_dropped", "path": "messages.1.content.0", "reason": ...}`` is a thinking
    block that it left out."""


@runtime_checkable
class Model(Protocol):
    """Anything that replies to a prompt that was compiled for its provider."""

    @property
    def provider(self) -> Provider:
        """The provider for which its prompts are compiled."""

    @property
    def name(self) -> str:
        """The model's name, as the provider has it."""

    async def reply(self, prompt: CompiledPrompt, *, on_text: OnText | None = None) -> Reply:
        """Return the reply to a prompt.

        With ``on_text`` the reply is streamed: ``on_text`` gets each piece of text as it arrives.
        Raises ProviderError if there is no reply. It must not retry: the agent loop does.
        Cancelling ends the request.
        """


def check_compiled_for(model: Model, prompt: CompiledPrompt) -> None:
    """Raise InvalidArgumentError for a prompt that was compiled for another provider."""
    if prompt.provider != model.provider:
        raise InvalidArgumentError(
            f"the prompt was compiled for {prompt.provider} and the model takes {model.provider}; "
            f"pass provider={model.provider!r} to Context or compile"
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
    """The most times that one prompt is sent. 1 means no retry."""
    base_seconds: float = 0.5
    """The wait before the second attempt; each later wait is twice as long."""
    max_seconds: float = 30.0
    """The longest wait, unless the provider names one."""
    total_seconds: float = 120.0
    """The maximum of all waits for one reply together. A longer wait is not begun: the request has
    failed."""

    def __post_init__(self) -> None:
        """Refuse a value out of range."""
        check_whole("retry: attempts", self.attempts, 1)
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


_KEYS = {
    "anthropic": "ANTHROPIC_API_KEY or the model's api_key",
    "openai_chat": "OPENAI_API_KEY or the model's api_key",
    "openai_responses": "OPENAI_API_KEY or the model's api_key",
    "gemini": "GEMINI_API_KEY or the model's api_key",
    "bedrock": "AWS's credentials",
}
_KEYLESS = re.compile("api_key|API key|credentials|authentication method")
_CAUSES: dict[type[ProviderError], str] = {
    ContextOverflowError: "the prompt is too long for the model; lower the budget of the Context",
    RateLimitError: "too much was asked of it for now; try again later, or raise Retry(attempts=)",
    ProviderUnavailableError: "it is down, overloaded or out of reach; try again later, or check "
    "base_url and the network",
}


def failure_text(error: Exception, model: str) -> str:
    """Return the cause and the remedy in our own words: a provider's may hold private ones.

    >>> from rehydrate.errors import RequestRefusedError
    >>> failure_text(RequestRefusedError("anthropic", 401, "invalid x-api-key"), "claude-opus-5")
    "anthropic answered 401: it refuses the key; check ANTHROPIC_API_KEY or the model's api_key"
    """
    kind = logged_type(error, "turn")
    if isinstance(error, BudgetExceededError):  # without its figures, which differ each time
        return f"{error.subject} needs more tokens than {error.limit} allows; turn.error says more"
    if isinstance(error, InvalidConversationError):
        rules = ", ".join(sorted({violation.rule for violation in error.violations}))
        return f"the provider would refuse the messages ({rules}); turn.error names each"
    if not isinstance(error, ProviderError):
        return f"{kind}; turn.error says more"
    said = "gave no answer" if error.status is None else f"answered {error.status}"
    return f"{error.provider} {said}: {_cause(error, model)}"


def _cause(error: ProviderError, model: str) -> str:
    key = _KEYS.get(error.provider, "the model's key")
    if error.status is None and error.message.startswith("nothing was sent"):
        is_keyless = _KEYLESS.search(error.message)
        return f"there is no key; set {key}" if is_keyless else "it isn't sent; turn.error says why"
    if error.status == 401:
        return f"it refuses the key; check {key}"
    if error.status == 403:
        return f"the key isn't allowed to do this; check {key}"
    if error.status == 404:
        return f"it has no model {model!r}, or base_url is wrong"
    found = (text for kind, text in _CAUSES.items() if isinstance(error, kind))
    return next(found, "it refuses the request; turn.error says why")
