"""Processors: the time that others take from a run, and how many a process may use.

Others are other programs, and the machine's host. A load average counts the run itself, so a
quiet machine looks busy after a minute of measuring. Here the time of this process and of its
descendants that have ended is taken off, workers that a child left running included.
"""

from __future__ import annotations

import ctypes
import os
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

STAT = Path("/proc/stat")
QUIET = 0.05
"""Share of all processors: up to here a machine is quiet."""
SAMPLE_SECONDS = 1.0
_PR_SET_CHILD_SUBREAPER = 36  # prctl(2)


@dataclass(frozen=True, slots=True)
class Moment:
    """Seconds so far: of the clock, of all processors' work, and of this run's own work."""

    clock: float
    work: float
    own: float


def adopt() -> None:
    """Make this process the parent of what its children leave running: their time is the run's."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def now() -> Moment:
    """Return the counters of the machine and of this run."""
    return Moment(time.monotonic(), _work(STAT.read_text(encoding="ascii")), _own())


def others(before: Moment, after: Moment) -> float:
    """Return the share of all processors that others took in between; 0 to 1.

    The kernel counts work in ticks of some milliseconds, so a share of a short time is rough.
    """
    capacity = (after.clock - before.clock) * (os.cpu_count() or 1)
    taken = (after.work - before.work) - (after.own - before.own)
    return min(1.0, max(0.0, taken / capacity)) if capacity else 0.0


def wait_until_quiet(patience: float, watch: Callable[[], Moment] = now) -> float:
    """Wait until others take no more than `QUIET`; return the seconds waited, at most `patience`.

    One sample of `SAMPLE_SECONDS` is taken in any case, and is not counted as waiting.
    """
    waited = 0.0
    while True:
        before = watch()
        time.sleep(SAMPLE_SECONDS)
        if others(before, watch()) <= QUIET or waited >= patience:
            return waited
        waited += SAMPLE_SECONDS


def pin(processors: int) -> None:
    """Leave this process so many processors, the last ones: the first one serves the machine."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-processors:])


def _work(stat: str) -> float:
    """Return the seconds that all processors have worked, or that the host took from them."""
    user, nice, system, _, _, irq, softirq, steal, *_ = map(int, stat.split("\n", 1)[0].split()[1:])
    ticks = user + nice + system + irq + softirq + steal
    return ticks / os.sysconf("SC_CLK_TCK")


def _own() -> float:
    try:
        while os.waitpid(-1, os.WNOHANG) != (0, 0):  # the time of a child counts once it is reaped
            pass
    except ChildProcessError:
        pass
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)
