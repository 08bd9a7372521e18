"""Blocking calls of tools, which the loop waits for and may stop waiting for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TypeVar

from rehydrate._concurrency.handover import hand_over
from rehydrate._concurrency.locks import ForkSafeLock
from rehydrate.runtime.tools import ToolError

T = TypeVar("T")

MOST_LEFT_BEHIND = 32
"""So many calls of one tool may still be under way that nobody waits for any more."""


class Threads:
    """The threads of one agent's tools: one whose calls never come back is called no more."""

    def __init__(self) -> None:
        """None runs yet."""
        self._lock = ForkSafeLock()
        self._left: Counter[str] = Counter()

    async def run(self, name: str, work: Callable[[], T]) -> T:
        """What `work` returns or raises; ToolError where too many calls of this tool hang."""
        if self._left[name] >= MOST_LEFT_BEHIND:
            raise ToolError(
                f"{MOST_LEFT_BEHIND} calls of {name} have not come back; it is called again once "
                "they have"
            )
        is_back = is_left = False

        def counted() -> T:
            nonlocal is_back
            try:
                return work()
            finally:
                with self._lock:
                    is_back = True
                    self._left[name] -= is_left

        try:
            return await hand_over(counted, None)  # no pool's thread: it may hang
        except BaseException:
            with self._lock:
                is_left = not is_back
                self._left[name] += is_left
            raise
