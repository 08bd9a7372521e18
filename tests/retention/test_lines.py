"""Lines typed again: which they are, what keeps them, and at which size strategies are compared."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rehydrate import compact_context
from rehydrate.retention import (
    Conversation,
    Cut,
    Kept,
    Retention,
    Score,
    Strategy,
    compacted,
    cut_sessions,
    evaluate,
    exact_cost,
    keep_last,
    lines_in,
    measure_cuts,
    oracle,
    read_session,
    sample_cases,
    steps,
)
from rehydrate.retention.measure import mean_by_session
from tests.retention.sessions_made import work

OLD = "    return  sum(rows.values())"
CODE = [
    "def total(rows: dict[str, int]) -> int:",
    OLD,
    "    # the header counts once",
    "}",
]


def read(n: int, text: str) -> list[dict[str, Any]]:
    call = {"type": "tool_use", "id": f"r{n}", "name": "read", "input": {"path": f"src/a_{n}.py"}}
    result = {"type": "tool_result", "tool_use_id": f"r{n}", "content": text}
    return [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]


def edit(old: str, new: str = "pass") -> list[dict[str, Any]]:
    given = {"path": "src/a_0.py", "old": old, "new": new}
    call = {"type": "tool_use", "id": "e", "name": "edit", "input": given}
    result = {"type": "tool_result", "tool_use_id": "e", "content": "ok"}
    return [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]


def edited(text: str, old: str) -> Cut:
    """Return the cut before the edit of a session that read a text and some others."""
    begun = {"role": "user", "content": "Mend src/a_0.py, please: it counts the header twice."}
    messages = [begun, *read(0, text), *read(1, "nothing here\n" * 9), *edit(old)]
    (cut,) = cut_sessions([Conversation("s", messages, "anthropic")], (0.8,))
    assert len(cut.messages) == 5
    return cut


def test_a_line_is_typed_again_whatever_its_white_space() -> None:
    numbered = "\n".join(f"{n}\t{line}" for n, line in enumerate(CODE, 1))
    cut = edited(numbered, "\n".join(line.replace("    ", "\t") for line in CODE))
    assert cut.lines == {
        "def total(rows: dict[str, int]) -> int:",
        "return sum(rows.values())",
        "# the header counts once",
    }


def test_a_line_is_lost_with_the_result_that_had_it() -> None:
    cut = edited("\n".join(CODE), "\n".join(CODE))

    def kept(*indices: int) -> float | None:
        def compact(messages: list[Any], _query: str | None, _ratio: float) -> list[Any]:
            return [messages[i] for i in indices]

        return measure_cuts([cut], compact, (0.5,)).scores[0].lines

    assert kept(0, 1, 2) == 1.0
    assert kept(0, 3, 4) == 0.0
    half = {"role": "user", "content": f"def total(rows:  dict[str, int]) -> int:\n{OLD.strip()}"}
    assert cut.quoted([half]) == set(sorted(cut.lines)[1:])


def test_only_tool_calls_and_results_say_what_is_typed_again() -> None:
    said = {"role": "user", "content": "\n".join(CODE)}
    messages = [said, *read(0, "nothing here\n" * 9), *edit("\n".join(CODE))]
    (cut,) = cut_sessions([Conversation("s", messages, "anthropic")], (0.7,))
    assert cut.needed and cut.lines == frozenset()


def test_in_a_session_without_calls_the_assistant_types_and_any_message_was_earlier() -> None:
    code = "\n".join(CODE)
    asked = "Change this in src/a.py:\n" + code
    chat = [
        {"role": "user", "content": asked},
        {"role": "assistant", "content": "I look at src/a.py."},
        {"role": "user", "content": "Well?\nthis line is never typed by the model"},
        {"role": "assistant", "content": "In src/a.py:\n" + code},
        {"role": "user", "content": "this line is never typed by the model"},
    ]
    (cut,) = cut_sessions([Conversation("s", chat)], (0.6,))
    assert cut.lines == lines_in(code)


def test_lines_within_the_strings_of_json_are_found() -> None:
    cut = edited(json.dumps({"output": "\n".join(CODE), "code": 0}), "\n".join(CODE))
    assert len(cut.lines) == 3
    assert cut.quoted(cut.messages) == cut.lines


def test_fewer_than_three_lines_are_no_measure() -> None:
    cut = edited("\n".join(CODE), "\n".join(CODE[1:]))
    assert cut.lines == frozenset()
    assert measure_cuts([cut], lambda messages, *_: messages, (0.5,)).scores[0].lines is None


def test_the_marks_of_an_excerpt_count_for_nothing() -> None:
    mark = "[... 42 lines omitted, 118-159, mem_3f7a ...]"
    text = f"{mark}\nsee 118-159 in the log\nthe port is eighty-eighty\nand the host is local"
    cut = Cut("c", [], frozenset({"118-159", "mem_3f7a"}), lines=lines_in(text) | {mark})
    assert cut.mentioned([{"role": "user", "content": mark}]) == frozenset()
    assert cut.quoted([{"role": "user", "content": f"a\n{mark}\nb"}]) == frozenset()
    assert cut.mentioned([{"role": "user", "content": text}]) == {"118-159"}
    assert edited("\n".join([*CODE, mark]), "\n".join([*CODE, mark])).lines == lines_in(
        "\n".join(CODE)
    )


def test_marks_that_the_product_writes_are_known() -> None:
    long = "\n".join(f"row {n} of the long table, with some words in it" for n in range(400))
    messages = [{"role": "user", "content": "Read it."}, *read(0, long), *edit("x")]
    kept = compact_context(messages, target_ratio=0.2, granularity="excerpt")
    assert kept.stats.excerpted
    text = json.dumps(kept.messages)
    marks = [part.split(" ...]")[0] for part in text.split("[... ")[1:]]
    cut = Cut("c", messages, frozenset(word for mark in marks for word in mark.split()))
    assert marks and not {"omitted,"} & cut.mentioned(kept.messages)


def test_an_excerpt_is_measured_as_it_is_and_not_as_the_message_that_it_was() -> None:
    cut = edited("\n".join(CODE), "\n".join(CODE))
    part = {**cut.messages[2], "content": [{"type": "text", "text": CODE[0]}]}

    def in_part(messages: list[Any], _query: str | None, _ratio: float) -> list[Any]:
        return Kept([messages[0], part], [0, 2])

    (score,) = measure_cuts([cut], in_part, (0.5,)).scores
    assert score.lines == pytest.approx(1 / 3)


def test_the_oracle_of_lines_keeps_the_lines() -> None:
    cut = edited("\n".join(CODE), "\n".join(CODE))
    cost = exact_cost()
    names = measure_cuts([cut], oracle(cut, cost), (0.6,), cost=cost).scores[0]
    lines = measure_cuts([cut], oracle(cut, cost, "lines"), (0.6,), cost=cost).scores[0]
    assert lines.lines == 1.0 and names.retained == 1.0


def test_means_are_over_the_cuts_of_a_session_and_then_over_the_sessions() -> None:
    scores = [
        Score("a1", 0.5, 1.0, 0.5, session="a", lines=1.0),
        Score("a2", 0.5, 1.0, 0.5, session="a", lines=None),
        Score("a3", 0.5, 1.0, 0.5, session="a", lines=0.0),
        Score("b1", 0.5, 0.0, 0.5, session="b", lines=None),
    ]
    found = Retention(tuple(scores))
    assert found.means() == {0.5: 0.5} and found.means("lines") == {0.5: 0.5}
    assert found.intervals()[0.5] == (0.0, 1.0)
    assert found.intervals("lines") == {}, "one session has lines"
    assert mean_by_session([("a", 1.0), ("a", 1.0), ("b", 0.0)]) == 0.5


def must_stay(share: float) -> Any:
    """Return a stand-in for `compact_context` that keeps so much of the end, whatever is asked."""
    cost = exact_cost()
    last = keep_last(cost)

    def compact(messages: list[Any], query: str | None, ratio: float) -> list[Any]:
        return last(messages, query, max(ratio, share))

    return compact


def test_every_strategy_gets_the_size_that_compact_context_needs() -> None:
    asked: list[float] = []

    def mine(messages: list[Any], _query: str | None, ratio: float) -> list[Any]:
        asked.append(ratio)
        return keep_last(exact_cost())(messages, None, ratio)

    strategies = [
        Strategy("keep last", keep_last(exact_cost())),
        Strategy("whole", must_stay(0.3), ()),
        Strategy("parts", must_stay(0.0), (("granularity", "excerpt"),)),
        Strategy("mine:mine", mine),
    ]
    sample = sample_cases([read_session(work(40, seed), f"s{seed}") for seed in range(2)])
    found = evaluate(sample, strategies, (0.1, 0.5))
    for name in ("keep last", "whole", "parts", "mine:mine"):
        small, large = found.row(name, 0.1), found.row(name, 0.5)
        assert small.asked == found.row("whole", 0.1).cost_ratio > 0.25
        assert small.cost_ratio == pytest.approx(small.asked, abs=0.02)
        assert not small.is_over and small.beside is None
        assert large.asked == 0.5
        assert small.used_later == found.row("whole", 0.1).used_later
    assert min(asked) > 0.25, "a function of one's own is asked for as much, too"


def test_a_strategy_that_keeps_more_is_compared_with_ours_at_that_size() -> None:
    strategies = [
        Strategy("ours", keep_last(exact_cost()), ()),
        Strategy("mine:all", lambda messages, *_: messages),
    ]
    found = evaluate([read_session(work(40))], strategies, (0.1,))
    row = found.row("mine:all", 0.1)
    assert row.is_over and (row.asked, row.cost_ratio, row.beside) == (0.1, 1.0, 1.0)
    assert row.used_later == 1.0
    ours = found.row("ours", 0.1)
    assert not ours.is_over and ours.used_later is not None and ours.used_later < 0.5


def test_a_recommendation_is_of_the_ratio_that_is_asked_and_not_of_more() -> None:
    parts = Strategy("parts", keep_last(exact_cost()), (("granularity", "excerpt"),))
    # It must keep much, which names little that is used later.
    whole = Strategy("whole", lambda messages, *_: [messages[0]] + [messages[2]] * 24, ())
    sample = sample_cases([read_session(work(40))])
    found = evaluate(sample, [whole, parts], (0.5,))
    alone = evaluate(sample, [parts], (0.5,)).row("parts", 0.5)
    advice, row = found.recommendation, found.row("parts", 0.5)
    assert advice is not None and advice.strategy == "parts"
    assert row.cost_ratio > 0.6 and row.used_later is not None
    assert advice.kept == alone.used_later < row.used_later


def test_lines_are_in_the_figures_and_in_the_advice() -> None:
    sample = sample_cases([_edits(seed) for seed in range(2)])
    assert all(len(cut.lines) >= 3 for cut in sample.cuts)
    found = evaluate(sample, ratios=(0.3,))
    assert found.cuts_with_lines == found.cuts == 2
    row = found.row("compact_context", 0.3)
    assert row.lines is not None and row.lines_interval is not None
    assert found.to_dict()["cuts_with_lines"] == 2
    assert {"lines", "lines_interval", "asked"} <= found.to_dict()["rows"][0].keys()
    assert found.recommendation is not None and found.recommendation.lines is not None
    assert "of the lines typed again" in found.recommendation.sentences()[0]


def _edits(seed: int) -> Conversation:
    """Return a session that reads a file early, and edits it at the end."""
    code = "\n".join(CODE)
    messages = work(30, seed)
    return read_session([*messages[:3], *read(0, code), *messages[3:], *edit(code)], f"e{seed}")


def test_responses_items_of_parallel_calls_are_one_step() -> None:
    def call(n: int) -> dict[str, Any]:
        return {"type": "function_call", "call_id": f"c{n}", "name": "run", "arguments": "{}"}

    def output(n: int) -> dict[str, Any]:
        return {"type": "function_call_output", "call_id": f"c{n}", "output": "ok"}

    items: list[dict[str, Any]] = [
        {"type": "message", "role": "user", "content": "go"},
        {"type": "reasoning", "summary": []},
        call(1), call(2), output(1), output(2),
        call(3), output(3),
        call(4),
        {"type": "message", "role": "user", "content": "stop"},
        call(5), output(5),
    ]  # fmt: skip
    assert [list(step) for step in steps(items)] == [
        [0], [1, 2, 3, 4, 5], [6, 7], [8], [9], [10, 11],
    ]  # fmt: skip


def test_ours_and_a_baseline_are_of_one_size_on_a_real_compaction() -> None:
    last = {"role": "user", "content": "Look at all of this again, please. " * 300}
    session = read_session([*work(40), last, *work(40)[1:]], "s")
    found = evaluate(
        [session],
        [
            Strategy("keep last", keep_last(exact_cost())),
            Strategy("compact_context", compacted(thinking="keep"), ()),
        ],
        (0.05,),
    )
    ours, baseline = found.row("compact_context", 0.05), found.row("keep last", 0.05)
    assert ours.cost_ratio > 0.1, "the last user turn alone is more than the ratio"
    assert baseline.asked == ours.asked == ours.cost_ratio
    assert baseline.cost_ratio <= ours.cost_ratio
    assert ours.used_later is not None
