"""Two threads beside one, and resident memory after a long loop."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from statistics import linear_regression
from typing import Any

from benches.report.figures import Figures
from benches.report.markdown import rows_table, section
from benches.report.rows import Row

MIB = 1 << 20
SHORTEST_LOOP_SECONDS = 600
"""In a shorter loop the cache may not be full."""
WANTED_SPEEDUP = 1.8
"""The issue says near twice."""


def threads(of: Figures) -> Iterable[str]:
    """Two threads beside one."""
    yield from section(
        "Threads",
        "Compactions a second of the session of 305 units, different conversations on each "
        "thread, the interpreter's lock free meanwhile; rounds of one and of two take turns.",
        "python -m benches.python.threads; python -m tools.draw --threads "
        "target/bench/threads.json",
    )
    rows = [
        Row(
            f"{two['case']}: two threads against one",
            two["speedup"],
            "x",
            WANTED_SPEEDUP,
            more_is_better=True,
            beside=f"{one['per_second']:,.0f} a second on one, {two['per_second']:,.0f} on two",
            limit=_limit(two["case"]),
        )
        for one, two in pairwise(of.threads)
        if (one["threads"], two["threads"]) == (1, 2)
    ]
    missing = Row("two threads against one", None, "x", WANTED_SPEEDUP, more_is_better=True)
    yield from rows_table(rows or [missing])


def loop(of: Figures) -> Iterable[str]:
    """Resident memory after a long loop."""
    command = "python -m benches.python.memory_loop --seconds 3600 --out target/bench/rss.json"
    yield from section(
        "Memory over an hour's loop",
        "Every conversation is new and grows in four steps; nothing of it is kept but by the "
        "content cache (256 MiB). The slope is a line through the second half of the run, the "
        "cache full.",
        f"{command}; python -m tools.draw --rss target/bench/rss.json",
    )
    yield from rows_table([_slope(of.rss)])


def _slope(samples: Sequence[dict[str, Any]]) -> Row:
    case, want = "growth of resident memory, second half", 1.0
    late = samples[len(samples) // 2 :]
    seconds = samples[-1]["t_seconds"] if samples else 0.0
    if seconds < SHORTEST_LOOP_SECONDS:
        return Row(case, None, "% an hour", want, limit="`make bench` does not wait for an hour")
    resident = [sample["rss_bytes"] for sample in late]
    slope, _ = linear_regression([sample["t_seconds"] for sample in late], resident)
    minutes, compactions = seconds / 60, samples[-1]["compactions"]
    return Row(
        case,
        slope * 3600 / (sum(resident) / len(resident)) * 100,
        "% an hour",
        want,
        beside=f"{compactions:,} compactions in {minutes:.0f} minutes; {min(resident) / MIB:,.0f} "
        f"to {max(resident) / MIB:,.0f} MiB in the second half; begun at "
        f"{samples[0]['rss_bytes'] / MIB:,.0f} MiB",
        limit="What is free in the allocator's arenas comes and goes",
    )


def _limit(case: str) -> str:
    if case.startswith("cold"):
        return "What Python parses is done one thread at a time; then the memory that both share"
    return "Python parses every dict again, one thread at a time: by Amdahl, its share of the call"
