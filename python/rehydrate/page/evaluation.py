"""An evaluation as one HTML page: the recommendation, charts, tables, and losses with reasons.

    Evaluation -> head, charts, tables, losses -> evaluation_page -> the page

`rehydrate eval SESSIONS --html PAGE` writes it. Like the other pages it has no script and loads
nothing. It opens offline, and no content of a session can run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from rehydrate._text import plural
from rehydrate.page.charts import (
    by_ratio,
    by_session,
    legend,
    measure,
    own_summaries,
    share,
    shown_name,
)
from rehydrate.page.html import document, escaped, name
from rehydrate.retention import Evaluation, Interval, Loss
from rehydrate.retention.evaluation import Row

MAX_SKIPPED = 40

_METHOD = (
    "Each session is cut at several points, never between a tool call and its result. What came "
    "before a cut is compacted without a query; what counts is how many of the names (files, "
    "identifiers, ids, numbers) that tool calls use after the cut are still mentioned, and how "
    "many of the lines that they type again (15 characters or more, from earlier calls and "
    "results) are still there verbatim. Names flatter a list of names, which says nothing about "
    "them; lines do not. All strategies are given the same size: the ratio, or what "
    "compact_context had to keep, if that is more. Sizes are exact o200k_base tokens. Means are "
    "over the cuts of a session, then over the sessions, and intervals are bootstrapped by "
    "session: its cuts are not independent. "
    "What users laid down are sentences of theirs that bind what follows (never, always, must, at "
    "most, …), kept where they stand to the letter or in other words of one line. Rules broken are "
    "those of the provider that the result breaks and the session did not."
)


def kept_by_ratio(found: Evaluation) -> Iterator[str]:
    """Yield a table with a row for each strategy, a column for each ratio, and intervals."""
    measures: list[tuple[str, Callable[[Row], tuple[float | None, Interval | None]]]] = []
    if found.cuts:
        measures.append((measure(found), lambda row: (row.used_later, row.used_later_interval)))
    if found.cuts_with_lines:
        label = (
            "of the lines typed again later, the share still there verbatim, "
            f"at {plural(found.cuts_with_lines, 'cut')}"
        )
        measures.append((label, lambda row: (row.lines, row.lines_interval)))
    if found.questions:
        label = "of the messages that answer the questions, the share still there"
        measures.append((label, lambda row: (row.answers, row.answers_interval)))
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
                cells.append(
                    f"<td{_chosen_class(found, strategy, ratio)}>{share(mean)}{between}</td>"
                )
            yield f"<tr><th>{shown_name(strategy)}</th>{''.join(cells)}</tr>"
        yield "</tbody></table></div>"
    yield from _sizes(found)


def _sizes(found: Evaluation) -> Iterator[str]:
    """Yield the size at each ratio, where it is more, and who keeps more than that."""
    given = {row.ratio: row.asked for row in found.rows}
    more = [
        f"{asked:.1%} at {ratio:.0%}" for ratio, asked in given.items() if asked >= ratio + 0.0005
    ]
    if more:
        yield (
            '<p class="prose quiet">What must be kept is more than some ratios allow. All were '
            f"given as much: {', '.join(more)}.</p>"
        )
    for row in found.rows:
        if row.is_over:
            there = f"; compact_context keeps {row.beside:.2f} there" if row.beside else ""
            yield (
                f'<p class="prose quiet">{shown_name(row.strategy)} keeps {row.cost_ratio:.1%} '
                f"where it was asked for {row.asked:.1%}{there}.</p>"
            )


def all_measures(found: Evaluation) -> Iterator[str]:
    """Yield the strategies at the recommended ratio, by every measure."""
    advice = found.recommendation
    if advice is None:
        return
    rows = [row for row in found.rows if row.ratio == advice.ratio]
    columns: list[tuple[str, Callable[[Row], str]]] = [
        ("used later", lambda row: share(row.used_later)),
        ("typed again", lambda row: share(row.lines)),
        ("answers", lambda row: share(row.answers)),
        ("laid down by users", lambda row: share(row.laid_down)),
        ("last user turn", lambda row: share(row.last_turn)),
        ("of the tokens", lambda row: f"{row.cost_ratio:.1%}"),
        ("rules broken", lambda row: f"{row.violations:,}"),
        ("time", lambda row: f"{row.milliseconds:.1f} ms"),
    ]
    columns = [each for each in columns if any(each[1](row) != "–" for row in rows)]
    yield f"<h2>All measures <span>at {advice.ratio:.0%} of the tokens</span></h2>"
    heads = "".join(f"<th>{head}</th>" for head, _ in columns)
    yield f'<div class="scroll"><table><thead><tr><th></th>{heads}</tr></thead><tbody>'
    for row in rows:
        chosen = _chosen_class(found, row.strategy, row.ratio)
        cells = "".join(f"<td>{cell(row)}</td>" for _, cell in columns)
        yield f"<tr{chosen}><th>{shown_name(row.strategy)}</th>{cells}</tr>"
    yield "</tbody></table></div>"


def method(found: Evaluation) -> Iterator[str]:
    """Yield how it was measured, on what, and what was left out."""
    yield "<h2>How this was measured</h2>"
    no_model = "" if found.judged else " No model was asked."
    yield f'<p class="prose">{escaped(_METHOD + no_model)}</p>'
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
    for who, reason in skipped[:MAX_SKIPPED]:
        yield f'<p class="prose">{name(who)}: {name(reason)}</p>'
    if len(skipped) > MAX_SKIPPED:
        yield f'<p class="prose quiet">and {len(skipped) - MAX_SKIPPED:,} more</p>'


def _chosen_class(found: Evaluation, strategy: str, ratio: float) -> str:
    advice = found.recommendation
    is_chosen = advice is not None and (advice.strategy, advice.ratio) == (strategy, ratio)
    return ' class="chosen"' if is_chosen else ""


def lost(found: Evaluation) -> Iterator[str]:
    """Yield examples of losses at the recommended ratio, one card each."""
    advice = found.recommendation
    if advice is None or not found.cuts:
        return
    yield (
        f"<h2>What was lost, and why <span>at {advice.ratio:.0%}; names that are used later "
        "and are no longer mentioned, of the cuts that lost the most</span></h2>"
    )
    if not found.losses:
        yield '<p class="prose">Nothing: every name that is used later is still there.</p>'
    for loss in found.losses:
        yield from _card(loss)


def _card(loss: Loss) -> Iterator[str]:
    yield '<section class="loss">'
    yield f'<p class="what">{name(loss.name)}</p>'
    yield (
        f'<p class="why"><b>{escaped(loss.why)}</b> <span class="quiet">message {loss.index:,} of '
        f"{loss.of:,} ({escaped(loss.role)}), the last that has it</span></p>"
    )
    around = f"{escaped(loss.before)}<b>{escaped(loss.name)}</b>{escaped(loss.after)}"
    yield f'<p class="text code" dir="auto">{around}</p>'
    used = escaped(loss.used_in)
    yield (
        f'<p class="used">used {plural(loss.used, "time")} later, first in '
        f'<span class="code" dir="auto">{used}</span></p>'
    )
    yield (
        f'<p class="scale">{name(loss.cut, 80)}: {loss.lost:,} of {loss.needed:,} names lost</p>'
    )
    yield "</section>"


def judged(found: Evaluation) -> Iterator[str]:
    """Yield every question that a model was asked, before and after."""
    judgement = found.judged
    if judgement is None:
        return
    yield f"<h2>Asked of a model <span>{escaped(judgement.sentence())}</span></h2>"
    heads = "<th>question</th><th>right</th><th>before</th><th>after</th>"
    yield f'<div class="scroll"><table class="asked"><thead><tr>{heads}</tr></thead><tbody>'
    for each in judgement.questions:
        cells = "".join(
            f'<td class="{"kept" if right else "dropped"}">{name(answer)}</td>'
            for answer, right in (
                (each.before, each.right_before),
                (each.after, each.right_after),
            )
        )
        yield f"<tr><td>{name(each.question)}</td><td>{name(each.expected)}</td>{cells}</tr>"
    yield "</tbody></table></div>"


def evaluation_page(found: Evaluation, *, title: str = "your sessions") -> str:
    """Return an evaluation as one HTML page: no script, nothing loaded, all escaped.

    >>> from rehydrate.retention import Conversation, Question, evaluate, sample_cases
    >>> turns = [{"role": "user", "content": f"Pier {n} is <b>free</b>."} for n in range(9)]
    >>> chat = Conversation("chat", turns, questions=(Question("Is pier 1 free?", (1,)),))
    >>> page = evaluation_page(evaluate(sample_cases([chat]), ratios=(0.5,)), title="<harbour>")
    >>> page.startswith("<!doctype html>"), "&lt;harbour&gt;" in page
    (True, True)
    """
    main = [
        *legend(found),
        '<div class="charts">',
        *by_ratio(found),
        *by_session(found),
        "</div>",
        *own_summaries(found),
        *kept_by_ratio(found),
        *all_measures(found),
        *lost(found),
        *judged(found),
        *method(found),
    ]
    return document(
        f"{title}: what survives",
        _head(found, title),
        main,
        "evaluation.css",
        body='<body class="evaluation">',
    )


def _head(found: Evaluation, title: str) -> Iterator[str]:
    """Yield the recommendation, its certainty, and the data behind it."""
    advice = found.recommendation
    yield "<header>"
    yield f'<p class="name"><b>Rehydrate</b> {name(title)}</p>'
    if advice is None:
        yield "<h1>What survives</h1>"
    else:
        fate = "" if advice.reached else " over"
        yield (
            f"<h1>Keep {advice.ratio:.0%} of the tokens"
            f' <span class="change{fate}">{advice.kept:.0%} of {advice.basis}</span></h1>'
        )
        yield f'<p class="call code">{escaped(advice.code)}</p>'
        for sentence in advice.sentences():
            yield f'<p class="advice">{escaped(sentence)}</p>'
    measured = [session for session in found.sessions if session.cases]
    counts = [
        plural(len(measured), "session"),
        plural(found.cuts, "cut") if found.cuts else "",
        plural(found.questions, "question") if found.questions else "",
        plural(sum(session.tokens for session in measured), "token"),
        ", ".join(sorted({session.format for session in measured})),
    ]
    yield '<ul class="counts">'
    yield from (f"<li>{escaped(count)}</li>" for count in counts if count)
    yield "</ul>"
    for problem in found.degraded:
        yield f'<p class="notice">Left out: {name(problem)}</p>'
    yield "</header>"
