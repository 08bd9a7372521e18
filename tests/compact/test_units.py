"""Units, pins and leaders, on conversations small enough to read."""

from __future__ import annotations

from typing import Any

import pytest

import rehydrate
from rehydrate import compact_context, validate
from rehydrate.formats import parse
from tests.compact.cases import talk, words
from tests.strategies import Entry

LONG = "word " * 60


def call(*ids: str) -> Entry:
    blocks = [{"type": "tool_use", "id": i, "name": "Read", "input": {"path": i}} for i in ids]
    return {"role": "assistant", "content": blocks}


def result(*ids: str, text: str = LONG) -> Entry:
    blocks = [{"type": "tool_result", "tool_use_id": i, "content": text} for i in ids]
    return {"role": "user", "content": blocks}


def reasons(compaction: rehydrate.Compaction) -> dict[int, str]:
    return {index: row.reason for row in compaction.explain() for index in row.messages}


def contents(compaction: rehydrate.Compaction) -> list[str]:
    return [message["content"] for message in compaction.messages]


def test_parallel_calls_are_units_of_their_own_with_their_results():
    messages = [
        *talk("user: read both"),
        call("a", "b"),
        result("a", "b"),
        *talk("assistant: read", "user: thanks"),
    ]
    rows = list(compact_context(messages, budget_tokens=10).explain())
    assert [row.messages for row in rows] == [(0,), (1, 2), (1, 2), (3,), (4,)]
    assert not rows[1].kept and not rows[2].kept
    assert rows[1].role == "tool use"


def test_an_open_tool_loop_is_kept_whole_whatever_it_costs():
    messages = [*talk("user: " + LONG, "user: ok", "user: go"), call("a", "b"), result("a")]
    compaction = compact_context(messages, budget_tokens=1)
    assert compaction.messages == messages[2:]
    assert compaction.stats.over_budget
    assert reasons(compaction)[3] == reasons(compaction)[4] == "open tool loop"


