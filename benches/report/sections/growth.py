"""Up to a million messages."""

from __future__ import annotations

from collections.abc import Iterable

from benches.report.figures import Figures
from benches.report.markdown import section, table
from benches.report.running import CORE
from benches.report.timings import milliseconds, or_dash


def growth(of: Figures) -> Iterable[str]:
    """Up to a million messages."""
    yield from section(
        "Growth",
        "The core, cold, balanced, no query, ratio 0.4; short messages (some 70 bytes), each a "
        "unit. Linear in tokens "
        "and n log n in units means that the time a message grows slowly, if at all.",
        CORE,
    )
    lines, first = [], None
    for messages in (1_000, 10_000, 100_000, 1_000_000):
        timing = of[f"growth/{messages} messages"]
        each = timing.seconds / messages * 1e6 if timing else None
        first = first or each
        grown = f"{each / first:.2f} x" if each and first else "-"
        lines.append(
            [f"{messages:,}", or_dash(milliseconds(timing), "ms"), or_dash(each, "us"), grown]
        )
    yield from table(["messages", "median", "a message", "against 1,000"], lines)
    yield (
        "What limits it: tables by hash (cached texts, features) that outgrow the processor's "
        "caches. From 2,000 units on, packing makes one pass instead of five. At a million "
        "messages the content cache (256 MB) is full: texts seen first are derived anew at the "
        "next call."
    )
    yield ""
