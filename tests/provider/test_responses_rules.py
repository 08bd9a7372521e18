"""Every rule of the Responses API: one request that it refuses, and the nearest that it takes."""

import pytest

from tests.provider import Call, ScriptedReply
from tests.provider.sdk_clients import openai_served, refusal_of

ASK = {"role": "user", "content": "Go on."}
TOOL = {"type": "function", "name": "get", "parameters": {"type": "object"}}


def items(*entries, **more):
    return {"input": list(entries), **more}


def call(call_id="call_1", **more):
    return {
        "type": "function_call",
        "call_id": call_id,
        "name": "get",
        "arguments": "{}",
        **more,
    }


def output(call_id="call_1", **more):
    return {"type": "function_call_output", "call_id": call_id, "output": "found", **more}


def assistant_message(kind):
    return {"role": "assistant", "content": [{"type": kind, "text": "x"}]}


# The subject; the words of the refusal; the request refused; the nearest one taken.
RULES = {
    "a request needs a model": (
        "Missing required parameter: 'model'.",
        {"model": None},
        {"model": "gpt-5.2"},
    ),
    "a request has no other fields": (
        "Unknown parameter: 'messages'.",
        {"messages": [ASK]},
        {"metadata": {}},
    ),
    "there is an input": ("Missing required parameter", items(), {"input": "Go on."}),
    "an item has no other fields": (
        "Unknown parameter: 'input[0].name'.",
        items({**ASK, "name": "ann"}),
        items({**ASK, "type": "message"}),
    ),
    "a call has no other fields": (
        "Unknown parameter: 'input[1].parsed_arguments'.",
        items(ASK, call(parsed_arguments=None), output()),
        items(ASK, call(status="completed"), output()),
    ),
    "a call's status isn't null": (
        "Invalid value: 'None'.",
        items(ASK, call(status=None), output()),
        items(ASK, call(), output()),
    ),
    "an item has a type": (
        "Missing required parameter: 'input[0].type'.",
        items({"content": "x"}),
        items(ASK),
    ),
    "items are known": (
        "Invalid value: 'tool_result'. Supported values are: 'message', 'reasoning',",
        items({"type": "tool_result"}),
        items(ASK),
    ),
    "roles are known": (
        "Invalid value: 'tool'. Supported values are: 'user', 'assistant', 'system', and",
        items({**ASK, "role": "tool"}),
        items({**ASK, "role": "developer"}),
    ),
    "a message has content": (
        "Missing required parameter: 'input[0].content'.",
        items({"role": "user"}),
        items({"role": "user", "content": ""}),
    ),
    "content isn't null": (
        "Invalid type for 'input[0].content': expected one of a string or array of objects, but "
        "got null instead.",
        items({"role": "user", "content": None}),
        items({"role": "user", "content": []}),
    ),
    "what the assistant said is output": (
        "Invalid value: 'input_text'. Supported values are: 'output_text' and 'refusal'.",
        items(ASK, assistant_message("input_text")),
        items(ASK, assistant_message("output_text")),
    ),
    "what the user said is input": (
        "Invalid value: 'output_text'. Supported values are: 'input_text', 'input_image', and",
        items({**assistant_message("output_text"), "role": "user"}),
        items({**assistant_message("input_text"), "role": "user"}),
    ),
    "a call has its output": (
        "No tool output found for function call call_1.",
        items(ASK, call(), ASK),
        items(ASK, call(), ASK, output()),
    ),
    "all calls have their output": (
        "No tool output found for function call call_2.",
        items(ASK, call(), call("call_2"), output()),
        items(ASK, call(), call("call_2"), output("call_2"), output()),
    ),
    "an output has its call": (
        "No tool call found for function call output with call_id call_1.",
        items(ASK, output()),
        items(ASK, call(), output()),
    ),
    "an output follows its call": (
        "No tool call found for function call output with call_id call_1.",
        items(ASK, output(), call()),
        items(ASK, call(), output()),
    ),
    "an output comes once": (
        "No tool call found for function call output with call_id call_1.",
        items(ASK, call(), output(), output()),
        items(ASK, call(), output(), call(), output()),
    ),
    "kinds of calls do not mix": (
        "No tool call found for custom tool call output with call_id call_1.",
        items(ASK, call(), {**output(), "type": "custom_tool_call_output"}),
        items(
            ASK,
            {"type": "custom_tool_call", "call_id": "call_1", "name": "get", "input": "x"},
            {**output(), "type": "custom_tool_call_output"},
        ),
    ),
    "a call has a call_id": (
        "Missing required parameter: 'input[1].call_id'.",
        items(ASK, {key: value for key, value in call().items() if key != "call_id"}, output()),
        items(ASK, call(), output()),
    ),
    "arguments are a string": (
        "Invalid type for 'input[1].arguments': expected a string, but got an object instead.",
        items(ASK, call(arguments={}), output()),
        items(ASK, call(arguments="no JSON"), output()),
    ),
    "ids begin as the API's do": (
        "Invalid 'input[1].id': 'call_1'. Expected an ID that begins with 'fc'.",
        items(ASK, call(id="call_1"), output()),
        items(ASK, call(id="fc_1"), output()),
    ),
    "ids are unique": (
        "Duplicate item found with id fc_1. Remove duplicate items from your input and try again.",
        items(ASK, call(id="fc_1"), output(), call("call_2", id="fc_1"), output("call_2")),
        items(ASK, call(id="fc_1"), output(), call("call_2", id="fc_2"), output("call_2")),
    ),
    "a response before is known": (
        "Previous response with id 'resp_1' not found.",
        {"previous_response_id": "resp_1"},
        {"previous_response_id": None},
    ),
    "a reference is to what was stored": (
        "Item with id 'msg_1' not found. Items are not persisted when `store` is set to false.",
        items({"type": "item_reference", "id": "msg_1"}),
        items(ASK),
    ),
    "a choice needs tools": (
        "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified",
        {"tool_choice": "auto"},
        {"tool_choice": "auto", "tools": [TOOL]},
    ),
    "a schema is of an object": (
        "Invalid schema for function 'get': schema must be a JSON Schema of 'type: \"object\"',",
        {"tools": [{**TOOL, "parameters": {"type": "array"}}]},
        {"tools": [TOOL]},
    ),
    "a prompt fits the window": (
        "Your input exceeds the context window of this model. Please adjust your input and try",
        {"input": "x" * 105_000},
        {"input": "x" * 70_000},
    ),
}