@pytest.mark.parametrize(
    ("thought", "piece"),
    [
        ({"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}, "open tool loop"),
        ({"type": "redacted_thinking", "data": "b3Bh"}, "bound to what the provider holds"),
    ],
)
def test_the_turn_that_a_tool_loop_works_on_is_kept_when_the_user_writes_next_to_a_result(
    thought: Entry, piece: str
):
    beside = {"type": "text", "text": "Reminder: use tabs."}
    messages = [
        *talk("user: " + LONG, "user: Mend the parser."),
        {"role": "assistant", "content": [thought, *call("a")["content"]]},
        result("a"),
        call("b"),
        {"role": "user", "content": [*result("b")["content"], beside]},
    ]
    compaction = compact_context(messages, budget_tokens=1, thinking="keep")
    assert list(compaction.indices) == [1, 2, 3, 4, 5]
    assert reasons(compaction)[1] == "last user turn"
    assert reasons(compaction)[2] == piece


OPTIONS = "Option 1: berth 4 at noon. Option 2: berth 7 at dusk."


def test_the_reply_that_the_user_answers_is_kept_where_it_takes_little_of_the_budget():
    names = [f"user: src/box_{n}.py has part_{n}, run_{n} and row_{n}." for n in range(99)]
    messages = talk(
        *(*names, "user: Which berths?", f"assistant: {OPTIONS}"),
        *("tool: noted", "user: Thanks.", "user: Yes, do the second option, please."),
    )
    compaction = compact_context(messages, budget_tokens=600)
    assert OPTIONS in contents(compaction)
    assert reasons(compaction)[100] == "reply that the user answers"
    assert OPTIONS not in contents(compact_context(messages, budget_tokens=100))


def test_of_a_long_reply_the_end_is_kept_in_an_excerpt():
    names = [f"user: src/box_{n}.py has part_{n}, run_{n} and row_{n}." for n in range(99)]
    reply = "\n".join(f"Berth {n} is free at noon, and at dusk as well." for n in range(40))
    messages = talk(*names, f"assistant: {reply}\nWhich one?", "user: Yes, the second.")
    compaction = compact_context(messages, budget_tokens=600, granularity="excerpt")
    assert contents(compaction)[-2].endswith("Which one?")
    assert len(contents(compaction)[-2]) < len(reply) / 2


def test_the_reply_is_what_was_said_last_and_stays_while_its_answer_is_worked_on():
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
    messages = [
        *talk("user: " + LONG, "assistant: " + LONG),
        *talk("user: Which berths?", f"assistant: {OPTIONS}"),
        {"role": "assistant", "content": [thought]},
        *talk("user: Yes, the second."),
        *(call("a"), result("a"), *talk("assistant: Booked. " + LONG), call("b"), result("b")),
    ]
    budget = 20 * rehydrate.count_tokens(OPTIONS)
    names = talk(*[f"user: src/box_{n}.py has part_{n}, run_{n} and row_{n}." for n in range(99)])
    compaction = compact_context([*names, *messages], budget_tokens=budget)
    assert messages[3] in compaction.messages
    assert messages[8] not in compaction.messages


@pytest.mark.parametrize("profile", ["chitta", rehydrate.Scoring(signals="raw")])
def test_the_reference_formula_goes_by_scores_alone_for_the_reply(profile: Any):
    messages = talk("user: one", f"assistant: {OPTIONS}", "user: two")
    assert contents(compact_context(messages, budget_tokens=1, scoring=profile)) == ["two"]


def test_system_messages_anywhere_are_kept_and_charged_first():
    messages = talk("system: " + LONG, "user: one", "assistant: two", "system: three", "user: four")
    compaction = compact_context(messages, budget_tokens=70, counter=words)
    assert contents(compaction)[0] == LONG
    assert "three" in contents(compaction)
    assert compaction.stats.pinned_tokens == 62
    assert compaction.stats.after_tokens <= 70


def test_a_developer_message_is_a_system_message():
    messages = talk("developer: " + LONG, "user: one", "user: two", "user: three")
    compaction = compact_context(messages, budget_tokens=0)
    assert contents(compaction) == [LONG, "three"]
    assert reasons(compaction)[0] == "system"


def test_pinned_units_alone_may_exceed_the_budget_and_then_nothing_else_is_kept():
    messages = talk("user: a b c", "assistant: d", "user: e", "user: f", "user: g h i j")
    compaction = compact_context(messages, budget_tokens=3, counter=words)
    assert contents(compaction) == ["g h i j"]
    assert compaction.stats.over_budget
    assert compaction.stats.pinned_tokens == compaction.stats.after_tokens == 4


def test_nothing_else_is_kept_either_when_only_the_leader_of_a_pin_exceeds_the_budget():
    messages = talk("user: " + LONG, "assistant: pinned words", "user: tiny", "user: last")
    compaction = compact_context(messages, pin=[1], budget_tokens=6, counter=words)
    assert contents(compaction) == [LONG, "pinned words", "last"]
    assert compaction.stats.over_budget
    assert reasons(compaction)[0] == "a user turn must come first"


def test_the_user_turn_before_the_first_survivor_is_pulled_in():
    messages = talk(
        "user: hello there", "assistant: needle", "user: two two", "assistant: three", "user: four"
    )
    # The newer "two two" scores higher, and gives way.
    compaction = compact_context(
        messages, pin=[1], budget_tokens=4, counter=words, scoring="chitta"
    )
    assert contents(compaction) == ["hello there", "needle", "four"]
    assert reasons(compaction)[0] == "a user turn must come first"
    assert not compaction.stats.over_budget


def test_a_conversation_that_did_not_begin_with_the_user_need_not_end_up_so():
    messages = talk("assistant: welcome", "user: " + LONG, "assistant: yes", "user: bye")
    compaction = compact_context(messages, pin=[2], budget_tokens=2, counter=words)
    assert contents(compaction) == ["yes", "bye"]


@pytest.mark.parametrize("pin", [[1], [-4], (1,), {1}])
def test_a_pin_is_an_index_from_either_end(pin: object):
    messages = talk("user: one", "assistant: two", "user: 3", "assistant: four", "user: five")
    compaction = compact_context(messages, pin=pin, budget_tokens=0)
    assert reasons(compaction)[1] == "pinned by the caller"
    assert contents(compaction) == ["one", "two", "five"]


def test_a_pin_may_be_the_very_message():
    messages = talk("user: same", "user: same", "user: last")
    compaction = compact_context(messages, pin=[messages[1]], budget_tokens=0)
    assert [message is messages[1] for message in compaction.messages] == [True, False]


def test_a_pin_on_a_result_keeps_its_call():
    end = talk("assistant: k", "user: on", "assistant: done", "user: bye")
    messages = [*talk("user: go"), call("a"), result("a"), *end]
    compaction = compact_context(messages, pin=[2], budget_tokens=0)
    assert compaction.messages == [*messages[:3], messages[6]]
    assert validate(compaction.messages, "anthropic") == []


def test_a_pin_on_an_entry_that_no_model_sees_pins_nothing():
    content = {"role": "user", "content": LONG}
    lines = [
        {"type": "user", "uuid": "1", "message": content},
        {"type": "progress", "uuid": "2"},
        {"type": "user", "uuid": "3", "message": {"role": "user", "content": "bye"}},
    ]
    compaction = compact_context(lines, pin=[1], budget_tokens=2)
    assert compaction.messages == [lines[2]]
    assert compaction.stats.ignored == 1


def test_any_sequence_and_any_mapping_will_do():
    from collections import UserDict, deque

    messages = deque(UserDict(message) for message in talk("user: one", "assistant: two"))
    compaction = compact_context(messages, budget_tokens=0)
    assert isinstance(compaction.messages, list)
    assert compaction.messages[0] is messages[0]


def test_the_same_object_twice_is_two_messages():
    again = {"role": "user", "content": "again"}
    assert compact_context([again, again], target_ratio=1.0).messages == [again, again]
    assert len(compact_context([again, again], budget_tokens=1).messages) == 1


@pytest.mark.parametrize("blank", ["", " \n", [{"type": "text", "text": "\n\n"}]])
def test_a_line_that_no_model_gets_to_see_is_no_leader(blank: object):
    def line(role: str, content: object) -> Entry:
        return {
            "type": role,
            "uuid": str(id(content)),
            "message": {"role": role, "content": content},
        }

    lines = [
        *(line("user", "hello there friend"), line("assistant", "first answer")),
        *(line("user", blank), line("assistant", "pinned"), line("user", "bye")),
    ]
    assert validate(lines) == []
    compaction = compact_context(lines, pin=[3], budget_tokens=3, counter=words)
    assert validate(compaction.messages) == []
    assert compaction.messages[0] is lines[0]


def test_the_thoughts_that_began_an_open_tool_loop_stay_with_it() -> None:
    def step(number: int, *, thinks: bool) -> list[dict[str, Any]]:
        thought = {"type": "thinking", "thinking": "Let me see.", "signature": "s"}
        call = {"type": "tool_use", "id": f"toolu_{number}", "name": "ls", "input": {"n": number}}
        listed = {"type": "tool_result", "tool_use_id": call["id"], "content": f"file_{number}" * 9}
        content = [thought, call] if thinks else [call]
        return [{"role": "assistant", "content": content}, {"role": "user", "content": [listed]}]

    messages = [{"role": "user", "content": "Tidy up."}, *step(0, thinks=True)]
    for number in range(1, 40):
        messages += step(number, thinks=False)
    small = compact_context(messages, target_ratio=0.1)
    assert small.messages[:2] == messages[:2]
    assert len(small.messages) < len(messages)
    small = compact_context(
        [*messages, {"role": "assistant", "content": "Done."}], target_ratio=0.1
    )
    assert messages[1] not in small.messages


@pytest.mark.parametrize(
    "thought",
    [
        {"type": "thinking", "thinking": "So it is.", "signature": "c2ln"},
        {"type": "redacted_thinking", "data": "b3Bh"},
    ],
)
@pytest.mark.parametrize("thinking", ["auto", "keep", "strip"])
def test_a_thought_alone_after_results_does_not_answer_them(thought, thinking) -> None:
    call = {"type": "tool_use", "id": "t", "name": "Read", "input": {"path": "a.py"}}
    result = {"type": "tool_result", "tool_use_id": "t", "content": "x = 1\n" * 400}
    entries = [
        {"role": "user", "content": "What does a.py set?"},
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result]},
        {"role": "assistant", "content": [thought]},
    ]
    lines = [
        {"type": each["role"], "uuid": str(n), "message": each} for n, each in enumerate(entries)
    ]
    for given in (entries, lines):
        made = compact_context(given, target_ratio=0.1, thinking=thinking)
        assert made.messages[:3] == given[:3]
        assert parse(given).pins()[1] == "open tool loop"


