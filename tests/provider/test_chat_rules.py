"""Every rule of the chat API: one request that it refuses, and the nearest that it takes."""

import pytest

from tests.provider.sdk_clients import openai_served, refusal_of

ASK = {"role": "user", "content": "Go on."}
SAY = {"role": "assistant", "content": "It is done."}


def messages(*entries, **more):
    return {"messages": list(entries), **more}


def calls(*ids, **more):
    made = [
        {"id": call, "type": "function", "function": {"name": "get", "arguments": "{}", **more}}
        for call in ids
    ]
    return {"role": "assistant", "content": None, "tool_calls": made}


def answer(call="call_1"):
    return {"role": "tool", "tool_call_id": call, "content": "found"}


def tool(**more):
    function = {"name": "get", "parameters": {"type": "object"}, **more}
    return {"tools": [{"type": "function", "function": function}]}


def part(kind, **more):
    return messages({"role": "user", "content": [{"type": kind, **more}]})


_PROPERTIES = {"type": "object", "properties": {"a": {"type": "string"}}}

# The subject; the words of the refusal; the request refused; the nearest one taken.
RULES = {
    "a request needs a model": (
        "Missing required parameter: 'model'.",
        {"model": None},
        {"model": "gpt-5.2"},
    ),
    "there is a message": (
        "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an",
        messages(),
        messages(ASK),
    ),
    "a request has no other fields": (
        "Unknown parameter: 'context'.",
        {"context": 1},
        {"metadata": {"a": "b"}},
    ),
    "a message has no other fields": (
        "Unknown parameter: 'messages[0].cache_control'.",
        messages({**ASK, "cache_control": {"type": "ephemeral"}}),
        messages({**ASK, "name": "ann"}),
    ),
    "roles are known": (
        "Invalid value: 'human'. Supported values are: 'system', 'developer', 'user', 'assistant',",
        messages({**ASK, "role": "human"}),
        messages({**ASK, "role": "developer"}),
    ),
    "a message has a role": (
        "Missing required parameter: 'messages[0].role'.",
        messages({"content": "x"}),
        messages(ASK),
    ),
    "a user's content isn't null": (
        "Invalid type for 'messages[0].content': expected one of a string or array of objects, but "
        "got null instead.",
        messages({"role": "user", "content": None}),
        messages({"role": "user", "content": ""}),
    ),
    "an assistant's content is null only with calls": (
        "Invalid value for 'content': expected a string, got null.",
        messages(ASK, {"role": "assistant", "content": None}),
        messages(ASK, calls("call_1"), answer()),
    ),
    "content has a part": (
        "Invalid 'messages[0].content': empty array.",
        messages({"role": "user", "content": []}),
        part("text", text="x"),
    ),
    "parts are known": (
        "Invalid value: 'input_text'. Supported values are: 'text', 'image_url', 'input_audio',",
        part("input_text", text="x"),
        part("image_url", image_url={"url": "data:image/png;base64,iVBORw0KGgo="}),
    ),
    "an assistant shows no images": (
        "Invalid value: 'image_url'. Supported values are: 'text' and 'refusal'.",
        messages(ASK, {"role": "assistant", "content": [{"type": "image_url", "image_url": {}}]}),
        messages(ASK, {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}),
    ),
    "a call is answered": (
        "An assistant message with 'tool_calls' must be followed by tool messages responding to "
        "each 'tool_call_id'. The following tool_call_ids did not have response messages: call_1",
        messages(ASK, calls("call_1"), ASK),
        messages(ASK, calls("call_1"), answer(), ASK),
    ),
    "the last call is answered": (
        "did not have response messages: call_2",
        messages(ASK, calls("call_1", "call_2"), answer()),
        messages(ASK, calls("call_1", "call_2"), answer("call_2"), answer()),
    ),
    "answers come directly": (
        "did not have response messages: call_1",
        messages(ASK, calls("call_1"), ASK, answer()),
        messages(ASK, calls("call_1"), answer(), ASK),
    ),
    "an answer has its call": (
        "Invalid parameter: messages with role 'tool' must be a response to a preceeding message",
        messages(ASK, SAY, answer()),
        messages(ASK, calls("call_1"), answer()),
    ),
    "an answer has the id of its call": (
        "Invalid parameter: 'tool_call_id' of 'call_2' not found in 'tool_calls' of previous",
        messages(ASK, calls("call_1"), answer("call_2")),
        messages(ASK, calls("call_2"), answer("call_2")),
    ),
    "an answer comes once": (
        "Invalid parameter: Duplicate value for 'tool_call_id' of 'call_1', in messages[2] and",
        messages(ASK, calls("call_1"), answer(), answer()),
        messages(ASK, calls("call_1"), answer(), calls("call_1"), answer()),
    ),
    "an answer has an id": (
        "Missing required parameter: 'messages[2].tool_call_id'.",
        messages(ASK, calls("call_1"), {"role": "tool", "content": "x"}),
        messages(ASK, calls("call_1"), answer()),
    ),
    "calls aren't an empty list": (
        "Invalid 'messages[1].tool_calls': empty array.",
        messages(ASK, {**SAY, "tool_calls": []}),
        messages(ASK, SAY),
    ),
    "arguments are a string": (
        "Invalid type for 'messages[1].tool_calls[0].function.arguments': expected a string, but "
        "got an object instead.",
        messages(ASK, calls("call_1", arguments={}), answer()),
        messages(ASK, calls("call_1", arguments="no JSON"), answer()),
    ),
    "a call has no other fields": (
        "Unknown parameter: 'messages[1].tool_calls[0].function.parsed'.",
        messages(ASK, calls("call_1", parsed={}), answer()),
        messages(ASK, calls("call_1"), answer()),
    ),
    "a call's id is short": (
        "Invalid 'messages[1].tool_calls[0].id': string too long. Expected a string with maximum "
        "length 40, but got a string with length 41 instead.",
        messages(ASK, calls("c" * 41), answer("c" * 41)),
        messages(ASK, calls("c" * 40), answer("c" * 40)),
    ),
    "a name is of letters, digits, dashes": (
        "Invalid 'tools[0].function.name': string does not match pattern. Expected a string that "
        "matches the pattern '^[a-zA-Z0-9_-]+$'.",
        tool(name="get.it"),
        tool(name="get-it"),
    ),
    "tools aren't an empty list": ("Invalid 'tools': empty array.", {"tools": []}, tool()),
    "a choice needs tools": (
        "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified",
        {"tool_choice": "auto"},
        {"tool_choice": "auto", **tool()},
    ),
    "a choice is known": (
        "Invalid value: 'any'. Supported values are: 'none', 'auto', and 'required'.",
        {"tool_choice": "any", **tool()},
        {"tool_choice": "required", **tool()},
    ),
    "a schema is of an object": (
        "Invalid schema for function 'get': schema must be a JSON Schema of 'type: \"object\"',",
        tool(parameters={"type": "string"}),
        tool(parameters=_PROPERTIES),
    ),
    "a strict schema is closed": (
        "Invalid schema for function 'get': In context=(), 'additionalProperties' is required",
        tool(parameters=_PROPERTIES, strict=True),
        tool(
            parameters={**_PROPERTIES, "required": ["a"], "additionalProperties": False},
            strict=True,
        ),
    ),
    "a strict schema requires all": (
        "In context=(), 'required' is required to be supplied and to be an array including every",
        tool(parameters={**_PROPERTIES, "additionalProperties": False}, strict=True),
        tool(parameters={**_PROPERTIES, "additionalProperties": False}),
    ),
    "a prompt fits the window": (
        "This model's maximum context length is 20000 tokens. However, your messages resulted in "
        "30000 tokens. Please reduce the length of the messages.",
        messages({"role": "user", "content": "x" * 105_000}),
        messages({"role": "user", "content": "x" * 70_000}),
    ),
}


@pytest.fixture(scope="module")
def client():
    with openai_served(lambda request, wire: "Yes.", window_tokens=20_000) as (_, client):
        yield client


@pytest.mark.parametrize("rule", RULES)
def test_what_breaks_a_rule_is_refused_and_its_neighbour_taken(client, rule):
    words, broken, sound = RULES[rule]
    refusal = refusal_of(client, "/chat/completions", request(broken))
    assert refusal is not None
    assert words in refusal
    assert refusal_of(client, "/chat/completions", request(sound)) is None


def request(changes):
    whole = {"model": "gpt-5.2", **messages(ASK), **changes}
    return {key: value for key, value in whole.items() if value is not None}
