"""The measures of retention, for any compactor; examples of names that are lost, and why."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import fmean
from typing import NamedTuple

from rehydrate import formats
from rehydrate._native import (
    Needs,
    binding_instructions,
    count_messages,
    has_calls,
    instructions_kept,
    is_turn_kept,
    lost_names,
    needs_after,
    steps,
    user_text,
)
from rehydrate.retention.reading import Conversation, Message, Question, estimate_cost

DRAWS = 1_000
CONFIDENCE = 0.95


class Interval(NamedTuple):
    """The 95% confidence interval of a mean, from `low` to `high`."""

    low: float
    high: float

    def __str__(self) -> str:
        """Return both ends, such as ``0.61-0.74``."""
        return f"{self.low:.2f}-{self.high:.2f}"


def mean_by_session(values: Iterable[tuple[str, float]]) -> float:
    """Return the mean over the sessions of the mean of each of these (session, value) pairs.

    >>> mean_by_session([("a", 1.0), ("b", 0.0), ("b", 0.5)])
    0.625
    """
    return fmean(_means_of_sessions(values))


def by_session(values: Iterable[tuple[str, float]], *, seed: int = 0) -> Interval | None:
    """Return the interval of the `mean_by_session` of these pairs; None for a single session.

    A bootstrap draws sessions with replacement, each with its mean; always the same draws.

    >>> by_session([("a", 0.5), ("b", 0.5), ("b", 0.5)])
    Interval(low=0.5, high=0.5)
    >>> by_session([("a", 0.5), ("a", 0.7)]) is None
    True
    """
    import numpy as np

    means = np.array(_means_of_sessions(values))
    if len(means) < 2:
        return None
    drawn = np.random.default_rng(seed).integers(len(means), size=(DRAWS, len(means)))
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(means[drawn].mean(axis=1), [tail, 1 - tail])
    return Interval(float(low), float(high))


def _means_of_sessions(values: Iterable[tuple[str, float]]) -> list[float]:
    groups: dict[str, list[float]] = {}
    for session, value in values:
        groups.setdefault(session, []).append(value)
    return [fmean(group) for group in groups.values()]


Compact = Callable[[list[Message], str | None, float], list[Message]]
"""A compactor: (messages, query or None, ratio of the tokens to keep) -> kept messages.

They are the same objects, or a `Kept` if some of them are rewritten."""


class Kept(list[Message]):
    """Kept messages with their indices, for a compactor that keeps some in part."""

    def __init__(
        self,
        messages: Iterable[Message],
        indices: Iterable[int],
        reasons: Callable[[], Mapping[int, str]] = dict,
    ) -> None:
        """`indices` holds the index of each message in the compacted list. `reasons` maps the index
        of a removed message to the reason; it is called on demand."""
        super().__init__(messages)
        self.indices = tuple(indices)
        self.reasons = reasons


QUESTION_RATIOS = (0.4, 0.2, 0.1, 0.05)
CUT_RATIOS = (0.1, 0.2, 0.4)
CODING_CUTS = (0.3, 0.45, 0.6, 0.75, 0.9)
"""The cuts of a coding session, in shares of its steps."""
SUPPORT_CUTS = (0.7,)
"""The cuts of a support conversation: it is short, and its needs are known late."""


@dataclass(frozen=True, slots=True)
class Score:
    """One case at one ratio: the share of the needed names or messages that was kept, and its
    cost."""

    case: str
    ratio: float
    retained: float
    cost_ratio: float
    session: str = ""
    asked: float = 0.0
    """Share of the tokens that it was asked to keep: the ratio, or more if all are to be of one
    size."""
    lines: float | None = None
    """Share of the lines typed again that is still there; None if there were none."""
    laid_down: float | None = None
    """Share of the user's binding instructions that is still there; None if there were none, or
    if they were not measured."""
    last_turn: float | None = None
    """1 if the last user turn is still there, else 0; None if there was none."""
    violations: int = 0
    """Provider rules that the output breaks and the input did not."""
    seconds: float = 0.0
    """Duration of the compaction."""


@dataclass(frozen=True, slots=True)
class Retention:
    """The scores of one compactor, in the order of the cases."""

    scores: tuple[Score, ...]

    def means(self, measure: str = "retained") -> dict[float, float]:
        """Return the mean of a measure at each ratio: over the cases of each session that have it,
        then over the sessions."""
        found = self._pairs(measure).items()
        return {ratio: mean_by_session(pairs) for ratio, pairs in found if pairs}

    def cost_ratios(self) -> dict[float, float]:
        """Return the mean share of tokens kept at each ratio; above it, a budget was broken."""
        return self.means("cost_ratio")

    def intervals(self, measure: str = "retained") -> dict[float, Interval]:
        """Return the 95% interval of each mean, drawn by session; empty for a single session.

        The cases of one session are not independent, so whole sessions are drawn, never cases.
        """
        drawn = {ratio: by_session(pairs) for ratio, pairs in self._pairs(measure).items()}
        return {ratio: interval for ratio, interval in drawn.items() if interval is not None}

    def _pairs(self, measure: str) -> dict[float, list[tuple[str, float]]]:
        return {
            ratio: [
                (score.session, value)
                for score in group
                if (value := getattr(score, measure)) is not None
            ]
            for ratio, group in self.by_ratio().items()
        }

    def by_ratio(self) -> dict[float, list[Score]]:
        """Return the scores at each ratio."""
        groups: dict[float, list[Score]] = {}
        for score in self.scores:
            groups.setdefault(score.ratio, []).append(score)
        return groups


@dataclass(frozen=True)
class Cut:
    """A session up to a point, and what its tool calls use of it after that point."""

    name: str
    messages: list[Message]
    needed: frozenset[str]
    """The names that are used later."""
    format: str = "plain"
    session: str = ""
    """Name of its session; all cuts of one session share it."""
    ahead: list[Message] = field(default_factory=list)
    """The messages after the cut, as far as the horizon."""

    lines: frozenset[str] = frozenset()
    """The lines of its tool calls and results that are typed again later, white space folded."""

    def mentioned(self, messages: Iterable[Message]) -> frozenset[str]:
        """Return the needed names that occur in these messages; marks of excerpts do not count."""
        return self._needs.found_in(messages)[0]

    def quoted(self, messages: Iterable[Message]) -> frozenset[str]:
        """Return the needed lines that are in these messages verbatim, white space folded."""
        return self._needs.found_in(messages)[1]

    @cached_property
    def _needs(self) -> Needs:
        return Needs(self.needed, self.lines, self.messages)

    @cached_property
    def laid_down(self) -> tuple[str, ...]:
        """The user's binding instructions before it."""
        return binding_instructions(self.messages)

    @cached_property
    def last_turn(self) -> str:
        """The last user text before it."""
        return next(filter(None, map(user_text, reversed(self.messages))), "")

    @cached_property
    def violations(self) -> int:
        """Number of provider rules that it breaks before compaction."""
        return len(formats.validate(self.messages, self.format))


