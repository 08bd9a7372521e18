"""One call of compact_context."""

from __future__ import annotations

from collections.abc import Iterable

from benches.report.figures import Figures
from benches.report.markdown import rows_table, section
from benches.report.rows import Row
from benches.report.running import PYTHON
from benches.report.timings import milliseconds, times

COLD_LIMIT = (
    "Every text is read by the BPE count, WordPiece, the words, the names and the content hash; "
    "sharing one scan would save passes over memory, not the work in each"
)
WARM_LIMIT = (
    "The call is stateless: Python parses every dict again (the row below), every text is hashed "
    "again, and scores and features are worked out anew"
)


def compaction(of: Figures) -> Iterable[str]:
    """One call of compact_context."""
    yield from section(
        "One compaction, from Python",
        "`compact_context` at a ratio of 0.4; one thread; parsing and grouping included. "
        "Cold: nothing was seen before. Warm: one message is new since the last call, the call "
        "itself is stateless. The targets are for the session of 305 units.",
        PYTHON,
    )
    for session in ("305 units", "recorded"):
        cold = of[f"bench_cold[{session}-balanced-query]"]
        if cold:
            about = cold.extra
            yield (
                f"**{session}**: {about['units']} units, {about['bytes'] / 1e6:.2f} MB of text, "
                f"{about['tokens']:,} tokens (o200k_base)."
            )
            yield ""
            rows = _compactions(of, session, targets=session == "305 units")
            yield from rows_table(rows)


def _compactions(of: Figures, session: str, targets: bool) -> list[Row]:
    plain = of[f"bench_plain_python[{session}]"]
    trim = of[f"bench_langchain[{session}-tiktoken]"]
    rough = of[f"bench_langchain[{session}-approximate]"]
    rows = []
    for profile, state, want, beyond, limit in (
        ("balanced", "cold", 60.0, 25.0, COLD_LIMIT),
        ("balanced", "warm", 4.0, 1.0, WARM_LIMIT),
        ("chitta", "cold", None, None, ""),
        ("chitta", "warm", None, None, ""),
    ):
        for query in ("query", "no query"):
            ours = of[f"bench_{state}[{session}-{profile}-{query}]"]
            rows.append(
                Row(
                    f"{state}, {profile}, {query}",
                    milliseconds(ours),
                    "ms",
                    want if targets else None,
                    beyond if targets else None,
                    beside=times(ours, [("plain Python", plain), ("trim_messages", trim)]),
                    limit=limit if targets and query == "query" else "",
                )
            )
    rows += [
        Row(
            "of which: parsing and grouping in Python",
            milliseconds(of[f"bench_parse[{session}]"]),
            "ms",
        ),
        Row(
            "peer: plain Python, no model",
            milliseconds(plain),
            "ms",
            limit="`tokenizers` WordPiece, numpy cosine of counts, `re`, `tiktoken`, a sort",
        ),
        Row(
            "peer: LangChain trim_messages, tiktoken",
            milliseconds(trim),
            "ms",
            limit="Keeps the last that fit; counts prefixes again while it looks for the cut",
        ),
        Row(
            "peer: LangChain trim_messages, approximate",
            milliseconds(rough),
            "ms",
            limit="Keeps the last that fit; characters / 4 meet the budget only roughly",
        ),
    ]
    return rows
