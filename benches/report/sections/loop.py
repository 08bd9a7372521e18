"""Growth of resident memory in a long loop."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import sqrt
from statistics import correlation, fmean, linear_regression, stdev
from typing import Any

from benches.report.figures import Figures
from benches.report.markdown import rows_table, section
from benches.report.rows import Row
from benches.report.running import LOOP_CACHE_MIB

MIB = 1 << 20
SHORTEST_SECONDS = 600
"""In a shorter loop the cache may not be full in the second half."""
STRETCHES = 12
"""Equal parts of the second half. Samples close together are alike, means of a stretch hardly."""
STUDENT = 2.228
"""Student's t for 95% and two less than so many stretches."""
WANT = 1.0

Samples = Sequence[dict[str, Any]]


def loop(of: Figures) -> Iterable[str]:
    """Growth of resident memory in a long loop."""
    minutes = of.rss[-1]["t_seconds"] / 60 if of.rss else 0
    yield from section(
        "Memory in a long loop",
        "Every conversation is new and grows in four steps; nothing of it is kept but by the "
        f"content cache, here of {LOOP_CACHE_MIB} MiB: a full one drops its older half at a time, "
        "and a small one does so little and often. What is free is given back before each sample. "
        f"The loop ran {minutes:.0f} minutes. The slope is a line through the means of the "
        f"{STRETCHES} equal stretches of its second half, given per hour; in brackets its 95% "
        "interval.",
        f"python -m benches.python.memory_loop --cache-mib {LOOP_CACHE_MIB}",
    )
    yield from rows_table([row(of.rss)])


def row(samples: Samples) -> Row:
    """Return the growth in percent of the mean an hour."""
    case = "growth of resident memory, second half"
    seconds = samples[-1]["t_seconds"] if samples else 0.0
    if seconds < SHORTEST_SECONDS:
        why = f"the loop ran {seconds:.0f} s, and fills the cache in its first half only from "
        return Row(case, None, "% an hour", WANT, limit=f"{why}{SHORTEST_SECONDS} s on")
    late = [sample for sample in samples if sample["t_seconds"] >= seconds / 2]
    slope, half_width = growth(late)
    resident = [sample["rss_bytes"] for sample in late]
    return Row(
        case,
        slope,
        "% an hour",
        WANT,
        beside=f"({slope - half_width:+.2f} to {slope + half_width:+.2f}); "
        f"{samples[-1]['compactions']:,} compactions in {seconds / 60:.0f} minutes; "
        f"{min(resident) / MIB:,.0f} to {max(resident) / MIB:,.0f} MiB in the second half; begun "
        f"at {samples[0]['rss_bytes'] / MIB:,.0f} MiB",
        limit="Pages that are free in part stay: what is allocated later does not fill each gap",
    )


def growth(samples: Samples) -> tuple[float, float]:
    """Return the slope in percent of the mean an hour, and half of its 95% interval.

    The interval is Student's, of a line through the means of `STRETCHES` equal stretches.
    """
    begin, end = samples[0]["t_seconds"], samples[-1]["t_seconds"]
    length = (end - begin) / STRETCHES
    stretches: list[list[float]] = [[] for _ in range(STRETCHES)]
    for sample in samples:
        at = min(STRETCHES - 1, int((sample["t_seconds"] - begin) / length))
        stretches[at].append(sample["rss_bytes"])
    hours = [(begin + length * (at + 0.5)) / 3600 for at in range(STRETCHES)]
    means = [fmean(stretch) for stretch in stretches]
    slope, _ = linear_regression(hours, means)
    # The error of a slope by what the line does not explain.
    explained = correlation(hours, means) ** 2 if len(set(means)) > 1 else 1.0
    error = stdev(means) * sqrt(max(0.0, 1 - explained) / (STRETCHES - 2)) / stdev(hours)
    percent = 100 / fmean(means)
    return slope * percent, STUDENT * error * percent
