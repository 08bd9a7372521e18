"""OpenAI Responses items: their reading, their units, and every rule that can be broken."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given

from rehydrate import Context, compact_context
from rehydrate.errors import InvalidMessageError
from rehydrate.formats import FORMATS, detect_format, parse, validate
from rehydrate.messages import PieceKind
from tests.rendered import render_history
from tests.strategies import openai_responses_items

USER = {"role": "user", "content": "hi"}
TEXT, TOOL_INPUT, TOOL_RESULT, THINKING = PieceKind
PNG = "data:image/png;base64,iVBORw0KGgo="


def thought(number: int = 0) -> dict[str, Any]:
    said = {"type": "summary_text", "text": "hm"}
    return {"type": "reasoning", "id": f"rs_{number}", "summary": [said], "encrypted_content": "e"}


def call(call_id: str | None, kind: str = "function_call", **rest: Any) -> dict[str, Any]:
    return {"type": kind, "call_id": call_id, "name": "get", "arguments": '{"id": 7}', **rest}


def output(call_id: str | None, value: Any = "done", kind: str = "function_call") -> dict[str, Any]:
    return {"type": f"{kind}_output", "call_id": call_id, "output": value}


def said(text: str = "ok", **rest: Any) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    return {"type": "message", "role": "assistant", "content": [part], **rest}


def members(*items: dict[str, Any]) -> list[tuple[int, ...]]:
    return [unit.members for unit in parse(list(items), "openai_responses").units]


def broken(*items: dict[str, Any]) -> list[tuple[int, str]]:
    found = validate(list(items), "openai_responses")
    return [(violation.index, violation.rule) for violation in found]


def read(item: dict[str, Any]) -> tuple[list[tuple[str, PieceKind]], int]:
    (message,) = parse([item], "openai_responses").messages
    return [tuple(piece) for piece in message.pieces], message.images


@pytest.mark.parametrize(
    ("item", "pieces", "images"),
    [
        ({"role": "user", "content": "hi"}, [("hi", TEXT)], 0),
        (
            {
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "look"},
                    {"type": "input_image", "image_url": PNG, "detail": "low"},
                    {"type": "input_file", "filename": "a.pdf", "file_data": PNG},
                ],
            },
            [("look", TEXT)],
            2,
        ),
        (said("ok", id="msg_1"), [("ok", TEXT)], 0),
        (
            {"role": "assistant", "content": [{"type": "refusal", "refusal": "I cannot."}]},
            [("I cannot.", TEXT)],
            0,
        ),
        (thought(), [("hm", THINKING)], 0),
        (
            thought() | {"summary": [], "content": [{"type": "reasoning_text", "text": "so"}]},
            [("so", THINKING)],
            0,
        ),
        (call("a"), [('get {"id": 7}', TOOL_INPUT)], 0),
        (output("a", "found"), [("found", TOOL_RESULT)], 0),
        (
            output("a", [{"type": "input_text", "text": "x"}, {"type": "input_image"}]),
            [("x", TOOL_RESULT)],
            1,
        ),
        (
            {"type": "custom_tool_call", "call_id": "a", "name": "sh", "input": "ls"},
            [("sh ls", TOOL_INPUT)],
            0,
        ),
        (
            {"type": "computer_call", "id": "c", "call_id": "a", "action": {"type": "click"}},
            [('computer {"type":"click"}', TOOL_INPUT)],
            0,
        ),
        (
            output("a", {"type": "computer_screenshot", "image_url": PNG}, "computer_call"),
            [],
            1,
        ),
        (
            output("a", [{"stdout": "out", "stderr": "err", "outcome": {}}], "shell_call"),
            [("out", TOOL_RESULT), ("err", TOOL_RESULT)],
            0,
        ),
        (
            {"type": "web_search_call", "id": "w", "action": {"type": "search", "query": "q"}},
            [('web_search {"type":"search","query":"q"}', TOOL_INPUT)],
            0,
        ),
        (
            {
                "type": "file_search_call",
                "id": "f",
                "queries": ["q"],
                "results": [{"file_id": "file_1", "text": "found"}],
            },
            [('file_search ["q"]', TOOL_INPUT), ("found", TOOL_RESULT)],
            0,
        ),
        (
            {
                "type": "code_interpreter_call",
                "id": "c",
                "container_id": "cntr_1",
                "code": "1 + 1",
                "outputs": [{"type": "logs", "logs": "2"}, {"type": "image", "url": PNG}],
            },
            [("code_interpreter 1 + 1", TOOL_INPUT), ("2", TOOL_RESULT)],
            1,
        ),
        ({"type": "image_generation_call", "id": "i", "result": "iVBORw0KGgo=" * 99}, [], 1),
        (
            {"type": "mcp_call", "id": "m", "name": "get", "arguments": "{}", "output": "found"},
            [("get {}", TOOL_INPUT), ("found", TOOL_RESULT)],
            0,
        ),
        ({"type": "item_reference", "id": "msg_1"}, [], 0),
        ({"type": "compaction", "id": "cmp_1", "encrypted_content": "b3BhcXVl"}, [], 0),
        ({"type": "from_the_future", "id": "x_1", "note": "new"}, [("new", TEXT)], 0),
    ],
    ids=lambda value: value.get("type", "message") if isinstance(value, dict) else "",
)
def test_an_item_is_read_as_texts_of_its_kind_and_no_base64_is_one(item, pieces, images):
    assert read(item) == (pieces, images)


def test_mcp_tools_are_text_to_count():
    tools = [{"name": "get", "description": "Gets.", "input_schema": {"type": "object"}}]
    item = {"type": "mcp_list_tools", "id": "m", "server_label": "docs", "tools": tools}
    assert "Gets." in [text for text, _ in read(item)[0]]


def test_a_dump_of_the_sdk_with_its_nulls_is_read():
    dump = thought() | {"content": None, "encrypted_content": None, "status": None}
    items = [USER, dump, said(phase=None), call("a", id=None, status=None), output("a")]
    assert detect_format(items) == "openai_responses"
    assert broken(*items) == []


def test_who_speaks_in_an_item_without_a_role():
    items = [thought(), call("a"), output("a"), {"type": "web_search_call", "id": "w"}]
    roles = [message.role for message in parse(items).messages]
    assert roles == ["assistant", "assistant", "tool", "assistant"]


@pytest.mark.parametrize(
    "kind",
    [
        *("function_call", "custom_tool_call", "computer_call", "local_shell_call"),
        *("shell_call", "apply_patch_call", "a_call_of_the_future"),
    ],
)
def test_calls_and_outputs_pair_by_call_id_and_not_by_id(kind):
    items = [
        USER,
        call("a", kind, id="b"),
        output("a", kind=kind),
        call("b", kind, id="a"),
        output("b", kind=kind),
    ]
    assert members(*items) == [(0,), (1, 2), (3, 4)]
    assert [rule for _, rule in broken(*items)] == []


def test_the_output_of_a_local_shell_may_name_the_call_by_id():
    answer = {"type": "local_shell_call_output", "id": "a", "output": "{}"}
    items = [USER, call("a", "local_shell_call", id="a"), answer]
    assert members(*items) == [(0,), (1, 2)]
    assert broken(*items) == []


def test_reasoning_stays_with_all_calls_it_led_to_and_their_outputs():
    items = [USER, thought(), call("a"), call("b"), output("b"), output("a"), said()]
    assert members(*items) == [(0,), (1, 2, 3, 4, 5), (6,)]


def test_reasoning_stays_with_what_follows_it_up_to_the_next_reasoning():
    search = {"type": "web_search_call", "id": "w"}
    items = [thought(0), thought(1), search, thought(2), said(), said()]
    assert members(*items) == [(0, 1, 2), (3, 4, 5)]


def test_reasoning_reaches_no_further_than_its_turn():
    assert members(thought(), said(), USER, said()) == [(0, 1), (2,), (3,)]
    assert members(thought(), call("a"), output("a"), said()) == [(0, 1, 2), (3,)]


def test_parallel_calls_are_one_unit_so_that_an_open_loop_is_kept_whole():
    items = [USER, call("a"), thought(1), call("b"), output("b")]
    assert members(*items) == [(0,), (1, 2, 3, 4)]
    assert parse(items).pins()[1] == "open tool loop"
    assert broken(*items) == []


SERVED = {
    "a tool search": [
        {"type": "tool_search_call", "id": "t", "call_id": None, "execution": "server"},
        {"type": "tool_search_output", "id": "to", "call_id": None, "tools": [{"name": "weigh"}]},
    ],
    "two tool searches": [
        {"type": "tool_search_call", "id": "t"},
        {"type": "tool_search_call", "id": "u"},
        {"type": "tool_search_output", "id": "to", "execution": "server", "tools": []},
        {"type": "tool_search_output", "id": "uo", "execution": "server", "tools": []},
    ],
    "a program": [
        {"type": "program", "id": "p", "call_id": "p1", "code": "1 + 1", "fingerprint": "f"},
        {"type": "program_output", "id": "po", "call_id": "p1", "result": "2"},
    ],
    "a hosted shell": [
        {"type": "shell_call", "id": "s", "call_id": "s1", "action": {"commands": ["ls"]}},
        {
            "type": "shell_call_output",
            "id": "so",
            "call_id": "s1",
            "output": [{"stdout": "a.py", "stderr": ""}],
        },
    ],
    "a tool of tomorrow": [
        {"type": "oracle_call", "id": "o", "call_id": "o1", "question": "Why?"},
        {"type": "oracle_call_output", "id": "oo", "call_id": "o1", "answer": "Because."},
    ],
}


@pytest.mark.parametrize("served", SERVED.values(), ids=SERVED)
def test_what_a_server_makes_itself_does_not_end_the_models_turn(served):
    last = len(served) + 1
    turn = [thought(), *served, call("a", id="fc_1"), output("a")]
    assert members(USER, *turn, said()) == [(0,), tuple(range(1, last + 3)), (last + 3,)]
    assert members(USER, *served, said()) == [(0,), tuple(range(1, last + 1))]
    assert broken(USER, *turn, said(), USER) == []
    assert [each for each in parse([USER, *turn]).messages if each.role == "tool"] == [
        parse([USER, *turn]).messages[-1]
    ]
    items = [*turn, USER]
    for ratio in (0.05, 0.3, 0.6, 0.9):
        for thinking in ("auto", "strip"):
            kept = compact_context(items, target_ratio=ratio, thinking=thinking)
            held = [each for each in kept.messages if each in turn]
            assert held in ([], turn)
    for place in FORMATS["openai_responses"].places(served[-1], 0):
        assert place is None


EFFORT = {"type": "configuration_update", "reasoning": {"effort": "high"}}
LATE_TOOLS = {
    "type": "additional_tools",
    "role": "developer",
    "tools": [{"type": "function", "name": "free_berths", "parameters": {"type": "object"}}],
}


def test_settings_amid_the_items_are_the_developers_and_stay():
    assert detect_format([EFFORT]) == "openai_responses"
    settings = [EFFORT, LATE_TOOLS, {"type": "compaction_trigger"}]
    assert [each.role for each in parse([USER, *settings]).messages] == ["user", *["system"] * 3]
    assert broken(USER, *settings, said(), USER) == []
    assert broken(USER, thought(), EFFORT, USER) == [(1, "reasoning_without_item")]
    talk = [said("Berth 4 is free. " * 40), USER] * 20
    small = compact_context([USER, *talk, *settings[:2], *talk], target_ratio=0.2)
    assert [each for each in small.messages if each in settings] == settings[:2]
    assert not small.stats.degraded


@pytest.mark.parametrize("provider", ["anthropic", "openai_chat"])
def test_settings_are_not_told_to_another_provider(provider):
    rendered = render_history(
        [USER, EFFORT, LATE_TOOLS, said(), USER], "openai_responses", provider
    )
    assert [each.message["role"] for each in rendered.messages] == ["user", "assistant", "user"]
    assert rendered.notes == (
        "history: additional_tools is not sent: of 1 entry, first history[2]",
        "history: configuration_update is not sent: of 1 entry, first history[1]",
    )


@pytest.mark.parametrize("provider", ["anthropic", "openai_chat"])
@pytest.mark.parametrize("served", SERVED.values(), ids=SERVED)
def test_a_servers_output_is_sent_to_another_provider_as_text(served, provider):
    context = Context(provider=provider, format="openai_responses")
    context.add(USER, *served, call("a"), output("a"), said(), USER)
    assert validate(context.prompt().messages, provider) == []


def test_the_calls_of_a_program_belong_to_it():
    caller = {"caller": {"type": "program", "caller_id": "p1"}}
    program, result = SERVED["a program"]
    row = [call(name, **caller) for name in "abcd"]
    outputs = [output(name) for name in "abcd"]
    items = [USER, program, *row[:2], *outputs[:2], *row[2:], *outputs[2:], result, said(), USER]
    assert members(*items) == [(0,), tuple(range(1, 11)), (11,), (12,)]
    for ratio in (0.2, 0.5, 0.8):
        kept = compact_context(items, target_ratio=ratio).messages
        assert [each for each in kept if each in items[1:11]] in ([], items[1:11])
    assert broken(*items[:10], *items[11:]) == [(1, "unanswered_tool_call")]
    assert [broken(*items[:end]) for end in range(6, 12)] == [[]] * 6  # it is not done yet


def test_a_search_that_the_client_runs_ends_the_turn():
    begun = {"type": "tool_search_call", "id": "t", "call_id": "t1", "execution": "client"}
    done = {"type": "tool_search_output", "call_id": "t1", "execution": "client", "tools": []}
    assert members(USER, thought(), begun, done, said()) == [(0,), (1, 2, 3), (4,)]
    assert broken(USER, begun, said(), USER) == [(1, "unanswered_tool_call")]


def test_an_approved_call_is_one_unit_with_its_request_and_the_answer():
    request = {"type": "mcp_approval_request", "id": "r", "name": "get", "arguments": "{}"}
    answer = {"type": "mcp_approval_response", "approval_request_id": "r", "approve": True}
    done = {"type": "mcp_call", "id": "m", "name": "get", "approval_request_id": "r"}
    assert members(USER, request, answer, done, said()) == [(0,), (1, 2, 3), (4,)]
    assert broken(USER, request, answer, done, said()) == []
    assert broken(USER, answer) == [(1, "tool_result_without_call")]


def test_an_mcp_call_without_approval_belongs_to_no_request():
    request = {"type": "mcp_approval_request", "name": "get", "arguments": "{}"}
    done = {"type": "mcp_call", "id": "m", "name": "get", "approval_request_id": None}
    assert members(USER, request, USER, done) == [(0,), (1,), (2,), (3,)]


REFERENCE = {"type": "item_reference", "id": "rs_1"}
COMPACTED = {"type": "compaction", "id": "cmp_1", "encrypted_content": "b3BhcXVl"}


@pytest.mark.parametrize(
    ("items", "kept"),
    [
        ([output("lives_in_the_previous_response"), USER, USER], [0, 2]),
        ([REFERENCE, call("a"), output("a"), said(), USER], [0, 1, 2, 4]),
        ([{"id": "msg_1"}, USER, REFERENCE, USER], [0, 2, 3]),
        ([COMPACTED, USER, USER], [0, 2]),
    ],
)
def test_what_only_the_provider_holds_is_always_kept(items, kept):
    result = compact_context(items, budget_tokens=0, format="openai_responses")
    assert result.messages == [items[index] for index in kept]
    assert all(one is items[index] for one, index in zip(result.messages, kept, strict=True))
    reasons = [unit.reason for unit in result.explain() if unit.kept]
    assert "bound to what the provider holds" in reasons


PLANTED = {
    "unknown_role": ([{"role": "tool", "content": "7"}], [0]),
    "null_content_without_calls": ([{"role": "user"}, said(content=None)], [0, 1]),
    "misplaced_block": (
        [
            {"role": "user", "content": [{"type": "output_text", "text": "hi"}]},
            {"role": "assistant", "content": [{"type": "input_text", "text": "hi"}]},
        ],
        [0, 1],
    ),
    "unanswered_tool_call": ([USER, call("a"), call("b"), output("b"), said()], [1]),
    "tool_result_without_call": ([USER, output("a"), call("a"), USER], [1]),
    "duplicate_result": ([USER, call("a"), output("a"), output("a")], [3]),
    "duplicate_id": (
        [said(id="m"), said(id="m"), call("a"), output("a"), call("a"), output("a")],
        [1, 4],
    ),
    "missing_id": ([USER, call(None), output(None)], [1, 2]),
    "reasoning_without_item": ([thought(0), USER, thought(1), output("a"), thought(2)], [0, 2, 4]),
    "reasoning_without_summary": ([thought() | {"summary": None}, said()], [0]),
}


@pytest.mark.parametrize("rule", sorted(PLANTED))
def test_a_planted_violation_is_found_where_it_is(rule):
    items, indices = PLANTED[rule]
    assert [index for index, found in broken(*items) if found == rule] == indices


def test_an_id_that_starts_again_in_every_turn_still_pairs_with_the_nearest_call():
    items = [USER, call("0"), output("0"), USER, call("0"), output("0")]
    assert members(*items) == [(0,), (1, 2), (3,), (4, 5)]
    assert broken(*items) == [(4, "duplicate_id")]


def test_only_the_last_compaction_is_bound():
    newer = COMPACTED | {"id": "cmp_2"}
    assert parse([COMPACTED, USER, newer, USER]).bound == (2,)


def test_an_output_may_come_any_time_after_its_call():
    assert broken(USER, call("a"), USER, said(), output("a")) == []


@pytest.mark.parametrize(
    ("item", "part"),
    [
        ({"type": "message", "content": "hi"}, "role"),
        ({"role": "user", "content": 7}, "content"),
        ({"role": "user", "content": [7]}, r"content\[0\]"),
        (output("a", 7), "output"),
        (output("a", [7]), r"output\[0\]"),
        ({"content": "hi"}, "role"),
    ],
)
def test_what_is_no_item_is_refused_with_its_place(item, part):
    for ask in (parse, validate):
        with pytest.raises(InvalidMessageError, match=f"message 1: {part}"):
            ask([USER, item], "openai_responses")


@given(openai_responses_items())
def test_a_place_leads_to_its_text_and_only_that_is_replaced(items):
    for index, (item, message) in enumerate(zip(items, parse(items).messages, strict=True)):
        places = FORMATS["openai_responses"].places(item, index)
        assert len(places) == len(message.pieces)
        kinds = {piece.kind for piece, place in zip(message.pieces, places, strict=True) if place}
        assert kinds <= {PieceKind.TEXT, PieceKind.TOOL_RESULT}
        for number, (piece, place) in enumerate(zip(message.pieces, places, strict=True)):
            if place is None:
                continue
            original = copy.deepcopy(item)
            again = FORMATS["openai_responses"].replace(item, {place: "short"})
            assert item == original
            (read_again,) = parse([again], "openai_responses").messages
            texts = [each.text for each in message.pieces]
            texts[number] = "short"
            assert [each.text for each in read_again.pieces] == texts
            assert FORMATS["openai_responses"].replace(again, {place: piece.text}) == original


def test_tool_inputs_reasoning_server_results_and_cited_texts_have_no_place():
    cited = said()
    cited["content"][0]["annotations"] = [{"type": "url_citation", "start_index": 0}]
    server = {"type": "mcp_call", "id": "m", "name": "get", "arguments": "{}", "output": "found"}
    unknown = {"type": "from_the_future", "id": "x", "note": "new"}
    for item in (cited, server, unknown, thought(), call("a")):
        places = FORMATS["openai_responses"].places(item, 0)
        assert places and set(places) == {None}
