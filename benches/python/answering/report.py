"""The figures of a run as text: by strategy and by type of question, intervals by conversation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import fmean

from benches.python.answering.running import Planned, Row
from rehydrate.retention.measure import by_session

BASELINE = "keep_last"
_SPENT = {"prompt_tokens": "first prompt", "tokens_in": "tokens in", "tokens_out": "out"}


def report(rows: Sequence[Row], model: str, judge: str | None) -> str:
    """Return the report: verdicts of the judge if there is one, else F1. Means are over answers
    with a score; costs are per question."""
    of: dict[str, list[Row]] = {}
    for row in rows:
        of.setdefault(row.strategy, []).append(row)
    known = {row.case.id: _score(row, judge) for row in of.get(BASELINE, [])}
    kinds = sorted({row.case.type for row in rows})
    head = "", "scored", "right" if judge else "F1", "95%", f"less {BASELINE}", "95%"
    table = [(*head, *_SPENT.values(), "requests", "dollars in all")]
    types, problems = [("", *kinds)], []
    for name, own in of.items():
        scores = [(row, score) for row in own if (score := _score(row, judge)) is not None]
        pairs = ((row, score, known.get(row.case.id)) for row, score in scores)
        gains = [(row, score - base) for row, score, base in pairs if base is not None]
        answers = [row.answer for row in own if not row.answer.problem]
        spent = [_mean([getattr(each, key) for each in answers]) for key in (*_SPENT, "requests")]
        paid = [each.dollars for each in answers if each.dollars is not None]
        cost = f"{sum(paid):,.2f}" if paid else "-"
        shares = *_interval(scores), *_interval(gains)
        table.append((name, f"{len(scores)} of {len(own)}", *shares, *spent, cost))
        by_kind = ([score for row, score in scores if row.case.type == kind] for kind in kinds)
        types.append((name, *(f"{_mean(each)} ({len(each)})" for each in by_kind)))
        why = Counter(row.answer.problem or row.judge_problem for row in own)
        problems += [f"{name}: {n:,} of {len(own):,}: {what}" for what, n in why.items() if what]
    count = len({row.case.history.name for row in rows})
    said = f"{model}, {f'judged by {judge}, ' if judge else ''}{count} conversations"
    return "\n".join([said, *_table(table), *_table(types), *problems])


def plan_report(plan: Iterable[Planned]) -> str:
    """Return the requests of a run as text."""
    rows = [("", "answered before", "do not fit", "requests", "tokens in")]
    for each in plan:
        spans = (f"{low:,} - {high:,}" for low, high in (each.requests, each.tokens))
        rows.append((each.name, f"{each.known:,}", f"{each.unfit:,}", *spans))
    return "\n".join(["To ask, at least - at most; tokens are estimates", *_table(rows)])


def _score(row: Row, judge: str | None) -> float | None:
    return row.right if judge else row.f1


def _interval(scores: Sequence[tuple[Row, float]]) -> tuple[str, str]:
    ends = by_session((row.case.history.name, score) for row, score in scores)
    return _mean([score for _, score in scores]), str(ends or "-")


def _mean(values: Sequence[float]) -> str:
    mean = fmean(values) if values else None
    return "-" if mean is None else f"{mean:,.0f}" if mean >= 100 else f"{mean:.2f}"


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    ends = [(row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])) for row in rows]
    return ["  ".join(cells).rstrip() for cells in ends] + [""]
