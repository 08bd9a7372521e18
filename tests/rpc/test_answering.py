"""The protocol: which request gets which reply."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st

import rehydrate
from rehydrate.rpc import Server, tool
from rehydrate.rpc.server import PROTOCOL_VERSION, PROTOCOL_VERSIONS

HELLO = [{"role": "user", "content": "hello"}]
TALK = [
    message
    for turn in range(20)
    for message in (
        {"role": "user", "content": f"Question {turn}: what about the parser of dates?"},
        {"role": "assistant", "content": f"Answer {turn}: it takes 4{turn}7 formats. " * 4},
    )
]


def answer(request: object) -> object:
    reply = Server().answer(request)
    return None if reply is None else json.loads(reply)


def ask(method: str, params: object = None, identity: object = 1) -> dict:
    request = {"jsonrpc": "2.0", "id": identity, "method": method}
    return answer(request if params is None else request | {"params": params})


def compact(**arguments: object) -> dict:
    return ask("tools/call", {"name": "compact_context", "arguments": arguments})


def code(reply: dict) -> int:
    assert reply.keys() == {"jsonrpc", "id", "error"}
    assert reply["error"].keys() == {"code", "message"}
    return reply["error"]["code"]


@pytest.mark.parametrize("identity", ["a", "", "1", 0, 7, -1, 1.5, 2**60, None, "\ud800"])
def test_an_id_comes_back_as_it_was(identity):
    assert ask("ping", identity=identity) == {"jsonrpc": "2.0", "id": identity, "result": {}}
    assert ask("pong", identity=identity)["id"] == identity


def test_initialize_echoes_the_protocol_version_and_says_who_answers():
    result = ask("initialize", {"protocolVersion": "2024-11-05", "capabilities": {}})["result"]
    assert result == {
        "protocolVersion": "2024-11-05",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "rehydrate", "version": rehydrate.__version__},
    }
    assert ask("initialize")["result"]["protocolVersion"] == PROTOCOL_VERSION


def test_tools_list_has_the_one_tool():
    (listed,) = ask("tools/list", {"cursor": "x"})["result"]["tools"]
    assert listed == json.loads(json.dumps(tool.describe()))


def test_a_call_answers_with_the_object_under_both_names_and_as_text():
    result = compact(messages=TALK, query="formats")["result"]
    assert result.keys() == {"content", "isError", "structuredContent", "structured"}
    assert result["isError"] is False
    assert result["structured"] == result["structuredContent"]
    (block,) = result["content"]
    assert block.keys() == {"type", "text"}
    assert json.loads(block["text"]) == result["structured"]
    expected = rehydrate.compact_context(TALK, "formats").to_dict()
    assert result["structured"]["messages"] == expected["messages"] != TALK
    assert result["structured"]["stats"].keys() == expected["stats"].keys()


def test_every_argument_reaches_the_function():
    result = compact(
        messages=TALK, query=None, target_ratio=1, budget_tokens=99.0, scoring="chitta",
        counter="chars", format="plain", granularity="message", pin=[0, -1.0],
    )["result"]  # fmt: skip
    stats = result["structured"]["stats"]
    assert (stats["target_tokens"], stats["counter"], stats["format"]) == (99, "chars", "plain")
    assert result["structured"]["messages"][0] == TALK[0]
    assert result["structured"]["messages"][-1] == TALK[-1]


@pytest.mark.parametrize("method", ["notifications/initialized", "notifications/x", "tools/call"])
def test_a_notification_is_never_answered(method):
    assert answer({"jsonrpc": "2.0", "method": method, "params": 3}) is None


@pytest.mark.parametrize(
    ("request_", "identity", "said"),
    [
        (3, None, "a number"),
        ("x" * 99, None, "a string"),
        (None, None, "null"),
        (True, None, "true"),
        ([], None, "an empty array"),
        ({}, None, "jsonrpc is missing"),
        ({"jsonrpc": 2.0, "id": 4, "method": "ping"}, 4, "jsonrpc is a number; send the string"),
        ({"jsonrpc": "1.0", "id": 4, "method": "ping"}, 4, "jsonrpc is '1.0'"),
        ({"jsonrpc": "2.0", "id": "q"}, "q", "method is missing"),
        ({"jsonrpc": "2.0", "method": 1}, None, "method is a number"),
        ({"jsonrpc": "2.0", "method": "ping", "id": True}, None, "id is true"),
        ({"jsonrpc": "2.0", "method": "ping", "id": [1]}, None, "id is an array"),
        ({"jsonrpc": "2.0", "method": "ping", "id": {}}, None, "id is an object"),
    ],
)
def test_what_is_no_request_is_refused(request_, identity, said):
    reply = answer(request_)
    assert (code(reply), reply["id"]) == (-32600, identity)
    assert said in reply["error"]["message"]


def test_a_batch_is_answered_with_an_array_without_the_notifications():
    ping = {"jsonrpc": "2.0", "method": "ping"}
    replies = answer([ping | {"id": 1}, ping, 3, ping | {"id": "b"}, [ping]])
    assert [reply["id"] for reply in replies] == [1, None, "b", None]
    assert [code(replies[1]), code(replies[3])] == [-32600, -32600]
    assert answer([ping, ping]) is None


@pytest.mark.parametrize(
    ("method", "params", "expected", "said"),
    [
        ("tool/list", None, -32601, "did you mean 'tools/list'?; there are initialize, ping"),
        ("", None, -32601, "no method ''"),
        ("ping", [1], -32602, "params is an array; send an object"),
        ("tools/list", "x", -32602, "params is 'x'"),
        ("tools/call", None, -32602, "name is missing; name a tool: 'compact_context'"),
        ("tools/call", {"name": 3}, -32602, "name is a number"),
        ("tools/call", {"name": "compact"}, -32601, "no tool 'compact'; there is"),
        ("tools/call", {"name": "compact_context"}, -32602, "messages is missing; send"),
        ("tools/call", {"name": "compact_context", "arguments": []}, -32602, "arguments is an"),
    ],
)
def test_unknown_names_and_wrong_params_have_their_codes(method, params, expected, said):
    reply = ask(method, params)
    assert code(reply) == expected
    assert said in reply["error"]["message"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"mesages": HELLO}, "no argument 'mesages', did you mean 'messages'?; it takes messages,"),
        ({"memory": {}}, "no argument 'memory'"),
        ({"messages": "hello"}, "expected a list of messages; parse it first"),
        ({"messages": {"messages": []}}, "pass its 'messages'"),
        ({"messages": [3]}, "message 0 is an int"),
        ({"messages": [{"role": "user", "content": 7}]}, "message 0: content is an int"),
        ({"query": 3}, "query is a int; pass a string or None"),
        ({"target_ratio": "0.4"}, "target_ratio is '0.4'; pass the share"),
        ({"target_ratio": True}, "target_ratio is True"),
        ({"budget_tokens": -1}, "budget_tokens is -1; pass a whole number of tokens from 0 up"),
        ({"budget_tokens": 1.5}, "budget_tokens is 1.5"),
        ({"scoring": "best"}, "scoring is 'best'; choose one of 'balanced', 'chitta'"),
        ({"scoring": {}}, "scoring is {}"),
        ({"counter": ["words"]}, "counter is ['words']; choose one of"),
        ({"format": None}, "format is None; choose one of 'auto'"),
        ({"granularity": "word"}, "granularity is 'word'; choose"),
        ({"pin": 0}, "pin is of type int; pass a list"),
        ({"pin": [1]}, "pin names message 1 of 1"),
        ({"pin": [dict(HELLO[0])]}, "pin holds a dict that is none of the messages"),
    ],
)
def test_a_wrong_argument_is_refused_with_value_limit_and_remedy(arguments, said):
    reply = compact(**{"messages": HELLO, **arguments})
    assert code(reply) == -32602
    assert said in reply["error"]["message"]


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9) | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=5,
)


@given(st.sampled_from([*tool.ARGUMENTS]), anything)
def test_any_value_of_any_argument_is_taken_or_refused(name, value):
    reply = compact(**{"messages": HELLO, name: value})
    if "error" in reply:
        assert code(reply) == -32602
    else:
        assert reply["result"]["isError"] is False


def test_a_failure_that_is_not_the_arguments_is_a_result_that_says_so(monkeypatch):
    def fail(*_args, **_options):
        raise rehydrate.errors.InternalError("pack.rs:1: oh")

    monkeypatch.setattr(tool, "compact_context", fail)
    result = compact(messages=HELLO)["result"]
    assert result["isError"] is True
    assert "InternalError: pack.rs:1: oh" in result["content"][0]["text"]


def test_messages_too_deep_to_write_are_answered():
    nested: list = []
    for _ in range(100_000):
        nested = [nested]
    reply = compact(messages=[*HELLO, {"role": "user", "content": "x", "deep": nested}])
    assert "RecursionError" in json.dumps(reply)
    while nested:  # taken apart by hand: freeing it at once would recurse too
        nested = nested[0]


def negotiated(version: object, *calls: dict) -> list[dict]:
    """The replies of one server to an initialize with this version, and to calls of the tool."""
    server = Server()
    asked = [{"method": "initialize", "params": {"protocolVersion": version}}]
    asked += [
        {"method": "tools/call", "params": {"name": "compact_context", "arguments": each}}
        for each in calls
    ]
    return [json.loads(server.answer({"jsonrpc": "2.0", "id": 1, **each})) for each in asked]


def test_only_versions_that_are_spoken_are_negotiated():
    for version in PROTOCOL_VERSIONS:
        assert negotiated(version)[0]["result"]["protocolVersion"] == version
    for version in ("1999-01-01", "2026-07-28", "", "x", 5, None, []):
        result = negotiated(version)[0]["result"]
        assert result["protocolVersion"] == PROTOCOL_VERSIONS[-1] == "2025-11-25"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"mesages": HELLO}, "no argument 'mesages', did you mean 'messages'?"),
        ({}, "messages is missing; send the conversation"),
        ({"messages": HELLO, "budget_tokens": -1}, "budget_tokens is -1; pass a whole number"),
        ({"messages": [3]}, "message 0 is an int"),
    ],
)
def test_a_wrong_argument_is_a_result_in_the_version_that_says_so(arguments, said):
    _, wrong, right = negotiated("2025-11-25", arguments, {"messages": HELLO})
    assert wrong["result"]["isError"] is True
    assert wrong["result"].keys() == {"content", "isError"}
    assert said in wrong["result"]["content"][0]["text"]
    assert right["result"]["isError"] is False
    for version in PROTOCOL_VERSIONS[:-1]:
        assert code(negotiated(version, arguments)[1]) == -32602


def test_what_is_no_call_is_an_error_of_the_protocol_in_every_version():
    server = Server()
    for params in ({}, {"name": 3}, {"name": "compact_context", "arguments": []}):
        for version in PROTOCOL_VERSIONS:
            asked = {"jsonrpc": "2.0", "id": 1, "method": "initialize"}
            server.answer(asked | {"params": {"protocolVersion": version}})
            request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
            assert code(json.loads(server.answer(request))) == -32602
