"""Sessions of other shapes: values used later, and values asked for, that survive."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from benches.report.figures import Figures
from benches.report.markdown import section, table

RATIOS = ("0.1", "0.2", "0.4")
HEADER = ("shape", "measure", "strategy", *RATIOS, "invalid outputs")


def shapes(of: Figures) -> Iterable[str]:
    """What survives in sessions of other shapes, against strategies that keep the end."""
    yield from section(
        "Retention in other shapes",
        "Made sessions, for want of real ones: notebooks, web agents, support with JSON records, "
        "research, and chats in German, Spanish, Japanese, Arabic, Hindi, Chinese and Hebrew. "
        '"Used later": without a query, of the values that calls after a cut use, the share still '
        'mentioned. "Asked": of the values that the answer to a question at the end needs, the '
        "share still there; the question is the last user turn, or the query where that is said. "
        "By share of the o200k_base tokens kept; in brackets the 95% bootstrap interval by "
        "session. They say where an engine is weak, not how often.",
        "python -m benches.python.shapes",
    )
    if not of.shapes:
        yield from ("Not measured.", "")
        return
    yield " ".join(
        f"{each['shape'].capitalize()}: {each['sessions']} sessions of {each['messages']:,.0f} "
        f"messages and {each['tokens']:,.0f} tokens on average, {each['cuts']} cuts, "
        f"{each['questions']} questions."
        for each in of.shapes
    )
    yield ""
    yield from table(HEADER, lines(of.shapes))


def lines(found: Sequence[dict[str, Any]]) -> Iterator[list[str]]:
    """The table: a line for each shape, measure and strategy."""
    for each in found:
        for measure, strategies in each["measures"].items():
            for strategy, figures in strategies.items():
                cells = [_cell(figures, ratio) for ratio in RATIOS]
                broken = str(figures["violations"] or "")
                yield [each["shape"], measure, strategy, *cells, broken]


def _cell(figures: dict[str, Any], ratio: str) -> str:
    interval = figures["interval"].get(ratio)
    mean = f"{figures['retained'][ratio]:.3f}"
    return f"{mean} ({interval})" if interval else mean
