"""Bedrock Converse: detection, units, rules, places, both conversions, and what botocore takes."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from rehydrate import compact_context, count_tokens
from rehydrate._native import marked, result_entries, tool_definition
from rehydrate.context import Context
from rehydrate.formats import FORMATS, detect_format, parse, validate
from rehydrate.formats.calls import ToolCall
from rehydrate.messages import PieceKind
from rehydrate.prompt import Budget, ContextRequest, History, PromptIR, ToolDef, compile
from tests.formats.drawn import drawn_ir
from tests.prompt.irs import found, system_section
from tests.provider.converse import refusal
from tests.strategies import bedrock_conversations, damaged

USER = {"role": "user", "content": [{"text": "Which berth is free?"}]}
SAID = {"role": "assistant", "content": [{"text": "Berth 4."}]}
POINT = {"cachePoint": {"type": "default"}}
THOUGHT = {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "c2ln"}}}
PDF = {"document": {"format": "pdf", "name": "tides", "source": {"bytes": b"%PDF"}}}
SPEC = {"toolSpec": {"name": "f", "inputSchema": {"json": {"type": "object"}}}}


def use(*calls: str, **more: Any) -> dict[str, Any]:
    uses = [{"toolUse": {"toolUseId": call, "name": "f", "input": {}, **more}} for call in calls]
    return {"role": "assistant", "content": uses}


def result(*calls: str, content: Any = ({"text": "4"},), **more: Any) -> dict[str, Any]:
    found = [{"toolUseId": call, "content": list(content), **more} for call in calls]
    return {"role": "user", "content": [{"toolResult": each} for each in found]}


def message(*blocks: Any, role: str = "user") -> dict[str, Any]:
    return {"role": role, "content": list(blocks)}


def broken(*entries: Any) -> list[tuple[int, str]]:
    return [(each.index, each.rule) for each in validate(entries, "bedrock")]


# Rules


PLANTED: dict[str, tuple[list[Any], list[int]]] = {
    "first_not_user": ([SAID, USER], [0]),
    "unknown_role": ([USER, {**SAID, "role": "critic"}], [1]),
    "empty_content": ([USER, {"role": "assistant", "content": []}], [1]),
    "empty_text": ([message({"text": " \n"}), SAID], [0]),
    "text_content": ([{"role": "user", "content": "hi"}, SAID, message("hi")], [0, 2]),
    "roles_not_alternating": ([USER, USER, SAID, SAID, USER], [1, 3]),
    "null_result_content": ([USER, use("a"), result("a", content=())], []),
    "unanswered_tool_call": ([USER, use("a", "b"), result("a")], []),
    "tool_result_without_call": ([USER, SAID, result("a")], [2]),
    "server_result_without_call": (
        [
            USER,
            message(
                {"toolResult": {"toolUseId": "s", "type": "x", "content": []}}, role="assistant"
            ),
        ],
        [1],
    ),
    "duplicate_id": ([USER, use("a"), result("a"), use("a"), result("a")], [3]),
    "duplicate_result": ([USER, use("a"), result("a", "a")], [2]),
    "missing_id": ([USER, message({"toolUse": {"name": "f", "input": {}}}, role="assistant")], [1]),
    "results_not_first": ([USER, use("a"), message({"text": "so"}, *result("a")["content"])], [2]),
    "misplaced_block": ([message(*use("a")["content"]), message(PDF, role="assistant")], [0, 1]),
    "misplaced_system": ([USER, SAID, message({"text": "Be."}, role="system")], [2]),
    "unknown_block": (
        [
            message({"text": "a", "id": 1}),
            message({"type": "text"}, role="assistant"),
            message({"from_the_future": {}}),
        ],
        [0, 1, 2],
    ),
    "invalid_id": ([USER, use("x" * 65), result("x" * 65)], [1, 2]),
    "invalid_tool_name": (
        [
            USER,
            use("a", name="mcp.server/tool"),
            result("a"),
            use("b", name="x" * 65),
            result("b"),
            use("c", name="x" * 64),
        ],
        [1, 3],
    ),
    "empty_error_result": ([USER, use("a"), result("a", content=(), status="error")], [2]),
    "document_without_text": ([message(PDF)], [0]),
    "document_name": (
        [message({"text": "a"}, {"document": {**PDF["document"], "name": "a.pdf"}})],
        [0],
    ),
    "duplicate_document_name": (
        [message({"text": "a"}, PDF), SAID, message({"text": "b"}, PDF)],
        [2],
    ),
    "too_many_documents": (
        [
            message(
                {"text": "a"},
                *({"document": {**PDF["document"], "name": f"n {n}"}} for n in range(6)),
            )
        ],
        [0],
    ),
    "too_many_cache_control": (
        [message(*[each for _ in range(5) for each in ({"text": "a"}, POINT)])],
        [0],
    ),
    "cache_control_on_thinking": ([USER, message(THOUGHT, POINT, role="assistant")], [1]),
}
PLANTED["null_result_content"][0][2]["content"][0]["toolResult"]["content"] = None
PLANTED["null_result_content"][1].append(2)
PLANTED["unanswered_tool_call"][0].append(SAID)
PLANTED["unanswered_tool_call"][1].append(1)


@pytest.mark.parametrize("rule", sorted(PLANTED))
def test_a_planted_violation_is_found_where_it_is(rule: str) -> None:
    entries, indices = PLANTED[rule]
    assert [index for index, found in broken(*entries) if found == rule] == indices


def closed(entries: list[Any]) -> list[Any]:
    """Return the entries without an open call at the end, and without system entries."""
    kept = [copy.deepcopy(each) for each in entries if each["role"] != "system"]
    if kept and any("toolUse" in block for block in kept[-1]["content"] or ()):
        kept.pop()
    return kept


@given(bedrock_conversations())
def test_what_is_valid_is_taken(entries: list[Any]) -> None:
    assert validate(entries, "bedrock") == []
    assert refusal({"messages": closed(entries)}) is None


@given(bedrock_conversations().flatmap(damaged))
def test_what_is_valid_after_damage_is_taken_too(entries: list[Any]) -> None:
    if entries and validate(entries, "bedrock") == [] and (kept := closed(entries)):
        assert refusal({"messages": kept}) is None


@given(bedrock_conversations(), st.sampled_from([0.1, 0.3, 0.6, 0.9]), st.booleans())
def test_what_is_compacted_is_taken(entries: list[Any], ratio: float, by_excerpts: bool) -> None:
    granularity = "excerpt" if by_excerpts else "message"
    kept = compact_context(
        entries, target_ratio=ratio, format="bedrock", thinking="keep", granularity=granularity
    ).messages
    assert validate(kept, "bedrock") == []
    assert by_excerpts or all(any(each is entry for entry in entries) for each in kept)
    assert refusal({"messages": closed(kept)}) is None


@pytest.mark.parametrize("format", ["bedrock", "anthropic", "openai_chat", "openai_responses"])
@settings(max_examples=8)
@given(data=st.data())
def test_both_ways_between_the_providers(format: str, data: st.DataObject) -> None:
    """Those without Converse are in tests/provider/test_agreement.py."""
    ir = drawn_ir(data, format, SPEC, bedrock=closed)
    request = compile(ir, "bedrock", minimum_prefix=1).request
    assert validate(request["messages"], "bedrock") == []
    assert refusal(request) is None
    assert request["toolConfig"]["tools"][0] is SPEC
    for provider in ("anthropic", "openai_chat", "openai_responses") * (format == "bedrock"):
        assert validate(compile(ir, provider, minimum_prefix=1).messages, provider) == []


# Reading


@pytest.mark.parametrize(
    "block",
    [
        *({"toolUse": {}}, {"toolResult": {}}, POINT, THOUGHT, {"guardContent": {}}, PDF),
        {"image": {"format": "png", "source": {"bytes": b"x"}}},
    ],
)
def test_one_block_of_its_own_shows_the_format(block: dict[str, Any]) -> None:
    assert detect_format([{"role": "user", "content": "hi"}, message(block)]) == "bedrock"


def test_texts_without_a_type_are_a_hint() -> None:
    assert detect_format([USER, SAID]) == "bedrock"
    assert (
        detect_format([USER, message({"type": "tool_use", "id": "a"}, role="assistant")])
        == "anthropic"
    )


def test_an_assistants_message_and_the_one_after_it_are_one_unit() -> None:
    entries = [USER, use("a"), result("a"), SAID, USER, SAID]
    assert [unit.members for unit in parse(entries).units] == [(0,), (1, 2), (3, 4), (5,)]


def test_what_a_message_holds_is_read_and_counted() -> None:
    image = {"image": {"format": "png", "source": {"bytes": b"x" * 9_000}}}
    blocks = [{"text": "seen"}, {"json": {"berth": 4}}, image]
    read = parse([USER, use("a"), result("a", content=blocks), message(THOUGHT, role="assistant")])
    made = [(piece.text, piece.kind) for each in read.messages for piece in each.pieces]
    assert made[1:] == [
        ("f {}", PieceKind.TOOL_INPUT),
        ("seen", PieceKind.TOOL_RESULT),
        ('{"berth":4}', PieceKind.TOOL_RESULT),
        ("Hm.", PieceKind.THINKING),
    ]
    assert [each.images for each in read.messages] == [0, 0, 1, 0]
    assert read.messages[2].role == "tool" and not read.unknown
    bare = count_tokens([USER, use("a"), result("a", content=blocks[:2])])
    assert 1_500 < count_tokens([USER, use("a"), result("a", content=blocks)]) - bare < 1_700


def test_what_may_be_shortened_and_what_not() -> None:
    blocks = [{"text": "a"}, {"json": {}}, {"document": {"name": "n", "source": {"text": "b"}}}]
    paths = FORMATS["bedrock"].places(result("a", content=blocks), 0)
    inner = ("content", 0, "toolResult", "content")
    assert paths == [(*inner, 0, "text"), None, None, (*inner, 2, "document", "source", "text")]
    assert FORMATS["bedrock"].places(message({"text": "Be."}, role="system"), 0) == [None]
    guarded = message({"guardContent": {"text": {"text": "g"}}})
    assert FORMATS["bedrock"].places(guarded, 0) == [None]


def test_reasoning_is_never_split_from_its_turn() -> None:
    turn = message(THOUGHT, *use("a")["content"], role="assistant")
    long = result("a", content=({"text": "word " * 2_000},))
    entries = [USER, turn, long, SAID, message({"text": "And now? " * 50}), turn, result("a")]
    kept = compact_context(entries, target_ratio=0.05, format="bedrock").messages
    for each in kept:
        if each["role"] == "assistant" and "toolUse" in str(each):
            assert each is turn
    assert kept[-2:] == entries[-2:]
    (left,) = FORMATS["bedrock"].without_thinking([message(THOUGHT, role="assistant")])
    assert broken(USER, left) == []


# Writing


def test_a_tool_a_system_block_and_a_message_are_marked() -> None:
    entries = [{"role": "system", "content": [{"text": "Be brief."}]}, USER, SAID, USER]
    sections = (system_section(), found(stability="static"), found(2))
    ir = PromptIR(
        ContextRequest("Go on."), sections, (ToolDef.read(SPEC),), History(tuple(entries))
    )
    request = compile(ir, "bedrock", minimum_prefix=1).request
    assert request["system"][-1] == POINT and {"text": "Be brief."} in request["system"]
    assert sum(POINT in each["content"] for each in request["messages"]) >= 1
    assert refusal(request) is None
    assert marked("bedrock", SPEC) == [SPEC, POINT]
    thinking = message({"text": "a"}, THOUGHT, role="assistant")
    assert marked("bedrock", thinking)["content"] == [{"text": "a"}, POINT, THOUGHT]
    assert marked("bedrock", message(THOUGHT, role="assistant")) is None


def test_a_string_for_a_block_is_sent_as_a_text_and_marked() -> None:
    seen = result("a", content=["seen", {"text": "there"}])
    entries = (message("Look."), use("a"), seen, SAID, message("And", {"text": "then?"}))
    compiled = compile(PromptIR(history=History(entries, "bedrock")), "bedrock", minimum_prefix=1)
    assert refusal(compiled.request) is None
    assert compiled.messages[-1]["content"] == [{"text": "And"}, {"text": "then?"}, POINT]


@pytest.mark.parametrize("provider", ["bedrock", "anthropic"])
@pytest.mark.parametrize("format", ["bedrock", "openai_chat"])
def test_a_blank_text_of_the_systems_is_not_sent(format: str, provider: Any) -> None:
    blank = [{"text" if format == "bedrock" else "content": text} for text in ("", " ", "Be.")]
    entries = (
        [{"role": "system", "content": blank}]
        if format == "bedrock"
        else [{"role": "system", **each} for each in blank]
    )
    history = History((*entries, {"role": "user", "content": "hi"}), format)
    (block,) = compile(PromptIR(history=history), provider).request["system"]
    assert block["text"] == "Be."


def test_the_callers_own_cache_points_count_and_change_no_digest() -> None:
    def compiled(*blocks: Any) -> Any:
        entries = (USER, SAID, message({"text": "And?"}, *blocks))
        return compile(PromptIR(history=History(entries, "bedrock")), "bedrock", minimum_prefix=1)

    with_point, without = compiled(POINT), compiled()
    assert [each.digest for each in with_point.segments] == [
        each.digest for each in without.segments
    ]
    assert str(with_point.request).count("cachePoint") <= 4


def test_a_tools_name_is_sent_in_converses_characters_by_its_definition_and_its_calls() -> None:
    def call(name: str) -> dict[str, Any]:
        return {"id": name, "type": "function", "function": {"name": name, "arguments": "{}"}}

    names = ["mcp.server/tool", "mcp_server_tool", "mcp.server.tool", "é" * 90]
    entries = [
        {"role": "user", "content": "Look."},
        {"role": "assistant", "content": None, "tool_calls": list(map(call, names))},
        *({"role": "tool", "tool_call_id": name, "content": "4"} for name in names),
    ]
    tools = tuple([ToolDef(name, "", {"type": "object"}) for name in names])
    history = History(tuple(entries), "openai_chat")
    compiled = compile(PromptIR(tools=tools, history=history), "bedrock")
    assert refusal(compiled.request) is None
    assert compiled.ir.meta.degraded == ()
    uses = [each["toolUse"]["name"] for each in compiled.messages[1]["content"]]
    specs = [each["toolSpec"]["name"] for each in compiled.request["toolConfig"]["tools"]]
    assert sorted(uses) == sorted(specs)
    assert len(set(uses)) == 4 and "mcp_server_tool" in uses


def test_a_rule_of_converses_that_a_converted_history_breaks_is_said_to_be_its_own() -> None:
    source = {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0xLjQ="}
    blocks = [{"type": "document", "source": source} for _ in range(6)]
    entries = ({"role": "user", "content": [*blocks, {"type": "text", "text": "Read."}]},)
    assert validate(entries, "anthropic") == []
    compiled = compile(PromptIR(history=History(entries, "anthropic")), "bedrock")
    (why,) = compiled.ir.meta.degraded
    assert why.startswith("history: as bedrock gets it: ") and "too_many_documents" in why


def test_media_and_errors_are_converted_both_ways() -> None:
    png = "data:image/png;base64,iVBORw0KGgo="
    pdf = "data:application/pdf;base64,JVBERg=="
    parts = [{"type": "image_url", "image_url": {"url": png}}]
    file = {"type": "file", "file": {"filename": "tides.2026.pdf", "file_data": pdf}}
    asked = {"role": "user", "content": [*parts, file, file]}
    (sent,) = compile(PromptIR(history=History((asked,), "openai_chat")), "bedrock").messages
    image, one, other, text, _ = sent["content"]
    assert image == {"image": {"format": "png", "source": {"bytes": b"\x89PNG\r\n\x1a\n"}}}
    assert one["document"]["name"] != other["document"]["name"] and "text" in text
    assert refusal({"messages": [sent]}) is None
    (back,) = compile(PromptIR(history=History((sent,), "bedrock")), "openai_chat").messages
    assert back["content"][0] == parts[0]
    assert back["content"][1]["file"]["file_data"] == pdf
    error = (USER, use("a"), result("a", content=(), status="error"), SAID, USER)
    (there,) = compile(PromptIR(history=History(error, "bedrock")), "anthropic").messages[2][
        "content"
    ]
    assert there["is_error"] is True


def test_media_come_back_from_json_as_bytes() -> None:
    blocks = [{"text": "seen"}, {"image": {"format": "png", "source": {"bytes": b"x"}}}]
    entries = (message({"text": "Look."}, PDF), use("a"), result("a", content=blocks), SAID, USER)
    prompt = compile(PromptIR(history=History(entries, "bedrock")), "bedrock")
    again = compile(PromptIR.from_json(prompt.ir.to_json()), "bedrock")
    assert again.messages == prompt.messages
    assert str(again.messages).count("b'") == 2


def test_a_loop_of_ones_own_reads_calls_and_writes_results() -> None:
    call = ToolCall.read(use("a", input={"x": 1})["content"][0])
    assert call is not None and (call.id, call.arguments()) == ("a", {"x": 1})
    made = result_entries([call.result("4"), call.result("", is_error=True)])
    assert broken(USER, use("a"), {**made[0], "content": made[0]["content"][:1]}) == []
    assert made[0]["content"][1]["toolResult"]["status"] == "error"
    assert tool_definition("bedrock", "f", "", {"type": "object"}) == SPEC


def test_a_context_goes_on_turn_by_turn_for_converse() -> None:
    context = Context(provider="bedrock", budget=Budget(soft_tokens=1_200))
    for turn in range(12):
        context.add(message({"text": f"Question {turn}. " + "word " * 60}))
        request = context.prompt().request
        assert refusal(request) is None
        call = f"tooluse_{turn}"
        context.add(use(call), result(call, content=({"text": "found " * 60},)))
        assert refusal(context.prompt().request) is None
        context.add(message({"text": f"Answer {turn}. " + "said " * 40}, role="assistant"))
    assert len(context.prompt().messages) < 48
