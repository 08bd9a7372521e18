"""run_batch: a folder or a table in, one Parquet file of results out, by worker processes."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from rehydrate.errors import FileError, MissingPackageError

try:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
except ImportError:
    raise MissingPackageError("rehydrate[batch]", "reads and writes Parquet files") from None

from rehydrate import __version__
from rehydrate._check import check_whole
from rehydrate._concurrency.workers import usable_cores
from rehydrate._native import plain
from rehydrate.batch.inputs import PARTS, Source, found_in, id_type, row_count, rows_of
from rehydrate.batch.parts import Part, PartFolder, joined
from rehydrate.batch.worker import JobPlan
from rehydrate.batch.workers import Workers, WorkerUse

SHOWN_ERRORS = 5
_SUMS = ("tokens", "before_tokens", "after_tokens", "cuts", "needed", "violations")
_MEANS = ("used_later", "lines", "laid_down", "last_turn", "cost_ratio")


class RowError(NamedTuple):
    """A row without a result, and why."""

    id: str
    error: str


class BatchReport(NamedTuple):
    """The figures of a batch."""

    output: Path
    output_bytes: int
    rows: int
    taken_rows: int
    """Rows whose results an earlier run had made."""
    lost_parts: int
    """Parts of an earlier run that were not used: their inputs had changed."""
    errors: int
    first_errors: tuple[RowError, ...]
    sums: Mapping[str, int]
    """Sums of the columns of whole numbers."""
    means: Mapping[str, float]
    """Means of the columns of shares, over the rows that have one."""
    seconds: float
    workers: int
    use: WorkerUse

    @property
    def rows_per_second(self) -> float:
        """Rows of this run by the seconds it took."""
        return (self.rows - self.taken_rows) / max(self.seconds, 1e-9)

    @property
    def cores(self) -> float:
        """Cores that the workers used on average."""
        return self.use.cpu_seconds / max(self.seconds, 1e-9)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        more = {"rows_per_second": self.rows_per_second, "cores": self.cores}
        return {**plain(self), **more}


class Watcher(Protocol):
    """Hears how a batch goes on."""

    def begin(self, rows: int | None) -> None:
        """Take the number of rows, if it is known."""

    def take(self, rows: int) -> None:
        """Count rows that an earlier run had finished."""

    def advance(self, rows: int) -> None:
        """Count rows that are finished now."""


def run_batch(
    source: Path,
    output: Path,
    job: str,
    options: Mapping[str, Any],
    *,
    workers: int | None = None,
    restart: bool = False,
    watcher: Watcher | None = None,
) -> BatchReport:
    """Make a row of results for each conversation in a folder or a table, in one Parquet file.

    Finished parts are in a folder next to the file until it is whole. A run that ended before goes
    on with them; `restart` deletes them first. Each worker is a process with one thread.

    Raises FileError for an input that cannot be one, for parts of other options, and if something
    cannot be written; MissingPackageError without pyarrow; InvalidArgumentError for an option
    outside its limits.
    """
    check_whole("workers", workers, 1, 1_024, or_none=True)
    count = usable_cores() if workers is None else workers
    try:
        _check_output(source, output)
        return _run(source, output, JobPlan(job, options), count, restart, watcher)
    except OSError as error:  # a full disk, or a folder without the right to write
        remedy = "make room, or name another file; the same command goes on with finished parts"
        problem = f"cannot be written: {error.strerror or error}"
        raise FileError(error.filename or output, problem, remedy) from error


def _run(
    source: Path,
    output: Path,
    plan: JobPlan,
    count: int,
    restart: bool,
    watcher: Watcher | None,
) -> BatchReport:
    started = time.perf_counter()
    found = _Found.of(found_in(source, without=output))
    if not found.files:
        raise FileError(source, "holds no file that a batch reads", "name another folder")
    empty = plan.empty(found.id_type)
    identity = {
        "rehydrate": __version__,
        "input": str(source.resolve()),
        "job": plan.job,
        "options": json.loads(json.dumps(plan.options)),
    }
    folder = PartFolder(output.with_name(output.name + PARTS), identity)
    old = folder.open(restart=restart)
    if watcher is not None:
        watcher.begin(found.rows)
    keys: list[str] = []
    taken_parts = taken_rows = 0

    def unfinished() -> Iterator[Part]:
        nonlocal taken_parts, taken_rows
        for rows in rows_of(found_in(source, without=output), alone=found.is_table):
            part = Part.of(rows, folder.key)
            keys.append(part.key)
            if old and folder.has(part):
                taken_parts += 1
                taken_rows += len(part.table)
                if watcher is not None:
                    watcher.take(len(part.table))
            else:
                yield part

    try:
        advance = (lambda _: None) if watcher is None else watcher.advance
        use = Workers(count, folder, plan, advance).run(unfinished())
        summary = _Summary()
        for table in joined((folder.file(key) for key in keys), output, empty):
            summary.add(table)
    except BaseException:
        folder.clean()
        folder.close()
        raise
    folder.remove()
    return BatchReport(
        output=output,
        output_bytes=output.stat().st_size,
        rows=summary.rows,
        taken_rows=taken_rows,
        lost_parts=old - taken_parts,
        errors=summary.errors,
        first_errors=tuple(summary.first_errors),
        sums=summary.sums,
        means={name: total / n for name, (total, n) in summary.shares.items()},
        seconds=time.perf_counter() - started,
        workers=count,
        use=use,
    )


class _Found(NamedTuple):
    """The kind and size of the input, by a first look that reads no conversation."""

    files: int
    rows: int | None
    is_table: bool
    """The whole input is one table, which keeps its ids."""
    id_type: pa.DataType

    @classmethod
    def of(cls, sources: Iterator[Source]) -> _Found:
        files = 0
        rows: int | None = 0
        first: Source | None = None
        for source in sources:
            files += 1
            first = first or source
            here = row_count(source) if rows is not None else None
            rows = rows + here if rows is not None and here is not None else None
        # A file that was named itself, not one in a folder.
        is_table = first is not None and files == 1 and first.is_alone
        is_table = is_table and first is not None and first.kind != "conversation"
        kind = id_type(first) if is_table and first is not None else pa.string()
        return cls(files, rows, is_table, kind)


class _Summary:
    """Figures of all rows."""

    def __init__(self) -> None:
        self.rows = self.errors = 0
        self.first_errors: list[RowError] = []
        self.sums: dict[str, int] = {}
        self.shares: dict[str, tuple[float, int]] = {}

    def add(self, table: pa.Table) -> None:
        self.rows += len(table)
        has_error = pc.is_valid(table["error"])
        self.errors += pc.sum(has_error).as_py() or 0
        for row in (
            table.filter(has_error)
            .slice(0, SHOWN_ERRORS - len(self.first_errors))
            .select(["id", "error"])
            .to_pylist()
        ):
            self.first_errors.append(RowError(str(row["id"]), row["error"]))
        for name in _SUMS:
            if name in table.column_names:
                self.sums[name] = self.sums.get(name, 0) + (pc.sum(table[name]).as_py() or 0)
        for name in _MEANS:
            if name in table.column_names and (n := pc.count(table[name]).as_py()):
                total, before = self.shares.get(name, (0.0, 0))
                self.shares[name] = (total + pc.sum(table[name]).as_py(), before + n)


def _check_output(source: Path, output: Path) -> None:
    if output.is_dir():
        raise FileError(output, "is a folder", "name a file, such as out.parquet")
    if not output.parent.is_dir():
        raise FileError(output.parent, "no such folder", "make it first, or name another file")
    if output.exists() and source.exists() and output.samefile(source):
        raise FileError(output, "is the input", "name another file")
    if output.is_file() and output.stat().st_size and not _is_a_result(output):
        raise FileError(output, "is there and isn't a batch's result", "name another file")


def _is_a_result(path: Path) -> bool:
    """Return whether a file has the columns that each batch writes."""
    try:
        return {"id", "error"} <= set(pq.read_schema(path).names)
    except pa.ArrowException:
        return False
