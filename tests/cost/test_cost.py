"""Usage and cost: the formula of the contract, and the providers' usage reports."""

from __future__ import annotations

import pytest

from rehydrate.cost import MINIMUM_PREFIX, PRICES, Price, Usage, cost, minimum_prefix, price_of
from rehydrate.errors import InvalidArgumentError


def test_the_cost_is_the_formula_of_the_contract():
    price, usage = Price(5, 25), Usage(1_000, 200, 300, 40, 7)
    by_hand = 5 * (40 + 1.25 * 200 + 2 * 300 + 0.1 * 1_000) + 25 * 7
    assert cost(usage, price) == pytest.approx(by_hand / 1e6)


def test_anthropic_reports_what_was_written_for_five_minutes_and_for_an_hour():
    reported = {
        "input_tokens": 3,
        "cache_creation_input_tokens": 8_052,
        "cache_read_input_tokens": 17_842,
        "cache_creation": {"ephemeral_5m_input_tokens": 52, "ephemeral_1h_input_tokens": 8_000},
        "output_tokens": 10,
    }
    assert Usage.billed(reported) == Usage(17_842, 52, 8_000, 3, 10)


def test_openai_counts_what_was_cached_inside_of_the_input():
    responses = {
        "input_tokens": 2_006,
        "input_tokens_details": {"cached_tokens": 1_920},
        "output_tokens": 300,
    }
    assert Usage.billed(responses) == Usage(1_920, 0, 0, 86, 300)
    chat = {"prompt_tokens": 50, "completion_tokens": 5}
    assert Usage.billed(chat) == Usage(uncached=50, output=5)


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("claude-opus-4-5", "claude-opus-4-5"),
        ("claude-opus-4-5-20251101", "claude-opus-4-5"),
        ("anthropic/claude-sonnet-4.5", "claude-sonnet-4-5"),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-sonnet-4-5"),
        ("claude-sonnet-4@20250514", "claude-sonnet-4"),
        ("claude-opus-4-6[1m]", "claude-opus-4-6"),
        ("openai/gpt-4.1-mini-2025-04-14", "gpt-4.1-mini"),
        ("gpt-5", "gpt-5"),
    ],
)
def test_a_model_is_known_by_any_spelling_of_its_name(name, key):
    assert price_of(name) is PRICES[key]


@pytest.mark.parametrize("name", ["", "gpt-5-pro", "claude-opus-4-99", "llama", "gpt-5.3"])
def test_a_model_is_never_taken_for_one_with_a_similar_name(name):
    with pytest.raises(InvalidArgumentError, match=r"add it to rehydrate\.cost\.PRICES"):
        price_of(name)


def test_the_table_is_the_users_to_edit(monkeypatch):
    monkeypatch.setitem(PRICES, "house-model", Price(1, 2))
    monkeypatch.setitem(MINIMUM_PREFIX, "house-model", 64)
    assert price_of("house-model-2027-01-01").output == 2
    assert minimum_prefix("house-model") == 64
    assert price_of("mine", {"mine": Price(7, 8)}).input == 7


def test_every_minimum_is_within_what_providers_have():
    assert {minimum_prefix(model) for model in PRICES} <= {512, 1_024, 2_048, 4_096}


@pytest.mark.parametrize("wrong", [{"input": -1}, {"read": float("nan")}, {"step_tokens": 0}])
def test_what_is_no_price_is_refused_by_name(wrong):
    with pytest.raises(InvalidArgumentError, match=next(iter(wrong))):
        Price(**{"input": 1, "output": 1, **wrong})
