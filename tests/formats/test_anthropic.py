"""Anthropic messages: their reading, their units, and every rule that can be broken."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from rehydrate import compact_context
from rehydrate.formats import parse, validate
from rehydrate.messages import PieceKind
from rehydrate.prompt import History, PromptIR, compile
from tests.strategies import opens_with_user


def user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def text(value: str, **rest: Any) -> dict[str, Any]:
    return {"type": "text", "text": value, **rest}


def call(call_id: str, **value: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": "Read", "input": value}


def result(call_id: str, content: Any = "done") -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content}


def members(*entries: dict[str, Any]) -> list[tuple[int, ...]]:
    return [unit.members for unit in parse(list(entries), "anthropic").units]


def broken(*entries: dict[str, Any]) -> list[tuple[int, str]]:
    found = validate(list(entries), "anthropic")
    return [(violation.index, violation.rule) for violation in found]


HELLO = user(text("hello"))
CACHE = {"cache_control": {"type": "ephemeral"}}
SYSTEM = {"role": "system", "content": "Answer in French from here on."}
YES = assistant(text("Yes."))
SERVER = [
    {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}},
    {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": []},
]


def test_each_block_becomes_pieces_of_its_kind():
    thought = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
    hidden = {"type": "redacted_thinking", "data": "b3BhcXVl"}
    entries = [
        HELLO,
        assistant(thought, hidden, text("I look."), call("a", path="é.py")),
        user(result("a", [text("line 1"), {"type": "image", "source": {}}]), text("and?")),
    ]
    first, second, third = parse(entries, "anthropic").messages
    assert first.pieces == (("hello", PieceKind.TEXT),)
    assert second.pieces == (
        ("hm", PieceKind.THINKING),
        ("I look.", PieceKind.TEXT),
        ('Read {"path":"é.py"}', PieceKind.TOOL_INPUT),
    )
    assert second.calls == ("a",)
    assert third.pieces == (("line 1", PieceKind.TOOL_RESULT), ("and?", PieceKind.TEXT))
    assert (third.answers, third.images, third.role) == (("a",), 1, "user")


def test_a_user_message_of_results_only_has_the_role_tool():
    conversation = parse([HELLO, assistant(call("a")), user(result("a"))], "anthropic")
    assert [message.role for message in conversation.messages] == ["user", "assistant", "tool"]
    assert conversation.pins() == {0: "last user turn", 1: "open tool loop"}


def test_base64_is_counted_as_an_image_and_never_as_text():
    source = {"type": "base64", "media_type": "application/pdf", "data": "QUJD" * 1000}
    pdf = {"type": "document", "title": "Invoice", "source": source}
    unknown = {"type": "hologram", "data": "QUJD", "caption": "a ship"}
    note = {"type": "document", "source": {"type": "text", "data": "plain text"}}
    (message,) = parse([user({"type": "image", "source": source}, pdf, unknown, note)]).messages
    assert message.images == 2
    assert [piece.text for piece in message.pieces] == ["Invoice", "a ship", "plain text"]


def test_parallel_calls_and_their_results_are_one_unit():
    assert members(
        HELLO, assistant(call("a"), call("b")), user(result("b"), result("a"), text("go on"))
    ) == [(0,), (1, 2)]


def test_a_call_followed_by_a_second_assistant_message_still_meets_its_result():
    entries = [HELLO, assistant(call("a")), assistant(text("…")), user(result("a"))]
    assert members(*entries) == [(0,), (1, 3), (2,)]
    assert broken(*entries) == []


def test_a_thought_that_ends_its_message_stays_with_the_next():
    thought = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
    assert members(HELLO, assistant(thought), assistant(text("so"))) == [(0,), (1, 2)]


def test_a_server_tool_that_pauses_stays_with_its_result():
    searches = {"type": "server_tool_use", "id": "srv", "name": "web_search", "input": {}}
    found = {"type": "web_search_tool_result", "tool_use_id": "srv", "content": []}
    entries = [HELLO, assistant(searches), assistant(found, text("found it"))]
    assert members(*entries) == [(0,), (1, 2)]
    assert broken(*entries) == []
    assert parse(entries, "anthropic").pins() == {0: "last user turn"}
    assert broken(HELLO, assistant(found)) == [(1, "server_result_without_call")]


def test_a_second_result_of_a_servers_call_is_found():
    searches = {"type": "server_tool_use", "id": "srv", "name": "web_search", "input": {}}
    found = {"type": "web_search_tool_result", "tool_use_id": "srv", "content": []}
    entries = [HELLO, assistant(searches, found, text("so")), HELLO, assistant(found, text("so"))]
    assert broken(*entries) == [(3, "duplicate_result")]


def test_code_that_calls_a_client_tool_is_one_unit_from_start_to_result():
    runs = {"type": "server_tool_use", "id": "srv", "name": "code_execution", "input": {}}
    ran = {"type": "code_execution_tool_result", "tool_use_id": "srv", "content": {"stdout": "7"}}
    entries = [HELLO, assistant(runs, call("a")), user(result("a")), assistant(ran, text("7"))]
    assert members(*entries) == [(0,), (1, 2, 3)]
    assert broken(*entries) == []
    again = call("b") | {"caller": {"type": "code_execution_20260120", "tool_id": "srv"}}
    steps = [*entries[:3], assistant(again), user(result("b")), entries[3]]
    assert members(*steps) == [(0,), (1, 2, 3, 4, 5)]
    assert parse(steps[:5], "anthropic").pins()[1] == "open tool loop"
    assert parse([*steps, HELLO], "anthropic").pins() == {2: "last user turn"}


def test_compaction_and_unknown_blocks_pass_without_a_violation():
    compaction = {"type": "compaction", "content": "so far: …"}
    entries = [HELLO, assistant(compaction, {"type": "from_the_future"}, {}), user(text("go"))]
    assert broken(*entries) == []
    assert parse(entries, "anthropic").messages[1].text == "so far: …"


@pytest.mark.parametrize("depth", [10, 100_000])
def test_a_tool_input_of_any_depth_is_read(depth):
    value: Any = "core"
    for _ in range(depth):
        value = [value]
    (message,) = parse([assistant(call("a", nested=value))], "anthropic").messages
    assert message.pieces[0].text.startswith("Read ")


def test_tool_inputs_that_json_cannot_express_are_read():
    class Hostile:
        def __str__(self) -> str:
            raise RuntimeError("no")

    cyclic: dict[str, Any] = {}
    cyclic["self"] = cyclic
    moment = datetime(2026, 1, 2, tzinfo=UTC)
    for value in (cyclic, {(1, 2): 3}, {"at": moment}, {"x": float("nan")}, {"h": Hostile()}):
        block = {"type": "tool_use", "id": "a", "name": "f", "input": value}
        (message,) = parse([assistant(block)], "anthropic").messages
        assert message.pieces[0].text.startswith("f {")


def test_lone_surrogates_pass_through():
    (message,) = parse([user(text("\ud83d"), call("a", x="\udc00"))], "anthropic").messages
    assert message.pieces[0].text == "\ud83d"


ROUND = (HELLO, assistant(call("a")), user(result("a")))

PLANTED = {
    "first_not_user": ([assistant(text("hi"))], [0]),
    "unknown_role": ([HELLO, {"role": "critic", "content": "meh"}], [1]),
    "empty_content": ([HELLO, {"role": "assistant", "content": ""}, user()], [1, 2]),
    "empty_text": ([user(text("")), assistant(text(" \n")), user(text(" "), text("x"))], [0, 1]),
    "unanswered_tool_call": (
        [HELLO, assistant(call("a"), call("b")), user(result("a"), text("x"))],
        [1],
    ),
    "tool_result_without_call": ([user(result("z")), *ROUND], [0]),
    "duplicate_id": ([*ROUND, assistant(call("a")), user(result("a"))], [3]),
    "duplicate_result": ([*ROUND, user(result("a"))], [3]),
    "null_result_content": ([HELLO, assistant(call("a")), user(result("a", None))], [2]),
    "results_not_first": ([HELLO, assistant(call("a")), user(text("wait"), result("a"))], [2]),
    "results_not_together": (
        [HELLO, assistant(call("a"), call("b")), user(result("a")), user(result("b"))],
        [3],
    ),
    "too_many_cache_control": ([user(*[text(str(n), **CACHE) for n in range(6)])], [0, 0]),
    "cache_control_on_thinking": (
        [HELLO, assistant({"type": "thinking", "thinking": "", "signature": "", **CACHE})],
        [1],
    ),
    "thinking_without_signature": ([HELLO, assistant({"type": "thinking", "thinking": "hm"})], [1]),
}


@pytest.mark.parametrize("rule", sorted(PLANTED))
def test_a_planted_violation_is_found_where_it_is_and_nothing_else(rule):
    entries, indices = PLANTED[rule]
    assert broken(*entries) == [(index, rule) for index in indices]


def test_an_empty_text_with_a_cache_mark_breaks_two_rules():
    assert broken(user(text("", **CACHE), text("x"))) == [
        (0, "empty_text"),
        (0, "cache_control_on_empty_text"),
    ]


def test_an_empty_text_inside_a_tool_result_is_found():
    assert broken(HELLO, assistant(call("a")), user(result("a", [text("")]))) == [(2, "empty_text")]


def test_blocks_on_the_wrong_side_are_misplaced():
    assert (1, "misplaced_block") in broken(HELLO, assistant(result("a")))
    assert (0, "misplaced_block") in broken(user(call("a")))


DOCUMENT = {"type": "document", "source": {"type": "text", "data": "x"}}
CITED = {"citations": [{"type": "char_location", "cited_text": "x"}]}


@pytest.mark.parametrize(
    ("entries", "wrong"),
    [
        ([user(DOCUMENT), YES], []),
        ([HELLO, assistant(text("Here."), DOCUMENT)], [(1, "misplaced_block")]),
        ([HELLO, assistant(SERVER[0], {**SERVER[1], "content": [DOCUMENT]})], []),
        ([HELLO, assistant(call("a")), user(result("a", [DOCUMENT]))], []),
        ([HELLO, assistant(text("It is so.", **CITED))], []),
        ([user(text("It is so.", **CITED))], [(0, "citations_of_user")]),
        ([user(text("It is so.", citations=[]))], []),
        ([user({**DOCUMENT, "citations": {"enabled": True}})], []),
        (
            [user({"type": "search_result", "content": [text("x", **CITED)]})],
            [(0, "citations_of_user")],
        ),
        (
            [HELLO, assistant(call("a")), user(result("a", [text("x", **CITED)]))],
            [(2, "citations_of_user")],
        ),
    ],
)
def test_the_rules_of_the_apis_version_of_2026_10_21(entries, wrong):
    assert broken(*entries) == wrong


def test_calls_and_results_without_an_id_are_found():
    nameless = {"type": "tool_use", "name": "f", "input": {}}
    assert broken(HELLO, assistant(nameless)) == [(1, "missing_id")]
    assert broken(user({"type": "tool_result", "content": "x"})) == [(0, "missing_id")]


def test_a_call_unanswered_at_the_very_end_is_an_open_loop():
    assert broken(HELLO, assistant(call("a"), call("b"))) == []
    assert broken(HELLO, assistant(call("a"), call("b")), user(result("b"))) == []
    assert broken(HELLO, assistant(call("a")), user(text("stop"))) == [(1, "unanswered_tool_call")]


@pytest.mark.parametrize("kind", ["server_tool_use", "mcp_tool_use"])
def test_a_servers_call_has_its_result_before_the_users_next_turn(kind):
    begun = {"type": kind, "id": "srv", "name": "run", "input": {}}
    end = {"server_tool_use": "code_execution_tool_result", "mcp_tool_use": "mcp_tool_result"}[kind]
    done = {"type": end, "tool_use_id": "srv", "content": []}
    assert broken(HELLO, assistant(begun)) == []
    assert broken(HELLO, assistant(begun, done), HELLO) == []
    assert broken(HELLO, assistant(begun), assistant(done), HELLO) == []
    inside = [HELLO, assistant(begun, call("a")), user(result("a"))]
    assert broken(*inside) == []
    assert broken(*inside, assistant(done, text("It ran.")), HELLO) == []
    assert broken(*inside, assistant(text("I stop.")), HELLO) == [(1, "unanswered_tool_call")]
    assert broken(HELLO, assistant(text("I run."), begun), HELLO, YES) == [
        (1, "unanswered_tool_call")
    ]


def test_an_empty_last_assistant_message_is_a_prefill():
    assert broken(HELLO, {"role": "assistant", "content": ""}) == []
    assert broken(HELLO, {"role": "assistant", "content": None}) == [(1, "empty_content")]


def test_no_answer_begins_with_an_empty_message_after_a_tool_call():
    empty = {"role": "assistant", "content": ""}
    assert broken(HELLO, assistant(text("I look.")), empty) == []
    assert broken(HELLO, assistant(call("a")), empty) == [(2, "empty_content")]
    assert broken(HELLO, assistant(call("a")), user(result("a")), empty) == []


def test_a_result_may_lack_a_content_or_have_an_empty_one():
    bare = {"type": "tool_result", "tool_use_id": "a"}
    for done in (bare, {**bare, "content": ""}, {**bare, "content": []}):
        assert broken(HELLO, assistant(call("a")), user(done)) == []


def test_system_entries_at_the_beginning_are_outside_of_the_rules():
    system = {"role": "system", "content": "Be brief."}
    entries = [system, system, HELLO, assistant(call("a")), user(result("a"))]
    assert broken(*entries) == []
    assert parse(entries, "anthropic").pins().keys() == {0, 1, 2, 3}


@pytest.mark.parametrize(
    ("entries", "wrong"),
    [
        ([HELLO, SYSTEM], []),
        ([HELLO, SYSTEM, YES], []),
        ([SYSTEM, HELLO, SYSTEM, YES, HELLO, SYSTEM, YES], []),
        ([HELLO, assistant(call("a")), user(result("a")), SYSTEM, YES], []),
        ([HELLO, assistant(*SERVER), SYSTEM, YES], []),
        ([HELLO, YES, SYSTEM], [2]),
        ([HELLO, YES, SYSTEM, YES], [2]),
        ([HELLO, SYSTEM, HELLO], [1]),
        ([HELLO, SYSTEM, SYSTEM, YES], [1, 2]),
        ([HELLO, assistant(call("a")), SYSTEM, user(result("a"))], [2]),
    ],
)
def test_a_system_message_among_the_others_is_between_the_users_and_the_assistants(entries, wrong):
    assert broken(*entries) == [(index, "misplaced_system") for index in wrong]


def test_a_system_message_among_the_others_has_content_or_sets_something():
    entries = [HELLO, {"role": "system", "content": ""}, {"role": "assistant", "content": "Yes."}]
    assert broken(*entries) == [(1, "empty_content")]
    assert broken(HELLO, YES, EFFORT, HELLO) == []


EFFORT = {"role": "system", "content": [], "output_config": {"effort": "low"}}
ONCE = {"role": "system", "content": "Verify each claim.", "clear_at": "next_user_message"}
CLEARING = "mid-conversation-system-clear-at-2026-08-21"
SETTING = "mid-conversation-output-config-2026-07-01"


def compiled(*entries):
    return compile(PromptIR(history=History(entries, "anthropic")), "anthropic")


@pytest.mark.parametrize(
    ("system", "beta"),
    [
        (ONCE, CLEARING),
        ({**EFFORT, "content": "Hurry."}, SETTING),
        (EFFORT, SETTING),
        ({"role": "system", "output_config": {"effort": "low"}}, SETTING),
    ],
)
def test_a_system_message_that_sets_something_is_sent_as_it_is(system, beta):
    prompt = compiled(HELLO, {**system, "timestamp": 1}, YES, HELLO)
    assert prompt.messages[1] == system
    assert prompt.betas == (beta,)
    assert validate(prompt.messages, "anthropic") == []


def test_an_effort_stays_before_the_turn_that_it_is_for():
    prompt = compiled(HELLO, YES, EFFORT, HELLO, YES, EFFORT, HELLO)
    assert [each["role"] for each in prompt.messages] == [
        *("user", "assistant", "system", "user", "assistant", "system", "user"),
    ]
    assert validate(prompt.messages, "anthropic") == []


@pytest.mark.parametrize(
    ("second", "is_cleared"), [(ONCE, True), ({**ONCE, "clear_at": "never"}, False)]
)
def test_system_messages_in_a_row_are_one_and_last_as_long_as_one_of_them(second, is_cleared):
    (_, merged, _) = compiled(HELLO, ONCE, second, YES).messages
    assert [block["text"] for block in merged["content"]] == ["Verify each claim."] * 2
    assert ("clear_at" in merged) == is_cleared


def test_the_state_of_a_browser_in_a_result_is_read():
    tabs = [{"tab_id": "1", "title": "Berths", "url": "https://harbour.example", "active": True}]
    state = {"type": "browser_state", "tabs": tabs}
    small = compact_context(
        [HELLO, assistant(call("a")), user(result("a", [state]))], target_ratio=1
    )
    assert not small.stats.degraded
    assert "Berths" in parse([user(result("a", [state]))], "anthropic").messages[0].text


def _placement(entries: list[dict[str, Any]]) -> list[tuple[str, str]]:
    roles = ["first", *[entry["role"] for entry in entries], "assistant"]
    return [
        (before, after)
        for before, role, after in zip(roles, roles[1:], roles[2:], strict=False)
        if role == "system" and (before, after) != ("user", "assistant")
    ]


@pytest.mark.parametrize("granularity", ["message", "excerpt"])
@pytest.mark.parametrize("behind", ["a turn", "a result", "the last turn"])
def test_content_bound_to_a_turn_stays_after_it_at_every_size(behind, granularity):
    entries: list[dict[str, Any]] = []
    for number in range(14):
        entries.append(user(text(f"Question {number}: what of buoy {number}? " * 8)))
        is_changed = number in (1, 6)
        if is_changed and behind == "a result":
            entries += [assistant(call(f"c{number}")), user(result(f"c{number}", "green " * 200))]
        if is_changed and behind != "the last turn":
            entries.append(SYSTEM)
        entries.append(assistant(text(f"Buoy {number} is green. " * 20)))
    entries.append(user(text("Which buoy is red?")))
    entries += [SYSTEM] * (behind == "the last turn")
    assert _placement(entries) == []
    changed = set()
    for ratio in range(1, 20):
        for outline in (False, True):
            small = compact_context(
                entries,
                target_ratio=ratio / 20,
                granularity=granularity,
                outline=outline,
                format="anthropic",
                model="claude-opus-5-5",
            )
            assert _placement(list(small.messages)) == []
            assert small.messages.count(SYSTEM) == entries.count(SYSTEM)
            changed.add(len(small.messages))
    assert len(changed) > 5


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ([HELLO, user(result("z"))], [(0,), (1,)]),
        ([HELLO, assistant(call("a")), HELLO, user(result("a"))], [(0,), (1, 3), (2,)]),
        ([user(result("a")), assistant(call("a"))], [(0, 1)]),
        ([assistant(call("a")), assistant(call("a")), user(result("a"))], [(0,), (1, 2)]),
        ([*ROUND, HELLO, user(result("a"))], [(0,), (1, 2, 4), (3,)]),
        (
            [assistant(call("a")), assistant(call("b")), user(result("b"), result("a"))],
            [(0, 1, 2)],
        ),
    ],
    ids=["orphan", "far apart", "result first", "id twice", "two results", "one answer to two"],
)
def test_broken_input_keeps_together_what_pairs_it_has(entries, expected):
    assert members(*entries) == expected


def test_a_blank_user_message_opens_no_conversation():
    conversation = parse([*ROUND, HELLO, user(text(" \n")), assistant(text("x"))], "anthropic")
    assert conversation.user_first
    opens = [opens_with_user(unit) for unit in conversation.units]
    assert opens == [True, False, True, False, False]
    for budget in range(1, 40):
        kept = compact_context(
            [*ROUND, HELLO, user(text(" \n")), assistant(text("x"))], budget_tokens=budget
        )
        assert not kept.messages or kept.messages[0] in (ROUND[0], HELLO)


def test_a_leading_system_message_that_sets_something_goes_to_the_first_turn():
    prompt = compiled({"role": "system", "content": "Be brief."}, ONCE, HELLO, YES, HELLO)
    assert [block["text"] for block in prompt.request["system"]] == ["Be brief."]
    assert prompt.messages[1] == ONCE
    assert [each["role"] for each in prompt.messages[:3]] == ["user", "system", "assistant"]
    assert prompt.betas == (CLEARING,)
    assert validate(prompt.messages, "anthropic") == []
    assert any("not its place" in note for note in prompt.ir.meta.degraded)


def test_a_leading_system_message_that_is_never_cleared_is_the_system_prompt():
    prompt = compiled({**ONCE, "clear_at": "never"}, HELLO)
    assert [block["text"] for block in prompt.request["system"]] == ["Verify each claim."]
    assert [each["role"] for each in prompt.messages] == ["user"]
