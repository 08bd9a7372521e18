"""Strategies to compare: `compact_context` and its settings, the last messages, and your own; and
`recommend`: the smallest ratio and the settings that keep enough, and how certain that is.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import chain
from operator import attrgetter
from pathlib import Path
from statistics import fmean
from typing import Any

from rehydrate._native import plain
from rehydrate._text import error_text
from rehydrate.compact.api import compact_context
from rehydrate.compact.options import MIN_RATIO
from rehydrate.errors import InvalidArgumentError, MissingPackageError
from rehydrate.retention.baselines import keep_last, trim_messages
from rehydrate.retention.measure import (
    Compact,
    Interval,
    Kept,
    Retention,
    Score,
    by_session,
    mean_by_session,
)
from rehydrate.retention.reading import Message
from rehydrate.tokens import count_tokens

MAX_CACHED_COUNTS = 50_000
"""Maximum number of messages whose count is cached."""


@dataclass(frozen=True, slots=True)
class Strategy:
    """A compactor with a name."""

    name: str
    compact: Compact
    options: tuple[tuple[str, Any], ...] | None = None
    """Options, if it is `compact_context`; only such strategies are recommended."""

    def code(self, ratio: float) -> str:
        """Return the Python call at this ratio."""
        options = "".join(f", {name}={value!r}" for name, value in self.options or ())
        return f"compact_context(messages, target_ratio={ratio:g}{options})"

    def command(self, ratio: float) -> str:
        """Return the command line at this ratio."""
        options = "".join(f" --{name} {value}" for name, value in self.options or ())
        return f"rehydrate compact FILE --ratio {ratio:g}{options}"


def standard_strategies(cost: Callable[[Message], int]) -> list[Strategy]:
    """Return the usual baselines and this package's settings, each the simplest first."""
    found = [Strategy("keep last", keep_last(cost))]
    with suppress(MissingPackageError):  # "keep last" keeps the same
        found.append(Strategy("trim_messages", trim_messages(cost)))
    found.append(_ours("compact_context"))
    found.append(_ours("excerpts", granularity="excerpt"))
    # Not to be recommended: it keeps the names that the measure looks for, but not their meaning.
    found.append(Strategy("outline", compacted(outline=True, thinking="keep")))
    return found


def _ours(name: str, **options: Any) -> Strategy:
    # The thinking stays: no request is made of the output, and an open tool loop would wait.
    return Strategy(name, compacted(**options, thinking="keep"), tuple(options.items()))


def compacted(**options: Any) -> Compact:
    """Return `compact_context` with these options as a `Compact` function."""

    def compact(messages: list[Message], query: str | None, ratio: float) -> list[Message]:
        budget = None if ratio >= MIN_RATIO else int(count_tokens(messages) * ratio)
        compaction = compact_context(messages, query, ratio, budget_tokens=budget, **options)

        def reasons() -> dict[int, str]:
            return {dropped.index: dropped.reason for dropped in compaction.dropped}

        indices = [*compaction.indices]
        if compaction.outline is not None:  # it lists what was removed, and brings nothing back
            del indices[compaction.outline.position]
        return Kept(compaction.messages, indices, reasons)

    return compact


def named_strategy(name: str) -> Strategy:
    """Return the function that ``module:function`` names, as a strategy.

    It is called with the messages, the query or None, and the ratio of the tokens to keep. It
    returns the messages that are left; some may be its own. Modules of the current folder are found
    too. Raises InvalidArgumentError if there is no such function.

    >>> named_strategy("json:nothing")
    Traceback (most recent call last):
    rehydrate.errors.InvalidArgumentError: strategy 'json:nothing': AttributeError: module 'json' \
has no attribute 'nothing'; name a function (messages, query, ratio) -> messages of a module that \
can be imported
    """
    module, colon, path = name.partition(":")
    if not (module and colon and path):
        raise InvalidArgumentError(f"strategy is {name!r}; write it as module:function")
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    remedy = "name a function (messages, query, ratio) -> messages of a module that can be imported"
    try:
        function = attrgetter(path)(import_module(module))
    except Exception as error:  # any error of the import
        raise InvalidArgumentError(f"strategy {name!r}: {error_text(error)}; {remedy}") from error
    if not callable(function):
        kind = type(function).__name__
        raise InvalidArgumentError(f"strategy {name!r} is of type {kind}; {remedy}")
    return Strategy(name, checked(function, name))