def cut_sessions(
    conversations: Iterable[Conversation],
    fractions: Sequence[float] = CODING_CUTS,
    *,
    min_messages: int = 1,
    min_needed: int = 1,
    horizon_steps: int | None = None,
) -> list[Cut]:
    """Cut each conversation at these shares of its steps, never between a tool call and its result.

    Left out: conversations under `min_messages`, and cuts after which fewer than `min_needed`
    earlier names are used. `horizon_steps` is how far ahead to look; None: to the end.

    The inputs of later tool calls use names and type lines again. In a conversation without tool
    calls, later messages use names, and its assistant types lines. A share of fewer than three
    lines says little: such a cut has none.
    """
    cuts: list[Cut] = []
    for conversation in conversations:
        messages = conversation.messages
        groups = steps(messages)
        if count_messages(messages) < min_messages:
            continue
        for fraction in fractions:
            at = int(len(groups) * fraction + 1e-9)
            if not 0 < at < len(groups):
                continue
            groups_ahead = groups[at:] if horizon_steps is None else groups[at : at + horizon_steps]
            ahead = [messages[i] for group in groups_ahead for i in group]
            name = f"{conversation.name} at {fraction:.2f}"
            cut = cut_before(conversation, name, messages[: groups[at].start], ahead)
            if len(cut.needed) >= min_needed:
                cuts.append(cut)
    return cuts


def cut_before(
    conversation: Conversation, name: str, before: list[Message], ahead: list[Message]
) -> Cut:
    """Cut this conversation between `before` and `ahead`."""
    needed, lines = needs_after(before, ahead, has_calls(conversation.messages))
    return Cut(name, before, needed, conversation.format, conversation.name, ahead, lines)


def measure_questions(
    conversations: Iterable[Conversation],
    compact: Compact,
    ratios: Sequence[float] = QUESTION_RATIOS,
    *,
    cost: Callable[[Message], int] = estimate_cost,
) -> Retention:
    """Compact each conversation with each of its questions as the query.

    Retained is the share of the question's evidence messages still there, whole or in part.
    """
    return Retention(
        tuple(
            score_question(conversation, number, question, compact, ratio, cost)
            for conversation in conversations
            for number, question in enumerate(conversation.questions)
            for ratio in ratios
        )
    )


def measure_cuts(
    cuts: Iterable[Cut],
    compact: Compact,
    ratios: Sequence[float] = CUT_RATIOS,
    *,
    cost: Callable[[Message], int] = estimate_cost,
) -> Retention:
    """Compact the messages before each cut, without a query.

    Retained is the share of the needed names still mentioned in the output, `lines` the share of
    the lines typed again that is still in it.
    """
    return Retention(
        tuple(score_cut(cut, compact, ratio, cost) for cut in cuts for ratio in ratios)
    )


