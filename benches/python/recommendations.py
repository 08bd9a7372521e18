"""Test of recommendations on unseen sessions: `python -m benches.python.recommendations`.

Sessions of one kind are halved at random, again and again: `recommend` chooses on one half, and its
choice is measured on the other. Sampled and measured once, as `rehydrate eval` does.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Collection, Mapping, Sequence
from statistics import fmean, quantiles

from benches.python.shapes import SHAPES, sessions
from benches.python.sources import data_folder
from benches.report.rows import Part, Row
from rehydrate.retention import (
    Conversation,
    Recommendation,
    Retention,
    Score,
    evaluate,
    exact_cost,
    read_claude_code,
    read_locomo,
    read_tau_bench,
    sample_cases,
    standard_strategies,
)
from rehydrate.retention.strategies import GOAL, NEAR_GOAL, recommend

RATIOS = (0.1, 0.2, 0.3, 0.4, 0.6)
HALVINGS = 100
WITHIN = 0.05
"""The other half may be this far below the predicted share."""


def kinds() -> dict[str, list[Conversation]]:
    """Return sessions by kind: real ones where there are some, and generated ones."""
    found = {}
    if folder := data_folder():
        found["airline support"] = read_tau_bench(folder / "airline_dev.json")
        found["LoCoMo, questions"] = read_locomo(folder / "locomo_dev.json")
        paths = sorted((folder / "claude_code").glob("*.jsonl"))
        found["coding sessions"] = [read_claude_code(path) for path in paths]
    for shape in SHAPES:
        logs = sessions(shape)
        found[f"{shape}, made"] = [log.conversation() for log in logs]
    return found


def try_out(kind: str, conversations: Sequence[Conversation]) -> Row | None:
    """Measure how much the unseen halves keep with the recommendations."""
    cost = exact_cost()
    strategies = standard_strategies(cost)
    found = evaluate(sample_cases(conversations), strategies, RATIOS, cost=cost)
    measured = sorted({s.session for r in (found.work, found.asked) for s in _scores(r)})
    if len(measured) < 3:
        return None
    tokens = {each.name: sum(map(cost, each.messages)) for each in conversations}
    rng = random.Random(0)
    kept, reported, sure = [], [], []
    for _ in range(HALVINGS):
        seen = set(rng.sample(measured, (len(measured) + 1) // 2))
        halves = [{n: _of(r, seen) for n, r in part.items()} for part in (found.work, found.asked)]
        advice = recommend(strategies, RATIOS, *halves, tokens)
        assert advice is not None
        kept.append(_kept(found.work, found.asked, advice, set(measured) - seen))
        reported.append(advice.kept if advice.held_out is None else advice.held_out)
        if advice.certainty in ("fair", "high"):
            sure.append(kept[-1] >= GOAL - NEAR_GOAL)
    tenths = quantiles(kept, n=10)
    near = fmean(one >= other - WITHIN for one, other in zip(kept, reported, strict=True))
    said = f"sure {len(sure)} times, right {sum(sure)} times" if sure else "never sure"
    return Row(
        f"{kind}, {len(measured)} sessions",
        fmean(kept),
        "",
        beside=f"forecast {fmean(reported):.3f}; at most {WITHIN:g} under it in {near:.0%}; {said}",
        limit=f"from {tenths[0]:.2f} to {tenths[-1]:.2f} in eight of ten halvings",
    )


def _scores(by_name: Mapping[str, Retention]) -> list[Score]:
    return [score for retention in by_name.values() for score in retention.scores]


def _of(retention: Retention, names: Collection[str]) -> Retention:
    return Retention(tuple(score for score in retention.scores if score.session in names))


def _kept(
    work: Mapping[str, Retention],
    asked: Mapping[str, Retention],
    advice: Recommendation,
    names: Collection[str],
) -> float:
    """Return the smaller mean of names used later and of answers, as `recommend` does."""
    means = []
    for part in (work, asked):
        scores = _of(part[advice.strategy], names).scores
        values = [score.retained for score in scores if score.ratio == advice.ratio]
        means += [fmean(values)] if values else []
    return min(means)


def main() -> None:
    """Print the part as JSON."""
    rows = []
    for kind, conversations in kinds().items():
        row = try_out(kind, conversations)
        if row is not None:
            print(f"  {row.case}: {row.value:.3f}, {row.beside}, {row.limit}", file=sys.stderr)
            rows.append(row)
    about = (
        f"`rehydrate eval` recommends settings and a ratio for a goal of {GOAL:g}. {HALVINGS} "
        "times the sessions of a kind are halved: one half recommends, the figure is what "
        "the other half keeps at it. Told is what `held_out` of the recommendation says; sure are "
        f"those that call themselves fairly sure, right where {GOAL - NEAR_GOAL:g} is kept."
    )
    print(Part("Recommendations on sessions not seen", about, rows, "").to_json())


if __name__ == "__main__":
    main()
