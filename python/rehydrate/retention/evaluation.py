"""evaluate: compares strategies on sessions, with intervals, losses and a recommendation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, median
from typing import Any

from rehydrate._text import error_line
from rehydrate.errors import InvalidArgumentError
from rehydrate.retention.datasets import Conversation
from rehydrate.retention.judging import Judgement
from rehydrate.retention.losses import Loss, find_losses
from rehydrate.retention.measure import Interval, Retention, Score, score_cut, score_question
from rehydrate.retention.reading import Message, count_messages
from rehydrate.retention.recommendation import GOAL, Recommendation, recommend
from rehydrate.retention.sampling import Sample, sample_cases
from rehydrate.retention.sessions import Sessions, Skipped
from rehydrate.retention.strategies import Strategy, exact_cost, standard_strategies

RATIOS = (0.1, 0.2, 0.3, 0.4, 0.6)
SUMMARY = "own summary"


@dataclass(frozen=True, slots=True)
class Row:
    """One strategy at one ratio: means over all cases, with their 95% intervals."""

    strategy: str
    ratio: float
    used_later: float | None
    """Share of the names used later that are still there; None where no session was cut."""
    used_later_interval: Interval | None
    answers: float | None
    """Share of the messages that answer the questions; None where no session has any."""
    answers_interval: Interval | None
    laid_down: float | None
    """Share of the users' binding instructions that is still there; None where there were none."""
    last_turn: float | None
    """Share of cases in which the last user turn is still there."""
    cost_ratio: float
    """Share of the tokens that was really kept."""
    violations: int
    """Number of provider rules broken, over all cases."""
    milliseconds: float
    """Median time of one compaction."""


