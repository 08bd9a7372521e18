"""A worker process of a batch: parts come in on standard input, results go into part files.

A message is a line of JSON, with the length of what follows it: a table in Arrow's stream format.
The answer is a line. When standard input ends, the process does: nobody waits for it any more.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
import time
from pathlib import Path
from typing import IO, Any

from rehydrate import _engine
from rehydrate._text import error_text
from rehydrate.batch.jobs import JobPlan
from rehydrate.batch.parts import write_part
from rehydrate.errors import RehydrateError
from rehydrate.process import cache_limit

_OUT_OF_MEMORY = 137
"""The exit code of a shell's command that the system killed."""

Message = tuple[dict[str, Any], bytes]


def main() -> None:
    """Answer one message after the other, until standard input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what anything prints must not be taken for an answer
    messages: queue.Queue[Message] = queue.Queue()
    threading.Thread(target=_receive, args=(sys.stdin.buffer, messages), daemon=True).start()
    setup, _ = messages.get()
    _engine.set_alone(True)
    cache_limit(setup["cache_bytes"])
    import pyarrow as pa

    pa.set_cpu_count(1)
    plan = JobPlan(setup["job"], _of_one_thread(setup["options"]))
    _answer(answers, {"ready": True})
    while True:
        message, payload = messages.get()
        try:
            rows = pa.ipc.open_stream(payload).read_all()
            del payload
            problem = message.get("problem")
            found = plan.results(rows) if problem is None else plan.failed(rows, problem)
            del rows
            write_part(Path(message["path"]), found)
            _answer(answers, {"cpu_seconds": time.process_time(), "peak_bytes": peak_bytes()})
        except MemoryError:  # a smaller part may do
            os._exit(_OUT_OF_MEMORY)
        except Exception as error:  # rows have their own: this is a full disk, or a bug
            is_own = isinstance(error, (OSError, RehydrateError))
            fault = error_text(error) if not is_own else str(error)
            _answer(answers, {"fault": fault, "is_bug": not is_own})


def _of_one_thread(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options with the model that they name loaded for one thread."""
    name = options.get("embedder", "auto")
    if name in (None, "auto"):
        return options
    from rehydrate.embedding import load_model

    return {**options, "embedder": load_model(name, threads=1)}


def _receive(source: IO[bytes], messages: queue.Queue[Message]) -> None:
    while line := source.readline():
        message = json.loads(line)
        payload = source.read(message["length"])
        if len(payload) < message["length"]:
            break
        messages.put((message, payload))
        del payload
    os._exit(0)  # also in the middle of a part: it is not in its place until it is whole


def _answer(answers: IO[bytes], value: dict[str, Any]) -> None:
    answers.write(json.dumps(value).encode() + b"\n")
    answers.flush()


def peak_bytes() -> int:
    """Return the most memory that this process ever had; 0 where the system does not say."""
    try:
        # ru_maxrss would be that of the process that started this one, if it was larger.
        for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) << 10
    except OSError:
        pass
    try:
        import resource
    except ImportError:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak << 10
