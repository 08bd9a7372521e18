"""Bootstrap intervals by session: how far a mean would move with other sessions of the kind."""

from collections.abc import Iterable
from typing import NamedTuple

DRAWS = 1_000
COVERAGE = 0.95


class Interval(NamedTuple):
    """A mean lies between `low` and `high` with 95% certainty."""

    low: float
    high: float

    def __str__(self) -> str:
        """Both ends, such as ``0.61-0.74``."""
        return f"{self.low:.2f}-{self.high:.2f}"


def by_session(values: Iterable[tuple[str, float]], *, seed: int = 0) -> Interval | None:
    """The interval of the mean of these (session, value) pairs; None for a single session.

    Sessions are drawn with replacement, each with all its values; the same draws every time.

    >>> by_session([("a", 0.5), ("b", 0.5), ("b", 0.5)])
    Interval(low=0.5, high=0.5)
    >>> by_session([("a", 0.5), ("a", 0.7)]) is None
    True
    """
    import numpy as np

    groups: dict[str, list[float]] = {}
    for session, value in values:
        groups.setdefault(session, []).append(value)
    if len(groups) < 2:
        return None
    sums = np.array([sum(group) for group in groups.values()])
    counts = np.array([len(group) for group in groups.values()])
    drawn = np.random.default_rng(seed).integers(len(groups), size=(DRAWS, len(groups)))
    means = sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1)
    tail = (1 - COVERAGE) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    return Interval(float(low), float(high))
