"""Share of the names used next that an outline holds: `python -m benches.python.outlines`.

Everything that need not stay of a coding session is removed, except for an outline of 1% or 2% of
its size.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import fmean

import rehydrate
from benches.python.sources import data_folder, read_sources
from benches.report.rows import Part, Row
from rehydrate._native import tool_inputs
from rehydrate.compact import Outline
from rehydrate.retention import Cut, names_in, steps
from rehydrate.retention.measure import by_session, mean_by_session

WANT = {0.02: 0.45, 0.04: 0.60}
"""Minimum shares, of sessions that nobody tuned on."""
NEXT_STEPS = 40


def rows(cuts: Sequence[Cut], what: str) -> list[Row]:
    """Return an outline of each size, alone and with what always stays."""
    made = []
    for share, want in WANT.items():
        compactions = [(cut, _outlined(cut, share)) for cut in cuts]
        alone = _mean_and_interval(compactions, lambda cut, kept: _named(cut, kept.outline))
        beside = _mean_and_interval(
            compactions, lambda cut, kept: len(cut.mentioned(kept.messages)) / len(cut.needed)
        )
        size = fmean(
            kept.stats.outline_tokens / max(kept.stats.before_tokens, 1) for _, kept in compactions
        )
        made.append(
            Row(
                f"{what}, in an outline of {share:.0%}",
                alone[0],
                "",
                want=want,
                more_is_better=True,
                beside=f"{alone[1]}; with what stays in any case {beside[0]:.2f} ({beside[1]})",
                limit=f"{size:.1%} of the tokens; which of the many names will be used",
            )
        )
    return made


def within(cut: Cut, count: int) -> Cut:
    """Return the cut with what is needed for so many steps."""
    ahead = cut.ahead[: steps(cut.ahead)[:count][-1].stop]
    used = names_in("\n".join(map(tool_inputs, ahead)))
    return replace(cut, needed=used & cut.needed, ahead=ahead)


def _outlined(cut: Cut, share: float) -> rehydrate.Compaction:
    """Return what must stay, and an outline of this share of the tokens."""
    least = rehydrate.compact_context(cut.messages, "", budget_tokens=0, format=cut.format)
    tokens = max(int(share * least.stats.before_tokens), 100)
    return rehydrate.compact_context(
        cut.messages,
        "",
        budget_tokens=least.stats.pinned_tokens + tokens,
        outline=tokens,
        format=cut.format,
    )


def _named(cut: Cut, outline: Outline | None) -> float:
    text = outline.text if outline else ""
    return sum(name in text for name in cut.needed) / len(cut.needed)


def _mean_and_interval(
    compactions: list[tuple[Cut, rehydrate.Compaction]],
    share: Callable[[Cut, rehydrate.Compaction], float],
) -> tuple[float, str]:
    """Return the mean, and its interval in words."""
    values = [(cut.session, share(cut, kept)) for cut, kept in compactions]
    return mean_by_session(values), str(by_session(values) or "one session")


def main() -> None:
    """Print the part as JSON."""
    folder = data_folder()
    if folder is None:
        sys.exit("outlines: no conversations; set REHYDRATE_DATA")
    found = []
    for source in read_sources(folder, ("coding", "long coding")):
        found += rows(source.cuts, f"{source.title}: names used later")
        ahead = [within(cut, NEXT_STEPS) for cut in source.cuts]
        found += rows(
            [cut for cut in ahead if cut.needed],
            f"{source.title}: names used in the next {NEXT_STEPS} steps",
        )
    about = (
        "Coding sessions, cut: all goes that need not stay, but for an outline. In brackets and "
        "after the figure 95% intervals by session. Claude Code's own summaries are among the rows "
        "of the context store."
    )
    print(Part("Outlines", about, found).to_json())


if __name__ == "__main__":
    main()
