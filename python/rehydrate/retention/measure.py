"""The two measures of retention, for any compactor."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from .datasets import Conversation
from .names import names_in
from .reading import Message, estimate_cost, payload, steps, text_of, tool_inputs

Compact = Callable[[list[Message], str | None, float], list[Message]]
"""Messages, query or None, ratio of the tokens to keep; returns what is kept: the same objects, or
`Kept` where some of them are made anew."""


class Kept(list[Message]):
    """Kept messages, and where each of them stood: for a compactor that keeps some in part."""

    def __init__(self, messages: Iterable[Message], indices: Iterable[int]) -> None:
        """`indices` has the place of each message in the list that was compacted."""
        super().__init__(messages)
        self.indices = tuple(indices)


QUESTION_RATIOS = (0.4, 0.2, 0.1, 0.05)
CUT_RATIOS = (0.1, 0.2, 0.4)
CODING_CUTS = (0.3, 0.45, 0.6, 0.75, 0.9)
"""Where a coding session is cut, in shares of its steps."""
SUPPORT_CUTS = (0.7,)
"""Where a support conversation is cut: it is short, and what it needs is known late."""


@dataclass(frozen=True, slots=True)
class Score:
    """One case at one ratio: the share of what was needed that was kept, and at what price."""

    case: str
    ratio: float
    retained: float
    cost_ratio: float


@dataclass(frozen=True, slots=True)
class Retention:
    """The scores of one compactor, in the order of the cases."""

    scores: tuple[Score, ...]

    def means(self) -> dict[float, float]:
        """The mean share retained at each ratio."""
        return {
            ratio: fmean(s.retained for s in group) for ratio, group in self._by_ratio().items()
        }

    def cost_ratios(self) -> dict[float, float]:
        """The mean share of the tokens kept at each ratio; above it, a budget was broken."""
        return {
            ratio: fmean(s.cost_ratio for s in group) for ratio, group in self._by_ratio().items()
        }

    def _by_ratio(self) -> dict[float, list[Score]]:
        groups: dict[float, list[Score]] = {}
        for score in self.scores:
            groups.setdefault(score.ratio, []).append(score)
        return groups


@dataclass(frozen=True, slots=True)
class Cut:
    """A session up to a point, and the names in it that its tool calls use after that point."""

    name: str
    messages: list[Message]
    needed: frozenset[str]
    format: str = "plain"

    def mentioned(self, messages: Iterable[Message]) -> frozenset[str]:
        """The needed names that stand somewhere in these messages."""
        text = "\n".join(text_of(message) for message in messages)
        return frozenset(name for name in self.needed if name in text)


def cut_sessions(
    conversations: Iterable[Conversation],
    fractions: Sequence[float] = CODING_CUTS,
    *,
    min_messages: int = 1,
    min_needed: int = 1,
    horizon_steps: int | None = None,
) -> list[Cut]:
    """Cut each conversation at these shares of its steps, never between a tool call and its result.

    Left out: conversations under `min_messages` and cuts after which fewer than `min_needed` names
    of what came before are used. `horizon_steps` says how far ahead to look; None is to the end.
    """
    cuts: list[Cut] = []
    for conversation in conversations:
        messages = conversation.messages
        groups = steps(messages)
        if len(_distinct(messages)) < min_messages:
            continue
        for fraction in fractions:
            at = int(len(groups) * fraction + 1e-9)
            if not 0 < at < len(groups):
                continue
            before = messages[: groups[at].start]
            ahead = groups[at:] if horizon_steps is None else groups[at : at + horizon_steps]
            inputs = "\n".join(tool_inputs(messages[i]) for group in ahead for i in group)
            used = Cut(f"{conversation.name} at {fraction:.2f}", before, names_in(inputs))
            needed = used.mentioned(before)
            if len(needed) >= min_needed:
                cuts.append(Cut(used.name, before, needed, conversation.format))
    return cuts


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
    scores: list[Score] = []
    for conversation in conversations:
        total = sum(map(cost, conversation.messages))
        for number, question in enumerate(conversation.questions):
            for ratio in ratios:
                kept = compact(list(conversation.messages), question.text, ratio)
                there = _places(kept, conversation.messages)
                found = sum(i in there for i in question.evidence)
                scores.append(
                    Score(
                        f"{conversation.name} question {number}",
                        ratio,
                        found / len(question.evidence),
                        sum(map(cost, kept)) / max(1, total),
                    )
                )
    return Retention(tuple(scores))


def measure_cuts(
    cuts: Iterable[Cut],
    compact: Compact,
    ratios: Sequence[float] = CUT_RATIOS,
    *,
    cost: Callable[[Message], int] = estimate_cost,
) -> Retention:
    """Compact what came before each cut, without a query.

    Retained is the share of the needed names still mentioned in what is kept.
    """
    scores: list[Score] = []
    for cut in cuts:
        total = sum(map(cost, cut.messages))
        for ratio in ratios:
            kept = compact(list(cut.messages), None, ratio)
            scores.append(
                Score(
                    cut.name,
                    ratio,
                    len(cut.mentioned(kept)) / max(1, len(cut.needed)),
                    sum(map(cost, kept)) / max(1, total),
                )
            )
    return Retention(tuple(scores))


def _places(kept: list[Message], messages: Sequence[Message]) -> set[int]:
    """Where the kept messages stood."""
    if isinstance(kept, Kept):
        return set(kept.indices)
    there = {id(message) for message in kept}
    return {i for i, message in enumerate(messages) if id(message) in there}


def _distinct(messages: Sequence[Message]) -> set[str]:
    """Messages, where a transcript's entries with one id count once."""
    return {str(payload(m).get("id") or f"#{i}") for i, m in enumerate(messages)}
