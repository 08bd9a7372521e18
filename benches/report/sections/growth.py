"""Up to a million messages."""

from __future__ import annotations

from collections.abc import Iterable

from benches.report.figures import Figures
from benches.report.growing import exponent, of_n_log_n
from benches.report.markdown import rows_table, section, table
from benches.report.rows import Row
from benches.report.running import CORE
from benches.report.timings import milliseconds, or_dash

SIZES = (1_000, 10_000, 100_000, 1_000_000)


def growth(of: Figures) -> Iterable[str]:
    """Up to a million messages."""
    yield from section(
        "Growth",
        "The core, cold, balanced, no query, ratio 0.4; short messages (some 70 bytes), each a "
        "unit. Linear in tokens "
        "and n log n in units means that the time a message grows slowly, if at all.",
        CORE,
    )
    lines, first, seconds = [], None, {}
    for messages in SIZES:
        timing = of[f"growth/{messages} messages"]
        each = timing.seconds / messages * 1e6 if timing else None
        first = first or each
        if timing:
            seconds[messages] = timing.seconds
        grown = f"{each / first:.2f} x" if each and first else "-"
        lines.append(
            [f"{messages:,}", or_dash(milliseconds(timing), "ms"), or_dash(each, "us"), grown]
        )
    yield from table(["messages", "median", "a message", "against 1,000"], lines)
    wanted = of_n_log_n(SIZES[0], SIZES[-1])
    fitted = exponent(seconds) if len(seconds) == len(SIZES) else None
    row = Row(
        "exponent of the time in messages, by least squares",
        fitted,
        "",
        round(wanted, 2),
        beside=f"n log n has {wanted:.2f} between these sizes",
        limit="Tables by hash that outgrow the processor's caches",
    )
    yield from rows_table([row])
    yield (
        "The tables by hash are of cached texts and of features. From 2,000 units on, packing "
        "makes one pass instead of five. At a million messages the content cache (256 MB) is full: "
        "texts seen first are derived again at the next call."
    )
    yield ""
