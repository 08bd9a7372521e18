"""The page of an evaluation: figures, charts and losses of templates/evaluation.html.

`rehydrate eval SESSIONS --html PAGE` writes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from rehydrate._check import check_type
from rehydrate.page.html import colours, render
from rehydrate.retention import Evaluation, Interval
from rehydrate.retention.evaluation import SUMMARY, Row, columns

MAX_SKIPPED = 40
MAX_SESSIONS = 24

_NAMES = {
    "keep last": "the last messages",
    "trim_messages": "LangChain trim_messages",
    "compact_context": "compact_context",
    "excerpts": "compact_context, excerpts",
    "outline": "compact_context, outline",
    SUMMARY: "the agent's own summary",
}


def _kept(row: Row) -> tuple[float, Interval | None]:
    """Return the deciding measure: later use, or answers if no session was cut."""
    if row.used_later is None:
        return row.answers or 0.0, row.answers_interval
    return row.used_later, row.used_later_interval


def _share(value: float | None) -> str:
    """Return a share in two digits, a dash for none."""
    return "–" if value is None else f"{value:.2f}"


class Plot:
    """The places of the chart of shares by ratio."""

    width, height = 520, 330
    left, right, top, bottom = 54, 498, 12, 284
    """The edges of the plot; the labels of the axes are around it."""

    def __init__(self, found: Evaluation) -> None:
        """Find the range of the axes."""
        drawn = [interval.low for row in found.rows if (interval := _kept(row)[1])]
        self.has_bands = bool(drawn)
        drawn += [_kept(row)[0] for row in (*found.rows, *found.summaries[:1])]
        self.floor = min(0.9, int(min(drawn, default=0.0) * 10) / 10)
        self._max_ratio = max(found.ratios)

    @property
    def grid(self) -> list[float]:
        """The shares that have a line."""
        steps = round((1 - self.floor) * 10)
        return [self.floor + step / 10 for step in range(0, steps + 1, 1 if steps <= 6 else 2)]

    def x(self, ratio: float) -> str:
        """Return the x coordinate of a ratio."""
        return f"{self.left + (self.right - self.left) * ratio / self._max_ratio:.1f}"

    def y(self, share: float, below: int = 0) -> str:
        """Return the y coordinate of a share."""
        down = (1 - share) / (1 - self.floor)
        return f"{self.top + (self.bottom - self.top) * down + below:.1f}"

    def curve(self, rows: Sequence[Row]) -> str:
        """Return the line through the rows of a strategy; "" for a single one."""
        points = [f"{self.x(row.ratio)},{self.y(_kept(row)[0])}" for row in rows]
        return " ".join(points) if len(points) > 1 else ""

    def band(self, rows: Sequence[Row]) -> str:
        """Return the outline of the intervals of a strategy; "" for less than two."""
        banded = [(self.x(row.ratio), interval) for row in rows if (interval := _kept(row)[1])]
        upper = [f"{x},{self.y(interval.high)}" for x, interval in banded]
        lower = [f"{x},{self.y(interval.low)}" for x, interval in reversed(banded)]
        return " ".join([*upper, *lower]) if len(banded) > 1 else ""


def _by_session(found: Evaluation) -> list[tuple[str, list[tuple[str, float]], float]]:
    """Return the share of each session that each strategy keeps at the recommended ratio, and that
    of the recommended one, the worst first; nothing for fewer than two sessions. The recommended
    one is the last of the strategies, so that nothing hides it."""
    advice = found.recommendation
    if advice is None or advice.sessions < 2:
        return []
    shares: dict[str, dict[str, float]] = {}
    for strategy in found.strategies:
        groups: dict[str, list[float]] = {}
        for score in (*found.work[strategy].scores, *found.asked[strategy].scores):
            if score.ratio == advice.ratio:
                groups.setdefault(score.session, []).append(score.retained)
        for session, values in groups.items():
            shares.setdefault(session, {})[strategy] = fmean(values)
    every = [
        (
            session,
            sorted(kept.items(), key=lambda each: each[0] == advice.strategy),
            kept.get(advice.strategy, 0.0),
        )
        for session, kept in shares.items()
    ]
    return sorted(every, key=lambda each: each[2])


def evaluation_page(found: Evaluation, *, title: str = "your sessions") -> str:
    """Return an evaluation as one HTML page: no script, nothing loaded, all escaped.

    >>> from rehydrate.retention import Conversation, Question, evaluate, sample_cases
    >>> turns = [{"role": "user", "content": f"Pier {n} is <b>free</b>."} for n in range(9)]
    >>> chat = Conversation("chat", turns, questions=(Question("Is pier 1 free?", (1,)),))
    >>> page = evaluation_page(evaluate(sample_cases([chat]), ratios=(0.5,)), title="<harbour>")
    >>> page.startswith("<!doctype html>"), "&lt;harbour&gt;" in page
    (True, True)
    """
    check_type("found", found, Evaluation, "pass what evaluate() returned")
    advice = found.recommendation
    measures = list(found.measures())
    at_ratio = [row for row in found.rows if advice and row.ratio == advice.ratio]
    given = {row.ratio: row for row in found.rows}
    return render(
        "evaluation.html",
        title=title,
        found=found,
        advice=advice,
        counts=found.counts(),
        # The strongest colours are for our strategies.
        colours=colours([*([advice.strategy] if advice else []), *found.strategies, SUMMARY]),
        names=_NAMES,
        own=SUMMARY,
        measure=measures[0][0] if measures else "",
        plot=Plot(found),
        kept=_kept,
        share=_share,
        by_session=_by_session(found),
        max_sessions=MAX_SESSIONS,
        measures=measures if found.rows else [],
        sizes=[f"{row.asked:.1%} at {ratio:.0%}" for ratio, row in given.items() if row.is_raised],
        at_ratio=at_ratio,
        columns=list(columns(at_ratio).items()),
        max_skipped=MAX_SKIPPED,
    )
