"""What must never happen, counted."""

from __future__ import annotations

from collections.abc import Iterable

from benches.report.figures import Figures
from benches.report.markdown import rows_table, section
from benches.report.rows import Row


def laws(of: Figures) -> Iterable[str]:
    """What must never happen, counted."""
    if of.retention is None:
        return
    told = of.retention["laws"]
    yield from section(
        "The laws, on every conversation",
        f"{told['conversations']} conversations of {told['messages']:,} messages, ratios 0.05 to "
        "1.0, each profile, with and without a query: "
        f"{told['compactions']:,} compactions. {told['invalid_inputs']} of the inputs break a "
        "provider's rule themselves; "
        "a violation counts where the output breaks more.",
        "python -m benches.python.retention",
    )
    rows = [
        Row("violations of the provider's rules", told["violations"], "", 0),
        Row("messages changed, or not the very object that came in", told["not_verbatim"], "", 0),
        Row("results out of order, or with a message twice", told["out_of_order"], "", 0),
        Row(
            "over the target though the pinned units fit it",
            told["over_target"],
            "",
            0,
            beside=f"over it by pinned units alone: {told['pinned_over_target']:,}",
            limit="Units always kept may cost more than a small budget: `over_budget` says so",
        ),
    ]
    yield from rows_table(rows)
