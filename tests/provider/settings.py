"""Settings of a provider: how large, how strict, and by whose clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.provider.seal import Seal
from tests.provider.weights import Counter, chars


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    window_tokens: int = 200_000
    minimum_prefix: int = 1024
    """The least that Anthropic caches; OpenAI's is 1,024 always."""
    counter: Counter = chars
    clock: Callable[[], float] = time.monotonic
    seal: Seal = field(default_factory=lambda: Seal(b"the provider's own"))
    checks_seals: bool = True
    """Whether thoughts must be the provider's own; not so for conversations from elsewhere."""
    binds_thinking: bool | None = False
    """Whether a thought counts only behind what it was given behind; None: as it is for the model
    that is asked."""
    prefill: bool = False
    """Whether the assistant may speak last, as models before Claude 4.6 allow."""
    needs_tools: bool = True
    """Whether calls and results in the messages need tools in the request."""
    extra_blocks: tuple[str, ...] = ()
    """Types of blocks of a newer API."""
    keeps_bodies: bool = True
    """Whether what is recorded of a request holds its body; many runs need much memory for that."""
    openai_bills_writes: bool = False
    """Whether OpenAI bills cache writes, as for GPT-5.6 and later."""
