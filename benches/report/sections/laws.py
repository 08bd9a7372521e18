"""Violations that must never happen, counted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from benches.report.figures import Figures
from benches.report.markdown import rows_table, section
from benches.report.rows import Row


def laws(of: Figures) -> Iterable[str]:
    """Violations that must never happen, counted."""
    if of.laws is None:
        return
    said = of.laws["laws"]
    yield from section(
        "The laws, on every conversation",
        f"{said['conversations']} conversations of {said['messages']:,} messages, ratios 0.05 to "
        "1.0, each profile, with and without a query: "
        f"{said['compactions']:,} compactions. {said['invalid_inputs']} of the inputs break a "
        "provider's rule themselves; "
        "a violation counts where the output breaks more.",
        "python -m benches.python.laws",
    )
    rows = [
        Row("violations of the provider's rules", said["violations"], "", 0),
        Row(
            "messages changed, or not the very object that came in",
            said["not_verbatim"],
            "",
            0,
            beside=f"{said['parted']:,} made of its own blocks: parallel calls of which some went",
        ),
        Row("results out of order, or with a message twice", said["out_of_order"], "", 0),
        Row(
            "over the target though the pinned units fit it",
            said["over_target"],
            "",
            0,
            beside=f"over it by pinned units alone: {said['pinned_over_target']:,}",
            limit="Units always kept may cost more than a small budget: `over_budget` says so",
        ),
    ]
    if trimmed := of.laws.get("peer_laws"):
        rows[0] = replace(
            rows[0],
            beside=f"LangChain trim_messages: {trimmed['violations']:,} in "
            f"{trimmed['compactions']:,} (ratios alone; the rules for OpenAI's messages)",
        )
    yield from rows_table(rows)
    if cut := of.laws.get("excerpt_laws"):
        yield from _of_excerpts(cut, said["conversations"])


def _of_excerpts(cut: dict[str, Any], conversations: int) -> Iterable[str]:
    yield from section(
        "The laws of excerpts, on every conversation",
        f'{conversations} conversations, `granularity="excerpt"`, ratios 0.05 to 0.6, balanced, '
        f"with and without a query: {cut['compactions']:,} compactions, which kept "
        f"{cut['excerpted']:,} messages in part. What is kept is then compacted once more to the "
        "same budget.",
        "python -m benches.python.laws",
    )
    counted = "The marks of the gaps are in the budget"
    yield from rows_table(
        [
            Row("violations of the provider's rules", cut["violations"], "", 0),
            Row("kept lines that are not the message's own, in order", cut["not_verbatim"], "", 0),
            Row(
                "over the target though the pinned units fit it",
                cut["over_target"],
                "",
                0,
                limit=counted,
            ),
            Row(
                "excerpts that a second compaction to the same budget cut again",
                cut["changed"],
                "",
                0,
            ),
        ]
    )
