"""WaitingLock: a lock for work that itself waits for something while it holds it."""

from __future__ import annotations

import threading

from rehydrate._concurrency.workers import waiting


class WaitingLock:
    """A ``threading.RLock`` for ``with``. A worker thread gives its slot to other work while it
    waits for it.

    Else all slots of a pool could be held by threads that wait for the lock, while its holder
    waits for a slot to come back from `waiting`.

    >>> with WaitingLock():
    ...     pass
    """

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        """Start free."""
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        """Take the lock."""
        if not self._lock.acquire(blocking=False):
            with waiting():
                self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        """Release the lock."""
        self._lock.release()
