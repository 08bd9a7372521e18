"""`worth_compacting`: after how many turns a compaction has paid for itself.

A warm history of H tokens costs ``r H`` a turn to read, with r the share that reading costs (0.1).
Compacted to H', of which the first R0 tokens are unchanged, the next turn reads R0 and writes
the rest at the share w (1.25): ``r R0 + w (H' - R0)``; every turn after it reads H'. With a
compaction that itself costs C dollars, k turns cost the same either way when

    k r (H - H') = (w - r)(H' - R0) + C / p_in
    k* = (w - r)/r * (H' - R0)/(H - H')  +  C / (r p_in (H - H'))

and (1.25 - 0.1)/0.1 = 11.5. A cold cache has to be written either way: the smaller history is
cheaper from the first turn on.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from rehydrate._check import check_type, check_whole, shown
from rehydrate.cost.prices import MAX_COUNT, MILLION, Price, Ttl, price_of
from rehydrate.errors import InvalidArgumentError


class Worth(NamedTuple):
    """Whether to compact, with the figures."""

    pays: bool
    """Whether the expected turns cost less with the compaction than without."""
    break_even_turns: float
    """Turns until both cost the same; 0.0: it pays at once, infinity: it never does."""
    saved: float
    """Dollars saved over the expected turns; below 0 if the compaction costs more."""


def worth_compacting(
    before_tokens: int,
    after_tokens: int,
    kept_tokens: int = 0,
    *,
    expected_turns: float,
    model: str = "",
    price: Price | None = None,
    compaction_cost: float = 0.0,
    warm: bool = True,
    ttl: Ttl = "5m",
) -> Worth:
    """Decide whether a history of `before_tokens` should be compacted to `after_tokens`.

    ``kept_tokens`` are the first of them that do not change (the prompt before the history is read
    either way and counted in none of the three). ``compaction_cost`` are the dollars of the
    compaction itself: 0 for Rehydrate's own, the price of a call for a summary. ``warm`` says that
    the history is in the cache. Only money is weighed, not other reasons to compact (a model that
    reads a shorter prompt better, a full window). Raises InvalidArgumentError for numbers outside
    their limits and a model without a price.

    >>> worth_compacting(100_000, 30_000, 10_000, expected_turns=10, price=Price(3, 15))
    Worth(pays=True, break_even_turns=3.2857142857142856, saved=0.141)
    """
    price = price_of(model) if price is None else price
    check_type("price", price, Price, "pass a Price(input=..., output=...)")
    _check(before_tokens, after_tokens, kept_tokens, expected_turns, compaction_cost)
    write, per_token = price.write_share(ttl), price.input / MILLION
    removed, rewritten = before_tokens - after_tokens, after_tokens - kept_tokens
    each_turn = price.read * removed * per_token
    # The cost of the first turn beyond reading the smaller history.
    once = (write - price.read) * rewritten * per_token + compaction_cost
    if not warm:  # the larger history would have been written too
        once = compaction_cost - (write - price.read) * removed * per_token
    saved = -compaction_cost
    if expected_turns > 0:  # endless turns of nothing save nothing
        saved = (expected_turns * each_turn if each_turn else 0.0) - once
    if removed <= 0:
        turns = math.inf if once > 0 or removed < 0 else 0.0
    elif once <= 0 or (not warm and compaction_cost <= write * removed * per_token):
        turns = 0.0
    else:
        turns = once / each_turn if each_turn else math.inf
    return Worth(saved > 0, turns, round(saved, 12))


def _check(before: int, after: int, kept: int, turns: float, cost: float) -> None:
    for name, value in (("before_tokens", before), ("after_tokens", after), ("kept_tokens", kept)):
        check_whole(name, value, 0, MAX_COUNT)
    if kept > min(before, after):
        raise InvalidArgumentError(
            f"kept_tokens is {kept:,}, before_tokens {before:,} and after_tokens {after:,}; what "
            "stays as it was is part of both"
        )
    for name, number in (("expected_turns", turns), ("compaction_cost", cost)):
        check_type(name, number, (int, float), "pass a number")
        is_endless = name == "expected_turns" and number == math.inf
        if not (0 <= number <= MAX_COUNT or is_endless):
            raise InvalidArgumentError(
                f"{name} is {shown(number)}; pass a number from 0 to {MAX_COUNT:,}"
            )