@dataclass(frozen=True, slots=True)
class Session:
    """A measured session."""

    name: str
    format: str
    messages: int
    tokens: int
    cases: int
    """Number of cuts and questions."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The result of `evaluate`; `str` is a table, `to_dict` holds everything as JSON values."""

    sessions: tuple[Session, ...]
    ratios: tuple[float, ...]
    strategies: tuple[str, ...]
    rows: tuple[Row, ...]
    summaries: tuple[Row, ...]
    """The agents' own summaries, and every strategy at the same size; empty without any."""
    recommendation: Recommendation | None
    losses: tuple[Loss, ...]
    cuts: int
    questions: int
    notes: tuple[str, ...] = ()
    """The cases that were sampled, and those not measured."""
    skipped: tuple[Skipped, ...] = ()
    """Files and sessions that were left out, and why."""
    degraded: tuple[str, ...] = ()
    """Strategies that failed and were left out."""
    judged: Judgement | None = None
    """The questions that a model could answer before and after, if `judge` ran."""
    work: dict[str, Retention] = field(default_factory=dict, repr=False)
    """Scores of each strategy at the cuts."""
    asked: dict[str, Retention] = field(default_factory=dict, repr=False)
    """Scores of each strategy at the questions."""

    def row(self, strategy: str, ratio: float) -> Row:
        """Return the row of a strategy at a ratio."""
        return next(row for row in self.rows if (row.strategy, row.ratio) == (strategy, ratio))

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the single scores as JSON values."""
        return {
            "sessions": [_as_dict(session) for session in self.sessions],
            "cuts": self.cuts,
            "questions": self.questions,
            "rows": [_as_dict(row) for row in self.rows],
            "summaries": [_as_dict(row) for row in self.summaries],
            "recommendation": self.recommendation.to_dict() if self.recommendation else None,
            "judged": self.judged.to_dict() if self.judged else None,
            "losses": [_as_dict(loss) for loss in self.losses],
            "notes": list(self.notes),
            "skipped": [skipped._asdict() for skipped in self.skipped],
            "degraded": list(self.degraded),
        }


def evaluate(
    conversations: Iterable[Conversation] | Sessions | Sample,
    strategies: Sequence[Strategy] | None = None,
    ratios: Sequence[float] = RATIOS,
    *,
    goal: float = GOAL,
    cost: Callable[[Message], int] | None = None,
    advance: Callable[[int], object] = lambda _: None,
) -> Evaluation:
    """Measure every strategy on these sessions at every ratio, and recommend a setting of
    `compact_context`.

    ``goal`` is the share of the names used later that must be kept. A strategy that fails is left
    out, and ``degraded`` says so. ``advance`` is called after each compaction: there are
    ``sample.cases(len(ratios))`` for each strategy.

    >>> from rehydrate.retention import read_session
    >>> turns = []
    >>> for n in range(30):
    ...     call = {"type": "tool_use", "id": f"t{n}", "name": "ls", "input": {"path": "a/b.py"}}
    ...     result = {"type": "tool_result", "tool_use_id": f"t{n}", "content": "see conf/b.toml"}
    ...     turns.append({"role": "assistant", "content": [call]})
    ...     turns.append({"role": "user", "content": [result]})
    >>> found = evaluate(sample_cases([read_session(turns)], min_needed=1), ratios=(0.2,))
    >>> found.row("keep last", 0.2).used_later
    1.0
    """
    sample = conversations if isinstance(conversations, Sample) else sample_cases(conversations)
    cost = cost or exact_cost()
    strategies = standard_strategies(cost) if strategies is None else list(strategies)
    names = [strategy.name for strategy in strategies]
    if len(set(names)) < len(names):
        raise InvalidArgumentError(f"strategies are called {names}; give each a name of its own")
    ratios = tuple(sorted(set(ratios)))
    at_cuts: dict[str, list[Score]] = {name: [] for name in names}
    at_questions: dict[str, list[Score]] = {name: [] for name in names}
    at_summaries: dict[str, list[Score]] = {SUMMARY: [], **{name: [] for name in names}}
    failed: dict[str, str] = {}

    def run(strategy: Strategy, score: Callable[[], Score], into: list[Score], case: str) -> None:
        if strategy.name not in failed:
            try:
                into.append(score())
            except Exception as error:  # a caller's own function may raise anything
                failed[strategy.name] = f"{strategy.name} failed on {case}: {error_line(error)}"
        advance(1)

    for cut in sample.cuts:
        for strategy in strategies:
            for ratio in ratios:
                score = _deferred(score_cut, cut, strategy.compact, ratio, cost)
                run(strategy, score, at_cuts[strategy.name], cut.name)
    for question in sample.questions:
        for strategy in strategies:
            for ratio in ratios:
                score = _deferred(score_question, *question, strategy.compact, ratio, cost)
                run(strategy, score, at_questions[strategy.name], question.conversation.name)
    for cut, summary in sample.summaries:
        size = cost(summary) / max(1, sum(map(cost, cut.messages)))
        own = _deferred(score_cut, cut, lambda *_, kept=summary: [kept], size, cost)()
        at_summaries[SUMMARY].append(replace(own, seconds=0.0))
        for strategy in strategies:
            score = _deferred(score_cut, cut, strategy.compact, size, cost)
            run(strategy, score, at_summaries[strategy.name], cut.name)

    left = [strategy for strategy in strategies if strategy.name not in failed]
    later = {s.name: Retention(tuple(at_cuts[s.name])) for s in left}
    answers = {s.name: Retention(tuple(at_questions[s.name])) for s in left}
    tokens = {each.name: sum(map(cost, each.messages)) for each in sample.conversations}
    has_cases = bool(sample.cuts or sample.questions)
    advice = recommend(left, ratios, later, answers, tokens, goal) if has_cases else None
    chosen = next((s for s in left if advice and s.name == advice.strategy), None)
    return Evaluation(
        sessions=_sessions(sample, tokens),
        ratios=ratios,
        strategies=tuple(s.name for s in left),
        rows=tuple(
            _row(s.name, ratio, at_cuts[s.name], at_questions[s.name])
            for s in left
            for ratio in ratios
            if has_cases
        ),
        summaries=_rows_at_summary_size(at_summaries, [SUMMARY, *(s.name for s in left)])
        if sample.summaries
        else (),
        recommendation=advice,
        losses=find_losses(sample.cuts, chosen.compact, advice.ratio) if chosen and advice else (),
        cuts=len(sample.cuts),
        questions=len(sample.questions),
        notes=sample.notes,
        skipped=sample.skipped,
        degraded=tuple(failed.values()),
        work=later,
        asked=answers,
    )


def _deferred(function: Callable[..., Score], *arguments: Any) -> Callable[[], Score]:
    return lambda: function(*arguments)


def _sessions(sample: Sample, tokens: dict[str, int]) -> tuple[Session, ...]:
    cases = [cut.session for cut in sample.cuts]
    cases += [question.conversation.name for question in sample.questions]
    return tuple(
        Session(c.name, c.format, count_messages(c.messages), tokens[c.name], cases.count(c.name))
        for c in sample.conversations
    )


def _row(name: str, ratio: float, at_cuts: Sequence[Score], at_questions: Sequence[Score]) -> Row:
    cuts = [score for score in at_cuts if score.ratio == ratio]
    questions = [score for score in at_questions if score.ratio == ratio]
    later, answers = Retention(tuple(cuts)), Retention(tuple(questions))
    both = [*cuts, *questions]
    return Row(
        name,
        ratio,
        later.means().get(ratio),
        later.intervals().get(ratio),
        answers.means().get(ratio),
        answers.intervals().get(ratio),
        later.means("laid_down").get(ratio),
        later.means("last_turn").get(ratio),
        fmean(score.cost_ratio for score in both),
        sum(score.violations for score in both),
        1_000 * median(score.seconds for score in both),
    )


def _rows_at_summary_size(scores: dict[str, list[Score]], names: Sequence[str]) -> tuple[Row, ...]:
    """Return a row for each at the mean size of the summaries; each was measured at its own."""
    size = fmean(score.ratio for score in scores[SUMMARY])
    return tuple(
        _row(name, size, [replace(score, ratio=size) for score in scores[name]], ())
        for name in names
    )


def _as_dict(record: Any) -> dict[str, Any]:
    """Return a record of numbers, texts and intervals as JSON values."""
    values = {name: getattr(record, name) for name in record.__dataclass_fields__}
    return {
        name: value._asdict() if isinstance(value, Interval) else value
        for name, value in values.items()
    }
