"""Locks that a forked child finds free.

A child has one thread, the one that forked, and whatever another thread held would stay held in it
for ever. In the child each of these locks is therefore a new one. It may have been held at the
moment of the fork: what it guards is changed in steps after each of which it can be used.
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
        """A free one."""
        self._lock = threading.Lock()
        _locks.add(self)

    def __enter__(self) -> None:
        """Take it."""
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        """Let go of it."""
        self._lock.release()

    def _renew(self) -> None:
        """Be free, in a forked child."""
        self._lock = threading.Lock()


_locks: WeakSet[ForkSafeLock] = WeakSet()


def _renew_all() -> None:
    for lock in _locks:
        lock._renew()


if hasattr(os, "register_at_fork"):  # Windows does not fork
    os.register_at_fork(after_in_child=_renew_all)
