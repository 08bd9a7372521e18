"""`rehydrate batch` killed, interrupted, and short of memory: no row is lost or made twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from rehydrate.batch import compact_batch
from tests.batch.folders import ROOT, chat, table, tool_chat
from tests.sizes import PATIENCE_SECONDS

pa = pytest.importorskip("pyarrow")
import pyarrow.parquet as pq  # noqa: E402

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="signals and /proc of Linux")
ROWS = 400


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of conversations, in about 20 parts."""
    path = tmp_path_factory.mktemp("given") / "given.parquet"
    rows = [tool_chat(n) + chat(n, 60) if n % 90 else "[{" for n in range(ROWS)]
    pq.write_table(table(rows, [f"row {n}" for n in range(ROWS)]), path, row_group_size=200)
    return path


@pytest.fixture(scope="module")
def expected(given: Path) -> bytes:
    """The file of a batch that nobody disturbed."""
    out = given.with_name("expected.parquet")
    with started(given, out) as run:
        assert run.wait(PATIENCE_SECONDS) == 0
    found = pq.read_table(out)
    assert found.equals(pa.table(compact_batch(pq.read_table(given), target_ratio=0.3)))
    return out.read_bytes()


@contextmanager
def started(
    given: Path, out: Path, *arguments: str, before: str = ""
) -> Iterator[subprocess.Popen[str]]:
    """Start the command, in a shell that runs `before` first."""
    command = [sys.executable, "-m", "rehydrate", "batch", str(given), "-o", str(out)]
    command += ["--ratio", "0.3", "--json", "--workers", "2", *arguments]
    with subprocess.Popen(
        ["sh", "-c", f'{before or ":"}; exec "$@"', "sh", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONUTF8": "1"},
        cwd=ROOT,
        process_group=0,
    ) as run:
        try:
            yield run
        finally:
            run.kill()


def report_of(run: subprocess.Popen[str]) -> dict[str, Any]:
    said, error = run.communicate(timeout=PATIENCE_SECONDS)
    assert run.returncode == 0, error
    report: dict[str, Any] = json.loads(said)
    return report


def parts_of(out: Path) -> dict[Path, int]:
    """Return the finished parts, with the times at which they were made."""
    found = {}
    for path in out.with_name(f"{out.name}.parts").glob("*.parquet"):
        with suppress(FileNotFoundError):
            found[path] = path.stat().st_mtime_ns
    return found


def workers_of(run: subprocess.Popen[str]) -> list[int]:
    found = []
    for children in Path(f"/proc/{run.pid}/task").glob("*/children"):
        with suppress(OSError):
            found += [int(pid) for pid in children.read_text().split()]
    return found


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
    except OSError:
        return False
    return state != "Z"


def wait_until(what: Any, run: subprocess.Popen[str] | None = None) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not what():
        assert time.monotonic() < end, "it never came"
        assert run is None or run.poll() is None, "the command ended before"
        time.sleep(0.005)


def test_a_run_that_is_killed_at_any_moment_goes_on_with_all_finished_parts(
    given: Path, expected: bytes, tmp_path: Path
):
    out = tmp_path / "out.parquet"
    before: dict[Path, int] = {}
    for more in (0, 1, 3):
        with started(given, out) as run:
            wait_until(lambda: len(workers_of(run)) == 2, run)
            wait_until(lambda: len(parts_of(out)) >= len(before) + more, run)  # noqa: B023
            workers = workers_of(run)
            run.kill()
            assert run.wait(PATIENCE_SECONDS) == -signal.SIGKILL
        wait_until(lambda: not any(map(is_alive, workers)))  # noqa: B023
        after = parts_of(out)
        assert after.items() >= before.items(), "a finished part was made again, or lost"
        before = after
        assert not out.exists()
    done = sum(pq.read_metadata(part).num_rows for part in before)
    with started(given, out) as run:
        report = report_of(run)
    assert report["taken_rows"] == done > 0
    assert (report["rows"], report["lost_parts"]) == (ROWS, 0)
    assert out.read_bytes() == expected
    assert [path.name for path in tmp_path.iterdir()] == ["out.parquet"]


def test_workers_that_are_killed_lose_no_row(given: Path, expected: bytes, tmp_path: Path):
    out = tmp_path / "out.parquet"
    killed: set[int] = set()
    with started(given, out) as run:
        for _ in range(2):
            wait_until(lambda: set(workers_of(run)) - killed, run)
            wait_until(lambda: len(parts_of(out)) > len(killed), run)
            worker = min(set(workers_of(run)) - killed)
            os.kill(worker, signal.SIGKILL)
            killed.add(worker)
        report = report_of(run)
    assert report["use"]["ended"] >= 1
    assert (report["rows"], report["errors"]) == (ROWS, ROWS // 90 + 1)
    assert out.read_bytes() == expected


def test_an_interrupt_ends_it_cleanly_and_says_how_to_go_on(
    given: Path, expected: bytes, tmp_path: Path
):
    out = tmp_path / "out.parquet"
    with started(given, out) as run:
        wait_until(lambda: len(parts_of(out)) >= 3, run)
        workers = workers_of(run)
        run.send_signal(signal.SIGINT)
        said, error = run.communicate(timeout=PATIENCE_SECONDS)
    assert (run.returncode, said) == (130, "")
    assert error.startswith("rehydrate: interrupted: ")
    assert error.endswith(
        f" of {ROWS} rows are done, in {out}.parts; the same command goes on from there\n"
    )
    assert error.count("\n") == 1
    assert not any(map(is_alive, workers))
    assert not list(tmp_path.rglob("*.tmp"))
    with started(given, out) as run:
        assert report_of(run)["taken_rows"] > 0
    assert out.read_bytes() == expected


def test_two_runs_at_once_do_not_share_their_parts(given: Path, expected: bytes, tmp_path: Path):
    out = tmp_path / "out.parquet"
    with started(given, out) as run:
        wait_until(lambda: parts_of(out), run)
        run.send_signal(signal.SIGSTOP)  # or it would be ready before the other has begun
        with started(given, out) as other:
            said, error = other.communicate(timeout=PATIENCE_SECONDS)
        run.send_signal(signal.SIGCONT)
        assert (other.returncode, said) == (2, "")
        assert error == (
            f"rehydrate: {out}.parts: another run works on it now; wait for it, or pass another "
            "-o\n"
        )
        assert report_of(run)["rows"] == ROWS
    assert out.read_bytes() == expected


def test_a_conversation_larger_than_the_memory_is_a_row_with_an_error(tmp_path: Path):
    folder = tmp_path / "folder"
    folder.mkdir()
    for number in range(6):
        (folder / f"{number}.json").write_text(json.dumps(chat(number)), encoding="utf-8")
    with (folder / "3 giant.json").open("wb") as file:
        file.truncate(64 << 30)  # of holes
    out = tmp_path / "out.parquet"
    with started(folder, out, before=f"ulimit -v {8 << 20}") as run:
        report = report_of(run)
    found = {row["id"]: row for row in pq.read_table(out).to_pylist()}
    assert found.pop("3 giant.json")["error"] == "MemoryError"
    assert (report["rows"], report["errors"], len(found)) == (7, 1, 6)


def test_memory_does_not_grow_with_the_number_of_rows(tmp_path: Path):
    code = (
        "import sys\n"
        "from rehydrate.batch.worker import peak_bytes\n"
        "from rehydrate.cli import main\n"
        "code = main(sys.argv[1:])\n"
        "print(peak_bytes(), file=sys.stderr)\n"
        "sys.exit(code)"
    )
    quick = ["--json", "--workers", "2", "--counter", "chars", "--no-embedding"]
    peaks = []
    for rows in (112, 3_000):
        given, out = tmp_path / f"{rows}.parquet", tmp_path / "out.parquet"
        texts = [f'[{{"role": "user", "content": "{n} {"berth " * 5_400}"}}]' for n in range(rows)]
        # pyarrow may hold all of a row group: those of both tables are of one size.
        pq.write_table(table(texts), given, row_group_size=112)
        run = subprocess.run(
            [sys.executable, "-c", code, "batch", given, "-o", out, *quick],
            capture_output=True,
            check=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            timeout=PATIENCE_SECONDS,
        )
        report = json.loads(run.stdout)
        assert report["rows"] == rows
        peaks.append((int(run.stderr), report["use"]["peak_bytes"]))
    (few, few_worker), (many, many_worker) = peaks
    assert many < few + (64 << 20), peaks  # parts grow up to 4 MiB; the table is 90 MB larger
    assert many_worker < few_worker + (96 << 20), peaks  # its cache fills, up to 64 MiB
