"""Rows spread over threads: each takes the next few rows until none is left.

The engine computes without the interpreter's lock, so threads overlap there. What Python does for
a row (its JSON, the figures) holds the lock: a quarter to a half of a row's time. So a few threads
are all that help one process; more cores are for more processes.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from rehydrate import _engine
from rehydrate._check import check_whole

if TYPE_CHECKING:
    from rehydrate import _native

T = TypeVar("T")

MAX_THREADS = 4
"""More threads than these only wait for the interpreter's lock."""
_TAKEN_ROWS = 8
_SAMPLED_ROWS = 64
_SHORT_CHARS = 8_000
"""Rows whose mean is shorter are done sooner by one thread (benches/python/batch/threads.py)."""


def check_threads(threads: int | None) -> None:
    """Raise InvalidArgumentError for anything but a number of threads, or None."""
    check_whole("threads", threads, 1, 256, or_none=True)


def usable_threads(threads: int | None, rows: _native.ArrowRows, column: str) -> int:
    """Return the number of threads; None means those that help: a thread a core, at most 4, and
    one alone for short texts."""
    if threads is not None:
        return threads
    sample = [len(text) for text in rows.texts(column, 0, _SAMPLED_ROWS) if text is not None]
    if sum(sample) < len(sample) * _SHORT_CHARS:
        return 1
    return min(usable_cores(), MAX_THREADS)


def usable_cores() -> int:
    """Return the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def spread(rows: int, work: Callable[[int, int], list[T]], threads: int) -> list[T]:
    """Return what `work(start, end)` returns for all rows, in order.

    The caller's thread is one of the threads. The first exception ends them all, and is raised.
    """
    results: dict[int, list[T]] = {}
    starts = deque(range(0, rows, _TAKEN_ROWS))  # its popleft is atomic
    failures: list[BaseException] = []

    def take() -> int | None:
        try:
            return starts.popleft()
        except IndexError:
            return None

    def run() -> None:
        was_alone = _engine.set_alone(True)
        try:
            while not failures and (start := take()) is not None:
                results[start] = work(start, min(start + _TAKEN_ROWS, rows))
        except BaseException as failure:
            failures.append(failure)
        finally:
            _engine.set_alone(was_alone)

    helpers = [
        threading.Thread(target=run, name="rehydrate-batch", daemon=True)
        for _ in range(min(threads, -(-rows // _TAKEN_ROWS)) - 1)
    ]
    for helper in helpers:
        helper.start()
    run()
    for helper in helpers:
        helper.join()
    if failures:
        raise failures[0]
    return [result for start in range(0, rows, _TAKEN_ROWS) for result in results[start]]
