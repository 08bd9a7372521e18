"""Worker processes that make the parts of a batch, also when one of them ends.

Each process has a thread here, which gives it parts and waits for the answers. So two parts for
each worker are in memory, and no more. A part whose worker ended is given to a new
one. If that ends too, the part is split, down to the one row that no worker survives: this row has
an error then.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import pyarrow as pa

from rehydrate._text import plural
from rehydrate.batch.parts import Part, PartFolder, write_part
from rehydrate.batch.worker import JobPlan
from rehydrate.errors import FileError, InternalError

CACHE_BYTES = 64 << 20
"""Limit of a worker's cache of analyses: rows of a batch have few texts in common."""
_SENT = 2
"""Parts that a worker has: with one it would wait for the next."""
_TRIES = 2
_STARTS = 3
_MOST_LOST_IN_A_ROW = 50
_ENDED_AFTER_SECONDS = 10
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


class WorkerUse(NamedTuple):
    """The time and memory that the workers of a batch used."""

    cpu_seconds: float = 0.0
    peak_bytes: int = 0
    """The most memory that one of them had."""
    ended: int = 0
    """The number of workers that ended in the middle of a part."""


class Workers:
    """Runs a batch's parts in this many processes."""

    def __init__(
        self,
        count: int,
        folder: PartFolder,
        plan: JobPlan,
        advance: Callable[[int], object],
    ) -> None:
        """Take the number of processes, the folder for the parts, and the job.

        `advance` is called with the rows of each part when it is finished.
        """
        self._count = count
        self._folder = folder
        self._plan = plan
        self._advance = advance
        self._lock = threading.Lock()
        self._taking = threading.Lock()
        self._processes: dict[int, _Process] = {}
        self._failures: list[BaseException] = []
        self._use = WorkerUse()
        self._lost_in_a_row = 0
        self._stopped = False

    def run(self, parts: Iterator[Part]) -> WorkerUse:
        """Make all parts; raises what fails other than a row.

        An exception in here, such as KeyboardInterrupt, ends the workers in the middle of a part.
        """
        threads = [
            threading.Thread(target=self._work, args=(parts,), name="rehydrate-batch", daemon=True)
            for _ in range(self._count)
        ]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                while thread.is_alive():
                    thread.join(0.2)  # short, so that Ctrl-C is heard on every system
                    if self._failures:
                        raise self._failures[0]
        except BaseException:
            self._stop()
            for thread in threads:
                if thread.ident is not None:
                    thread.join(_ENDED_AFTER_SECONDS)
            raise
        if self._failures:
            raise self._failures[0]
        return self._use

    def _stop(self) -> None:
        with self._lock:
            self._stopped = True
            processes = list(self._processes.values())
        for process in processes:
            process.kill()

    def _work(self, parts: Iterator[Part]) -> None:
        try:
            self._make(parts)
        except BaseException as failure:
            if not self._stopped:
                self._failures.append(failure)
        finally:
            if (process := self._processes.pop(threading.get_ident(), None)) is not None:
                process.close()

    def _make(self, parts: Iterator[Part]) -> None:
        """Make parts until none is left, with one more sent than the worker works at."""
        sent: deque[Part] = deque()
        again: deque[Part] = deque()
        while not self._stopped:
            try:
                while len(sent) < _SENT and (part := self._taken(again, parts)) is not None:
                    sent.append(part)
                    self._send(part)
                if not sent:
                    return
                self._receive()
            except _EndedError as error:
                self._count_end()
                ended_in = sent.popleft()  # the others it had not begun
                again.extend(sent)
                sent.clear()
                self._finish(ended_in, _TRIES, str(error))
                self._advance(len(ended_in.table))
            else:
                self._advance(len(sent.popleft().table))

    def _taken(self, again: deque[Part], parts: Iterator[Part]) -> Part | None:
        if again:
            return again.popleft()
        with self._taking:
            return next(parts, None)

    def _finish(self, part: Part, tries: int, ended: str = "") -> None:
        """Make a part, or its rows one by one; with `ended` it had a try already."""
        for _ in range(tries - bool(ended)):
            try:
                self._send(part)
                self._receive()
            except _EndedError as error:
                ended = str(error)
                self._count_end()
            else:
                return
        if len(part.table) == 1:
            self._lose(part, _problem(tries, ended))
            return
        halves = part.halves()
        for half in halves:
            if not self._folder.has(half):  # of the run before
                self._finish(half, _TRIES if len(half.table) == 1 else 1)
        self._folder.join(part, halves)

    def _lose(self, part: Part, problem: str) -> None:
        """Make the part of one row without a worker: an error."""
        with self._lock:
            self._lost_in_a_row += 1
            lost = self._lost_in_a_row
        if lost > _MOST_LOST_IN_A_ROW:
            raise FileError(
                self._folder.path,
                f"{_MOST_LOST_IN_A_ROW} rows one after the other ended their worker process",
                "is there memory enough? Pass fewer --workers; the same command goes on",
            )
        write_part(self._folder.file(part.key), self._plan.failed(part.table, problem))

    def _send(self, part: Part) -> None:
        self._process().send({"path": str(self._folder.file(part.key))}, part.table)

    def _receive(self) -> None:
        """Wait for this thread's worker; raises _EndedError if the process ends."""
        process = self._process()
        try:
            answer = process.receive()
        except _EndedError:
            self._processes.pop(threading.get_ident(), None)
            raise
        if "fault" in answer:
            if answer["is_bug"]:
                raise InternalError(f"a worker process failed: {answer['fault']}")
            raise FileError(
                self._folder.path, answer["fault"], "finished parts stay: the same command goes on"
            )
        process.cpu_seconds, before = answer["cpu_seconds"], process.cpu_seconds
        with self._lock:
            self._lost_in_a_row = 0
            self._use = self._use._replace(
                cpu_seconds=self._use.cpu_seconds + process.cpu_seconds - before,
                peak_bytes=max(self._use.peak_bytes, answer["peak_bytes"]),
            )

    def _count_end(self) -> None:
        with self._lock:
            if self._stopped:
                raise KeyboardInterrupt
            self._use = self._use._replace(ended=self._use.ended + 1)

    def _process(self) -> _Process:
        me = threading.get_ident()
        for attempt in range(_STARTS):
            with self._lock:
                if self._stopped:
                    raise KeyboardInterrupt
                if (process := self._processes.get(me)) is not None:
                    return process
                self._processes[me] = process = _Process()
            try:
                setup = {"job": self._plan.job, "options": dict(self._plan.options)}
                process.send({**setup, "cache_bytes": CACHE_BYTES})
                process.receive()
            except _EndedError as error:
                del self._processes[me]
                if attempt == _STARTS - 1:
                    raise InternalError(
                        f"a worker process ended when it started, {_STARTS} times ({error})"
                    ) from None
            else:
                return process
        raise AssertionError("the last attempt returns or raises")


