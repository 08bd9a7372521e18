"""Billed: the tokens that one request is billed for."""

from __future__ import annotations

from typing import NamedTuple


class Billed(NamedTuple):
    """Tokens by price: uncached input, cache reads, cache writes, output."""

    uncached: int = 0
    read: int = 0
    written_5m: int = 0
    written_1h: int = 0
    output: int = 0

    @property
    def prompt(self) -> int:
        """All tokens of the prompt."""
        return self.uncached + self.read + self.written_5m + self.written_1h

    def plus(self, other: Billed) -> Billed:
        return Billed(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))