def checked(function: Callable[..., Any], name: str) -> Compact:
    """Wrap a caller's function as a compactor: its result is checked, and copies of messages are
    matched to the originals."""

    def compact(messages: list[Message], query: str | None, ratio: float) -> list[Message]:
        returned = function(list(messages), query, ratio)
        kept = getattr(returned, "messages", returned)
        if not isinstance(kept, (list, tuple)):
            kind = type(kept).__name__
            raise InvalidArgumentError(f"{name} returned a {kind}; return a list of messages")
        for index, message in enumerate(kept):
            if not isinstance(message, dict):
                kind = type(message).__name__
                raise InvalidArgumentError(
                    f"{name} returned a {kind} as message {index}; return dicts in the format "
                    "that came in"
                )
        return Kept(kept, _indices(kept, messages))

    return compact


def exact_cost() -> Callable[[Message], int]:
    """Return a function that counts a message's tokens exactly, once: the unit of budgets."""
    counts: dict[int, tuple[Message, int]] = {}

    def cost(message: Message) -> int:
        if id(message) not in counts:
            if len(counts) >= MAX_CACHED_COUNTS:
                counts.clear()
            # The message is held, so that its id stays its own.
            counts[id(message)] = (message, count_tokens([message]))
        return counts[id(message)][1]

    return cost


def _indices(kept: Sequence[Message], messages: Sequence[Message]) -> list[int]:
    """Return the indices of the kept messages: the same objects, then those that are equal."""
    by_id = {id(message): index for index, message in enumerate(messages)}
    found = [by_id[id(message)] for message in kept if id(message) in by_id]
    others = [message for message in kept if id(message) not in by_id]
    if others:
        written = {_as_json(message): index for index, message in enumerate(messages)}
        found += [written[text] for text in map(_as_json, others) if text in written]
    return sorted(set(found))


def _as_json(message: Message) -> str:
    return json.dumps(message, sort_keys=True, default=str)


GOAL = 0.9
"""The share of the names used later that must be kept."""
SIMPLER_WITHIN = 0.01
"""A simpler setting is chosen if it keeps at most this much less."""
FEW_SESSIONS = 5
NEAR_GOAL = 0.02
"""The results of the left-out sessions, and the interval, may be this far below the goal for a high
certainty."""
BASELINE = "keep last"
USED_LATER, ANSWERS = "what is used later", "what answers the questions"


_CERTAINTY = {
    "none": "it comes from one session and says nothing about others",
    "low": "not sure, {why}",
    "fair": "fairly sure",
    "high": "sure",
}


