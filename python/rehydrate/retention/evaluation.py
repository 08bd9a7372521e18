"""evaluate: compares strategies on sessions, with intervals, losses and a recommendation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from operator import attrgetter
from statistics import fmean, median
from typing import Any, Literal, NamedTuple, TypeAlias

from rehydrate._check import check_list, check_type
from rehydrate._native import count_messages, plain
from rehydrate._text import plural
from rehydrate.errors import InvalidArgumentError
from rehydrate.retention.baselines import Cost
from rehydrate.retention.judging import Judgement, error_line
from rehydrate.retention.measure import (
    Compact,
    Interval,
    Loss,
    Retention,
    Score,
    find_losses,
    score_cut,
    score_question,
)
from rehydrate.retention.reading import Conversation
from rehydrate.retention.sampling import Sample, Sessions, Skipped, sample_cases
from rehydrate.retention.strategies import (
    GOAL,
    Recommendation,
    Strategy,
    exact_cost,
    recommend,
    standard_strategies,
)

RATIOS = (0.1, 0.2, 0.3, 0.4, 0.6)
SUMMARY = "own summary"
SIZE_TOLERANCE = 1.02
"""Sizes that differ by less are equal."""


@dataclass(frozen=True, slots=True)
class Row:
    """One strategy at one ratio: means over all cases, with their 95% intervals."""

    strategy: str
    ratio: float
    used_later: float | None
    """Share of the names used later that are still there; None if no session was cut."""
    used_later_interval: Interval | None
    lines: float | None
    """Share of the lines typed again that are still there; None if none were."""
    lines_interval: Interval | None
    answers: float | None
    """Share of the messages that answer the questions; None if no session has any."""
    answers_interval: Interval | None
    laid_down: float | None
    """Share of the users' binding instructions that is still there; None if there were none."""
    last_turn: float | None
    """Share of cases in which the last user turn is still there."""
    asked: float
    """Share of the tokens that it was asked to keep, like every strategy at this ratio: more than
    the ratio where `compact_context` had to keep more."""
    cost_ratio: float
    """Share of the tokens that was really kept."""
    beside: float | None
    """The share that `compact_context` keeps at this row's own size, of the names (of the answers,
    if no session was cut), if the strategy keeps more than it was asked for; None elsewhere."""
    violations: int
    """Number of provider rules broken, over all cases."""
    milliseconds: float
    """Median time of one compaction."""

    @property
    def is_raised(self) -> bool:
        """Whether it was asked for more than the ratio: `compact_context` had to keep more."""
        return self.asked >= self.ratio + 0.0005

    @property
    def is_over(self) -> bool:
        """Whether the strategy keeps more than it was asked for."""
        return self.cost_ratio > self.asked * SIZE_TOLERANCE


Measured: TypeAlias = tuple[float | None, Interval | None]
"""A share and its interval."""


