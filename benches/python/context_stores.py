"""Names used next in the context store: `python -m benches.python.context_stores`.

Coding sessions are cut. The store has read all before the cut, without a model, and is written at a
share of the size: alone, and next to the last 20 messages. Compared with an extractive bundle,
`compact_context` and the last messages in as many tokens, and where the agent wrote a summary of
its own, that summary.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from statistics import quantiles

import rehydrate
from benches.python import own_summaries, planted
from benches.python.same_size import LIMIT, held, row
from benches.python.sources import Source, data_folder, read_sources
from benches.report.rows import Part, Row, number
from rehydrate import formats
from rehydrate.context import ContextStore, compact_history
from rehydrate.retention import Cut
from rehydrate.retention.measure import mean_by_session

SOURCES = ("coding", "long coding")
HEADS = ("coding", "aider", "swe-agent")
WANT = {0.02: (0.45, 0.65), 0.04: (0.60, 0.78)}
"""By the share of the size, of the names used next: alone, and with the last messages; of sessions
that nobody tuned on."""
LAST_MESSAGES = 20
UPDATE_MS = 3.0


def rows(source: Source) -> list[Row]:
    """Return the rows of retention in a source."""
    made, cuts = [], source.cuts
    sessions = len({cut.session for cut in cuts})
    whole = {cut.name: rehydrate.count_tokens(cut.messages, format=cut.format) for cut in cuts}
    for share, wanted in WANT.items():
        for last, want in zip((0, LAST_MESSAGES), wanted, strict=True):
            cases = [held(cut, int(share * whole[cut.name]), last) for cut in cuts]
            beside = f"with the last {last} messages" if last else "alone"
            made.append(
                row(
                    f"{source.title}, {sessions} sessions: names used next, in the context store "
                    f"at {share:.0%}, {beside}",
                    cases,
                    None if source.is_worn else want,
                    f"{share:.0%} of the tokens; {LIMIT}",
                )
            )
    return made


def in_place_of_the_head(source: Source) -> list[Row]:
    """Return the rows of `compact_history` without a model, and of excerpts in as many tokens."""
    found = []
    for cut in source.cuts:
        made = compact_history(cut.messages, format=cut.format)
        if made.kept_from:
            tokens = rehydrate.count_tokens(made.messages, format=cut.format)
            kept = rehydrate.compact_context(
                cut.messages, "", budget_tokens=tokens, format=cut.format, granularity="excerpt"
            )
            found.append((cut, made.messages, kept.messages))
    rows = []
    for measure, needed, held_by in (
        ("names used next", lambda cut: cut.needed, Cut.mentioned),
        ("lines typed again", lambda cut: cut.lines, Cut.quoted),
    ):
        cases = [case for case in found if needed(case[0])]
        ours, excerpts = (
            mean_by_session(
                (case[0].session, len(held_by(case[0], case[way])) / len(needed(case[0])))
                for case in cases
            )
            for way in (1, 2)
        )
        sessions = len({cut.session for cut, _, _ in cases})
        rows.append(
            Row(
                f"{source.title}, {sessions} sessions, {len(cases)} cuts: {measure}, "
                "the store in place of the head, the last messages as they were",
                ours,
                "",
                more_is_better=True,
                beside=f"excerpts in as many tokens {excerpts:.2f}",
                limit=LIMIT,
            )
        )
    return rows


def latency(cuts: Sequence[Cut]) -> Row:
    """Return the row of what a turn adds."""
    took = []
    for cut in cuts:
        store = ContextStore()
        for message in formats.parse(cut.messages, cut.format).messages:
            before = time.perf_counter()
            store.update([message])
            took.append((time.perf_counter() - before) * 1e3)
    percentiles = quantiles(took, n=100)
    return Row(
        "store update for a message, p99",
        percentiles[98],
        "ms",
        UPDATE_MS,
        beside=f"p50 {number(percentiles[49])} ms",
        limit="Regular expressions over the text of the message",
    )


def main() -> None:
    """Print the part as JSON."""
    folder = data_folder()
    if folder is None:
        sys.exit("context_stores: no conversations; set REHYDRATE_DATA")
    sources = [each for each in read_sources(folder, SOURCES) if each.cuts]
    heads = [each for each in read_sources(folder, HEADS) if each.cuts]
    about = (
        "Coding sessions, cut; what the context store holds of the names used later, with 95% "
        "intervals by session. The extractive bundle has the sentences of users and agent with "
        "the highest TF-IDF. Where Claude Code's window was full: its own summary, and the store "
        "of the same messages in as many tokens. (Beside its summary Claude Code shows some files "
        "again, which the transcripts do not hold.)"
    )
    found = [
        *(row for source in sources for row in rows(source)),
        *(row for source in heads for row in in_place_of_the_head(source)),
        *own_summaries.rows(folder / "claude_code"),
        *planted.rows(),
        latency([cut for source in sources for cut in source.cuts]),
    ]
    print(Part("The context store", about, found).to_json())


if __name__ == "__main__":
    main()
