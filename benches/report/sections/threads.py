"""Two threads against one."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from benches.report.figures import Figures
from benches.report.markdown import rows_table, section
from benches.report.rows import Row

WANTED_SPEEDUP = 1.8
"""Issue 15 wants it in every row."""
LIMITS = {
    "cold": "Reading the messages' dicts holds the interpreter's lock; then the memory and its "
    "cache that both share",
    "warm": "Reading the messages' dicts holds the interpreter's lock: by Amdahl, its share of the "
    "call",
}


def threads(of: Figures) -> Iterable[str]:
    """Two threads against one."""
    yield from section(
        "Threads",
        "Compactions a second of the session of 305 units, different conversations on each "
        "thread, the interpreter's lock free meanwhile. One thread has one processor, since a call "
        "reads new texts on a second thread where there is a second processor; two threads have "
        "two. Rounds of one and of two take turns.",
        "python -m benches.python.threads; python -m tools.draw --threads "
        "target/bench/threads.json",
    )
    yield from rows_table(rows(of))


def rows(of: Figures) -> list[Row]:
    """Return a row for each case."""
    missing = Row(
        "two threads against one",
        None,
        "x",
        WANTED_SPEEDUP,
        more_is_better=True,
        limit="The command was not run to its end",
    )
    return [
        Row(
            f"{two['case']}: two threads against one",
            two["speedup"],
            "x",
            WANTED_SPEEDUP,
            more_is_better=True,
            beside=f"{one['per_second']:,.0f} a second on one, {two['per_second']:,.0f} on two",
            limit=LIMITS[two["case"].partition(",")[0]],
        )
        for one, two in pairwise(of.threads)
        if (one["threads"], two["threads"]) == (1, 2)
    ] or [missing]
