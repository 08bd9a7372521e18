"""Gemini's contents: detection, units, rules, places, conversions, and what google-genai takes."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from rehydrate import compact_context, count_tokens
from rehydrate._native import result_entries, tool_definition
from rehydrate.context import Context
from rehydrate.errors import InvalidArgumentError, InvalidMessageError
from rehydrate.formats import FORMATS, detect_format, parse, validate
from rehydrate.formats.calls import ToolCall
from rehydrate.messages import PROVIDERS, PieceKind
from rehydrate.prompt import (
    Budget,
    ContextRequest,
    History,
    PromptIR,
    Provenance,
    Section,
    ToolDef,
    compile,
)
from tests.formats.drawn import drawn_ir
from tests.provider.gemini import refusal
from tests.sizes import sized
from tests.strategies import BY_FORMAT, damaged, gemini_conversations

USER = {"role": "user", "parts": [{"text": "Which berth is free?"}]}
SAID = {"role": "model", "parts": [{"text": "Berth 4."}]}
THOUGHT = {"text": "Hm.", "thought": True}
PNG = {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}
SPEC = {"name": "f", "parametersJsonSchema": {"type": "object"}}


def call(name: str = "f", **more: Any) -> dict[str, Any]:
    return {"functionCall": {"name": name, "args": {}, **more}}


def answer(name: str = "f", **more: Any) -> dict[str, Any]:
    return {"functionResponse": {"name": name, "response": {"output": "4"}, **more}}


def model(*parts: Any) -> dict[str, Any]:
    return {"role": "model", "parts": list(parts)}


def user(*parts: Any) -> dict[str, Any]:
    return {"role": "user", "parts": list(parts)}


def broken(*entries: Any) -> list[tuple[int, str]]:
    return [(each.index, each.rule) for each in validate(entries, "gemini")]


# Rules


PLANTED: dict[str, tuple[list[Any], list[int]]] = {
    "first_not_user": ([SAID, USER], [0]),
    "unknown_role": ([USER, {**SAID, "role": "assistant"}], [1]),
    "empty_content": ([USER, model()], [1]),
    "empty_text": ([USER, model({"text": ""})], [1]),
    "text_content": ([{"role": "user", "parts": "hi"}, SAID, user("hi")], [0, 2]),
    "unanswered_tool_call": ([USER, model(call()), USER], [1]),
    "tool_result_without_call": ([USER, SAID, user(answer())], [2]),
    "duplicate_result": ([USER, model(call(id="a")), user(answer(id="a"), answer(id="a"))], [2]),
    "missing_name": ([USER, model(call("")), user(answer(""))], [1, 2]),
    "results_not_first": ([USER, model(call()), user({"text": "so"}, answer())], [2]),
    "results_not_together": (
        [USER, model(call(id="a"), call(id="b")), user(answer(id="a")), user(answer(id="b"))],
        [3],
    ),
    "misplaced_block": ([user(call()), model(answer())], [0, 1]),
    "misplaced_system": ([USER, SAID, {"role": "system", "parts": [{"text": "Be."}]}], [2]),
    "unknown_block": ([user({"text": "a", **PNG}), model({"from_the_future": {}})], [0, 1]),
    "call_after_model": ([USER, SAID, model(call()), user(answer())], [2]),
    "misplaced_signature": (
        [USER, model(call(id="a"), {**call(id="b"), "thoughtSignature": "c2ln"})],
        [1],
    ),
}


@pytest.mark.parametrize("rule", sorted(PLANTED))
def test_a_planted_violation_is_found_where_it_is(rule: str) -> None:
    entries, indices = PLANTED[rule]
    assert [index for index, found in broken(*entries) if found == rule] == indices


@pytest.mark.parametrize(
    "entries",
    [
        [{"parts": [{"text": "no role"}]}],
        [USER, model({"text": "", "thoughtSignature": "c2ln"})],
        [USER, USER, SAID, SAID],
        [USER, model(call(id="a")), user(answer()), SAID],
        [USER, model(call()), user(answer(id="a")), SAID],
        [USER, model(call("f"), call("g"), call("f")), user(answer("g"), answer("f"), answer("f"))],
        [USER, model(call()), {"role": "function", "parts": [answer()]}, SAID],
    ],
)
def test_what_the_api_takes_breaks_no_rule(entries: list[Any]) -> None:
    assert broken(*entries) == []
    assert detect_format(entries) == "gemini"


def closed(entries: list[Any]) -> list[Any]:
    """Return the entries without an open call at the end, and without system entries."""
    kept = [copy.deepcopy(each) for each in entries if each["role"] != "system"]
    if kept and any("functionCall" in part for part in kept[-1]["parts"] or ()):
        kept.pop()
    return kept


@given(gemini_conversations())
def test_what_is_valid_is_taken(entries: list[Any]) -> None:
    assert validate(entries, "gemini") == []
    assert refusal({"contents": closed(entries)}) is None


@given(gemini_conversations().flatmap(damaged))
def test_what_is_valid_after_damage_is_taken_too(entries: list[Any]) -> None:
    if entries and validate(entries, "gemini") == [] and (kept := closed(entries)):
        if any(len(each["parts"]) > len(answers_in(each)) > 0 for each in kept):
            return  # newer models take results next to what the user says, and older ones do not
        assert refusal({"contents": kept}) is None


def answers_in(entry: Any) -> list[Any]:
    return [part for part in entry["parts"] if "functionResponse" in part]


@given(gemini_conversations(), st.sampled_from([0.1, 0.3, 0.6, 0.9]), st.booleans())
def test_what_is_compacted_is_taken(entries: list[Any], ratio: float, by_excerpts: bool) -> None:
    granularity = "excerpt" if by_excerpts else "message"
    kept = compact_context(
        entries, target_ratio=ratio, format="gemini", thinking="keep", granularity=granularity
    ).messages
    assert validate(kept, "gemini") == []
    assert by_excerpts or all(any(each is entry for entry in entries) for each in kept)
    assert refusal({"contents": closed(kept)}) is None


@pytest.mark.parametrize("format", sorted(BY_FORMAT))
@settings(max_examples=sized(4, 8))
@given(data=st.data())
def test_every_format_becomes_a_request_that_gemini_takes(format: str, data: st.DataObject) -> None:
    ir = drawn_ir(data, format, SPEC, gemini=closed)
    request = compile(ir, "gemini").request
    assert validate(request["contents"], "gemini") == []
    assert request["tools"] == [{"functionDeclarations": [SPEC]}]
    said = str(request["contents"])
    if said.count("'functionCall'") == said.count("'functionResponse'"):  # no provider takes others
        assert refusal(request, checks_signatures=format != "gemini") is None


@settings(max_examples=8)
@given(entries=gemini_conversations())
def test_contents_become_every_providers_messages(entries: list[Any]) -> None:
    ir = PromptIR(history=History(tuple(closed(entries)), "gemini"))
    for provider in PROVIDERS:
        assert validate(compile(ir, provider).messages, provider) == []


# Reading


def test_an_objects_dump_and_what_rest_sends_are_read_alike() -> None:
    types = pytest.importorskip("google.genai.types")
    contents = [
        types.UserContent(
            parts=[
                types.Part(text="Look."),
                types.Part.from_bytes(data=b"x", mime_type="image/png"),
            ]
        ),
        types.ModelContent(
            parts=[
                types.Part(
                    function_call=types.FunctionCall(id="a", name="f", args={"b_c": 1}),
                    thought_signature=b"sig",
                )
            ]
        ),
        types.UserContent(
            parts=[types.Part.from_function_response(name="f", response={"output": "4"})]
        ),
    ]
    dumps = [each.model_dump() for each in contents]
    rest = [each.model_dump(mode="json", by_alias=True, exclude_none=True) for each in contents]
    read = [parse(each) for each in (contents, dumps, rest)]
    assert [each.format for each in read] == ["gemini"] * 3
    assert read[0].messages == read[1].messages == read[2].messages
    assert read[0].messages[1].calls == read[0].messages[2].answers == ("a",)
    (kept,) = {len(compact_context(each, target_ratio=1.0).messages) for each in (contents, dumps)}
    assert kept == 3
    for entries in (contents, dumps, rest):
        context = Context(provider="gemini")
        context.add(*entries)
        assert refusal(context.prompt().request) is None
    whole = types.GenerateContentResponse(candidates=[types.Candidate(content=contents[1])])
    with pytest.raises(InvalidMessageError, match=r"candidates\[0\]\.content"):
        parse([whole])


def test_a_response_without_an_id_answers_the_first_of_its_name() -> None:
    calls = model(call("f", id="a"), call("g", id="b"), call("f"), call("f"))
    read = parse([USER, calls, user(answer("f"), answer("g"), answer("f"), answer("f"))])
    assert read.messages[1].calls == ("a", "b", "function_call:f", "function_call:f:2")
    assert read.messages[2].answers == ("a", "b", "function_call:f", "function_call:f:2")
    assert [unit.members for unit in read.units] == [(0,), (1, 2)]


def test_a_models_content_and_the_one_after_it_are_one_unit() -> None:
    entries = [USER, model(call()), user(answer()), SAID, USER, SAID]
    assert [unit.members for unit in parse(entries).units] == [(0,), (1, 2), (3, 4), (5,)]


def test_what_a_content_holds_is_read_and_counted() -> None:
    response = {"output": "seen", "code": 0}
    code = {"executableCode": {"language": "PYTHON", "code": "print(4)"}}
    entries = [USER, model(THOUGHT, code, call()), user(answer(response=response, parts=[PNG]))]
    read = parse(entries)
    made = [(piece.text, piece.kind) for each in read.messages for piece in each.pieces]
    assert made[1:] == [
        ("Hm.", PieceKind.THINKING),
        ("PYTHON", PieceKind.TEXT),
        ("print(4)", PieceKind.TEXT),
        ("f {}", PieceKind.TOOL_INPUT),
        ("seen", PieceKind.TOOL_RESULT),
        ('{"code":0}', PieceKind.TOOL_RESULT),
    ]
    assert [each.images for each in read.messages] == [0, 0, 1]
    assert read.messages[2].role == "tool" and not read.unknown
    bare = count_tokens([*entries[:2], user(answer(response=response))])
    assert count_tokens(entries) - bare == 1_120


def test_what_may_be_shortened_and_what_not() -> None:
    paths = FORMATS["gemini"].places(user(answer(response={"output": "a", "code": 0})), 0)
    assert paths == [("parts", 0, "functionResponse", "response", "output"), None]
    snake = user({"function_response": {"name": "f", "response": {"output": "a"}}})
    assert FORMATS["gemini"].places(snake, 0) == [
        ("parts", 0, "function_response", "response", "output")
    ]
    signed = model({"text": "a", "thoughtSignature": "c2ln"}, {"text": "b"}, THOUGHT)
    assert FORMATS["gemini"].places(signed, 0) == [None, ("parts", 1, "text"), None]
    assert FORMATS["gemini"].places({"role": "system", "parts": [{"text": "Be."}]}, 0) == [None]


def test_thoughts_go_and_signatures_stay() -> None:
    signed = {**call(), "thoughtSignature": "c2ln"}
    (left,) = FORMATS["gemini"].without_thinking([model(THOUGHT, signed)])
    assert left == model(signed)
    assert FORMATS["gemini"].without_thinking([model(THOUGHT)]) == [None]


# Writing


def test_calls_of_other_models_get_the_signature_that_is_not_checked() -> None:
    calls = [
        {"id": each, "type": "function", "function": {"name": each, "arguments": '{"x": 1}'}}
        for each in ("f", "g")
    ]
    png = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    entries = (
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Look."}, png]},
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "g", "content": "2"},
        {"role": "tool", "tool_call_id": "f", "content": [png, {"type": "text", "text": "1"}]},
    )
    request = compile(PromptIR(history=History(entries, "openai_chat")), "gemini").request
    assert request["systemInstruction"] == {"parts": [{"text": "Be brief."}]}
    asked, called, answered, shown = request["contents"]
    assert asked["parts"] == [{"text": "Look."}, PNG]
    first, second = called["parts"]
    assert first["functionCall"] == {"id": "f", "name": "f", "args": {"x": 1}}
    assert "thoughtSignature" in first and "thoughtSignature" not in second
    names = [part["functionResponse"]["name"] for part in answered["parts"]]
    assert names == ["g", "f"] and shown == user(PNG)
    assert refusal(request, checks_signatures=True) is None
    history = History(tuple(request["contents"]), "gemini")
    back = compile(PromptIR(history=history), "openai_chat").messages
    assert [each["role"] for each in back] == ["user", "assistant", "tool", "tool", "user"]
    assert back[1]["tool_calls"][0]["function"] == {"name": "f", "arguments": '{"x": 1}'}


def test_what_is_in_the_shape_of_others_is_written_as_contents() -> None:
    entries = ({"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}, "x")
    assert compile(PromptIR(history=History(entries[:2], "gemini")), "gemini").messages == [
        user({"text": "hi"}),
        model({"text": "ho"}),
    ]
    with pytest.raises(InvalidMessageError, match="wrap the part"):
        parse([{"role": "user", "parts": {"text": "hi"}}], "gemini")


def test_bytes_are_sent_as_base64() -> None:
    blob = {"inline_data": {"mime_type": "image/png", "data": b"\x89PNG"}}
    prompt = compile(PromptIR(history=History((user(blob),), "gemini")), "gemini")
    assert prompt.messages[0]["parts"][0]["inline_data"]["data"] == "iVBORw=="
    again = compile(PromptIR.from_json(prompt.ir.to_json()), "gemini")
    assert again.messages == prompt.messages and refusal(again.request) is None


def test_tools_in_geminis_shapes_are_read() -> None:
    search = {"googleSearch": {}}
    tools = [
        {"functionDeclarations": [SPEC]},
        search,
        {"name": "g", "parameters": {"type": "OBJECT"}},
    ]
    ir = PromptIR(tools=tuple(map(ToolDef.read, tools)), history=History((USER,), "gemini"))
    sent = compile(ir, "gemini").request
    assert sent["tools"] == [{"functionDeclarations": [SPEC, tools[2]]}, search]
    assert refusal(sent) is None
    with pytest.raises(InvalidArgumentError, match="gemini itself"):
        compile(ir, "anthropic")
    with pytest.raises(InvalidArgumentError, match="each function by itself"):
        ToolDef.read({"functionDeclarations": [SPEC, SPEC]})


def test_a_loop_of_ones_own_reads_calls_and_writes_results() -> None:
    made = ToolCall.read(call(id="a", args={"x": 1}))
    assert made is not None and (made.id, made.arguments()) == ("a", {"x": 1})
    nameless = ToolCall.read({"function_call": {"name": "f", "args": None}})
    assert nameless is not None and (nameless.id, nameless.arguments()) == ("", {})
    results = result_entries([made.result("4"), nameless.result("no", is_error=True)])
    assert broken(USER, model(call(id="a"), call()), *results) == []
    assert results[0]["parts"][1]["functionResponse"] == {"name": "f", "response": {"error": "no"}}
    assert tool_definition("gemini", "f", "", {"type": "object"}) == SPEC


def test_a_context_goes_on_turn_by_turn() -> None:
    context = Context(model="gemini-3.5-flash", budget=Budget(soft_tokens=1_200))
    assert context.provider == "gemini"
    for turn in range(12):
        context.add(user({"text": f"Question {turn}. " + "word " * 60}))
        assert refusal(context.prompt().request) is None
        response = {"output": "found " * 60}
        context.add(model(call(id=f"c{turn}")), user(answer(response=response)))
        assert refusal(context.prompt().request) is None
        context.add(model({"text": f"Answer {turn}. " + "said " * 40}))
    assert len(context.prompt().messages) < 48


@pytest.mark.parametrize("ids", [True, False])
def test_nothing_comes_after_calls_of_which_some_are_answered(ids: bool) -> None:
    def named(name: str) -> dict[str, Any]:
        return {"name": name, **({"id": name} if ids else {})}

    entries = [
        {"role": "user", "parts": [{"text": "Go on."}]},
        {"role": "model", "parts": [{"functionCall": named(name)} for name in ("one", "two")]},
        {"role": "user", "parts": [{"functionResponse": {**named("two"), "response": {}}}]},
    ]
    note = Section("note", "Know.", Provenance("semantic", trust=0.5), anchor=len(entries))
    ir = PromptIR(ContextRequest("x"), (note,), (), History(tuple(entries), "gemini"))
    messages = compile(ir, "gemini").messages
    assert validate(messages, "gemini") == []
    assert messages[-2:] == entries[1:]


def test_parts_that_are_objects_are_read() -> None:
    part = pytest.importorskip("google.genai.types").Part(text="Which berth is free?")
    (message,) = parse([{"role": "user", "parts": [part]}]).messages
    assert message.text == "Which berth is free?"


def test_a_part_of_no_shape_is_named() -> None:
    with pytest.raises(InvalidMessageError, match=r"parts\[0\] is None"):
        parse([{"role": "user", "parts": [None]}])


@pytest.mark.parametrize("data", ["8PHy_w", "8PHy_w==", "8PHy/w"])
def test_data_is_padded_base64_of_the_usual_alphabet(data: str) -> None:
    entry = user({"inlineData": {"mimeType": "image/png", "data": data}})
    for provider, key in (("anthropic", "8PHy/w=="), ("bedrock", repr(b"\xf0\xf1\xf2\xff"))):
        context = Context(provider=provider, format="gemini")
        context.add(entry)
        assert key in repr(context.prompt().request)


def named_calls(number: int, *, ids: bool) -> list[dict[str, Any]]:
    return [{"name": f"f{n}", **({"id": f"x{n}"} if ids else {})} for n in range(number)]


@pytest.mark.parametrize("ids", [True, False])
def test_calls_are_paired_whatever_the_order_of_their_responses(ids: bool) -> None:
    calls = named_calls(200, ids=ids)
    answers = [{"functionResponse": {**each, "response": {}}} for each in reversed(calls)]
    _, called, answered = parse(
        [user({"text": "Go."}), model(*[{"functionCall": each} for each in calls]), user(*answers)]
    ).messages
    assert called.calls == answered.answers[::-1]


def test_a_response_without_a_call_has_an_id_of_its_own() -> None:
    answer = {"functionResponse": {"name": "f", "response": {}}}
    entries = [user({"text": "Go."}), model({"functionCall": {"name": "f"}}), user(answer, answer)]
    _, called, answered = parse(entries).messages
    assert called.calls == answered.answers[:1]
    assert len(set(answered.answers)) == 2


def test_one_text_is_a_part_and_one_mapping_is_named() -> None:
    (message,) = parse([{"role": "user", "parts": "Which berth is free?"}]).messages
    assert message.text == "Which berth is free?"
    with pytest.raises(InvalidMessageError, match=r"parts is a dict.*wrap the part in a list"):
        parse([{"role": "user", "parts": {"text": "Which berth is free?"}}])


@pytest.mark.parametrize("blank", ["", " ", "\n"])
@pytest.mark.parametrize("name", ["gemini", "bedrock"])
def test_a_blank_first_text_stays_where_all_else_begins_with_the_model(name, blank: str) -> None:
    words = "The berths are free. " * 200
    texts = [blank, words, words, words]
    if name == "gemini":
        entries = [(model if n % 2 else user)({"text": each}) for n, each in enumerate(texts)]
    else:
        entries = [
            {"role": ("user", "assistant")[n % 2], "content": [{"text": each}]}
            for n, each in enumerate(texts)
        ]
    kept = compact_context(entries, budget_tokens=0, format=name).messages
    assert kept[0] is entries[0]
    assert [each.rule for each in validate(kept, name)] == [
        each.rule for each in validate(entries, name)
    ]


def test_a_user_who_said_nothing_still_comes_before_the_models_calls() -> None:
    asked = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    context = Context(format="openai_chat", provider="gemini")
    for entry in (
        {"role": "user", "content": "Which berth?"},
        {"role": "assistant", "content": "I look."},
        {"role": "user", "content": ""},
        {"role": "assistant", "content": None, "tool_calls": [asked]},
        {"role": "tool", "tool_call_id": "c", "content": ""},
    ):
        context.add(entry)
        contents = context.prompt().messages
        assert validate(contents, "gemini") == []
        assert context.prefix is None or context.prefix.extends
    assert contents[2] == {"role": "user", "parts": [{"text": "(empty)"}]}


def test_what_was_said_in_speech_is_text() -> None:
    heard = {"text": "Which berth?", "finished": True, "words": [{"word": "Which"}]}
    sound = {"inlineData": {"mimeType": "audio/wav", "data": "UklGRg=="}}
    for part in ({"audioTranscription": heard}, {"audio_transcription": heard}):
        (message,) = parse([{"role": "user", "parts": [part]}]).messages
        assert message.text == "Which berth?"
        for parts in ([part], [{**sound, **part}]):
            assert validate([{"role": "user", "parts": parts}], "gemini") == []
    history = History(({"role": "user", "parts": [{"audioTranscription": heard}]},), "gemini")
    assert "Which berth?" in str(compile(PromptIR(history=history), "anthropic").messages)
