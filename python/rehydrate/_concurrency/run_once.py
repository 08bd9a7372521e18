"""RunOnce: work that runs exactly once, even if the task that awaits it is cancelled."""

from __future__ import annotations

import threading
from collections.abc import Callable

from rehydrate._concurrency.async_wrappers import hand_over


class RunOnce:
    """Work for the first caller of `run` or `arun`; each returns when the work is done.

    >>> once = RunOnce(lambda: print("added"))
    >>> once.run()
    added
    >>> once.run()
    """

    def __init__(
        self, work: Callable[[], object], is_short: Callable[[], bool] = lambda: False
    ) -> None:
        """Take the work; ``is_short`` says whether it may run on the event loop."""
        self._work = work
        self._is_short = is_short
        self._lock = threading.Lock()
        self._has_run = False

    def run(self) -> None:
        """Run the work here, unless it has run. If another thread runs it now, wait for that."""
        with self._lock:
            if not self._has_run:
                self._has_run = True
                self._work()

    async def arun(self) -> None:
        """`run` for asyncio and trio, in a worker thread unless the work is short.

        If the caller is cancelled, the work still runs before the cancellation is raised.
        """
        import anyio

        if self._has_run:
            return
        if self._is_short():
            self.run()
            return
        try:
            with anyio.CancelScope(shield=True):
                await hand_over(self.run)
        except BaseException:
            # A shield holds off a cancellation by anyio, not a task.cancel() of asyncio.
            self.run()
            raise
