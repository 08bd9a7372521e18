"""Ray Data and Spark on two workers, and a plain loop over `compact_context`: rows a second.

    REHYDRATE_DATA=... python -m benches.python.batch.engines [ROWS] [--engine ray] [--killed]

The rows are those of `transcripts`, and the real ones. Each engine runs in a process of its
own, and reads and writes Parquet; the loop reads a slice. Cores are CPU seconds by wall seconds. A
worker's memory is what it holds alone (RssAnon), at its most in each quarter of the run. Then each
engine runs on a fifth of the rows while one of its workers is killed. All results must be equal.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

import rehydrate
from benches.python.batch.process_tree import Sample, Watch
from benches.python.batch.transcripts import as_batch, real_transcripts, write_parquet

ENGINES = ("ray", "spark")
OPTIONS: Any = {"target_ratio": 0.3}
FILE_ROWS = 2_500
BLOCK_BYTES = 32 << 20
"""Ray's own 128 MB leave one of two workers idle where its store of objects has 1 GB."""
LOOP_ROWS = 5_000
IS_WORKER = {"ray": "ray::", "spark": "pyspark.daemon"}


class Rate(NamedTuple):
    """Rows by wall seconds, and by CPU seconds."""

    rows_s: float
    rows_cpu_s: float


def write_rows(folder: Path, rows: int) -> None:
    """Write files of generated rows, and one of the real ones."""
    for first in range(0, rows, FILE_ROWS):
        path = folder / f"{first:08}.parquet"
        write_parquet(path, min(FILE_ROWS, rows - first), first=first, row_group=500)
    if real := list(real_transcripts()):
        pq.write_table(pa.Table.from_batches([as_batch(real)]), folder / "real.parquet")


