"""Runs what `benches/report.py` reports, and reads what came out: medians, by name."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
KEPT = TARGET / "bench"
"""Where the figures of the Python part stay, so that a report can be written again from them."""


@dataclass(frozen=True, slots=True)
class Timing:
    """A median, and what was worked on."""

    seconds: float
    bytes: int = 0
    elements: int = 0
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def megabytes_per_second(self) -> float:
        """By 10^6 bytes."""
        return self.bytes / self.seconds / 1e6


@dataclass(frozen=True, slots=True)
class Figures:
    """All there is to report; what could not be measured is None."""

    timings: dict[str, Timing]
    criterion_from: tuple[datetime, datetime] | None
    retention: dict[str, Any] | None
    footprint: dict[str, Any]
    load_before: float
    load_after: float

    def __getitem__(self, name: str) -> Timing | None:
        """A median by name: `tokens/o200k_base/cold` of Criterion, `bench_cold[balanced-query]`."""
        return self.timings.get(name)


def run_python_benches(data: str | None, build_wheel: bool) -> None:
    """Everything but Criterion's part; the results go to `KEPT`."""
    KEPT.mkdir(parents=True, exist_ok=True)
    load_before = os.getloadavg()[0]
    for stale in KEPT.glob("*.json"):
        stale.unlink()
    _python(
        *(
            "-m",
            "pytest",
            "benches/python",
            "-q",
            "-o",
            "python_files=bench_*.py",
            "-o",
            "python_functions=bench_*",
        ),
        *("-W", "default", "-p", "no:cacheprovider", f"--benchmark-json={KEPT / 'speed.json'}"),
        "--benchmark-columns=median,iqr,rounds",
    )
    _python(
        "-m",
        "benches.python.footprint",
        *(["--build-wheel"] if build_wheel else []),
        into="footprint",
    )
    if data is not None:
        _python("-m", "benches.python.retention", data, into="retention")
    load = {"before": load_before, "after": os.getloadavg()[0]}
    (KEPT / "load.json").write_text(json.dumps(load), encoding="utf-8")


def read() -> Figures:
    """Criterion's medians and those of the last run of `run_python_benches`."""
    timings = dict(_pytest_benchmarks(KEPT / "speed.json"))
    times: list[float] = []
    for name, timing, modified in _criterion(TARGET / "criterion"):
        timings[name] = timing
        times.append(modified)
    load = _json(KEPT / "load.json") or {"before": 0.0, "after": 0.0}
    return Figures(
        timings=timings,
        criterion_from=(_moment(min(times)), _moment(max(times))) if times else None,
        retention=_json(KEPT / "retention.json"),
        footprint=_json(KEPT / "footprint.json") or {},
        load_before=load["before"],
        load_after=load["after"],
    )


def newest_source() -> datetime:
    """When a source of the core was last changed: figures from before that are not about it."""
    folder = ROOT / "rust" / "rehydrate-core" / "src"
    return _moment(max(file.stat().st_mtime for file in folder.rglob("*.rs")))


def machine() -> dict[str, str]:
    """What the figures were made on, and with."""
    cpu = next(
        (
            line.partition(":")[2].strip()
            for line in _lines("/proc/cpuinfo")
            if line.startswith("model name")
        ),
        "?",
    )
    memory = next(
        (line.split()[1] for line in _lines("/proc/meminfo") if line.startswith("MemTotal")), "0"
    )
    packages = (
        "rehydrate",
        "numpy",
        "tiktoken",
        "tokenizers",
        "langchain-core",
        "pytest-benchmark",
    )
    return {
        "processor": f"{cpu}, {os.cpu_count()} cores, {int(memory) / 2**20:.0f} GiB",
        "commit": _told("git", "rev-parse", "--short", "HEAD")
        + (" and changes" if _told("git", "status", "-s") else ""),
        "Rust": _told("rustc", "--version"),
        "Python": sys.version.split()[0],
        "packages": ", ".join(f"{name} {_version(name)}" for name in packages),
    }


def _criterion(folder: Path) -> Iterator[tuple[str, Timing, float]]:
    for about in folder.rglob("new/benchmark.json"):
        bench = _json(about)
        estimates = about.with_name("estimates.json")
        known = _json(estimates)
        if not bench or not known:
            continue
        throughput = bench.get("throughput") or {}
        size, elements = throughput.get("Bytes") or 0, throughput.get("Elements") or 0
        seconds = known["median"]["point_estimate"] / 1e9
        yield bench["full_id"], Timing(seconds, size, elements), estimates.stat().st_mtime


def _pytest_benchmarks(path: Path) -> Iterator[tuple[str, Timing]]:
    for bench in (_json(path) or {}).get("benchmarks", ()):
        extra = bench["extra_info"]
        yield bench["name"], Timing(bench["stats"]["median"], extra.get("bytes", 0), extra=extra)


def _python(*arguments: str, into: str | None = None) -> None:
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    }
    print("+ python", *arguments, file=sys.stderr, flush=True)
    command = [sys.executable, *arguments]
    if into is None:
        subprocess.run(command, cwd=ROOT, env=environment, check=True)
        return
    with (KEPT / f"{into}.json").open("w", encoding="utf-8") as out:
        subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=out)


def _json(path: Path) -> dict[str, Any] | None:
    if not path.exists():
        return None
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def _lines(path: str) -> list[str]:
    return Path(path).read_text(encoding="utf-8").splitlines() if Path(path).exists() else []


def _told(*command: str) -> str:
    try:
        return subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "(not installed)"


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds).astimezone()
