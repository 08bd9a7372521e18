"""What a batch computes of its rows: each job is a function of a table and of its options.

A worker process finds its job by name (``module:function``), so that a job may be of any module.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from rehydrate._document import decoded, document_of
from rehydrate.batch.compaction import compact_batch, count_tokens_batch, row_error
from rehydrate.batch.json_lines import LineRow
from rehydrate.batch.retention import retention_batch
from rehydrate.errors import FileError, InvalidArgumentError

if TYPE_CHECKING:
    import pyarrow as pa

COMPACT = f"{__name__}:compacted"
COUNT = f"{__name__}:counted"
RETENTION = f"{__name__}:measured"

Job = Callable[["pa.Table", Mapping[str, Any]], "pa.Table"]


def compacted(rows: pa.Table, options: Mapping[str, Any]) -> pa.Table:
    """Return what `compact_batch` makes of these rows."""
    import pyarrow as pa

    return pa.table(compact_batch(rows, threads=1, **options))


def counted(rows: pa.Table, options: Mapping[str, Any]) -> pa.Table:
    """Return what `count_tokens_batch` makes of these rows."""
    import pyarrow as pa

    return pa.table(count_tokens_batch(rows, threads=1, **options))


def measured(rows: pa.Table, options: Mapping[str, Any]) -> pa.Table:
    """Return what `retention_batch` makes of these rows."""
    import pyarrow as pa

    return pa.table(retention_batch(rows, threads=1, **options))


def job_named(name: str) -> Job:
    """Return the job of this name."""
    module, _, function = name.partition(":")
    return cast(Job, getattr(import_module(module), function))


class JobPlan(NamedTuple):
    """A job and its options."""

    job: str
    options: Mapping[str, Any]

    def results(self, rows: pa.Table) -> pa.Table:
        """Return the result of each row, whose conversation may be in a file or a line."""
        table, problems = _with_messages(rows)
        return _with_errors(job_named(self.job)(table, self.options), problems)

    def failed(self, rows: pa.Table, problem: str) -> pa.Table:
        """Return a result for each row that says this problem."""
        table = _table(rows["id"], [None] * len(rows), [None] * len(rows))
        found = job_named(self.job)(table, self.options)
        return _with_errors(found, dict.fromkeys(range(len(rows)), problem))

    def empty(self, id_type: pa.DataType) -> pa.Table:
        """Return the result of no rows; raises InvalidArgumentError for a wrong option."""
        import pyarrow as pa

        return job_named(self.job)(_table(pa.array([], id_type), [], []), self.options)


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
                line = LineRow.read(rows["line"][row].as_py())
                texts[row], queries[row] = line.messages, line.query
                if line.id is not None:
                    table, mark, _ = ids[row].rpartition("#")
                    ids[row] = f"{table}{mark}{line.id}"
        except Exception as error:  # a row's error is its own
            problems[row] = row_error(error)
    return _table(ids, texts, queries), problems


def _table(ids: Any, texts: list[str | None], queries: list[str | None]) -> pa.Table:
    import pyarrow as pa

    # As bytes: half of a surrogate pair in a text is its row's matter.
    as_bytes = [None if text is None else text.encode("utf-8", "surrogatepass") for text in texts]
    asked = [None if text is None else text.encode("utf-8", "surrogatepass") for text in queries]
    return pa.table(
        {
            "id": ids,
            "messages": pa.array(as_bytes, pa.large_binary()),
            "query": pa.array(asked, pa.large_binary()),
        }
    )


def _with_errors(found: pa.Table, problems: Mapping[int, str]) -> pa.Table:
    if not problems:
        return found
    import pyarrow as pa

    errors = found["error"].to_pylist()
    for row, problem in problems.items():
        errors[row] = problem
    at = found.column_names.index("error")
    return found.set_column(at, found.schema.field(at), pa.array(errors, pa.string()))


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
    text = decoded(data, name)
    if text.lstrip(" \t\r\n").startswith("["):
        return text
    document = document_of(name, text)
    if not document.entries:
        raise InvalidArgumentError(f"{name} holds no messages")
    parts = [text[span.start : span.end].strip(" \t\r\n") for span in document.spans]
    return f"[{','.join(parts)}]"
