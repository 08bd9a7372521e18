"""Once: what must be done, exactly once, whatever is cancelled meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable

import anyio

from rehydrate._concurrency.handover import hand_over


class Once:
    """Work that is done exactly once, by whoever comes first: what was said is added to a history
    so."""

    def __init__(
        self, work: Callable[[], object], is_short: Callable[[], bool] = lambda: False
    ) -> None:
        """Take the work, and whether it may be done on the event loop; nothing is done yet."""
        self._work = work
        self._is_short = is_short
        self._lock = threading.Lock()
        self._is_done = False

    def now(self) -> None:
        """Do it here, unless it is done; waits for a thread that is about to."""
        with self._lock:
            if not self._is_done:
                self._is_done = True
                self._work()

    async def anow(self) -> None:
        """Do it, in a worker thread where it may take a while: a large result has to be counted."""
        if self._is_done:
            return
        if self._is_short():
            self.now()
            return
        try:
            with anyio.CancelScope(shield=True):
                await hand_over(self.now)
        except BaseException:
            # A shield holds off anyio's cancellation, and not a task.cancel() of asyncio's.
            self.now()
            raise
