"""simulate: the bill of consecutive requests, by the rules of each provider's cache."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from rehydrate.cost import Price, Usage, cost, price_of, simulate
from rehydrate.errors import InvalidArgumentError
from rehydrate.prompt import ProviderPolicy
from tests.cost.segments import row, seg

CLAUDE = Price(3, 15)
GPT_56 = price_of("gpt-5.6-sol")
GPT = Price(2, 8, read=0.25, write=1, write_1h=1, automatic=True, step_tokens=128)


def bill(*prompts, **options):
    """Return (read, written, uncached) of each."""
    options = {"price": CLAUDE, "minimum_tokens": 1_024, **options}
    turns = simulate(prompts, **options).turns
    return [(turn.read, turn.written + turn.written_1h, turn.uncached) for turn in turns]


def test_what_is_sent_again_is_read_and_only_what_is_new_is_written():
    assert bill(row("abc", marks="c"), row("abcde", marks="e")) == [
        (0, 3_000, 0),
        (3_000, 2_000, 0),
    ]


def test_content_after_the_last_breakpoint_is_never_cached():
    again = row("abc", marks="b")
    assert bill(again, again) == [(0, 2_000, 1_000), (2_000, 0, 1_000)]


def test_without_a_breakpoint_nothing_is_cached():
    assert bill(row("abc"), row("abc")) == [(0, 0, 3_000)] * 2


def test_a_change_in_front_breaks_everything_after_it():
    assert bill(row("abc", marks="c"), row("xbc", marks="c")) == [(0, 3_000, 0)] * 2


def test_a_breakpoint_before_the_change_saves_what_is_in_front_of_it():
    first, second = row("abc", marks="ac"), row("axc", marks="ac")
    assert bill(first, second, minimum_tokens=1_000)[1] == (1_000, 2_000, 0)
    assert bill(first, second)[1] == (0, 3_000, 0)  # "a" alone is under the minimum


def test_a_prefix_under_the_minimum_is_not_kept():
    short = row("a", marks="a")
    assert bill(short, short) == [(0, 0, 1_000)] * 2
    assert bill(short, short, minimum_tokens=1_000)[1] == (1_000, 0, 0)


def test_the_cache_looks_back_over_twenty_blocks_and_no_further():
    first = [seg("start", 5_000, mark=True)]

    def longer(blocks):
        return [seg("start", 5_000), *[seg(f"b{n}", 10) for n in range(blocks - 1)]]

    for blocks, read in ((20, 5_000), (21, 0)):
        second = [*longer(blocks)[:-1], seg("last", 10, mark=True)]
        assert len(second) == blocks
        assert bill(first, second)[1][0] == read


def test_an_entry_of_many_blocks_takes_as_many_of_the_twenty():
    first = [seg("start", 5_000, mark=True)]
    assert bill(first, [seg("start", 5_000), seg("big", 10, blocks=19, mark=True)])[1][0] == 5_000
    assert bill(first, [seg("start", 5_000), seg("big", 10, blocks=20, mark=True)])[1][0] == 0


def test_a_second_breakpoint_bridges_what_one_alone_cannot_see():
    first = [seg("start", 5_000, mark=True)]
    middle = [seg(f"b{n}", 10, mark=n == 15) for n in range(30)]
    second = [seg("start", 5_000), *middle, seg("last", 10, mark=True)]
    assert bill(first, second)[1] == (5_000, 310, 0)


def test_an_entry_is_gone_when_it_was_not_used_for_its_time_to_live():
    again = row("ab", marks="b")
    assert [turn[0] for turn in bill(again, again, again, gaps=[300, 301])] == [0, 2_000, 0]
    assert [turn[0] for turn in bill(again, again, gaps=301, ttl="1h")] == [0, 2_000]


def test_reading_starts_the_time_to_live_again():
    again = row("ab", marks="b")
    assert [turn[0] for turn in bill(*[again] * 4, gaps=200)] == [0, 2_000, 2_000, 2_000]


def test_a_prefix_that_was_read_through_a_longer_prompt_stays_warm():
    base, longer = row("ab", marks="b"), row("abcd", marks="bd")
    assert bill(base, longer, base, gaps=200)[2] == (2_000, 0, 0)


def test_an_hour_costs_twice_the_input_and_five_minutes_a_quarter_more():
    again = row("ab", marks="b")
    short, long = (simulate([again], price=CLAUDE, ttl=ttl) for ttl in ("5m", "1h"))
    assert short.cost == pytest.approx(3 * 1.25 * 2_000 / 1e6)
    assert long.cost == pytest.approx(3 * 2 * 2_000 / 1e6)
    assert long.turns[0] == Usage(written_1h=2_000)


def test_openai_keeps_every_prefix_unasked_in_steps_of_128_tokens():
    first, second = row("abc"), row("abcd")
    assert bill(first, second, price=GPT) == [(0, 0, 3_000), (2_944, 0, 1_056)]
    assert bill(first, row("axc"), price=GPT)[1] == (0, 0, 3_000)  # 1,000 shared: too short
    assert bill(first, row("abx"), price=GPT)[1] == (1_920, 0, 1_080)


def test_openai_from_gpt_5_6_on_keeps_what_ends_with_the_newest_message_to_the_token():
    first, second = row("abc"), row("abcd")
    assert bill(first, second, price=GPT_56) == [(0, 3_000, 0), (3_000, 1_000, 0)]
    assert bill(second, first, second, price=GPT_56)[1:] == [(0, 3_000, 0), (4_000, 0, 0)]
    assert bill(first, row("abx"), price=GPT_56)[1] == (0, 3_000, 0)  # no shorter prefix is kept
    marked = row("abc", marks="a")  # Anthropic's marks say nothing here
    assert bill(marked, row("axc", marks="a"), price=GPT_56)[1] == (0, 3_000, 0)


def test_output_is_billed_and_the_input_apart_from_it():
    job = simulate([row("ab")] * 2, price=CLAUDE, output_tokens=[100, 200])
    assert job.total == Usage(uncached=4_000, output=300)
    assert job.cost == pytest.approx((3 * 4_000 + 15 * 300) / 1e6)
    assert job.input_cost == pytest.approx(3 * 4_000 / 1e6)


def test_marks_on_what_changes_every_turn_cost_more_than_no_marks_at_all():
    changing = [row(f"{n}bc", marks="c") for n in range(5)]
    assert simulate(changing, price=CLAUDE).saved == pytest.approx(-0.25)
    assert simulate([row("abc", marks="c")] * 5, price=CLAUDE).saved > 0.6


def test_a_fifth_breakpoint_is_refused_as_anthropic_does_and_openai_writes_the_latest_four():
    many = row("abcde", marks="abcde")
    with pytest.raises(InvalidArgumentError, match="5 breakpoints"):
        simulate([many], price=CLAUDE)
    options = {"price": GPT_56, "policy": ProviderPolicy(cache_breakpoints=True)}
    options["minimum_tokens"] = 1_000
    assert bill(many, row("ab", marks="b"), **options) == [(0, 5_000, 0), (2_000, 0, 0)]
    assert bill(many, row("a", marks="a"), **options)[1] == (0, 1_000, 0)  # the fifth from the end
    assert bill(row("a", marks="a"), many, **options)[1] == (1_000, 4_000, 0)


def test_a_time_to_live_of_openai_is_refused_for_a_cache_of_anthropic():
    again = row("ab", marks="b")
    assert [turn[0] for turn in bill(again, again, gaps=43_200, ttl="12h", price=GPT_56)] == [
        0,
        2_000,
    ]
    for ttl in ("30m", "12h"):
        with pytest.raises(InvalidArgumentError, match=f"ttl is '{ttl}', .* pass 5m or 1h"):
            simulate([again], price=CLAUDE, ttl=ttl)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gaps": [1, 2]}, "gaps has 2 numbers, expected 1"),
        ({"gaps": -1}, "gaps has -1"),
        ({"gaps": None}, "gaps is of type NoneType; pass one number for all"),
        ({"gaps": [10**400]}, "gaps has 1000"),
        ({"output_tokens": float("inf")}, "output_tokens has inf"),
        ({"output_tokens": "x"}, "output_tokens is of type str"),
        ({"minimum_tokens": "x"}, "minimum_tokens is 'x'; pass a whole number"),
        ({"price": 3}, "price is of type int"),
        ({"output_tokens": [1]}, "output_tokens has 1 numbers, expected 2"),
        ({"ttl": "1d"}, "ttl is '1d'"),
        ({"price": None}, "no price is known of model ''"),
    ],
)
def test_a_wrong_argument_is_named_with_its_remedy(options, message):
    with pytest.raises(InvalidArgumentError, match=message):
        simulate([row("a"), row("b")], **{"price": CLAUDE, **options})


@pytest.mark.parametrize("price", [CLAUDE, replace(CLAUDE, automatic=True)])
@pytest.mark.parametrize("tokens", [2**53 + 1, 2**63 - 1, 2**63])
def test_a_prompt_of_more_tokens_than_are_ever_billed_is_refused(tokens, price):
    with pytest.raises(InvalidArgumentError, match="tokens; pass one of up to"):
        simulate([row("ab", marks="b", tokens=tokens)], price=price)


def test_a_minimum_or_a_step_beyond_any_prompt_keeps_nothing():
    assert simulate([row("a", marks="a")] * 2, price=CLAUDE, minimum_tokens=2**70).total.read == 0
    stepped = replace(GPT, step_tokens=2**70)
    assert simulate([row("a")] * 2, price=stepped, minimum_tokens=0).total.read == 0


def test_a_simulation_is_shown_as_a_table_also_in_a_notebook():
    job = simulate([row("ab", marks="b")] * 2, price=CLAUDE, output_tokens=50)
    assert str(job).splitlines() == [
        "request        read     written    uncached      output           $",
        "      1           0       2,000           0          50      0.0083",
        "      2       2,000           0           0          50      0.0014",
        "    all       2,000       2,000           0         100      0.0096",
        "the cache saves 33% of the input's price",
    ]
    assert job._repr_html_().endswith(f">{str(job).replace(chr(39), '&#x27;')}</pre>")


def test_nothing_sent_costs_nothing():
    empty = simulate([], price=CLAUDE)
    assert (empty.cost, empty.saved, empty.hit_rate) == (0, 0.0, 0.0)
    assert simulate([[]], price=CLAUDE).total == Usage()


letters = st.text("abcd", max_size=8)


@st.composite
def jobs(draw):
    prompts = [
        [seg(letter, 700 + 9 * ord(letter)) for letter in draw(letters)]
        for _ in range(draw(st.integers(1, 6)))
    ]
    marked = []
    for prompt in prompts:
        places = draw(st.sets(st.integers(0, max(len(prompt) - 1, 0)), max_size=4))
        marked.append(
            [part._replace(breakpoint=place in places) for place, part in enumerate(prompt)]
        )
    gaps = draw(st.lists(st.sampled_from([0, 299, 301]), min_size=len(marked) - 1, max_size=5))
    return marked, gaps[: len(marked) - 1]


def slowly(prompts, gaps, minimum=1_024, *, is_implicit=False):
    """The slow reference: its entries are the whole texts of prefixes. An implicit mark is at the
    end, and has no limit of blocks before it."""
    kept: dict[str, float] = {}
    now, rows = 0.0, []
    for prompt, gap in zip(prompts, [0, *gaps], strict=False):
        now += gap
        kept = {text: seen for text, seen in kept.items() if now - seen <= 300}
        text = "".join(part.digest for part in prompt)
        size = [sum(part.tokens for part in prompt[:end]) for end in range(len(prompt) + 1)]
        marks = [n for n, part in enumerate(prompt, 1) if part.breakpoint and size[n] >= minimum]
        if is_implicit:
            marks = [len(prompt)] if size[-1] >= minimum else []
        seen = [
            end
            for mark in marks
            for end in range(1 if is_implicit else max(mark - 19, 1), mark + 1)
            if text[:end] in kept
        ]
        read, last = max(seen, default=0), max(marks, default=0)
        for end in {*marks, read} - {0}:
            kept[text[:end]] = now
        rows.append((size[read], size[last] - size[read] if last else 0, size[-1] - size[last]))
    return rows


@given(jobs())
def test_the_bill_is_that_of_the_slow_and_obvious_cache(job):
    prompts, gaps = job
    assert bill(*prompts, gaps=gaps) == slowly(prompts, gaps)
    assert bill(*prompts, gaps=gaps, price=GPT_56) == slowly(prompts, gaps, is_implicit=True)


@given(jobs(), st.sampled_from([CLAUDE, GPT, GPT_56]))
def test_every_token_is_billed_exactly_once(job, price):
    prompts, gaps = job
    done = simulate(prompts, price=price, gaps=gaps)
    for prompt, turn in zip(prompts, done.turns, strict=True):
        assert turn.input == sum(part.tokens for part in prompt)
        assert min(turn) >= 0
    assert done.cost == pytest.approx(cost(done.total, price))


def test_a_summary_and_its_request_are_each_long_or_not():
    price = Price(1, 1, long_tokens=100_000, long_input=5, long_output=5)
    prompts = [row("abcdef"[: n + 1], marks="abcdef"[n], tokens=30_000) for n in range(6)]
    bills = simulate(
        prompts, price=price, minimum_tokens=1_024, policy=ProviderPolicy(compact_at=110_000)
    )
    summaries = [each for each in bills.billed if each.output]
    assert len(summaries) == 1
    output = 5 * summaries[0].output / 1e6
    assert bills.input_cost == pytest.approx(bills.cost - output)
    assert Usage.total(bills.billed) == bills.total
