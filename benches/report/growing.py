"""Growth of a time: the exponent of a power of the size, and that of n log n."""

from __future__ import annotations

from collections.abc import Mapping
from math import log
from statistics import linear_regression


def exponent(seconds: Mapping[int, float]) -> float | None:
    """Return the exponent of the size that fits the times best, by least squares over logarithms.

    >>> exponent({10: 1.0, 100: 10.0, 1000: 100.0})
    1.0
    """
    if len(seconds) < 2:
        return None
    slope, _ = linear_regression([log(n) for n in seconds], [log(t) for t in seconds.values()])
    return round(slope, 6)


def of_n_log_n(smallest: int, largest: int) -> float:
    """Return the exponent of n log n between two sizes: 1.10 from a thousand to a million."""
    return 1 + log(log(largest) / log(smallest)) / log(largest / smallest)
