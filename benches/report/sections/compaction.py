"""One call of compact_context."""

from __future__ import annotations

from collections.abc import Iterable

from benches.report.figures import Figures
from benches.report.markdown import rows_table, section
from benches.report.rows import Row
from benches.report.running import PYTHON
from benches.report.timings import milliseconds, times

SESSIONS = ("305 units", "recorded")
JUDGED = SESSIONS[0]
"""The session that the targets are for."""
WANTS = {
    ("cold", "query"): (18.0, None),
    ("cold", "no query"): (10.0, None),
    ("warm", "query"): (2.5, None),
    ("warm", "no query"): (1.5, 1.0),
    ("cold, two threads", "query"): (11.0, None),
    ("cold, two threads", "no query"): (6.0, None),
}
"""Milliseconds of `balanced`: the target, and what goes beyond it."""
LIMITS = {
    "cold": "Every text is read by the BPE count, WordPiece, the words, the names and the content "
    "hash; sharing one scan would save passes over memory, not the work in each",
    "cold, two threads": "Only new texts are read by two threads; features, scores and packing run "
    "on one",
    "warm": "The call is stateless: features, scores and packing are worked out again, every text "
    "is hashed and every dict read again (the row below). With a query a third is the vectors, "
    "whose weights change with each message: 22% adds the tokens' rows, four vector instructions "
    "for 16 components; names take 10%, packing 10%, the soft match 4%, Python and reading 25%",
}


def compaction(of: Figures) -> Iterable[str]:
    """One call of compact_context."""
    yield from section(
        "One compaction, from Python",
        "`compact_context` at a ratio of 0.4, reading and grouping included; one processor, so one "
        "thread, and its own time, but for the rows that say two. Cold: nothing was seen before. "
        "Warm: one message is new since the last call, the call itself is stateless. The targets "
        f"are for the session of {JUDGED}.",
        PYTHON,
    )
    for session in SESSIONS:
        if of[f"bench_cold[{session}-balanced-query]"]:
            yield from (about(of, session), "")
            yield from rows_table(rows(of, session))


def about(of: Figures, session: str) -> str:
    """Return how large the session is."""
    cold = of[f"bench_cold[{session}-balanced-query]"]
    reported = cold.extra if cold else {"units": 0, "bytes": 0, "tokens": 0}
    return (
        f"**{session}**: {reported['units']} units, {reported['bytes'] / 1e6:.2f} MB of text, "
        f"{reported['tokens']:,} tokens (o200k_base)."
    )


def rows(of: Figures, session: str = JUDGED) -> list[Row]:
    """Return a row for each way of calling, and for each peer."""
    plain = of[f"bench_plain_python[{session}]"]
    trim = of[f"bench_langchain[{session}-tiktoken]"]
    rough = of[f"bench_langchain[{session}-approximate]"]
    found = []
    for profile, state, bench, on in (
        ("balanced", "cold", "bench_cold", ""),
        ("balanced", "cold, two threads", "bench_cold", ", two processors"),
        ("balanced", "warm", "bench_warm", ""),
        ("chitta", "cold", "bench_cold", ""),
        ("chitta", "warm", "bench_warm", ""),
    ):
        for query in ("query", "no query"):
            ours = of[f"{bench}[{session}-{profile}-{query}]{on}"]
            judged = session == JUDGED and profile == "balanced"
            want, beyond = WANTS[state, query] if judged else (None, None)
            found.append(
                Row(
                    f"{state}, {profile}, {query}",
                    milliseconds(ours),
                    "ms",
                    want,
                    beyond,
                    beside=times(ours, [("plain Python", plain), ("trim_messages", trim)]),
                    limit=LIMITS[state] if judged else "",
                )
            )
    found += [
        Row(
            "of which: reading and grouping",
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
    return found
