"""Ids as the providers make them: a prefix and unique characters."""

from __future__ import annotations

import hashlib
from itertools import count


class Ids:
    """Makes the same ids in every run, so that a failing test fails again."""

    def __init__(self) -> None:
        self._numbers = count()

    def new(self, prefix: str, length: int = 24) -> str:
        number = str(next(self._numbers)).encode()
        return prefix + hashlib.blake2b(number, digest_size=32).hexdigest()[:length]
