"""Usage and cost: the formula of the contract, and the providers' usage reports."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, strategies as st

import rehydrate
from rehydrate._native import known_name
from rehydrate.agent.events import TurnRecord
from rehydrate.cost import (
    AS_OF,
    MINIMUM_PREFIX,
    PRICES,
    PrefixReport,
    Price,
    Usage,
    cost,
    minimum_prefix,
    prefix_report,
    price_of,
    worth_compacting,
)
from rehydrate.errors import InvalidArgumentError
from rehydrate.prompt import CompiledPrompt, PromptIR, Segment
from tests.cost.segments import row, seg

PROFILES = "arn:aws:bedrock:us-east-1:123456789012:inference-profile/"
SOURCES = ("anthropic", "openai", "google")


def test_a_segment_without_a_count_is_refused_by_its_name():
    with pytest.raises(InvalidArgumentError, match="segment 'a': tokens is None; pass a whole"):
        prefix_report([seg("a", 3)], [seg("a", 3)._replace(tokens=None)])


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
        (f"{PROFILES}us.anthropic.claude-opus-4-5-20251101-v1:0", "claude-opus-4-5"),
        ("us-gov.anthropic.claude-3-7-sonnet-20250219-v1:0", "claude-3-7-sonnet"),
        ("bedrock/converse/eu.anthropic.claude-opus-5", "claude-opus-5"),
        ("claude-sonnet-4@20250514", "claude-sonnet-4"),
        ("claude-opus-4-6[1m]", "claude-opus-4-6"),
        ("openai/gpt-4.1-mini-2025-04-14", "gpt-4.1-mini"),
        ("gpt-5", "gpt-5"),
        ("gpt-5.6", "gpt-5.6"),
        ("gpt-5-6-sol", "gpt-5.6-sol"),
        ("global.openai.gpt-6.1-sol", "gpt-6.1-sol"),
    ],
)
def test_a_model_is_known_by_any_spelling_of_its_name(name, key):
    assert known_name(name, PRICES) == key


@pytest.mark.parametrize("name", ["", "gpt-5-pro", "claude-opus-4-99", "llama", "gpt-5.7"])
def test_a_model_is_never_taken_for_one_with_a_similar_name(name):
    with pytest.raises(InvalidArgumentError, match=r"add it to rehydrate\.cost\.PRICES"):
        price_of(name)


@pytest.mark.parametrize("name", PRICES)
def test_every_price_is_that_of_the_kept_source(name):
    pytest.importorskip("genai_prices")
    from genai_prices.data import providers

    found = next(filter(None, (one.find_model(name) for one in providers if one.id in SOURCES)))
    as_of = date.fromisoformat(f"{AS_OF}-25")
    rows = found.prices if isinstance(found.prices, list) else []
    starts = [row.constraint.start_date for row in rows if row.constraint is not None]
    assert changes_of(PRICES[name]) == [day for day in starts if day > as_of]
    for start in (as_of, *changes_of(PRICES[name])):
        for day in (start, start + timedelta(days=1)):
            noon = datetime(day.year, day.month, day.day, 12, tzinfo=UTC)
            compare_prices(price_of(name, on=day), found.get_prices(noon))


@pytest.mark.parametrize("region", ["", "us.", "eu.", "global.", f"{PROFILES}us."])
@pytest.mark.parametrize(
    ("maker", "model"),
    [
        *[("anthropic", f"claude-{name}") for name in ("opus-5", "opus-4-6-v1", "sonnet-5-5")],
        ("anthropic", "claude-haiku-4-5-20251001-v1:0"),
        *[("openai", f"gpt-{name}") for name in ("5.6-luna", "6-sol", "6.1-terra")],
    ],
)
def test_bedrock_asks_a_tenth_more_in_a_region(maker, model, region):
    pytest.importorskip("genai_prices")
    from genai_prices.data import providers

    bedrock = next(one for one in providers if one.id == "aws")
    name = f"{region}{maker}.{model}"
    row = bedrock.find_model(name.rpartition("/")[2])
    if row is None or (region == "eu." and maker == "openai"):
        pytest.skip("the source has no row of it")
    noon = datetime.fromisoformat(f"{AS_OF}-25T12:00:00Z")
    compare_prices(price_of(name), row.get_prices(noon))


def changes_of(price: Price) -> list[date]:
    return [] if price.then is None else [price.then[0], *changes_of(price.then[1])]


def compare_prices(price: Price, of: Any) -> None:
    million = 1_000_000

    def at(field, tokens):
        rate = getattr(of, field)
        if rate is None or isinstance(rate, Decimal):
            return rate
        return next((t.price for t in reversed(rate.tiers) if tokens > t.start), rate.base)

    for tokens in (1_000, 150_000, 250_000, 900_000):
        for field, usage in (
            ("input_mtok", Usage(uncached=tokens)),
            ("cache_read_mtok", Usage(read=tokens)),
            ("cache_write_mtok", Usage(written=tokens)),
            ("cache_write_1h_mtok", Usage(written_1h=tokens)),
        ):
            rate = at(field, tokens)
            if rate is None and price.automatic:  # a write without a fee
                rate = at("cache_write_mtok", tokens) or at("input_mtok", tokens)
            assert cost(usage, price) * million / tokens == pytest.approx(float(rate)), field
        spent = cost(Usage(uncached=tokens, output=tokens), price) - cost(
            Usage(uncached=tokens), price
        )
        assert spent * million / tokens == pytest.approx(float(at("output_mtok", tokens)))


def test_a_price_that_changes_holds_to_the_day_before_and_a_turn_is_billed_by_that_of_its_day():
    argon = PRICES["gemini-4-argon"]
    last, first = date(2026, 11, 30), date(2026, 12, 1)
    before, after = (price_of("google/gemini-4-argon", on=day) for day in (last, first))
    assert (before.input, before.output, before.read) == (2, 10, 0.05)
    assert (after.input, after.output, after.read) == (4, 20, 0.05)
    assert after.on(last) is after  # the earlier price is not known of the later
    assert price_of("gemini-4-argon") is argon.on() is argon.on(datetime.now(UTC).date())
    twice = Price(1, 2, then=(last, Price(3, 4, then=(first, Price(5, 6)))))
    assert [twice.on(last - timedelta(days=2 - n)).input for n in range(4)] == [1, 1, 3, 5]


@pytest.mark.parametrize(
    "then", [date(2026, 12, 1), (Price(1, 2), date(2026, 12, 1)), ("2026-12-01", Price(1, 2))]
)
def test_what_is_no_later_price_is_refused(then):
    with pytest.raises(InvalidArgumentError, match=r"price: then is .*datetime\.date"):
        Price(1, 2, then=then)
    with pytest.raises(InvalidArgumentError, match=r"on is .*pass a datetime\.date"):
        price_of("gpt-5", on="2026-12-01")
    with pytest.raises(InvalidArgumentError, match=r"on is .*pass a datetime\.date"):
        price_of("gpt-5", on=datetime(2026, 12, 1, tzinfo=UTC))


def test_a_long_request_is_billed_by_its_own_prices_and_two_short_ones_are_not():
    price = Price(1, 2, long_tokens=1_000)
    short, long = Usage(uncached=1_000, output=100), Usage(read=1_001, output=100)
    assert cost(short, price) == pytest.approx((1_000 + 200) / 1e6)
    assert cost(long, price) == pytest.approx((2 * 0.1 * 1_001 + 1.5 * 200) / 1e6)
    record = TurnRecord((), price)
    record.count_reply(short)
    record.count_reply(short)
    assert record.dollars == pytest.approx(2 * cost(short, price))


def test_the_table_is_the_users_to_edit(monkeypatch):
    monkeypatch.setitem(PRICES, "house-model", Price(1, 2))
    monkeypatch.setitem(MINIMUM_PREFIX, "house-model", 64)
    assert price_of("house-model-2027-01-01").output == 2
    assert minimum_prefix("house-model") == 64
    assert price_of("mine", {"mine": Price(7, 8)}).input == 7


def test_a_prefix_of_gemini_is_kept_from_2048_or_4096_tokens_on():
    assert minimum_prefix("google/gemini-4-argon") == minimum_prefix("gemini-3.8-flash") == 4_096
    assert minimum_prefix("gemini-2.5-pro") == 2_048


def test_every_minimum_is_within_what_providers_have():
    assert {minimum_prefix(model) for model in PRICES} <= {512, 1_024, 2_048, 4_096}


@pytest.mark.parametrize("wrong", [{"input": -1}, {"read": float("nan")}, {"step_tokens": 0}])
def test_what_is_no_price_is_refused_by_name(wrong):
    with pytest.raises(InvalidArgumentError, match=next(iter(wrong))):
        Price(**{"input": 1, "output": 1, **wrong})


HUGE = 10**400
LONG = 10**5000


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: price_of(None), "model is of type NoneType; pass the model's name"),
        (lambda: price_of("x", 3), "prices is of type int"),
        (lambda: minimum_prefix(["gpt-5"]), "model is of type list"),
        (lambda: Price(HUGE, 1), "input is 1000.*; pass a number from 0 to 1,000,000,000"),
        (lambda: Price(LONG, 1), "input is a whole number of 16,610 bits; pass"),
        (lambda: Price(1, True), "output is of type bool; pass a number"),
        (lambda: Usage("x").input, "usage: read is 'x'; pass a number of tokens"),
        (lambda: Usage.billed(None), "usage is of type NoneType"),
        (lambda: Usage.billed({"prompt_tokens": "x"}), "prompt_tokens is 'x'; pass a whole number"),
        (lambda: Usage.billed({"input_tokens": float("nan")}), "input_tokens is nan"),
        (lambda: Usage.billed({"input_tokens": -4}), "input_tokens is -4; .* from 0"),
        (lambda: Usage.billed({"input_tokens": LONG}), "input_tokens is a whole number of"),
        (
            lambda: Usage.billed({"prompt_tokens": 1, "prompt_tokens_details": 7}),
            "prompt_tokens_details is of type int",
        ),
        (
            lambda: Usage.billed(
                {"prompt_tokens": 1_500, "prompt_tokens_details": {"cached_tokens": 2_000}}
            ),
            "2,000 tokens read from and written to the cache are more than the 1,500",
        ),
        (
            lambda: Usage.billed(
                {
                    "cache_creation_input_tokens": 1,
                    "cache_creation": {"ephemeral_1h_input_tokens": 2},
                }
            ),
            "2 tokens written for an hour are more than the 1 ",
        ),
        (lambda: price_of("mine", {"mine": 3}), "prices: that of mine is of type int"),
        (lambda: price_of("mine", {7: PRICE}), "prices: a name is of type int"),
        (lambda: Usage.total([3]), "usages: one is of type int"),
        (lambda: Usage.total([Usage("x")]), "usage: read is 'x'; pass a number of tokens"),
        (lambda: Usage.total([Usage(output=float("nan"))]), "usage: output is nan"),
        (lambda: cost(None, Price(1, 1)), "usage is of type NoneType"),
        (lambda: cost(Usage(1), 3), "price is of type int"),
        (lambda: cost(Usage(uncached=HUGE), Price(1, 1)), "uncached is 1000.*; pass a number of"),
        (lambda: prefix_report(row("ab"), row("b"), price=3), "price is of type int"),
        (lambda: prefix_report(row("ab"), row("b"), ttl="9h"), "ttl is '9h'; choose one of"),
        (lambda: worth_compacting(HUGE, 1, expected_turns=1, price=PRICE), "before_tokens is 1000"),
        (lambda: worth_compacting(9, 1, expected_turns=HUGE, price=PRICE), "expected_turns is 10"),
        (lambda: worth_compacting(9, 1, expected_turns=1, price=3), "price is of type int"),
        (lambda: worth_compacting(9, 1, expected_turns=1, price=0), "price is of type int"),
        (
            lambda: worth_compacting(
                9, 1, expected_turns=1, price=PRICE, compaction_cost=float("inf")
            ),
            "compaction_cost is inf; pass a number from 0 to 9,007",
        ),
    ],
)
def test_what_nothing_costs_and_nobody_counts_is_refused_by_name(call, said):
    with pytest.raises(InvalidArgumentError, match=said):
        call()


# prefix_report: where a prompt stops extending the previous one, why, and the cost.


PRICE = Price(3, 15)


def test_a_prompt_that_goes_on_extends_the_one_before_it():
    report = prefix_report(row("abc"), row("abcd"))
    assert (report.extends, report.keeps_cached, report.broke) == (True, True, None)
    assert (report.shared_tokens, report.rewritten_tokens) == (3_000, 0)
    assert "extends" in str(report)


@pytest.mark.parametrize(
    ("current", "why", "place", "again"),
    [
        ("axcd", "changed", "b", 2_000),
        ("acd", "removed", "b", 2_000),
        ("axbcd", "inserted", "x", 3_000),
        ("acbd", "reordered", "b", 3_000),
        ("a", "removed", "b", 0),
        ("xbcd", "changed", "a", 3_000),
    ],
)
def test_a_break_is_named_with_its_reason_and_what_must_be_written_again(
    current, why, place, again
):
    before = row("abcd")
    after = row(current)
    if why == "changed":  # the same section with another content
        at = current.index("x")
        after[at] = after[at]._replace(id=before[at].id)
    report = prefix_report(before, after, price=PRICE)
    assert report.broke is not None
    assert (report.broke.why, report.broke.place) == (why, place)
    assert report.rewritten_tokens == again
    assert report.cost == pytest.approx(1.15 * 3 * again / 1e6)
    assert not report.extends


def test_history_entries_are_distinguished_by_content_not_by_their_numbers():
    def numbered(digests):
        return [Segment(f"history[{n}]", "message", 10, d, "static") for n, d in enumerate(digests)]

    report = prefix_report(numbered("abcd"), numbered("acd"))
    assert report.broke == ("history[1]", "message", "removed")
    report = prefix_report(numbered("abcd"), numbered("axbcd"))
    assert report.broke == ("history[1]", "message", "inserted")


def test_a_changed_tool_schema_is_called_one():
    before = [seg("read", kind="tool"), seg("rules", kind="system")]
    after = [before[0]._replace(digest="other"), before[1]]
    assert "the schema of read changed" in str(prefix_report(before, after))


def test_another_section_in_the_same_place_is_a_replacement():
    report = prefix_report(row("ab"), row("ay"))
    assert report.broke is not None
    assert report.broke.why == "replaced"


def test_breakpoints_may_move_without_breaking_anything():
    report = prefix_report(row("abc", marks="c"), row("abc", marks="a"))
    assert report.extends


def test_content_after_the_last_breakpoint_may_change_for_free():
    report = prefix_report(row("abx", marks="b"), row("aby", marks="b"))
    assert (report.extends, report.keeps_cached) == (False, True)
    assert not prefix_report(row("abx", marks="x"), row("aby")).keeps_cached


def test_another_model_has_another_cache():
    def compiled(model):
        return CompiledPrompt("anthropic", {"messages": []}, PromptIR(), tuple(row("ab")), model)

    report = prefix_report(compiled("claude-opus-4-5"), compiled("claude-haiku-4-5"))
    assert report.broke is not None
    assert report.broke.why == "other model"
    assert report.shared_tokens == 0
    assert report.cost == pytest.approx(1.15 * 1 * 2_000 / 1e6)
    assert prefix_report(compiled("x"), compiled("x")).cost is None


def test_gemini_and_converse_are_read_too():
    gemini = {"promptTokenCount": 900, "cachedContentTokenCount": 600, "candidatesTokenCount": 7}
    assert Usage.billed({**gemini, "thoughtsTokenCount": 3}) == Usage(600, 0, 0, 300, 10)
    converse = {"inputTokens": 30, "outputTokens": 4, "cacheReadInputTokens": 500}
    assert Usage.billed({**converse, "cacheWriteInputTokens": 70}) == Usage(500, 70, 0, 30, 4)
    snake = {"prompt_token_count": 900, "cached_content_token_count": 600}
    snake |= {"candidates_token_count": 7, "thoughts_token_count": 3}
    assert Usage.billed({**snake, "cached_content_token_count": None}) == Usage(0, 0, 0, 900, 10)
    assert Usage.billed({**snake, "tool_use_prompt_token_count": 5}) == Usage(600, 0, 0, 305, 10)
    report = prefix_report(row("ab"), row("abc"), response={"usage_metadata": snake})
    assert report.billed == Usage(600, 0, 0, 300, 10)
    details = [{"ttl": "5m", "inputTokens": 50}, {"ttl": "1h", "inputTokens": 20}]
    written = {"cacheWriteInputTokens": 70, "cacheDetails": details}
    assert Usage.billed({**converse, **written}) == Usage(500, 50, 20, 30, 4)


@pytest.mark.parametrize("given", ["1h", 5, {"ttl": "1h"}, [1], [None]])
@pytest.mark.parametrize(
    ("usage", "key"), [({"inputTokens": 1}, "cacheDetails"), ({"input_tokens": 1}, "iterations")]
)
def test_parts_of_a_usage_that_are_none_are_refused(usage, key, given):
    with pytest.raises(InvalidArgumentError, match=f"usage: {key}"):
        Usage.billed({**usage, key: given})


def test_a_summary_inside_a_summary_is_not_billed():
    usage: dict[str, Any] = {"type": "compaction", "input_tokens": 1}
    for _ in range(5_000):
        usage = {"type": "compaction", "input_tokens": 1, "iterations": [usage]}
    assert Usage.billed(usage).input == 2


def test_the_report_reads_what_the_provider_says_of_its_cache():
    reason = {"type": "messages_changed", "cache_missed_input_tokens": 1_400}
    response = {
        "usage": {"input_tokens": 10, "cache_read_input_tokens": 600, "output_tokens": 1},
        "diagnostics": {"cache_miss_reason": reason},
    }
    report = prefix_report(row("ab"), row("abc"), response=response)
    assert report.billed == Usage(read=600, uncached=10, output=1)
    assert (report.diagnosis, report.missed_tokens) == ("messages_changed", 1_400)
    assert "600 of 610 were read from the cache (messages_changed: 1,400 missed)" in str(report)
    pending = {**response, "diagnostics": {"cache_miss_reason": None}}
    assert prefix_report(row("ab"), row("abc"), response=pending).diagnosis == ""
    assert prefix_report(row("ab"), row("abc")).billed is None


@pytest.mark.parametrize("odd", ["later", [1], 7, {}, {"type": 3}, {"cache_missed_tokens": "x"}])
def test_a_diagnosis_of_an_unknown_shape_says_nothing(odd: object) -> None:
    for said in (
        {"diagnostics": odd},
        {"diagnostics": {"cache_miss_reason": odd}},
        {"prompt_cache_diagnostics": odd},
    ):
        response = {"usage": {"input_tokens": 610}, **said}
        report = prefix_report(row("ab"), row("abc"), response=response)
        assert (report.diagnosis, report.missed_tokens) == ("", 0)
        assert report.billed == Usage(uncached=610)


def test_the_report_reads_the_diagnostics_of_openai_as_its_sdk_has_them():
    pytest.importorskip("openai")
    from openai.types.responses.response import PromptCacheDiagnostics
    from pydantic import TypeAdapter

    adapter = TypeAdapter(PromptCacheDiagnostics)

    def report(**said: Any) -> PrefixReport:
        found = adapter.validate_python(said).model_dump(mode="json")
        usage = {"input_tokens": 610, "input_tokens_details": {"cached_tokens": 600}}
        response = {"usage": usage, "prompt_cache_diagnostics": found}
        return prefix_report(row("ab"), row("abc"), response=response)

    missed = report(type="cache_miss", reason="tools_changed", cache_missed_tokens=1_400)
    assert (missed.diagnosis, missed.missed_tokens) == ("tools_changed", 1_400)
    assert "600 of 610 were read from the cache (tools_changed: 1,400 missed)" in str(missed)
    assert (report(type="cache_hit").diagnosis, report(type="cache_hit").missed_tokens) == ("", 0)
    unknown = report(type="comparison_response_not_found")
    assert unknown.diagnosis == "comparison_response_not_found"


@pytest.mark.parametrize(
    ("response", "said"), [({}, "response has no usage"), ("usage", "response is of type str")]
)
def test_what_is_no_response_is_refused(response, said):
    with pytest.raises(InvalidArgumentError, match=said):
        prefix_report(row("ab"), row("abc"), response=response)


@given(st.text("abcde", max_size=9), st.text("abcde", max_size=9))
def test_the_report_agrees_with_the_simulated_bill(first, second):
    """A cache with a breakpoint everywhere reads exactly the shared tokens."""
    price = Price(1, 1, automatic=True, write=1)
    before, after = row(first), row(second)
    report = prefix_report(before, after)
    _, turn = rehydrate.cost.simulate([before, after], price=price, minimum_tokens=0).turns
    assert report.shared_tokens == turn.read
    assert report.extends == second.startswith(first)
    assert (report.broke is None) == report.extends
    assert report.shared_tokens + report.rewritten_tokens <= report.previous_tokens
