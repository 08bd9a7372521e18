"""Import, memory, size."""

from __future__ import annotations

from collections.abc import Iterable

from benches.report.figures import Figures
from benches.report.markdown import rows_table, section
from benches.report.rows import Row, number


def footprint(of: Figures) -> Iterable[str]:
    """Import, memory, size."""
    if not of.footprint:
        return
    yield from section(
        "Footprint",
        "Processes of their own. Memory is what stays resident after a cold balanced compaction "
        "with a query, its result "
        "thrown away: the content cache.",
        "python -m benches.python.footprint",
    )
    yield from rows_table(rows(of))


def rows(of: Figures) -> list[Row]:
    """Return a row for each figure; none if nothing was measured."""
    if not of.footprint:
        return []
    reported, memory, wheel = of.footprint["import"], of.footprint["memory"], of.footprint["wheel"]
    bare = reported["bare_ms"]
    found = [
        Row(
            "`import rehydrate`, over bare Python",
            reported["import_ms"] - bare,
            "ms",
            60,
            beside="; ".join(
                [
                    f"bare Python {bare:.0f} ms",
                    *(
                        f"`import {name}` {number(took - bare)} ms"
                        for name, took in reported.get("peers_ms", {}).items()
                    ),
                ]
            ),
            limit="By `python -X importtime`: loading the native module and the formats",
        ),
        Row(
            "optional or heavy packages that it loads",
            len(reported["loaded"]),
            "",
            0,
            beside=", ".join(reported["loaded"]),
            limit="Those named on the left are imported at the top of a module",
        ),
        Row(
            "import and a first, tiny compaction, over bare Python",
            reported["first_call_ms"] - bare,
            "ms",
            limit="The model's and the encoding's tables are built at first use",
        ),
    ]
    for kind, label in (("coding", "a coding agent's"), ("chat", "short chat messages")):
        grown = memory[kind]
        conversations = grown.get("conversations", 1)
        mean = grown["text_bytes"] / grown["messages"] / conversations
        found.append(
            Row(
                f"memory for {grown['messages']:,} messages, {label} ({mean:,.0f} bytes each), "
                f"on average of {conversations} conversations",
                grown["held_per_text"],
                "x its text",
                3,
                beside=f"{grown['held_bytes'] / 1e6:.1f} MB for {grown['text_bytes'] / 1e6:.1f} MB",
                limit="A bag, words and names for every text: their entries grow with its "
                "distinct words"
                if kind == "coding"
                else "Some hundred bytes for every text whatever its size: counts, three lists, "
                "its place in the cache",
            )
        )
    found.append(
        Row(
            "wheel",
            wheel["bytes"] / 1e6 if wheel else None,
            "MB",
            20,
            beside=wheel["name"]
            if wheel
            else "none in dist/: `make wheel` first, or `--build-wheel`",
            limit="Two vocabularies and the static model's int8 rows, none of which compress well",
        )
    )
    return found
