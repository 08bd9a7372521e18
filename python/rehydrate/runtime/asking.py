"""Asking the model until it answers, or until it is no use asking again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random

from rehydrate.errors import ProviderUnavailableError, RateLimitError
from rehydrate.ir import CompiledPrompt
from rehydrate.runtime.limits import Retry
from rehydrate.runtime.models.model import Model, OnText, Reply

Sleep = Callable[[float], Awaitable[object]]
OnRetry = Callable[[Exception, int, float], None]
"""Told of an error, the number of the attempt that comes and the seconds until then."""


async def ask(
    model: Model,
    prompt: CompiledPrompt,
    *,
    retry: Retry,
    random: Random,
    sleep: Sleep,
    on_retry: OnRetry,
    on_text: OnText | None = None,
) -> Reply:
    """The model's reply. What no waiting helps against is raised at once, the rest in the end."""
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
