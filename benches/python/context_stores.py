"""Names used next in the context store: `python -m benches.python.context_stores`.

Coding sessions are cut. The store has read all before the cut, without a model, and is written at a
share of the size: alone, and beside the last 20 messages. Beside it the agents' own summaries, and
`compact_context` at that size.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from statistics import fmean, quantiles

import rehydrate
from benches.python import planted
from benches.python.retention import LONG_SESSION_MESSAGES, data_folder
from benches.report.rows import Part, Row, number
from rehydrate import formats
from rehydrate.context import ContextStore
from rehydrate.retention import CODING_CUTS, Cut, by_session, cut_sessions, read_claude_code

WANT = {0.02: (0.70, 0.80), 0.04: (0.85, 0.90)}
"""By the share of the size, of the names used next: alone, and with the last messages."""
LAST_MESSAGES = 20
UPDATE_MS = 3.0


def rows(cuts: Sequence[Cut]) -> list[Row]:
    """Return the rows of retention."""
    made = []
    read = [(cut, formats.parse(cut.messages, cut.format)) for cut in cuts]
    stores = []
    for cut, conversation in read:
        store = ContextStore()
        store.update(conversation.messages)
        tokens = rehydrate.count_tokens(cut.messages, format=cut.format)
        stores.append((cut, conversation, store, tokens))
    for share, (alone, beside) in WANT.items():
        shown, with_last, compacted, sizes = [], [], [], []
        for cut, conversation, store, tokens in stores:
            text = store.render(int(share * tokens), conversation=conversation)
            sizes.append(rehydrate.count_tokens(text) / tokens)
            shown.append((cut, _named(cut, text)))
            last = [message.index for message in conversation.messages[-LAST_MESSAGES:]]
            beside_last = store.render(
                int(share * tokens), conversation=conversation, visible=frozenset(last)
            )
            tail = cut.mentioned([cut.messages[index] for index in last])
            named = {name for name in cut.needed if name in beside_last}
            with_last.append((cut, len(named | set(tail)) / len(cut.needed)))
            kept = rehydrate.compact_context(
                cut.messages, "", budget_tokens=int(share * tokens), format=cut.format
            )
            compacted.append((cut, len(cut.mentioned(kept.messages)) / len(cut.needed)))
        for what, want, values in (
            ("alone", alone, shown),
            (f"with the last {LAST_MESSAGES} messages", beside, with_last),
        ):
            made.append(
                Row(
                    f"names used next, in the context store at {share:.0%}, {what}",
                    fmean(value for _, value in values),
                    "",
                    want,
                    more_is_better=True,
                    beside=f"{_interval(values)}; `compact_context` at that size "
                    f"{fmean(value for _, value in compacted):.2f}",
                    limit=f"{fmean(sizes):.1%} of the tokens; no model; which of the many names "
                    "will be used",
                )
            )
    return made


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


def _named(cut: Cut, text: str) -> float:
    return sum(name in text for name in cut.needed) / len(cut.needed)


def _interval(values: Sequence[tuple[Cut, float]]) -> str:
    return str(by_session([(cut.session, value) for cut, value in values]) or "one session")


def main() -> None:
    """Print the part as JSON."""
    folder = data_folder()
    if folder is None:
        sys.exit("context_stores: no conversations; set REHYDRATE_DATA")
    sessions = [read_claude_code(path) for path in sorted((folder / "claude_code").glob("*.jsonl"))]
    long = [each for each in sessions if len(each.messages) > LONG_SESSION_MESSAGES]
    cuts = cut_sessions(long, CODING_CUTS)
    about = (
        "Coding sessions, cut; what the context store holds of the names used later. "
        "After the figure 95% intervals by session. Claude Code's own summaries, at 4-7% of the "
        "size, hold 0.21-0.34."
    )
    print(Part("The context store", about, [*rows(cuts), *planted.rows(), latency(cuts)]).to_json())


if __name__ == "__main__":
    main()