def respond(request, wire):
    return ScriptedReply("Well.", thinking="I should look.", calls=(Call("get"),))


@pytest.fixture(scope="module")
def client():
    with openai_served(respond, window_tokens=20_000) as (_, client):
        yield client


@pytest.mark.parametrize("rule", RULES)
def test_what_breaks_a_rule_is_refused_and_its_neighbour_taken(client, rule):
    words, broken, sound = RULES[rule]
    refusal = refused(client, broken)
    assert refusal is not None
    assert words in refusal
    assert refused(client, sound) is None


def refused(client, changes):
    whole = {"model": "gpt-5.2", "input": "Go on.", **changes}
    request = {key: value for key, value in whole.items() if value is not None}
    return refusal_of(client, "/responses", request)


def given(client, **more):
    """The reasoning, message and call of one response, and the output of the call."""
    include = ["reasoning.encrypted_content"]
    response = client.responses.create(
        model="gpt-5.2", input="Go on.", include=include, store=False, tools=[TOOL], **more
    )
    made = [item.to_dict() for item in response.output]
    return [*made, output(made[-1]["call_id"])]


def test_reasoning_comes_with_what_it_led_to(client):
    reasoning, message, made, result = given(client)
    assert refused(client, items(ASK, reasoning, message, made, result)) is None
    for alone in ([reasoning], [reasoning, ASK], [reasoning, made, result]):
        assert refused(client, items(ASK, *alone)) == (
            f"Item '{reasoning['id']}' of type 'reasoning' was provided without its required "
            "following item."
        )


def test_what_reasoning_led_to_comes_with_it(client):
    reasoning, message, made, result = given(client)
    for first, *rest in ([message], [made, result]):
        assert refused(client, items(ASK, first, *rest)) == (
            f"Item '{first['id']}' of type '{first['type']}' was provided without its required "
            f"'reasoning' item: '{reasoning['id']}'."
        )


def test_without_its_id_an_item_needs_no_reasoning(client):
    _, message, made, result = given(client)
    del message["id"], made["id"]
    assert refused(client, items(ASK, message, made, result)) is None


def test_encrypted_content_is_the_providers_own_and_of_its_item(client):
    first, second = given(client), given(client)
    swapped = {**first[0], "encrypted_content": second[0]["encrypted_content"]}
    words = f"The encrypted content for item {first[0]['id']} could not be verified."
    assert refused(client, items(ASK, swapped, *first[1:])).startswith(words)
    forged = {**first[0], "encrypted_content": "b3BhcXVl"}
    assert refused(client, items(ASK, forged, *first[1:])).startswith(words)


def test_reasoning_that_was_not_stored_comes_with_its_content(client):
    reasoning, *rest = given(client)
    del reasoning["encrypted_content"]
    words = f"Item with id '{reasoning['id']}' not found. Items are not persisted when `store`"
    assert refused(client, items(ASK, reasoning, *rest)).startswith(words)


def test_conversations_from_elsewhere_are_taken_where_a_test_says_so():
    with openai_served(respond, checks_signatures=False) as (_, client):
        thought = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "b3Bh"}
        assert refused(client, items(ASK, thought, assistant_message("output_text"))) is None
        assert refused(client, items(ASK, thought)) is not None
