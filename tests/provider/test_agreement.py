"""The strict provider accepts what rehydrate calls valid, and what it compiles.

They share no code: each was written from the providers' documentation.
"""

import copy
import json
import typing
from typing import NamedTuple

import anthropic.types as claude
import pytest
from hypothesis import given, settings, strategies as st
from openai.types import chat, responses
from openai.types.responses import response_input_item_param as items

from rehydrate import compact_context
from rehydrate.formats import validate
from rehydrate.prompt import ContextRequest, History, PromptIR, Provenance, ToolDef, compile
from tests.prompt.example_irs import lawful_irs
from tests.provider import chat_shape, messages_shape, responses_shape
from tests.provider.apis import apis, refusal
from tests.provider.errors import RefusedError
from tests.provider.replies import Call, ScriptedReply
from tests.provider.sendable import request_of, sendable
from tests.provider.settings import Settings
from tests.strategies import BY_FORMAT, damaged

FORMATS = ["anthropic", "openai_chat", "openai_responses"]
# Generated thinking has no valid signature, and one block type is made up.
ELSEWHERE = {
    "checks_signatures": False,
    "extra_blocks": ("from_the_future",),
    "takes_system": True,
}
TOOL = ToolDef("get", "Gets it.", {"type": "object"}, None, "anthropic", 9, Provenance("tools"))


@pytest.mark.parametrize("format", FORMATS)
@given(data=st.data())
def test_what_is_valid_is_taken_and_so_is_what_is_compacted(format, data):
    entries = sendable(format, data.draw(BY_FORMAT[format]()))
    assert validate(entries, format) == []
    assert refusal(format, request_of(format, entries), **ELSEWHERE) is None
    ratio = data.draw(st.sampled_from([0.1, 0.3, 0.6, 0.9]))
    kept = compact_context(entries, target_ratio=ratio, format=format, thinking="keep").messages
    assert refusal(format, request_of(format, kept), **ELSEWHERE) is None


@pytest.mark.parametrize("format", FORMATS)
@given(data=st.data())
def test_what_is_valid_after_damage_is_taken_too(format, data):
    entries = data.draw(BY_FORMAT[format]().flatmap(damaged))
    if validate(entries, format) == []:
        request = request_of(format, sendable(format, entries))
        assert refusal(format, request, **ELSEWHERE) is None


