"""A worker process of a batch: parts come in on standard input, results go into part files.

A message is a line of JSON, with the length of its data: a table in Arrow's stream format. The
answer is a line. When standard input ends, the process does: nobody waits for it any more.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import stat
import sys
import threading
import time
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import IO, Any, NamedTuple

import pyarrow as pa

from rehydrate import _native
from rehydrate._native import Document, file_text
from rehydrate._text import error_text
from rehydrate.batch.compaction import row_error
from rehydrate.batch.inputs import bytes_column, texts_column
from rehydrate.batch.parts import write_part
from rehydrate.errors import FileError, InvalidArgumentError, RehydrateError
from rehydrate.process import cache_limit

COMPACT = "rehydrate.batch.compaction:compact_batch"
COUNT = "rehydrate.batch.compaction:count_tokens_batch"
RETENTION = "rehydrate.batch.compaction:retention_batch"

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
    _native.set_alone(True)
    cache_limit(setup["cache_bytes"])

    pa.set_cpu_count(1)
    plan = JobPlan(setup["job"], _of_one_thread(setup["options"]))
    _answer(answers, {"ready": True})
    while True:
        message, payload = messages.get()
        try:
            rows = pa.ipc.open_stream(payload).read_all()
            del payload
            found = plan.results(rows)
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
    """Return the most memory that this process ever had; 0 if the system does not say."""
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


class JobPlan(NamedTuple):
    """A job, which is a function of a table and of options, by its name; and its options."""

    job: str
    """``module:function``, so that a job may be of any module."""
    options: Mapping[str, Any]

    def results(self, rows: pa.Table) -> pa.Table:
        """Return the result of each row, whose conversation may be in a file or a line."""
        table, problems = _with_messages(rows)
        return _with_errors(self._run(table), problems)

    def failed(self, rows: pa.Table, problem: str) -> pa.Table:
        """Return a result for each row that says this problem."""
        table = _table(rows["id"], [None] * len(rows), [None] * len(rows))
        return _with_errors(self._run(table), dict.fromkeys(range(len(rows)), problem))

    def empty(self, id_type: pa.DataType) -> pa.Table:
        """Return the result of no rows; raises InvalidArgumentError for a wrong option."""

        return self._run(_table(pa.nulls(0, id_type), [], []))

    def _run(self, rows: pa.Table) -> pa.Table:
        module, _, function = self.job.partition(":")
        found = getattr(import_module(module), function)(rows, threads=1, **self.options)
        return pa.RecordBatchReader.from_stream(found).read_all()


def _with_messages(rows: pa.Table) -> tuple[pa.Table, dict[int, str]]:
    """Return the rows with the columns id, messages and query, and the problems by row."""
    problems: dict[int, str] = {}
    if "messages" in rows.column_names:
        return rows, problems
    ids: list[Any] = rows["id"].to_pylist()
    texts: list[str | None] = [None] * len(rows)
    queries: list[str | None] = [None] * len(rows)
    if "problem" in rows.column_names:
        problems = dict(enumerate(rows["problem"].to_pylist()))
        return _table(rows["id"], texts, queries), problems
    for row in range(len(rows)):
        try:
            if "file" in rows.column_names:
                texts[row] = _text_of_file(Path(os.fsdecode(rows["file"][row].as_py())))
            else:
                name, texts[row], queries[row] = _native.json_row(rows["line"][row].as_py())
                if name is not None:
                    table, mark, _ = ids[row].rpartition("#")
                    ids[row] = f"{table}{mark}{name}"
        except Exception as error:  # a row's error is its own
            problems[row] = row_error(error)
    return _table(texts_column(ids), texts, queries), problems


def _table(ids: pa.Array, texts: list[str | None], queries: list[str | None]) -> pa.Table:
    def column(values: list[str | None]) -> pa.Array:
        # As bytes: half of a surrogate pair in a text is its row's matter.
        encoded = [
            None if text is None else text.encode("utf-8", "surrogatepass") for text in values
        ]
        return bytes_column(encoded)

    return pa.table({"id": ids, "messages": column(texts), "query": column(queries)})


def _with_errors(found: pa.Table, problems: Mapping[int, str]) -> pa.Table:
    if not problems:
        return found

    errors = found["error"].to_pylist()
    for row, problem in problems.items():
        errors[row] = problem
    at = found.column_names.index("error")
    return found.set_column(at, found.schema.field(at), texts_column(errors))


def _text_of_file(path: Path) -> str:
    """Return the JSON of the messages in a file, each letter for letter as it is there."""
    name = path.name
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):
            kind = "a folder that cannot be read" if stat.S_ISDIR(mode) else "no regular file"
            raise FileError(name, kind, "make it readable, or leave it out")
        data = path.read_bytes()
    except OSError as error:
        problem = f"cannot be read: {error.strerror}"
        raise FileError(name, problem, "make it readable, or leave it out") from None
    text = file_text(data, name)
    if text.lstrip(" \t\r\n").startswith("["):
        return text
    document = Document(name, text)
    if not document.entries:
        raise InvalidArgumentError(f"{name} holds no messages")
    return f"[{','.join(document.texts())}]"
