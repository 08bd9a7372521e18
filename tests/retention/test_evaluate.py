"""Comparison of strategies: cases, scores, intervals, losses and the recommendation."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from rehydrate._native import binding_instructions, instructions_kept
from rehydrate.errors import InvalidArgumentError
from rehydrate.retention import (
    Conversation,
    Evaluation,
    Interval,
    Question,
    Retention,
    Score,
    Strategy,
    evaluate,
    exact_cost,
    keep_last,
    named_strategy,
    read_session,
    read_session_file,
    sample_cases,
    standard_strategies,
)
from rehydrate.retention.evaluation import SUMMARY
from rehydrate.retention.measure import TOO_OLD
from rehydrate.retention.sampling import too_short
from rehydrate.retention.strategies import ANSWERS, USED_LATER, checked
from tests.retention.sessions_made import EXAMPLE, transcript, work

RATIOS = (0.2, 0.5)


def session(seed: int, turns: int = 40) -> Conversation:
    return read_session(work(turns, seed), f"s{seed}")


@cache
def four_sessions() -> Evaluation:
    return evaluate([session(seed) for seed in range(4)], ratios=RATIOS)


def test_every_strategy_has_a_row_at_every_ratio() -> None:
    found = four_sessions()
    assert found.strategies == (
        *("keep last", "trim_messages", "compact_context", "excerpts", "outline"),
    )
    assert [(row.strategy, row.ratio) for row in found.rows] == [
        (name, ratio) for name in found.strategies for ratio in RATIOS
    ]
    assert found.cuts == 4 and found.questions == 0 and found.degraded == ()
    assert all(0 < row.cost_ratio <= row.ratio + 0.05 for row in found.rows)
    assert found.row("compact_context", 0.2).violations == 0
    assert found.row("compact_context", 0.2).last_turn == 1
    assert found.row("keep last", 0.2).last_turn == 0


def test_the_binding_instructions_of_users_are_measured_too() -> None:
    found = four_sessions()
    assert found.row("keep last", 0.5).laid_down == 0
    assert found.row("compact_context", 0.5).laid_down == 1


def test_all_of_it_is_json() -> None:
    values = json.loads(json.dumps(four_sessions().to_dict()))
    assert values["rows"][0]["strategy"] == "keep last"
    assert set(values["rows"][0]["used_later_interval"]) == {"low", "high"}
    assert values["recommendation"]["sessions"] == 4


def test_an_interval_holds_the_mean_and_comes_of_sessions_not_of_cases() -> None:
    scores = [Score(f"c{n}", 0.5, value, 0.5, session=s) for n, (s, value) in enumerate(
        [("a", 0.2), ("a", 0.2), ("a", 0.2), ("b", 0.8)]
    )]  # fmt: skip
    low, high = Retention(tuple(scores)).intervals()[0.5]
    assert low == pytest.approx(0.2) and high == pytest.approx(0.8)
    one = [replace(score, session="a") for score in scores]
    assert Retention(tuple(one)).intervals() == {}
    assert Retention(tuple(scores)).intervals() == Retention(tuple(scores)).intervals()


def test_one_session_has_no_intervals_and_its_advice_says_that_it_is_one() -> None:
    found = evaluate([session(0)], ratios=RATIOS)
    advice = found.recommendation
    assert advice is not None and advice.certainty == "none" and advice.sessions == 1
    assert (advice.interval, advice.held_out, advice.agreement) == (None, None, None)
    assert all(row.used_later_interval is None for row in found.rows)


def of_scores(**kept: dict[float, list[float]]) -> Evaluation:
    """Return an evaluation in which each setting keeps a given share of each of three sessions."""
    names = {"keep_last": None, "whole": (), "parts": (("granularity", "excerpt"),)}
    sessions = [replace(session(n, 40), name=f"s{n}") for n in range(3)]
    sample = sample_cases(sessions, max_cuts=3)
    needed = {cut.session: sorted(cut.needed) for cut in sample.cuts}

    def keeps(name: str) -> Any:
        def compact(messages: list[Any], _query: str | None, ratio: float) -> list[Any]:
            place = next(n for n in range(3) if f"engine_{n}.rs" in json.dumps(messages[0]))
            names = needed[f"s{place}"]
            share = kept.get(name, {}).get(ratio, [0.0] * 3)[place]
            return [{"role": "user", "content": " ".join(names[: round(share * len(names))])}]

        return compact

    strategies = [
        Strategy("keep last" if name == "keep_last" else name, keeps(name), options)
        for name, options in names.items()
    ]
    return evaluate(sample, strategies, RATIOS)


def test_the_smallest_ratio_that_keeps_the_goal_is_recommended_with_the_simpler_setting() -> None:
    found = of_scores(
        whole={0.2: [0.5] * 3, 0.5: [1.0] * 3}, parts={0.2: [0.6] * 3, 0.5: [1.0] * 3}
    )
    advice = found.recommendation
    assert advice is not None
    assert (advice.strategy, advice.ratio, advice.reached) == ("whole", 0.5, True)
    assert advice.code == "compact_context(messages, target_ratio=0.5)"
    assert advice.over_baseline == advice.kept == 1
    assert (advice.agreement, advice.held_out, advice.certainty) == (1, 1, "low")


def test_a_setting_that_keeps_more_wins_and_its_options_are_named() -> None:
    advice = of_scores(
        whole={0.2: [0.5] * 3, 0.5: [1.0] * 3}, parts={0.2: [1.0] * 3, 0.5: [1.0] * 3}
    ).recommendation
    assert advice is not None
    assert (advice.strategy, advice.ratio) == ("parts", 0.2)
    assert advice.code == "compact_context(messages, target_ratio=0.2, granularity='excerpt')"
    assert advice.command == "rehydrate compact FILE --ratio 0.2 --granularity excerpt"


def test_a_session_that_others_do_not_speak_for_shows_where_it_is_left_out() -> None:
    advice = of_scores(whole={0.2: [1.0, 1.0, 0.3], 0.5: [1.0] * 3}).recommendation
    assert advice is not None
    assert (advice.ratio, advice.sessions) == (0.5, 3)
    # Without the third session 0.2 is enough, and the third keeps 0.3 of its names.
    assert advice.agreement == pytest.approx(2 / 3)
    assert advice.held_out_worst == pytest.approx(0.3, abs=0.1)
    assert advice.certainty == "low"


def test_where_nothing_reaches_the_goal_the_largest_ratio_is_named_as_such() -> None:
    advice = of_scores(whole={0.2: [0.1] * 3, 0.5: [0.5] * 3}).recommendation
    assert advice is not None and (advice.ratio, advice.reached) == (0.5, False)


def test_what_was_lost_is_shown_with_its_place_and_the_reason() -> None:
    cuts = sample_cases([session(0)])
    found = evaluate(cuts, [Strategy("keep last", keep_last(), ())], (0.2,))
    loss = found.losses[0]
    assert loss.session == "s0" and loss.role == "tool result" and loss.why == TOO_OLD
    text = json.dumps(work(40)[loss.index])
    assert loss.name in text and loss.name in loss.used_in and loss.used > 0
    assert loss.lost <= loss.needed
    ours = four_sessions()
    assert ours.losses and all(each.why for each in ours.losses)


def test_a_strategy_that_fails_is_left_out_and_named() -> None:
    def fails(messages: list[Any], query: str | None, ratio: float) -> list[Any]:
        raise OSError("no disk")

    cost = exact_cost()
    strategies = [*standard_strategies(cost), Strategy("mine", fails)]
    advanced: list[int] = []
    sample = sample_cases([session(0)])
    found = evaluate(sample, strategies, RATIOS, advance=advanced.append)
    assert "mine" not in found.strategies and found.recommendation is not None
    assert found.degraded == ("mine failed on s0 at 0.70: OSError: no disk",)
    assert sum(advanced) == sample.cases(len(RATIOS)) * len(strategies)


def test_two_strategies_of_one_name_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="give each a name of its own"):
        evaluate([session(0)], [Strategy("a", keep_last()), Strategy("a", keep_last())])


def test_the_agents_own_summary_is_measured_at_its_own_size() -> None:
    found = evaluate([read_session(transcript(work(40), summary_at=61))], ratios=RATIOS)
    own, last, *_ = found.summaries
    assert (own.strategy, last.strategy) == (SUMMARY, "keep last")
    assert own.cost_ratio == pytest.approx(own.ratio) == last.ratio
    assert own.used_later is not None and 0 < own.used_later < 0.2  # one of 20 files is in it
    assert [row.strategy for row in found.summaries[1:]] == list(found.strategies)


def test_a_second_summary_is_of_the_first_and_of_what_came_since() -> None:
    early = transcript(work(40), summary_at=21)
    late = transcript(work(40), summary_at=61)
    both = [*early[: 1 + 21 + 2], *late[1 + 21 :]]
    sample = sample_cases([read_session(both)])
    first, second = sample.summaries
    assert len(first.cut.messages) == 21
    assert second.cut.messages[0] == first.summary and len(second.cut.messages) == 41


def test_questions_are_asked_where_a_session_has_them() -> None:
    turns = [{"role": "user", "content": f"Word number {n} is w{n}x{n}."} for n in range(60)]
    chat = Conversation("c", turns, questions=tuple(
        Question(f"Which is word number {n}?", (n,)) for n in range(0, 50, 5)
    ))  # fmt: skip
    found = evaluate([chat], ratios=(0.2,))
    assert (found.cuts, found.questions) == (0, 10)
    assert found.row("keep last", 0.2).answers == 0
    ours = found.row("compact_context", 0.2)
    assert ours.answers is not None and ours.answers > 0.8 and ours.used_later is None


def test_cuts_and_questions_both_have_to_reach_the_goal() -> None:
    turns = [{"role": "user", "content": f"Word number {n} is w{n}x{n}."} for n in range(60)]
    questions = tuple(Question(f"Which is word number {n}?", (n,)) for n in range(0, 50, 5))
    chats = [Conversation(name, turns, questions=questions) for name in ("a", "b")]
    alone = evaluate(chats, ratios=(0.2, 0.5)).recommendation
    both = evaluate([*chats, session(0), session(1)], ratios=(0.2, 0.5)).recommendation
    assert alone is not None and both is not None
    assert (alone.basis, alone.ratio) == (ANSWERS, 0.2)
    assert (both.basis, both.ratio) == (USED_LATER, 0.5)
    assert "of what answers the questions" in alone.sentences()[0]


def test_a_goal_out_of_reach_is_never_sure() -> None:
    sessions = [session(seed) for seed in range(6)]
    advice = evaluate(sessions, ratios=(0.1,), goal=1.0).recommendation
    assert advice is not None and not advice.reached and advice.certainty == "low"
    assert "no larger ratio was measured" in " ".join(advice.sentences())


def test_a_chat_without_calls_and_questions_is_measured_by_what_is_said_again() -> None:
    turns = [
        {"role": ("user", "assistant")[n % 2], "content": f"Berth B-{n % 20} costs {n % 20}00 euro"}
        for n in range(60)
    ]
    sample = sample_cases([read_session(turns)])
    (cut,) = sample.cuts
    assert "B-15" in cut.needed
    assert sample.notes == (
        "1 session without tool calls: measured by the names that later messages mention",
    )


def test_what_was_sampled_of_how_much_is_said_and_is_the_same_again() -> None:
    sessions = [session(seed, turns=101) for seed in range(4)]
    sample = sample_cases(sessions, max_cuts=6)
    assert [len({cut.session for cut in sample.cuts}), len(sample.cuts)] == [4, 6]
    assert sample.notes == ("6 of 20 cuts, evenly over 4 sessions",)
    again = sample_cases(sessions, max_cuts=6)
    assert [cut.name for cut in again.cuts] == [cut.name for cut in sample.cuts]
    assert len(sample_cases(sessions).cuts) == 20


def test_sessions_in_which_nothing_is_used_again_are_counted() -> None:
    turns = [{"role": "user", "content": "Hello there."}] * 30
    sample = sample_cases([read_session(turns)])
    assert sample.cuts == () and "1 session not measured" in sample.notes[0]
    assert evaluate(sample).recommendation is None and evaluate(sample).rows == ()


def test_a_session_is_too_short_by_its_messages_not_by_its_lines() -> None:
    assert too_short(20)(read_session(work(4))) == "fewer than 20 messages"
    assert too_short(9)(read_session(work(4))) == ""


def test_the_example_session_is_measured_whole() -> None:
    found = evaluate(read_session_file(EXAMPLE), ratios=(0.2,))
    assert found.cuts == 5 and found.sessions[0].messages > 150
    ours, last = found.row("compact_context", 0.2), found.row("keep last", 0.2)
    assert ours.used_later is not None and last.used_later is not None
    assert ours.used_later > last.used_later and ours.violations == 0
    assert ours.laid_down == 1 and ours.last_turn == 1


def test_rules_are_distinguished_from_talk() -> None:
    text = (
        "House rules:\n- Never touch src/embed.\nI don't know why. They never stop. "
        "Prefer small commits. The budget is $500. That must have been hard! Must I? "
        "```\nnever in code, please\n```\nNiemals ohne Freigabe deployen."
    )
    assert binding_instructions([{"role": "user", "content": text}]) == (
        "- Never touch src/embed.",
        "Prefer small commits.",
        "The budget is $500.",
        "Niemals ohne Freigabe deployen.",
    )
    assert binding_instructions([{"role": "assistant", "content": text}]) == ()
    assert binding_instructions([{"role": "user", "content": text, "isMeta": True}]) == ()


def test_a_rule_counts_as_kept_to_the_letter_or_in_other_words_of_one_line() -> None:
    rules = ["Never touch src/embed.", "The budget is $500."]
    one_of_two = "So: never touch  src/embed."
    assert instructions_kept(rules, [{"role": "user", "content": one_of_two}]) == 0.5
    reworded = "- do not touch src/embed (never)\n- budget: the cap is $500"
    assert instructions_kept(rules, [{"role": "user", "content": reworded}]) == 1
    one_word_lines = "never\ntouch\nsrc/embed\nbudget"
    assert instructions_kept(rules, [{"role": "user", "content": one_word_lines}]) == 0
    assert instructions_kept([], []) is None


def test_copies_of_messages_are_known_for_what_they_are() -> None:
    messages = work(3)

    def copies(given: list[Any], query: str | None, ratio: float) -> list[Any]:
        return [
            {"role": "user", "content": "A summary."},
            json.loads(json.dumps(given[2])),
            given[4],
        ]

    kept: Any = checked(copies, "mine")(messages, None, 0.5)
    assert kept.indices == (2, 4) and len(kept) == 3


@pytest.mark.parametrize(
    ("returned", "problem"),
    [("text", "returned a str; return a list"), ([3], "returned a int as message 0")],
)
def test_what_a_callers_function_may_not_return_is_named(returned: Any, problem: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"mine {problem}"):
        checked(lambda *_: returned, "mine")([], None, 0.5)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("json", "write it as module:function"),
        ("no_such_module_here:f", "No module named"),
        ("json:nothing", "has no attribute 'nothing'"),
        ("json:decoder", "is of type module"),
    ],
)
def test_a_strategy_that_cannot_be_had_is_named(name: str, problem: str) -> None:
    with pytest.raises(InvalidArgumentError, match=problem):
        named_strategy(name)


def test_a_strategy_may_be_of_any_file_and_of_a_class(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    code = "class Mine:\n    last = staticmethod(lambda messages, query, ratio: messages[-1:])\n"
    Path("keep-the-last.py").write_text(code)
    said = [{"role": "user", "content": word} for word in ("tide", "berth")]
    kept = named_strategy("keep-the-last:Mine.last").compact(said, None, 0.5)
    assert list(kept) == said[1:]


def test_a_mean_is_within_its_interval() -> None:
    row = four_sessions().row("compact_context", 0.5)
    assert isinstance(row.used_later_interval, Interval) and row.used_later is not None
    assert row.used_later_interval.low <= row.used_later <= row.used_later_interval.high


def test_an_outline_is_compared_and_never_recommended():
    found = four_sessions()
    for ratio in RATIOS:
        assert found.row("outline", ratio).used_later is not None
        assert found.row("outline", ratio).violations == 0
    assert found.recommendation is not None
    assert found.recommendation.strategy != "outline"


def test_sessions_of_one_name_are_measured_apart():
    named = [read_session(work(40, seed), f"s{seed}") for seed in range(2)]
    unnamed = [read_session(each.messages) for each in named]
    apart, together = (evaluate(each, ratios=RATIOS) for each in (named, unnamed))
    assert [session.name for session in together.sessions] == ["session", "session (2)"]
    assert [session.cases for session in together.sessions] == [
        session.cases for session in apart.sessions
    ]
    assert together.recommendation is not None
    assert together.recommendation.sessions == 2
    kept = [found.row("keep last", 0.2) for found in (apart, together)]
    assert kept[0].used_later_interval == kept[1].used_later_interval is not None


def test_no_number_makes_two_names_one():
    names = ["a", "a", "a (2)", "a"]
    sample = sample_cases([Conversation(name, []) for name in names])
    assert [each.name for each in sample.conversations] == ["a", "a (2)", "a (2) (2)", "a (3)"]


@pytest.mark.parametrize(
    "wrong",
    [
        *[{"ratios": ratios} for ratios in ((), (0,), (1.5,), (float("nan"),), ("0.2",), 0.2)],
        *[{"goal": goal} for goal in (0, 2, "0.9", None)],
    ],
)
def test_ratios_and_goal_are_shares(wrong: dict[str, Any]):
    with pytest.raises(InvalidArgumentError, match=next(iter(wrong))):
        evaluate([Conversation("chat", [])], **wrong)