@pytest.mark.parametrize("format", FORMATS)
@settings(max_examples=settings().max_examples // 3)
@given(data=st.data())
def test_what_is_compiled_is_taken_by_whom_it_is_for(format, data):
    entries = sendable(format, data.draw(BY_FORMAT[format]()))
    ir = data.draw(lawful_irs())
    history = History(tuple(entries), format)
    ir = PromptIR(ContextRequest("Go on."), ir.sections, (TOOL,), history)
    for provider in FORMATS:
        compiled = compile(ir, provider, minimum_prefix=1)
        request = json.loads(json.dumps({"model": "test", **compiled.request}))
        if provider == "anthropic":
            request["max_tokens"] = 100
        assert refusal(provider, request, **ELSEWHERE) is None


@pytest.mark.parametrize("thinks", [None, "Hm."])
@pytest.mark.parametrize("has_ids", [True, False])
@pytest.mark.parametrize("format", FORMATS)
def test_what_is_left_of_parallel_calls_is_taken(format, has_ids, thinks):
    api = apis(Settings())[format]
    calls = tuple(Call("get", {"of": f"module_{n}"}) for n in range(5))
    entries = [{"role": "user", "content": "Read all five."}]
    request = request_of(format, entries)
    if format == "anthropic" and thinks:
        request |= {"model": "claude-opus-5-5", "thinking": {"type": "adaptive"}}
    elif format == "openai_responses":
        request |= {"model": "gpt-5.2", "include": ["reasoning.encrypted_content"], "store": False}
    reply = api.reply(request, ScriptedReply("Reading.", calls, thinks))[0]
    if format == "anthropic":
        said = [{"role": "assistant", "content": reply["content"]}]
        made = [each["id"] for each in reply["content"] if each["type"] == "tool_use"]
        results = [{"type": "tool_result", "tool_use_id": each} for each in made]
    elif format == "openai_chat":
        message = reply["choices"][0]["message"]
        said = [{key: message[key] for key in ("role", "content", "tool_calls")}]
        made = [each["id"] for each in said[0]["tool_calls"]]
        results = [{"role": "tool", "tool_call_id": each} for each in made]
    else:
        said = reply["output"]
        made = [each["call_id"] for each in said if each["type"] == "function_call"]
        results = [{"type": "function_call_output", "call_id": each} for each in made]
        said = said if has_ids else [_without_id(each) for each in said]
    for number, result in enumerate(results):
        key = "output" if format == "openai_responses" else "content"
        result[key] = f"def part_{number}(): ..." + f" use_{number}()" * 30
    if format == "anthropic":
        results = [{"role": "user", "content": results}]
    end = [{"role": "assistant", "content": "Read."}, {"role": "user", "content": "Use part_2."}]
    history = [*entries, *said, *results, *end]
    counts = set()
    for percent in range(5, 100, 5):
        kept = compact_context(history, target_ratio=percent / 100, thinking="keep").messages
        key = "input" if format == "openai_responses" else "messages"
        api.check({**request, key: json.loads(json.dumps(kept))})
        counts.add(sum(str(kept).count(each) for each in made) // 2)
    # Signed or named items of one thought are taken or left together.
    is_bound = thinks and (format == "anthropic" or (format == "openai_responses" and has_ids))
    assert counts <= {0, 5} if is_bound else counts >= {1, 2, 3, 4}


def _without_id(item):
    return {key: value for key, value in item.items() if key != "id" or item["type"] == "reasoning"}


class Talk(NamedTuple):
    """A conversation with a provider that ends in an open request."""

    api: object
    sent: dict
    """The last answered request."""
    after: dict
    """The next request, valid."""


LIST_TOOL = {"name": "get", "description": "Gets it.", "input_schema": {"type": "object"}}


@st.composite
def talks(draw):
    api = apis(Settings(binds_thinking=True))["anthropic"]
    request = {
        "model": "claude-opus-5-5",
        "max_tokens": 100,
        "system": "Be brief.",
        "tools": [LIST_TOOL],
        "thinking": {"type": "adaptive"},
        "messages": [{"role": "user", "content": "Go."}],
    }
    for number in range(draw(st.integers(1, 6))):
        sent = copy.deepcopy(request)
        api.check(request)
        calls = (Call("get", {"n": number}),) if draw(st.booleans()) else ()
        thinks = draw(st.sampled_from([None, "Hm.", "", "Let me see."]))
        reply = ScriptedReply(f"Answer {number}.", calls, thinks, is_redacted=thinks == "Hm.")
        content = api.reply(request, reply)[0]["content"]
        request["messages"].append({"role": "assistant", "content": content})
        block = {"type": "text", "text": f"And {number}?"}
        if calls:
            block = {"type": "tool_result", "tool_use_id": content[-1]["id"], "content": "ok"}
        request["messages"].append({"role": "user", "content": [block]})
    return Talk(api, sent, request)


@st.composite
def edits(draw, request):
    """The request with changes that careless code might make."""
    changed = copy.deepcopy(request)
    messages = changed["messages"]
    for _ in range(draw(st.integers(0, 3))):
        index = draw(st.integers(0, len(messages) - 1))
        content = messages[index]["content"]
        kind = draw(st.sampled_from(["think", "think", "text", "drop", "put", "system", "tools"]))
        if kind == "think" and messages[index]["role"] == "assistant":
            rest = [each for each in content if "thinking" not in each["type"]]
            messages[index]["content"] = rest
        elif kind == "text":
            texts = [each for each in content if isinstance(each, dict) and "text" in each]
            for block in texts[:1]:
                block["text"] = draw(st.sampled_from(["Changed.", block["text"]]))
        elif kind == "drop" and len(messages) > 2:
            del messages[index]
        elif kind == "put":
            messages.insert(index, {"role": "user", "content": "By the way."})
        elif kind == "system":
            changed["system"] = draw(st.sampled_from(["Be brief.", "Be long."]))
        elif kind == "tools":
            changed["tools"] = [LIST_TOOL] * draw(st.integers(1, 1))
            changed["tools"] += draw(st.sampled_from([[], [{**LIST_TOOL, "name": "put"}]]))
    return changed


@given(st.data())
def test_both_say_the_same_of_thinking_behind_a_changed_prefix(data):
    talk = data.draw(talks())
    assert refusal_by(talk.api, talk.after) is None
    assert validate(talk.after, "anthropic", sent=talk.sent) == []
    changed = data.draw(edits(talk.after))
    found = validate(changed, "anthropic", sent=talk.sent, model="claude-opus-5-5")
    stale = [each for each in found if each.rule == "thinking_after_changed_prefix"]
    if len(stale) < len(found) or changed["messages"][-1]["role"] != "user":
        return  # refused for another reason
    words = refusal_by(talk.api, changed)
    if words is not None and "without `tool_result`" in words:
        return  # valid as a conversation, but not as a request: results are missing
    assert (words is not None) == bool(stale), (words, stale)
    if words is not None:
        assert words.startswith(f"messages.{stale[0].index}.content.")
        assert "The block is bound to a different conversation." in words


def refusal_by(api, request):
    try:
        api.check(request)
    except RefusedError as refused:
        return refused.message
    return None


# The shapes have the same fields as the types of the official SDKs.


def fields_of(model):
    return {field.alias for field in model.model_fields.values()}


def typed(sdk_type):
    return set(typing.get_type_hints(sdk_type))


def kind_of(block):
    return typing.get_args(block.model_fields["type_"].annotation)[0]


CLAUDE = {kind_of(block): block for block in messages_shape.BLOCKS}


@pytest.mark.parametrize(
    ("model", "sdk_type", "other"),
    [
        (CLAUDE["text"], claude.TextBlockParam, set()),
        (CLAUDE["image"], claude.ImageBlockParam, set()),
        (CLAUDE["document"], claude.DocumentBlockParam, set()),
        (CLAUDE["search_result"], claude.SearchResultBlockParam, set()),
        (CLAUDE["tool_use"], claude.ToolUseBlockParam, set()),
        (CLAUDE["tool_result"], claude.ToolResultBlockParam, set()),
        (CLAUDE["thinking"], claude.ThinkingBlockParam, set()),
        (CLAUDE["redacted_thinking"], claude.RedactedThinkingBlockParam, set()),
        (CLAUDE["compaction"], claude.beta.BetaCompactionBlockParam, set()),
        (
            messages_shape.request_shape()[0],
            claude.message_create_params.MessageCreateParamsStreaming,
            # Headers; what the models before these had; and betas.
            {"user_profile_id", "workspace_id", "temperature", "top_k", "top_p"}
            | {"compaction", "context_management"},
        ),
        (chat_shape.MESSAGES["system"], chat.ChatCompletionSystemMessageParam, set()),
        (chat_shape.MESSAGES["user"], chat.ChatCompletionUserMessageParam, set()),
        (chat_shape.MESSAGES["assistant"], chat.ChatCompletionAssistantMessageParam, set()),
        (chat_shape.MESSAGES["tool"], chat.ChatCompletionToolMessageParam, set()),
        (
            chat_shape.request_shape(),
            chat.completion_create_params.CompletionCreateParamsStreaming,
            set(),
        ),
        (responses_shape.ITEMS["reasoning"], responses.ResponseReasoningItemParam, set()),
        (
            responses_shape.ITEMS["function_call"],
            responses.ResponseFunctionToolCallParam,
            {"async"},
        ),
        (responses_shape.ITEMS["function_call_output"], items.FunctionCallOutput, set()),
        (
            responses_shape.request_shape(),
            responses.response_create_params.ResponseCreateParamsStreaming,
            # Newer than what is written about them.
            {"access_programs", "background_options", "image"},
        ),
        (
            responses_shape.compact_shape(),
            responses.response_compact_params.ResponseCompactParams,
            {"image"},
        ),
    ],
)
def test_a_shape_has_the_fields_of_the_sdks_type(model, sdk_type, other):
    assert fields_of(model) - other == typed(sdk_type) - other
