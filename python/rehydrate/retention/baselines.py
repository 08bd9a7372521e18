"""What to compare a compactor with: the last, a random choice, one that knows the future."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .measure import Compact, Cut
from .reading import Message, estimate_cost, role_of, steps, text_of

Cost = Callable[[Message], int]


@dataclass(frozen=True, slots=True)
class _Budgeted:
    """A conversation as whole steps with their costs, and what may be spent on them."""

    messages: list[Message]
    steps: list[range]
    costs: list[int]
    system: list[int]
    budget: int

    def keep(self, chosen: Sequence[int]) -> list[Message]:
        """The messages of the chosen steps and every system message, in order."""
        indices = sorted([*self.system, *(i for step in chosen for i in self.steps[step])])
        return [self.messages[i] for i in indices]


def keep_last(cost: Cost = estimate_cost) -> Compact:
    """Keep the longest run of whole steps at the end that fits the budget."""

    def compact(messages: list[Message], _query: str | None, ratio: float) -> list[Message]:
        job = _budgeted(messages, ratio, cost)
        left, chosen = job.budget, []
        for step in reversed(range(len(job.steps))):
            if job.costs[step] > left:
                break
            left -= job.costs[step]
            chosen.append(step)
        return job.keep(chosen)

    return compact


def keep_random(seed: int = 0, cost: Cost = estimate_cost) -> Compact:
    """Keep whole steps in a random order, each one that still fits; the same ones every time."""

    def compact(messages: list[Message], _query: str | None, ratio: float) -> list[Message]:
        job = _budgeted(messages, ratio, cost)
        order = list(range(len(job.steps)))
        random.Random(f"{seed} {_query}").shuffle(order)
        left, chosen = job.budget, []
        for step in order:
            if job.costs[step] <= left:
                left -= job.costs[step]
                chosen.append(step)
        return job.keep(chosen)

    return compact


def knows_the_future(cut: Cut, cost: Cost = estimate_cost) -> Compact:
    """About the most that whole steps can retain of this cut: a greedy cover of what it will need.

    The better of covering by names per token and by names alone, so a few points under the optimum.
    """

    def compact(messages: list[Message], _query: str | None, ratio: float) -> list[Message]:
        job = _budgeted(messages, ratio, cost)
        texts = ["\n".join(text_of(messages[i]) for i in step) for step in job.steps]
        has = [frozenset(name for name in cut.needed if name in text) for text in texts]
        per_token = _cover(has, job.costs, job.costs, job.budget)
        by_names = _cover(has, job.costs, [1] * len(has), job.budget)
        return job.keep(max(per_token, by_names, key=lambda c: len(_union(has, c))))

    return compact


def _budgeted(messages: list[Message], ratio: float, cost: Cost) -> _Budgeted:
    system = [i for i, message in enumerate(messages) if role_of(message) == "system"]
    groups = [group for group in steps(messages) if group.start not in system]
    costs = [sum(cost(messages[i]) for i in group) for group in groups]
    system_cost = sum(cost(messages[i]) for i in system)
    budget = int((sum(costs) + system_cost) * ratio + 1e-9) - system_cost
    return _Budgeted(messages, groups, costs, system, max(0, budget))


def _cover(
    has: list[frozenset[str]], costs: list[int], prices: list[int], budget: int
) -> list[int]:
    """Steps chosen by new names per price, while they fit and bring something new."""
    chosen: list[int] = []
    covered: frozenset[str] = frozenset()
    while True:
        gains = [
            (len(has[step] - covered) / max(1, prices[step]), step)
            for step in range(len(has))
            if step not in chosen and costs[step] <= budget
        ]
        gain, best = max(gains, default=(0.0, -1))
        if gain <= 0:
            return chosen
        chosen.append(best)
        covered |= has[best]
        budget -= costs[best]


def _union(has: list[frozenset[str]], chosen: Sequence[int]) -> frozenset[str]:
    return frozenset().union(*(has[step] for step in chosen))
