"""AnthropicModel: through the real SDK, a reply goes into the history unchanged."""

import json

import pytest

from rehydrate import validate
from rehydrate.agent import AnthropicModel, Model
from rehydrate.cost import Usage
from rehydrate.errors import InvalidArgumentError, ProviderUnavailableError
from tests.agent.models.fake_transport import FakeTransport, anthropic, ask, httpx, prompt, sse

THINKING = {"type": "thinking", "thinking": "Hm…\u2028 so", "signature": "EqQBCgIYAhIM+/=="}
REDACTED = {"type": "redacted_thinking", "data": "EmwKAhgBEgy3va3pzix/LafPsn4a"}
SEARCH = {
    "type": "server_tool_use",
    "id": "srvtoolu_1",
    "name": "web_search",
    "input": {"query": "tide"},
}
FOUND = {
    "type": "web_search_tool_result",
    "tool_use_id": "srvtoolu_1",
    "content": [
        {"type": "web_search_result", "url": "https://tide.test", "encrypted_content": "Eo4B=="}
    ],
}
UNKNOWN = {"type": "hologram", "shape": {"sides": [1, 2.5, None]}, "when": "2026-11-22T10:00:00Z"}
COMPACTION = {"type": "compaction", "content": "Berth 4 was free."}
TEXT = {"type": "text", "text": "Berth 4 is free.", "citations": None}
CALL = {
    "type": "tool_use",
    "id": "toolu_1",
    "name": "book",
    "input": {"berth": 4, "név": "Réka", "weights": [0.1, 1e-7]},
}
ALL = [THINKING, REDACTED, SEARCH, FOUND, UNKNOWN, TEXT, CALL]
USAGE = {
    "input_tokens": 9,
    "output_tokens": 20,
    "cache_read_input_tokens": 100,
    "cache_creation_input_tokens": 50,
    "cache_creation": {"ephemeral_5m_input_tokens": 30, "ephemeral_1h_input_tokens": 20},
}


def message(content, stop="end_turn"):
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-x-20261101",
        "content": content,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": USAGE,
    }


def stream(content, stop="end_turn"):
    """The events as the API sends them: each block begins empty, and deltas fill it."""
    start = {**message([], None), "usage": {**USAGE, "output_tokens": 1}}
    listed = [{"type": "message_start", "message": start}, {"type": "ping"}]
    for index, block in enumerate(content):
        first, deltas = block, []
        if block["type"] == "text":
            first = {**block, "text": ""}
            deltas = [{"type": "text_delta", "text": each} for each in halves(block["text"])]
        elif block["type"] == "thinking":
            first = {"type": "thinking", "thinking": "", "signature": ""}
            texts = halves(block["thinking"])
            deltas = [{"type": "thinking_delta", "thinking": each} for each in texts]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
        elif block["type"].endswith("tool_use"):
            first = {**block, "input": {}}
            written = ["", *halves(json.dumps(block["input"]))]
            deltas = [{"type": "input_json_delta", "partial_json": each} for each in written]
        listed.append({"type": "content_block_start", "index": index, "content_block": first})
        listed += [
            {"type": "content_block_delta", "index": index, "delta": each} for each in deltas
        ]
        listed.append({"type": "content_block_stop", "index": index})
    delta = {"stop_reason": stop, "stop_sequence": None}
    listed.append({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 20}})
    return [*listed, {"type": "message_stop"}]


