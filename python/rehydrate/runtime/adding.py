"""Adding to a context what must not get lost, whatever is cancelled meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import anyio
import anyio.to_thread

from rehydrate.context import Context


class Adding:
    """Entries that are added together and exactly once, by whoever comes first."""

    def __init__(self, context: Context, entries: Sequence[Any]) -> None:
        """Take the entries; nothing is added yet."""
        self._context = context
        self._entries = tuple(entries)
        self._lock = threading.Lock()
        self._is_done = not self._entries

    def now(self) -> None:
        """Add them here, unless that is done; waits for a thread that is about to."""
        with self._lock:
            if not self._is_done:
                self._is_done = True
                self._context.add(*self._entries)

    async def in_thread(self) -> None:
        """Add them in a worker thread: a large result takes a while to count."""
        if self._is_done:
            return
        try:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(self.now)
        except BaseException:
            # A shield holds off anyio's cancellation, and not a task.cancel() of asyncio's.
            self.now()
            raise
