"""Ids as the providers make them: a prefix, and letters that never come twice."""

from __future__ import annotations

import hashlib
from itertools import count


class Ids:
    """The same ids in every run, so that a test that fails does so again."""

    def __init__(self) -> None:
        self._numbers = count()

    def new(self, prefix: str, length: int = 24) -> str:
        told = str(next(self._numbers)).encode()
        return prefix + hashlib.blake2b(told, digest_size=32).hexdigest()[:length]
