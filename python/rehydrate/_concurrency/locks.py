"""Locks that are free in a forked child.

A child has one thread, the one that forked. A lock that another thread held at the fork would stay
locked in the child forever, so the child gets a new lock in place of each. The data that such a
lock guards must be valid after each step of a change, as the fork may come between two steps.
"""

from __future__ import annotations

import os
import threading
from weakref import WeakSet


class ForkSafeLock:
    """A ``threading.Lock`` for ``with`` that is free in a forked child.

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
