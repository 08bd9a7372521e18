"""OpenAI's prompt cache: automatic, from 1,024 tokens on, in steps of 128.

It matches whole parts (tools, messages, items) from the beginning of a request. The real cache may
also match part of a part, so this one never reads more than the real one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable

from tests.provider.billed import Billed

MINIMUM_TOKENS = 1024
_STEP_TOKENS = 128
_IDLE_SECONDS = 300.0

Part = tuple[object, int]
"""A part of the prompt, and its tokens."""


class PrefixCache:
    """The prefixes of recent requests, by a test's clock."""

    def __init__(self, clock: Callable[[], float], *, bills_writes: bool) -> None:
        self._clock = clock
        self._bills_writes = bills_writes
        self._until: dict[bytes, float] = {}

    def bill(self, model: str, parts: Iterable[Part]) -> Billed:
        now, total, cached_tokens, is_cached = self._clock(), 0, 0, True
        prefix = model.encode()
        for part, tokens in parts:
            total += tokens
            prefix = hashlib.blake2b(prefix + json.dumps(part).encode(), digest_size=16).digest()
            is_cached = is_cached and self._until.get(prefix, now) > now
            if is_cached:
                cached_tokens = total
            self._until[prefix] = now + _IDLE_SECONDS
        read = _stepped(cached_tokens)
        written = max(0, _stepped(total) - read) if self._bills_writes else 0
        return Billed(total - read - written, read, written)


def _stepped(tokens: int) -> int:
    return tokens - tokens % _STEP_TOKENS if tokens >= MINIMUM_TOKENS else 0
