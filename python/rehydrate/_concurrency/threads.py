"""Kept threads: a call runs in one that is idle, so that no call waits for a thread to start.

They are daemons of our own and not an executor's: a source that never comes back must neither keep
the interpreter alive nor take a place that another source waits for.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue

KEPT = 8
"""So many idle threads stay; what more there were end when they come back."""


class _Thread:
    def __init__(self) -> None:
        self._tasks: SimpleQueue[Callable[[], None]] = SimpleQueue()
        threading.Thread(target=self._work, name="rehydrate-worker", daemon=True).start()

    def give(self, task: Callable[[], None]) -> None:
        self._tasks.put(task)

    def _work(self) -> None:
        while True:
            task = self._tasks.get()
            task()
            del task  # else what it holds stays until the next
            if len(_idle) >= KEPT:
                return
            _idle.append(self)


# A deque's append and pop are atomic: there is no lock that a fork could leave held.
_idle: deque[_Thread] = deque()


def run_in_thread(task: Callable[[], None]) -> None:
    """Start a task that raises nothing, in a thread that is idle or a new one.

    Raises RuntimeError where no thread can be started: too many, or the interpreter ends.
    """
    try:
        thread = _idle.pop()
    except IndexError:
        thread = _Thread()
    thread.give(task)


if hasattr(os, "register_at_fork"):  # Windows does not fork
    os.register_at_fork(after_in_child=_idle.clear)  # a child has none of the threads
