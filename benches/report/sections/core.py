"""The stages of the core, without Python."""

from __future__ import annotations

from collections.abc import Iterable

from benches.report.figures import Figures
from benches.report.markdown import rows_table, section, table
from benches.report.rows import Row
from benches.report.running import CORE
from benches.report.timings import milliseconds, or_dash, share_of, times


def core(of: Figures) -> Iterable[str]:
    """The stages, without Python."""
    yield from section(
        "The same in the core, stage by stage",
        "Criterion, one thread, on a generated session of 305 units and 0.5 MB. `seen`: not even "
        "one message is new.",
        CORE,
    )
    alone = of["pack 10000 units/score and pack, coverage"]
    select = of["select 10000 units/balanced"]
    rows = [
        Row(
            "scoring and packing alone, 10,000 units of 60 features",
            milliseconds(alone),
            "ms",
            5,
            2,
            beside=times(
                alone, [("plain greedy by score", of["pack 10000 units/score and pack, greedy"])]
            ),
            limit="Taking a covered feature's weight off every unit that mentions it: scattered "
            "writes, in two passes",
        ),
        Row(
            "the whole of `select`, 10,000 units",
            milliseconds(select),
            "ms",
            10,
            beside=share_of(alone, select),
            limit="Interning every mention of every unit into feature ids, again at each call: "
            "three fifths, most of it reads of a table that no cache holds; packing is a fifth",
        ),
        Row(
            "the whole of `select`, 10,000 units, with a query",
            milliseconds(of["select 10000 units/balanced, query"]),
            "ms",
            30,
            limit="BM25 and the soft match look at every bag of words: a quarter; the names are "
            "another, packing an eighth, finding the texts in memory a tenth",
        ),
    ]
    rows += [
        Row(f"`select`, 305 units, {name}", milliseconds(of[f"select 305 units/{name}"]), "ms")
        for name in ("balanced", "balanced, query", "balanced, a tenth kept", "chitta, query")
    ]
    for profile in ("balanced", "balanced, query", "balanced, no model", "chitta, query"):
        for state in ("cold", "warm", "seen"):
            timing = of[f"engine/{profile}/{state}"]
            speed = f"{timing.megabytes_per_second:,.0f} MB/s" if timing and timing.bytes else ""
            rows.append(
                Row(f"engine, {profile}, {state}", milliseconds(timing), "ms", beside=speed)
            )
    yield from rows_table(rows)

    names = (
        "embed/bag",
        "embed/pool",
        "embed/bag and pool",
        "features/scan",
        "features/mentions",
        "features/terms",
    )
    lines = [
        [
            f"`{name}`",
            or_dash(milliseconds(timing), "ms"),
            f"{timing.megabytes_per_second:,.0f} MB/s" if timing else "-",
        ]
        for name in names
        for timing in [of[name]]
    ]
    soft = of["embed/soft query"]
    rate = f"{soft.elements / soft.seconds / 1e6:,.0f} million pairs of tokens/s" if soft else "-"
    lines.append(["`embed/soft query`", or_dash(milliseconds(soft), "ms"), rate])
    yield from table(["stage, over all texts of the session", "median", "rate"], lines)
