"""OpenAI's prompt cache: automatic, from 1,024 tokens on, in steps of 128.

What counts is the longest run of whole parts (tools, messages, items) that a request began with
before; the real one may match a part of a part too, so this one never finds more than it.
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
"""What stands in the prompt, and its tokens."""


class PrefixCache:
    """What requests began with lately, on a clock of the test's."""

    def __init__(self, clock: Callable[[], float], *, bills_writes: bool) -> None:
        self._clock = clock
        self._bills_writes = bills_writes
        self._until: dict[bytes, float] = {}

    def bill(self, model: str, parts: Iterable[Part]) -> Billed:
        now, total, known_tokens, is_known = self._clock(), 0, 0, True
        prefix = model.encode()
        for told, tokens in parts:
            total += tokens
            prefix = hashlib.blake2b(prefix + json.dumps(told).encode(), digest_size=16).digest()
            is_known = is_known and self._until.get(prefix, now) > now
            if is_known:
                known_tokens = total
            self._until[prefix] = now + _IDLE_SECONDS
        read = _stepped(known_tokens)
        written = max(0, _stepped(total) - read) if self._bills_writes else 0
        return Billed(total - read - written, read, written)


def _stepped(tokens: int) -> int:
    return tokens - tokens % _STEP_TOKENS if tokens >= MINIMUM_TOKENS else 0
