"""worth_compacting: the break-even formula, derived again by replaying the turns."""

from __future__ import annotations

import math
from functools import partial

import pytest
from hypothesis import given, strategies as st

import rehydrate
from rehydrate.cost import Price, worth_compacting
from rehydrate.errors import InvalidArgumentError
from tests.cost.segments import seg

PRICE = Price(3, 15)
GPT = Price(2, 8, read=0.25, write=1, write_1h=1, automatic=True)


def test_the_formula_is_that_of_the_contract_and_its_constant_is_11_5():
    before, after, kept, summary = 100_000, 30_000, 10_000, 0.05
    worth = worth_compacting(
        before, after, kept, expected_turns=0, price=PRICE, compaction_cost=summary
    )
    k = 11.5 * (after - kept) / (before - after)
    k += summary / (0.1 * PRICE.input / 1e6 * (before - after))
    assert worth.break_even_turns == pytest.approx(k)


def test_an_hour_and_openai_have_constants_of_their_own():
    def turns(price, ttl="5m"):
        return worth_compacting(
            20_000, 10_000, expected_turns=1, price=price, ttl=ttl
        ).break_even_turns

    assert turns(PRICE, "1h") == pytest.approx(19)
    assert turns(GPT) == pytest.approx(3)


def crossing_turn(before, after, kept, *, price, warm=True, limit=2_000):
    """Replay both jobs; return the first turn at which the compacted one has cost no more."""
    gap = 0.0 if warm else 1e6
    old = [seg("kept", kept, mark=True), seg("old", before - kept, mark=True)]
    new = [seg("kept", kept, mark=True), seg("new", after - kept, mark=True)]
    options = {"price": price, "minimum_tokens": 1, "gaps": [gap] + [0.0] * (limit - 1)}
    with_it = rehydrate.cost.simulate([old, *[new] * limit], **options).costs
    without = rehydrate.cost.simulate([old, *[old] * limit], **options).costs
    difference = 0.0
    for turn in range(1, limit + 1):
        difference += with_it[turn] - without[turn]
        if difference <= 1e-12:
            return turn
    return math.inf


sizes = st.tuples(st.integers(1_000, 200_000), st.floats(0.05, 0.9), st.floats(0, 1)).map(
    lambda drawn: (drawn[0], int(drawn[0] * drawn[1]), int(drawn[0] * drawn[1] * drawn[2]))
)


@given(sizes, st.sampled_from([PRICE, GPT, Price(5, 25, read=0.05)]))
def test_the_replayed_jobs_cross_where_the_formula_says_within_one_turn(sizes, price):
    before, after, kept = sizes
    worth = worth_compacting(before, after, kept, expected_turns=1, price=price)
    replayed = crossing_turn(before, after, kept, price=price)
    assert abs(replayed - max(worth.break_even_turns, 1)) <= 1


def test_a_cold_cache_pays_at_once():
    worth = worth_compacting(50_000, 20_000, 5_000, expected_turns=1, price=PRICE, warm=False)
    assert worth.break_even_turns == 0
    assert worth.pays
    assert crossing_turn(50_000, 20_000, 5_000, price=PRICE, warm=False) == 1


def test_a_paid_summary_on_a_cold_cache_pays_when_what_it_saves_has_added_up():
    price, summary = PRICE, 0.5
    worth = worth_compacting(
        50_000, 20_000, expected_turns=40, price=price, warm=False, compaction_cost=summary
    )
    first, later = (share * price.input * 30_000 / 1e6 for share in (1.25, 0.1))
    assert first + (worth.break_even_turns - 1) * later == pytest.approx(summary)


@given(sizes, st.integers(0, 60), st.booleans())
def test_what_is_saved_is_the_difference_of_the_two_replayed_jobs(sizes, turns, warm):
    before, after, kept = sizes
    worth = worth_compacting(before, after, kept, expected_turns=turns, price=PRICE, warm=warm)
    options = {"price": PRICE, "minimum_tokens": 1, "gaps": [0.0 if warm else 1e6] + [0.0] * turns}
    options["gaps"] = options["gaps"][:turns]
    old = [seg("kept", kept, mark=True), seg("old", before - kept, mark=True)]
    new = [seg("kept", kept, mark=True), seg("new", after - kept, mark=True)]
    replayed = (
        rehydrate.cost.simulate([old, *[old] * turns], **options).cost
        - rehydrate.cost.simulate([old, *[new] * turns], **options).cost
    )
    assert worth.saved == pytest.approx(replayed, abs=1e-9)
    assert worth.pays == (worth.saved > 0)


def test_a_compaction_that_removes_nothing_never_pays():
    assert worth_compacting(10, 10, 5, expected_turns=99, price=PRICE).break_even_turns == math.inf
    assert not worth_compacting(10, 12, expected_turns=99, price=PRICE).pays


def test_endless_turns_save_without_end_or_what_one_turn_would():
    endless = partial(worth_compacting, expected_turns=math.inf, compaction_cost=0.5)
    assert endless(100, 30, price=PRICE).saved == math.inf
    assert endless(100, 130, price=PRICE).saved == -math.inf
    for free in (Price(3, 15, read=0), Price(0, 0)):  # no turn saves anything
        worth = endless(100, 30, price=free, warm=False)
        assert (
            worth.saved
            == worth_compacting(
                100, 30, expected_turns=1, compaction_cost=0.5, price=free, warm=False
            ).saved
        )
    assert endless(100, 100, price=PRICE).saved == pytest.approx(-0.5 - 1.15 * 3e-4)


@pytest.mark.parametrize(
    ("numbers", "message"),
    [((-1, 0), "before_tokens"), ((10, 5, 6), "kept_tokens is 6"), ((10.5, 5), "before_tokens")],
)
def test_numbers_that_cannot_be_are_refused_by_name(numbers, message):
    with pytest.raises(InvalidArgumentError, match=message):
        worth_compacting(*numbers, expected_turns=1, price=PRICE)