def score_question(
    conversation: Conversation,
    number: int,
    question: Question,
    compact: Compact,
    ratio: float,
    cost: Callable[[Message], int] = estimate_cost,
) -> Score:
    """Score one question of a conversation at one ratio."""
    messages = conversation.messages
    started = time.perf_counter()
    kept = compact(list(messages), question.text, ratio)
    seconds = time.perf_counter() - started
    indices = kept_indices(kept, messages)
    return Score(
        f"{conversation.name} question {number}",
        ratio,
        sum(i in indices for i in question.evidence) / len(question.evidence),
        sum(map(cost, kept)) / max(1, sum(map(cost, messages))),
        session=conversation.name,
        asked=ratio,
        seconds=seconds,
    )


def score_cut(
    cut: Cut,
    compact: Compact,
    ratio: float,
    cost: Callable[[Message], int] = estimate_cost,
) -> Score:
    """Score one cut at one ratio, by every measure."""
    started = time.perf_counter()
    kept = compact(list(cut.messages), None, ratio)
    seconds = time.perf_counter() - started
    names, lines = cut._needs.found_in(kept)
    return Score(
        cut.name,
        ratio,
        len(names) / max(1, len(cut.needed)),
        sum(map(cost, kept)) / max(1, sum(map(cost, cut.messages))),
        session=cut.session,
        asked=ratio,
        lines=len(lines) / len(cut.lines) if cut.lines else None,
        laid_down=instructions_kept(cut.laid_down, kept),
        last_turn=float(is_turn_kept(cut.last_turn, kept)) if cut.last_turn else None,
        violations=max(0, len(formats.validate(kept, cut.format)) - cut.violations),
        seconds=seconds,
    )


def kept_indices(kept: list[Message], messages: Sequence[Message]) -> set[int]:
    """Return the indices of the kept messages."""
    if isinstance(kept, Kept):
        return set(kept.indices)
    ids = {id(message) for message in kept}
    return {i for i, message in enumerate(messages) if id(message) in ids}


MAX_LOSSES = 8
"""Maximum number of examples, over all sessions."""
ELSEWHERE = "most of what it mentions is kept elsewhere"
TOO_OLD = "older than what fits"
IN_PART = "the message is kept in part, without the lines that hold it"


@dataclass(frozen=True, slots=True)
class Loss:
    """A name that is used later and is no longer mentioned."""

    session: str
    cut: str
    name: str
    index: int
    """Index of the last message that had it, in the session up to the cut."""
    role: str
    of: int
    """Number of messages up to the cut."""
    before: str
    """Some text before the name in that message."""
    after: str
    """Some text after it."""
    why: str
    """Why that message was removed."""
    used: int
    """Number of later tool calls that use it."""
    used_in: str
    """The first of these calls, around the name."""
    lost: int
    """Names lost at this cut, this one included."""
    needed: int
    """Names needed after this cut."""


def find_losses(cuts: Sequence[Cut], compact: Compact, ratio: float) -> tuple[Loss, ...]:
    """Return at most `MAX_LOSSES` lost names: the most used one of each session, then the second of
    each, the session with the largest loss first.

    For each session, only the cut with the largest loss counts.
    """
    worst: dict[str, list[Loss]] = {}
    for cut in cuts:
        found = _lost_at(cut, compact, ratio)
        if found and found[0].lost > (worst[cut.session][0].lost if cut.session in worst else 0):
            worst[cut.session] = found
    groups = sorted(worst.values(), key=lambda group: (-group[0].lost, group[0].session))
    in_turn = [group[rank] for rank in range(MAX_LOSSES) for group in groups if rank < len(group)]
    return tuple(in_turn[:MAX_LOSSES])


def _lost_at(cut: Cut, compact: Compact, ratio: float) -> list[Loss]:
    kept = compact(list(cut.messages), None, ratio)
    lost = cut.needed - cut.mentioned(kept)
    if not lost:
        return []
    indices = kept_indices(kept, cut.messages)
    reasons = kept.reasons() if isinstance(kept, Kept) else {}
    found = []
    used_later = lost_names([*lost], cut.messages, cut.ahead, MAX_LOSSES)
    for name, index, role, before, after, used, used_in in used_later:
        why = reasons.get(index) or (IN_PART if index in indices else TOO_OLD)
        if why.startswith(ELSEWHERE):
            why += ", but this name is not"
        loss = Loss(
            session=cut.session,
            cut=cut.name,
            name=name,
            index=index,
            role=role,
            of=len(cut.messages),
            before=before,
            after=after,
            why=why,
            used=used,
            used_in=used_in,
            lost=len(lost),
            needed=len(cut.needed),
        )
        found.append(loss)
    return found
