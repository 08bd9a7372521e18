"""recommend: the smallest ratio and the settings that keep enough, and how sure that is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from rehydrate.retention.intervals import Interval, by_session
from rehydrate.retention.measure import Retention, Score
from rehydrate.retention.strategies import Strategy

GOAL = 0.9
"""The share of what is used later that has to be kept."""
SIMPLER_WITHIN = 0.01
"""A simpler setting is taken where it keeps so little less."""
FEW_SESSIONS = 5
BASELINE = "keep last"


@dataclass(frozen=True, slots=True)
class Recommendation:
    """A ratio and settings of `compact_context` for these sessions."""

    strategy: str
    ratio: float
    goal: float
    reached: bool
    """Whether the goal is reached; else this is the largest ratio that was measured."""
    kept: float
    """The mean share of what is used later, or of what answers the questions, that is kept."""
    interval: Interval | None
    laid_down: float | None
    """The share of what users laid down that is kept."""
    over_baseline: float | None
    """How much more it keeps than the last messages do at the same ratio."""
    over_baseline_interval: Interval | None
    tokens_before: int
    """Of a session, on the average."""
    tokens_after: int
    sessions: int
    held_out: float | None
    """What sessions keep on the average where it was chosen without them; None for a single one."""
    held_out_worst: float | None
    agreement: float | None
    """The share of these choices that are the same as this one."""
    certainty: str
    """``"none"`` for one session, else ``"low"``, ``"fair"`` or ``"high"``."""
    code: str
    command: str

    def to_dict(self) -> dict[str, Any]:
        """As values that JSON has."""
        found = asdict(self)
        for name in ("interval", "over_baseline_interval"):
            interval: Interval | None = getattr(self, name)
            found[name] = interval._asdict() if interval else None
        return found


def recommend(
    strategies: Sequence[Strategy],
    ratios: Sequence[float],
    work: Mapping[str, Retention],
    asked: Mapping[str, Retention],
    tokens: Mapping[str, int],
    goal: float = GOAL,
) -> Recommendation | None:
    """The smallest ratio at which a setting of `compact_context` keeps the goal, and that setting.

    Where several sessions were measured it is also chosen without each of them in turn, and tried
    on the one that was left out. None where no strategy is one of ours.
    """
    settings = [strategy for strategy in strategies if strategy.options is not None]
    if not settings:
        return None
    scores = {s.name: _of_all(work, asked, s.name) for s in strategies}
    sessions = sorted({score.session for group in scores.values() for score in group})
    names = [setting.name for setting in settings]
    name, ratio, reached = _choose(names, ratios, scores, goal)
    setting = settings[names.index(name)]
    there = [score for score in scores[name] if score.ratio == ratio]
    laid_down = [score.laid_down for score in there if score.laid_down is not None]
    held_out, same = {}, 0
    for session in sessions if len(sessions) > 1 else ():
        others = {key: [s for s in group if s.session != session] for key, group in scores.items()}
        choice = _choose(names, ratios, others, goal)
        same += choice[:2] == (name, ratio)
        held_out[session] = _kept(scores[choice[0]], choice[1], session)
    last = {s.case: s for s in scores.get(BASELINE, ()) if s.ratio == ratio}
    more = [(s.session, s.retained - last[s.case].retained) for s in there if s.case in last]
    before = round(fmean(tokens[session] for session in sessions))
    mean_out = fmean(held_out.values()) if held_out else None
    agreement = same / len(held_out) if held_out else None
    return Recommendation(
        strategy=name,
        ratio=ratio,
        goal=goal,
        reached=reached,
        kept=fmean(score.retained for score in there),
        interval=by_session((score.session, score.retained) for score in there),
        laid_down=fmean(laid_down) if laid_down else None,
        over_baseline=fmean(value for _, value in more) if more else None,
        over_baseline_interval=by_session(more),
        tokens_before=before,
        tokens_after=round(before * fmean(score.cost_ratio for score in there)),
        sessions=len(sessions),
        held_out=mean_out,
        held_out_worst=min(held_out.values(), default=None),
        agreement=agreement,
        certainty=_certainty(len(sessions), agreement, mean_out, goal if reached else 0),
        code=setting.code(ratio),
        command=setting.command(ratio),
    )


def _choose(
    names: Sequence[str],
    ratios: Iterable[float],
    scores: Mapping[str, Sequence[Score]],
    goal: float,
) -> tuple[str, float, bool]:
    """Setting and ratio, and whether the goal is reached; settings come the simplest first."""
    best, ratio = names[0], 1.0
    for ratio in sorted(ratios):
        kept = {name: _kept(scores[name], ratio) for name in names}
        most = max(kept.values())
        best = next(name for name in names if kept[name] >= most - SIMPLER_WITHIN)
        if kept[best] >= goal:
            return best, ratio, True
    return best, ratio, False


def _kept(scores: Sequence[Score], ratio: float, session: str | None = None) -> float:
    return fmean(
        score.retained
        for score in scores
        if score.ratio == ratio and session in (None, score.session)
    )


def _of_all(
    work: Mapping[str, Retention], asked: Mapping[str, Retention], name: str
) -> list[Score]:
    return [*work[name].scores, *asked[name].scores]


def _certainty(sessions: int, agreement: float | None, held_out: float | None, goal: float) -> str:
    if agreement is None or held_out is None:
        return "none"
    if sessions < FEW_SESSIONS or agreement < 0.6:
        return "low"
    return "high" if agreement >= 0.9 and held_out >= goal - 0.02 else "fair"