CODE = {"type": "code_execution_20260120", "tool_id": "srv"}
RUN = {"type": "server_tool_use", "id": "srv", "name": "code_execution", "input": {"code": LONG}}
RAN = {"type": "code_execution_tool_result", "tool_use_id": "srv", "content": {"stdout": LONG}}


def _made_by_code(call_id: str) -> Entry:
    return call(call_id)["content"][0] | {"caller": CODE}


def _messages_of_code() -> list[Any]:
    return [
        *talk("user: Count the ships of both harbours."),
        {"role": "assistant", "content": [RUN, _made_by_code("a")]},
        result("a"),
        {"role": "assistant", "content": [_made_by_code("b")]},
        result("b"),
        {"role": "assistant", "content": [RAN, {"type": "text", "text": "Seven."}]},
        *talk("user: Thanks."),
    ]


def _lines_of_code() -> list[Any]:
    numbered = enumerate(_messages_of_code())
    return [{"type": each["role"], "message": each | {"id": f"m{n}"}} for n, each in numbered]


def _chat_of_code() -> list[Any]:
    """As LiteLLM has it."""

    def calls(*ids: str) -> Entry:
        function = {"name": "count", "arguments": "{}"}
        made = [{"id": each, "type": "function", "function": function} for each in ids]
        by_code = [each if each["id"] == "srv" else each | {"caller": CODE} for each in made]
        return {"role": "assistant", "content": None, "tool_calls": by_code}

    def answer(call_id: str) -> Entry:
        return {"role": "tool", "tool_call_id": call_id, "content": LONG}

    steps = [calls("srv", "a"), answer("a"), calls("b"), answer("b")]
    return [*talk("user: Count the ships."), *steps, *talk("assistant: Seven.", "user: Thanks.")]


