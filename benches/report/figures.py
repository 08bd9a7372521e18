"""Reads the results of the benches: medians by name, tables, parts."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from benches.report.rows import Part
from benches.report.size import FULL, SIZE
from benches.report.timings import Timing

ROOT = Path(__file__).resolve().parents[2]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
CRITERION = TARGET / "criterion"
KEPT = TARGET / "bench" if SIZE is FULL else TARGET / "bench" / SIZE.name
"""Folder of the figures of a run of this size; a report can be written again from them."""


@dataclass(frozen=True, slots=True)
class Figures:
    """All figures of a report; a failed measurement is None."""

    timings: dict[str, Timing]
    criterion_from: tuple[datetime, datetime] | None
    retention: dict[str, Any] | None
    """By source: its methods' figures, the differences of pairs, and sizes."""
    footprint: dict[str, Any]
    run: dict[str, Any] = field(default_factory=dict)
    """Of the run: its machine, its beginning; by step its seconds, others' share, its failure."""
    parts: dict[str, Part | None] = field(default_factory=dict)
    """By module of `benches/python`; None where its command failed."""
    shapes: Sequence[dict[str, Any]] = ()
    """Per shape of generated sessions: their number, and what survives by measure and strategy."""
    threads: Sequence[dict[str, Any]] = ()
    """Rows of case, threads, per_second and speedup."""
    laws: dict[str, Any] | None = None
    rss: Sequence[dict[str, Any]] = ()
    """Rows of t_seconds, rss_bytes and compactions."""

    def __getitem__(self, name: str) -> Timing | None:
        """Return a median by name, as `tokens/o200k_base/cold` of Criterion."""
        return self.timings.get(name)


def read(parts: Sequence[str] = ()) -> Figures:
    """Read the figures of the last run of this size, and Criterion's medians with a full one."""
    timings = dict(_pytest_benchmarks(KEPT / "speed.json"))
    two = _pytest_benchmarks(KEPT / "speed_two.json")
    timings |= {f"{name}, two processors": timing for name, timing in two}
    times: list[float] = []
    for name, timing, modified in _criterion(CRITERION) if SIZE is FULL else ():
        timings[name] = timing
        times.append(modified)
    return Figures(
        timings=timings,
        criterion_from=(moment(min(times)), moment(max(times))) if times else None,
        retention=_json(KEPT / "retention.json"),
        footprint=_json(KEPT / "footprint.json") or {},
        run=_json(KEPT / "run.json") or {},
        parts={name: _part(part_file(name)) for name in parts},
        shapes=_rows(KEPT / "shapes.json"),
        laws=_json(KEPT / "laws.json"),
        threads=_rows(KEPT / "threads.json"),
        rss=_rows(KEPT / "memory_loop.json"),
    )


def part_file(name: str) -> Path:
    """Return the file of a part's output."""
    return KEPT / f"{name}.json"


def moment(seconds: float) -> datetime:
    """Return a file time in local time."""
    return datetime.fromtimestamp(seconds).astimezone()


def _part(path: Path) -> Part | None:
    try:
        return Part.from_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):  # it was not run, or ended before it had printed all
        return None


def _rows(path: Path) -> list[dict[str, Any]]:
    try:
        found: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):  # it was not run, or ended before it had printed all
        return []
    return found


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


def _json(path: Path) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):  # it was not run, or ended before it had printed all
        return None
    return found
