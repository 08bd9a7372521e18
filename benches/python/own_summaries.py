"""The agents' own summaries, and the context store at their size: rows of `context_stores`.

Where its window was full, the agent wrote a summary and went on from it. All that it was made of is
in the file too. Each gets as many tokens as the summary has; then the names that the agent's tool
calls used next are looked for.
"""

from __future__ import annotations

from pathlib import Path
from statistics import fmean

import rehydrate
from benches.python.outlines import NEXT_STEPS, within
from benches.python.same_size import LIMIT, Held, held, row
from benches.report.rows import Row
from rehydrate.retention import Cut, read_sessions, sample_cases
from rehydrate.retention.reading import Message

OWN = "the agent's own summary"


def rows(folder: Path) -> list[Row]:
    """Return a row for all that was used later, and one for the next steps."""
    summaries = sample_cases(read_sessions([folder])).summaries
    if not summaries:
        return [Row(f"names used next, at the size of {OWN}", None, "", beside="there is none")]
    made = []
    for what, count in (("later", None), (f"in the next {NEXT_STEPS} steps", NEXT_STEPS)):
        cuts = [
            (within(each.cut, count) if count else each.cut, each.summary) for each in summaries
        ]
        cases = [_held(cut, summary) for cut, summary in cuts if cut.needed]
        sizes = [
            rehydrate.count_tokens([summary]) / rehydrate.count_tokens(cut.messages)
            for cut, summary in cuts
        ]
        made.append(
            row(
                f"names used {what}, in the context store of the size of {OWN}",
                cases,
                limit=f"{len(cases)} summaries, {fmean(sizes):.1%} of the tokens; {LIMIT}",
            )
        )
    return made


def _held(cut: Cut, summary: Message) -> dict[str, Held]:
    own = Held(cut.session, len(cut.mentioned([summary])) / len(cut.needed), 1.0)
    found = held(cut, rehydrate.count_tokens([summary]))
    return {OWN: own, **found}