def _problem(tries: int, ended: str) -> str:
    return (
        f"WorkerEnded: its worker process ended, {plural(tries, 'time')} ({ended}); it may need "
        "more memory than there is"
    )


class _EndedError(Exception):
    """A worker process that ended; the text says how."""


class _Process:
    """One worker process."""

    def __init__(self) -> None:
        # The module search path is the parent's; `-m` would put the current folder before it.
        code = f"import sys; sys.path[:] = {sys.path!r}; from rehydrate.batch import worker"
        alone: dict[str, Any] = (
            {"creationflags": 0x200}  # CREATE_NEW_PROCESS_GROUP
            if sys.platform == "win32"
            else {"process_group": 0}
        )
        self._process = subprocess.Popen(
            [sys.executable, "-c", f"{code}; worker.main()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **_ONE_THREAD},
            **alone,  # Ctrl-C in a terminal is the parent's alone
        )
        self.cpu_seconds = 0.0

    def send(self, message: dict[str, Any], table: pa.Table | None = None) -> None:
        """Send a message, whose answer comes after those of earlier ones."""
        source = self._process.stdin
        assert source is not None
        payload = _stream(table) if table is not None else b""
        with suppress(OSError):  # it has ended, and there is no answer
            source.write(json.dumps({**message, "length": len(payload)}).encode() + b"\n")
            source.write(payload)
            source.flush()

    def receive(self) -> dict[str, Any]:
        """Wait for an answer; raises _EndedError if the process ends."""
        answers = self._process.stdout
        assert answers is not None
        line = answers.readline()
        if not line.endswith(b"\n"):
            self.kill()
            raise _EndedError(_how_ended(self.close()))
        answer: dict[str, Any] = json.loads(line)
        return answer

    def kill(self) -> None:
        """End the process now."""
        self._process.kill()

    def close(self) -> int:
        """Let the process end by itself; return its exit code."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()
        return self._process.wait()


def _stream(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def _how_ended(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"signal {-code}, {signal.Signals(-code).name}"
    except ValueError:
        return f"signal {-code}"
