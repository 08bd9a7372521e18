"""The command and both engines on the same rows, as a Part: `python -m benches.python.batch`."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from benches.python.batch import command, engines
from benches.report.rows import Part, Row, number
from benches.report.size import SIZE


def main() -> None:
    """Measure, and print the Part."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", type=int, nargs="?", default=SIZE.batch_rows)
    parser.add_argument("--table", action="store_true", help="print lines")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "rows"
        source.mkdir()
        engines.write_rows(source, options.rows)
        rows = command_rows(source)
        for row in engine_rows(source, options.rows):
            rows.append(row)
    if options.table:
        for row in rows:
            print(" | ".join(row.cells()))
        return
    real = " and the real ones" if "REHYDRATE_DATA" in os.environ else ""
    about = (
        f"{options.rows:,} generated transcripts of 16 KB{real}, in Parquet; the loop calls "
        "`compact_context` for a slice of them, in the same run. Kept messages are compared row by "
        "row. Each way has both cores: the command two workers, the engines two."
    )
    print(Part("Batches", about, rows).to_json())


def command_rows(source: Path) -> list[Row]:
    """Return the rows of `rehydrate batch` on a folder of tables."""
    found = command.measured(source, command.SLICE)
    loop = found.loop_rows_second
    return [
        Row(
            "`rehydrate batch`, two workers",
            found.rows_second,
            "rows/s",
            more_is_better=True,
            beside=f"the loop {number(loop)} rows/s ({found.rows_second / loop:.2f} x)",
            limit="The two cores: each row is read, scored and written by one of them",
        ),
        Row("its cores", found.cores, "", beside=f"the loop {found.loop_cores:.2f}"),
        Row(
            "its rows by second of a core",
            found.rows_core_second,
            "rows",
            more_is_better=True,
            beside=f"the loop {number(found.loop_rows_core_second)}",
        ),
        Row(
            "memory of all its processes in the last quarter, by the second",
            found.growth,
            "",
            beside=f"{', '.join(f'{mean:,.0f}' for mean in found.memory_mb)} MB by quarters",
        ),
    ]


def engine_rows(source: Path, rows: int) -> list[Row]:
    """Return the rows of both engines, whole and with a worker killed."""
    found = []
    rate, runs = engines.measured_all(source, rows)
    for run in runs:
        name = {"ray": "Ray Data", "spark": "Spark"}[run.engine]
        if run.killed:
            case = f"{name}: rows lost or doubled when a worker is killed"
            found.append(Row(case, 0.0, "", 0.0, beside=f"{run.rows:,} rows"))
            continue
        found.append(
            Row(
                f"{name}, two workers",
                run.rows_second,
                "rows/s",
                more_is_better=True,
                beside=f"the loop {number(rate.rows_s)} rows/s; by second of a worker's core "
                f"{run.rows_core_second:,.0f}, the loop {rate.rows_cpu_s:,.0f}; "
                f"{run.cores:.2f} cores; a worker's MB by quarters {run.quarters}",
                limit="Start of the workers, copies of rows between them and the engine",
            )
        )
        print(found[-1].case, found[-1].value, file=sys.stderr, flush=True)
    return found


if __name__ == "__main__":
    main()
