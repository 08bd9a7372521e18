"""Once: what must be done, exactly once, whatever is cancelled meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable

import anyio
import anyio.to_thread


class Once:
    """Work that is done exactly once, by whoever comes first: what was said is added to a history
    so."""

    def __init__(self, work: Callable[[], object]) -> None:
        """Take the work; nothing is done yet."""
        self._work = work
        self._lock = threading.Lock()
        self._is_done = False

    def now(self) -> None:
        """Do it here, unless it is done; waits for a thread that is about to."""
        with self._lock:
            if not self._is_done:
                self._is_done = True
                self._work()

    async def in_thread(self) -> None:
        """Do it in a worker thread: a large result takes a while to count."""
        if self._is_done:
            return
        try:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(self.now)
        except BaseException:
            # A shield holds off anyio's cancellation, and not a task.cancel() of asyncio's.
            self.now()
            raise
