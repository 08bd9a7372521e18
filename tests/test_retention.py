"""The retention harness: its reader, its needed names, and its measures."""

import json
from pathlib import Path
from typing import Any

import pytest

from rehydrate._native import text_of, tool_inputs
from rehydrate.retention import (
    Conversation,
    Kept,
    Question,
    cut_sessions,
    keep_last,
    keep_random,
    measure_cuts,
    measure_questions,
    names_in,
    oracle,
    read_claude_code,
    read_locomo,
    read_tau_bench,
    steps,
)


def one_token(message: Any) -> int:
    return 1


def call(id: str, **arguments: Any) -> dict[str, Any]:
    function = {"name": "look_up", "arguments": json.dumps(arguments)}
    return {"role": "assistant", "content": None, "tool_calls": [{"id": id, "function": function}]}


def result(id: str, text: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id, "content": text}


def support_session() -> list[dict[str, Any]]:
    """Return four steps that mention orders, then one that uses two of them."""
    return [
        {"role": "user", "content": "My order is A100X."},
        call("1", order="A100X"),
        result("1", "A100X was split into B200Y and C300Z."),
        {"role": "assistant", "content": "It was split."},
        {"role": "user", "content": "Send the second one back."},
        call("2", order="B200Y", reason="return", note="for A100X, not D400W"),
        result("2", "ok"),
    ]


def test_names_are_paths_identifiers_and_ids_but_not_words() -> None:
    text = "Open ./src/app.py, see parse_row() and userName; order HAT017 of 2024-05-20. Then stop."
    assert names_in(text) == {"./src/app.py", "parse_row", "userName", "HAT017", "2024-05-20"}


def test_names_end_before_the_full_stop_of_a_sentence() -> None:
    assert names_in("It is in lib/rows.ex.") == {"lib/rows.ex"}


def test_a_step_holds_a_call_with_all_its_results() -> None:
    parallel: list[dict[str, Any]] = [
        call("1"),
        result("1", "a"),
        result("2", "b"),
        {"role": "user", "content": "c"},
    ]
    assert steps(parallel) == [range(3), range(3, 4)]


def test_a_step_holds_the_entries_that_a_transcript_split_one_message_into() -> None:
    def entry(role: str, id: str | None, block: dict[str, Any]) -> dict[str, Any]:
        return {"type": role, "message": {"role": role, "id": id, "content": [block]}}

    entries = [
        entry("assistant", "m1", {"type": "tool_use", "id": "t1", "name": "Read", "input": {}}),
        entry("user", None, {"type": "tool_result", "tool_use_id": "t1", "content": "x"}),
        entry("assistant", "m1", {"type": "tool_use", "id": "t2", "name": "Read", "input": {}}),
        entry("user", None, {"type": "tool_result", "tool_use_id": "t2", "content": "y"}),
        entry("assistant", "m2", {"type": "text", "text": "Done."}),
    ]
    assert steps(entries) == [range(4), range(4, 5)]


def test_text_includes_calls_and_results_in_every_format_but_no_thinking() -> None:
    blocks = [
        {"type": "thinking", "thinking": "hidden", "signature": "s"},
        {"type": "text", "text": "said"},
        {"type": "tool_use", "id": "t", "name": "Read", "input": {"file_path": "a/b.py", "n": 3}},
        {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "got"}]},
        {"type": "image", "source": {"type": "base64", "data": "QUJD"}},
    ]
    assert text_of({"role": "assistant", "content": blocks}).split("\n") == [
        "said", "Read", "a/b.py", "3", "got",
    ]  # fmt: skip
    assert text_of(call("1", order="A100X")) == "look_up\nA100X"
    responses_call = {"type": "function_call", "name": "run", "arguments": '{"cmd": "ls"}'}
    assert text_of(responses_call) == "run\nls"
    assert text_of({"type": "function_call_output", "output": "a.txt"}) == "a.txt"


def test_tool_inputs_are_values_without_the_names_of_parameters() -> None:
    assert tool_inputs(call("1", order_id="A100X", nights=[2, True])) == "A100X\n2"


def test_arguments_that_are_no_json_are_read_as_text() -> None:
    broken = {"role": "assistant", "tool_calls": [{"function": {"arguments": '{"a": "b_c'}}]}
    assert tool_inputs(broken) == '{"a": "b_c'


def test_a_cut_needs_the_names_used_after_it_that_were_mentioned_before_it() -> None:
    (cut,) = cut_sessions([Conversation("s", support_session(), "openai_chat")], (0.8,))
    assert cut.messages == support_session()[:5]
    assert cut.needed == {"A100X", "B200Y"}
    assert cut.format == "openai_chat"


def test_a_cut_never_parts_a_call_from_its_result() -> None:
    for fraction in (0.1, 0.3, 0.5, 0.7, 0.9):
        for cut in cut_sessions([Conversation("s", support_session())], (fraction,)):
            assert "tool_calls" not in cut.messages[-1]


def test_sessions_that_are_short_or_use_nothing_again_give_no_cut() -> None:
    chat = Conversation("s", support_session())
    assert cut_sessions([chat], (0.8,), min_messages=8) == []
    assert cut_sessions([chat], (0.8,), min_needed=3) == []


def test_the_horizon_limits_how_far_ahead_is_looked() -> None:
    chat = Conversation("s", support_session())
    assert cut_sessions([chat], (0.5,), horizon_steps=1) == []


def test_keep_last_keeps_the_longest_end_that_fits() -> None:
    messages = support_session()
    kept = keep_last(one_token)(messages, None, 0.6)
    assert kept == messages[3:]
    assert all(any(k is m for m in messages) for k in kept)


