"""Threads for work: reused idle threads, and WorkerPool, which limits how many tasks run at once.

The threads are daemons of our own, not those of an executor: a source that never returns must not
keep the interpreter alive, nor occupy a thread that another source needs.

Few computing threads are better than many: each holds the GIL for up to 5 ms at a time, and the
event loop waits for it. Work that waits for something else (a source, a lock, an embedder) does so
inside `waiting()`, which gives its slot to other work meanwhile. So a slot is held only for
computing, and a source that is slow or hangs delays only its own callers.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from weakref import WeakSet

from rehydrate._concurrency.locks import ForkSafeLock

MAX_IDLE_THREADS = 8
"""Idle threads that stay; any further thread ends when its work is done."""


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
            del task  # else it keeps its objects alive until the next task
            if len(_idle) >= MAX_IDLE_THREADS:
                return
            _idle.append(self)


# A deque's append and pop are atomic: there is no lock that a fork could leave held.
_idle: deque[_Thread] = deque()


def run_in_thread(task: Callable[[], None]) -> None:
    """Start a task that raises nothing, in an idle thread or a new one.

    Raises RuntimeError if no thread can start: there are too many, or the interpreter ends.
    """
    try:
        thread = _idle.pop()
    except IndexError:
        thread = _Thread()
    thread.give(task)


if hasattr(os, "register_at_fork"):  # Windows does not fork
    os.register_at_fork(after_in_child=_idle.clear)  # a child has none of the threads


class WorkerPool:
    """Runs tasks in the order they came, at most `size` at once.

    >>> import threading
    >>> done = threading.Event()
    >>> WorkerPool(2).start(done.set)
    >>> done.wait(10)
    True
    """

    def __init__(self, size: int) -> None:
        """Take the maximum number of running tasks; no thread starts yet."""
        self.size = size
        self._lock = ForkSafeLock()
        self._taken = 0
        self._queued: deque[Callable[[], None]] = deque()
        self._returning: deque[threading.Event] = deque()
        _pools.add(self)

    def start(self, task: Callable[[], None]) -> None:
        """Run a task that raises nothing, as soon as a slot is free.

        Raises RuntimeError if no thread can start; then the task never runs.
        """
        with self._lock:
            if self._taken >= self.size:
                self._queued.append(task)
                return
            self._taken += 1
        self._start(task)

    def withdraw(self, task: Callable[[], None]) -> bool:
        """Remove a task from the queue; return False if it had begun."""
        with self._lock:
            try:
                self._queued.remove(task)
            except ValueError:
                return False
            return True

    def _start(self, task: Callable[[], None]) -> None:
        try:
            run_in_thread(lambda: self._work(task))
        except BaseException:
            with self._lock:
                self._taken -= 1
            raise

    def _work(self, task: Callable[[], None] | None) -> None:
        """Run a task, then those in the queue; keep the slot until the queue is empty."""
        _current.pool = self
        try:
            while task is not None:
                task()
                del task  # else it keeps its objects alive until the next task
                task = self._release_slot()
        finally:
            _current.pool = None

    def _release_slot(self) -> Callable[[], None] | None:
        """Release a slot: give it to a thread that leaves `waiting`, or return the next task."""
        with self._lock:
            if self._returning:
                self._returning.popleft().set()
                return None
            if self._queued:
                return self._queued.popleft()
            self._taken = max(0, self._taken - 1)  # 0 if a forked child ends its parent's work
            return None

    def _give_up_slot(self) -> bool:
        """Give this thread's slot to other work; return False if that failed."""
        if (task := self._release_slot()) is None:
            return True
        try:
            self._start(task)
        except RuntimeError:  # no thread: the task stays first, and this thread keeps the slot
            with self._lock:
                self._taken += 1
                self._queued.appendleft(task)
            return False
        return True

    def _take_slot(self) -> None:
        with self._lock:
            if self._taken < self.size:
                self._taken += 1
                return
            slot = threading.Event()
            self._returning.append(slot)
        slot.wait()

    def _reset_after_fork(self) -> None:
        self._taken = 0
        self._queued.clear()
        self._returning.clear()


class _CurrentPool(threading.local):
    """The pool whose slot this thread holds."""

    pool: WorkerPool | None = None


_current = _CurrentPool()
_pools: WeakSet[WorkerPool] = WeakSet()


@contextmanager
def waiting() -> Iterator[None]:
    """Give this thread's slot to other work while it waits; does nothing outside a pool.

    >>> with waiting():
    ...     pass
    """
    pool = _current.pool
    if pool is None:
        yield
        return
    _current.pool = None
    has_left = pool._give_up_slot()
    try:
        yield
    finally:
        if has_left:
            pool._take_slot()
        _current.pool = pool


def _in_child() -> None:
    """Reset the pools in a forked child: it has one thread, and none of its parent's work runs."""
    _current.pool = None
    for pool in _pools:
        pool._reset_after_fork()


if hasattr(os, "register_at_fork"):  # Windows does not fork
    os.register_at_fork(after_in_child=_in_child)


def usable_cores() -> int:
    """Return the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


COMPUTING = WorkerPool(max(2, min(usable_cores(), 8)))
"""For prompts, compactions and the like. At least two, so that a long task does not block all."""
STORING = WorkerPool(32)
"""For calls of a memory: they wait for a disk, or for the network of a user's own store."""