def halves(text):
    return [text[: len(text) // 2], text[len(text) // 2 :]]


def ask_model(*answers, on_text=None, backend="asyncio", **options):
    transport = FakeTransport(*answers)
    model = AnthropicModel("claude-x", client=transport.client("anthropic"), **options)
    return ask(model, prompt("anthropic"), on_text=on_text, backend=backend), transport


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("is_streamed", [False, True])
def test_every_block_comes_back_as_it_was_sent(is_streamed, backend):
    pieces = []
    answer = stream(ALL, "tool_use") if is_streamed else message(ALL, "tool_use")
    on_text = pieces.append if is_streamed else None
    reply, _ = ask_model(answer, on_text=on_text, backend=backend)
    assert reply.entries == ({"role": "assistant", "content": ALL},)
    # The order of keys, which the API does not mind, may be the SDK's; that of an input matters.
    assert json.dumps(reply.entries[0]["content"][-1]["input"]) == json.dumps(CALL["input"])
    assert (reply.stop, reply.text) == ("calls", "Berth 4 is free.")
    assert [(call.id, call.arguments()) for call in reply.calls] == [("toolu_1", CALL["input"])]
    assert reply.usage == Usage(read=100, written=30, written_1h=20, uncached=9, output=20)
    assert (reply.model, reply.id) == ("claude-x-20261101", "msg_1")
    assert "".join(pieces) == (reply.text if is_streamed else "")


def test_the_request_is_the_prompt_with_the_options_and_nothing_else():
    _, transport = ask_model(message([TEXT]), max_tokens=99, thinking={"type": "adaptive"})
    assert transport.requests == [
        {
            "model": "claude-x",
            "max_tokens": 99,
            "thinking": {"type": "adaptive"},
            "messages": [{"role": "user", "content": "Hi."}],
        }
    ]


def test_betas_go_to_the_beta_api():
    headers = []

    def answer(request):
        headers.append(request.headers["anthropic-beta"])
        return httpx.Response(200, json=message([TEXT]))

    client = anthropic.AsyncAnthropic(
        api_key="none", http_client=httpx.AsyncClient(transport=httpx.MockTransport(answer))
    )
    ask(AnthropicModel("claude-x", client=client, betas=["b-1"]), prompt("anthropic"))
    assert headers == ["b-1"]


def test_a_long_answer_is_streamed_unasked_since_the_sdk_would_not_wait_for_it():
    reply, transport = ask_model(stream([TEXT]), max_tokens=64_000)
    assert (reply.text, transport.requests[0]["stream"]) == ("Berth 4 is free.", True)


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize(
    ("content", "reason", "stop", "kept", "calls"),
    [
        ([TEXT], "stop_sequence", "answer", [TEXT], 0),
        ([TEXT], "max_tokens", "length", [TEXT], 0),
        ([TEXT], "model_context_window_exceeded", "length", [TEXT], 0),
        ([THINKING], "max_tokens", "length", [], 0),
        ([TEXT, {**CALL, "input": {}}], "max_tokens", "length", [TEXT], 0),
        ([CALL, {**CALL, "id": "toolu_2"}], "max_tokens", "calls", [CALL], 1),
        ([THINKING, CALL], "max_tokens", "length", [], 0),
        ([THINKING, TEXT, SEARCH], "pause_turn", "pause", [THINKING, TEXT, SEARCH], 0),
        ([COMPACTION], "compaction", "pause", [COMPACTION], 0),
        ([THINKING, TEXT, SEARCH], "max_tokens", "length", [THINKING, TEXT], 0),
        ([], "refusal", "refusal", [], 0),
        ([THINKING, TEXT, CALL], "refusal", "refusal", [TEXT], 0),
        ([], "end_turn", "answer", [], 0),
        ([{"type": "text", "text": ""}, CALL], "tool_use", "calls", [CALL], 1),
        ([{"type": "text", "text": "\n\n"}], "end_turn", "answer", [], 0),
        ([TEXT, THINKING], "end_turn", "answer", [TEXT], 0),
        ([TEXT], "a_reason_of_next_year", "answer", [TEXT], 0),
    ],
)
def test_what_it_stopped_for_and_what_of_it_can_be_sent_again(
    content, reason, stop, kept, calls, is_streamed
):
    answer = stream(content, reason) if is_streamed else message(content, reason)
    reply, _ = ask_model(answer, on_text=print if is_streamed else None)
    assert (reply.stop, len(reply.calls)) == (stop, calls)
    assert [each["content"] for each in reply.entries] == ([kept] if kept else [])
    # An answer of tool calls is still to be answered; what it is alone is checked here.
    history = [{"role": "user", "content": "Hi."}, *reply.entries]
    assert validate(history, format="anthropic") == [] or stop == "pause"


def test_citations_grow_with_their_text():
    cited = {"type": "char_location", "cited_text": "free", "document_index": 0}
    listed = stream([{**TEXT, "citations": []}])
    delta = {"type": "citations_delta", "citation": cited}
    listed.insert(4, {"type": "content_block_delta", "index": 0, "delta": delta})
    reply, _ = ask_model(listed, on_text=print)
    assert reply.entries[0]["content"] == [{**TEXT, "citations": [cited]}]


def test_an_input_that_is_no_json_is_wrapped_as_the_api_asks_for():
    listed = stream([CALL], "tool_use")
    broken = [event for event in listed if "delta" in event and "partial_json" in event["delta"]]
    broken[-1]["delta"]["partial_json"] = "!"
    reply, _ = ask_model(listed, on_text=print)
    (block,) = reply.entries[0]["content"]
    assert block["input"] == {"INVALID_JSON": broken[1]["delta"]["partial_json"] + "!"}
    assert reply.calls[0].arguments() == block["input"]


@pytest.mark.parametrize("count", range(1, 9))
def test_a_stream_that_ends_early_is_an_error_and_never_half_an_answer(count):
    listed = stream([TEXT, CALL], "tool_use")[:count]
    with pytest.raises(ProviderUnavailableError, match="ended before the answer was whole"):
        ask_model(listed, on_text=print)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_connection_that_breaks_in_the_midst_of_a_stream_is_one_too(backend):
    broken = sse(stream([TEXT])[:4], httpx.ReadError("reset by peer"))
    with pytest.raises(ProviderUnavailableError, match="broke off: ReadError: reset by peer"):
        ask_model(broken, on_text=print, backend=backend)


@pytest.mark.parametrize(
    "body", [{}, {"content": None}, {"content": ["text"]}, {"id": "msg_1", "type": "message"}]
)
def test_an_answer_of_another_shape_is_no_answer(body):
    with pytest.raises(ProviderUnavailableError, match="cannot be read"):
        ask_model(body)


def test_an_event_of_another_shape_is_no_answer():
    listed = stream([TEXT])
    del listed[3]["delta"]["type"]
    listed[3]["index"] = 7
    with pytest.raises(ProviderUnavailableError, match="cannot be read: KeyError: 7"):
        ask_model(listed, on_text=print)


def test_what_a_listener_raises_is_its_own():
    def listen(text):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        ask_model(stream([TEXT]), on_text=listen)


def test_mistakes_in_the_program_are_named():
    assert isinstance(AnthropicModel("claude-x"), Model)
    assert repr(AnthropicModel("claude-x", api_key="sk-secret")) == "AnthropicModel('claude-x')"
    with pytest.raises(InvalidArgumentError, match="'tools' as an option"):
        AnthropicModel("claude-x", tools=[])
    with pytest.raises(InvalidArgumentError, match="'cache_control' as an option"):
        AnthropicModel("claude-x", cache_control={"type": "ephemeral"})
    with pytest.raises(InvalidArgumentError, match="pass the async one, AsyncAnthropic"):
        AnthropicModel("claude-x", client=anthropic.Anthropic(api_key="none"))
    with pytest.raises(InvalidArgumentError, match="its own key"):
        AnthropicModel("claude-x", client=FakeTransport().client("anthropic"), api_key="sk")
    with pytest.raises(InvalidArgumentError, match="compiled for openai_chat"):
        ask(AnthropicModel("claude-x"), prompt("openai_chat"))
