"""The charts of an evaluation: shares kept by ratio, by session, and next to agents' summaries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from statistics import fmean

from rehydrate.page.html import colours, name, percent
from rehydrate.retention import Evaluation, Interval
from rehydrate.retention.evaluation import SUMMARY, Row

Scale = Callable[[float], float]
WIDTH, HEIGHT = 520, 330
LEFT, RIGHT, TOP, BOTTOM = 54, 22, 12, 46
"""The margins around the plot, which hold the labels of the axes."""
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


MAX_SESSIONS = 24


def legend(found: Evaluation) -> Iterator[str]:
    """Yield the legend: the colour of each strategy."""
    colour = _colours(found)
    yield '<ul class="legend">'
    for strategy in colour:
        if strategy != SUMMARY or found.summaries:
            yield f'<li class="{colour[strategy]}">{shown_name(strategy)}</li>'
    yield "</ul>"


def by_ratio(found: Evaluation) -> Iterator[str]:
    """Yield a line with its interval for each strategy, the goal, and agents' own summaries."""
    colour = _colours(found)
    max_ratio = max(found.ratios)
    drawn = [interval.low for row in found.rows if (interval := kept_interval(row))]
    drawn += [kept(row) for row in (*found.rows, *found.summaries[:1])]
    floor = min(0.9, int(min(drawn, default=0.0) * 10) / 10)

    def x(ratio: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * ratio / max_ratio

    def y(share: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (1 - (share - floor) / (1 - floor))

    yield '<figure class="chart">'
    yield f"<h2>Kept, by how much is left <span>{measure(found)}</span></h2>"
    label = f"{measure(found)}, for each strategy at each ratio; the table below has the figures"
    yield f'<svg class="plot" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">'
    steps = round((1 - floor) * 10)
    for step in range(0, steps + 1, 1 if steps <= 6 else 2):
        at = y(floor + step / 10)
        yield f'<line class="grid" x1="{LEFT}" y1="{at:.1f}" x2="{WIDTH - RIGHT}" y2="{at:.1f}"/>'
        yield (
            f'<text class="tick end" x="{LEFT - 6}" y="{at + 4:.1f}">{floor + step / 10:.0%}</text>'
        )
    for ratio in found.ratios:
        yield f'<text class="tick mid" x="{x(ratio):.1f}" y="{HEIGHT - 24}">{ratio:.0%}</text>'
    middle = LEFT + (WIDTH - LEFT - RIGHT) / 2
    yield f'<text class="tick mid" x="{middle:.1f}" y="{HEIGHT - 6}">of the tokens left</text>'
    advice = found.recommendation
    if advice and floor < advice.goal < 1:
        at = y(advice.goal)
        yield f'<line class="goal" x1="{LEFT}" y1="{at:.1f}" x2="{WIDTH - RIGHT}" y2="{at:.1f}"/>'
    for strategy in found.strategies:
        rows = [row for row in found.rows if row.strategy == strategy]
        yield from _line(rows, colour[strategy], x, y)
    if advice:
        row = found.row(advice.strategy, advice.ratio)
        position = f'cx="{x(advice.ratio):.1f}" cy="{y(kept(row)):.1f}"'
        yield f'<circle class="chosen {colour[advice.strategy]}" {position} r="9"/>'
    for row in found.summaries[:1]:
        position = f'cx="{x(row.cost_ratio):.1f}" cy="{y(row.used_later or 0.0):.1f}"'
        yield f'<circle class="point {colour[SUMMARY]}" {position} r="6"/>'
    yield "</svg>"
    if advice:
        bands = (
            ", bands are 95% intervals by session" if any(map(kept_interval, found.rows)) else ""
        )
        yield (
            '<p class="scale">The ring is what is recommended, the dashed line the goal'
            f" ({advice.goal:.0%}){bands}.</p>"
        )
    yield "</figure>"


def _line(rows: Sequence[Row], colour: str, x: Scale, y: Scale) -> Iterator[str]:
    banded = [(x(row.ratio), interval) for row in rows if (interval := kept_interval(row))]
    if len(banded) > 1:
        upper = [f"{at:.1f},{y(interval.high):.1f}" for at, interval in banded]
        lower = [f"{at:.1f},{y(interval.low):.1f}" for at, interval in reversed(banded)]
        yield f'<polygon class="band {colour}" points="{" ".join([*upper, *lower])}"/>'
    points = [(x(row.ratio), y(kept(row)), row) for row in rows]
    if len(points) > 1:
        path = " ".join(f"{at:.1f},{up:.1f}" for at, up, _ in points)
        yield f'<polyline class="curve {colour}" points="{path}"/>'
    for at, up, row in points:
        interval = kept_interval(row)
        between = f" ({interval})" if interval else ""
        tooltip = f"{shown_name(row.strategy)} at {row.ratio:.0%}: {kept(row):.2f}{between}"
        yield (
            f'<circle class="point {colour}" cx="{at:.1f}" cy="{up:.1f}" r="3.5">'
            f"<title>{tooltip}</title></circle>"
        )


def by_session(found: Evaluation) -> Iterator[str]:
    """Yield each session at the recommended ratio, the worst first, a dot for each strategy."""
    advice = found.recommendation
    if advice is None or advice.sessions < 2:
        return
    colour = _colours(found)
    shares: dict[str, dict[str, float]] = {}
    for strategy in found.strategies:
        groups: dict[str, list[float]] = {}
        for score in (*found.work[strategy].scores, *found.asked[strategy].scores):
            if score.ratio == advice.ratio:
                groups.setdefault(score.session, []).append(score.retained)
        for session, values in groups.items():
            shares.setdefault(session, {})[strategy] = fmean(values)
    order = sorted(shares, key=lambda session: shares[session].get(advice.strategy, 0.0))
    yield '<figure class="chart">'
    yield f"<h2>Session by session <span>at {advice.ratio:.0%}, the worst first</span></h2>"
    yield '<div class="dots">'
    for session in order[:MAX_SESSIONS]:
        kept_there = shares[session]
        yield f'<p class="who-is">{name(session, 60)}</p>'
        yield '<div class="track">'
        # The recommended one comes last, so that nothing hides it.
        for strategy in sorted(kept_there, key=lambda each: each == advice.strategy):
            share = kept_there[strategy]
            yield f'<i class="{colour[strategy]}" style="left:{percent(share, 1)}"></i>'
        yield "</div>"
        yield f'<p class="figure">{kept_there.get(advice.strategy, 0.0):.2f}</p>'
    yield "</div>"
    left = len(order) - MAX_SESSIONS
    if left > 0:
        least = shares[order[MAX_SESSIONS]].get(advice.strategy, 0.0)
        yield f'<p class="scale">and {left:,} more that keep at least {least:.2f}</p>'
    yield "</figure>"


def own_summaries(found: Evaluation) -> Iterator[str]:
    """Yield bars for the agents' own summaries, and for every strategy at the same size."""
    if not found.summaries:
        return
    colour = _colours(found)
    size = found.summaries[0].cost_ratio
    yield (
        f"<h2>Beside the agent's own summaries <span>{measure(found)}, "
        f"at their size: {size:.1%} of the tokens</span></h2>"
    )
    yield '<div class="bars">'
    for row in found.summaries:
        share, interval = row.used_later or 0.0, row.used_later_interval
        yield f'<p class="who-is">{shown_name(row.strategy)}</p>'
        yield f'<div class="track {colour[row.strategy]}"><i style="width:{percent(share, 1)}"></i>'
        if interval:
            low, high = percent(interval.low, 1), percent(interval.high - interval.low, 1)
            yield f'<em style="left:{low};width:{high}"></em>'
        yield "</div>"
        yield f'<p class="figure">{share:.2f}</p>'
    yield "</div>"


def _colours(found: Evaluation) -> dict[str, str]:
    """Return colours: the strongest for our strategies, then the rest in order."""
    ours = [found.recommendation.strategy] if found.recommendation else []
    return colours([*ours, *found.strategies, SUMMARY])
