"""Values of a row as the page shows them: the deciding measure, and full names."""

from __future__ import annotations

from rehydrate.page.html import name
from rehydrate.retention import Evaluation, Interval
from rehydrate.retention.evaluation import SUMMARY, Row

_NAMES = {
    "keep last": "the last messages",
    "trim_messages": "LangChain trim_messages",
    "compact_context": "compact_context",
    "excerpts": "compact_context, excerpts",
    "outline": "compact_context, outline",
    SUMMARY: "the agent's own summary",
}


def shown_name(strategy: str) -> str:
    """Return a strategy's name for readers."""
    return name(_NAMES.get(strategy, strategy), 60)


def kept(row: Row) -> float:
    """Return the deciding measure: later use, or answers where no session was cut."""
    value = row.answers if row.used_later is None else row.used_later
    return value or 0.0


def kept_interval(row: Row) -> Interval | None:
    """Return the interval of the deciding measure."""
    return row.answers_interval if row.used_later is None else row.used_later_interval


def measure(found: Evaluation) -> str:
    """Return what the share refers to."""
    if found.cuts:
        return "of the names used later, the share still there"
    return "of the messages that answer the questions, the share still there"


def share(value: float | None) -> str:
    """Return a share in two digits, a dash for none."""
    return "–" if value is None else f"{value:.2f}"