@dataclass(frozen=True, slots=True)
class Recommendation:
    """A ratio and settings of `compact_context` for these sessions."""

    strategy: str
    ratio: float
    goal: float
    reached: bool
    """Whether the goal is reached; else this is the largest ratio that was measured."""
    basis: str
    """The needs that are counted: names used later, or messages that answer the questions. Where
    both were measured, the one with the smaller share."""
    kept: float
    """Mean share that is kept."""
    interval: Interval | None
    lines: float | None
    """Share of the lines typed again that is kept."""
    laid_down: float | None
    """Share of the users' binding instructions that is kept."""
    over_baseline: float | None
    """How much more it keeps than the last messages do at the same ratio."""
    over_baseline_interval: Interval | None
    tokens_before: int
    """Mean tokens of a session."""
    tokens_after: int
    sessions: int
    held_out: float | None
    """Mean share kept by sessions left out of the choice; None for a single session."""
    held_out_worst: float | None
    agreement: float | None
    """Share of the leave-one-out choices that agree with this one."""
    otherwise: str
    """The most frequent other choice; "" if all agree."""
    certainty: str
    """``"none"`` for one session, else ``"low"``, ``"fair"`` or ``"high"``."""
    code: str
    command: str

    def sentences(self) -> list[str]:
        """Return what it keeps, what it costs, and how certain it is, in words."""
        interval = f" ({self.interval})" if self.interval else ""
        kept = f"It keeps {self.kept:.2f}{interval} of {self.basis}"
        if self.over_baseline is not None:
            between = self.over_baseline_interval
            more = f" ({between})" if between else ""
            kept += f", {self.over_baseline:+.2f}{more} against the last messages at that ratio"
        if self.lines is not None:
            kept += f", and {self.lines:.2f} of the lines typed again"
        lines = [f"{kept}; {self.tokens_before:,} tokens become about {self.tokens_after:,}."]
        if not self.reached:
            lines.append(
                f"No ratio that was measured keeps {self.goal:g}; this one keeps the most."
            )
        if self.laid_down is not None and self.laid_down < self.goal:
            lines.append(
                f"Of what users laid down it keeps {self.laid_down:.2f}: pin those messages "
                "(pin=), or put the rules into the system prompt."
            )
        why = "the sessions disagree"
        if self.sessions < FEW_SESSIONS:
            why = "the sessions are few"
        elif not self.reached:
            why = "no larger ratio was measured"
        sure = f"How sure: {_CERTAINTY[self.certainty].format(why=why)}."
        if self.held_out is None or self.held_out_worst is None or self.agreement is None:
            return [*lines, sure]
        return [
            *lines,
            f"{sure} Chosen without each of the {self.sessions:,} sessions in turn, it is the same "
            f"choice in {self.agreement:.0%} of the cases, and the session left out keeps "
            f"{self.held_out:.2f} on the average, {self.held_out_worst:.2f} at worst."
            + (f" Most of the others choose {self.otherwise}." if self.otherwise else ""),
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {**plain(self), "sentences": self.sentences()}


class _Measured:
    """All scores, separate for cuts and for questions: each must reach the goal."""

    def __init__(self, later: Mapping[str, Retention], answers: Mapping[str, Retention]) -> None:
        self._scores = {
            (basis, name): scores
            for basis, group in ((USED_LATER, later), (ANSWERS, answers))
            for name, retention in group.items()
            if (scores := retention.scores)
        }
        self.sessions = sorted({s.session for group in self._scores.values() for s in group})

    def at(self, name: str, ratio: float) -> dict[str, list[Score]]:
        """Return the scores of a strategy at a ratio, by kind of case."""
        return {
            basis: [score for score in scores if score.ratio == ratio]
            for (basis, other), scores in self._scores.items()
            if other == name
        }

    def kept(self, name: str, ratio: float, without: str | None = None) -> float:
        """Return the smaller of its means, without one session."""
        return min(
            mean_by_session(values)
            for scores in self.at(name, ratio).values()
            if (values := _pairs(score for score in scores if score.session != without))
        )


def recommend(
    strategies: Sequence[Strategy],
    ratios: Sequence[float],
    later: Mapping[str, Retention],
    answers: Mapping[str, Retention],
    tokens: Mapping[str, int],
    goal: float = GOAL,
) -> Recommendation | None:
    """Return the smallest ratio at which a setting of `compact_context` reaches the goal, with it.

    With several sessions, the choice is made without each of them in turn, and tried on the one
    left out. The choice that most of these agree on is recommended. None if no strategy is a
    setting of `compact_context`.
    """
    settings = {each.name: each for each in strategies if each.options is not None}
    measured = _Measured(later, answers)
    if not settings or not measured.sessions:
        return None
    choices: Counter[tuple[str, float]] = Counter()  # one for each session that is left out
    held_out: dict[str, list[Score]] = {}
    for session in measured.sessions if len(measured.sessions) > 1 else ():
        choice = _choose(list(settings), ratios, measured, goal, session)
        choices[choice] += 1
        for basis, scores in measured.at(*choice).items():
            held_out.setdefault(basis, []).extend(s for s in scores if s.session == session)
    # The most frequent choice; of two equally frequent ones, the larger ratio.
    ranked = sorted(choices, key=lambda choice: (-choices[choice], -choice[1]))
    name, ratio = ranked[0] if ranked else _choose(list(settings), ratios, measured, goal)
    means = {
        basis: mean_by_session(_pairs(scores)) for basis, scores in measured.at(name, ratio).items()
    }
    basis = min(means, key=lambda each: means[each])
    chosen = measured.at(name, ratio)[basis]
    last = {score.case: score for score in measured.at(BASELINE, ratio).get(basis, ())}
    gains = [(s.session, s.retained - last[s.case].retained) for s in chosen if s.case in last]
    found = Retention(tuple(chosen))
    before = round(fmean(tokens[session] for session in measured.sessions))
    held_out_means = [mean_by_session(_pairs(scores)) for scores in held_out.values()]
    by_held_out: dict[str, list[float]] = {}
    for score in chain.from_iterable(held_out.values()):
        by_held_out.setdefault(score.session, []).append(score.retained)
    agreement = choices[name, ratio] / choices.total() if choices else None
    advice = Recommendation(
        strategy=name,
        ratio=ratio,
        goal=goal,
        reached=means[basis] >= goal,
        basis=basis,
        kept=means[basis],
        interval=by_session(_pairs(chosen)),
        lines=found.means("lines").get(ratio),
        laid_down=found.means("laid_down").get(ratio),
        over_baseline=mean_by_session(gains) if gains else None,
        over_baseline_interval=by_session(gains),
        tokens_before=before,
        tokens_after=round(before * found.cost_ratios()[ratio]),
        sessions=len(measured.sessions),
        held_out=min(held_out_means, default=None),
        held_out_worst=min(map(fmean, by_held_out.values()), default=None),
        agreement=agreement,
        otherwise="".join(settings[other].code(at_ratio) for other, at_ratio in ranked[1:2]),
        certainty="none",
        code=settings[name].code(ratio),
        command=settings[name].command(ratio),
    )
    return replace(advice, certainty=_certainty(advice))


def _choose(
    names: Sequence[str],
    ratios: Sequence[float],
    measured: _Measured,
    goal: float,
    without: str | None = None,
) -> tuple[str, float]:
    """Return the setting with the smallest ratio that reaches the goal, or else the largest ratio.

    Settings come the simplest first; a simpler one is chosen if it keeps hardly less.
    """
    best, ratio = names[0], ratios[-1]
    for ratio in ratios:
        kept = {name: measured.kept(name, ratio, without) for name in names}
        most = max(kept.values())
        enough = max(goal, most - SIMPLER_WITHIN) if most >= goal else most - SIMPLER_WITHIN
        best = next(name for name in names if kept[name] >= enough)
        if kept[best] >= goal:
            break
    return best, ratio


def _pairs(scores: Iterable[Score]) -> list[tuple[str, float]]:
    return [(score.session, score.retained) for score in scores]


def _certainty(advice: Recommendation) -> str:
    """Return the certainty: enough sessions, agreeing choices, and a mean that holds for others."""
    if advice.agreement is None or advice.held_out is None or advice.interval is None:
        return "none"
    if not advice.reached or advice.sessions < FEW_SESSIONS or advice.agreement < 0.6:
        return "low"
    near = advice.goal - NEAR_GOAL
    is_safe = advice.held_out >= near and advice.interval.low >= near
    return "high" if advice.agreement >= 0.9 and is_safe else "fair"