def columns(rows: Sequence[Row]) -> dict[str, list[str]]:
    """Return the measures that are known of any of these rows, by title: the cells of a table."""
    cells: dict[str, Callable[[Row], str]] = {
        "used later": lambda row: _share(row.used_later),
        "typed again": lambda row: _share(row.lines),
        "answers": lambda row: _share(row.answers),
        "laid down": lambda row: _share(row.laid_down),
        "last turn": lambda row: _share(row.last_turn),
        "size": lambda row: f"{row.cost_ratio:.1%}",
        "rules broken": lambda row: f"{row.violations:,}",
        "time": lambda row: f"{row.milliseconds:.1f} ms" if row.milliseconds else "",
    }
    every = {title: list(map(cell, rows)) for title, cell in cells.items()}
    return {title: shown for title, shown in every.items() if {*shown} - {"", "-"}}


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


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
    cuts_with_lines: int
    """The cuts after which lines are typed again."""
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

    def measures(self) -> Iterator[tuple[str, Callable[[Row], Measured]]]:
        """Yield each measure that was taken: its title, and the share and the interval of a row."""
        kept = "the share still there"
        if self.cuts:
            title = f"of the names used later, {kept}"
            yield title, attrgetter("used_later", "used_later_interval")
        if self.cuts_with_lines:
            at = plural(self.cuts_with_lines, "cut")
            title = f"of the lines typed again later, {kept}, at {at}"
            yield title, attrgetter("lines", "lines_interval")
        if self.questions:
            title = f"of the messages that answer the questions, {kept}"
            yield title, attrgetter("answers", "answers_interval")

    def counts(self) -> list[str]:
        """Return in words what was measured: sessions, cuts, questions, tokens and formats."""
        measured = [session for session in self.sessions if session.cases]
        return [
            plural(len(measured), "session"),
            *([plural(self.cuts, "cut")] if self.cuts else []),
            *([plural(self.questions, "question")] if self.questions else []),
            plural(sum(session.tokens for session in measured), "token"),
            *filter(None, [", ".join(sorted({session.format for session in measured}))]),
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the single scores as JSON values."""
        advice, judged = self.recommendation, self.judged
        every = {name: getattr(self, name) for name in _SHOWN}
        every["recommendation"] = advice and advice.to_dict()
        every["judged"] = judged and judged.to_dict()
        return {name: plain(value) for name, value in every.items()}


_SHOWN = (
    *("sessions", "cuts", "cuts_with_lines", "questions", "rows", "summaries", "recommendation"),
    *("judged", "losses", "notes", "skipped", "degraded"),
)


def evaluate(
    conversations: Iterable[Conversation] | Sessions | Sample,
    strategies: Sequence[Strategy] | None = None,
    ratios: Sequence[float] = RATIOS,
    *,
    goal: float = GOAL,
    cost: Cost | None = None,
    advance: Callable[[int], object] = lambda _: None,
) -> Evaluation:
    """Measure every strategy on these sessions at every ratio, and recommend a setting of
    `compact_context`.

    All strategies are compared at one size: the ratio, or what `compact_context` had to keep, if
    that is more. ``goal`` is the share of the names used later that must be kept. A strategy that
    fails is left out, and ``degraded`` says so. ``advance`` is called
    ``sample.cases(len(ratios))`` times for each strategy. Raises InvalidArgumentError for ratios or
    a goal that are no shares above 0.

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
    check_list("ratios", ratios, "pass a list of shares, as in (0.2, 0.4)")
    if not ratios:
        raise InvalidArgumentError("ratios is empty; pass shares, as in (0.2, 0.4)")
    for name, share in (("goal", goal), *(("ratios: one", ratio) for ratio in ratios)):
        check_type(name, share, (int, float), "pass a share above 0, up to 1")
        if not 0 < share <= 1:
            raise InvalidArgumentError(f"{name} is {share!r}; pass a share above 0, up to 1")
    sample = conversations if isinstance(conversations, Sample) else sample_cases(conversations)
    cost = cost or exact_cost()
    strategies = standard_strategies(cost) if strategies is None else list(strategies)
    names = [strategy.name for strategy in strategies]
    if len(set(names)) < len(names):
        raise InvalidArgumentError(f"strategies are called {names}; give each a name of its own")
    ratios = tuple(sorted(set(ratios)))
    compare = _Comparison(strategies, advance)
    at_cut, at_question = partial(score_cut, cost=cost), partial(score_question, cost=cost)
    for cut in sample.cuts:
        for ratio in ratios:
            compare.add(compare.at_cuts, cut.name, ratio, partial(at_cut, cut))
    for question in sample.questions:
        name = question.conversation.name
        for ratio in ratios:
            compare.add(compare.at_questions, name, ratio, partial(at_question, *question))
    own_summaries: list[Score] = []
    for cut, summary in sample.summaries:
        size = cost(summary) / max(1, sum(map(cost, cut.messages)))
        own = score_cut(cut, lambda *_, kept=summary: [kept], size, cost)
        own_summaries.append(replace(own, seconds=0.0))
        compare.add(compare.at_summaries, cut.name, size, partial(at_cut, cut))

    left = [strategy for strategy in strategies if strategy.name not in compare.failed]
    tokens = {each.name: sum(map(cost, each.messages)) for each in sample.conversations}
    has_cases = bool(sample.cuts or sample.questions)
    advice = None
    if has_cases:
        later = {s.name: _retention(compare.at_cuts, s.name, "own") for s in left}
        answers = {s.name: _retention(compare.at_questions, s.name, "own") for s in left}
        advice = recommend(left, ratios, later, answers, tokens, goal)
    chosen = next((s for s in left if advice and s.name == advice.strategy), None)
    cases = Counter([cut.session for cut in sample.cuts])
    cases.update(question.conversation.name for question in sample.questions)
    return Evaluation(
        sessions=tuple(
            Session(c.name, c.format, count_messages(c.messages), tokens[c.name], cases[c.name])
            for c in sample.conversations
        ),
        ratios=ratios,
        strategies=tuple(s.name for s in left),
        rows=tuple(
            _row(s.name, ratio, compare.at_cuts, compare.at_questions)
            for s in left
            for ratio in ratios
            if has_cases
        ),
        summaries=_rows_at_summary_size(own_summaries, compare.at_summaries, left),
        recommendation=advice,
        losses=find_losses(sample.cuts, chosen.compact, advice.ratio) if chosen and advice else (),
        cuts=len(sample.cuts),
        cuts_with_lines=sum(bool(cut.lines) for cut in sample.cuts),
        questions=len(sample.questions),
        notes=sample.notes,
        skipped=sample.skipped,
        degraded=tuple(compare.failed.values()),
        work={s.name: _retention(compare.at_cuts, s.name) for s in left},
        asked={s.name: _retention(compare.at_questions, s.name) for s in left},
    )


class _Compared(NamedTuple):
    """The scores of one strategy in one case, for one ratio."""

    score: Score
    """At the size that all strategies are given."""
    own: Score
    """At the ratio itself, if it is a setting of `compact_context`."""
    alike: Score | None
    """`compact_context` at the size of `score`, if that is more than what was asked for."""


_Cases = list[dict[str, _Compared]]


class _Comparison:
    """Measures strategies at equal sizes, and leaves out those that fail.

    What must be kept may be more than a small ratio allows. `compact_context` says how much that
    is; then every strategy is given as much. A strategy that keeps still more is compared with
    `compact_context` at that size.
    """

    def __init__(
        self, strategies: Sequence[Strategy], advance: Callable[[int], object] = lambda _: None
    ) -> None:
        self._strategies = strategies
        self._advance = advance
        self.failed: dict[str, str] = {}
        self.at_cuts: _Cases = []
        self.at_questions: _Cases = []
        self.at_summaries: _Cases = []

    def add(
        self, into: _Cases, case: str, ratio: float, measure: Callable[[Compact, float], Score]
    ) -> None:
        """Score every strategy on a case at a ratio."""

        def run(strategy: Strategy, size: float) -> Score | None:
            if strategy.name not in self.failed:
                try:
                    return replace(measure(strategy.compact, size), ratio=ratio)
                except Exception as error:  # a caller's own function may raise anything
                    problem = f"{strategy.name} failed on {case}: {error_line(error)}"
                    self.failed[strategy.name] = problem
            return None

        ours = [strategy for strategy in self._strategies if strategy.options is not None]
        own = {each.name: score for each in ours if (score := run(each, ratio)) is not None}
        size = max([ratio, *(each.cost_ratio for each in own.values())])
        reference = next((each for each in ours if each.name in own), None)
        compared: dict[str, _Compared] = {}
        for strategy in self._strategies:
            at_ratio = own.get(strategy.name)
            if at_ratio is not None and size in (ratio, at_ratio.cost_ratio):
                found: Score | None = replace(at_ratio, asked=size)
            else:
                found = run(strategy, size)
            if found is not None:
                alike = None
                if found.cost_ratio > size * SIZE_TOLERANCE and reference is not None:
                    alike = run(reference, min(1.0, found.cost_ratio))
                compared[strategy.name] = _Compared(found, at_ratio or found, alike)
            self._advance(1)
        into.append(compared)


def _retention(cases: _Cases, name: str, kind: Literal["score", "own"] = "score") -> Retention:
    return Retention(tuple(getattr(case[name], kind) for case in cases))


def _row(name: str, ratio: float, at_cuts: _Cases, at_questions: _Cases | None = None) -> Row:
    cuts = [case[name] for case in at_cuts if case[name].score.ratio == ratio]
    questions = [case[name] for case in at_questions or () if case[name].score.ratio == ratio]
    later = Retention(tuple(each.score for each in cuts))
    answers = Retention(tuple(each.score for each in questions))
    both = Retention((*later.scores, *answers.scores))
    deciding = cuts or questions
    alike = Retention(tuple(each.alike or each.score for each in deciding))
    return Row(
        name,
        ratio,
        later.means().get(ratio),
        later.intervals().get(ratio),
        later.means("lines").get(ratio),
        later.intervals("lines").get(ratio),
        answers.means().get(ratio),
        answers.intervals().get(ratio),
        later.means("laid_down").get(ratio),
        later.means("last_turn").get(ratio),
        both.means("asked")[ratio],
        both.cost_ratios()[ratio],
        alike.means()[ratio] if any(each.alike for each in deciding) else None,
        sum(score.violations for score in both.scores),
        1_000 * median(score.seconds for score in both.scores),
    )


def _rows_at_summary_size(
    own: Sequence[Score], cases: _Cases, strategies: Sequence[Strategy]
) -> tuple[Row, ...]:
    """Return a row for each at the mean size of the summaries; each was measured at its own."""
    if not own:
        return ()
    size = fmean(score.ratio for score in own)
    with_own = [
        {SUMMARY: _Compared(score, score, None), **case}
        for score, case in zip(own, cases, strict=True)
    ]
    at_size = [
        {name: each._replace(score=replace(each.score, ratio=size)) for name, each in case.items()}
        for case in with_own
    ]
    return tuple(_row(name, size, at_size) for name in (SUMMARY, *(s.name for s in strategies)))
