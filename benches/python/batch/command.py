"""`rehydrate batch` and a plain loop: rows a second, cores, memory over time, equal results.

    python -m benches.python.batch.command [ROWS] [--slice 4000] [--workers N]

ROWS transcripts are generated, with the real ones of `REHYDRATE_DATA` before them. The loop calls
`compact_context` for some of the same rows, spread over the table, in this process.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pyarrow.parquet as pq

import rehydrate
from benches.python.batch.transcripts import write_parquet
from benches.python.inputs import ROOT
from benches.python.resident import resident_bytes

SAMPLED_EVERY_SECONDS = 0.25
QUARTERS = 4
SLICE = 4_000


def run_command(given: Path, out: Path, workers: int | None) -> tuple[dict[str, Any], list[int]]:
    """Run the command; return its report, and the memory of all its processes over time."""
    command = [sys.executable, "-m", "rehydrate", "batch", str(given), "-o", str(out), "--json"]
    command += ["--workers", str(workers)] if workers else []
    memory = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as run:
        assert run.stdout is not None
        while run.poll() is None:
            memory.append(sum(map(memory_of, family(run.pid))))
            time.sleep(SAMPLED_EVERY_SECONDS)
        report: dict[str, Any] = json.loads(run.stdout.read())
    return report, memory


def family(pid: int) -> Iterator[int]:
    """Yield a process and those that it started."""
    yield pid
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            yield from (int(child) for child in children.read_text().split())
        except OSError:
            continue


def memory_of(pid: int) -> int:
    """Return the memory of a process; 0 if it has ended, or if there is no /proc."""
    try:
        return resident_bytes(pid)
    except OSError:
        return 0


def loop(rows: list[dict[str, Any]]) -> tuple[list[list[int] | None], float, float]:
    """Compact one conversation after the other; return what is kept, the seconds and the cores."""
    kept: list[list[int] | None] = []
    wall, cpu = time.perf_counter(), time.process_time()
    for row in rows:
        try:
            found = rehydrate.compact_context(json.loads(row["messages"]), row["query"])
            kept.append(list(found.indices))
        except (ValueError, TypeError):
            kept.append(None)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return kept, wall, cpu / wall


def some_rows(given: Path, count: int) -> tuple[list[int], list[dict[str, Any]]]:
    """Return numbers and rows of whole row groups, evenly over a table or a folder of them."""
    paths = sorted(given.glob("*.parquet")) if given.is_dir() else [given]
    groups = [
        (file, group, file.metadata.row_group(group).num_rows)
        for file in map(pq.ParquetFile, paths)
        for group in range(file.num_row_groups)
    ]
    sizes = [size for _, _, size in groups]
    starts = [sum(sizes[:at]) for at in range(len(sizes))]
    numbers: list[int] = []
    rows: list[dict[str, Any]] = []
    for at in range(0, len(groups), max(1, sum(sizes) // count)):
        file, group, size = groups[at]
        numbers += range(starts[at], starts[at] + size)
        rows += file.read_row_group(group).to_pylist()
    return numbers, rows


class Measured(NamedTuple):
    """A run of the command, compared with the loop."""

    rows: int
    errors: int
    workers: int
    rows_second: float
    cores: float
    loop_rows: int
    loop_rows_second: float
    loop_cores: float
    memory_mb: list[float]
    """Of all processes, the mean of each quarter of the time."""
    worker_mb: float
    """The most that a worker held."""

    @property
    def rows_core_second(self) -> float:
        """Rows by processor second of the workers."""
        return self.rows_second / self.cores

    @property
    def loop_rows_core_second(self) -> float:
        """The same of the loop."""
        return self.loop_rows_second / self.loop_cores

    @property
    def growth(self) -> float:
        """The memory of the last quarter by that of the second: the first one starts workers."""
        return self.memory_mb[-1] / self.memory_mb[1]


def measured(given: Path, slice_rows: int, workers: int | None = None) -> Measured:
    """Run the command on a table or a folder, then the loop; fail where their results differ."""
    with TemporaryDirectory() as folder:
        out = Path(folder, "out.parquet")
        report, memory = run_command(given, out, workers)
        found = pq.read_table(out, columns=["kept"])["kept"]
        numbers, rows = some_rows(given, slice_rows)
        kept, seconds, cores = loop(rows)
        assert [found[number].as_py() for number in numbers] == kept
    quarter = max(1, len(memory) // QUARTERS)
    parts = [memory[at * len(memory) // QUARTERS :][:quarter] for at in range(QUARTERS)]
    return Measured(
        report["rows"],
        report["errors"],
        report["workers"],
        report["rows"] / report["seconds"],
        report["use"]["cpu_seconds"] / report["seconds"],
        len(rows),
        len(rows) / seconds,
        cores,
        [sum(part) / len(part) / (1 << 20) for part in parts],
        report["use"]["peak_bytes"] / (1 << 20),
    )


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("rows", type=int, nargs="?", default=20_000)
    parser.add_argument("--slice", type=int, default=SLICE, help="rows of the loop")
    parser.add_argument("--workers", type=int)
    parser.add_argument("--given", type=Path, help="a table that is there already")
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        given = options.given or Path(folder, "given.parquet")
        if options.given is None:
            write_parquet(given, options.rows, real="REHYDRATE_DATA" in os.environ)
        load = os.getloadavg()[0]
        found = measured(given, options.slice, options.workers)
    print(f"{found.rows:,} rows, {found.errors:,} of them bad; load before {load:.1f}")
    for name, rate, cores in (
        (f"rehydrate batch, {found.workers} workers", found.rows_second, found.cores),
        (f"a loop, {found.loop_rows:,} of the rows", found.loop_rows_second, found.loop_cores),
    ):
        print(
            f"{name:32} {rate:8,.0f} rows/s  {cores:.2f} cores  "
            f"{rate / cores:8,.0f} rows/s of a core"
        )
    print(f"the kept messages of these {found.loop_rows:,} rows are equal")
    shown = ", ".join(f"{mean:,.0f}" for mean in found.memory_mb)
    print(
        f"memory of all processes by quarters of the time: {shown} MB; "
        f"{found.worker_mb:,.0f} MB at most in a worker"
    )


if __name__ == "__main__":
    main()