def test_baselines_keep_the_system_message_and_pay_for_it() -> None:
    messages = [{"role": "system", "content": "Be brief."}, *support_session()]
    assert keep_last(one_token)(messages, None, 0.25) == [messages[0]]
    assert messages[0] in keep_random(0, one_token)(messages, None, 0.5)


def test_keep_random_is_the_same_every_time_and_differs_by_seed() -> None:
    messages: list[dict[str, Any]] = [{"role": "user", "content": str(i)} for i in range(50)]
    first = keep_random(1, one_token)(messages, None, 0.2)
    assert first == keep_random(1, one_token)(messages, None, 0.2)
    assert first != keep_random(2, one_token)(messages, None, 0.2)
    assert len(first) == 10


def test_the_oracle_keeps_at_least_what_the_others_keep() -> None:
    cuts = cut_sessions([Conversation("s", support_session())], (0.8,))
    limit = measure_cuts(cuts, oracle(cuts[0], one_token), (0.6,), cost=one_token)
    last = measure_cuts(cuts, keep_last(one_token), (0.6,), cost=one_token)
    assert limit.means() == {0.6: 1.0}
    assert last.means() == {0.6: 0.0}


def test_retention_with_a_question_is_the_share_of_its_evidence_that_is_kept() -> None:
    turns: list[dict[str, Any]] = [{"role": "user", "content": "same words"} for _ in range(4)]
    chat = Conversation(
        "chat", turns, questions=(Question("what?", (0, 3)), Question("who?", (3,)))
    )
    measured = measure_questions([chat], keep_last(one_token), (0.5,), cost=one_token)
    assert [score.retained for score in measured.scores] == [0.5, 1.0]
    assert measured.means() == {0.5: 0.75}
    assert measured.cost_ratios() == {0.5: 0.5}


def test_the_compactor_is_given_the_question_and_the_ratio() -> None:
    seen = []

    def compact(messages: Any, query: str | None, ratio: float) -> Any:
        seen.append((query, ratio))
        return messages

    chat = Conversation("c", [{"role": "user", "content": "x"}], questions=(Question("q?", (0,)),))
    measure_questions([chat], compact, (0.4, 0.1))
    measure_cuts(cut_sessions([Conversation("s", support_session())], (0.8,)), compact, (0.2,))
    assert seen == [("q?", 0.4), ("q?", 0.1), (None, 0.2)]


def test_a_compactor_that_breaks_its_budget_is_seen_in_the_cost() -> None:
    cuts = cut_sessions([Conversation("s", support_session())], (0.8,))
    everything = measure_cuts(cuts, lambda messages, query, ratio: messages, (0.1,))
    assert everything.cost_ratios() == {0.1: pytest.approx(1.0)}


def test_locomo_evidence_becomes_indices_of_turns(tmp_path: Path) -> None:
    sample = {
        "sample_id": "conv-1",
        "conversation": {
            "speaker_a": "Ann",
            "speaker_b": "Bob",
            "session_1": [{"speaker": "Ann", "dia_id": "D1:1", "text": "Hi"}],
            "session_2": [{"speaker": "Bob", "dia_id": "D2:1", "text": "I bought a boat"}],
        },
        "qa": [
            {"question": "What did Bob buy?", "evidence": ["D2:1"]},
            {"question": "Both?", "evidence": ["D2:1; D1:1"]},
            {"question": "Nowhere?", "evidence": ["D9:9"]},
            {"question": "Unanswerable?"},
        ],
    }
    path = tmp_path / "locomo.json"
    path.write_text(json.dumps([sample]))
    (chat,) = read_locomo(path)
    assert [(m["role"], m["content"]) for m in chat.messages] == [
        ("user", "Ann: Hi"),
        ("assistant", "Bob: I bought a boat"),
    ]
    assert chat.questions == (Question("What did Bob buy?", (1,)), Question("Both?", (0, 1)))


def test_tau_bench_is_read_without_its_system_prompt(tmp_path: Path) -> None:
    traj = [{"role": "system", "content": "Policy"}, *support_session()]
    path = tmp_path / "airline.json"
    path.write_text(json.dumps([{"task_id": 3, "trial": 0, "traj": traj}]))
    (chat,) = read_tau_bench(path)
    assert chat.messages == support_session()
    assert (chat.name, chat.format) == ("task 3 trial 0", "openai_chat")


def test_a_transcript_is_read_as_its_entries_without_progress_and_summary(tmp_path: Path) -> None:
    entries = [
        {"type": "file-history-snapshot"},
        {"type": "user", "message": {"role": "user", "content": "Fix\u2028it"}},
        {"type": "progress", "data": {}},
        {"type": "user", "isCompactSummary": True, "message": {"role": "user", "content": "..."}},
        {"type": "assistant", "message": {"role": "assistant", "id": "m", "content": "Fixed."}},
    ]
    path = tmp_path / "session.jsonl"
    lines = [json.dumps(entry, ensure_ascii=False) for entry in entries]
    path.write_text("\n".join(lines) + "\n\n", encoding="utf-8")
    session = read_claude_code(path)
    assert session.messages == [entries[1], entries[4]]
    assert (session.name, session.format) == ("session", "claude_code")


def test_a_message_kept_in_part_is_found_by_its_place():
    turns = [{"role": "user", "content": text} for text in ("My dog is Rex.", "Hello.", "Bye.")]
    chat = Conversation("chat", turns, questions=(Question("Who is Rex?", evidence=(0,)),))

    def in_part(messages, _query, _ratio):
        return Kept([{"role": "user", "content": "is Rex."}], [0])

    assert measure_questions([chat], in_part, ratios=(0.4,)).means() == {0.4: 1.0}
    assert measure_questions([chat], lambda *_: [dict(turns[0])], ratios=(0.4,)).means() == {
        0.4: 0.0
    }
