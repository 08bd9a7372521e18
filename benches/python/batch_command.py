"""`rehydrate batch` beside a plain loop: rows a second, cores, memory over time, equal results.

    python -m benches.python.batch_command [ROWS] [--slice 4000] [--workers N]

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
from typing import Any

import pyarrow.parquet as pq

import rehydrate
from benches.python.inputs import ROOT
from benches.python.many_transcripts import write_parquet

SAMPLED_EVERY_SECONDS = 0.25
QUARTERS = 4


def run_command(given: Path, out: Path, workers: int | None) -> tuple[dict[str, Any], list[int]]:
    """Run the command; return its report, and the memory of all its processes over time."""
    command = [sys.executable, "-m", "rehydrate", "batch", str(given), "-o", str(out), "--json"]
    command += ["--workers", str(workers)] if workers else []
    memory = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as run:
        assert run.stdout is not None
        while run.poll() is None:
            memory.append(sum(map(resident_bytes, family(run.pid))))
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


def resident_bytes(pid: int) -> int:
    """Return the memory of a process; 0 if it has ended, or where there is no /proc."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


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
    """Return numbers and rows of whole row groups, evenly over the table."""
    file = pq.ParquetFile(given)
    sizes = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
    starts = [sum(sizes[:group]) for group in range(len(sizes))]
    every = max(1, sum(sizes) // count)
    numbers: list[int] = []
    rows: list[dict[str, Any]] = []
    for group in range(0, len(sizes), every):
        numbers += range(starts[group], starts[group] + sizes[group])
        rows += file.read_row_group(group).to_pylist()
    return numbers, rows


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("rows", type=int, nargs="?", default=20_000)
    parser.add_argument("--slice", type=int, default=4_000, help="rows of the loop")
    parser.add_argument("--workers", type=int)
    parser.add_argument("--given", type=Path, help="a table that is there already")
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        given, out = options.given or Path(folder, "given.parquet"), Path(folder, "out.parquet")
        if options.given is None:
            write_parquet(given, options.rows, real="REHYDRATE_DATA" in os.environ)
        load = os.getloadavg()[0]
        report, memory = run_command(given, out, options.workers)
        numbers, rows = some_rows(given, options.slice)
        kept, seconds, cores = loop(rows)
        found = pq.read_table(out, columns=["kept"])["kept"]
        assert [found[number].as_py() for number in numbers] == kept
    print(f"{report['rows']:,} rows, {report['errors']:,} of them bad; load before {load:.1f}")
    command_cpu = report["use"]["cpu_seconds"]
    ways = [
        (f"rehydrate batch, {report['workers']} workers", report["rows"], report["seconds"]),
        (f"a loop, {len(rows):,} of the rows", len(rows), seconds),
    ]
    for (name, count, took), cpu in zip(ways, (command_cpu, cores * seconds), strict=True):
        print(
            f"{name:32} {count / took:8,.0f} rows/s  {cpu / took:.2f} cores  "
            f"{count / cpu:8,.0f} rows/s of a core  {took:.0f} s"
        )
    print(f"the kept messages of these {len(rows):,} rows are equal")
    steps = [memory[at * len(memory) // QUARTERS :] for at in range(QUARTERS)]
    means = [
        sum(part[: len(memory) // QUARTERS]) // max(1, len(memory) // QUARTERS) for part in steps
    ]
    shown = ", ".join(f"{mean >> 20:,}" for mean in means)
    print(
        f"memory of all processes by quarters of the time: {shown} MB; {max(memory) >> 20:,} MB at "
        f"most; {report['use']['peak_bytes'] >> 20:,} MB in a worker"
    )


if __name__ == "__main__":
    main()