def _ai_sdk_of_code() -> list[Any]:
    caller = {"type": CODE["type"], "toolId": "srv"}

    def part(kind: str, call_id: str, **rest: Any) -> Entry:
        return {"type": kind, "toolCallId": call_id, "toolName": "count", **rest}

    def calls(call_id: str, *before: Entry) -> Entry:
        options = {"anthropic": {"caller": caller}}
        made = part("tool-call", call_id, input={}, providerOptions=options)
        return {"role": "assistant", "content": [*before, made]}

    def answer(call_id: str, role: str = "tool") -> Entry:
        output = {"type": "text", "value": LONG}
        return {"role": role, "content": [part("tool-result", call_id, output=output)]}

    run = part("tool-call", "srv", input={"code": LONG}, providerExecuted=True)
    steps = [calls("a", run), answer("a"), calls("b"), answer("b"), answer("srv", "assistant")]
    return [*talk("user: Count the ships."), *steps, *talk("user: Thanks.")]


def _langchain_of_code() -> list[Any]:
    messages = pytest.importorskip("langchain_core.messages")

    def calls(*blocks: Entry) -> Any:
        made = [block for block in blocks if block["type"] == "tool_use"]
        listed = [{"name": b["name"], "args": b["input"], "id": b["id"]} for b in made]
        return messages.AIMessage(content=[*blocks], tool_calls=listed)

    return [
        messages.HumanMessage("Count the ships."),
        calls(RUN, _made_by_code("a")),
        messages.ToolMessage(LONG, tool_call_id="a"),
        calls(_made_by_code("b")),
        messages.ToolMessage(LONG, tool_call_id="b"),
        calls(RAN, {"type": "text", "text": "Seven."}),
        messages.HumanMessage("Thanks."),
    ]


@pytest.mark.parametrize(
    ("made", "last"),
    [
        (_messages_of_code, 5),
        (_lines_of_code, 5),
        (_ai_sdk_of_code, 5),
        (_langchain_of_code, 5),
        (_chat_of_code, 4),
    ],
    ids=["anthropic", "claude_code", "ai_sdk", "langchain", "openai_chat"],
)
def test_the_calls_that_code_makes_are_one_unit_with_it(made: Any, last: int):
    messages = made()
    units = [unit.members for unit in parse(messages).units]
    assert units[:2] == [(0,), tuple(range(1, last + 1))]
    before = len(validate(messages))
    for ratio in (0.1, 0.3, 0.5, 0.7, 0.9):
        kept = compact_context(messages, target_ratio=ratio)
        assert len(validate(kept.messages)) <= before
        assert set(kept.indices) & set(units[1]) in (set(), set(units[1]))
