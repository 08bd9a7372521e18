"""The tables: every strategy at every ratio, all measures at one, and how it was measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from rehydrate.page.escaping import escaped
from rehydrate.page.evaluation.values import measure, share, shown_name
from rehydrate.page.marks import name, plural
from rehydrate.retention import Evaluation, Interval
from rehydrate.retention.evaluate import Row

MOST_SKIPPED = 40

_METHOD = (
    "Each session is cut at several points, never between a tool call and its result. What came "
    "before a cut is compacted without a query; what counts is how many of the names (files, "
    "identifiers, ids, numbers) that tool calls use after the cut are still mentioned. Sizes are "
    "exact o200k_base tokens. Intervals are bootstrapped by session: its cuts are not independent. "
    "What users laid down are sentences of theirs that bind what follows (never, always, must, at "
    "most, …), kept where they stand to the letter or in other words of one line. Rules broken are "
    "those of the provider that the result breaks and the session did not."
)


def kept_by_ratio(found: Evaluation) -> Iterator[str]:
    """A line a strategy, a column a ratio, with intervals."""
    measures: list[tuple[str, Callable[[Row], tuple[float | None, Interval | None]]]] = []
    if found.cuts:
        measures.append((measure(found), lambda row: (row.used_later, row.used_later_interval)))
    if found.questions:
        said = "of the messages that answer the questions, the share still there"
        measures.append((said, lambda row: (row.answers, row.answers_interval)))
    if not found.rows:
        return
    for title, value in measures:
        yield f"<h2>The figures <span>{title}</span></h2>"
        heads = "".join(f"<th>{ratio:.0%}</th>" for ratio in found.ratios)
        yield f'<div class="scroll"><table><thead><tr><th></th>{heads}</tr></thead><tbody>'
        for strategy in found.strategies:
            cells = []
            for ratio in found.ratios:
                mean, interval = value(found.row(strategy, ratio))
                between = f'<br><span class="quiet">{interval}</span>' if interval else ""
                cells.append(f"<td{_chosen(found, strategy, ratio)}>{share(mean)}{between}</td>")
            yield f"<tr><th>{shown_name(strategy)}</th>{''.join(cells)}</tr>"
        yield "</tbody></table></div>"


def all_measures(found: Evaluation) -> Iterator[str]:
    """The strategies at the recommended ratio, by every measure."""
    advice = found.recommendation
    if advice is None:
        return
    rows = [row for row in found.rows if row.ratio == advice.ratio]
    columns: list[tuple[str, Callable[[Row], str]]] = [
        ("used later", lambda row: share(row.used_later)),
        ("answers", lambda row: share(row.answers)),
        ("laid down by users", lambda row: share(row.laid_down)),
        ("last user turn", lambda row: share(row.last_turn)),
        ("of the tokens", lambda row: f"{row.cost_ratio:.0%}"),
        ("rules broken", lambda row: f"{row.violations:,}"),
        ("time", lambda row: f"{row.milliseconds:.1f} ms"),
    ]
    columns = [each for each in columns if any(each[1](row) != "–" for row in rows)]
    yield f"<h2>All measures <span>at {advice.ratio:.0%} of the tokens</span></h2>"
    heads = "".join(f"<th>{head}</th>" for head, _ in columns)
    yield f'<div class="scroll"><table><thead><tr><th></th>{heads}</tr></thead><tbody>'
    for row in rows:
        chosen = _chosen(found, row.strategy, row.ratio)
        cells = "".join(f"<td>{cell(row)}</td>" for _, cell in columns)
        yield f"<tr{chosen}><th>{shown_name(row.strategy)}</th>{cells}</tr>"
    yield "</tbody></table></div>"


def method(found: Evaluation) -> Iterator[str]:
    """How it was measured, on what, and what was left out."""
    yield "<h2>How this was measured</h2>"
    asked = "" if found.judged else " No model was asked."
    yield f'<p class="prose">{escaped(_METHOD + asked)}</p>'
    for note in found.notes:
        yield f'<p class="prose quiet">{escaped(note)}.</p>'
    yield '<details class="more"><summary>'
    yield f"{plural(len(found.sessions), 'session')} read</summary>"
    heads = "<th>session</th><th>format</th><th>messages</th><th>tokens</th><th>cases</th>"
    yield f'<div class="scroll"><table><thead><tr>{heads}</tr></thead><tbody>'
    for session in found.sessions:
        figures = (session.messages, session.tokens, session.cases)
        cells = "".join(f"<td>{figure:,}</td>" for figure in figures)
        yield f"<tr><th>{name(session.name, 60)}</th><td>{session.format}</td>{cells}</tr>"
    yield "</tbody></table></div></details>"
    if found.skipped:
        yield f'<details class="more gone"><summary>{len(found.skipped):,} skipped</summary>'
        yield from _skipped(found.skipped)
        yield "</details>"


def _skipped(skipped: Sequence[tuple[str, str]]) -> Iterator[str]:
    for who, reason in skipped[:MOST_SKIPPED]:
        yield f'<p class="prose">{name(who)}: {name(reason)}</p>'
    if len(skipped) > MOST_SKIPPED:
        yield f'<p class="prose quiet">and {len(skipped) - MOST_SKIPPED:,} more</p>'


def _chosen(found: Evaluation, strategy: str, ratio: float) -> str:
    advice = found.recommendation
    is_chosen = advice is not None and (advice.strategy, advice.ratio) == (strategy, ratio)
    return ' class="chosen"' if is_chosen else ""
