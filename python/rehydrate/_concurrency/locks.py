"""Locks that a forked child finds free.

A child has one thread, the one that forked; a lock held by another thread would stay held in it for
ever. So each of these locks is replaced by a new one in the child. It may have been held at the
moment of the fork: what it guards changes in steps, and is usable after each.
"""

from __future__ import annotations

import os
import threading
from weakref import WeakSet


class ForkSafeLock:
    """A ``threading.Lock`` that no fork leaves held, for ``with``.

    >>> with ForkSafeLock():
    ...     pass
    """

    __slots__ = ("__weakref__", "_lock")

    def __init__(self) -> None:
        """Start free."""
        self._lock = threading.Lock()
        _locks.add(self)

    def __enter__(self) -> None:
        """Take the lock."""
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        """Release the lock."""
        self._lock.release()

    def _renew(self) -> None:
        """Replace the lock in a forked child, so that it is free."""
        self._lock = threading.Lock()


_locks: WeakSet[ForkSafeLock] = WeakSet()


def _renew_all() -> None:
    for lock in _locks:
        lock._renew()


if hasattr(os, "register_at_fork"):  # Windows does not fork
    os.register_at_fork(after_in_child=_renew_all)
