"""CPU seconds and memory of a process and its descendants, sampled while it runs (Linux)."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Self

_TICK = os.sysconf("SC_CLK_TCK")


class Process(NamedTuple):
    """A process as it is now. Memory is what it alone holds."""

    pid: int
    parent: int
    command: str
    cpu_seconds: float
    memory_mb: float


class Sample(NamedTuple):
    """A moment of a run."""

    at: float
    processes: list[Process]
    workers: list[Process]
    worker_cpu_seconds: float


class Watch:
    """Samples a process's descendants twice a second; `is_worker` is a word of a worker's command.

    ``seen`` gets each sample.
    """

    def __init__(self, pid: int, is_worker: str, seen: Callable[[Sample], None]) -> None:
        self._pid, self._is_worker, self._seen = pid, is_worker, seen
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._samples: list[Sample] = []
        self._cpu: dict[int, tuple[float, float]] = {}
        """First and last CPU seconds of each process, dead ones too."""
        self._names: dict[int, bool] = {}

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._sample()
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(0.5):
            self._sample()

    def _sample(self) -> None:
        processes = list(descendants(self._pid))
        is_first = not self._samples
        for each in processes:
            # One that came later had no CPU time before the run.
            first = each.cpu_seconds if is_first else 0.0
            self._cpu[each.pid] = (self._cpu.get(each.pid, (first,))[0], each.cpu_seconds)
            self._names[each.pid] = self._names.get(each.pid, False) or self._worker(each)
        workers = [each for each in processes if self._names[each.pid]]
        sample = Sample(time.perf_counter(), processes, workers, self._cpu_of(workers_only=True))
        self._samples.append(sample)
        self._seen(sample)

    def _worker(self, process: Process) -> bool:
        return self._is_worker in process.command

    def _cpu_of(self, *, workers_only: bool) -> float:
        return sum(
            last - first
            for pid, (first, last) in self._cpu.items()
            if not workers_only or self._names[pid]
        )

    def figures(self, wall: float) -> dict[str, Any]:
        """Return CPU seconds, how many workers were busy, and their memory by quarters."""
        begun = self._samples[0].at
        quarters = [0.0] * 4
        for sample in self._samples:
            quarter = min(int((sample.at - begun) / wall * 4), 3)
            for each in sample.workers:
                quarters[quarter] = max(quarters[quarter], each.memory_mb)
        spent = [last - first for pid, (first, last) in self._cpu.items() if self._names[pid]]
        return {
            "all_cpu": self._cpu_of(workers_only=False),
            "worker_cpu": self._cpu_of(workers_only=True),
            "workers": sum(each > 0.1 * wall for each in spent),
            "busiest": max(spent, default=0.0) / wall,
            "worker_mb": quarters,
        }


def descendants(pid: int) -> Iterator[Process]:
    """Yield a process and its descendants."""
    found = {each.pid: each for each in _processes()}
    for each in found.values():
        at: Process | None = each
        while at is not None and at.pid != pid:
            at = found.get(at.parent)
        if at is not None:
            yield each


def _processes() -> Iterator[Process]:
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError, ValueError, IndexError):  # it has ended
                yield _process(folder)


def _process(folder: Path) -> Process:
    fields = (folder / "stat").read_text().rpartition(")")[2].split()
    held = 0
    for line in (folder / "status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            held = int(line.split()[1])
    command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    cpu = (int(fields[11]) + int(fields[12])) / _TICK
    return Process(int(folder.name), int(fields[1]), command, cpu, held / 1024)
