"""Settings of a `StrictProvider`."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.provider.signer import Signer
from tests.provider.token_counter import CountTokens, count_by_chars


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    window_tokens: int = 200_000
    minimum_prefix: int = 1024
    """The shortest prefix that Anthropic caches; OpenAI's is always 1,024."""
    counter: CountTokens = count_by_chars
    clock: Callable[[], float] = time.monotonic
    signer: Signer = field(default_factory=lambda: Signer(b"the provider's own"))
    checks_signatures: bool = True
    """Whether thinking must carry this provider's signature. False for conversations of another."""
    binds_thinking: bool | None = False
    """Whether thinking is valid only after its original prefix; None: depends on the model."""
    prefill: bool = False
    """Whether the last message may be the assistant's, as before Claude 4.6."""
    takes_system: bool = False
    """Whether system messages may be among the others, as since Claude Opus 4.8."""
    needs_tools: bool = True
    """Whether a request with calls or results must define tools."""
    extra_blocks: tuple[str, ...] = ()
    """Block types of a newer API that are accepted."""
    keeps_bodies: bool = True
    """Whether an Exchange keeps the request's body, which takes memory in many runs."""
    openai_bills_writes: bool = False
    """Whether OpenAI bills cache writes, as for GPT-5.6 and later."""