def loop(folder: Path, rows: int) -> tuple[Rate, dict[str, Any]]:
    """Compact the first rows and the real ones; return how fast, and what was kept."""
    files = sorted(folder.glob("0*.parquet"))[: -(-rows // FILE_ROWS)]
    files += folder.glob("real.parquet")
    kept: dict[str, Any] = {}
    rehydrate.warm_up()
    wall, cpu = time.perf_counter(), time.process_time()
    for file in files:
        for batch in pq.ParquetFile(file).iter_batches(500):
            for row in batch.to_pylist():
                kept[row["id"]] = compacted(row)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return Rate(len(kept) / wall, len(kept) / cpu), kept


def compacted(row: dict[str, Any]) -> tuple[list[int], int, str] | None:
    """Return the kept indices, the tokens and the messages of a row; None for a bad one."""
    try:
        messages = json.loads(row["messages"])
        found = rehydrate.compact_context(messages, row["query"], **OPTIONS)
    except (TypeError, ValueError):
        return None
    return list(found.indices), found.stats.after_tokens, json.dumps(found.messages)


def run_ray(source: str, target: str) -> Iterator[str]:
    """Start a cluster, then compact all files."""
    os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_AUTH_MODE="disabled")
    import ray

    from rehydrate.integrations.ray_data import RehydrateBatch

    ray.init(
        address="local",
        num_cpus=2,
        include_dashboard=False,
        object_store_memory=1 << 30,
        log_to_driver=False,
        logging_level="error",
    )
    ray.data.DataContext.get_current().enable_progress_bars = False
    ray.data.DataContext.get_current().target_max_block_size = BLOCK_BYTES
    yield "started"
    compact = RehydrateBatch(**OPTIONS, messages=True)
    # A task that reads holds its CPU while it waits for those after it.
    found = ray.data.read_parquet(source, num_cpus=0).map_batches(
        compact, batch_format="pyarrow", batch_size=256
    )
    found.write_parquet(target)
    yield "done"


def run_spark(source: str, target: str) -> Iterator[str]:
    """Start a session, then compact all files."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    from rehydrate.integrations.spark import compact_batches

    builder = SparkSession.builder.master("local[2,4]")
    builder = builder.config("spark.ui.enabled", "false").config("spark.driver.memory", "2g")
    builder = builder.config("spark.driver.host", "127.0.0.1")
    spark = builder.config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    yield "started"
    frame = spark.read.parquet(source)
    compact = compact_batches(**OPTIONS, messages=True)
    frame.mapInArrow(compact, compact.schema(frame)).write.parquet(target)
    yield "done"
    spark.stop()


def measured(engine: str, source: Path, target: Path, kill_at: float | None) -> dict[str, Any]:
    """Run an engine in a process of its own; kill a worker once they had so many CPU seconds."""
    command = [sys.executable, "-m", __spec__.name, "--run", engine, str(source), str(target)]
    log = Path(tempfile.gettempdir()) / f"batch_engines_{engine}.log"
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log.open("w"), text=True)
    assert process.stdout
    begun = time.perf_counter()
    assert "started\n" in process.stdout
    startup = time.perf_counter() - begun
    killed = 0

    def seen(sample: Sample) -> None:
        nonlocal killed
        if kill_at is not None and not killed and sample.worker_cpu_seconds > kill_at:
            busiest = max(sample.workers, key=lambda each: each.cpu_seconds)
            killed = busiest.pid
            os.kill(killed, signal.SIGKILL)

    with Watch(process.pid, IS_WORKER[engine], seen) as watch:
        begun = time.perf_counter()
        assert "done\n" in process.stdout, f"{engine} failed: {log}"  # Ray prints there too
        wall = time.perf_counter() - begun
    process.wait()
    assert process.returncode == 0
    found = {"startup": startup, "wall": wall, "killed": killed}
    return found | watch.figures(wall)


def results(target: Path) -> dict[str, Any]:
    """Return what was kept of each row; fail where a row is there twice."""
    kept: dict[str, Any] = {}
    columns = ["id", "kept", "after_tokens", "messages", "error"]
    for file in sorted(target.rglob("*.parquet")):
        for row in pq.read_table(file, columns=columns).to_pylist():
            assert row["id"] not in kept, f"{row['id']} is there twice"
            kept[row["id"]] = (
                None if row["error"] else (row["kept"], row["after_tokens"], hash(row["messages"]))
            )
    return kept


def check(found: dict[str, Any], expected: dict[str, Any], folder: Path) -> int:
    """Compare an engine's results with the loop's, and its ids with the table's."""
    ids = {
        each
        for file in folder.glob("*.parquet")
        for each in pq.read_table(file, columns=["id"])["id"].to_pylist()
    }
    assert found.keys() == ids, "a row is lost"
    for each in expected.keys() & ids:
        mine, theirs = found[each], expected[each]
        assert (mine is None) == (theirs is None), each
        assert mine is None or mine[:2] == theirs[:2], each
    return len(expected.keys() & ids)


def main() -> None:
    """Measure, or be one of the processes that are measured."""
    if sys.argv[1:2] == ["--run"]:
        run = {"ray": run_ray, "spark": run_spark}[sys.argv[2]]
        for word in run(*sys.argv[3:]):
            print(word, flush=True)
        return
    parser = argparse.ArgumentParser()
    parser.add_argument("rows", type=int, nargs="?", default=10_000)
    parser.add_argument("--engine", choices=ENGINES, action="append")
    parser.add_argument("--rows-in", type=Path, help="a folder of rows that stays for other runs")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        source = options.rows_in or Path(temporary) / "rows"
        if not source.is_dir():
            source.mkdir()
            write_rows(source, options.rows)
        rate, runs = measured_all(source, options.rows, options.engine or ENGINES)
        print(
            f"a loop over compact_context: {rate.rows_s:,.0f} rows/s, {rate.rows_cpu_s:,.0f} by "
            "CPU second",
            flush=True,
        )
        for run in runs:
            print(line(run, rate), flush=True)


class Run(NamedTuple):
    """A run of an engine, its results compared."""

    engine: str
    rows: int
    killed: int
    """The process that was killed, 0 for none."""
    equal: int
    """Rows that were compared with the loop's; both engines' are compared with each other."""
    figures: dict[str, Any]

    @property
    def rows_second(self) -> float:
        """Rows by second on the clock."""
        return float(self.rows / self.figures["wall"])

    @property
    def rows_core_second(self) -> float:
        """Rows by processor second of the workers."""
        return float(self.rows / self.figures["worker_cpu"])

    @property
    def cores(self) -> float:
        """Cores that the workers had."""
        return float(self.figures["worker_cpu"] / self.figures["wall"])

    @property
    def quarters(self) -> str:
        """The most memory of a worker in each quarter of the run, MB."""
        return " ".join(f"{size:.0f}" for size in self.figures["worker_mb"])


def measured_all(
    source: Path, rows: int, chosen: Sequence[str] = ENGINES
) -> tuple[Rate, list[Run]]:
    """Run the loop and the engines, each also on a fifth while a worker is killed."""
    rate, expected = loop(source, min(LOOP_ROWS, rows))
    runs: list[Run] = []
    whole: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as temporary:
        fifth, target = Path(temporary) / "fifth", Path(temporary) / "found"
        fifth.mkdir()
        for file in sorted(source.glob("*.parquet"))[::5]:
            (fifth / file.name).symlink_to(file.resolve())
        for engine in chosen:
            cpu = 0.0
            for kill, folder in ((False, source), (True, fifth)):
                figures = measured(engine, folder, target, cpu * 0.1 if kill else None)
                cpu = figures["worker_cpu"]
                found = results(target)
                shutil.rmtree(target)
                equal = check(found, expected, folder)
                assert bool(figures["killed"]) == kill, "no worker was killed"
                runs.append(Run(engine, len(found), figures["killed"], equal, figures))
                if not kill:
                    whole.append(found)
    assert all(found == whole[0] for found in whole), "the engines' results differ"
    return rate, runs


def line(run: Run, rate: Rate) -> str:
    """Return a run's figures as text."""
    figures = run.figures
    killed = f", worker {run.killed} killed" if run.killed else ""
    return (
        f"{run.engine}{killed}: {run.rows_second:,.0f} rows/s "
        f"({run.rows_second / rate.rows_s:.2f} of the loop), {run.rows:,} rows in "
        f"{figures['wall']:.0f} s after {figures['startup']:.0f} s; {run.equal:,} equal to the "
        "loop's\n"
        f"    rows by CPU second: workers {run.rows_core_second:,.0f}, all "
        f"{run.rows / figures['all_cpu']:,.0f}\n"
        f"    cores: workers {run.cores:.2f}, all {figures['all_cpu'] / figures['wall']:.2f}; "
        f"{figures['workers']} workers, busiest {figures['busiest']:.2f}; MB of a worker by "
        f"quarters: {run.quarters}"
    )


if __name__ == "__main__":
    main()
