"""Usage, the tokens of a request by what they are billed as, and their money."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from rehydrate.cache.prices import Price

MILLION = 1_000_000


class Usage(NamedTuple):
    """Tokens of one request, or of several."""

    read: int = 0
    """That the cache had."""
    written: int = 0
    """That it is to keep for five minutes, for a fee."""
    written_1h: int = 0
    """The same for an hour."""
    uncached: int = 0
    """That it neither had nor keeps for a fee."""
    output: int = 0

    @property
    def input(self) -> int:
        """The whole prompt."""
        return self.read + self.written + self.written_1h + self.uncached

    @classmethod
    def total(cls, usages: Iterable[Usage]) -> Usage:
        """Of several requests together.

        >>> Usage.total([Usage(read=2), Usage(read=3, output=1)])
        Usage(read=5, written=0, written_1h=0, uncached=0, output=1)
        """
        return cls(*map(sum, zip(cls(), *usages, strict=True)))

    @classmethod
    def billed(cls, usage: Mapping[str, Any]) -> Usage:
        """From the ``usage`` of a provider's response: Anthropic's, OpenAI chat's or Responses'.

        >>> Usage.billed({"prompt_tokens": 1500, "completion_tokens": 9,
        ...               "prompt_tokens_details": {"cached_tokens": 1408}})
        Usage(read=1408, written=0, written_1h=0, uncached=92, output=9)
        """
        if "prompt_tokens" in usage or "input_tokens_details" in usage:
            total = _count(usage, "prompt_tokens") or _count(usage, "input_tokens")
            about = usage.get("prompt_tokens_details") or usage.get("input_tokens_details") or {}
            read, written = _count(about, "cached_tokens"), _count(about, "cache_write_tokens")
            output = _count(usage, "completion_tokens") or _count(usage, "output_tokens")
            return cls(read, written, 0, total - read - written, output)
        written = _count(usage, "cache_creation_input_tokens")
        for_an_hour = _count(usage.get("cache_creation") or {}, "ephemeral_1h_input_tokens")
        return cls(
            _count(usage, "cache_read_input_tokens"),
            written - for_an_hour,
            for_an_hour,
            _count(usage, "input_tokens"),
            _count(usage, "output_tokens"),
        )


def cost(usage: Usage, price: Price) -> float:
    """Dollars: ``p_in * (U + 1.25 W5m + 2 W1h + 0.1 R) + p_out * O``, with the price's own shares.

    >>> cost(Usage(read=100_000, written=2_000, output=500), Price(input=3, output=15))
    0.045
    """
    weighted = (
        usage.uncached
        + price.write * usage.written
        + price.write_1h * usage.written_1h
        + price.read * usage.read
    )
    return (price.input * weighted + price.output * usage.output) / MILLION


def _count(values: Mapping[str, Any], key: str) -> int:
    return int(values.get(key) or 0)
